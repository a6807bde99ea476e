"""Records that share their quasi-identifier values, and the sensitive values among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, factorize
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.normal import first_places, normal_forms
from privacy_engine.tables.persons import (
    PersonCounts,
    ValuesLeft,
    count_persons,
    people_of_classes,
    trajectory_labels,
    values_left,
)
from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True)
class SensitiveColumn:
    """A sensitive attribute of the records of a table.

    Attributes:
        codes: Integer, 0 .. size - 1, ascending with the values where they have an order, shape (n,); one for
            all spellings of a text, see `privacy_engine.tables.normal`.
        size: Number of values in play.
        hierarchy: Tree over the codes, None if the attribute has none.
        prior: Share of each value in the whole table, where these are the records of a part of it, shape
            (size,).
    """

    codes: npt.NDArray[np.int32]
    size: int
    hierarchy: Hierarchy | None = None
    prior: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True)
class SensitiveValues:
    """The values of a sensitive attribute in a whole table, of which only some records are available.

    Attributes:
        column: Distinct values, including null if there is one, shape (m,).
        codes: Code of each, as in `SensitiveColumn`: one for all spellings of a text, shape (m,) int32.
        size: Number of values in play.
        counts: Number of records of the whole table with each value, shape (size,) int64.
        hierarchy: Tree over the codes, None if the attribute has none.
        weights: Number of persons of the whole table with each value, shape (size,) float64; a person with
            several values counts in equal parts. None if each record counts as a person.

    >>> values = SensitiveValues.of(pd.Series(["flu", "cold"]), np.array([3, 1]), None)
    >>> values.codes.tolist(), values.prior.tolist()
    ([1, 0], [0.25, 0.75])
    """

    column: pd.Series
    codes: npt.NDArray[np.int32]
    size: int
    counts: npt.NDArray[np.int64]
    hierarchy: Hierarchy | None = None
    weights: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls, column: pd.Series, counts: npt.NDArray[np.int64], attribute: Attribute | None
    ) -> "SensitiveValues":
        """Build it from the distinct values (m,) and the number of records (m,) with each, in any order."""
        coded = _sensitive_column(column, attribute)
        totals = np.zeros(coded.size, dtype=np.int64)
        np.add.at(totals, coded.codes, counts)
        return cls(column.reset_index(drop=True), coded.codes, coded.size, totals, coded.hierarchy)

    @property
    def prior(self) -> npt.NDArray[np.float64]:
        """(size,) share of each value in the whole table, by persons if known."""
        if self.weights is not None:
            return self.weights / max(float(self.weights.sum()), 1.0)
        return self.counts / max(int(self.counts.sum()), 1)


@dataclass(frozen=True)
class ClassCounts:
    """Frequency of each sensitive value in each class; only values that occur, sorted by class.

    If the person of each row is known, a person counts once in a class, in equal parts for each of the
    person's distinct values there, see `privacy_engine.tables.persons`.

    Attributes:
        classes, values, counts: One entry for each value that occurs in a class, shape (e,); counts > 0:
            records with the value, or the weight (float64) of the persons with it.
        starts: First entry of each class, shape (c,).
        prior: Share of each value in the whole table, shape (size,) float64.
        sizes: Number of persons in each class, shape (c,); records, if each counts as a person.
        persons: Number of persons with the value in the class, shape (e,); None: as `counts`.
        fingerprints: Number of distinct sets of values that persons have in each class, shape (c,); cut off
            at the number of values of the attribute; None: as many as values.
    """

    classes: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    starts: npt.NDArray[np.int64]
    prior: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]
    persons: npt.NDArray[np.int64] | None = None
    fingerprints: npt.NDArray[np.int64] | None = None

    @property
    def distinct(self) -> npt.NDArray[np.int64]:
        """(c,) distinct values in each class, or fingerprints if these are fewer.

        Ten persons who all have the same three values are not distinguished by them.
        """
        values = np.bincount(self.classes, minlength=len(self.sizes))
        return values if self.fingerprints is None else np.minimum(values, self.fingerprints)

    @property
    def coverage(self) -> npt.NDArray[np.float64]:
        """(e,) share of the persons of a class who have the value."""
        return self.shares if self.persons is None else self.persons / self.sizes[self.classes]

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of the value in its class, (e,); the shares of a class add up to 1."""
        return np.asarray(self.counts / self.sizes[self.classes], dtype=np.float64)

    def dense(self, first: int, last: int) -> npt.NDArray[np.float64]:
        """(last - first, size) shares of all values in the classes ``first .. last - 1``."""
        end = self.starts[last] if last < len(self.starts) else len(self.classes)
        part = slice(self.starts[first], end)
        out = np.zeros((last - first, len(self.prior)))
        out[self.classes[part] - first, self.values[part]] = self.shares[part]
        return out


