"""Find released columns with nearly one value per record or person, whose values identify records.

Distinct values are estimated while a source is copied, from the smallest of their hashes: Bar-Yossef, Jayram,
Kumar, Sivakumar, Trevisan, "Counting distinct elements in a data stream" (RANDOM 2002), algorithm 1. With the
65,536 smallest, the error exceeds one percent only once in a hundred columns. With fewer values it is zero.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.types as t

from privacy_engine.errors import SchemaError
from privacy_engine.vocabulary import Role

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema

NEARLY = 0.9  # number of values per record or person from which a column is nearly unique
LEAST = 50  # smallest number of records or persons for a judgement
_KEPT = 65_536


class DistinctValues:
    """The approximate number of different hashes over all parts."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._most = kept
        self._smallest: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)

    def add(self, hashes: "npt.NDArray[np.uint64]") -> None:
        """Add the next hashes, shape (n,)."""
        if len(self._smallest) == self._most:
            hashes = hashes[hashes < self._smallest[-1]]
        if len(hashes):
            self._smallest = np.unique(np.concatenate([self._smallest, hashes]))[: self._most]

    def absorb(self, other: "DistinctValues") -> None:
        """Add the hashes of another estimate, as if all had been added here."""
        self.add(other._smallest)

    @property
    def number(self) -> float:
        """The number, exact as long as it is below the number of kept hashes."""
        if len(self._smallest) < self._most:
            return len(self._smallest)
        return (self._most - 1) * 2.0**64 / float(self._smallest[-1])


class NearlyUnique:
    """The search for nearly unique insensitive columns of a table, part by part.

    Columns of text or whole numbers are counted by record. Doubles and decimals are whole numbers if no value
    has a fraction: a column of account numbers with a missing one has doubles in pandas, and decimals in
    Oracle.

    If the schema names a person, columns of any type whose values repeat are also counted by person: a value
    that nearly always belongs to one person links that person's records.
    """

    def __init__(self, schema: "DataSchema") -> None:
        self._columns = {a.name: _Counted() for a in schema.attributes if _is_looked_at(a)}
        self._persons = DistinctValues() if schema.by else None
        self._by = schema.by

    def add(self, table: "pa.Table") -> None:
        """Add the next kept records, with the number of each record's person."""
        who = None
        if self._persons is not None and self._columns:
            who = _scrambled(table.column(self._by).to_numpy().astype(np.int64).view(np.uint64))
            self._persons.add(who)
        for name, counted in self._columns.items():
            counted.add(table.column(name).combine_chunks(), who)

    def absorb(self, other: "NearlyUnique") -> None:
        """Add the results for other records of the table."""
        if self._persons is not None and other._persons is not None:
            self._persons.absorb(other._persons)
        for name, counted in self._columns.items():
            counted.absorb(other._columns[name])

    def require_none(self) -> None:
        """Raise if columns nearly identify a record or a person.

        Raises:
            SchemaError: Naming each, in how many records it is nearly unique, and the remedies.
        """
        persons = self._persons.number if self._persons is not None else 0
        problems = [
            f"{name}: {about}"
            for name, counted in self._columns.items()
            if (about := counted.of_records() or counted.of_persons(persons))
        ]
        if problems:
            raise SchemaError(
                f"insensitive columns are likely identifiers: {'; '.join(problems)}. A value identifies "
                "its record. Give such a column the role identifier, or quasi_identifier with a hierarchy "
                "or bounds; or state why it identifies no one, `unique: {allow: <reason>}`, which goes into "
                "the manifest"
            )


def _is_looked_at(attribute: "Attribute") -> bool:
    released = attribute.role is Role.INSENSITIVE and attribute.pseudonym is None
    return released and attribute.unique is None


class _Counted:
    """One column."""

    def __init__(self) -> None:
        self._values, self._pairs = DistinctValues(), DistinctValues()
        self._records = 0
        self._may_name = True  # whether its values look like identifiers: text or whole numbers

    def add(self, cells: "pa.Array", who: "npt.NDArray[np.uint64] | None") -> None:
        self._may_name = self._may_name and _may_name(cells)
        if not (self._may_name or who is not None):
            return
        values, codes, known = _hashed(cells)
        self._records += len(codes)
        self._values.add(values)
        if who is not None:
            self._pairs.add(_scrambled(values[codes] ^ who[known]))

    def absorb(self, other: "_Counted") -> None:
        self._may_name &= other._may_name
        self._records += other._records
        self._values.absorb(other._values)
        self._pairs.absorb(other._pairs)

    def of_records(self) -> str | None:
        """Return a description if nearly each record has a different value."""
        if self._may_name and self._records >= LEAST and self._values.number >= NEARLY * self._records:
            return f"about {self._shown} different values in {self._records:,} records"
        return None

    def of_persons(self, persons: float) -> str | None:
        """Return a description if a value nearly always belongs to one person with several records."""
        values = self._values.number
        links = values <= NEARLY * self._records and self._pairs.number <= values / NEARLY
        if persons >= LEAST and values >= NEARLY * persons and links:
            return f"about {self._shown} different values, nearly each of only one person"
        return None

    @property
    def _shown(self) -> str:
        return f"{min(self._values.number, self._records):,.0f}"


def _may_name(cells: "pa.Array") -> bool:
    """Return whether cells are text, or numbers without a fraction, whatever their type."""
    if t.is_string(cells.type) or t.is_integer(cells.type):
        return True
    if not (t.is_floating(cells.type) or t.is_decimal(cells.type)):
        return False
    if t.is_floating(cells.type):  # NaN is not equal to itself
        cells = cells.filter(pc.invert(pc.is_nan(cells)))
    return not pc.any(pc.not_equal(pc.floor(cells), cells)).as_py()


def _hashed(
    cells: "pa.Array",
) -> "tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.intp]]":
    """Return hashes of the distinct values, the hash of each known cell, and the known cells' positions."""
    coded = cells.dictionary_encode()
    known = np.flatnonzero(cells.is_valid().to_numpy(zero_copy_only=False))
    codes = coded.indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    values = coded.dictionary.to_numpy(zero_copy_only=False)
    hashes: npt.NDArray[np.uint64] = pd.util.hash_array(values, categorize=False)
    return hashes, codes, known


def _scrambled(numbers: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.uint64]":
    """Spread numbers over all of 64 bits: Steele, Lea, Flood (2014), SplitMix64."""
    with np.errstate(over="ignore"):
        x = numbers + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
