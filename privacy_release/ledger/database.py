"""The database of the budget ledger: its address, its transactions, and errors that show no secret.

SQLite is for one machine, PostgreSQL for several. A writing transaction holds a lock from its first statement
on, so that its decision is based on what it read: SQLite's write lock, or the row of the data set in
PostgreSQL.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from privacy_engine.errors import LedgerError, SpecError
from privacy_release.ledger.tables import REVISION, VERSION_TABLE

_WAIT_SECONDS = 60  # for the lock, which another booking of the same data set holds for milliseconds
_CONNECT_SECONDS = 10
_AHEAD = timedelta(minutes=5)  # largest lead of one machine's clock over another's
_MIGRATION_LOCK = 6_271_839_517_302_811  # arbitrary, not used by other users of the database
_POSTGRES = "postgresql"


def database_url(place: str) -> URL:
    """Return the address of a ledger's database: a URL of SQLite or PostgreSQL, or an absolute path.

    Raises:
        SpecError: If it is neither. The message does not repeat it, because it may contain a password.
    """
    if "://" not in place:
        return _file_url(place)
    try:
        url = make_url(place)
        backend = "postgresql" if url.drivername == "postgres" else url.get_backend_name()
    except (ArgumentError, ValueError):
        backend = ""
    if backend not in ("sqlite", _POSTGRES):
        raise SpecError(
            "the ledger must be a file or a database URL such as postgresql://user@host/name or "
            "sqlite:////path/ledger.db, got another address; correct it"
        )
    if backend == "sqlite":
        if url.query:
            raise SpecError("the ledger's SQLite URL must name a file and nothing else; correct it")
        return _file_url(url.database or "")
    driver = url.drivername if "+" in url.drivername else "postgresql+psycopg"
    return url.set(drivername=driver)


def _file_url(path: str) -> URL:
    file = Path(path).expanduser()
    if not file.is_absolute():
        raise SpecError(
            "the ledger's file must be an absolute path, because a relative one would depend on the working "
            "directory; correct it"
        )
    return URL.create("sqlite", database=str(file))


def shown(url: URL) -> str:
    """Return the address as it may be shown: without user, password and options.

    >>> shown(database_url("postgresql://app:hunter2@db.example:5433/ledger?password=hunter2"))
    'postgresql://db.example:5433/ledger'
    """
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"


def engine_of(url: URL) -> Engine:
    """Return an engine that keeps no connection open: processes may fork, and ledgers are used rarely.

    Raises:
        LedgerError: If the database's driver is not installed.
    """
    try:
        if url.get_backend_name() == _POSTGRES:
            options = {"connect_timeout": _CONNECT_SECONDS, "application_name": "privacy-release ledger"}
            return create_engine(
                url, poolclass=NullPool, isolation_level="READ COMMITTED", connect_args=options
            )
        engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _WAIT_SECONDS})
    except (ImportError, NoSuchModuleError):
        raise LedgerError(
            f"the ledger {shown(url)} needs a database driver that is not installed; "
            "install privacy-release[postgres]"
        ) from None
    event.listen(engine, "connect", _leave_transactions_to_us)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _leave_transactions_to_us(connection: Any, record: object) -> None:
    """Begin transactions here: Python's driver would begin one only at the first write, which is too late."""
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = EXTRA")  # bookings survive a power failure


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("ledger_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that may write: committed at the end of the block, undone if it raises.

    Raises:
        LedgerError: If the database cannot be reached, refuses, or is not migrated.
    """
    _check_file(engine)
    with _transaction(engine, {"ledger_writes": True}) as connection:
        if engine.dialect.name == _POSTGRES:
            # A hanging worker must not hold the lock forever, nor must others wait for it forever.
            for limit in ("lock_timeout", "idle_in_transaction_session_timeout"):
                connection.execute(text(f"SET LOCAL {limit} = '{_WAIT_SECONDS}s'"))
        _check_revision(connection)
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that reads a single state of the database, whatever others commit meanwhile.

    Raises:
        LedgerError: As `writing`.
    """
    _check_file(engine)
    options = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == _POSTGRES else {}
    with _transaction(engine, options) as connection:
        _check_revision(connection)
        yield connection


def time_of(connection: Connection, clock: Callable[[], datetime] | None = None) -> datetime:
    """Return the time, UTC: of the database server, so that all workers agree; of this machine for SQLite.

    Args:
        connection: Connection to the ledger.
        clock: Clock to use instead.
    """
    if clock is not None:
        return clock()
    if connection.dialect.name != _POSTGRES:
        return _this_machine()
    server_time: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return server_time.astimezone(UTC)


def check_time(connection: Connection, time: datetime, clock: Callable[[], datetime] | None) -> None:
    """Compare the time from `time_of` with a second clock. For SQLite there is none.

    Raises:
        LedgerError: If it is ahead of that clock, so that rolling limits would be free too early.
    """
    if connection.dialect.name == _POSTGRES and clock is not None:
        _check_ahead("the clock", time, "the database server's", time_of(connection))
    elif connection.dialect.name == _POSTGRES:
        _check_ahead("the database server's clock", time, "this machine's", _this_machine())


def _this_machine() -> datetime:
    return datetime.now(UTC)


def _check_ahead(what: str, time: datetime, whose: str, other: datetime) -> None:
    if time - other > _AHEAD:
        raise LedgerError(
            f"{what} must not be ahead of {whose} by more than {_AHEAD.seconds // 60} minutes, got "
            f"{time:%Y-%m-%d %H:%M:%S} UTC and {other:%Y-%m-%d %H:%M:%S} UTC: rolling limits would be free "
            "too early, so nothing is booked; set both clocks right (NTP) and retry"
        )


@contextmanager
def _transaction(engine: Engine, options: dict[str, Any]) -> Iterator[Connection]:
    with (
        _reaching(engine.url),
        engine.connect() as connection,
        connection.execution_options(**options).begin(),
    ):
        yield connection


def migrate(engine: Engine) -> None:
    """Update the tables to this version. Several processes may try at once; a killed one changes nothing.

    Raises:
        LedgerError: If the database cannot be reached or refuses, or has tables of a later version.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    folder = Path(__file__).with_name("migrations")
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    if engine.dialect.name == "sqlite":
        _make_file(engine.url)
    with _transaction(engine, {"ledger_writes": True}) as connection:
        if engine.dialect.name == _POSTGRES:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        config.attributes["connection"] = connection
        with suppress(CommandError):  # it does not know the tables' revision, which is reported below
            command.upgrade(config, "head")
        _check_revision(connection)


def is_migrated(engine: Engine) -> bool:
    """Return whether the tables exist in this version. False also if there is no file yet.

    Raises:
        LedgerError: If the database cannot be reached.
    """
    if engine.dialect.name == "sqlite" and not _has_file(engine.url):
        return False
    with _transaction(engine, {}) as connection:
        return _revision(connection) == REVISION


def _make_file(url: URL) -> None:
    """Create an empty file that only this user can read and write. SQLite would use the umask's mode."""
    file = Path(str(url.database))
    with _reaching(url):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))


