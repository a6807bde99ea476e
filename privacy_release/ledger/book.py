"""One data set's ledger inside one transaction: read and check what a decision needs, and add entries.

The amount that is read does not grow with the ledger. The newest entry is checked against the head, and its
running totals against their seal. If a rolling limit needs the totals before its window, the entry before the
window is checked in the same way.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy import Connection, select, union
from sqlalchemy.dialects import postgresql, sqlite

from privacy_engine.dp.chain import (
    Head,
    chained,
    check_end,
    check_next,
    edited,
    sealed_head,
)
from privacy_engine.dp.ledger import (
    Booking,
    Entry,
    Event,
    Standing,
    State,
    booking_of,
    counts,
    fits,
    no_part_left,
    promise_of,
    refuse_overspending,
)
from privacy_engine.dp.limits import Limit, decimal_text
from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.dp.promises import Promise
from privacy_engine.dp.totals import Spent, Sums, Totals, parts_used, standings
from privacy_engine.errors import BudgetExceededError, LedgerError
from privacy_release.ledger.database import shown
from privacy_release.ledger.rows import Rows, row_of, stored_head
from privacy_release.ledger.tables import DATASETS, ENTRIES, MODELS
from privacy_release.ledger.whole import carry_over, model_of

TOLERANCE = timedelta(minutes=1)  # largest difference between the clocks of machines that write to a ledger
LONGEST_LABEL = 250  # characters


@dataclass(frozen=True, kw_only=True)
class Held:
    """The last attempt of a booking: the entry that reserved it, and the one that closed it."""

    reserve: Entry
    closed: Entry | None

    @property
    def booking(self) -> Booking:
        """The booking that the entries describe."""
        return booking_of(self.reserve, self.closed)

    def taken(self, *, owned: bool) -> Booking:
        """Return the booking for a task that may commit it, and may cancel it if it `owned`."""
        return replace(self.booking, token=_token(self.reserve, owned), owned=owned)

    def lets_commit(self, token: str) -> bool:
        """Return whether the ledger gave this token to a task that took this attempt."""
        return any(secrets.compare_digest(token, _token(self.reserve, owned)) for owned in (True, False))

    def lets_cancel(self, token: str) -> bool:
        """Return whether the ledger gave this token to the task that reserved this attempt."""
        return secrets.compare_digest(token, _token(self.reserve, owned=True))


def _token(reserve: Entry, owned: bool) -> str:
    """Derive a token from the entry's salt, which the ledger never shows, so it needs no storage."""
    return hashlib.sha256(f"{'owner' if owned else 'taker'} {reserve.salt}".encode()).hexdigest()


