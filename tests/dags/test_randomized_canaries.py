"""Invented values planted in the source of randomized releases are looked for in all that runs leave behind.

So are the secrets of their answers. Memoised answers go by an identifier, which must stay in the work area
and go with it.
"""

import json
import secrets
from typing import Any

import pandas as pd
import pytest

from privacy_release.lake.read import manifest_of
from tests.canaries import CANARIES, MARK, planted
from tests.dags.scanner import Left, granted, left_by, new_root

pytestmark = pytest.mark.slow

GREEN, LATER = "random", "random_later"
SECRET, SHORT = secrets.token_hex(32), f"{MARK}-short"
SECRETS = (SECRET.encode(), bytes.fromhex(SECRET))
COLUMNS = {
    "age": {"bins": 6},
    "town": {"categories": ["north", "south"]},
    "disease": {"categories": ["cold", "flu", "gout"]},
    "remark": {"role": "quasi_identifier", "categories": ["a", "b"], "unique": None},
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
    "no_one": ("release", {}),
    "no_secret": ("release", {"release": {**RELEASE, "secret": "not_there"}}),
    "short_secret": ("release", {"release": {**RELEASE, "secret": "short_secret"}}),
    "strict_policy": ("budget", {"policy": {"max_epsilon": 1}}),
    "breach_policy": ("verify", {"policy": {"max_breach": 0.1}}),
}


def spoilt(name: str, table: pd.DataFrame) -> pd.DataFrame:
    if name == "unseen_category":
        return table.assign(remark=[f"{MARK}-remark"] + ["a"] * (len(table) - 1))
    if name == "no_one":
        return table.assign(name=table["name"].where(table.index > 0))
    return table.assign(name=f"{MARK}-everybody") if name == "repeated_person" else table


def connection(password: str) -> str:
    return json.dumps({"conn_type": "generic", "password": password})


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any, invented: pd.DataFrame) -> Left:
    """Two green runs, the later one with more people, and all faulty ones, in one process."""
    root = new_root(tmp_path_factory.mktemp("randomized-canaries"))
    granted(root, epsilon=100.0)
    home, table = make_home(root), planted(invented)
    home.write(table.head(100), name=GREEN, **RANDOMIZED)
    home.write(table, name=LATER, **RANDOMIZED)
    for name, (_, changes) in FAULTS.items():
        home.write(spoilt(name, table), name=name, **{**RANDOMIZED, **changes})
    passwords = {"PEOPLE": SECRET, "SHORT": SHORT}
    connections = {f"AIRFLOW_CONN_{name}_SECRET": connection(given) for name, given in passwords.items()}
    return left_by(root, [GREEN, LATER, *FAULTS], connections)


def test_green_runs_publish_answers_without_identifiers_and_repeat_them(left: Left) -> None:
    for name in (GREEN, LATER):
        assert list(left.rows(name)) == ["age", "town", "disease", "remark"]
        assert set(left.rows(name)["age"]) <= {10.0, 30.0, 50.0, 70.0, 90.0, 110.0}
    first, later = (left.rows(name).value_counts() for name in (GREEN, LATER))
    assert (later.sub(first, fill_value=0) >= 0).all()  # who was there is answered as before


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    left.require_failed_at(name, FAULTS[name][0])


def test_no_planted_value_and_no_secret_is_left_anywhere(left: Left) -> None:
    assert left.leaks(*CANARIES, *SECRETS) == []


def test_no_hash_of_the_source_leaves_the_house(left: Left) -> None:
    entries = left.ledger.history("people")
    hidden = {entry.key for entry in entries if entry.event == "reserve"} | {entry.salt for entry in entries}
    public = b"".join(data for name, data in left.files.items() if name.startswith(".lake/"))
    assert hidden
    assert not [text for text in hidden if text.encode() in public]
    manifest = manifest_of(*left.release(GREEN))
    assert set(manifest["source"]) == {"files", "identifiers"}
    assert set(manifest["figures"]) == {"breach"}


def test_the_work_area_is_empty(left: Left) -> None:
    left.require_empty_work_area()


def test_the_search_saw_logs_database_ledger_manifest_and_report(left: Left) -> None:
    left.require_whole_search(failures=len(FAULTS))
    assert b"randomization_sha256" in left.files[".airflow/ledger.db"]
