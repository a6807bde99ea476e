"""Whose record a row is, and what a class of rows says about persons.

The guarantee is about people, not rows. Where several rows may be of one person, a class is counted by
persons: after Gong, Luo, Yang, Ni, Li, "Anonymizing 1:M microdata with high utility" (2017), and Poulis,
Loukides, Gkoulalas-Divanis, Skiadopoulos, "Anonymizing data with relational and transaction attributes"
(2013). For a class C with the persons P(C), and a sensitive attribute:

* the fingerprint F(p) of a person is the set of distinct values that p has in C;
* the distribution is q(s) = 1/|P(C)| sum over p with s in F(p) of 1/|F(p)|: a person weighs one;
* the coverage is c(s) = |{p : s in F(p)}| / |P(C)|: the chance that a person of the class has s.

With one row a person, both are the share of the records with s.

Where a pseudonym in the release links the rows of a person, the composite quasi-identifier of a person is the
multiset of the quasi-identifiers of all their rows, a trajectory, and a class is of persons with equal ones.
The rows may be of several tables: they stand below each other in one, whose column `TABLE` tells of each row
which table it is of, and is a quasi-identifier, too; what a table does not have is null in its rows.
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
    """What a release tells of the rows of one person."""

    INDEPENDENT = "independent"  # nothing links them
    LINKED = "linked"  # a pseudonym does, so a class is of whole trajectories


TABLE = "table_name"  # the column that tells which table a row is of, where there are several


@dataclass(frozen=True, kw_only=True)
class LinkedTable:
    """One of several tables about the same persons.

    Attributes:
        name: of the table, as `TABLE` has it.
        columns: that it has, beside that of the person.
        carried: columns of a table with one row a person whose released values its rows get, too.

    Raises:
        SchemaError: if it has no column.
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
            raise SchemaError(f"table {self.name!r} must have a column beside that of the person")

    def to_dict(self) -> dict[str, list[str]]:
        """Its columns, and those that are carried to it, if any."""
        told = {"columns": list(self.columns), "carried": list(self.carried)}
        return {name: columns for name, columns in told.items() if columns}


