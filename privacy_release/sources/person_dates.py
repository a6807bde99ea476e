"""The dates of each person of a source: their first day in all files, and the shift of their dates.

A shift is a disguise, not a guarantee. All dates of a person are moved by one number of days, derived from
the identifier by HMAC-SHA256. Anyone with the key can undo it, and one true date of a person reveals all
others.
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

_WAITING = 1_000_000  # days of records that are processed together


class Shifts:
    """The number of days by which each person's dates are moved.

    Args:
        schema: Schema of the source.
        naming: Series and release that the shifts are for.

    Raises:
        SchemaError: If the schema does not state whose the dates are.
        SpecError: If dates are to be shifted without `naming`.
        SecretError: If the key is missing or too short.
    """

    def __init__(self, schema: "DataSchema", naming: Naming | None) -> None:
        self.by = schema.shifted_by
        self._columns = list(schema.to_shift)
        self._made: tuple[Shift, KeyedHash] | None = None
        if not self.by:
            return
        if naming is None:
            raise SpecError(f"shifted dates of {self._columns} need the name and the ID of the release")
        shift = schema.to_shift[self._columns[0]]
        self._made = (shift, naming.keyed(f"shift of up to {shift.days} days", shift))

    def of(self, identifiers: "pd.Series") -> "Ints":
        """Return the days, never 0, by which the dates of each record are moved, shape (n,).

        Raises:
            SchemaError: If an identifier is null, with column and count.
        """
        assert self._made is not None
        shift, keyed = self._made
        digests, codes = keyed.of(identifiers)
        if nameless := int((codes < 0).sum()):
            raise SchemaError(
                f"{self.by}: {nameless} records have no value by which to shift dates: give each one, or "
                "drop these records"
            )
        # The remainder of 64 bits is uniform except for a part in 2^47.
        drawn = digests[:, :8].copy().view(">u8")[:, 0] % np.uint64(2 * shift.days)
        days = drawn.astype(np.int64) - shift.days
        moved: Ints = (days + (days >= 0))[codes]
        return moved

    def reference(self) -> ShiftRef | None:
        """Return what may be published about the shifts. None if nothing is shifted."""
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
    """The first day of each person in one column of dates, over all added records.

    Memory: 16 bytes per person, and as much for some millions of waiting records.
    """

    def __init__(self) -> None:
        self._persons, self._days = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []

    def add(self, persons: "Ints", days: "Floats") -> None:
        """Add the next records.

        Args:
            persons: Number of each record's person, shape (n,).
            days: Days since 1970-01-01, shape (n,). NaN is null.
        """
        known = ~np.isnan(days)
        self._waiting.append((persons[known], days[known].astype(np.int64)))
        if sum(len(part) for part, _ in self._waiting) > max(_WAITING, len(self._persons)):
            self._join()

    def of(self, persons: "Ints", among: "npt.NDArray[np.bool_]") -> "Floats":
        """Return the first day of each record's person, shape (n,). NaN if there is none.

        Args:
            persons: Number of each person that a record names, shape (m,).
            among: Whether a record names a person, shape (n,).
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
        """Keep the persons sorted and unique, with the first day."""
        parts = [(self._persons, self._days), *self._waiting]
        persons, days = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((days, persons))
        persons, days = persons[order], days[order]
        first = np.diff(persons, prepend=persons[:1] - 1) != 0
        self._persons, self._days, self._waiting = persons[first], days[first], []
