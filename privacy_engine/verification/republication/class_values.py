"""The multiset of sensitive values in each class of a release, in whole numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]  # many releases are held in memory together


@dataclass(frozen=True, kw_only=True)
class ClassValues:
    """Number of occurrences of each value of a sensitive attribute in each class.

    Attributes:
        classes: Class of each entry, shape (e,) int32, ascending; one entry for each value in a class.
        values: Index of the value in `texts`, shape (e,) int32.
        records: Published records with the value, counterfeits included, shape (e,) int32.
        persons: Persons with the value, shape (e,) int32; fewer than records if persons have several.
        texts: Distinct values as they are compared, such as their hashes, shape (v,).

    >>> found = ClassValues.of_records(np.array([0, 0, 1]), np.array([1, 1, 0]), ("flu", "hiv"))
    >>> found.to_json(), ClassValues.from_json(found.to_json()) == found
    (['{"hiv": [2, 2]}', '{"flu": [1, 1]}'], True)
    """

    classes: Small
    values: Small
    records: Small
    persons: Small
    texts: tuple[str, ...]

    def __eq__(self, other: object) -> bool:
        """Return whether the classes have the same multisets."""
        return isinstance(other, ClassValues) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # consists of arrays

    @classmethod
    def of_records(
        cls,
        labels: Ints,
        codes: Ints,
        texts: Sequence[str],
        real: npt.NDArray[np.bool_] | None = None,
        people: Ints | None = None,
    ) -> ClassValues:
        """Count records.

        Args:
            labels: Class of each record, shape (n,) int64, >= 0.
            codes: Index of each record's value in `texts`, shape (n,) int64.
            texts: Distinct values, shape (v,).
            real: Whether the record belongs to a person, shape (n,); None: each does.
            people: Person of each record, shape (n,), 0 .. P - 1; None: each person has one record.
        """
        size = max(len(texts), 1)
        keys, which = np.unique(labels.astype(np.int64) * size + codes, return_inverse=True)
        records = _counts(which, len(keys))
        persons = records
        if people is not None:
            persons = people_of(which, people, len(keys)).astype(np.int32)
        elif real is not None and not real.all():
            persons = _counts(which[real], len(keys))
        classes, values = (part.astype(np.int32) for part in np.divmod(keys, size))
        return cls(classes=classes, values=values, records=records, persons=persons, texts=tuple(texts))

    @classmethod
    def from_json(cls, classes: Sequence[str]) -> ClassValues:
        """Read the output of `to_json`.

        Raises:
            ValueError: If a text does not have that form.
        """
        places: dict[str, int] = {}
        found = []
        for label, text in enumerate(classes):
            entries = json.loads(text)
            if not isinstance(entries, dict):
                raise ValueError("the values of a class must be a mapping")
            for value, (records, persons) in entries.items():
                found.append((label, places.setdefault(value, len(places)), int(records), int(persons)))
        columns = np.array(found, dtype=np.int32).reshape(-1, 4).T
        names = ("classes", "values", "records", "persons")
        return cls(**dict(zip(names, columns, strict=True)), texts=tuple(places))

    def to_json(self) -> list[str]:
        """Return for each class 0 .. c - 1 a mapping of its values to their records and persons, as text."""
        found: list[dict[str, tuple[int, int]]] = [{} for _ in range(int(self.classes.max(initial=-1)) + 1)]
        entries = (self.classes, self.values, self.records, self.persons)
        for label, value, records, persons in zip(*(column.tolist() for column in entries), strict=True):
            found[label][self.texts[value]] = (records, persons)
        return [json.dumps(values, sort_keys=True) for values in found]


def people_of(groups: Ints, people: Ints | None, size: int = 0) -> Ints:
    """(g,) the number of persons in each group.

    Args:
        groups: Group of each record, shape (n,), 0 .. g - 1.
        people: Person of each record, shape (n,), 0 .. P - 1; None: each person has one record.
        size: Least number of groups.

    >>> (
    ...     people_of(np.array([0, 0, 1]), np.array([4, 4, 4])).tolist(),
    ...     people_of(np.array([0, 0]), None).tolist(),
    ... )
    ([1, 1], [2])
    """
    if people is None:
        return np.bincount(groups, minlength=size)
    from privacy_engine.tables.persons import people_of_classes  # it loads pandas

    return people_of_classes(groups, people, size)


def _counts(places: Ints, size: int) -> Small:
    return np.bincount(places, minlength=size).astype(np.int32)
