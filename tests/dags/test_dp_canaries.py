"""Invented values planted in the source of private releases are looked for in all that runs leave behind.

Left out of the search are the source, and the data files of the release: these hold values drawn between the
same public bounds. Categories are no canaries here: a private release publishes its whole domain beforehand.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from deploy.local.embedded import checkout
from privacy_engine.dp.limits import Limit
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger

MARK = "canary"
CANARIES = (MARK.encode(), b"61.735142")
GREEN, TWIN = "private", "private_twin"
COLUMNS = {
    "town": {"categories": ["north", "south"]},
    "disease": {"categories": ["cold", "flu", "gout"]},
    "remark": {"categories": ["a", "b"]},
}
PRIVATE: dict[str, Any] = {
    "columns": COLUMNS,
    "release": {"method": "privbayes", "epsilon": 0.4},
    "policy": {"max_epsilon": 0.5, "max_delta": 0},
    "budget": {"dataset": "people", "when_short": "fail"},
}
TIGHT = {**COLUMNS, "age": {"bounds": [0, 61]}}
# What is wrong with each: the step that must fail, and how it differs from the green one.
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "unseen_category": ("ingest", {}),
    "out_of_bounds": ("ingest", {"columns": TIGHT}),
    "domain_from_data": ("release", {"columns": {**COLUMNS, "remark": {}}}),
    "too_few_records": ("release", {"release": {"method": "privbayes", "epsilon": 0.2, "degree": 3}}),
    "strict_policy": ("verify", {"policy": {"max_epsilon": 0.1}}),
    "no_budget": ("budget", {"budget": {"dataset": "others"}}),
    "no_budget_named": ("release", {"budget": None}),
}


@dataclass(frozen=True, kw_only=True)
class Left:
    """What the runs left: how each ended, and every file by its path below the root."""

    root: Path
    ended: dict[str, Any]
    files: dict[str, bytes]
    ledger: BudgetLedger


def planted(people: pd.DataFrame) -> pd.DataFrame:
    """A unique identifier for everybody, and one number like no other."""
    table = people.assign(name=[f"{MARK}-identifier-{i:03d}" for i in range(len(people))])
    table.loc[5, "age"] = 61.735142
    return table


def spoilt(name: str, table: pd.DataFrame) -> pd.DataFrame:
    if name == "unseen_category":
        return table.assign(remark=[f"{MARK}-remark"] + ["a"] * (len(table) - 1))
    return table.head(9) if name == "too_few_records" else table


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any, invented: pd.DataFrame) -> Left:
    """Two green runs on the same bytes and all faulty ones, in one process whose output is kept."""
    root = tmp_path_factory.mktemp("private-canaries")
    (root / "dags").symlink_to(checkout() / "dags")
    (root / ".airflow").mkdir()
    ledger = BudgetLedger(str(root / ".airflow" / "ledger.db"))
    ledger.migrate()
    ledger.grant("people", Limit(epsilon=5.0), reason="a test", by="officer")
    home, table = make_home(root), planted(invented)
    for name in (GREEN, TWIN):
        home.write(table, name=name, **PRIVATE)
    for name, (_, changes) in FAULTS.items():
        given = {field: value for field, value in {**PRIVATE, **changes}.items() if value is not None}
        home.write(spoilt(name, table), name=name, **given)
    with (root / "output.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, str(Path(__file__).parent / "canary_child.py"), str(root), GREEN, TWIN, *FAULTS],
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
    return Left(root=root, ended=json.loads(files["ended.json"]), files=files, ledger=ledger)


def test_green_runs_publish_values_of_public_domains_without_identifiers(left: Left) -> None:
    for name in (GREEN, TWIN):
        assert left.ended[name]["state"] == "success", left.ended[name]
        rows = read_release(Lake(root=str(left.root / ".lake")), name, left.ended[name]["run_id"]).to_pandas()
        assert len(rows) == 120
        assert set(rows["remark"]) <= {"a", "b"}
        assert "name" not in rows
        # A uniform draw in a bin of width 7.5 hits this very number with a probability below 1e-14.
        assert not (rows["age"] == 61.735142).any()


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    assert left.ended[name]["state"] == "failed"
    assert left.ended[name]["tasks"][FAULTS[name][0]] == "failed"
    assert left.ended[name]["tasks"]["cleanup"] == "success"


def test_no_planted_value_is_left_in_a_log_xcom_rendered_field_ledger_or_lake(left: Left) -> None:
    leaks = [name for name, data in left.files.items() if any(canary in data.lower() for canary in CANARIES)]
    assert leaks == []


def test_no_hash_of_the_source_leaves_the_house(left: Left) -> None:
    """Whoever knows all records but one could tell the last one by such a hash."""
    entries = left.ledger.history("people")
    keys = {entry.key for entry in entries if entry.event == "reserve"}
    salts = {entry.salt for entry in entries}
    public = b"".join(data for name, data in left.files.items() if name.startswith(".lake/"))
    assert keys
    assert not [text for text in keys | salts if text.encode() in public]
    manifest = manifest_of(Lake(root=str(left.root / ".lake")), GREEN, left.ended[GREEN]["run_id"])
    assert set(manifest["source"]) == {"files", "identifiers"}
    assert manifest["figures"] == {}


def test_both_releases_of_the_same_bytes_name_one_entry_of_the_ledger(left: Left) -> None:
    lake = Lake(root=str(left.root / ".lake"))
    one, two = (manifest_of(lake, name, left.ended[name]["run_id"]) for name in (GREEN, TWIN))
    assert one["booking"] == two["booking"]
    assert one["sha256"] == two["sha256"]
    assert one["booking"]["entry_hash"] in {entry.hash for entry in left.ledger.check("people")}


def test_only_what_was_measured_is_spent(left: Left) -> None:
    """Two green runs and one that fails at its policy measured the same bytes; the others drew no noise."""
    (standing,) = left.ledger.standing("people")
    assert float(standing.spent) == 0.4


def test_the_work_area_is_empty(left: Left) -> None:
    assert list((left.root / ".airflow" / "work_area").iterdir()) == []


def test_the_search_saw_logs_database_ledger_manifest_and_report(left: Left) -> None:
    output = left.files["output.txt"].decode()
    assert output.count("Task failed with exception") == len(FAULTS)
    database = b"".join(data for name, data in left.files.items() if "airflow.db" in name)
    assert b"rendered_task_instance_fields" in database
    for run in left.ended.values():
        assert run["run_id"].encode() in database
    assert b"discrete_laplace" in left.files[".airflow/ledger.db"]
    proofs = [Path(name).suffix for name in left.files if name.startswith(".lake/_proof")]
    assert {".html", ".json"} == set(proofs)
