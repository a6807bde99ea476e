"""Shifted dates by the operator: the key is a connection's password, series and release are the run's."""

import datetime as dt
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_privacy_release.operators.ingest import IngestParquetOperator

KEY = "a key of shifts of the tests alone, long enough"
SEEN = dt.datetime(2011, 7, 9, 3, 41, 17)
DAYS = 30_000  # so that an amount has five digits and looks like no other number


def set_key(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    login = {"conn_type": "generic", "password": key}
    monkeypatch.setenv("AIRFLOW_CONN_DATES", json.dumps(login))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    set_key(monkeypatch, KEY)
    table = pd.DataFrame({"id": ["canary-1", "canary-2"], "seen": [SEEN, SEEN], "born": dt.date(1931, 5, 7)})
    table.to_parquet(tmp_path / "t.parquet")
    return str(tmp_path / "t.parquet")


def ingested(source: str, *, dag: str = "visits", run: str = "1", scope: str = "series", **given: Any) -> Any:
    shift = {"connection": "dates", "days": DAYS, "scope": scope}
    schema = {
        "id": {"role": "identifier"},
        "born": {"role": "identifier", "kind": "date"},
        "seen": {"role": "insensitive", "kind": "timestamp", "as_is": True, "shift": shift},
        "age": {"role": "sensitive", "kind": "numeric", "derive": {"years_between": ["born", "seen"]}},
    }
    operator = IngestParquetOperator(task_id="ingest", uri=source, schema=schema, **given)
    task = SimpleNamespace(dag_id=dag, task_id="ingest", run_id=run, map_index=-1)
    now = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
    return operator.execute({"ti": task, "run_id": run, "logical_date": now})


def amounts(table: Any) -> list[int]:
    kept = pd.read_parquet(table["uri"])
    assert kept["age"].tolist() == [80, 80]
    return list((kept["seen"] - pd.Timestamp(SEEN)).dt.days)


def test_runs_of_a_dag_share_a_series_and_another_dag_has_its_own(source: str) -> None:
    one = amounts(ingested(source))
    assert one == amounts(ingested(source, run="2"))
    assert not set(one) & set(amounts(ingested(source, dag="other")))
    assert one == amounts(ingested(source, dag="other", series="visits"))
    assert one[0] != one[1]


def test_a_release_has_its_own(source: str) -> None:
    one, two = (amounts(ingested(source, run=run, scope="release")) for run in ("1", "2"))
    assert not set(one) & set(two)


def test_neither_key_nor_amount_nor_true_date_is_reported(
    source: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    table = ingested(source, series="of long amounts")
    written = json.dumps(table) + Path(table["schema"]).read_text() + caplog.text
    reported = written.replace(str(Path(source).parent), "")
    moved = [str(abs(days)) for days in amounts(table)]
    assert {len(text) for text in moved} == {5}
    hidden = [KEY, "canary", "2011-07-09", "03:41:17", "1931-05-07", "2011, 7, 9", *moved]
    assert not [text for text in hidden if text in reported]
    assert table["source"]["shifted"]["days"] == DAYS


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "connection dates of the key of pseudonyms and shifted dates does not exist"),
        ("short", "at least 32 random bytes, got 5"),
    ],
    ids=["missing", "short"],
)
def test_a_key_that_is_missing_or_short_fails_for_good(
    source: str, monkeypatch: pytest.MonkeyPatch, key: str | None, message: str
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_DATES")
    if key is not None:
        set_key(monkeypatch, key)
    with pytest.raises(AirflowFailException, match=message):
        ingested(source)