@dataclass(kw_only=True)
class Book:
    """The end of a data set's ledger. `append` is the only way to change it.

    Attributes:
        rows: Rows of the data set as stored.
        head: Last entry of the chain as stored. An unknown data set has an empty head that is not stored.
        totals: Running totals after the newest entry.
        now: Time of this transaction, UTC, never before the newest entry.
    """

    rows: Rows
    head: Head
    totals: Totals
    now: datetime
    _until: dict[datetime, tuple[int, Totals]] = field(default_factory=dict, repr=False)

    @property
    def dataset(self) -> str:
        """The name of the data set."""
        return self.head.dataset

    def append(
        self,
        event: Event,
        key: str,
        amount: Limit | PrivacyLoss,
        *,
        attempt: int = 1,
        detail: Mapping[str, str],
    ) -> Entry:
        """Write one more entry, for a limit or a loss, and move the head to it."""
        key_of_chain = self.rows.signing_key
        rho = amount.rho if isinstance(amount, PrivacyLoss) else None
        entry = chained(
            Entry(
                dataset=self.dataset,
                number=self.head.entries + 1,
                event=event,
                key=key,
                attempt=attempt,
                at=self.now,
                epsilon=decimal_text(amount.epsilon),
                delta=decimal_text(amount.delta),
                neighbours=amount.neighbours,
                detail={**detail, **({} if rho is None else {"rho": decimal_text(rho)})},
                salt=secrets.token_hex(32),
                previous="",
            ),
            self.head.hash,
            key_of_chain,
        )
        self.head = sealed_head(entry.dataset, entry.number, entry.hash, key_of_chain)
        self.totals = self.totals.after(entry)
        connection = self.rows.connection
        connection.execute(ENTRIES.insert().values(row_of(entry)))
        # The name is not set: otherwise SQLite searches for it in all entries, which refer to it.
        head = {name: value for name, value in vars(self.head).items() if name != "dataset"}
        connection.execute(DATASETS.update().where(DATASETS.c.dataset == entry.dataset).values(head))
        self.rows.write_derived([(entry, self.totals)])
        self.__dict__.pop("open_reservations", None)
        return entry

    def grant(self, limit: Limit, *, reason: str, by: str) -> Entry:
        """Write a limit that applies from now on.

        Raises:
            ValueError: If it is accounted as zcdp, but some bookings that it would bound imply no rho.
        """
        detail = {"period": limit.period.name, "reason": reason, "by": by}
        if limit.is_zcdp:
            detail["accounting"] = limit.accounting.value
            self._sum_rhos()
            as_granted = replace(self.totals, limits=(limit,))
            (standing,) = standings(as_granted, self.outside(as_granted, self.now, self.open_reservations))
            if standing.unlike:
                raise ValueError(
                    f"a limit accounted as zcdp must bound losses with a rho or of pure epsilon, but "
                    f"{standing.unlike} bookings of {self.dataset} have a delta and no rho; grant a limit "
                    "accounted by sum, or one of a shorter period"
                )
        return self.append(Event.GRANT, str(self.head.entries + 1), limit, detail=detail)

    def _sum_rhos(self) -> None:
        """Recompute all running totals with sums of rho's, before the first limit that is accounted so."""
        if not self.totals.zcdp and self.head.entries:
            carry_over(self.rows, self.head, zcdp=True)
            self.totals = self.rows.totals(self.rows.entry(self.head.entries))
            self._until.clear()

    def held(self, key: str) -> Held | None:
        """Return the last attempt of a key's booking. None if it was never reserved."""
        match self.rows.of_key(key):
            case []:
                return None
            case [Entry(event=Event.RESERVE) as reserve]:
                return Held(reserve=reserve, closed=None)
            case [Entry(event=Event.RESERVE) as reserve, closed]:
                return Held(reserve=reserve, closed=closed)
        raise edited(self.dataset, "an entry that reserved a booking is missing")

    def reserve(
        self,
        key: str,
        loss: PrivacyLoss,
        attempt: int,
        detail: Mapping[str, str],
        promise: Promise | None = None,
    ) -> Booking:
        """Write a reservation, which belongs to the calling task.

        Raises:
            ValueError: If the loss is 0, for which no budget pays.
        """
        if not loss.must_be_booked:
            raise ValueError("a loss of epsilon 0 is not booked, because the release depends on no record")
        detail = detail if promise is None else {**detail, **promise.to_detail()}
        entry = self.append(Event.RESERVE, key, loss, attempt=attempt, detail=detail)
        return Held(reserve=entry, closed=None).taken(owned=True)

    def close(self, event: Event, held: Held, detail: Mapping[str, str]) -> Entry:
        """Commit a reservation or cancel it.

        To be sure that nothing else closed it, all entries since it was made are checked against the chain.
        """
        for entry in self.rows.chain(self.head, first=held.reserve.number):
            if entry.event is not Event.RESERVE and (entry.key, entry.attempt) == (
                held.reserve.key,
                held.reserve.attempt,
            ):
                raise edited(self.dataset, f"entry {entry.number} was edited or moved")
        booking = held.booking
        promised = {} if booking.promise is None else booking.promise.to_detail()
        return self.append(
            event, held.reserve.key, booking.loss, attempt=booking.attempt, detail={**detail, **promised}
        )

    def standings(self) -> tuple[Standing, ...]:
        """Return what is spent of each limit now."""
        return self._others(self.open_reservations)

    def fits(self, loss: PrivacyLoss, taken: Booking | None = None, promise: Promise | None = None) -> bool:
        """Return whether a loss meets every limit. A reservation that is `taken` may already count."""
        if promise is not None and not self._has_part(loss, taken, promise):
            return False
        # Usually it fits even if open reservations that are older than the window count.
        return fits(loss, self._others([], taken), promise) or fits(
            loss, self._others(self.open_reservations, taken), promise
        )

    def require(
        self, loss: PrivacyLoss, taken: Booking | None = None, promise: Promise | None = None
    ) -> None:
        """Raise if a loss does not meet every limit.

        Raises:
            BudgetExceededError: Naming each limit that is too small, and the ledger.
        """
        if self.fits(loss, taken, promise):
            return
        if promise is not None and not self._has_part(loss, taken, promise):
            raise BudgetExceededError(no_part_left(self.dataset, loss, promise))
        others = self._others(self.open_reservations, taken)
        try:
            refuse_overspending(
                self.dataset, loss, others, lambda s: self._free_again(s.limit, loss, promise), promise
            )
        except BudgetExceededError as error:
            place = shown(self.rows.connection.engine.url)
            raise BudgetExceededError(f"{error} (by the ledger {place})") from None

    def _has_part(self, loss: PrivacyLoss, taken: Booking | None, promise: Promise) -> bool:
        """Return whether a promise of equal parts has one left for a loss. Other promises have no parts."""
        if promise.parts is None:
            return True
        totals = self.totals if taken is None else self.totals.without(taken)
        older = Spent()
        if promise.period.window is not None:
            number, before = self.totals_until(self.now - promise.period.window)
            others = [e for e in self.open_reservations if taken is None or e.hash != taken.entry_hash]
            older = _with_open(before, number, others, zcdp=totals.zcdp)
        return promise.is_part(loss) and parts_used(promise, totals.spent, older) < promise.parts.releases

    def is_stale(self, booking: Booking) -> bool:
        """Return whether a reservation is older than the window of a rolling limit, and so does not count."""
        rolling = [limit.period for limit in self.totals.limits if limit.period.window]
        return any(not counts(period, booking, self.now) for period in rolling)

    def totals_until(self, time: datetime) -> tuple[int, Totals]:
        """Return the number of the last entry up to a time, and the totals after it."""
        if time not in self._until:
            entry = self.rows.last_until(time)
            self._until[time] = (0, Totals()) if entry is None else (entry.number, self.rows.totals(entry))
        return self._until[time]

    def outside(self, totals: Totals, time: datetime, open_: list[Entry]) -> dict[str, Spent]:
        """Return the part of totals older than each rolling limit's window at a time, for `standings`."""
        found = {}
        for limit in totals.limits:
            if limit.period.window is not None:
                number, before = self.totals_until(time - limit.period.window)
                found[limit.period.name] = _with_open(before, number, open_, zcdp=totals.zcdp)
        return found

    @cached_property
    def open_reservations(self) -> list[Entry]:
        """Return the open reservations."""
        return self.rows.open_reservations() if self.totals.spent.is_open else []

    def _others(self, open_: list[Entry], taken: Booking | None = None) -> tuple[Standing, ...]:
        """Return the standings without a reservation."""
        totals = self.totals if taken is None else self.totals.without(taken)
        others = [entry for entry in open_ if taken is None or entry.hash != taken.entry_hash]
        return standings(totals, self.outside(totals, self.now, others))

    def _free_again(self, limit: Limit, loss: PrivacyLoss, promise: Promise | None) -> datetime | None:
        """Return when a rolling limit covers a loss if nothing else is booked. None if waiting does not help.

        Budget becomes free when an entry leaves the window. This searches for the first entry after which
        enough is free.
        """
        window = limit.period.window
        if window is None:
            return None
        low, high = self.totals_until(self.now - window)[0] + 1, self.head.entries + 1
        while low < high:
            middle = (low + high) // 2
            if self._covers_after(self.rows.entry(middle), limit, loss, promise):
                high = middle
            else:
                low = middle + 1
        return None if low > self.head.entries else self.rows.entry(low).at + window

    def _covers_after(self, entry: Entry, limit: Limit, loss: PrivacyLoss, promise: Promise | None) -> bool:
        totals, open_ = self.rows.totals(entry), self.open_reservations
        left = _with_open(totals, entry.number, open_, zcdp=self.totals.zcdp)
        (standing,) = standings(replace(self.totals, limits=(limit,)), {limit.period.name: left})
        return standing.covers(loss, promise)

    def store_model(self, commit: Entry, model: str) -> None:
        """Store the text whose hash is in a commit."""
        self.rows.connection.execute(
            MODELS.insert().values(dataset=commit.dataset, number=commit.number, model=model)
        )

    def with_model(self, held: Held) -> Booking:
        """Return the booking with its model, if it is committed.

        Raises:
            IntegrityError: If the stored text is not the one that was committed.
        """
        booking = held.booking
        if held.closed is None or booking.state is not State.COMMITTED:
            return booking
        return replace(booking, model=model_of(self.rows, held.closed))


