"""The privacy budget ledger: how much may be spent on a data set, and what was spent, stored forever.

A booking has two steps. `reserve` books the loss before the data are read. `commit` stores the model that was
measured with it. Both are idempotent by the booking's key, which names data, method, parameters and schema:
a retry, a cleared task or another run of the same gets the same booking and the same stored model, and spends
nothing. A process that dies in between has spent what it reserved, and its retry continues from there.

Every data set has a chain of entries, each hashed with the one before (`privacy_engine.dp.chain`), and
running totals that are sealed with the entry that they follow. A booking reads and checks the end of the
chain and whatever else its decision depends on, however long the chain is. `check` verifies all of it.
"""

import getpass
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from privacy_engine.dp.chain import check_key, model_hash
from privacy_engine.dp.ledger import Booking, Entry, Event, Standing, State
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.errors import IntegrityError, LedgerError
from privacy_engine.moved import renamed
from privacy_release.ledger import database
from privacy_release.ledger.book import Book, Held, check_clock, check_label, known_datasets, open_book
from privacy_release.ledger.course import Moment, course_of
from privacy_release.ledger.rows import Rows
from privacy_release.ledger.whole import check_whole

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.dp.promises import Promise

__all__ = ["Booking", "BudgetLedger", "Entry", "Event", "Limit", "Moment", "Period", "Standing", "State"]


