"""Where the ledger is without an Airflow connection, and the key that signs its entries."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_release.config.settings import VARIABLES, secret, setting

if TYPE_CHECKING:
    from privacy_release.ledger.ledger import BudgetLedger

PLACE = VARIABLES["ledger"]
KEY = "PRIVACY_LEDGER_KEY"
PASSWORD = "PRIVACY_LEDGER_PASSWORD"


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
    """The ledger at a place, signed with the secret PRIVACY_LEDGER_KEY where that is set.

    A server's password is in its address, or the secret PRIVACY_LEDGER_PASSWORD, or where libpq looks.

    Raises:
        SpecError: if the place is neither a file nor a database URL, or the key is too short.
        SecretError: as `secret`.
    """
    return ledger_signed(_with_password(place), secret(KEY), KEY)


def _with_password(place: str) -> str:
    from privacy_release.ledger.database import database_url

    url = database_url(place)
    if url.get_backend_name() == "sqlite" or url.password or not (password := secret(PASSWORD)):
        return place
    return url.set(password=password).render_as_string(hide_password=False)


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
