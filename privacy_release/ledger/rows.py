"""Read rows of the ledger's tables as entries and totals, each checked against its hash or seal."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, bindparam, exists, select

from privacy_engine.dp.chain import (
    Head,
    check_end,
    check_entry,
    check_head,
    check_next,
    check_totals,
    edited,
    sealed_head,
    totals_seal,
)
from privacy_engine.dp.ledger import Entry, Event
from privacy_engine.dp.limits import Accounting
from privacy_engine.dp.loss import Neighbours
from privacy_engine.dp.totals import Totals
from privacy_engine.errors import IntegrityError
from privacy_release.ledger.tables import DATASETS, ENTRIES, RESERVATIONS, TOTALS

_BATCH = 1000


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The stored rows of one data set, inside a transaction."""

    connection: Connection
    dataset: str
    signing_key: bytes | None

    def entry(self, number: int) -> Entry:
        """Return the entry of a number, checked against its own hash."""
        found = self._checked(self._entries().where(ENTRIES.c.number == number))
        if not found:
            raise edited(self.dataset, f"entry {number} is missing")
        return found[0]

    def sample(self, numbers: Sequence[int]) -> list[Entry]:
        """Return the entries of some numbers, each checked against its own hash."""
        return self._checked(self._entries().where(ENTRIES.c.number.in_(numbers)))

    def newest(self, count: int) -> list[Entry]:
        """Return the newest entries, at most `count`, newest first."""
        return self._checked(self._entries().order_by(ENTRIES.c.number.desc()).limit(count))

    def last_page(self, head: Head, count: int) -> tuple[Entry, ...]:
        """Return up to `count` newest entries, oldest first, checked against each other and the head."""
        return tuple(self.chain(head, first=max(1, head.entries - count + 1)))

    def of_key(self, key: str) -> list[Entry]:
        """Return the entries of the last attempt of a booking, by number."""
        query = self._entries().where(ENTRIES.c.key == key, ENTRIES.c.event != Event.GRANT.value)
        found = self._checked(query.order_by(ENTRIES.c.attempt.desc()).limit(2))
        attempt = max((entry.attempt for entry in found), default=0)
        return sorted((e for e in found if e.attempt == attempt), key=lambda entry: entry.number)

    def last_until(self, time: datetime) -> Entry | None:
        """Return the last entry up to a time. None if all are later."""
        newest_first = (ENTRIES.c.at.desc(), ENTRIES.c.number.desc())
        query = self._entries().where(ENTRIES.c.at <= time_text(time)).order_by(*newest_first).limit(1)
        return next(iter(self._checked(query)), None)

    def totals(self, entry: Entry) -> Totals:
        """Return the running totals after an entry, checked against their seal."""
        return Totals.from_text(self.totals_texts([entry])[entry.number])

    def totals_texts(self, entries: Sequence[Entry]) -> dict[int, str]:
        """Return the stored totals after consecutive entries, by number, checked against their seals."""
        first, last = entries[0].number, entries[-1].number
        stored = self.connection.execute(
            select(TOTALS).where(TOTALS.c.dataset == self.dataset, TOTALS.c.number.between(first, last))
        )
        rows = {row.number: row for row in stored}
        for entry in entries:
            if entry.number not in rows:
                raise edited(self.dataset, f"the running totals of entry {entry.number} are missing")
            check_totals(entry, rows[entry.number].totals, rows[entry.number].seal, self.signing_key)
        return {number: row.totals for number, row in rows.items()}

    def lack_totals(self) -> bool:
        """Return whether there are entries without running totals, written by an earlier version."""
        of_entry, of_totals = (
            exists(select(table.c.number).where(table.c.dataset == self.dataset))
            for table in (ENTRIES, TOTALS)
        )
        return bool(self.connection.execute(select(of_entry & ~of_totals)).scalar())

    def open_reservations(self) -> list[Entry]:
        """Return the entries that reserved and are neither committed nor cancelled, oldest first."""
        joined = (ENTRIES.c.dataset == RESERVATIONS.c.dataset) & (ENTRIES.c.number == RESERVATIONS.c.number)
        query = self._entries().join(RESERVATIONS, joined).where(RESERVATIONS.c.is_open == 1)
        return self._checked(query.order_by(RESERVATIONS.c.number))

    def keys_of_run(self, run: str) -> list[str]:
        """Return keys of the bookings that were reserved with this `run` in their detail."""
        joined = (ENTRIES.c.dataset == RESERVATIONS.c.dataset) & (ENTRIES.c.number == RESERVATIONS.c.number)
        query = self._entries().join(RESERVATIONS, joined).where(RESERVATIONS.c.run == run_hash(run))
        return [entry.key for entry in self._checked(query) if entry.detail.get("run") == run]

    def lacking(self, hashes: Collection[str]) -> set[str]:
        """Return those hashes for which the data set has no entry."""
        query = select(ENTRIES.c.hash).where(ENTRIES.c.dataset == self.dataset, ENTRIES.c.hash.in_(hashes))
        return set(hashes) - set(self.connection.execute(query).scalars())

    def chain(self, head: Head, *, first: int = 1) -> Iterator[Entry]:
        """Yield all entries from a number on, checked against their hashes, each other and the head."""
        last = self.entry(first - 1) if first > 1 else None
        number = first
        while batch := self._read(self._entries().where(ENTRIES.c.number >= number), _BATCH):
            for entry in batch:
                check_next(self.dataset, last, entry, self.signing_key)
                yield entry
                last = entry
            number = batch[-1].number + 1
        check_end(head, last)

    def were_ever_zcdp(self) -> bool:
        """Return whether a limit was ever accounted as zcdp, so that running totals have sums of rho's."""
        grants = self._checked(self._entries().where(ENTRIES.c.event == Event.GRANT.value))
        return any(entry.detail.get("accounting") == Accounting.ZCDP for entry in grants)

    def numbers(self, table: Table) -> set[int]:
        """Return the numbers of all entries that a table has a row for."""
        query = select(table.c.number).where(table.c.dataset == self.dataset)
        return set(self.connection.execute(query).scalars())

    def reservations(self) -> dict[int, tuple[str, bool]]:
        """Return the hash of the run, and whether it is open, for each reserving entry by number."""
        query = select(RESERVATIONS).where(RESERVATIONS.c.dataset == self.dataset)
        return {row.number: (row.run, bool(row.is_open)) for row in self.connection.execute(query)}

    def write_derived(self, entries: Iterable[tuple[Entry, Totals]]) -> None:
        """Store the totals of new entries, and the reservations that they make or close."""
        totals, reserved, closed = [], [], []
        for entry, after in entries:
            text = after.to_text()
            name = {"dataset": self.dataset, "number": entry.number}
            totals.append(name | {"totals": text, "seal": totals_seal(entry, text, self.signing_key)})
            if entry.event is Event.RESERVE:
                reserved.append(name | {"run": run_hash(entry.detail.get("run", "")), "is_open": 1})
            elif entry.event is not Event.GRANT:
                closed.append(entry)
        if totals:
            self.connection.execute(TOTALS.insert(), totals)
        if reserved:
            self.connection.execute(RESERVATIONS.insert(), reserved)
        if closed:
            self._close(closed)

    def _close(self, entries: Sequence[Entry]) -> None:
        """Mark reservations as closed. Closing entries name them by key and attempt."""
        reserved = select(ENTRIES.c.number).where(
            ENTRIES.c.dataset == self.dataset,
            ENTRIES.c.key == bindparam("of_key"),
            ENTRIES.c.attempt == bindparam("of_attempt"),
            ENTRIES.c.event == Event.RESERVE.value,
        )
        update = RESERVATIONS.update().where(
            RESERVATIONS.c.dataset == self.dataset, RESERVATIONS.c.number == reserved.scalar_subquery()
        )
        self.connection.execute(
            update.values(is_open=0), [{"of_key": e.key, "of_attempt": e.attempt} for e in entries]
        )

    def _entries(self) -> Select[Any]:
        return select(ENTRIES).where(ENTRIES.c.dataset == self.dataset)

    def _read(self, query: Select[Any], count: int) -> list[Entry]:
        rows = self.connection.execute(query.order_by(ENTRIES.c.number).limit(count)).mappings()
        return [entry_of(row) for row in rows]

    def _checked(self, query: Select[Any]) -> list[Entry]:
        found = [entry_of(row) for row in self.connection.execute(query).mappings()]
        for entry in found:
            check_entry(entry, self.signing_key)
        return found