@dataclass(frozen=True)
class BudgetLedger:
    """The ledger in one database.

    Args:
        url: Address of a PostgreSQL or SQLite database (`postgresql://...`, `sqlite:////...`), or path of a
            file. It may contain a password, which is not shown.
        signing_key: Key of at least 16 bytes. Only its holders can write entries that pass the checks.
        clock: Function that returns the time, UTC. Default: the database server's clock, for SQLite this
            machine's. No entry is dated before the one above it. A clock that is behind it, or ahead of the
            database server's, is refused.

    Every method raises `LedgerError` if the database cannot be reached, refuses, or is not migrated; and
    `IntegrityError` if the entries of the data set are not those that were written, or the key is another.
    """

    url: str = field(repr=False)
    signing_key: bytes | None = field(default=None, repr=False, kw_only=True)
    clock: "Callable[[], datetime] | None" = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_key(self.signing_key)
        database.database_url(self.url)

    @property
    def place(self) -> str:
        """The location, without user and password."""
        return database.shown(database.database_url(self.url))

    @property
    def is_file(self) -> bool:
        """Whether it is a SQLite file, which this process may create."""
        return database.database_url(self.url).get_backend_name() == "sqlite"

    @cached_property
    def _engine(self) -> "Engine":
        return database.engine_of(database.database_url(self.url))

    def migrate(self) -> None:
        """Create the tables, or update them to this version. A SQLite file is created for this user only."""
        database.migrate(self._engine)

    @property
    def is_migrated(self) -> bool:
        """Return whether the tables exist in this version."""
        return database.is_migrated(self._engine)

    def grant(self, dataset: str, limit: Limit, *, reason: str, by: str | None = None) -> Entry:
        """Set a limit, which replaces the one of the same period. Limits of several periods apply together.

        Args:
            dataset: Name of the data set. Its first grant creates it.
            limit: Limit to set. Epsilon 0 closes the data set. It may be accounted differently from the one
                it replaces.
            reason: Reason for the history. It must not mention a person.
            by: Author for the history. Default: the user of this process.

        Raises:
            ValueError: If a text is not well-formed, or the limit has another neighbour relation than the
                data set's other limits or bookings, or is accounted as zcdp but some bookings that it would
                bound imply no rho.
        """
        by = _this_user() if by is None else by
        for what, text in (("data set", dataset), ("reason", reason), ("author", by)):
            check_label(what, text)
        with self._writing(dataset, begin=True) as book:
            kept = {held.neighbours for held in book.totals.limits if held.period != limit.period}
            spent = {book.totals.neighbours} - {None}
            if {*kept, *spent} - {limit.neighbours}:
                raise ValueError(
                    f"the budget of {dataset} is for {(*kept, *spent)[0]}, and {limit.neighbours} does "
                    "not add to it; grant the limit for the former"
                )
            return book.grant(limit, reason=reason, by=by)

    def require(self, dataset: str, loss: "PrivacyLoss", *, promise: "Promise | None" = None) -> None:
        """Check whether a new booking, under a promise or none, would fit now. Nothing is booked.

        Raises:
            BudgetExceededError: If it would not.
        """
        with self._reading(dataset, by_clock=True) as book:
            book.require(loss, promise=promise)

    def reserve(
        self,
        dataset: str,
        key: str,
        loss: "PrivacyLoss",
        *,
        detail: Mapping[str, str] | None = None,
        promise: "Promise | None" = None,
    ) -> Booking:
        """Book a loss, before the data are read. A key that is already booked gets that booking again.

        A reservation that is older than the window of a rolling limit no longer counts for it, so it is
        cancelled and booked again.

        Args:
            dataset: Data set whose budget pays.
            key: Key of the question. Equal keys mean equal answers.
            loss: Upper bound of what is spent.
            detail: Origin of the booking for the history: `run`, `task`, ... It must have no cell values and
                no `rho`, which the ledger sets.
            promise: Promise that all bookings under it keep together. It counts once, instead of each of
                them.

        Returns:
            The booking, with its model if it is committed, otherwise with the token that a commit needs. It
            is `owned` if this call reserved it: only its token can cancel it.

        Raises:
            BudgetExceededError: If the budget is too small, or there is none. Nothing was booked. Also if the
                key is reserved, but the current limits no longer cover it.
            ValueError: If the key is booked with another loss or promise, or a text is not well-formed.
        """
        check_label("booking key", key)
        if detail and "rho" in detail:
            raise ValueError("the detail of a booking must not have a rho: the loss contains it; rename it")
        with self._writing(dataset) as book:
            held = book.held(key)
            booking = None if held is None else held.booking
            if held is None or booking is None or booking.state is State.CANCELLED:
                book.require(loss, promise=promise)
                attempt = booking.attempt + 1 if booking else 1
                return book.reserve(key, loss, attempt, detail or {}, promise)
            if (booking.loss, booking.promise) != (loss, promise):
                raise ValueError(
                    f"a booking key must name one loss, got {loss} for a key booked with {booking.loss}, or "
                    "another promise; make the parameters of the method and the promise part of the key"
                )
            if booking.state is State.COMMITTED:
                return book.with_model(held)
            book.require(loss, taken=booking, promise=promise)
            if not book.is_stale(booking):
                return held.taken(owned=False)
            book.close(Event.CANCEL, held, {})
            return book.reserve(key, loss, booking.attempt + 1, detail or {}, promise)

    def commit(
        self, dataset: str, key: str, model: str, *, token: str, detail: Mapping[str, str] | None = None
    ) -> Booking:
        """Store what was measured for a booking. The first commit wins, and later ones get its model back.

        A rolling limit counts the loss from now on, so the limits are checked again.

        Args:
            dataset: Data set whose budget pays.
            key: Key of the booking.
            model: Measured model as text.
            token: Token of the booking from `reserve`.
            detail: Further details for the entry.

        Returns:
            The booking with the stored model, which must be used instead of the given one.

        Raises:
            ValueError: If nothing was reserved under that key.
            BudgetExceededError: If the loss no longer fits, because the reservation is older than the window
                of a rolling limit, or a limit was lowered. The reservation stays; the given model must not be
                used.
            LedgerError: If the reservation was cancelled in the meantime, or the token belongs to no current
                booking. The given model must not be used.
        """
        with self._writing(dataset) as book:
            held = book.held(key)
            if held is None:
                raise ValueError(f"a booking of data set {dataset} must be reserved before it is committed")
            booking = held.booking
            if booking.state is State.COMMITTED:
                return book.with_model(held)
            if booking.state is State.CANCELLED or not held.lets_commit(token):
                raise LedgerError(
                    f"a booking of data set {dataset} was cancelled by another task while this one measured, "
                    "or booked again; what was measured is discarded, retry"
                )
            book.require(booking.loss, taken=booking, promise=booking.promise)
            recorded = {**(detail or {}), "model_sha256": model_hash(model)}
            entry = book.close(Event.COMMIT, held, recorded)
            book.store_model(entry, model)
            return book.with_model(Held(reserve=held.reserve, closed=entry))

    def cancel(self, dataset: str, key: str, *, token: str) -> None:
        """Cancel a reservation, because no noise was drawn for it. Repeating it changes nothing.

        Args:
            dataset: Data set whose budget pays.
            key: Key of the booking.
            token: Token of the booking from the `reserve` call that `owned` it.

        Raises:
            ValueError: If it is committed, or was never made.
            LedgerError: If it belongs to another task. The budget is not changed.
        """
        with self._writing(dataset) as book:
            held = book.held(key)
            state = None if held is None else held.booking.state
            if held is None or state is State.COMMITTED:
                raise ValueError(
                    f"only a reservation can be cancelled; this booking of data set {dataset} is "
                    f"{'unknown' if state is None else state}"
                )
            if not held.lets_cancel(token):
                raise LedgerError(
                    f"a reservation of data set {dataset} must be cancelled by the task that made it, got "
                    "another task's token: that task may measure with it; keep it, a retry continues it"
                )
            if state is State.RESERVED:
                book.close(Event.CANCEL, held, {})

    def booking(self, dataset: str, key: str) -> Booking | None:
        """Return the booking of a key in any state, with its model if it has one. None if there is none."""
        with self._reading(dataset) as book:
            held = book.held(key)
            return None if held is None else book.with_model(held)

    def booked_by(self, dataset: str, run: str) -> bool:
        """Return whether a booking that is still paid for was reserved with this `run` in its detail."""
        with self._reading(dataset) as book:
            held = [book.held(key) for key in book.rows.keys_of_run(run)]
            return any(_is_paid(book, h.booking) for h in held if h and h.reserve.detail.get("run") == run)

    def standing(self, dataset: str) -> tuple[Standing, ...]:
        """Return what is spent of each limit now. Empty if the data set has no limit."""
        with self._reading(dataset) as book:
            return book.standings()

    def course(self, dataset: str, moments: int) -> tuple[Moment, ...]:
        """Return what was spent of each limit at up to `moments` times, oldest first. The last one is now."""
        with self._reading(dataset) as book:
            return course_of(book, moments)

    def history(self, dataset: str, *, last: int | None = None) -> tuple[Entry, ...]:
        """Return the entries of the data set, oldest first: all, or the last ones. Empty if it has none."""
        with self._reading(dataset) as book:
            return book.rows.last_page(book.head, book.head.entries if last is None else last)

    def datasets(self) -> tuple[str, ...]:
        """Return the names of all data sets in the ledger."""
        with database.reading(self._engine) as connection:
            return known_datasets(connection)

    @renamed("tell", "on_progress")
    def check(
        self,
        dataset: str,
        *,
        recorded: Collection[str] = (),
        on_progress: Callable[[int, int], None] = lambda checked, entries: None,
    ) -> tuple[Entry, ...]:
        """Check everything that is stored about a data set against its hashes, and return the entries.

        Args:
            dataset: Name of the data set.
            recorded: Hashes of entries that were stored elsewhere, such as in the manifests of releases. Only
                they show that an intact ledger was replaced by an old copy of itself.
            on_progress: Progress callback, called with the number of checked entries and of all.

        Raises:
            IntegrityError: If entries, their head, a running total or a stored model were changed, or a
                recorded entry is missing.
        """
        with self._reading(dataset) as book:
            if not book.head.entries:
                raise IntegrityError(f"the ledger {self.place} has no entries of data set {dataset}")
            entries = check_whole(book.rows, book.head, on_progress)
        gone = set(recorded) - {entry.hash for entry in entries}
        if gone:
            raise IntegrityError(
                f"the ledger of data set {dataset} lacks {len(gone)} of {len(set(recorded))} recorded "
                f"entries, first {min(gone)}; it was replaced: restore it from a backup"
            )
        return entries

    def lacking(self, dataset: str, recorded: Collection[str]) -> set[str]:
        """Return those recorded hashes, such as in manifests of releases, for which there is no entry.

        Raises:
            LedgerError: If the ledger cannot be reached.
            IntegrityError: If its newest entry or its head was changed.
        """
        if not recorded:
            return set()
        with self._reading(dataset) as book:
            return book.rows.lacking(recorded)

    @contextmanager
    def _writing(self, dataset: str, *, begin: bool = False) -> Iterator[Book]:
        with database.writing(self._engine) as connection:
            clock = database.time_of(connection, self.clock)
            book = open_book(connection, dataset, self.signing_key, clock, lock=True, begin=begin)
            self._check_clock(book, clock)
            yield book

    @contextmanager
    def _reading(self, dataset: str, *, by_clock: bool = False) -> Iterator[Book]:
        with database.reading(self._engine) as connection:
            if not Rows(connection=connection, dataset=dataset, signing_key=self.signing_key).lack_totals():
                yield self._opened(connection, dataset, by_clock)
                return
        with self._writing(dataset):
            pass  # this adds running totals to its entries
        with database.reading(self._engine) as connection:
            yield self._opened(connection, dataset, by_clock)

    def _opened(self, connection: "Connection", dataset: str, by_clock: bool) -> Book:
        clock = database.time_of(connection, self.clock)
        book = open_book(connection, dataset, self.signing_key, clock)
        if by_clock:
            self._check_clock(book, clock)
        return book

    def _check_clock(self, book: Book, clock: "datetime") -> None:
        """Raise if the clock jumped, because rolling limits depend on it."""
        database.check_time(book.rows.connection, clock, self.clock)
        check_clock(book, clock)


def _is_paid(book: Book, booking: Booking) -> bool:
    if booking.state is State.RESERVED:
        return book.fits(booking.loss, taken=booking, promise=booking.promise)
    return booking.state is State.COMMITTED


def _this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have only a number
        return f"user {os.getuid()}"