@dataclass(frozen=True, kw_only=True)
class Person:
    """Whose record a row is.

    Attributes:
        column: the identifier that names the person of a row; several rows may be of one person. None: each
            row is of another person.
        none: why each row is of another person although an identifier repeats; it goes into the manifest.
        rows: whether the release links the rows of a person, by a pseudonym in ``column``.
        tables: that the rows are of, at least two; empty where all are of one.

    Raises:
        SchemaError: unless exactly one of column and none is given; if rows are linked without a column, or
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
                "person must be the name of the column that tells whose record a row is, or `none: <reason>` "
                "where each row is of another person"
            )
        try:
            object.__setattr__(self, "rows", choice(Rows, self.rows, "rows"))
        except ValueError as error:
            raise SchemaError(f"person: {error}") from None
        if self.linked and self.column is None:
            raise SchemaError("person: rows can be linked only where column names the person of each")
        if self.tables and not self.linked:
            raise SchemaError(
                "person: the rows of several tables share a pseudonym, so they are linked: write "
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
        """Plain values that ``from_dict`` reads back; rows only where they are linked."""
        tables = {table.name: table.to_dict() for table in self.tables}
        told = {
            "column": self.column,
            "none": self.none,
            "rows": self.rows.value if self.linked else None,
            "tables": tables or None,
        }
        return {name: value for name, value in told.items() if value is not None}

    @classmethod
    def from_dict(cls, given: Any) -> "Person":
        """Read a column's name, or a mapping.

        Raises:
            SchemaError: if it is neither, or has unknown fields.
        """
        if isinstance(given, str):
            if given == "none":
                raise SchemaError(
                    "person: none needs the reason why each row is of another person; write "
                    "`person: {none: <reason>}`"
                )
            return cls(column=given)
        if not isinstance(given, Mapping):
            raise SchemaError("person must be the name of a column, or `none: <reason>`")
        if unknown := sorted(set(map(str, given)) - PERSON_FIELDS):
            raise SchemaError(f"person: unknown fields {unknown}; known are {sorted(PERSON_FIELDS)}")
        return cls(**{**given, "tables": _tables(given.get("tables", {}))})


def _tables(given: Any) -> tuple[LinkedTable, ...]:
    """Read what `LinkedTable.to_dict` writes, by name."""
    fine = isinstance(given, Mapping) and all(
        isinstance(fields, Mapping) and "columns" in fields and not set(fields) - {"columns", "carried"}
        for fields in given.values()
    )
    if not fine:
        raise SchemaError("person: tables must be a mapping from names to columns and carried")
    return tuple(LinkedTable(name=str(name), **fields) for name, fields in given.items())


PERSON_FIELDS = {field.name for field in fields(Person)}


class PersonCounts(NamedTuple):
    """Sensitive values of the persons of classes; only what occurs, sorted by class and value.

    classes, values: (e,) one entry for each value that occurs in a class.
    weights: (e,) float64, persons with the value, each by 1 / |F|.
    persons: (e,) int64, persons with the value.
    fingerprints: (c,) int64, distinct fingerprints in each class; at least as many as the attribute has
        values, where they are more than that.
    """

    classes: Ints
    values: Ints
    weights: Floats
    persons: Ints
    fingerprints: Ints


class ValueParts(NamedTuple):
    """What `PersonCounts` are made of: whole numbers, so that those of different persons of a class add up.

    classes, values, parts: (e,) a class, a value, and a number of values, ascending; no three of them twice.
    persons: (e,) how many persons of the class have the value, and all in all so many distinct ones there.
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
        """Those of the classes ``first .. last - 1``, which count from 0 then."""
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
        """Both together: of the same classes, and of other persons.

        Of a class so many sets are kept: nobody asks for more fingerprints than there are values.
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
        """What they say of so many classes."""
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
    """What whoever knows all rows of a person is left with, of persons with one sensitive value in all rows.

    The value is then in each class that the person has a row in: so many values are in all of these classes.

    left: (h,) distinct numbers of values, ascending.
    persons: (h,) persons of whom so many are left.
    records: (h,) their rows.
    """

    left: Ints
    persons: Ints
    records: Ints


def person_codes(persons: npt.NDArray[Any], *, exact: bool = False) -> Ints:
    """(n,) a number 0 .. P - 1 for each person, none of them null.

    Args:
        persons: (n,) numbers or texts.
        exact: whether two spellings of a text that read the same are two persons.

    >>> person_codes(np.array(["P1", "p1 ", "P2"], dtype=object)).tolist()
    [0, 0, 1]
    """
    codes, values = pd.factorize(persons)
    if not exact and not pd.api.types.is_numeric_dtype(values):
        read = [normal(value) if isinstance(value, str) else value for value in values]
        same = np.array([*pd.factorize(pd.Index(read, dtype=object))[0], -1])  # of a null, whose code is -1
        codes = same[codes]
    return codes.astype(np.int64)


def trajectories(labels: Ints, persons: Ints) -> list[bytes]:
    """(p,) of each person 0 .. p - 1 the labels of their rows, ascending: equal for equal multisets.

    A loop over persons: one second for a million.

    Args:
        labels: (n,) int64, any number of each row.
        persons: (n,) person of each row, 0 .. p - 1, each at least once.
    """
    ends = np.cumsum(np.bincount(persons))
    ordered = np.ascontiguousarray(labels[np.lexsort((labels, persons))], np.int64)
    return [part.tobytes() for part in np.split(ordered, ends[:-1])]


def trajectory_labels(labels: Ints, persons: Ints) -> Ints:
    """(n,) class of each row where rows are linked: one for all rows of persons with equal trajectories.

    Args:
        labels: (n,) class of each row by its own quasi-identifiers.
        persons: (n,) person of each row, 0 .. p - 1, each at least once.

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
        labels: (n,) class of each record, 0 .. classes - 1.
        persons: (n,) person of each record, >= 0.
        classes: their number.

    >>> people_of_classes(np.array([0, 0, 0, 1]), np.array([7, 7, 2, 7]), 2).tolist()
    [2, 1]
    """
    return np.bincount(_pairs(labels, persons)[0], minlength=classes)


def count_persons(labels: Ints, persons: Ints, codes: npt.NDArray[np.int32], size: int) -> PersonCounts:
    """The persons of each class by their sensitive values.

    Args:
        labels: (n,) class of each record, 0 .. c - 1 without gaps.
        persons: (n,) person of each record, >= 0.
        codes: (n,) sensitive value of each record, 0 .. size - 1.
        size: number of values.
    """
    class_of, pair_of = _pairs(labels, persons)
    return value_parts(class_of, pair_of, codes, size).counts(int(labels.max(initial=-1)) + 1)


def value_parts(class_of: Ints, pair_of: Ints, codes: npt.NDArray[np.integer[Any]], size: int) -> ValueParts:
    """How the persons of classes share the sensitive values that they have there.

    Args:
        class_of: (p,) the class of each pair of class and person.
        pair_of: (n,) the pair of each record, 0 .. p - 1, each at least once.
        codes: (n,) sensitive value of each record, 0 .. size - 1.
        size: number of values.
    """
    pair, value = np.divmod(_ascending(pair_of * max(size, 1) + codes), max(size, 1))
    many = np.bincount(pair, minlength=len(class_of))
    (classes, values, parts), persons = counted_rows((class_of[pair], value, many[pair]))
    several = many[pair] > 1
    starts = np.flatnonzero(np.diff(pair[several], prepend=-1))
    sums = np.add.reduceat(scrambled(value[several]), starts) if len(starts) else np.zeros(0, np.uint64)
    return ValueParts(classes, values, parts, persons, class_of[many > 1], sums)


def counted_rows(columns: Sequence[Ints], times: Ints | None = None) -> tuple[list[Ints], Ints]:
    """The distinct rows of columns of numbers >= 0, ascending, and how often each occurs.

    Args:
        columns: (n,) each.
        times: (n,) how often each row stands for itself; None: once.

    >>> counted_rows((np.array([1, 0, 1]), np.array([5, 7, 5])))
    ([array([0, 1]), array([7, 5])], array([1, 2]))
    """
    bits = [int(column.max(initial=0)).bit_length() for column in columns]
    if times is None and sum(bits) < 64:  # one sort of one number, which takes a tenth of the time
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
    """How many values are left of each person whose rows all have the same one.

    Args:
        labels: (n,) class of each record, >= 0.
        persons: (n,) person of each record, >= 0.
        codes: (n,) sensitive value of each record, >= 0.

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
    """(e,) sum of persons / parts of each entry: the same to the last digit in whatever order they come.

    Args:
        entry: (p,) 0 .. entries - 1.
        parts: (p,) in how many equal parts a person counts; none stands twice for an entry.
        persons: (p,) how many do.
        entries: their number.
    """
    order = np.lexsort((parts, entry))
    shares = (persons / parts)[order]
    return np.bincount(entry[order], weights=shares, minlength=entries).astype(np.float64)


