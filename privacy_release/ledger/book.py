"""One data set's ledger inside one transaction: what a decision needs is read and checked, entries are added.

What is read does not grow with the ledger. The newest entry is held against the head, and its running totals
against their seal; where a rolling limit needs the totals before its window, so is the entry before it.
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

TOLERANCE = timedelta(minutes=1)  # between the clocks of machines that write to one ledger
LONGEST_LABEL = 250  # characters


@dataclass(frozen=True, kw_only=True)
class Held:
    """The last attempt of a booking: the entry that reserved it, and the one that closed it."""

    reserve: Entry
    closed: Entry | None

    @property
    def booking(self) -> Booking:
        """What they tell."""
        return booking_of(self.reserve, self.closed)

    def taken(self, *, owned: bool) -> Booking:
        """The booking for somebody who may commit it, and may give it back if it is their own."""
        return replace(self.booking, token=_token(self.reserve, owned), owned=owned)

    def lets_commit(self, token: str) -> bool:
        """Whether the ledger gave this token to somebody who took this attempt."""
        return any(secrets.compare_digest(token, _token(self.reserve, owned)) for owned in (True, False))

    def lets_cancel(self, token: str) -> bool:
        """Whether the ledger gave this token to whom reserved this attempt."""
        return secrets.compare_digest(token, _token(self.reserve, owned=True))


def _token(reserve: Entry, owned: bool) -> str:
    """Made of the entry's salt, which the ledger tells nobody; so it needs no place of its own."""
    return hashlib.sha256(f"{'owner' if owned else 'taker'} {reserve.salt}".encode()).hexdigest()


@dataclass(kw_only=True)
class Book:
    """A data set's ledger as it ends; `append` is the only way to change it.

    Attributes:
        rows: what is stored.
        head: as stored; of a data set that is not known, an empty one that is not stored.
        totals: after the newest entry.
        now: the time of this transaction, UTC; never before the newest entry.
    """

    rows: Rows
    head: Head
    totals: Totals
    now: datetime
    _until: dict[datetime, tuple[int, Totals]] = field(default_factory=dict, repr=False)

    @property
    def dataset(self) -> str:
        """Whose it is."""
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
        # The name stays out: where it is set, SQLite looks for it in all entries, which refer to it.
        head = {name: value for name, value in vars(self.head).items() if name != "dataset"}
        connection.execute(DATASETS.update().where(DATASETS.c.dataset == entry.dataset).values(head))
        self.rows.write_derived([(entry, self.totals)])
        self.__dict__.pop("open_reservations", None)
        return entry

    def grant(self, limit: Limit, *, reason: str, by: str) -> Entry:
        """Write that a limit holds from now on.

        Raises:
            ValueError: if it is accounted as zcdp, and of bookings that it would bound no rho follows.
        """
        detail = {"period": limit.period.name, "reason": reason, "by": by}
        if limit.is_zcdp:
            detail["accounting"] = limit.accounting.value
            self._sum_rhos()
            as_granted = replace(self.totals, limits=(limit,))
            (standing,) = standings(as_granted, self.outside(as_granted, self.now, self.open_reservations))
            if standing.unlike:
                raise ValueError(
                    f"a limit accounted as zcdp must bound losses with a rho or of pure epsilon, and "
                    f"{standing.unlike} bookings of {self.dataset} have a delta and no rho; grant a limit "
                    "accounted by sum, or one of a shorter period"
                )
        return self.append(Event.GRANT, str(self.head.entries + 1), limit, detail=detail)

    def _sum_rhos(self) -> None:
        """Make all running totals anew with sums of rho's, before the first limit that is accounted so."""
        if not self.totals.zcdp and self.head.entries:
            carry_over(self.rows, self.head, zcdp=True)
            self.totals = self.rows.totals(self.rows.entry(self.head.entries))
            self._until.clear()

    def held(self, key: str) -> Held | None:
        """The last attempt of the booking of that key; None if it was never reserved."""
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
        """Write a reservation; whoever asked for it owns it."""
        detail = detail if promise is None else {**detail, **promise.to_detail()}
        entry = self.append(Event.RESERVE, key, loss, attempt=attempt, detail=detail)
        return Held(reserve=entry, closed=None).taken(owned=True)

    def close(self, event: Event, held: Held, detail: Mapping[str, str]) -> Entry:
        """Commit a reservation or give it back.

        That nothing else closed it must be sure: all entries since it was made are held against the chain.
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
        """What of each limit is spent now."""
        return self._others(self.open_reservations)

    def fits(self, loss: PrivacyLoss, taken: Booking | None = None, promise: Promise | None = None) -> bool:
        """Whether a loss keeps every limit; of a reservation that is `taken`, which may count already."""
        if promise is not None and not self._has_part(loss, taken, promise):
            return False
        # Most often it fits even if open reservations count that are older than the window.
        return fits(loss, self._others([], taken), promise) or fits(
            loss, self._others(self.open_reservations, taken), promise
        )

    def require(
        self, loss: PrivacyLoss, taken: Booking | None = None, promise: Promise | None = None
    ) -> None:
        """Refuse a loss that does not keep every limit.

        Raises:
            BudgetExceededError: naming each limit that is short, and the ledger that was asked.
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
        """Whether a promise of equal parts has one left for a loss; any other promise has no parts."""
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
        """Whether a reservation is older than the window of a rolling limit, which so counts it no more."""
        rolling = [limit.period for limit in self.totals.limits if limit.period.window]
        return any(not counts(period, booking, self.now) for period in rolling)

    def totals_until(self, time: datetime) -> tuple[int, Totals]:
        """The number of the last entry that is not later than a time, and the totals after it."""
        if time not in self._until:
            entry = self.rows.last_until(time)
            self._until[time] = (0, Totals()) if entry is None else (entry.number, self.rows.totals(entry))
        return self._until[time]

    def outside(self, totals: Totals, time: datetime, open_: list[Entry]) -> dict[str, Spent]:
        """What of totals is older than the window of each rolling limit at a time, for `standings`."""
        found = {}
        for limit in totals.limits:
            if limit.period.window is not None:
                number, before = self.totals_until(time - limit.period.window)
                found[limit.period.name] = _with_open(before, number, open_, zcdp=totals.zcdp)
        return found

    @cached_property
    def open_reservations(self) -> list[Entry]:
        """The open reservations, where there are any."""
        return self.rows.open_reservations() if self.totals.spent.is_open else []

    def _others(self, open_: list[Entry], taken: Booking | None = None) -> tuple[Standing, ...]:
        """The standings without a reservation."""
        totals = self.totals if taken is None else self.totals.without(taken)
        others = [entry for entry in open_ if taken is None or entry.hash != taken.entry_hash]
        return standings(totals, self.outside(totals, self.now, others))

    def _free_again(self, limit: Limit, loss: PrivacyLoss, promise: Promise | None) -> datetime | None:
        """When a rolling limit covers a loss if nothing else is booked; None if waiting does not help.

        It gets free when an entry leaves the window: the first one with which enough has left is searched.
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
        """Keep the text that a commit's hash is of."""
        self.rows.connection.execute(
            MODELS.insert().values(dataset=commit.dataset, number=commit.number, model=model)
        )

    def with_model(self, held: Held) -> Booking:
        """The booking with its model, if it is committed.

        Raises:
            IntegrityError: if the stored text is not the one that was committed.
        """
        booking = held.booking
        if held.closed is None or booking.state is not State.COMMITTED:
            return booking
        return replace(booking, model=model_of(self.rows, held.closed))


