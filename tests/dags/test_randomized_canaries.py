"""Invented values planted in the source of randomized releases are looked for in all that runs leave behind.

So are the secrets of their answers. Left out of the search are the source, and the data files of the
release: these hold values of the same public domains. Memoised answers go by an identifier, which must stay
in the work area and go with it.
"""

import json
import os
import secrets
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
GREEN, LATER = "random", "random_later"
SECRET, SHORT = secrets.token_hex(32), f"{MARK}-short"
CANARIES = (MARK.encode(), b"61.735142", SECRET.encode(), bytes.fromhex(SECRET))
COLUMNS = {
    "age": {"bins": 6},
    "town": {"categories": ["north", "south"]},
    "disease": {"categories": ["cold", "flu", "gout"]},
    "remark": {"role": "quasi_identifier", "categories": ["a", "b"]},
}
RELEASE = {"method": "errph", "p_0": 0.5, "randomness": "memoised", "secret": "people_secret"}
RANDOMIZED: dict[str, Any] = {
    "columns": COLUMNS,
    "release": RELEASE,
    "policy": {"max_epsilon": 10, "max_delta": 0},
    "budget": {"dataset": "people"},
}
# What is wrong with each: the step that must fail, and how it differs from the green one.
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "unseen_category": ("ingest", {}),
    "repeated_person": ("release", {}),
    "nobody": ("release", {}),
    "no_secret": ("release", {"release": {**RELEASE, "secret": "not_there"}}),
    "short_secret": ("release", {"release": {**RELEASE, "secret": "short_secret"}}),
    "strict_policy": ("verify", {"policy": {"max_epsilon": 1}}),
    "breach_policy": ("verify", {"policy": {"max_breach": 0.1}}),
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
    if name == "nobody":
        return table.assign(name=table["name"].where(table.index > 0))
    return table.assign(name=f"{MARK}-everybody") if name == "repeated_person" else table


def connection(password: str) -> str:
    return json.dumps({"conn_type": "generic", "password": password})


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any, invented: pd.DataFrame) -> Left:
    """Two green runs, the later one with more people, and all faulty ones, in one process."""
    root = tmp_path_factory.mktemp("randomized-canaries")
    (root / "dags").symlink_to(checkout() / "dags")
    (root / ".airflow").mkdir()
    ledger = BudgetLedger(str(root / ".airflow" / "ledger.db"))
    ledger.migrate()
    ledger.grant("people", Limit(epsilon=100.0), reason="a test", by="officer")
    home, table = make_home(root), planted(invented)
    home.write(table.head(100), name=GREEN, **RANDOMIZED)
    home.write(table, name=LATER, **RANDOMIZED)
    for name, (_, changes) in FAULTS.items():
        home.write(spoilt(name, table), name=name, **{**RANDOMIZED, **changes})
    passwords = {"PEOPLE": SECRET, "SHORT": SHORT}
    with (root / "output.txt").open("wb") as output:
        child = str(Path(__file__).parent / "canary_child.py")
        subprocess.run(
            [sys.executable, child, str(root), GREEN, LATER, *FAULTS],
            env=os.environ | {f"AIRFLOW_CONN_{n}_SECRET": connection(p) for n, p in passwords.items()},
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


def rows(left: Left, name: str) -> pd.DataFrame:
    return read_release(Lake(root=str(left.root / ".lake")), name, left.ended[name]["run_id"]).to_pandas()


def test_green_runs_publish_answers_without_identifiers_and_repeat_them(left: Left) -> None:
    for name in (GREEN, LATER):
        assert left.ended[name]["state"] == "success", left.ended[name]
        assert list(rows(left, name)) == ["age", "town", "disease", "remark"]
        assert set(rows(left, name)["age"]) <= {10.0, 30.0, 50.0, 70.0, 90.0, 110.0}
    first, later = (rows(left, name).value_counts() for name in (GREEN, LATER))
    assert (later.sub(first, fill_value=0) >= 0).all()  # who was there is answered as before


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    assert left.ended[name]["state"] == "failed"
    assert left.ended[name]["tasks"][FAULTS[name][0]] == "failed"
    assert left.ended[name]["tasks"]["cleanup"] == "success"


def test_no_planted_value_and_no_secret_is_left_anywhere(left: Left) -> None:
    leaks = [name for name, data in left.files.items() if any(canary in data.lower() for canary in CANARIES)]
    assert leaks == []


def test_no_hash_of_the_source_leaves_the_house(left: Left) -> None:
    entries = left.ledger.history("people")
    hidden = {entry.key for entry in entries if entry.event == "reserve"} | {entry.salt for entry in entries}
    public = b"".join(data for name, data in left.files.items() if name.startswith(".lake/"))
    assert hidden
    assert not [text for text in hidden if text.encode() in public]
    manifest = manifest_of(Lake(root=str(left.root / ".lake")), GREEN, left.ended[GREEN]["run_id"])
    assert set(manifest["source"]) == {"files", "identifiers"}
    assert set(manifest["figures"]) == {"breach"}


def test_the_work_area_is_empty(left: Left) -> None:
    assert list((left.root / ".airflow" / "work_area").iterdir()) == []


def test_the_search_saw_logs_database_ledger_manifest_and_report(left: Left) -> None:
    output = left.files["output.txt"].decode()
    assert output.count("Task failed with exception") == len(FAULTS)
    database = b"".join(data for name, data in left.files.items() if "airflow.db" in name)
    assert b"rendered_task_instance_fields" in database
    for run in left.ended.values():
        assert run["run_id"].encode() in database
    assert b"randomization_sha256" in left.files[".airflow/ledger.db"]
    proofs = [Path(name).suffix for name in left.files if name.startswith(".lake/_proof")]
    assert {".html", ".json"} == set(proofs)
