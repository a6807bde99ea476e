"""Releases of a source with nulls: kept, from Parquet to the lake, with the same answer by every engine."""

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

import privacy_release
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from tests.contract.released_cells import a_set
from tests.servers.spark_cluster import CONF, require_spark

FIELDS: dict[str, Any] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "town": {"role": "quasi_identifier", "categories": ["a", "b", "c"]},
    "illness": {"role": "sensitive"},
    "visits": {"role": "insensitive", "kind": "numeric", "unique": {"allow": "to find records again"}},
}
POLICY = ReleasePolicy(require=(KAnonymity(k=5), DistinctLDiversity(l=2)))
METHOD: dict[str, Any] = {"method": "mondrian", "parameters": {"k": 5, "l": 2}, "seed": 7}
ENGINES = ["local", "fragments", pytest.param("spark", marks=pytest.mark.spark)]


def people(n: int = 2_600) -> pd.DataFrame:
    """Whole numbers, texts and truth values of a source, a fifth of them missing."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {
            "age": pd.Series(rng.integers(18, 90, n), dtype="Int64"),
            "town": rng.choice(["a", "b", "c"], n),
            "illness": rng.choice(["cold", "cough", "flu"], n),
            "visits": np.arange(n),
        }
    )
    for column in ("age", "town", "illness"):
        table[column] = table[column].mask(rng.random(n) < 0.2)
    return table.assign(name=[f"person {i}" for i in range(n)])


@pytest.fixture
def source(tmp_path: Path) -> str:
    people().to_parquet(tmp_path / "people.parquet", index=False)
    return str(tmp_path / "people.parquet")


def engine_of(kind: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    if kind == "spark":
        require_spark()
        reported = {"conn_type": "privacy_spark", "extra": {"master": "local[2]", "conf": CONF}}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(reported))
    fields = {"kind": kind, "rows": 1_000, "memory": "1GB", "processes": 1}
    return None if kind == "local" else read_engine(fields)


@pytest.mark.parametrize("kind", ENGINES)
def test_every_engine_keeps_nulls_and_says_where_they_are(
    kind: str, source: str, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = privacy_release.ingest(
        source,
        DataSchema.from_dict(FIELDS),
        work,
        nulls="keep",
        engine=engine_of(kind, monkeypatch),
    )
    assert (table.rows, table.source.dropped) == (2_600, 0)
    staged = privacy_release.make_release(table, work, **METHOD)
    report = privacy_release.verify_staged(staged, POLICY)
    assert report.passed
    smallest, fewest = duckdb.sql(
        f"""SELECT min(n), min(illnesses) FROM (
            SELECT count(*) AS n, count(DISTINCT coalesce(illness, 'no illness')) AS illnesses
            FROM read_parquet('{staged.uri}') GROUP BY age_from, age_to, age_null, town)"""
    ).fetchall()[0]
    assert [f["measured"] for f in report.findings[:2]] == [smallest, fewest]
    released = pq.read_table(staged.uri).to_pandas().set_index("visits")
    own = people().set_index("visits").loc[released.index]
    assert len(released) == 2_600
    for cells, known_age, known_town in zip(
        released.to_dict("records"), own["age"], own["town"], strict=True
    ):
        place = a_set(None if pd.isna(cells["town"]) else cells["town"])
        assert pd.isna(cells["age_from"]) <= cells["age_null"]
        if pd.isna(known_age):
            assert cells["age_null"]
        else:
            assert cells["age_from"] <= known_age <= cells["age_to"]
        assert place.null if pd.isna(known_town) else known_town in place.values
    manifest = json.loads(Path(staged.manifest).read_bytes())
    assert "age_null is true" in manifest["columns"]["age_from"]["nulls"]
    assert "Missing values" in Path(staged.report).read_text()


@pytest.mark.parametrize("kind", ["local", "fragments"])
def test_without_keep_a_null_stops_ingest_and_drop_leaves_it_out(
    kind: str, source: str, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, schema = engine_of(kind, monkeypatch), DataSchema.from_dict(FIELDS)
    with pytest.raises(SchemaError, match=r"age: \d+ values are null: .*nulls: keep"):
        privacy_release.ingest(source, schema, work, engine=engine)
    dropped = privacy_release.ingest(source, schema, work, nulls="drop", label="dropped", engine=engine)
    assert dropped.rows == len(people().dropna())
    fields = {
        name: reported | ({"nullable": True} if name == "age" else {}) for name, reported in FIELDS.items()
    }
    some = privacy_release.ingest(
        source, DataSchema.from_dict(fields), work, nulls="drop", label="some", engine=engine
    )
    assert some.rows == len(people().dropna(subset=["town", "illness"]))


def specified(home: Path, **changes: Any) -> Path:
    """The release of `home`, of people some of whose ages and places are not known."""
    table = pd.read_parquet(home / "people.parquet")
    rng = np.random.default_rng(2)
    for column in ("age", "zip", "illness"):
        table[column] = table[column].mask(rng.random(len(table)) < 0.2)
    table.to_parquet(home / "people.parquet", index=False)
    path = home / "releases" / "people.yaml"
    reported = yaml.safe_load(path.read_text())
    reported["source"]["nulls"] = changes.pop("nulls", "keep")
    path.write_text(yaml.safe_dump({**reported, **changes}))
    return path


def test_a_specification_that_keeps_nulls_runs_to_the_lake(home: Path, lake: Lake, work: WorkArea) -> None:
    run_release(load_spec(specified(home, expectations=None)), lake, "1", work)
    (published,) = releases(lake.table("people"))
    assert published["state"] == "current"
    table = read_release(lake.table("people"), "1").to_pandas()
    assert len(table) == 200
    assert table["age_null"].any()
    assert (table["age_from"].isna() == table["age_to"].isna()).all()
    columns = manifest_of(lake.table("people"), "1")["columns"]
    assert "nulls" in columns["age_from"]
    assert "nulls" in columns["zip"]


def test_a_specification_that_does_not_keep_them_stops(home: Path, lake: Lake, work: WorkArea) -> None:
    with pytest.raises(SchemaError, match="nulls: keep"):
        run_release(load_spec(specified(home, nulls="fail", expectations=None)), lake, "1", work)


def test_a_misspelt_word_for_nulls_is_refused(home: Path) -> None:
    with pytest.raises(SpecError, match=r"source.nulls.*'fail', 'drop' or 'keep'"):
        load_spec(specified(home, nulls="keeep"))
