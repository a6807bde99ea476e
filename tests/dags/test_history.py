"""DAG runs of releases about the same people: what the releases together would tell is caught in time."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deltalake import DeltaTable

from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake

POLICY = {
    "require": [
        {"model": "k_anonymity", "k": 10},
        {"model": "cross_release_k_anonymity", "k": 10},
        {"model": "m_invariance", "m": 2, "attribute": "disease"},
    ]
}


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key, and the folder of what is kept about people."""
    login = {"conn_type": "generic", "password": "a secret of the tests alone, long enough"}
    monkeypatch.setenv("AIRFLOW_CONN_HISTORY_KEY", json.dumps(login))
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


def people(ages: Any) -> pd.DataFrame:
    number = np.arange(len(ages))
    return pd.DataFrame(
        {
            "name": [f"person {i}" for i in number],
            "age": np.asarray(ages, dtype=float),
            "town": "north",
            "disease": np.array(["cold", "flu"])[(number + number // 16) % 2],
            "remark": "a",
        }
    )


@pytest.mark.slow  # two whole runs; the refusal below is quick
def test_releases_are_made_with_the_earlier_ones_where_history_is_declared(
    home: Any, run: Any, airflow_lake: Lake, work_root: Path, private: Path
) -> None:
    ages = np.arange(160)
    fields: dict[str, Any] = {
        "policy": {"require": POLICY["require"][:1], "repeated_people": "history"},
        "columns": {"age": {"bounds": [0, 200]}},
        "release": {"method": "mondrian", "k": 10, "l": 2, "seed": 7},
        "history": {"identifier": "name", "key": "history_key", "m": {"disease": 2}},
    }
    people_of_releases = []
    for order in (ages, ages.reshape(16, 10).T.reshape(-1)):
        home.write(people(order), **fields)
        done = run("people")
        assert done.state == "success", done.tasks
        returned = done.returned("release")
        assert "person 7" not in json.dumps([returned, done.returned("verify")])
        files = {path for path in private.rglob("*.parquet") if path.suffixes == [".parquet"]}
        (kept,) = files - {path for path, _ in people_of_releases}
        of_person = pd.read_parquet(kept)
        cells = of_person[["cell of age_from", "cell of age_to"]].itertuples(index=False, name=None)
        people_of_releases.append((kept, dict(zip(of_person["person"], cells, strict=True))))
    first, second = (cells for _, cells in people_of_releases)
    assert len(first) == len(second) == 160
    assert min(Counter((first[person], second[person]) for person in first).values()) >= 10
    assert manifest_of(airflow_lake.table("people"), done.run_id)["history"] == {
        "releases": 1,
        "k": 10,
        "m": {"disease": 2},
        "departures": "known",
        "reserve": 1.0,
        "hold_back": 0,
        "withheld": 0,
        "held_back": 0,
        "outdated": 0,
    }


def test_a_second_release_that_singles_people_out_together_with_the_first_is_not_published(
    home: Any, run: Any, airflow_lake: Lake, work_root: Path, private: Path
) -> None:
    ages = np.arange(160)
    fields: dict[str, Any] = {
        "policy": POLICY,
        "columns": {"age": {"bounds": [0, 200]}},
        "release": {"method": "mondrian", "k": 10, "l": 2, "seed": 7},
        "history": {"identifier": "name", "key": "history_key", "keep": False},
    }
    home.write(people(ages), **fields)
    first = run("people")
    assert first.state == "success", first.tasks
    home.write(people(ages.reshape(16, 10).T.reshape(-1)), **fields)
    third = run("people")
    assert (third.state, third.tasks["verify"]) == ("failed", "failed")
    assert third.tasks["publish"] == "upstream_failed"
    assert [r["release_id"] for r in releases(airflow_lake.table("people"))] == [first.run_id]
    assert len(DeltaTable(airflow_lake.table("people").address).to_pandas()) == 160
    assert len(list(private.rglob("*.parquet"))) == 1
    assert not list(work_root.iterdir())
