"""The database under the ledger: migrations, places, and errors that show no secret."""

import logging
import sqlite3
import subprocess
import sys
import threading
import traceback
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from deploy.local.embedded import free_port
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import LedgerError, SpecError
from privacy_release.ledger import database
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.ledger.tables import METADATA, REVISION, VERSION_TABLE
from tests.waiting import wait_for

DATASET = "adult"
LOSS = PrivacyLoss(epsilon=0.1, neighbours=Neighbours.REPLACE_ONE)
PASSWORD = "hunter2-hunter2"
FOLDER = Path(database.__file__).parent


@pytest.fixture
def bare(ledger_url: str) -> BudgetLedger:
    """A ledger whose database is empty."""
    return BudgetLedger(ledger_url)


def tables(url: str) -> set[str]:
    return set(inspect(create_engine(url, poolclass=NullPool)).get_table_names())


# Migrations


def test_the_migrations_make_the_tables_that_the_code_uses(ledger: BudgetLedger) -> None:
    with create_engine(ledger.url, poolclass=NullPool).connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_the_revision_that_the_code_expects_is_the_newest() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == REVISION


def test_migrating_again_changes_nothing(ledger: BudgetLedger) -> None:
    ledger.grant(DATASET, Limit(epsilon=1.0), reason="x", by="y")
    ledger.migrate()
    assert len(ledger.check(DATASET)) == 1


def test_many_may_migrate_at_once(bare: BudgetLedger) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: BudgetLedger(bare.url).migrate(), range(8)))
    assert bare.is_migrated


def test_a_migration_that_stops_half_way_leaves_no_table(bare: BudgetLedger) -> None:
    def stop(connection: object) -> None:
        raise KeyboardInterrupt

    event.listen(bare._engine, "commit", stop)
    with pytest.raises(KeyboardInterrupt):
        bare.migrate()
    event.remove(bare._engine, "commit", stop)
    assert tables(bare.url) == set()
    assert not bare.is_migrated
    bare.migrate()
    assert bare.is_migrated


def test_a_database_without_tables_is_refused_with_the_command_that_makes_them(bare: BudgetLedger) -> None:
    assert not bare.is_migrated
    for act in (lambda: bare.reserve(DATASET, "key", LOSS), bare.datasets):
        with pytest.raises(LedgerError, match="privacy-release budget migrate"):
            act()


def test_tables_of_another_version_are_refused(ledger: BudgetLedger) -> None:
    with create_engine(ledger.url, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = 'ledger_9999'"))
    assert not ledger.is_migrated
    for act in (ledger.migrate, ledger.datasets, lambda: ledger.reserve(DATASET, "key", LOSS)):
        with pytest.raises(LedgerError, match="got ledger_9999"):
            act()


def test_a_ledger_can_live_in_airflows_database(airflow_home: Path, tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(airflow_home / "airflow.db")) as source,
        closing(sqlite3.connect(tmp_path / "airflow.db")) as copy,
    ):
        source.backup(copy)
    url = f"sqlite:///{tmp_path / 'airflow.db'}"

    def airflows() -> tuple[set[str], object]:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            revision = connection.execute(text("SELECT version_num FROM alembic_version")).all()
        return {name for name in tables(url) if not name.startswith("privacy_ledger")}, revision

    before = airflows()
    ledger = BudgetLedger(url)
    ledger.migrate()
    ledger.grant(DATASET, Limit(epsilon=1.0), reason="x", by="y")
    assert airflows() == before
    assert {name for name in tables(url) if name.startswith("privacy_ledger")} == {
        *METADATA.tables,
        VERSION_TABLE,
    }


