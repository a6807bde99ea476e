"""Pseudonyms by the operator: the key is a connection's password, series and release are the run's."""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_privacy_release.operators.ingest import IngestParquetOperator

KEY = "a key of the tests alone, long enough"
IDENTIFIER = {"role": "identifier", "pseudonym": {"connection": "pseudonyms", "scope": "series"}}


def set_key(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    login = {"conn_type": "generic", "password": key}
    monkeypatch.setenv("AIRFLOW_CONN_PSEUDONYMS", json.dumps(login))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    set_key(monkeypatch, KEY)
    pd.DataFrame({"id": ["canary-1", "canary-2"], "age": [3, 4]}).to_parquet(tmp_path / "t.parquet")
    return str(tmp_path / "t.parquet")


def ingested(source: str, *, dag: str = "visits", run: str = "1", scope: str = "series", **given: Any) -> Any:
    pseudonym = {**IDENTIFIER["pseudonym"], "scope": scope}  # type: ignore[dict-item]  # of a mapping of texts
    schema = {"id": {**IDENTIFIER, "pseudonym": pseudonym}, "age": {"role": "sensitive", "kind": "numeric"}}
    operator = IngestParquetOperator(task_id="ingest", uri=source, schema=schema, **given)
    task = SimpleNamespace(dag_id=dag, task_id="ingest", run_id=run, map_index=-1)
    now = datetime(2026, 1, 5, tzinfo=UTC)
    return operator.execute({"ti": task, "run_id": run, "logical_date": now})


def kept(table: Any) -> list[str]:
    return list(pd.read_parquet(table["uri"])["id"])


def test_runs_of_a_dag_share_a_series_and_another_dag_has_its_own(source: str) -> None:
    one, two = kept(ingested(source)), kept(ingested(source, run="2"))
    assert one == two
    assert not set(one) & set(kept(ingested(source, dag="other")))
    assert one == kept(ingested(source, dag="other", series="visits"))


def test_a_release_has_its_own(source: str) -> None:
    one, two = (kept(ingested(source, run=run, scope="release")) for run in ("1", "2"))
    assert not set(one) & set(two)


def test_neither_key_nor_identifier_is_returned(source: str) -> None:
    table = ingested(source)
    text = json.dumps(table) + Path(table["schema"]).read_text()
    assert KEY not in text
    assert "canary" not in text


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "pseudonyms of the key of pseudonyms and shifted dates does not exist"),
        ("short", "at least 32 random bytes, got 5"),
    ],
    ids=["missing", "short"],
)
def test_a_key_that_is_missing_or_short_fails_for_good(
    source: str, monkeypatch: pytest.MonkeyPatch, key: str | None, message: str
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_PSEUDONYMS")
    if key is not None:
        set_key(monkeypatch, key)
    with pytest.raises(AirflowFailException, match=message):
        ingested(source)
