"""New ledgers for tests: a migration takes longer than most tests, so its file is made once and copied."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from privacy_release.ledger.ledger import BudgetLedger


def new_ledger(place: str | Path, **options: Any) -> BudgetLedger:
    """A ledger with tables and without entries.

    Args:
        place: The path of a new SQLite file, or the address of an empty database.
        options: Further arguments of the ledger.
    """
    ledger = BudgetLedger(str(place), **options)
    if ledger.is_file:
        file = Path(ledger.place)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=False)
        file.write_bytes(_migrated())
    else:
        ledger.migrate()
    return ledger


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ledger.db")
        BudgetLedger(str(file)).migrate()
        return file.read_bytes()
