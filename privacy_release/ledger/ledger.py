"""The privacy budget ledger: who may spend how much on a data set, and what was spent, kept for good.

A spend has two steps. `reserve` books the loss before the data are read; `commit` stores the model that was
measured with it. Both are idempotent by the booking's key, which names data, method, parameters and schema:
a retry, a cleared task or a run of the same again gets the same booking and the same stored model, and spends
nothing. A process that dies in between has spent what it reserved; its retry goes on from there.

Every data set has a chain of entries that are hashed one with the next (`privacy_engine.dp.chain`). It is
checked whole before each booking, so that nothing is decided on entries that other hands changed. That is
quick up to some ten thousand entries of one data set.
"""

import getpass
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from privacy_engine.dp.chain import check_key, model_hash
from privacy_engine.dp.ledger import Booking, Entry, Event, Standing, State, refuse_overspending, standings
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.errors import IntegrityError, LedgerError
from privacy_release.ledger import database
from privacy_release.ledger.book import (
    Book,
    check_label,
    check_models,
    known_datasets,
    open_book,
    stored_model,
)

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from privacy_engine.dp.loss import PrivacyLoss

__all__ = ["Booking", "BudgetLedger", "Entry", "Event", "Limit", "Period", "Standing", "State"]


@dataclass(frozen=True)
class BudgetLedger:
    """The ledger in one database.

    Args:
        url: of a PostgreSQL or SQLite database (`postgresql://...`, `sqlite:////...`), or the path of a file.
            It may hold a password: it is not shown.
        signing_key: at least 16 bytes; with it, only who has it can write entries that pass for whole.
        clock: what tells the time, UTC; default: the database server's clock, for SQLite this machine's. No
            entry is dated before the one above it, whatever the clock.

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
        """Where it is, without user and password."""
        return database.shown(database.database_url(self.url))

    @property
    def is_file(self) -> bool:
        """Whether it is a SQLite file, which this process may make."""
        return database.database_url(self.url).get_backend_name() == "sqlite"

    @cached_property
    def _engine(self) -> "Engine":
        return database.engine_of(database.database_url(self.url))

    def migrate(self) -> None:
        """Make the tables, or bring them to this version. A SQLite file is made, for this user alone."""
        database.migrate(self._engine)

    @property
    def is_migrated(self) -> bool:
        """Whether the tables are there and of this version."""
        return database.is_migrated(self._engine)

    def grant(self, dataset: str, limit: Limit, *, reason: str, by: str | None = None) -> Entry:
        """Set a limit; it replaces the one of the same period. Limits of several periods hold together.

        Args:
            dataset: names the data set; its first grant makes it known.
            limit: epsilon 0 closes the data set.
            reason: why, for the history; it must not speak of a person.
            by: who, for the history; default: the user of this process.

        Raises:
            ValueError: if a text is not well-formed, or the limit is for another neighbour relation than the
                data set's other limits or bookings.
        """
        by = _this_user() if by is None else by
        for what, text in (("data set", dataset), ("reason", reason), ("author", by)):
            check_label(what, text)
        with self._writing(dataset, begin=True) as book:
            kept = [held.neighbours for held in book.limits if held.period != limit.period]
            spent = [b.loss.neighbours for b in book.bookings.values() if b.state is not State.CANCELLED]
            if {*kept, *spent} - {limit.neighbours}:
                raise ValueError(
                    f"the budget of {dataset} is kept for {(*kept, *spent)[0]}, and {limit.neighbours} does "
                    "not add to it; grant the limit for the former"
                )
            return book.append(
                Event.GRANT,
                str(book.head.entries + 1),
                limit,
                detail={"period": limit.period.name, "reason": reason, "by": by},
            )

    def require(self, dataset: str, loss: "PrivacyLoss") -> None:
        """Look whether a new booking would fit now; books nothing.

        Raises:
            BudgetExceededError: if it would not.
        """
        with self._reading(dataset) as book:
            refuse_overspending(dataset, loss, book.limits, list(book.bookings.values()), book.now)

    def reserve(
        self, dataset: str, key: str, loss: "PrivacyLoss", *, detail: Mapping[str, str] | None = None
    ) -> Booking:
        """Book a loss, before the data are read; a key that is booked already gets that booking again.

        Args:
            dataset: whose budget pays.
            key: names what is asked: equal keys mean equal answers.
            loss: at most this is spent.
            detail: of whom it is, for the history: `run`, `task`, ... No cell values.

        Returns:
            The booking; with its model if it is committed.

        Raises:
            BudgetExceededError: if the budget is short, or there is none; nothing was booked.
            ValueError: if the key is booked with another loss, or a text is not well-formed.
        """
        check_label("booking key", key)
        with self._writing(dataset) as book:
            held = book.bookings.get(key)
            if held is not None and held.state is not State.CANCELLED:
                if held.loss != loss:
                    raise ValueError(
                        f"a booking key must name one loss, got {loss} for a key booked with {held.loss}; "
                        "make the parameters of the method part of the key"
                    )
                return stored_model(book, held)
            refuse_overspending(dataset, loss, book.limits, list(book.bookings.values()), book.now)
            attempt = 1 if held is None else held.attempt + 1
            book.append(Event.RESERVE, key, loss, attempt=attempt, detail=detail or {})
            return book.bookings[key]

    def commit(self, dataset: str, key: str, model: str) -> Booking:
        """Store what was measured with a booking; the first commit wins, later ones get its model back.

        Returns:
            The booking with the stored model, which is to be used instead of the one given.

        Raises:
            ValueError: if nothing was reserved under that key.
            LedgerError: if the reservation was cancelled meanwhile: the model given must not be used.
        """
        with self._writing(dataset) as book:
            held = book.bookings.get(key)
            if held is None:
                raise ValueError(f"a booking of data set {dataset} must be reserved before it is committed")
            if held.state is State.CANCELLED:
                raise LedgerError(
                    f"a booking of data set {dataset} was cancelled by another task while this one measured; "
                    "what was measured is discarded, retry"
                )
            if held.state is State.RESERVED:
                detail = {"model_sha256": model_hash(model)}
                book.store_model(
                    book.append(Event.COMMIT, key, held.loss, attempt=held.attempt, detail=detail), model
                )
            return stored_model(book, book.bookings[key])

    def cancel(self, dataset: str, key: str) -> None:
        """Give a reservation back, because no noise was drawn for it. Cancelling twice changes nothing.

        Raises:
            ValueError: if it is committed, or was never made.
        """
        with self._writing(dataset) as book:
            held = book.bookings.get(key)
            if held is None or held.state is State.COMMITTED:
                raise ValueError(
                    f"only a reservation can be cancelled; this booking of data set {dataset} is "
                    f"{'unknown' if held is None else held.state}"
                )
            if held.state is State.RESERVED:
                book.append(Event.CANCEL, key, held.loss, attempt=held.attempt, detail={})

    def booking(self, dataset: str, key: str) -> Booking | None:
        """The booking of that key, in whatever state, with its model if it has one; None if there is none."""
        with self._reading(dataset) as book:
            held = book.bookings.get(key)
            return None if held is None else stored_model(book, held)

    def booked_by(self, dataset: str, run: str) -> bool:
        """Whether a booking that counts was reserved with `run` as this in its detail."""
        with self._reading(dataset) as book:
            live = [b for b in book.bookings.values() if b.state is not State.CANCELLED]
            return any(b.detail.get("run") == run for b in live)

    def standing(self, dataset: str) -> tuple[Standing, ...]:
        """What of each limit is spent now; empty where the data set has no limit."""
        with self._reading(dataset) as book:
            return standings(book.limits, book.bookings.values(), book.now)

    def history(self, dataset: str) -> tuple[Entry, ...]:
        """All entries of the data set, oldest first; empty where it has none."""
        with self._reading(dataset) as book:
            return tuple(book.entries)

    def datasets(self) -> tuple[str, ...]:
        """All data sets that the ledger knows, by name."""
        with database.reading(self._engine) as connection:
            return known_datasets(connection)

    def check(self, dataset: str, *, recorded: Collection[str] = ()) -> tuple[Entry, ...]:
        """Hold all that is stored of a data set against its hashes; the entries, which are whole.

        Args:
            dataset: which.
            recorded: hashes of entries that were kept elsewhere, such as in the manifests of releases. They
                alone show that a whole ledger was replaced by an old copy of itself.

        Raises:
            IntegrityError: if entries, their head or a stored model were changed, or a recorded one is gone.
        """
        with self._reading(dataset) as book:
            if not book.entries:
                raise IntegrityError(f"the ledger {self.place} has no entries of data set {dataset}")
            check_models(book)
            gone = set(recorded) - {entry.hash for entry in book.entries}
            if gone:
                raise IntegrityError(
                    f"the ledger of data set {dataset} lacks {len(gone)} of {len(set(recorded))} recorded "
                    f"entries, first {min(gone)}; it was replaced: restore it from a backup"
                )
            return tuple(book.entries)

    @contextmanager
    def _writing(self, dataset: str, *, begin: bool = False) -> Iterator[Book]:
        with database.writing(self._engine) as connection:
            now = self._now(connection)
            yield open_book(connection, dataset, self.signing_key, now, lock=True, begin=begin)

    @contextmanager
    def _reading(self, dataset: str) -> Iterator[Book]:
        with database.reading(self._engine) as connection:
            yield open_book(connection, dataset, self.signing_key, self._now(connection))

    def _now(self, connection: "Connection") -> "datetime":
        return self.clock() if self.clock else database.time_of(connection)


def _this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number and no name
        return f"user {os.getuid()}"