class Sensitive(Protocol):
    """A sensitive attribute of classes."""

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The tree over its codes; None if there is none."""


class Classes(Protocol):
    """Classes of records as models see them: their sizes, and the sensitive values in each."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(c,) records in each class."""

    @property
    def people(self) -> npt.NDArray[np.int64]:
        """(c,) distinct persons in each class; records, if each counts as a person."""

    @property
    def sensitive(self) -> Mapping[str, Sensitive]:
        """Sensitive attribute -> its description."""

    @property
    def records(self) -> int:
        """Records in all of the classes."""

    def __len__(self) -> int: ...

    def counts(self, attribute: str) -> ClassCounts:
        """Sensitive values of each class; `SchemaError` if the attribute is not sensitive."""


@dataclass(frozen=True)
class EquivalenceClasses:
    """The classes of a table: a partition of its records. Null is a value like any other.

    Attributes:
        labels: Class of each record, 0 .. c - 1, shape (n,) int64.
        sensitive: Sensitive attribute -> its column.
        persons: Person of each record, shape (n,) int64, >= 0; None: each record counts as a person.

    >>> table = pd.DataFrame({"zip": ["1*", "1*", "2*"], "disease": ["flu", "flu", "cold"]})
    >>> EquivalenceClasses.of_columns(table, ["zip"], ["disease"]).sizes.tolist()
    [2, 1]
    """

    labels: npt.NDArray[np.int64]
    sensitive: Mapping[str, SensitiveColumn] = field(default_factory=dict)
    persons: npt.NDArray[np.int64] | None = None
    _counted: dict[str, ClassCounts] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(c,) records in each class."""
        return np.bincount(self.labels)

    @cached_property
    def people(self) -> npt.NDArray[np.int64]:
        """(c,) distinct persons in each class; records, if each counts as a person."""
        if self.persons is None:
            return self.sizes
        return people_of_classes(self.labels, self.persons, len(self.sizes))

    @property
    def records(self) -> int:
        """Records in all of the classes."""
        return len(self.labels)

    def __len__(self) -> int:
        return len(self.sizes)

    def counts(self, attribute: str) -> ClassCounts:
        """Sensitive values of each class.

        Raises:
            SchemaError: If the attribute is not a sensitive one of the table.
        """
        _require_sensitive(attribute, self.sensitive)
        if attribute not in self._counted:  # several models use the same
            column = self.sensitive[attribute]
            by_person = self.persons is not None
            self._counted[attribute] = self._by_person(column) if by_person else self._by_row(column)
        return self._counted[attribute]

    def _by_row(self, column: SensitiveColumn) -> ClassCounts:
        pairs, counts = _unique_counts(self.labels * column.size + column.codes, len(self) * column.size)
        classes, values = np.divmod(pairs, max(column.size, 1))
        prior = column.prior
        if prior is None:
            prior = np.bincount(column.codes, minlength=column.size) / max(len(self.labels), 1)
        return ClassCounts(
            classes=classes,
            values=values,
            counts=counts,
            starts=np.searchsorted(classes, np.arange(len(self))),
            prior=prior,
            sizes=self.sizes,
        )

    def _by_person(self, column: SensitiveColumn) -> ClassCounts:
        assert self.persons is not None
        found = count_persons(self.labels, self.persons, column.codes, column.size)
        prior = column.prior
        if prior is None:
            together = np.zeros_like(self.labels)
            whole = count_persons(together, self.persons, column.codes, column.size)
            prior = np.zeros(column.size)
            prior[whole.values] = whole.weights / max(float(whole.weights.sum()), 1.0)
        return ClassCounts(
            classes=found.classes,
            values=found.values,
            counts=found.weights,
            starts=np.searchsorted(found.classes, np.arange(len(self))),
            prior=prior,
            sizes=self.people,
            persons=found.persons,
            fingerprints=found.fingerprints,
        )

    def values_left(self, attribute: str) -> ValuesLeft:
        """Return the values left to someone who knows all rows of a person, see `persons.values_left`.

        Raises:
            SchemaError: If the attribute is not a sensitive one of the table.
        """
        _require_sensitive(attribute, self.sensitive)
        persons = np.arange(self.records) if self.persons is None else self.persons
        return values_left(self.labels, persons, self.sensitive[attribute].codes)

    @classmethod
    def of_table(
        cls, table: pd.DataFrame, schema: DataSchema, persons: npt.NDArray[Any] | None = None
    ) -> "EquivalenceClasses":
        """Compute the classes of a released table from its columns only.

        Args:
            table: Released records, from which the classes are computed.
            schema: Schema of the released records.
            persons: Person of each record, numbers or texts, shape (n,); None: each record counts as a
                person. If rows are linked, the table's own pseudonyms identify persons, and a class consists
                of whole trajectories.
        """
        labels = class_labels([table[a.name] for a in schema.quasi_identifiers], len(table))
        coded = None if persons is None else schema.person_codes(persons)
        if schema.linked:
            coded = class_labels([table[schema.by]], len(table))
            labels = trajectory_labels(labels, coded)
        return cls(
            labels=labels,
            sensitive={a.name: _sensitive_column(table[a.name], a) for a in schema.sensitive},
            persons=coded,
        )

    @classmethod
    def of_columns(
        cls, table: pd.DataFrame, quasi_identifiers: Sequence[str], sensitive: Sequence[str] = ()
    ) -> "EquivalenceClasses":
        """Compute the classes of a table from column names, without a schema."""
        labels = class_labels([table[name] for name in quasi_identifiers], len(table))
        return cls(
            labels=labels, sensitive={name: _sensitive_column(table[name], None) for name in sensitive}
        )


@dataclass(frozen=True)
class CountedClasses:
    """Some of the classes of a table, each complete, known only by their counts.

    Attributes:
        sizes: Records in each class, shape (c,) int64.
        entries: Sensitive attribute -> frequency of each of its values in each class.
        sensitive: Sensitive attribute -> its values in the whole table.
        persons: Distinct persons in each class, shape (c,) int64; None: each record counts as a person.
    """

    sizes: npt.NDArray[np.int64]
    entries: Mapping[str, ClassCounts]
    sensitive: Mapping[str, SensitiveValues]
    persons: npt.NDArray[np.int64] | None = None

    @property
    def people(self) -> npt.NDArray[np.int64]:
        """(c,) distinct persons in each class; records, if each counts as a person."""
        return self.sizes if self.persons is None else self.persons

    @property
    def records(self) -> int:
        """Records in all of the classes."""
        return int(self.sizes.sum())

    def __len__(self) -> int:
        return len(self.sizes)

    def counts(self, attribute: str) -> ClassCounts:
        """Sensitive values of each class.

        Raises:
            SchemaError: If the attribute is not a sensitive one of the table.
        """
        _require_sensitive(attribute, self.sensitive)
        return self.entries[attribute]

    @classmethod
    def of_entries(
        cls,
        sizes: npt.NDArray[np.int64],
        entries: Mapping[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]],
        sensitive: Mapping[str, SensitiveValues],
    ) -> "CountedClasses":
        """Build them from counted entries in any order.

        Args:
            sizes: Records in each class, shape (c,).
            entries: Sensitive attribute -> classes, codes and counts, (e,) each; no class and code twice.
            sensitive: Sensitive attribute -> its values in the whole table.

        >>> values = SensitiveValues.of(pd.Series(["flu", "cold"]), np.array([3, 1]), None)
        >>> entries = {"illness": (np.array([1, 0, 1]), np.array([1, 1, 0]), np.array([1, 2, 1]))}
        >>> part = CountedClasses.of_entries(np.array([2, 2]), entries, {"illness": values})
        >>> part.counts("illness").shares.tolist()
        [1.0, 0.5, 0.5]
        """
        counted = {}
        for name, (classes, values, counts) in entries.items():
            order = np.argsort(classes * max(sensitive[name].size, 1) + values, kind="stable")
            counted[name] = ClassCounts(
                classes=classes[order],
                values=values[order],
                counts=counts[order],
                starts=np.searchsorted(classes[order], np.arange(len(sizes))),
                prior=sensitive[name].prior,
                sizes=sizes,
            )
        return cls(sizes=sizes, entries=counted, sensitive=sensitive)

    @classmethod
    def of_people(
        cls,
        sizes: npt.NDArray[np.int64],
        people: npt.NDArray[np.int64],
        counted: Mapping[str, PersonCounts],
        sensitive: Mapping[str, SensitiveValues],
    ) -> "CountedClasses":
        """Build them from the sensitive values of the persons in each class.

        Args:
            sizes: Records in each class, shape (c,).
            people: Distinct persons in each class, shape (c,).
            counted: Sensitive attribute -> its values among them.
            sensitive: Sensitive attribute -> its values in the whole table, with their weights.
        """
        entries = {
            name: ClassCounts(
                classes=found.classes,
                values=found.values,
                counts=found.weights,
                starts=np.searchsorted(found.classes, np.arange(len(sizes))),
                prior=sensitive[name].prior,
                sizes=people,
                persons=found.persons,
                fingerprints=found.fingerprints,
            )
            for name, found in counted.items()
        }
        return cls(sizes=sizes, entries=entries, sensitive=sensitive, persons=people)


def _require_sensitive(attribute: str, known: Mapping[str, Sensitive]) -> None:
    if attribute not in known:
        raise SchemaError(
            f"{attribute!r} is not a sensitive attribute of the table, which has {sorted(known)}"
        )


def class_labels(columns: Sequence[pd.Series], n: int) -> npt.NDArray[np.int64]:
    """(n,) int64 class of each record: equal where all columns are equal; the index is ignored."""
    labels = np.zeros(n, dtype=np.int64)
    for column in columns:
        coded = factorize(column)
        size = len(coded.values) + 1  # a null is one more value
        # at most n * size <= 2**62 for any table that fits in memory, so the key never overflows
        labels = pd.factorize(labels * size + coded.codes + 1)[0].astype(np.int64)
    return labels


def _sensitive_column(column: pd.Series, attribute: Attribute | None) -> SensitiveColumn:
    coded = factorize(column)
    texts = coded.texts
    counted = normal_forms if attribute is None else attribute.counted_as
    forms = counted(texts)
    tree = attribute.hierarchy if attribute is not None else None
    if tree is not None and set(texts) <= set(tree.values):
        leaf = first_places(counted(tree.values))
        tree = tree.with_leaf(NULL) if coded.nulls else tree
        codes = np.array([*(leaf[form] for form in forms), len(tree.values) - 1], dtype=np.int32)
        return SensitiveColumn(codes[coded.codes], len(tree.values), tree)
    if attribute is not None and attribute.categories is not None:
        place = {value: i for i, value in enumerate(attribute.categories)}
        ascending = coded.ascending()  # values outside of the categories come last, in this order
        order = ascending[np.argsort([place.get(texts[i], len(place)) for i in ascending], kind="stable")]
    else:
        order = coded.ascending()
    number = {form: n for n, form in enumerate(dict.fromkeys(forms[i] for i in order))}
    size = len(number)
    rank = np.array([*(number[form] for form in forms), size], dtype=np.int32)  # a null is the last value
    return SensitiveColumn(rank[coded.codes], size + bool(coded.nulls))


def _unique_counts(
    keys: npt.NDArray[np.int64], span: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return distinct keys, ascending, and their frequency; counted if the span allows, else sorted."""
    if span <= 4 * len(keys) + 1024:
        counts = np.bincount(keys, minlength=span)
        present = np.flatnonzero(counts)
        return present, counts[present]
    found, counts = np.unique(keys, return_counts=True)
    return found, counts
