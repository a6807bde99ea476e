"""The dates of each person of a source: their first day in all of its files, and how far they are shifted.

A shift is a disguise, no guarantee. All dates of a person are moved by one number of days, which HMAC-SHA256
of the identifier gives: whoever has the key can undo it, and one true date of a person tells all others.
"""

from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.errors import SchemaError, SpecError
from privacy_release.sources.pseudonyms import KeyedHash, Naming
from privacy_release.workarea.references import ShiftRef

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from privacy_engine.tables.date_form import Shift
    from privacy_engine.tables.schema import DataSchema

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

_WAITING = 1_000_000  # days of records that are looked through at once


class Shifts:
    """By how many days the dates of each person are moved.

    Args:
        schema: of the source.
        naming: which release they are for.

    Raises:
        SchemaError: if the schema does not tell whose the dates are.
        SpecError: if dates are to be shifted and it is not said which release they are for.
        SecretError: if the key is missing or too short.
    """

    def __init__(self, schema: "DataSchema", naming: Naming | None) -> None:
        self.by = schema.shifted_by
        self._columns = list(schema.to_shift)
        self._made: tuple[Shift, KeyedHash] | None = None
        if not self.by:
            return
        if naming is None:
            raise SpecError(f"shifted dates of {self._columns} need the name and the id of the release")
        shift = schema.to_shift[self._columns[0]]
        self._made = (shift, naming.keyed(f"shift of up to {shift.days} days", shift))

    def of(self, identifiers: "pd.Series") -> "Ints":
        """(n,) days, none of them 0, by which the dates of each record are moved.

        Raises:
            SchemaError: if an identifier is null, by column and count.
        """
        assert self._made is not None
        shift, keyed = self._made
        digests, codes = keyed.of(identifiers)
        if nameless := int((codes < 0).sum()):
            raise SchemaError(
                f"{self.by}: {nameless} records have no value by which to shift dates: give each one, or "
                "drop these records"
            )
        # Of 64 bits the remainder is uniform but for a part in 2^47.
        drawn = digests[:, :8].copy().view(">u8")[:, 0] % np.uint64(2 * shift.days)
        days = drawn.astype(np.int64) - shift.days
        moved: Ints = (days + (days >= 0))[codes]
        return moved

    def reference(self) -> ShiftRef | None:
        """What may be published of the shifts; None where nothing is shifted."""
        if self._made is None:
            return None
        shift, keyed = self._made
        return ShiftRef(
            columns=self._columns,
            days=shift.days,
            scope=shift.scope.value,
            series=keyed.series,
            key=keyed.key.fingerprint,
            promise="a disguise, no guarantee",
        )


class FirstDays:
    """The first day of each person in one column of dates, over all records that were added.

    Memory: 16 bytes a person, and as much for some millions of records that wait.
    """

    def __init__(self) -> None:
        self._persons, self._days = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []

    def add(self, persons: "Ints", days: "Floats") -> None:
        """Take the next records.

        Args:
            persons: (n,) number of whom each is about.
            days: (n,) days since 1970-01-01; NaN = null.
        """
        known = ~np.isnan(days)
        self._waiting.append((persons[known], days[known].astype(np.int64)))
        if sum(len(part) for part, _ in self._waiting) > max(_WAITING, len(self._persons)):
            self._join()

    def of(self, persons: "Ints", among: "npt.NDArray[np.bool_]") -> "Floats":
        """(n,) first day of the person of each record; NaN where there is none.

        Args:
            persons: (m,) number of each person that a record names.
            among: (n,) which records name one.
        """
        if self._waiting:
            self._join()
        place = np.searchsorted(self._persons, persons)
        found = place < len(self._persons)
        found[found] = self._persons[place[found]] == persons[found]
        first = np.full(len(among), np.nan)
        first[np.flatnonzero(among)[found]] = self._days[place[found]]
        return first

    def _join(self) -> None:
        """Hold the persons in order, each once, with the first day."""
        parts = [(self._persons, self._days), *self._waiting]
        persons, days = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((days, persons))
        persons, days = persons[order], days[order]
        first = np.diff(persons, prepend=persons[:1] - 1) != 0
        self._persons, self._days, self._waiting = persons[first], days[first], []
