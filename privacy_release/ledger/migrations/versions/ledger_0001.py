"""The first tables: data sets with the heads of their chains, entries, stored models."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_0001"
down_revision = None


def upgrade() -> None:
    """Create the tables. They are written out, because a migration must not change with `ledger_tables`."""
    op.create_table(
        "privacy_ledger_dataset",
        sa.Column("dataset", sa.String(250), primary_key=True),
        sa.Column("entries", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("seal", sa.String(64), nullable=False),
    )
    op.create_table(
        "privacy_ledger_entry",
        sa.Column(
            "dataset", sa.String(250), sa.ForeignKey("privacy_ledger_dataset.dataset"), primary_key=True
        ),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("key", sa.String(250), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("neighbours", sa.String(40), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("salt", sa.String(64), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.UniqueConstraint("dataset", "key", "attempt", "event", name="privacy_ledger_entry_once"),
    )
    op.create_table(
        "privacy_ledger_model",
        sa.Column("dataset", sa.String(250), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset", "number"],
            ["privacy_ledger_entry.dataset", "privacy_ledger_entry.number"],
            name="privacy_ledger_model_of_commit",
        ),
    )
