"""Classes of records that come in the order of their class, and of their person within it.

Whoever sorts records by class can spill them, sends each once, and needs no list of what is in a class: it is
counted as it goes by. What is in memory is a batch of records, and the counts of the one class that goes on
in the next batch: no more than the class has distinct values, however many records and persons it has.
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
    """The classes of records in the order of their class, part by part; each class is in one part, whole.

    Args:
        batches: of the records. The columns are what a class shares, which person a record is of if
            `by_person`, and a code for each sensitive attribute; a class is in one run of records, and in it
            each person.
        sensitive: sensitive attribute -> its values in the whole table.
        by_person: whether a person counts one in a class, and not each record.

    Raises:
        IntegrityError: if a code is null or negative: a value that is not among the known ones.
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
    """How the persons of all records share the values of a column, as of one class; None without records.

    Args:
        batches: of the records in the order of their person: a column that is the same in all of them, the
            person, and the code of a value.
        size: number of values.
    """
    return next((counts.parts["value"] for counts in _ordered_counts(batches, {"value": size}, True)), None)


def _ordered_counts(
    batches: Iterable[pa.RecordBatch], values: Mapping[str, int], by_person: bool
) -> "Iterator[_Counts]":
    """What is counted of whole classes, some at a time."""
    waiting: pa.Table | None = None  # records of the last person so far: there may be more of them
    begun = [_Counts.none(values)]  # of the last class so far, but for that person
    for batch in batches:
        if not batch.num_rows:
            continue
        came = pa.Table.from_batches([batch])
        rows = came if waiting is None else pa.concat_tables([waiting, came])
        of, person = _runs(rows, len(values), by_person)
        end, whole = int(np.searchsorted(person, person[-1])), int(of[-1])
        begun.append(_Counts.of(rows.slice(0, end), of[:end], person[:end], values, by_person))
        # What has many entries is not added up again for each batch, or a large class would take for ever.
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
    """Counts of classes, to which those of other persons of the same classes can be added.

    Attributes:
        sizes, people: (c,) records and persons in each class.
        parts: sensitive attribute -> how its values stand in the classes.
    """

    sizes: Ints
    people: Ints
    parts: Mapping[str, ValueParts]

    @classmethod
    def none(cls, values: Iterable[str]) -> "_Counts":
        """Of one class without records."""
        nothing, no_sets = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        empty = ValueParts(nothing, nothing, nothing, nothing, nothing, no_sets)
        return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), dict.fromkeys(values, empty))

    @classmethod
    def of(
        cls, rows: pa.Table, of: Ints, person: Ints, values: Mapping[str, int], by_person: bool
    ) -> "_Counts":
        """Of records whose class (n,) and pair of class and person (n,) are numbered, without gaps."""
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
        """How many there are."""
        return sum(len(own.classes) + len(own.sets) for own in self.parts.values())

    def plus(self, other: "_Counts", values: Mapping[str, int]) -> "_Counts":
        """Both together: of the same first class, and of other persons."""
        sizes, people = (np.zeros(max(len(self.sizes), len(other.sizes)), np.int64) for _ in range(2))
        for one in (self, other):
            sizes[: len(one.sizes)] += one.sizes
            people[: len(one.people)] += one.people
        if not self.entries:
            return _Counts(sizes, people, other.parts)
        parts = {name: self.parts[name].plus(other.parts[name], size) for name, size in values.items()}
        return _Counts(sizes, people, parts)

    def part(self, first: int, last: int) -> "_Counts":
        """Of the classes ``first .. last - 1``, of which the last ones may have no counts yet."""
        sizes, people = (np.zeros(last - first, np.int64) for _ in range(2))
        known = min(last, len(self.sizes))
        sizes[: known - first] = self.sizes[first:known]
        people[: known - first] = self.people[first:known]
        return _Counts(sizes, people, {name: own.part(first, last) for name, own in self.parts.items()})


def _row_parts(of: Ints, codes: Ints) -> ValueParts:
    """The same as `value_parts`, where each record is of another person."""
    (classes, values), rows = counted_rows((of, codes))
    return ValueParts(classes, values, np.ones_like(rows), rows, classes[:0], np.zeros(0, np.uint64))


def _codes(rows: pa.Table, sensitive: int) -> list[pa.ChunkedArray]:
    return rows.columns[rows.num_columns - sensitive :]  # type: ignore[no-any-return]


def _runs(rows: pa.Table, sensitive: int, by_person: bool) -> tuple[Ints, Ints]:
    """(n,) the class, and (n,) the pair of class and person of each record, numbered as they come."""
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
    """(n - 1,) whether a value is another than the one before it; all nulls are one value."""
    if column.null_count or not t.is_integer(column.type):
        column = column.dictionary_encode(null_encoding="encode").indices
    values = column.to_numpy(zero_copy_only=False)
    different: npt.NDArray[np.bool_] = values[1:] != values[:-1]
    return different


def _distinct(rows: pa.Table, sensitive: int) -> tuple[pa.Table, int]:
    """The records of one person in a class without those that repeat their values, and how many do."""
    if len(rows) == 1:
        return rows, 0
    columns = [column.to_numpy() for column in _codes(rows, sensitive)] or [np.zeros(len(rows))]
    kept = np.unique(np.column_stack(columns), axis=0, return_index=True)[1]
    return rows.take(kept), len(rows) - len(kept)


def changed_values() -> IntegrityError:
    """Whatever was counted before is no longer so."""
    return IntegrityError(
        "sensitive values must be those that were counted before, got others: the files changed while they "
        "were read; run the release again"
    )