def _check_file(engine: Engine) -> None:
    """Raise if there is no file. Otherwise the driver would create an empty one."""
    if engine.dialect.name == "sqlite" and not _has_file(engine.url):
        raise _not_migrated(shown(engine.url))


def _has_file(url: URL) -> bool:
    with _reaching(url):
        return Path(str(url.database)).is_file()


def _check_revision(connection: Connection) -> None:
    revision = _revision(connection)
    place = shown(connection.engine.url)
    if revision is None:
        raise _not_migrated(place)
    if revision != REVISION:
        raise LedgerError(
            f"the ledger {place} must have tables of revision {REVISION}, got {revision}; run "
            "`privacy-release budget migrate`, with the newest version of this package that uses the ledger"
        )


def _revision(connection: Connection) -> str | None:
    """Return the revision of the ledger's tables. None if there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _not_migrated(place: str) -> LedgerError:
    return LedgerError(
        f"the ledger {place} has no tables yet; create them with: privacy-release budget migrate"
    )


@contextmanager
def _reaching(url: URL) -> Iterator[None]:
    """Turn all errors of the database into a LedgerError without the cause, which may show the address."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise LedgerError(
            f"the privacy budget ledger {shown(url)} cannot be reached or refuses ({_reason(error)}), and "
            "without it nothing is measured; check that it runs, its address and its user's permissions, "
            "then retry"
        ) from None


def _reason(error: Exception) -> str:
    """Return the class of an error and its code in PostgreSQL or SQLite, never its message."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    return f"{type(cause).__name__}, {code}" if code else type(cause).__name__
