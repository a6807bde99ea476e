"""What a release needs from Airflow connections and configuration: secrets, and keys of object stores.

Keys of an object store are `storage_options` in the extra of a connection. Two libraries reach object stores,
with different names for the options: the lake uses Delta's (`AWS_ACCESS_KEY_ID`), a source fsspec's (`key`).
Each library silently ignores the other's names and accesses the store without keys, so they are refused here.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SecretError, SpecError
from privacy_release.budget.secrets import NEW_SECRET
from privacy_release.config.settings import SECTION, option_of_airflow
from privacy_release.config.settings import setting as of_settings

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from sqlalchemy.engine import URL

    from privacy_engine.randomizers.randomness import Secret
    from privacy_release.budget.participation import Schedule
    from privacy_release.budget.yearly import Yearly
    from privacy_release.sources.pseudonyms import PseudonymKey
    from privacy_release.workarea.people import Identification

# Where connections may come from: values of the option `connections`.
ANY, ENVIRONMENT = "any", "environment"
_FSSPEC = frozenset({"key", "secret", "client_kwargs", "config_kwargs", "connection_string"})
_DELTA = re.compile(r"(?i)(aws|azure|google)_.+|allow_http|max_retries|retry_timeout")
_USERS = "simple_auth_manager_users"
_NO_USERS = "admin:admin"  # Airflow's default: the users were not set
_ALL_ADMINS = "simple_auth_manager_all_admins"
_SIMPLE = "SimpleAuthManager"  # Airflow's default
_TRUTH = {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}
_DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}
_SECRET = re.compile(r"(?i)key|secret|token|sas|password|credential|connection_string")


def setting(option: str) -> str | None:
    """Read an option of Airflow's configuration section. Called by `privacy_release.config.host`."""
    from airflow_privacy_release.compat import conf

    return conf.get(SECTION, option, fallback=None) or None


def users() -> frozenset[str] | None:
    """Return the user ids that Airflow's configuration lists. Called by `privacy_release.config.host`.

    None if it does not: with any but the simple auth manager, if every user is an admin, and if the users are
    not configured, as on a machine outside of the deployment.

    A process that has not loaded Airflow reads the environment and Airflow's file, because loading Airflow
    takes seconds. If these cannot be parsed, Airflow is loaded after all.
    """
    try:
        return _users_as_written() if "airflow" not in sys.modules else _users_of_airflow()
    except LookupError:
        return _users_of_airflow()


def _users_as_written() -> frozenset[str] | None:
    """Return the users that the environment or Airflow's file lists.

    Raises:
        LookupError: If only Airflow itself can parse them.
    """
    if option_of_airflow("core", "unit_test_mode") is not None:
        raise LookupError("the unit tests of Airflow have a separate configuration")
    manager = option_of_airflow("core", "auth_manager")
    everybody = option_of_airflow("core", _ALL_ADMINS)
    truth = "false" if everybody is None else everybody.lower().strip()
    if truth not in _TRUTH:
        raise LookupError(f"{_ALL_ADMINS} is neither true nor false")
    return _users(
        manager=_SIMPLE if manager is None else manager,
        named=option_of_airflow("core", _USERS),
        everybody=_TRUTH[truth],
    )


def _users_of_airflow() -> frozenset[str] | None:
    """Return the users that Airflow's configuration lists."""
    from airflow_privacy_release.compat import conf

    return _users(
        manager=conf.get("core", "auth_manager", fallback=""),
        named=conf.get("core", _USERS, fallback=""),
        everybody=conf.getboolean("core", _ALL_ADMINS, fallback=False),
    )


def _users(*, manager: str, named: str | None, everybody: bool) -> frozenset[str] | None:
    if everybody or not manager.endswith(_SIMPLE) or named is None or named == _NO_USERS:
        return None
    return frozenset(entry.partition(":")[0].strip() for entry in named.split(",") if entry.strip())


def shipped() -> Path:
    """Return the package's folder of policies and hierarchies. For `privacy_release.config.host`."""
    return Path(__file__).parents[1] / "include"


