"""Released columns with nearly one value a record, or a person: who knows a value finds the records.

Distinct values are estimated while a source is copied, from the smallest of their hashes: Bar-Yossef, Jayram,
Kumar, Sivakumar, Trevisan, "Counting distinct elements in a data stream" (RANDOM 2002), algorithm 1. With the
65,536 smallest the error is below one percent but once in a hundred columns; of fewer values it is none.
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

    from privacy_engine.tables.schema import Attribute, DataSchema

NEARLY = 0.9  # values a record, or a person, from which on a column is nearly unique
LEAST = 50  # records, or persons; among fewer nothing is unusual
_KEPT = 65_536


class DistinctValues:
    """About how many different hashes there are, over all parts."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._most = kept
        self._smallest: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)

    def add(self, hashes: "npt.NDArray[np.uint64]") -> None:
        """Take the next ones, (n,)."""
        if len(self._smallest) == self._most:
            hashes = hashes[hashes < self._smallest[-1]]
        if len(hashes):
            self._smallest = np.unique(np.concatenate([self._smallest, hashes]))[: self._most]

    def absorb(self, other: "DistinctValues") -> None:
        """Take those that another one took; it is as if all had been taken here."""
        self.add(other._smallest)

    @property
    def number(self) -> float:
        """Exact as long as it is below the number of hashes that are kept."""
        if len(self._smallest) < self._most:
            return len(self._smallest)
        return (self._most - 1) * 2.0**64 / float(self._smallest[-1])


class NearlyUnique:
    """Insensitive columns of a table, part by part: those of text or whole numbers by record.

    Doubles and decimals are whole numbers where no value has a fraction: a column of account numbers with a
    missing one is of doubles in pandas, and of decimals in Oracle.

    Where the schema names a person, also whether a value is nearly always of one person, of columns of any
    type whose values repeat: they link the records of a person.
    """

    def __init__(self, schema: "DataSchema") -> None:
        self._columns = {a.name: _Counted() for a in schema.attributes if _is_looked_at(a)}
        self._persons = DistinctValues() if schema.by else None
        self._by = schema.by

    def add(self, table: "pa.Table") -> None:
        """Take the next records, as they are kept; the person of each as a number."""
        who = None
        if self._persons is not None and self._columns:
            who = _scrambled(table.column(self._by).to_numpy().astype(np.int64).view(np.uint64))
            self._persons.add(who)
        for name, counted in self._columns.items():
            counted.add(table.column(name).combine_chunks(), who)

    def absorb(self, other: "NearlyUnique") -> None:
        """Take what another one saw of other records of the table."""
        if self._persons is not None and other._persons is not None:
            self._persons.absorb(other._persons)
        for name, counted in self._columns.items():
            counted.absorb(other._columns[name])

    def require_none(self) -> None:
        """Refuse columns that nearly name a record or a person.

        Raises:
            SchemaError: naming each, in how many records it is nearly unique, and the remedies.
        """
        persons = self._persons.number if self._persons is not None else 0
        told = [
            f"{name}: {about}"
            for name, counted in self._columns.items()
            if (about := counted.of_records() or counted.of_persons(persons))
        ]
        if told:
            raise SchemaError(
                f"insensitive columns are likely identifiers: {'; '.join(told)}. Who knows a value finds its "
                "record. Give such a column the role identifier, or quasi_identifier with a hierarchy or "
                "bounds; or say why it tells nobody, `unique: {allow: <reason>}`, which goes into the "
                "manifest"
            )


def _is_looked_at(attribute: "Attribute") -> bool:
    released = attribute.role is Role.INSENSITIVE and attribute.pseudonym is None
    return released and attribute.unique is None


class _Counted:
    """One column."""

    def __init__(self) -> None:
        self._values, self._pairs = DistinctValues(), DistinctValues()
        self._records = 0
        self._may_name = True  # whether its values are such as identifiers have: text or whole numbers

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
        """What is said of it where nearly each record has a value of its own."""
        if self._may_name and self._records >= LEAST and self._values.number >= NEARLY * self._records:
            return f"about {self._shown} different values in {self._records:,} records"
        return None

    def of_persons(self, persons: float) -> str | None:
        """What is said of it where a value nearly always stands for one person, in several records."""
        values = self._values.number
        links = values <= NEARLY * self._records and self._pairs.number <= values / NEARLY
        if persons >= LEAST and values >= NEARLY * persons and links:
            return f"about {self._shown} different values, nearly each of one person alone"
        return None

    @property
    def _shown(self) -> str:
        return f"{min(self._values.number, self._records):,.0f}"


def _may_name(cells: "pa.Array") -> bool:
    """Whether cells are text, or numbers none of which has a fraction, whatever their type is."""
    if t.is_string(cells.type) or t.is_integer(cells.type):
        return True
    if not (t.is_floating(cells.type) or t.is_decimal(cells.type)):
        return False
    if t.is_floating(cells.type):  # a NaN is no number, and equals not even itself
        cells = cells.filter(pc.invert(pc.is_nan(cells)))
    return not pc.any(pc.not_equal(pc.floor(cells), cells)).as_py()


def _hashed(
    cells: "pa.Array",
) -> "tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.intp]]":
    """The hashes of the distinct values, which one each known cell has, and where the known cells are."""
    coded = cells.dictionary_encode()
    known = np.flatnonzero(cells.is_valid().to_numpy(zero_copy_only=False))
    codes = coded.indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    values = coded.dictionary.to_numpy(zero_copy_only=False)
    hashes: npt.NDArray[np.uint64] = pd.util.hash_array(values, categorize=False)
    return hashes, codes, known


def _scrambled(numbers: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.uint64]":
    """Numbers spread over all of 64 bits: Steele, Lea, Flood (2014), SplitMix64."""
    with np.errstate(over="ignore"):
        x = numbers + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
