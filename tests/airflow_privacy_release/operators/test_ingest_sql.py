"""A query of PostgreSQL as a task: what it stages, what its reference tells, and what an error does not."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from airflow_privacy_release import IngestSqlOperator
from privacy_engine.errors import SourceError
from privacy_release.cli.main import main
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from tests import tables
from tests.servers import postgres

SQL = "SELECT name, age, zip, illness, visits FROM people WHERE day = {release:%Y-%m-%d}"


@pytest.fixture
def database(postgres_server: URL, people: pd.DataFrame) -> str:
    """The people twice: of one day and of the next."""
    url = postgres.new_schema(postgres_server)
    days = [people.assign(day=pd.Timestamp(day).date()) for day in ("2026-11-02", "2026-11-03")]
    pd.concat(days).to_sql("people", create_engine(url, poolclass=NullPool), index=False)
    return url


def context(day: str | None) -> dict[str, Any]:
    run = SimpleNamespace(dag_id="people", run_id="run-1", task_id="ingest", map_index=-1)
    return {"ti": run, "logical_date": pd.Timestamp(day) if day else None}


def operator(home: Path, **waits: Any) -> IngestSqlOperator:
    schema = tables.fields(zip={"hierarchy": str(home / "hierarchies" / "zip.csv")})
    return IngestSqlOperator(task_id="ingest", sql=SQL, connection="hospital", schema=schema, **waits)


@pytest.fixture(autouse=True)
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "area"))


@pytest.mark.parametrize("kind", ["postgres", "adbc+postgresql"])
def test_the_rows_of_the_runs_day_are_staged(
    home: Path, database: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HOSPITAL", database.replace("postgresql+psycopg", kind))
    table = operator(home).execute(context("2026-11-02"))
    assert table["rows"] == 200
    assert table["source"]["uri"] == "query of hospital"
    assert "SELECT" not in json.dumps(table)
    assert "sql" not in IngestSqlOperator.template_fields
    with pytest.raises(AirflowFailException, match="needs a release with a date"):
        operator(home).execute(context(None))


def test_a_day_without_rows_fails_or_is_left_out(
    home: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HOSPITAL", database.replace("postgresql+psycopg", "postgres"))
    with pytest.raises(AirflowFailException, match=r"query of hospital \(\w+\): the table is empty"):
        operator(home).execute(context("2026-11-09"))
    with pytest.raises(AirflowSkipException, match="query of hospital has no row, and when_missing is skip"):
        operator(home, when_missing="skip").execute(context("2026-11-09"))


def test_a_query_waits_in_the_triggerer_which_is_not_notified(
    home: Path, database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HOSPITAL", database.replace("postgresql+psycopg", "postgres"))
    waiting = operator(home, when_missing="wait", timeout="1 hour", every="5 minutes")
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context("2026-11-04"))
    reported = deferred.value
    assert reported.method_name == "resume"
    stored = str([reported.trigger.serialize(), reported.kwargs])
    assert "SELECT" not in stored
    assert "hospital" not in stored
    assert not list((tmp_path / "area").rglob("*.parquet"))
    with pytest.raises(TaskDeferred) as again:
        waiting.resume(context("2026-11-04"), event="a time", **reported.kwargs)
    assert again.value.kwargs == reported.kwargs, "until the same time"
    with create_engine(database, poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE people SET day = DATE '2026-11-04' WHERE day = DATE '2026-11-03'"))
    assert waiting.resume(context("2026-11-04"), event="a time", **reported.kwargs)["rows"] == 200
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    with pytest.raises(AirflowFailException, match="must have a row within 1 hour, but none arrived"):
        waiting.resume(context("2026-11-05"), event="a time", until=past)


def test_a_database_that_is_away_is_asked_again_and_not_named(
    home: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = make_url(database).set(port=1, drivername="postgres").render_as_string(hide_password=False)
    monkeypatch.setenv("AIRFLOW_CONN_HOSPITAL", away)
    with pytest.raises(SourceError, match="cannot be reached") as caught:
        operator(home).execute(context("2026-11-02"))
    assert caught.value.__context__ is None
    assert str(make_url(database).password) not in str(caught.value)


def test_a_release_of_a_query_is_published_from_the_command_line(
    home: Path, database: str, lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"connection": "hospital", "sql": SQL}
    path = tables.write_release(home, source=source)
    run = ["run", str(path), "--lake", lake.root, "--release-id"]
    assert main([*run, "2026-11-02"]) == 2
    assert "PRIVACY_SOURCE_HOSPITAL" in capsys.readouterr().err
    monkeypatch.setenv("PRIVACY_SOURCE_HOSPITAL", database)
    assert main([*run, "2026-11-02"]) == 0
    assert main([*run, "2026-11-09"]) == 2
    assert "the table is empty" in capsys.readouterr().err
    tables.write_release(home, source=source | {"when_missing": "skip"})
    assert main([*run, "2026-11-09"]) == 0
    assert "query of hospital has no row" in capsys.readouterr().err
    assert main([*run, "undated"]) == 2
    assert "needs a release with a date" in capsys.readouterr().err
    assert read_release(lake.table("people"), "2026-11-02").num_rows == 200
    manifest = json.dumps(manifest_of(lake.table("people"), "2026-11-02"))
    assert '"query"' in manifest
    for secret in ("SELECT", "hospital", str(make_url(database).password)):
        assert secret not in manifest