def _pairs(labels: Ints, persons: Ints) -> tuple[Ints, Ints]:
    """The class of each distinct pair of class and person, and (n,) the pair of each record."""
    span = int(persons.max(initial=0)) + 1
    pairs, pair_of = np.unique(labels * span + persons, return_inverse=True)
    return pairs // span, pair_of


def _fingerprints(class_of: Ints, sums: npt.NDArray[np.uint64], classes: int) -> Ints:
    """(c,) distinct sets of values in each class, by a sum of scrambled values.

    Two sets of one sum would count as one: never more fingerprints than there are. Of a sum so many bits are
    looked at as one key has room for beside the class: one sort, where sorting both takes ten times as long.
    """
    bits = 63 - classes.bit_length()
    found = _ascending((class_of << bits) + (sums >> np.uint64(64 - bits)).astype(np.int64))
    return np.bincount(found >> bits, minlength=classes)


def _ascending(values: Ints) -> Ints:
    """The distinct values, ascending; by sorting, which takes less time than `np.unique` does by hashing."""
    ordered = np.sort(values)
    distinct: Ints = ordered[np.diff(ordered, prepend=-1) != 0]
    return distinct


def scrambled(values: Ints) -> npt.NDArray[np.uint64]:
    """Numbers whose sums tell sets of values apart: Steele, Lea, Flood (2014), SplitMix64."""
    with np.errstate(over="ignore"):
        x = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
