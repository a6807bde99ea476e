"""The person of each row, and the persons of a class of rows.

The guarantee is about people, not rows. If a person may have several rows, a class is counted by persons:
after Gong, Luo, Yang, Ni, Li, "Anonymizing 1:M microdata with high utility" (2017), and Poulis, Loukides,
Gkoulalas-Divanis, Skiadopoulos, "Anonymizing data with relational and transaction attributes" (2013). For a
class C with the persons P(C), and a sensitive attribute:

* the fingerprint F(p) of a person is the set of distinct values that p has in C;
* the distribution is q(s) = 1/|P(C)| sum over p with s in F(p) of 1/|F(p)|: a person weighs one;
* the coverage is c(s) = |{p : s in F(p)}| / |P(C)|: the probability that a person of the class has s.

With one row per person, both are the share of the records with s.

If a pseudonym in the release links the rows of a person, the composite quasi-identifier of a person is the
multiset of the quasi-identifiers of all the person's rows, a trajectory, and a class consists of persons with
equal trajectories. The rows may come from several tables: they are stacked in one table, whose column `TABLE`
names the table of each row and is a quasi-identifier as well; columns that a table lacks are null in its
rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError
from privacy_engine.tables.normal import normal

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Rows(StrEnum):
    """Whether a release links the rows of one person."""

    INDEPENDENT = "independent"  # nothing links them
    LINKED = "linked"  # a pseudonym links them, so a class consists of whole trajectories


TABLE = "table_name"  # column with the table of each row, if there are several


@dataclass(frozen=True, kw_only=True)
class LinkedTable:
    """One of several tables about the same persons.

    Attributes:
        name: Name of the table, as in `TABLE`.
        columns: Columns of the table, without that of the person.
        carried: Columns of a table of another table, with one row per person, whose released values are added
            to its rows.

    Raises:
        SchemaError: If it has no column.
    """

    name: str
    columns: tuple[str, ...]
    carried: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("columns", "carried"):
            given: object = getattr(self, field)
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise SchemaError(f"table {self.name!r}: {field} must be a list of names of columns")
            object.__setattr__(self, field, tuple(given))
        if not self.columns:
            raise SchemaError(f"table {self.name!r} must have a column in addition to that of the person")

    def to_dict(self) -> dict[str, list[str]]:
        """Return the columns, and those that are carried to the table, if any."""
        values = {"columns": list(self.columns), "carried": list(self.carried)}
        return {name: columns for name, columns in values.items() if columns}


@dataclass(frozen=True, kw_only=True)
class Person:
    """The person of each row.

    Attributes:
        column: Identifier that names the person of a row; a person may have several rows. None: each row
            belongs to another person.
        none: Reason why each row belongs to another person although an identifier repeats, for the manifest.
        rows: Whether the release links the rows of a person, by a pseudonym in ``column``.
        tables: Tables of the rows, at least two; empty if there is only one.

    Raises:
        SchemaError: Unless exactly one of column and none is given; if rows are linked without a column, or
            of several tables and not linked.
    """

    column: str | None = None
    none: str | None = None
    rows: Rows = Rows.INDEPENDENT
    tables: tuple[LinkedTable, ...] = ()

    def __post_init__(self) -> None:
        for name in ("column", "none"):
            given: object = getattr(self, name)
            if given is not None and not (isinstance(given, str) and given.strip()):
                raise SchemaError(f"person: {name} must be a text that is not blank")
        if (self.column is None) == (self.none is None):
            raise SchemaError(
                "person must be the name of the column with the person of each row, or `none: <reason>` "
                "if each row belongs to another person"
            )
        try:
            object.__setattr__(self, "rows", choice(Rows, self.rows, "rows"))
        except ValueError as error:
            raise SchemaError(f"person: {error}") from None
        if self.linked and self.column is None:
            raise SchemaError("person: rows can only be linked if column names the person of each")
        if self.tables and not self.linked:
            raise SchemaError(
                "person: the rows of several tables share a pseudonym, so they are linked. Write "
                "`rows: linked`"
            )
        names = [table.name for table in self.tables]
        if len(names) == 1 or len(set(names)) < len(names):
            raise SchemaError(f"person: tables must be two or more with different names, got {len(names)}")

    @property
    def linked(self) -> bool:
        """Whether a pseudonym links the rows of a person in the release."""
        return self.rows is Rows.LINKED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``; rows only if they are linked."""
        tables = {table.name: table.to_dict() for table in self.tables}
        values = {
            "column": self.column,
            "none": self.none,
            "rows": self.rows.value if self.linked else None,
            "tables": tables or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, given: Any) -> "Person":
        """Read a column's name, or a mapping.

        Raises:
            SchemaError: If it is neither, or has unknown fields.
        """
        if isinstance(given, str):
            if given == "none":
                raise SchemaError(
                    "person: none requires the reason why each row belongs to another person. Write "
                    "`person: {none: <reason>}`"
                )
            return cls(column=given)
        if not isinstance(given, Mapping):
            raise SchemaError("person must be the name of a column, or `none: <reason>`")
        if unknown := sorted(set(map(str, given)) - PERSON_FIELDS):
            raise SchemaError(f"person: unknown fields {unknown}; known are {sorted(PERSON_FIELDS)}")
        return cls(**{**given, "tables": _tables(given.get("tables", {}))})


