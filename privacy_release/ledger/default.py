"""The location of the ledger without an Airflow connection, and the key that signs its entries."""

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
    """Return the option `ledger`, a file or a database URL, or else `ledger.db` under `$AIRFLOW_HOME`."""
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow")
    return setting("ledger") or str((home / "ledger.db").expanduser().absolute())


def default_ledger() -> "BudgetLedger":
    """Return the ledger at the default place. A file is created, or migrated, by its first use.

    Raises:
        SpecError: As `ledger_at`.
        LedgerError: If the file cannot be created.
    """
    ledger = ledger_at(default_place())
    if ledger.is_file and not ledger.is_migrated:
        ledger.migrate()
    return ledger


def ledger_at(place: str) -> "BudgetLedger":
    """Return the ledger at a place, signed with the secret PRIVACY_LEDGER_KEY if that is set.

    A server's password is in its address, in the secret PRIVACY_LEDGER_PASSWORD, or where libpq finds it.

    Raises:
        SpecError: If the place is neither a file nor a database URL, or the key is too short.
        SecretError: As `secret`.
    """
    return ledger_signed(_with_password(place), secret(KEY), KEY)


def _with_password(place: str) -> str:
    from privacy_release.ledger.database import database_url

    url = database_url(place)
    if url.get_backend_name() == "sqlite" or url.password or not (password := secret(PASSWORD)):
        return place
    return url.set(password=password).render_as_string(hide_password=False)


def ledger_signed(place: str, key: str | None, source: str) -> "BudgetLedger":
    """Return the ledger at a place, signed with a key. `source` is the origin of the key, for errors.

    Raises:
        SpecError: As `ledger_at`.
    """
    from privacy_release.ledger.ledger import BudgetLedger

    try:
        return BudgetLedger(place, signing_key=None if key is None else key.encode())
    except ValueError as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{source}: {error}") from None