def connection_of(connection_id: str, *, fixed: bool = False) -> "Connection | None":
    """Return a connection; None if there is no such connection.

    Args:
        connection_id: ID of the connection.
        fixed: Whether only environment variables and secrets backends count, and not Airflow's database,
            which users may change through the API. Always true if the option `connections` is `environment`.

    Raises:
        SpecError: If that option is neither `any` nor `environment`.
    """
    from airflow.sdk import Connection

    from airflow_privacy_release.compat import AirflowNotFoundException, fixed_connection

    chosen = of_settings("connections") or ANY
    if chosen not in (ANY, ENVIRONMENT):
        raise SpecError(f"the option connections must be `{ANY}` or `{ENVIRONMENT}`. Correct it")
    if fixed or chosen == ENVIRONMENT:
        return fixed_connection(connection_id)
    try:
        found: Connection = Connection.get(connection_id)
    except AirflowNotFoundException:
        return None
    return found


def extra_of(connection_id: str) -> dict[str, Any] | None:
    """Return the extra of a connection; None if there is no such connection."""
    found = connection_of(connection_id)
    return None if found is None else dict(found.extra_dejson)


def secret_of(connection_id: str) -> "Secret":
    """Return the password of an Airflow connection as a secret. Nothing derived from it is logged.

    Raises:
        SecretError: If there is no such connection, or its password has fewer than 32 bytes.
    """
    from privacy_engine.randomizers.randomness import Secret

    return Secret(_password_of(connection_id, "the secret of memoised answers"))


def pseudonym_key_of(connection_id: str) -> "PseudonymKey":
    """Return the password of an Airflow connection as a key. Nothing derived from it is logged.

    Raises:
        SecretError: If there is no such connection, or its password has fewer than 32 bytes.
    """
    from privacy_release.sources.pseudonyms import PseudonymKey

    return PseudonymKey(_password_of(connection_id, "the key of pseudonyms and shifted dates"))


def _password_of(connection_id: str, what: str) -> bytes:
    found = connection_of(connection_id)
    if found is None:
        raise SecretError(
            f"the Airflow connection {connection_id} of {what} does not exist. Add it: "
            f'airflow connections add {connection_id} --conn-type generic --conn-password "$({NEW_SECRET})"'
        )
    return (found.password or "").encode()


def schedule_from(promise: "Mapping[str, Any] | None") -> "Schedule | Yearly | None":
    """Read the schedule of an operator's `promise`.

    Raises:
        SpecError: If a field is wrong, or `schedule` is missing.
    """
    from privacy_release.budget.schedules import schedule_named
    from privacy_release.spec.sections.budget import schedule_of

    if promise is None:
        return None
    fields = dict(promise)
    name = fields.pop("schedule", None)
    if not isinstance(name, str) or not name:
        raise SpecError("promise has no `schedule`. Add it: the name under which its releases count together")
    return schedule_named(name, schedule_of(fields))


def identification_of(connection_id: str, column: str) -> "Identification":
    """Return how a column identifies persons, with an Airflow connection's password as the key.

    Raises:
        SpecError: If there is no such connection, or its password is too short to be a key.
    """
    from privacy_release.workarea.people import Identification

    found = connection_of(connection_id)
    if found is None:
        raise SpecError(
            f"the Airflow connection {connection_id} does not exist. Add it, with the membership key as its "
            "password, such as the output of `openssl rand -hex 32`"
        )
    return Identification(column=column, key=found.password or "")


def source_access(uri: str, connection_id: str | None) -> dict[str, Any]:
    """Return the keyword arguments with which `steps.ingest` accesses a source.

    An Airflow connection whose extra holds `storage_options` needs no Airflow provider: fsspec uses them.
    Any other connection goes to `ObjectStoragePath`, which uses the provider of the address's scheme.

    Raises:
        SpecError: If there is no such connection, or no provider for the scheme is installed.
    """
    if connection_id is None:
        return {}

    extra = extra_of(connection_id)
    if extra is None:
        raise SpecError(f"the Airflow connection {connection_id} of the source does not exist. Add it")
    if extra.get("storage_options"):
        try:
            return {"storage_options": source_options(extra)}
        except SpecError as error:
            raise SpecError(f"connection {connection_id}: {error}") from None
    from airflow.sdk import ObjectStoragePath

    try:
        return {"filesystem": ObjectStoragePath(uri, conn_id=connection_id).fs}
    except (ValueError, ImportError):
        raise SpecError(
            f"connection {connection_id} has no `storage_options` in its extra, and no Airflow provider "
            "for the scheme of the source is installed. Add one of them"
        ) from None


