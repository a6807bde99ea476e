"""A ledger as an earlier version left it: entries and head, and no running totals."""

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import Connection

from privacy_engine.dp.chain import Head, chained, model_hash, sealed_head
from privacy_engine.dp.ledger import Entry, Event
from privacy_engine.dp.loss import Neighbours
from privacy_release.ledger.rows import row_of
from privacy_release.ledger.tables import DATASETS, ENTRIES, MODELS
from tests.privacy_release.ledger.clocks import DATASET

MODEL = "model"


def entries(count: int, begin: datetime, key: bytes | None) -> Iterator[Entry]:
    """A grant of 30 days, then bookings of 1e-6 that are reserved and committed, one a minute."""
    previous = ""
    for number in range(1, count + 1):
        event = Event.GRANT if number == 1 else Event.RESERVE if number % 2 == 0 else Event.COMMIT
        fields = {
            Event.GRANT: {"period": "30d", "reason": "x", "by": "y"},
            Event.RESERVE: {"run": f"r {number}"},
        }
        bare = Entry(
            dataset=DATASET,
            number=number,
            event=event,
            key=f"key {number // 2}",
            attempt=1,
            at=begin + timedelta(minutes=number),
            epsilon="1" if number == 1 else "0.000001",
            delta="0",
            neighbours=Neighbours.REPLACE_ONE,
            detail=fields.get(event, {"model_sha256": model_hash(MODEL)}),
            salt=secrets.token_hex(32),
            previous="",
        )
        entry = chained(bare, previous, key)
        previous = entry.hash
        yield entry


def write(connection: Connection, made: list[Entry], key: bytes | None) -> Head:
    """Store entries, their models and the head."""
    head = sealed_head(DATASET, len(made), made[-1].hash, key)
    connection.execute(DATASETS.insert().values(vars(head)))
    connection.execute(ENTRIES.insert(), [row_of(entry) for entry in made])
    commits = [entry for entry in made if entry.event is Event.COMMIT]
    connection.execute(
        MODELS.insert(), [{"dataset": DATASET, "number": e.number, "model": MODEL} for e in commits]
    )
    return head