def test_the_wheel_holds_the_migrations(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=FOLDER.parents[1],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {
        f"privacy_release/ledger/migrations/versions/{REVISION}.py",
        "privacy_release/ledger/migrations/env.py",
    } <= held


# Places


@pytest.mark.parametrize(
    ("place", "whole", "expected"),
    [
        ("/data/ledger.db", "sqlite:////data/ledger.db", "/data/ledger.db"),
        ("sqlite:////data/ledger.db", "sqlite:////data/ledger.db", "/data/ledger.db"),
        ("sqlite+pysqlite:////data/ledger.db", "sqlite:////data/ledger.db", "/data/ledger.db"),
        (
            f"postgres://app:{PASSWORD}@db/ledger",
            f"postgresql+psycopg://app:{PASSWORD}@db/ledger",
            "postgresql://db/ledger",
        ),
        (
            f"postgresql://app:{PASSWORD}@db:5433/ledger?password={PASSWORD}&sslmode=require",
            f"postgresql+psycopg://app:{PASSWORD}@db:5433/ledger?password={PASSWORD}&sslmode=require",
            "postgresql://db:5433/ledger",
        ),
        ("postgresql+psycopg2://db/ledger", "postgresql+psycopg2://db/ledger", "postgresql://db/ledger"),
    ],
)
def test_a_place_is_a_file_or_a_database_and_is_shown_without_secret(
    place: str, whole: str, expected: str
) -> None:
    assert database.database_url(place).render_as_string(hide_password=False) == whole
    ledger = BudgetLedger(place, signing_key=PASSWORD.encode() * 2)
    assert ledger.place == expected
    assert PASSWORD not in repr(ledger)


@pytest.mark.parametrize(
    "place",
    [
        f"mysql://app:{PASSWORD}@db/ledger",
        f"nosuch://app:{PASSWORD}@db/ledger",
        f"postgresql://app:{PASSWORD}@db:port/ledger",
        f"://{PASSWORD}",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///ledger.db",
        "ledger.db",
        "",
        f"sqlite:////data/ledger.db?key={PASSWORD}",
    ],
)
def test_another_place_is_refused_without_repeating_it(place: str) -> None:
    with pytest.raises(SpecError) as caught:
        BudgetLedger(place)
    assert "must" in str(caught.value)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_a_new_file_is_for_this_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "ledger.db"
    BudgetLedger(str(file)).migrate()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_asking_a_ledger_that_is_not_there_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    ledger = BudgetLedger(str(file))
    with pytest.raises(LedgerError, match="no tables yet"):
        ledger.standing(DATASET)
    assert not ledger.is_migrated
    assert not file.exists()


# A database that cannot be reached


@pytest.fixture
def unreachable(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> BudgetLedger:
    match kind:
        case "folder":
            return BudgetLedger(str(tmp_path))
        case "folder of a file":
            (tmp_path / "file").touch()
            return BudgetLedger(str(tmp_path / "file" / "ledger.db"))
        case "no database":
            (tmp_path / "ledger.db").write_text(f"{PASSWORD}, and that is no database" * 100)
            return BudgetLedger(str(tmp_path / "ledger.db"))
        case "no one listens":
            return BudgetLedger(f"postgresql://app:{PASSWORD}@127.0.0.1:{free_port()}/ledger")
        case "no such host":
            return BudgetLedger(f"postgresql://app:{PASSWORD}@no-such-host.invalid/ledger")
    server: URL = request.getfixturevalue("postgres_server")
    url = server.set(password=PASSWORD) if kind == "wrong password" else server.set(database="no_such")
    return BudgetLedger(url.render_as_string(hide_password=False))


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


@pytest.mark.parametrize(
    "kind",
    [
        "folder",
        "folder of a file",
        "no database",
        "no one listens",
        "no such host",
        pytest.param("wrong password", marks=pytest.mark.slow),  # what a server answers
        pytest.param("wrong name", marks=pytest.mark.slow),
    ],
)
def test_a_ledger_out_of_reach_fails_closed_and_shows_no_secret(
    unreachable: BudgetLedger, logged: pytest.LogCaptureFixture
) -> None:
    for act in (
        unreachable.migrate,
        unreachable.datasets,
        lambda: unreachable.reserve(DATASET, "key", LOSS),
        lambda: unreachable.require(DATASET, LOSS),
        lambda: unreachable.commit(DATASET, "key", "model", token="x"),
        lambda: unreachable.booking(DATASET, "key"),
        lambda: unreachable.check(DATASET),
    ):
        with pytest.raises(LedgerError) as caught:
            act()
        assert PASSWORD not in "".join(traceback.format_exception(caught.value)) + logged.text


@pytest.mark.slow  # only a server closes a connection
def test_a_connection_that_breaks_fails_and_books_nothing(postgres_server: URL) -> None:
    from tests.servers.postgres import new_schema

    ledger = BudgetLedger(new_schema(postgres_server))
    ledger.migrate()
    ledger.grant(DATASET, Limit(epsilon=1.0), reason="x", by="y")

    def broken(connection: object) -> None:
        with create_engine(
            postgres_server, isolation_level="AUTOCOMMIT", poolclass=NullPool
        ).connect() as other:
            other.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'privacy-release ledger' AND usename = :name"
                ),
                {"name": database.database_url(ledger.url).username},
            )

    event.listen(ledger._engine, "commit", broken)
    with pytest.raises(LedgerError, match="cannot be reached or refuses"):
        ledger.reserve(DATASET, "key", LOSS)
    assert len(BudgetLedger(ledger.url).check(DATASET)) == 1


def test_a_lock_that_another_never_gives_back_is_not_waited_for_for_ever(
    ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.grant(DATASET, Limit(epsilon=1.0), reason="x", by="y")
    monkeypatch.setattr(database, "_WAIT_SECONDS", 1)
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with BudgetLedger(ledger.url)._writing(DATASET):
            locked.set()
            release.wait()

    # Its own session would be ended after the same second.
    with ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(database, "_WAIT_SECONDS", 600)
            held = pool.submit(hold)
            wait_for(locked.is_set, "a lock that another holds")
        try:
            with pytest.raises(LedgerError, match="cannot be reached or refuses"):
                BudgetLedger(ledger.url).reserve(DATASET, "key", LOSS)
        finally:
            release.set()
        held.result()
    assert ledger.reserve(DATASET, "key", LOSS).attempt == 1


def test_without_its_driver_the_remedy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r"install privacy-release\[postgres\]"):
        BudgetLedger("postgresql://db/ledger").datasets()