def table_options(form: str, connection_id: str | None) -> dict[str, str]:
    """Return the options with which a table format's library accesses a source; none without a connection.

    Raises:
        SpecError: If there is no such connection, or it has options that the library would not understand.
    """
    if connection_id is None:
        return {}
    extra = extra_of(connection_id)
    if extra is None:
        raise SpecError(f"the Airflow connection {connection_id} of the source does not exist. Add it")
    try:
        if form == "iceberg":
            return {name: str(value) for name, value in _options(extra).items()}
        return lake_options(extra)
    except SpecError as error:
        raise SpecError(f"connection {connection_id}: {error}") from None


def database_url(connection_id: str) -> "URL":
    """Return the SQLAlchemy address of a source's database. It contains the password, so never log it.

    The connection's type is the database's type. `sqlalchemy_scheme` in the extra selects another driver,
    such as `adbc+postgresql`; other strings in the extra are options of the driver, such as `sslmode`. The
    file of a SQLite database is the host, or `path` in the extra.

    Raises:
        SpecError: If there is no such connection, or it names no database.
    """
    from sqlalchemy.engine import URL

    found = connection_of(connection_id)
    if found is None:
        raise SpecError(
            f"the Airflow connection {connection_id} of the source's database does not exist. Add it, for "
            "example with --conn-type postgres --conn-host HOST --conn-schema DATABASE"
        )
    extra = dict(found.extra_dejson)
    scheme = str(
        extra.pop("sqlalchemy_scheme", "") or _DRIVERS.get(found.conn_type or "", found.conn_type or "")
    )
    if scheme.removeprefix("adbc+").startswith("sqlite"):
        return URL.create(scheme, database=str(extra.get("path") or found.host or ""))
    if not found.schema or not scheme:
        raise SpecError(
            f"connection {connection_id} does not name the database. Set type, host, login, password, "
            "and the database as schema"
        )
    return URL.create(
        scheme,
        username=found.login or None,
        password=found.password or None,
        host=found.host or None,
        port=found.port,
        database=found.schema,
        query={name: value for name, value in extra.items() if isinstance(value, str)},
    )


def lake_options(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the options for the Delta library, which accepts only text.

    >>> lake_options({"storage_options": {"AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": True}})
    {'AWS_REGION': 'eu-west-1', 'AWS_ALLOW_HTTP': 'true'}

    Raises:
        SpecError: If there are options that the library would not understand; the message names them.
    """
    options = _options(extra)
    strange = [
        name for name, value in options.items() if name in _FSSPEC or isinstance(value, Mapping | list)
    ]
    if strange:
        raise SpecError(
            "the storage_options of a lake must be strings under deltalake's names, got "
            f"{', '.join(strange)}. "
            "Use AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_ACCOUNT_NAME, ..."
        )
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


def source_options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for fsspec unchanged: some are numbers, truth values or mappings.

    Raises:
        SpecError: If there are options that the library would not understand; the message names them.
    """
    options = _options(extra)
    strange = [name for name in options if _DELTA.fullmatch(name)]
    if strange:
        raise SpecError(
            f"the storage_options of a source must have fsspec's names, got {', '.join(strange)}. Use key, "
            "secret and endpoint_url for s3fs, account_name and account_key for adlfs"
        )
    return options


def _options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set. From here on, Airflow masks their keys in all logs."""
    from airflow.sdk.log import mask_secret

    options = extra.get("storage_options") or {}
    if not isinstance(options, Mapping):
        raise SpecError(
            f"storage_options must be a mapping of names and values, got {type(options).__name__}. "
            "Correct the extra of the connection"
        )
    for value in _secrets(options):
        mask_secret(value)
    return {str(name): value for name, value in options.items() if value is not None}


def _secrets(options: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the values of options that are named like keys, including those inside a connection string."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif isinstance(value, str) and _SECRET.search(str(name)):
            yield value
            yield from _secrets(dict(part.split("=", 1) for part in value.split(";") if "=" in part))
