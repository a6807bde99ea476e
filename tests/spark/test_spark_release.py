"""A release that Spark makes, by the steps of a run: that of one machine, byte for byte if it is small."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privacy_release
from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.sources.shares import Workers
from privacy_release.steps.producers import fragment_join
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.parquet import read_private
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
    fields = {"conn_type": "privacy_spark", "extra": {"master": "local[2]", "conf": CONF}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(fields))


@pytest.mark.usefixtures("spark_connection")
def test_spark_releases_the_bytes_of_the_process_pool(source: str, tmp_path: Path) -> None:
    staged = {}
    with WorkArea(tmp_path / "work", "people/run") as work:
        for kind in ("fragments", "spark"):
            engine = read_engine({"kind": kind, "rows": 1_000, "memory": "1GB", "processes": 1})
            table = privacy_release.ingest(source, SCHEMA, work, engine=engine)
            staged[kind] = privacy_release.make_release(table, work, label=kind, **METHOD)
    assert staged["spark"].sha256 == staged["fragments"].sha256
    assert staged["spark"].figures == staged["fragments"].figures
    manifest = json.loads(Path(staged["spark"].manifest).read_text())["fragments"]
    assert manifest["count"] >= 3
    assert manifest["engine"] == "spark"


@pytest.mark.usefixtures("spark_connection")
def test_executors_copy_the_shares_of_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privacy_release.steps.ingest.Workers", partial(Workers, many=1, share=1_000))
    folder = tmp_path / "people"
    folder.mkdir()
    for number in range(5):
        ages = np.random.default_rng(number).integers(18, 90, ROWS)
        columns = {"name": [f"{number}-{i}" for i in range(ROWS)], "age": ages, "town": "a", "illness": "flu"}
        pd.DataFrame(columns).to_parquet(folder / f"{number}.parquet", index=False)
    with WorkArea(tmp_path / "work", "people/run") as work:
        tables = {
            kind: privacy_release.ingest(
                str(folder), SCHEMA, work, label=kind, engine=read_engine({"kind": kind, "rows": 1_000})
            )
            for kind in ("fragments", "spark")
        }
        assert len(files_of(tables["spark"].uri, tables["spark"].sha256)) == 15
        for name in ("rows", "sha256", "source"):
            assert getattr(tables["spark"], name) == getattr(tables["fragments"], name)
        (folder / "0.parquet").write_bytes((folder / "4.parquet").read_bytes())
        with pytest.raises(SchemaError, match="name: 2,600 records repeat another's value"):
            privacy_release.ingest(str(folder), SCHEMA, work, engine=read_engine("spark"))
        assert not list(work.folder.glob("ingest.*"))


@pytest.mark.usefixtures("spark_connection")
def test_executors_write_the_files_of_a_set_in_the_order_of_one_file(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    with WorkArea(tmp_path / "work", "people/run") as work:
        for kind, most in (("fragments", ROWS), ("spark", 600)):
            monkeypatch.setattr(fragment_join, "ROWS_OF_A_FILE", most)
            engine = read_engine({"kind": kind, "rows": 1_000, "memory": "1GB", "processes": 1})
            table = privacy_release.ingest(source, SCHEMA, work, engine=engine)
            found[kind] = privacy_release.make_release(table, work, label=kind, **METHOD)
        one, several = (read_private(found[kind].uri, found[kind].sha256) for kind in found)
        files = files_of(found["spark"].uri, found["spark"].sha256)
        assert found["spark"].figures == found["fragments"].figures
        assert several.equals(one)
        assert len(files) >= 4
        assert [sha256_file(path) for path in files] == [*files.values()]
        report = verify_staged(found["spark"], ReleasePolicy(require=(KAnonymity(k=5),)))
        assert report.passed
