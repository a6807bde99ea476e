"""The tables of the budget ledger, prefixed so that they can live beside others, such as Airflow's own.

Numbers and times that are hashed are stored as text: what is read back is what was hashed, on any database.
"""

from sqlalchemy import (
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION_TABLE = "privacy_ledger_version"
# The newest revision in `ledger_migrations/versions`; a test compares them.
REVISION = "ledger_0002"

METADATA = MetaData()

DATASETS = Table(
    "privacy_ledger_dataset",
    METADATA,
    Column("dataset", String(250), primary_key=True),
    Column("entries", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("key_id", String(64), nullable=False),
    Column("seal", String(64), nullable=False),
)

ENTRIES = Table(
    "privacy_ledger_entry",
    METADATA,
    Column("dataset", String(250), ForeignKey(DATASETS.c.dataset), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("event", String(20), nullable=False),
    Column("key", String(250), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("at", String(40), nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("neighbours", String(40), nullable=False),
    Column("detail", Text, nullable=False),
    Column("salt", String(64), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    # The row lock keeps a key from being booked twice; this would still, if the lock failed. `attempt` is in
    # it because a reservation that was cancelled can be made again.
    UniqueConstraint("dataset", "key", "attempt", "event", name="privacy_ledger_entry_once"),
    # Where the window of a rolling limit begins.
    Index("privacy_ledger_entry_time", "dataset", "at", "number"),
)

# The two tables below are made of the entries, and a full check compares them. They have no foreign keys, for
# they can be made anew at any time.

# `totals` after each entry; `seal` binds them to the entry's hash.
TOTALS = Table(
    "privacy_ledger_totals",
    METADATA,
    Column("dataset", String(250), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("totals", Text, nullable=False),
    Column("seal", String(64), nullable=False),
)

# An entry that reserved, by the hash of its run, and whether it is neither committed nor given back.
RESERVATIONS = Table(
    "privacy_ledger_reservation",
    METADATA,
    Column("dataset", String(250), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("run", String(64), nullable=False),
    Column("is_open", Integer, nullable=False),
    Index("privacy_ledger_reservation_open", "dataset", "is_open", "number"),
    Index("privacy_ledger_reservation_run", "dataset", "run"),
)

MODELS = Table(
    "privacy_ledger_model",
    METADATA,
    Column("dataset", String(250), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("model", Text, nullable=False),
    ForeignKeyConstraint(
        ["dataset", "number"], [ENTRIES.c.dataset, ENTRIES.c.number], name="privacy_ledger_model_of_commit"
    ),
)
