"""Classes of records that arrive sorted by class, and by person within each class.

Records sorted by class can be spilled to disk, are sent once, and need no list of what is in a class: classes
are counted as they pass. Memory holds one batch of records, and the counts of the one class that continues in
the next batch: at most the number of distinct values of that class, however many records and persons it has.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as t

from privacy_engine.errors import IntegrityError
from privacy_engine.tables.classes import CountedClasses, SensitiveValues
from privacy_engine.tables.persons import ValueParts, counted_rows, value_parts

Ints = npt.NDArray[np.int64]


def ordered_classes(
    batches: Iterable[pa.RecordBatch], sensitive: Mapping[str, SensitiveValues], *, by_person: bool
) -> Iterator[CountedClasses]:
    """Yield the classes of records sorted by class, part by part; each class is in one part, complete.

    Args:
        batches: Records. Their columns are the values that a class shares, the person if `by_person`, and a
            code for each sensitive attribute. Each class is one run of records, and each person one run
            within it.
        sensitive: Sensitive attribute -> its values in the whole table.
        by_person: Whether a person counts once in a class, instead of each record.

    Raises:
        IntegrityError: If a code is null or negative, so that the value is not a known one.
    """
    sizes = {name: values.size for name, values in sensitive.items()}
    for counts in _ordered_counts(batches, sizes, by_person):
        if by_person:
            counted = {name: own.counts(len(counts.sizes)) for name, own in counts.parts.items()}
            yield CountedClasses.of_people(counts.sizes, counts.people, counted, sensitive)
        else:
            entries = {name: (own.classes, own.values, own.persons) for name, own in counts.parts.items()}
            yield CountedClasses.of_entries(counts.sizes, entries, sensitive)
        del counts


def ordered_parts(batches: Iterable[pa.RecordBatch], size: int) -> ValueParts | None:
    """Return how the persons of all records share a column's values, as one class; None without records.

    Args:
        batches: Records sorted by person: a column that is the same in all of them, the person, and the code
            of a value.
        size: Number of values.
    """
    return next((counts.parts["value"] for counts in _ordered_counts(batches, {"value": size}, True)), None)


def _ordered_counts(
    batches: Iterable[pa.RecordBatch], values: Mapping[str, int], by_person: bool
) -> "Iterator[_Counts]":
    """Yield the counts of complete classes, some at a time."""
    waiting: pa.Table | None = None  # records of the last person so far, who may have more
    begun = [_Counts.none(values)]  # counts of the last class so far, without that person
    for batch in batches:
        if not batch.num_rows:
            continue
        came = pa.Table.from_batches([batch])
        rows = came if waiting is None else pa.concat_tables([waiting, came])
        of, person = _runs(rows, len(values), by_person)
        end, whole = int(np.searchsorted(person, person[-1])), int(of[-1])
        begun.append(_Counts.of(rows.slice(0, end), of[:end], person[:end], values, by_person))
        # Many entries are not added up again for each batch, or a large class would never finish.
        while len(begun) > 1 and (whole or begun[-1].entries >= begun[-2].entries):
            begun[-2:] = [begun[-2].plus(begun[-1], values)]
        if whole:
            yield begun[0].part(0, whole)
            begun = [begun[0].part(whole, whole + 1)]
        waiting, repeated = _distinct(rows.slice(end), len(values))
        begun[0].sizes[0] += repeated
        del rows
    if waiting is not None:
        one = np.zeros(len(waiting), np.int64)
        begun.append(_Counts.of(waiting, one, one, values, by_person))
        yield reduce(lambda some, more: some.plus(more, values), begun)


@dataclass(frozen=True)
class _Counts:
    """Counts of classes, to which counts of further persons of the same classes can be added.

    Attributes:
        sizes, people: Numbers of records and persons in each class, shape (c,).
        parts: Sensitive attribute -> its values by class.
    """

    sizes: Ints
    people: Ints
    parts: Mapping[str, ValueParts]

    @classmethod
    def none(cls, values: Iterable[str]) -> "_Counts":
        """Return the counts of one class without records."""
        nothing, no_sets = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        empty = ValueParts(nothing, nothing, nothing, nothing, nothing, no_sets)
        return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), dict.fromkeys(values, empty))

    @classmethod
    def of(
        cls, rows: pa.Table, of: Ints, person: Ints, values: Mapping[str, int], by_person: bool
    ) -> "_Counts":
        """Count records whose class (n,) and pair of class and person (n,) are numbered without gaps."""
        starts = np.flatnonzero(np.diff(person, prepend=-1))
        parts = {}
        for column, (name, size) in zip(_codes(rows, len(values)), values.items(), strict=True):
            codes = column.to_numpy().astype(np.int64) if not column.null_count else np.full(1, -1)
            if (codes < 0).any():
                raise changed_values()
            if by_person:
                parts[name] = value_parts(of[starts], person, codes, size)
            else:
                parts[name] = _row_parts(of, codes)
        return cls(np.bincount(of, minlength=1), np.bincount(of[starts], minlength=1), parts)

    @property
    def entries(self) -> int:
        """Number of entries."""
        return sum(len(own.classes) + len(own.sets) for own in self.parts.values())

    def plus(self, other: "_Counts", values: Mapping[str, int]) -> "_Counts":
        """Add counts of further persons, whose first class is the same."""
        sizes, people = (np.zeros(max(len(self.sizes), len(other.sizes)), np.int64) for _ in range(2))
        for one in (self, other):
            sizes[: len(one.sizes)] += one.sizes
            people[: len(one.people)] += one.people
        if not self.entries:
            return _Counts(sizes, people, other.parts)
        parts = {name: self.parts[name].plus(other.parts[name], size) for name, size in values.items()}
        return _Counts(sizes, people, parts)

    def part(self, first: int, last: int) -> "_Counts":
        """Return the classes ``first .. last - 1``; the last ones may have no counts yet."""
        sizes, people = (np.zeros(last - first, np.int64) for _ in range(2))
        known = min(last, len(self.sizes))
        sizes[: known - first] = self.sizes[first:known]
        people[: known - first] = self.people[first:known]
        return _Counts(sizes, people, {name: own.part(first, last) for name, own in self.parts.items()})


def _row_parts(of: Ints, codes: Ints) -> ValueParts:
    """Like `value_parts`, if each record belongs to another person."""
    (classes, values), rows = counted_rows((of, codes))
    return ValueParts(classes, values, np.ones_like(rows), rows, classes[:0], np.zeros(0, np.uint64))


def _codes(rows: pa.Table, sensitive: int) -> list[pa.ChunkedArray]:
    return rows.columns[rows.num_columns - sensitive :]  # type: ignore[no-any-return]


def _runs(rows: pa.Table, sensitive: int, by_person: bool) -> tuple[Ints, Ints]:
    """(n,) the class, and (n,) the pair of class and person of each record, numbered in order."""
    columns = [column.combine_chunks() for column in rows.columns[: rows.num_columns - sensitive]]
    shared = columns[:-1] if by_person else columns
    changes = np.zeros(len(rows), np.bool_)
    for column in shared:
        changes[1:] |= _changes(column)
    classes = np.cumsum(changes, dtype=np.int64)
    if not by_person:
        return classes, np.arange(len(rows), dtype=np.int64)
    changes[1:] |= _changes(columns[-1])
    return classes, np.cumsum(changes, dtype=np.int64)


def _changes(column: pa.Array) -> npt.NDArray[np.bool_]:
    """(n - 1,) whether a value differs from the one before it; all nulls are equal."""
    if column.null_count or not t.is_integer(column.type):
        column = column.dictionary_encode(null_encoding="encode").indices
    values = column.to_numpy(zero_copy_only=False)
    different: npt.NDArray[np.bool_] = values[1:] != values[:-1]
    return different


def _distinct(rows: pa.Table, sensitive: int) -> tuple[pa.Table, int]:
    """Remove a person's repeated values within a class. Return the records and how many had repeats."""
    if len(rows) == 1:
        return rows, 0
    columns = [column.to_numpy() for column in _codes(rows, sensitive)] or [np.zeros(len(rows))]
    kept = np.unique(np.column_stack(columns), axis=0, return_index=True)[1]
    return rows.take(kept), len(rows) - len(kept)


def changed_values() -> IntegrityError:
    """Return the error for counts that no longer match an earlier count."""
    return IntegrityError(
        "sensitive values differ from those that were counted before, because the files changed while they "
        "were read. Run the release again"
    )
