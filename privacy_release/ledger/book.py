"""The entries of one data set inside one transaction of the ledger's database: read, checked, appended to."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select, union

from privacy_engine.dp.chain import Head, chained, check_chain, model_hash, sealed_head
from privacy_engine.dp.ledger import Booking, Entry, Event, bookings_of, limits_of
from privacy_engine.dp.limits import Limit, decimal_text
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import IntegrityError
from privacy_release.ledger.tables import DATASETS, ENTRIES, MODELS

_LONGEST = 250


@dataclass(kw_only=True)
class Book:
    """A data set's entries, whole and in order; `append` is the only way to change them.

    Attributes:
        head: as stored; of a data set that is not known, an empty one that is not stored.
        now: the time of this transaction, UTC; never before the last entry.
    """

    connection: Connection
    signing_key: bytes | None
    head: Head
    entries: list[Entry]
    now: datetime

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits that hold."""
        return limits_of(self.entries)

    @property
    def bookings(self) -> dict[str, Booking]:
        """The bookings by key."""
        return bookings_of(self.entries)

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
        entry = chained(
            Entry(
                dataset=self.head.dataset,
                number=self.head.entries + 1,
                event=event,
                key=key,
                attempt=attempt,
                at=self.now,
                epsilon=decimal_text(amount.epsilon),
                delta=decimal_text(amount.delta),
                neighbours=amount.neighbours,
                detail=dict(detail),
                salt=secrets.token_hex(32),
                previous="",
            ),
            self.head.hash,
            self.signing_key,
        )
        self.head = sealed_head(entry.dataset, entry.number, entry.hash, self.signing_key)
        self.entries.append(entry)
        self.connection.execute(ENTRIES.insert().values(_row(entry)))
        self.connection.execute(
            DATASETS.update().where(DATASETS.c.dataset == entry.dataset).values(vars(self.head))
        )
        return entry

    def store_model(self, commit: Entry, model: str) -> None:
        """Keep the text that a commit's hash is of."""
        self.connection.execute(
            MODELS.insert().values(dataset=commit.dataset, number=commit.number, model=model)
        )


def open_book(
    connection: Connection,
    dataset: str,
    signing_key: bytes | None,
    now: datetime,
    *,
    lock: bool = False,
    begin: bool = False,
) -> Book:
    """The entries of a data set, checked.

    Args:
        connection: inside a transaction.
        dataset: which; one that is not known has no entries.
        signing_key: of the ledger.
        now: the time by the clock, UTC.
        lock: keep all others from writing to the data set until the transaction ends.
        begin: make the data set known if it is not.

    Raises:
        IntegrityError: if they are not those that were written, or the signing key is another.
    """
    if begin:
        _make_known(connection, sealed_head(dataset, 0, "", signing_key))
    query = select(DATASETS).where(DATASETS.c.dataset == dataset)
    # SQLite has no row locks and ignores this: there the transaction itself is exclusive.
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    stored = connection.execute(
        select(ENTRIES).where(ENTRIES.c.dataset == dataset).order_by(ENTRIES.c.number)
    ).mappings()
    entries = [_entry(line) for line in stored]
    if row is None and entries:
        raise IntegrityError(
            f"the ledger of data set {dataset} has {len(entries)} entries and no head: it was changed by "
            "other hands; restore it from a backup"
        )
    head = sealed_head(dataset, 0, "", signing_key) if row is None else Head(**row)
    check_chain(head, entries, signing_key)
    return Book(
        connection=connection,
        signing_key=signing_key,
        head=head,
        entries=entries,
        now=max([now, *(entry.at for entry in entries[-1:])]),
    )


def stored_model(book: Book, booking: Booking) -> Booking:
    """The booking with its model, if it is committed.

    Raises:
        IntegrityError: if the stored text is not the one that was committed.
    """
    if booking.model_sha256 is None:
        return booking
    (commit,) = [
        entry
        for entry in book.entries
        if (entry.event, entry.key, entry.attempt) == (Event.COMMIT, booking.key, booking.attempt)
    ]
    return replace(booking, model=_model(book, commit))


def check_models(book: Book) -> None:
    """Hold every stored model of the data set against the hash in its commit.

    Raises:
        IntegrityError: if one was edited, removed or added.
    """
    commits = [entry for entry in book.entries if entry.event is Event.COMMIT]
    for commit in commits:
        _model(book, commit)
    query = select(MODELS.c.number).where(MODELS.c.dataset == book.head.dataset)
    numbers = set(book.connection.execute(query).scalars())
    if numbers != {commit.number for commit in commits}:
        raise IntegrityError(
            f"the ledger of data set {book.head.dataset} must hold {len(commits)} models, got "
            f"{len(numbers)}: some were added by other hands; restore it from a backup"
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
    if not text.strip() or text != text.strip() or not text.isprintable() or len(text) > _LONGEST:
        raise ValueError(
            f"the {what} must be 1 to {_LONGEST} printable characters without blanks around them, got "
            f"{len(text)} characters; correct it"
        )


def _model(book: Book, commit: Entry) -> str:
    query = select(MODELS.c.model).where(MODELS.c.dataset == commit.dataset, MODELS.c.number == commit.number)
    model: str | None = book.connection.execute(query).scalar()
    if model is None or model_hash(model) != commit.detail["model_sha256"]:
        raise IntegrityError(
            f"the ledger of data set {commit.dataset} was changed by other hands: the model of entry "
            f"{commit.number} was edited or removed; restore it from a backup"
        )
    return model


def _make_known(connection: Connection, head: Head) -> None:
    from sqlalchemy.dialects import postgresql, sqlite

    # Two first grants may meet here: one makes the row, the other waits for it and goes on.
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(DATASETS).values(vars(head)).on_conflict_do_nothing())


def _row(entry: Entry) -> dict[str, Any]:
    return {
        **vars(entry),
        "event": entry.event.value,
        "neighbours": entry.neighbours.value,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "detail": json.dumps(entry.detail, sort_keys=True),
    }


def _entry(row: RowMapping) -> Entry:
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
