"""The budget ledger behind an Airflow connection."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_privacy_release.hooks.connections import connection_of
from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.budget.budget import DEFAULT_LEDGER
from privacy_release.ledger.default import default_ledger, ledger_signed

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from privacy_release.ledger.ledger import BudgetLedger

# Airflow hides an extra field from users who read the connection if its name contains `secret`.
SIGNING_SECRET = "signing_secret"
_LIBPQ_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")


class LedgerHook(BaseHook):
    """Opens the privacy budget ledger that an Airflow connection names.

    A connection of type `privacy_ledger`, `postgres` or `sqlite`:

    - PostgreSQL: host, port, login, password, and the database as schema; of libpq's options the extra may
      hold `sslmode`, `sslrootcert`, `sslcert`, `sslkey` and `target_session_attrs`.
    - SQLite: the path of the file as `path` in the extra, or as host.
    - Either: `signing_secret` in the extra signs the entries; see `privacy_engine.dp.chain`.

    Without a connection `ledger_default`, the ledger is `$PRIVACY_LEDGER`, else the option `ledger` in the
    section `privacy_release` of Airflow's configuration (a file or a database URL), else the file `ledger.db`
    in `$AIRFLOW_HOME`. It is signed with `$PRIVACY_LEDGER_KEY` if set. That key and the password of the URL
    may also be in the files that `$PRIVACY_LEDGER_KEY_FILE` and `$PRIVACY_LEDGER_PASSWORD_FILE` name.
    """

    conn_name_attr = "ledger_conn_id"
    default_conn_name = DEFAULT_LEDGER
    conn_type = "privacy_ledger"
    hook_name = "Privacy Budget Ledger"

    def __init__(self, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__()
        self.ledger_conn_id = ledger_conn_id

    def get_conn(self) -> "BudgetLedger":
        """Return the ledger, without accessing its database yet unless the default file has to be created.

        Raises:
            SpecError: If there is no such connection, or it does not name a ledger.
            LedgerError: If the default file cannot be created.
        """
        connection = connection_of(self.ledger_conn_id)
        if connection is None:
            if self.ledger_conn_id == DEFAULT_LEDGER:
                return default_ledger()
            raise SpecError(
                f"the Airflow connection {self.ledger_conn_id} of the ledger does not exist. Add it, "
                "for example with --conn-type privacy_ledger --conn-host HOST --conn-schema DATABASE"
            )
        name = f"connection {self.ledger_conn_id}"
        extra = connection.extra_dejson
        return ledger_signed(_place(connection, extra, name), extra.get(SIGNING_SECRET) or None, name)

    def test_connection(self) -> tuple[bool, str]:
        """Check that the ledger can be used. Called by the test button in Airflow's UI."""
        try:
            ledger = self.get_conn()
            known = len(ledger.datasets())
        except PrivacyEngineError as error:
            return False, str(error)
        return True, f"the ledger {ledger.place} has the budgets of {known} data sets"


def _place(connection: "Connection", extra: dict[str, Any], name: str) -> str:
    """Return the address in a connection.

    Raises:
        SpecError: If the connection has none.
    """
    from sqlalchemy.engine import URL

    file = extra.get("path") or (connection.host if connection.conn_type == "sqlite" else None)
    if file:
        return str(file)
    if connection.conn_type not in (LedgerHook.conn_type, "postgres", "postgresql") or not connection.schema:
        raise SpecError(
            f"{name} does not name the ledger. Set host, login and password of a PostgreSQL server "
            "and the database as schema, or the `path` of a SQLite file in the extra"
        )
    return URL.create(
        "postgresql+psycopg",
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host or None,
        port=connection.port,
        database=connection.schema,
        query={option: str(extra[option]) for option in _LIBPQ_OPTIONS if extra.get(option)},
    ).render_as_string(hide_password=False)


def ledger_of(connection_id: str) -> "BudgetLedger":
    """Return the privacy budget ledger of an Airflow connection, see `LedgerHook`.

    Raises:
        SpecError: If there is no such connection, or it does not name a ledger.
        LedgerError: If the default file cannot be created.
    """
    return LedgerHook(connection_id).get_conn()
