"""Where the ledger is without an Airflow connection, and the key that signs its entries."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_release.work.settings import VARIABLES, setting

if TYPE_CHECKING:
    from privacy_release.ledger.ledger import BudgetLedger

PLACE = VARIABLES["ledger"]
KEY = "PRIVACY_LEDGER_KEY"


def default_place() -> str:
    """The option `ledger`, a file or a database URL; else the file `ledger.db` under `$AIRFLOW_HOME`."""
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow")
    return setting("ledger") or str((home / "ledger.db").expanduser().absolute())


def default_ledger() -> "BudgetLedger":
    """The ledger at the default place; a file is made, or migrated, by its first use.

    Raises:
        SpecError: as `ledger_at`.
        LedgerError: if the file cannot be made.
    """
    ledger = ledger_at(default_place())
    if ledger.is_file and not ledger.is_migrated:
        ledger.migrate()
    return ledger


def ledger_at(place: str) -> "BudgetLedger":
    """The ledger at a place, signed with `$PRIVACY_LEDGER_KEY` where that is set.

    Raises:
        SpecError: if the place is neither a file nor a database URL, or the key is too short.
    """
    return ledger_signed(place, os.environ.get(KEY) or None, KEY)


def ledger_signed(place: str, key: str | None, source: str) -> "BudgetLedger":
    """The ledger at a place, signed with a key; `source` says where the key comes from, for the error.

    Raises:
        SpecError: as `ledger_at`.
    """
    from privacy_release.ledger.ledger import BudgetLedger

    try:
        return BudgetLedger(place, signing_key=None if key is None else key.encode())
    except ValueError as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{source}: {error}") from None