def _with_open(totals: Totals, number: int, open_: list[Entry], *, zcdp: bool) -> Spent:
    """What was committed by totals, and what is still reserved of the entries up to a number."""
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
    """The ledger of a data set as it ends, checked.

    Args:
        connection: inside a transaction.
        dataset: which; one that is not known has no entries.
        signing_key: of the ledger.
        now: the time by the clock, UTC.
        lock: keep all others from writing to the data set until the transaction ends; its entries get their
            running totals, where a version wrote them that made none.
        begin: make the data set known if it is not.

    Raises:
        IntegrityError: if the end is not what was written, or the signing key is another.
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
    """Refuse to go on by a clock that is behind the newest entry.

    Raises:
        LedgerError: if it is by more than a minute.
    """
    if book.now - clock > TOLERANCE:
        raise LedgerError(
            f"the clock must not be behind the ledger of data set {book.dataset}, whose last entry is of "
            f"{book.now:%Y-%m-%d %H:%M:%S} UTC, got {clock:%Y-%m-%d %H:%M:%S} UTC: rolling limits go by "
            "it, so nothing is booked. Set the clock right (NTP) and retry; if it is right, that entry was "
            "written by one that was ahead: restore the ledger from a backup, or wait until then"
        )


def known_datasets(connection: Connection) -> tuple[str, ...]:
    """Names of all data sets that have a head or entries."""
    names = connection.execute(union(select(DATASETS.c.dataset), select(ENTRIES.c.dataset))).scalars()
    return tuple(sorted(names))


def check_label(what: str, text: str) -> None:
    """Refuse text that cannot stand in a line of the history.

    Raises:
        ValueError: if it is blank, padded, unprintable or longer than 250 characters.
    """
    if not text.strip() or text != text.strip() or not text.isprintable() or len(text) > LONGEST_LABEL:
        raise ValueError(
            f"the {what} must be 1 to {LONGEST_LABEL} printable characters without blanks around them, got "
            f"{len(text)} characters; correct it"
        )


def _make_known(connection: Connection, head: Head) -> None:
    # Two first grants may meet here: one makes the row, the other waits for it and goes on.
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(DATASETS).values(vars(head)).on_conflict_do_nothing())
