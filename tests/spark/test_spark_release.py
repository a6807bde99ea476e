"""A release that Spark makes, by the steps of a run: byte for byte that of one machine's processes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privacy_release
from privacy_engine.tables.schema import DataSchema
from privacy_release.work.area import WorkArea
from privacy_release.work.engines import read_engine
from tests.servers.spark_cluster import CONF, require_spark

pytestmark = pytest.mark.spark

ROWS = 2_600
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier", "kind": "categorical"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "town": {"role": "quasi_identifier", "kind": "categorical", "categories": ["a", "b", "c"]},
        "illness": {"role": "sensitive", "kind": "categorical"},
    }
)
METHOD: dict[str, Any] = {"method": "mondrian", "parameters": {"k": 5, "l": 2}, "seed": 7}


@pytest.fixture
def source(tmp_path: Path) -> str:
    rng = np.random.default_rng(4)
    path = tmp_path / "people.parquet"
    pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(ROWS)],
            "age": rng.integers(18, 90, ROWS),
            "town": rng.choice(["a", "b", "c"], ROWS),
            "illness": rng.choice(["cold", "cough", "flu"], ROWS),
        }
    ).to_parquet(path, index=False)
    return str(path)


@pytest.fixture
def spark_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    require_spark()
    told = {"conn_type": "privacy_spark", "extra": {"master": "local[2]", "conf": CONF}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(told))


@pytest.mark.usefixtures("spark_connection")
def test_spark_releases_the_bytes_of_the_process_pool(source: str, tmp_path: Path) -> None:
    staged = {}
    with WorkArea(tmp_path / "work", "people/run") as work:
        for kind in ("fragments", "spark"):
            engine = read_engine({"kind": kind, "rows": 1_000, "memory": "1GB", "processes": 1})
            table = privacy_release.ingest(source, SCHEMA, work, engine=engine)
            staged[kind] = privacy_release.make_release(table, work, label=kind, **METHOD)
    assert staged["spark"]["sha256"] == staged["fragments"]["sha256"]
    assert staged["spark"]["figures"] == staged["fragments"]["figures"]
    told = json.loads(Path(staged["spark"]["manifest"]).read_text())["fragments"]
    assert told["count"] >= 3
    assert told["engine"] == "spark"