def _tables(given: Any) -> tuple[LinkedTable, ...]:
    """Read the output of `LinkedTable.to_dict`, by name."""
    fine = isinstance(given, Mapping) and all(
        isinstance(fields, Mapping) and "columns" in fields and not set(fields) - {"columns", "carried"}
        for fields in given.values()
    )
    if not fine:
        raise SchemaError("person: tables must be a mapping from names to columns and carried")
    return tuple(LinkedTable(name=str(name), **fields) for name, fields in given.items())


PERSON_FIELDS = {field.name for field in fields(Person)}


class PersonCounts(NamedTuple):
    """Sensitive values of the persons of classes; only values that occur, sorted by class and value.

    classes, values: (e,) class and value of each entry; one entry for each value in a class.
    weights: (e,) float64, persons with the value, each by 1 / |F|.
    persons: (e,) int64, persons with the value.
    fingerprints: (c,) int64, distinct fingerprints in each class; cut off at the number of values of the
        attribute.
    """

    classes: Ints
    values: Ints
    weights: Floats
    persons: Ints
    fingerprints: Ints


class ValueParts(NamedTuple):
    """The parts of `PersonCounts`: whole numbers, so that those of different persons of a class add up.

    classes, values, parts: (e,) a class, a value, and a number of values, ascending; no combination twice.
    persons: (e,) number of persons of the class who have the value, and that number of distinct values there.
    of, sets: (f,) a class, and a sum of scrambled values (uint64) for each of its fingerprints of two or more
        values; a fingerprint of one value is an entry of one part.
    """

    classes: Ints
    values: Ints
    parts: Ints
    persons: Ints
    of: Ints
    sets: npt.NDArray[np.uint64]

    def part(self, first: int, last: int) -> "ValueParts":
        """Return the classes ``first .. last - 1``, numbered from 0."""
        own = slice(*np.searchsorted(self.classes, (first, last)))
        one = slice(*np.searchsorted(self.of, (first, last)))
        return ValueParts(
            classes=self.classes[own] - first,
            values=self.values[own],
            parts=self.parts[own],
            persons=self.persons[own],
            of=self.of[one] - first,
            sets=self.sets[one],
        )

    def plus(self, other: "ValueParts", most: int) -> "ValueParts":
        """Add the parts of the same classes for other persons.

        At most this number of sets is kept per class: no more fingerprints than values are required.
        """
        both = [np.concatenate(pair) for pair in zip(self, other, strict=True)]
        (classes, values, parts), persons = counted_rows(both[:3], both[3])
        order = np.lexsort((both[5], both[4]))
        of, sets = both[4][order], both[5][order]
        new = (np.diff(of, prepend=-1) != 0) | (np.diff(sets, prepend=~sets[:1]) != 0)
        of, sets = of[new], sets[new]
        kept = np.arange(len(of)) - np.searchsorted(of, of) < most
        return ValueParts(classes, values, parts, persons, of[kept], sets[kept])

    def counts(self, classes: int) -> PersonCounts:
        """Return the counts of a number of classes."""
        starts = np.flatnonzero(
            (np.diff(self.classes, prepend=-1) != 0) | (np.diff(self.values, prepend=-1) != 0)
        )
        entry = np.zeros(len(self.classes), np.int64)
        entry[starts[1:]] = 1
        entry, ends = np.cumsum(entry), len(starts)
        alone = np.bincount(self.classes[self.parts == 1], minlength=classes)
        return PersonCounts(
            classes=self.classes[starts],
            values=self.values[starts],
            weights=np.bincount(entry, self.persons / self.parts, ends).astype(np.float64),
            persons=np.add.reduceat(self.persons, starts) if ends else self.persons,
            fingerprints=alone + _fingerprints(self.of, self.sets, classes),
        )


class ValuesLeft(NamedTuple):
    """Values left to someone who knows all rows of a person, for persons with one sensitive value.

    The value is then in each class in which the person has a row; values left are those in all these classes.

    left: (h,) distinct numbers of values, ascending.
    persons: (h,) number of persons with this many values left.
    records: (h,) their rows.
    """

    left: Ints
    persons: Ints
    records: Ints