def stored_head(rows: Rows, *, lock: bool = False) -> Head:
    """Return the head of a data set's chain, checked against its seal. Empty for an unknown data set.

    Raises:
        IntegrityError: If it was edited or removed, or the signing key is another.
    """
    query = select(DATASETS).where(DATASETS.c.dataset == rows.dataset)
    # SQLite has no row locks and ignores this: its whole transaction is exclusive.
    row = rows.connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None and rows.newest(1):
        raise IntegrityError(
            f"the ledger of data set {rows.dataset} has entries and no head: it was changed by other hands; "
            "restore it from a backup"
        )
    head = sealed_head(rows.dataset, 0, "", rows.signing_key) if row is None else Head(**row)
    check_head(head, rows.signing_key)
    return head


def row_of(entry: Entry) -> dict[str, Any]:
    """Return an entry as a row of its table."""
    return {
        **vars(entry),
        "event": entry.event.value,
        "neighbours": entry.neighbours.value,
        "at": time_text(entry.at),
        "detail": json.dumps(entry.detail, sort_keys=True),
    }


def entry_of(row: RowMapping) -> Entry:
    """Return the entry in a row of its table.

    Raises:
        IntegrityError: If it is no valid entry.
    """
    try:
        return Entry(
            **{
                **row,
                "event": Event(row["event"]),
                "neighbours": Neighbours(row["neighbours"]),
                "at": datetime.fromisoformat(row["at"]).astimezone(UTC),
                "detail": dict(json.loads(row["detail"])),
            }
        )
    except (ValueError, TypeError):
        raise IntegrityError(
            f"the ledger of data set {row['dataset']} was changed by other hands: entry {row['number']} "
            "cannot be read; restore it from a backup"
        ) from None


def time_text(time: datetime) -> str:
    """Return a time as it is hashed and stored: texts of equal length that sort like the times."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def run_hash(run: str) -> str:
    """Return the name of a run in an index, of fixed length."""
    return hashlib.sha256(run.encode()).hexdigest()