def _with_open(totals: Totals, number: int, open_: list[Entry], *, zcdp: bool) -> Spent:
    """Return what was committed according to totals, plus what is reserved by entries up to a number."""
    spent = totals.spent.only_committed()
    for entry in open_:
        if entry.number <= number:
            spent = spent.moved(promise_of(entry), reserved=Sums.of(entry, zcdp=zcdp))
    return spent


def open_book(
    connection: Connection,
    dataset: str,
    signing_key: bytes | None,
    now: datetime,
    *,
    lock: bool = False,
    begin: bool = False,
) -> Book:
    """Open the end of a data set's ledger and check it.

    Args:
        connection: Connection inside a transaction.
        dataset: Name of the data set. An unknown one has no entries.
        signing_key: Key of the ledger.
        now: Time of the clock, UTC.
        lock: Whether to keep all others from writing to the data set until the transaction ends. Its entries
            get their running totals, if a version wrote them that had none.
        begin: Whether to create the data set if it is unknown.

    Raises:
        IntegrityError: If the end is not what was written, or the signing key is another.
    """
    if begin:
        _make_known(connection, sealed_head(dataset, 0, "", signing_key))
    rows = Rows(connection=connection, dataset=dataset, signing_key=signing_key)
    head = stored_head(rows, lock=lock)
    newest = rows.newest(2)
    last = newest[0] if newest else None
    check_end(head, last)
    if last is not None and last.number > 1:
        check_next(dataset, newest[1] if len(newest) > 1 else None, last, signing_key)
    if lock and rows.lack_totals():
        carry_over(rows, head, zcdp=rows.were_ever_zcdp())
    totals = Totals() if last is None else rows.totals(last)
    return Book(rows=rows, head=head, totals=totals, now=max(now, last.at) if last else now)


