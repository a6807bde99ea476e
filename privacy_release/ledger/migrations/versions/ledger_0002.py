"""Running totals, open reservations, and an index for windows, so that a booking need not read all entries.

Entries and their hashes are not changed. The two tables are filled by the first use of each data set, which
checks its whole chain with the signing key; a migration has no key.
"""

import sqlalchemy as sa
from alembic import op

revision = "ledger_0002"
down_revision = "ledger_0001"


def upgrade() -> None:
    """Create the tables and indices. They are written out, because a migration must not change later."""
    op.create_index("privacy_ledger_entry_time", "privacy_ledger_entry", ["dataset", "at", "number"])
    op.create_table(
        "privacy_ledger_totals",
        sa.Column("dataset", sa.String(250), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("totals", sa.Text, nullable=False),
        sa.Column("seal", sa.String(64), nullable=False),
    )
    op.create_table(
        "privacy_ledger_reservation",
        sa.Column("dataset", sa.String(250), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("is_open", sa.Integer, nullable=False),
    )
    op.create_index(
        "privacy_ledger_reservation_open", "privacy_ledger_reservation", ["dataset", "is_open", "number"]
    )
    op.create_index("privacy_ledger_reservation_run", "privacy_ledger_reservation", ["dataset", "run"])
