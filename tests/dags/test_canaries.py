"""Unique invented values are planted in the input, and looked for in all that runs leave behind.

Left out of the search are the source and the data files of the release, which hold what was released.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from deploy.local.embedded import checkout
from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake

MARK = "canary"
CANARIES = (MARK.encode(), b"61.735142")
GREEN = "people"
IN_SET = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "town", "value_set": ["north"]}}
NO_NUMBER = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "town", "min_value": 1}}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A release that must fail: at which step, what is wrong with its table, what with its specification."""

    step: str
    spoil: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    changes: dict[str, Any]
    column: dict[str, Any] | None = None


FAULTS = {
    "text_for_a_number": Fault(
        step="ingest", spoil=lambda t: t.assign(age=[f"{MARK}-{i}" for i in range(len(t))]), changes={}
    ),
    "unknown_column": Fault(step="ingest", spoil=lambda t: t.assign(extra=t["name"]), changes={}),
    "unseen_category": Fault(step="ingest", changes={}, column={"town": {"categories": ["north", "south"]}}),
    "out_of_bounds": Fault(step="ingest", changes={}, column={"age": {"bounds": [0, 61]}}),
    "failed_expectation": Fault(
        step="validate", changes={"suite": {"name": "people", "expectations": [IN_SET]}}
    ),
    "broken_expectation": Fault(
        step="validate", changes={"suite": {"name": "people", "expectations": [NO_NUMBER]}}
    ),
    "too_many_outliers": Fault(
        step="detect_outliers", changes={"outliers": {"action": "fail", "max_share": 0.01, "top": 3}}
    ),
    "infeasible": Fault(step="release", changes={"release": {"method": "mondrian", "k": 5, "l": 9}}),
    "strict_policy": Fault(
        step="verify", changes={"policy": {"require": [{"model": "k_anonymity", "k": 60}]}}
    ),
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


def planted(people: pd.DataFrame) -> pd.DataFrame:
    """A unique value in each text column, in some records or in all, and one number like no other."""
    table = people.copy()
    table["name"] = [f"{MARK}-identifier-{i:03d}" for i in range(len(table))]
    table["remark"] = [f"{MARK}-insensitive-{i:03d}" for i in range(len(table))]
    table.loc[3, "town"] = f"{MARK}-town"
    table.loc[4, "disease"] = f"{MARK}-disease"
    table.loc[5, "age"] = 61.735142
    return table


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any, invented: pd.DataFrame) -> Left:
    """A green run and all faulty ones, in one process whose output is kept."""
    root = tmp_path_factory.mktemp("canaries")
    (root / "dags").symlink_to(checkout() / "dags")
    home = make_home(root)
    table = planted(invented)
    home.write(table, outliers={"method": "lof", "action": "set_aside", "top": 3})
    for name, fault in FAULTS.items():
        home.write(fault.spoil(table), name=name, columns=fault.column, **fault.changes)
    with (root / "output.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, str(Path(__file__).parent / "canary_child.py"), str(root), GREEN, *FAULTS],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=checkout(),
            check=True,
            timeout=240,
        )
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".parquet" and not path.is_relative_to(root / "include")
    }
    return Left(root=root, ended=json.loads(files["ended.json"]), files=files)


def test_a_green_run_publishes_the_planted_values(left: Left) -> None:
    assert left.ended[GREEN]["state"] == "success", left.ended[GREEN]
    rows = read_release(left.lake, GREEN, left.ended[GREEN]["run_id"]).to_pandas()
    assert len(rows) == 117
    assert rows["remark"].str.startswith(MARK).all()
    assert "name" not in rows


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    assert left.ended[name]["state"] == "failed"
    assert left.ended[name]["tasks"][FAULTS[name].step] == "failed"
    assert left.ended[name]["tasks"]["cleanup"] == "success"


def test_no_planted_value_is_left_behind(left: Left) -> None:
    leaks = [name for name, data in left.files.items() if any(canary in data.lower() for canary in CANARIES)]
    assert leaks == []


def test_the_work_area_is_empty(left: Left) -> None:
    assert list((left.root / ".airflow" / "work_area").iterdir()) == []


def test_the_search_saw_logs_database_manifest_report_and_commit_log(left: Left) -> None:
    output = left.files["output.txt"].decode()
    assert output.count("Task failed with exception") == len(FAULTS)
    assert f"{GREEN}.publish" in output
    database = b"".join(data for name, data in left.files.items() if "airflow.db" in name)
    for run in left.ended.values():
        assert run["run_id"].encode() in database
    assert b"rendered_task_instance_fields" in database
    proofs = [Path(name).suffix for name in left.files if name.startswith(".lake/_proof")]
    assert sorted(proofs) == [".html", ".json"]
    assert any("_delta_log" in name for name in left.files)