def check_clock(book: Book, clock: datetime) -> None:
    """Raise if the clock is behind the newest entry.

    Raises:
        LedgerError: If it is behind by more than a minute.
    """
    if book.now - clock > TOLERANCE:
        raise LedgerError(
            f"the clock must not be behind the ledger of data set {book.dataset}, whose last entry is of "
            f"{book.now:%Y-%m-%d %H:%M:%S} UTC, got {clock:%Y-%m-%d %H:%M:%S} UTC: rolling limits depend on "
            "it, so nothing is booked. Set the clock (NTP) and retry; if it is right, that entry was "
            "written by one that was ahead: restore the ledger from a backup, or wait until then"
        )


def known_datasets(connection: Connection) -> tuple[str, ...]:
    """Return the names of all data sets that have a head or entries."""
    names = connection.execute(union(select(DATASETS.c.dataset), select(ENTRIES.c.dataset))).scalars()
    return tuple(sorted(names))


def check_label(what: str, text: str) -> None:
    """Raise if a text cannot be part of a line in the history.

    Raises:
        ValueError: If it is blank, padded, unprintable or longer than 250 characters.
    """
    if not text.strip() or text != text.strip() or not text.isprintable() or len(text) > LONGEST_LABEL:
        raise ValueError(
            f"the {what} must be 1 to {LONGEST_LABEL} printable characters without blanks around them, got "
            f"{len(text)} characters; correct it"
        )


def _make_known(connection: Connection, head: Head) -> None:
    # Two first grants may happen at once: one inserts the row, the other waits for it and continues.
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(DATASETS).values(vars(head)).on_conflict_do_nothing())
