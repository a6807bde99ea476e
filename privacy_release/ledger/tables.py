"""The tables of the budget ledger, with a prefix so that they can share a database, such as Airflow's.

Numbers and times that are hashed are stored as text: what is read is exactly what was hashed, on any
database.
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
# The newest revision in `ledger_migrations/versions`. A test compares them.
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
    # The row lock prevents a key from being booked twice. This would still prevent it if the lock failed.
    # `attempt` is included because a cancelled reservation can be made again.
    UniqueConstraint("dataset", "key", "attempt", "event", name="privacy_ledger_entry_once"),
    # For the beginning of a rolling limit's window.
    Index("privacy_ledger_entry_time", "dataset", "at", "number"),
)

# The two tables below are derived from the entries, and a full check compares them. They have no foreign
# keys, because they can be recomputed at any time.

# `totals` after each entry. `seal` binds them to the entry's hash.
TOTALS = Table(
    "privacy_ledger_totals",
    METADATA,
    Column("dataset", String(250), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("totals", Text, nullable=False),
    Column("seal", String(64), nullable=False),
)

# A reserving entry with the hash of its run, and whether it is neither committed nor cancelled.
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
