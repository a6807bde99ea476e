"""Releases in mapped fragments, as DAG runs: what they publish, and that planted values are left nowhere."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deploy.local.embedded import checkout
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from tests.servers.pages import Page, require_closed_page

MARK = "canary"
CANARIES = (MARK.encode(), b"61.735142")
ROWS = 2_600
GREEN = "people"
ENGINE = {"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1}
IN_SET = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "town", "value_set": ["north"]}}
# What is wrong with each: the step that must fail, and how it differs from the green one.
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "unseen_category": ("ingest", {"columns": {"town": {"categories": ["north", "south"]}}}),
    "out_of_bounds": ("ingest", {"columns": {"age": {"bounds": [0, 61]}}}),
    "failed_expectation": ("validate", {"suite": {"name": "people", "expectations": [IN_SET]}}),
    "infeasible": ("cut", {"release": {"method": "mondrian", "k": 5, "l": 9}}),
    "strict_policy": ("verify", {"policy": {"require": [{"model": "k_anonymity", "k": 900}]}}),
}


@dataclass(frozen=True, kw_only=True)
class Left:
    """What the runs left: how each ended, and every file by its path below the root."""

    root: Path
    ended: dict[str, Any]
    files: dict[str, bytes]

    @property
    def lake(self) -> Lake:
        return Lake(root=str(self.root / ".lake"))

    @property
    def release(self) -> tuple[Lake, str, str]:
        return self.lake, GREEN, self.ended[GREEN]["run_id"]


@pytest.fixture(scope="module")
def many(invented: pd.DataFrame) -> pd.DataFrame:
    """Enough invented people for several fragments, with values to look for in every column."""
    rng = np.random.default_rng(6)
    table = invented.sample(ROWS, replace=True, random_state=7, ignore_index=True)
    table["age"] = rng.integers(20, 80, ROWS).astype(float)
    table["name"] = [f"{MARK}-identifier-{i:04d}" for i in range(ROWS)]
    table["remark"] = [f"{MARK}-insensitive-{i:04d}" for i in range(ROWS)]
    table.loc[3, "town"] = f"{MARK}-town"
    table.loc[4, "disease"] = f"{MARK}-disease"
    table.loc[5, "age"] = 61.735142
    return table


@pytest.fixture(scope="module")
def left(
    tmp_path_factory: pytest.TempPathFactory, make_home: Callable[[Path], Any], many: pd.DataFrame
) -> Left:
    """A green run and all faulty ones, in one process whose output is kept."""
    root = tmp_path_factory.mktemp("fragment-canaries")
    (root / "dags").symlink_to(checkout() / "dags")
    home = make_home(root)
    home.write(many, engine=ENGINE)
    for name, (_, changes) in FAULTS.items():
        home.write(many, name=name, engine=ENGINE, **changes)
    with (root / "output.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, str(Path(__file__).parent / "canary_child.py"), str(root), GREEN, *FAULTS],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=checkout(),
            check=True,
            timeout=300,
        )
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".parquet" and not path.is_relative_to(root / "include")
    }
    return Left(root=root, ended=json.loads(files["ended.json"]), files=files)


def test_a_green_run_publishes_every_record_and_the_planted_values(left: Left) -> None:
    assert left.ended[GREEN]["state"] == "success", left.ended[GREEN]
    assert set(left.ended[GREEN]["tasks"].values()) == {"success"}
    rows = read_release(*left.release).to_pandas()
    assert len(rows) == ROWS
    assert rows["remark"].nunique() == ROWS
    assert "name" not in rows
    assert rows.groupby(["age", "town"]).size().min() >= 5


def test_manifest_and_report_tell_of_the_fragments(left: Left) -> None:
    told = manifest_of(*left.release)["fragments"]
    assert told["count"] >= 3
    assert told["rows"]["most"] == 1_000
    (report,) = [data.decode() for name, data in left.files.items() if name.endswith(".html")]
    require_closed_page(report)
    text = Page(report).text
    assert f"cut into {told['count']} fragments of {told['rows']['smallest']:,} to" in text
    assert "No class is made across fragments" in text


def test_each_fragment_was_a_task_of_its_own(left: Left) -> None:
    count = manifest_of(*left.release)["fragments"]["count"]
    output = left.files["output.txt"].decode()
    assert output.count("fragment released") >= count


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    assert left.ended[name]["state"] == "failed"
    assert left.ended[name]["tasks"][FAULTS[name][0]] == "failed", left.ended[name]
    assert left.ended[name]["tasks"]["cleanup"] == "success"


def test_no_planted_value_is_left_behind(left: Left) -> None:
    leaks = [name for name, data in left.files.items() if any(canary in data.lower() for canary in CANARIES)]
    assert leaks == []


def test_the_work_area_is_empty(left: Left) -> None:
    assert list((left.root / ".airflow" / "work_area").iterdir()) == []


def test_the_search_saw_logs_database_manifest_and_report(left: Left) -> None:
    output = left.files["output.txt"].decode()
    assert output.count("Task failed with exception") == len(FAULTS)
    database = b"".join(data for name, data in left.files.items() if "airflow.db" in name)
    assert b"fragment-00000" in database
    proofs = [Path(name).suffix for name in left.files if name.startswith(".lake/_proof")]
    assert sorted(proofs) == [".html", ".json"]
