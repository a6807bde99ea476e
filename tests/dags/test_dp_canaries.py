"""Invented values planted in the source of private releases are looked for in all that runs leave behind.

Categories are no canaries here: a private release publishes its whole domain beforehand.
"""

from typing import Any

import pandas as pd
import pytest

from privacy_release.lake.read import manifest_of
from tests.canaries import CANARIES, MARK, NUMBER, planted
from tests.dags.scanner import Left, granted, left_by, new_root

pytestmark = pytest.mark.slow

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
    "too_few_records": ("release", {"release": {"method": "privbayes", "epsilon": 0.2, "degree": 3}}),
    "strict_policy": ("budget", {"policy": {"max_epsilon": 0.1}}),
    "measured_policy": ("verify", {"policy": {"max_epsilon": 1, "max_gcp": 0.001}}),
    "no_budget": ("budget", {"budget": {"dataset": "others"}}),
    "no_budget_named": ("release", {"budget": None}),
}


def spoilt(name: str, table: pd.DataFrame) -> pd.DataFrame:
    if name == "unseen_category":
        return table.assign(remark=[f"{MARK}-remark"] + ["a"] * (len(table) - 1))
    return table.head(9) if name == "too_few_records" else table


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any, invented: pd.DataFrame) -> Left:
    """Two green runs on the same bytes and all faulty ones, in one process whose output is kept."""
    root = new_root(tmp_path_factory.mktemp("private-canaries"))
    granted(root, epsilon=5.0)
    home, table = make_home(root), planted(invented)
    for name in (GREEN, TWIN):
        home.write(table, name=name, **PRIVATE)
    for name, (_, changes) in FAULTS.items():
        given = {field: value for field, value in {**PRIVATE, **changes}.items() if value is not None}
        home.write(spoilt(name, table), name=name, **given)
    return left_by(root, [GREEN, TWIN, *FAULTS])


def test_green_runs_publish_values_of_public_domains_without_identifiers(left: Left) -> None:
    for name in (GREEN, TWIN):
        rows = left.rows(name)
        assert len(rows) == 120
        assert set(rows["remark"]) <= {"a", "b"}
        assert "name" not in rows
        # A uniform draw in a bin of width 7.5 hits this very number with a probability below 1e-14.
        assert not (rows["age"] == NUMBER).any()


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    left.require_failed_at(name, FAULTS[name][0])


def test_no_planted_value_is_left_in_a_log_xcom_rendered_field_ledger_or_lake(left: Left) -> None:
    assert left.leaks(*CANARIES) == []


def test_no_hash_of_the_source_leaves_the_house(left: Left) -> None:
    """Anyone who knows all records but one could find the last one by such a hash."""
    entries = left.ledger.history("people")
    keys = {entry.key for entry in entries if entry.event == "reserve"}
    salts = {entry.salt for entry in entries}
    public = b"".join(data for name, data in left.files.items() if name.startswith(".lake/"))
    assert keys
    assert not [text for text in keys | salts if text.encode() in public]
    manifest = manifest_of(*left.release(GREEN))
    assert set(manifest["source"]) == {"files", "identifiers"}
    assert manifest["figures"] == {}


def test_both_releases_of_the_same_bytes_name_one_entry_of_the_ledger(left: Left) -> None:
    one, two = (manifest_of(*left.release(name)) for name in (GREEN, TWIN))
    assert one["booking"] == two["booking"]
    assert one["sha256"] == two["sha256"]
    assert one["booking"]["entry_hash"] in {entry.hash for entry in left.ledger.check("people")}


def test_only_what_was_measured_is_spent(left: Left) -> None:
    """Two green runs and one that fails at its policy measured the same bytes; the others drew no noise."""
    (standing,) = left.ledger.standing("people")
    assert float(standing.spent) == 0.4


def test_the_work_area_is_empty(left: Left) -> None:
    left.require_empty_work_area()


def test_the_search_saw_logs_database_ledger_manifest_and_report(left: Left) -> None:
    left.require_whole_search(failures=len(FAULTS))
    assert b"discrete_laplace" in left.files[".airflow/ledger.db"]