def person_codes(persons: npt.NDArray[Any], *, exact: bool = False) -> Ints:
    """(n,) a number 0 .. P - 1 for each person, none of whom is null.

    Args:
        persons: Numbers or texts, shape (n,).
        exact: Whether two spellings of the same text are two persons.

    >>> person_codes(np.array(["P1", "p1 ", "P2"], dtype=object)).tolist()
    [0, 0, 1]
    """
    codes, values = pd.factorize(persons)
    if not exact and not pd.api.types.is_numeric_dtype(values):
        read = [normal(value) if isinstance(value, str) else value for value in values]
        same = np.array([*pd.factorize(pd.Index(read, dtype=object))[0], -1])  # for null, whose code is -1
        codes = same[codes]
    return codes.astype(np.int64)


def trajectories(labels: Ints, persons: Ints) -> list[bytes]:
    """(p,) the labels of the rows of each person 0 .. p - 1, ascending: equal for equal multisets.

    A loop over persons: one second for a million.

    Args:
        labels: Any number of each row, shape (n,) int64.
        persons: Person of each row, 0 .. p - 1, each at least once, shape (n,).
    """
    ends = np.cumsum(np.bincount(persons))
    ordered = np.ascontiguousarray(labels[np.lexsort((labels, persons))], np.int64)
    return [part.tobytes() for part in np.split(ordered, ends[:-1])]


def trajectory_labels(labels: Ints, persons: Ints) -> Ints:
    """(n,) class of each row if rows are linked: the same for all rows of persons with equal trajectories.

    Args:
        labels: Class of each row by its own quasi-identifiers, shape (n,).
        persons: Person of each row, 0 .. p - 1, each at least once, shape (n,).

    >>> trajectory_labels(np.array([4, 5, 5, 4, 5]), np.array([0, 0, 1, 1, 2])).tolist()
    [0, 0, 0, 0, 1]
    """
    if not len(labels):
        return labels
    ways = np.empty(int(persons.max()) + 1, dtype=object)
    ways[:] = trajectories(labels, persons)
    return pd.factorize(ways)[0].astype(np.int64)[persons]


def people_of_classes(labels: Ints, persons: Ints, classes: int) -> Ints:
    """(c,) distinct persons in each class.

    Args:
        labels: Class of each record, 0 .. classes - 1, shape (n,).
        persons: Person of each record, >= 0, shape (n,).
        classes: Number of classes.

    >>> people_of_classes(np.array([0, 0, 0, 1]), np.array([7, 7, 2, 7]), 2).tolist()
    [2, 1]
    """
    return np.bincount(_pairs(labels, persons)[0], minlength=classes)


def count_persons(labels: Ints, persons: Ints, codes: npt.NDArray[np.int32], size: int) -> PersonCounts:
    """Count the persons of each class by their sensitive values.

    Args:
        labels: Class of each record, 0 .. c - 1 without gaps, shape (n,).
        persons: Person of each record, >= 0, shape (n,).
        codes: Sensitive value of each record, 0 .. size - 1, shape (n,).
        size: Number of values.
    """
    class_of, pair_of = _pairs(labels, persons)
    return value_parts(class_of, pair_of, codes, size).counts(int(labels.max(initial=-1)) + 1)


def value_parts(class_of: Ints, pair_of: Ints, codes: npt.NDArray[np.integer[Any]], size: int) -> ValueParts:
    """Count how the persons of classes share the sensitive values that they have there.

    Args:
        class_of: Class of each pair of class and person, shape (p,).
        pair_of: Pair of each record, 0 .. p - 1, each at least once, shape (n,).
        codes: Sensitive value of each record, 0 .. size - 1, shape (n,).
        size: Number of values.
    """
    pair, value = np.divmod(_ascending(pair_of * max(size, 1) + codes), max(size, 1))
    many = np.bincount(pair, minlength=len(class_of))
    (classes, values, parts), persons = counted_rows((class_of[pair], value, many[pair]))
    several = many[pair] > 1
    starts = np.flatnonzero(np.diff(pair[several], prepend=-1))
    sums = np.add.reduceat(scrambled(value[several]), starts) if len(starts) else np.zeros(0, np.uint64)
    return ValueParts(classes, values, parts, persons, class_of[many > 1], sums)


def counted_rows(columns: Sequence[Ints], times: Ints | None = None) -> tuple[list[Ints], Ints]:
    """Return the distinct rows of columns of numbers >= 0, ascending, and their frequencies.

    Args:
        columns: Columns of numbers, each of shape (n,).
        times: Frequency of each given row, shape (n,); None: once.

    >>> counted_rows((np.array([1, 0, 1]), np.array([5, 7, 5])))
    ([array([0, 1]), array([7, 5])], array([1, 2]))
    """
    bits = [int(column.max(initial=0)).bit_length() for column in columns]
    if times is None and sum(bits) < 64:  # a single sort of one number takes a tenth of the time
        keys = np.zeros(len(columns[0]), np.int64)
        for column, width in zip(columns, bits, strict=True):
            keys = (keys << width) | column
        keys.sort()
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        found, distinct = [], keys[starts]
        for width in reversed(bits):
            found.append(distinct & ((1 << width) - 1))
            distinct = distinct >> width
        return found[::-1], np.diff(starts, append=len(keys))
    order = np.lexsort(tuple(columns[::-1]))
    ordered = [column[order] for column in columns]
    starts = np.flatnonzero(np.logical_or.reduce([np.diff(column, prepend=-1) != 0 for column in ordered]))
    ones = np.ones(len(order), np.int64) if times is None else times[order]
    return [column[starts] for column in ordered], np.add.reduceat(ones, starts) if len(starts) else ones


def values_left(labels: Ints, persons: Ints, codes: npt.NDArray[np.int32]) -> ValuesLeft:
    """Count the values left of each person whose rows all have the same value.

    Args:
        labels: Class of each record, >= 0, shape (n,).
        persons: Person of each record, >= 0, shape (n,).
        codes: Sensitive value of each record, >= 0, shape (n,).

    >>> values_left(np.array([0, 0, 1, 1]), np.array([5, 6, 5, 7]), np.array([2, 3, 2, 4], np.int32))
    ValuesLeft(left=array([1, 2]), persons=array([1, 2]), records=array([2, 2]))
    """
    who, size = person_codes(persons), int(codes.max(initial=-1)) + 1
    people = int(who.max(initial=-1)) + 1
    of_pair = _ascending(labels * max(people, 1) + who)
    class_of, person = np.divmod(of_pair, max(people, 1))
    had_in, had = np.divmod(_ascending(labels * max(size, 1) + codes), max(size, 1))
    several = np.bincount(_ascending(who * max(size, 1) + codes) // max(size, 1), minlength=people) > 1
    class_of, person = class_of[~several[person]], person[~several[person]]
    first = np.searchsorted(had_in, np.arange(int(labels.max(initial=-1)) + 2))
    many = np.diff(first)[class_of]
    entry = np.repeat(first[class_of] - np.cumsum(many) + many, many) + np.arange(int(many.sum()))
    seen, times = np.unique(np.repeat(person, many) * max(size, 1) + had[entry], return_counts=True)
    in_all = times == np.bincount(person, minlength=people)[seen // max(size, 1)]
    left_of = np.bincount(seen[in_all] // max(size, 1), minlength=people)[~several]
    rows_of = np.bincount(who, minlength=people)[~several]
    left, place = np.unique(left_of, return_inverse=True)
    return ValuesLeft(
        left=left.astype(np.int64),
        persons=np.bincount(place, minlength=len(left)),
        records=np.bincount(place, weights=rows_of, minlength=len(left)).astype(np.int64),
    )


def shares_of_persons(entry: Ints, parts: Ints, persons: Ints, entries: int) -> Floats:
    """(e,) sum of persons / parts of each entry, the same to the last digit in any order.

    Args:
        entry: Entry of each part, shape (p,), 0 .. entries - 1.
        parts: Number of equal parts in which a person counts, shape (p,); distinct within an entry.
        persons: Number of such persons, shape (p,).
        entries: Number of entries.
    """
    order = np.lexsort((parts, entry))
    shares = (persons / parts)[order]
    return np.bincount(entry[order], weights=shares, minlength=entries).astype(np.float64)


def _pairs(labels: Ints, persons: Ints) -> tuple[Ints, Ints]:
    """Return the class of each distinct pair of class and person, and (n,) the pair of each record."""
    span = int(persons.max(initial=0)) + 1
    pairs, pair_of = np.unique(labels * span + persons, return_inverse=True)
    return pairs // span, pair_of


def _fingerprints(class_of: Ints, sums: npt.NDArray[np.uint64], classes: int) -> Ints:
    """(c,) distinct sets of values in each class, by a sum of scrambled values.

    Two sets with the same sum would count as one: never more fingerprints than there are. Only the bits of a
    sum that fit into one key with the class are used: a single sort, where sorting both takes ten times as
    long.
    """
    bits = 63 - classes.bit_length()
    found = _ascending((class_of << bits) + (sums >> np.uint64(64 - bits)).astype(np.int64))
    return np.bincount(found >> bits, minlength=classes)


def _ascending(values: Ints) -> Ints:
    """Return the distinct values, ascending; sorting is faster than hashing in `np.unique`."""
    ordered = np.sort(values)
    distinct: Ints = ordered[np.diff(ordered, prepend=-1) != 0]
    return distinct


def scrambled(values: Ints) -> npt.NDArray[np.uint64]:
    """Return numbers whose sums distinguish sets of values: Steele, Lea, Flood (2014), SplitMix64."""
    with np.errstate(over="ignore"):
        x = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
