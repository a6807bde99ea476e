"""Unique invented values are planted in the input, and looked for in all that runs leave behind."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from tests.dags.scanner import CANARIES, MARK, Left, left_by, new_root, planted_everywhere

pytestmark = pytest.mark.slow

GREEN, PSEUDONYMOUS = "people", "pseudonymous"
KEY = "the key of pseudonyms of these runs alone"
PSEUDONYM = {"pseudonym": {"connection": "pseudonyms", "scope": "series"}}
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
    "text_with_addresses": Fault(
        step="ingest",
        spoil=lambda t: t.assign(remark=[f"{MARK}{i}@example.org" for i in range(len(t))]),
        changes={},
    ),
    "nearly_unique": Fault(step="ingest", changes={}, column={"remark": {"unique": None}}),
    "repeated_pseudonym": Fault(
        step="ingest", spoil=lambda t: t.assign(name=f"{MARK}-twice"), changes={}, column={"name": PSEUDONYM}
    ),
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


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any, invented: pd.DataFrame) -> Left:
    """A green run and all faulty ones, in one process whose output is kept."""
    root = new_root(tmp_path_factory.mktemp("canaries"))
    home, table = make_home(root), planted_everywhere(invented)
    home.write(table, outliers={"method": "lof", "action": "set_aside", "top": 3})
    home.write(table, name=PSEUDONYMOUS, columns={"name": PSEUDONYM})
    for name, fault in FAULTS.items():
        home.write(fault.spoil(table), name=name, columns=fault.column, **fault.changes)
    login = {"AIRFLOW_CONN_PSEUDONYMS": json.dumps({"conn_type": "generic", "password": KEY})}
    return left_by(root, [GREEN, PSEUDONYMOUS, *FAULTS], login)


def test_a_green_run_publishes_the_planted_values(left: Left) -> None:
    rows = left.rows(GREEN)
    assert len(rows) == 117
    assert rows["remark"].str.startswith(MARK).all()
    assert "name" not in rows


def test_a_release_with_pseudonyms_publishes_one_a_record(left: Left) -> None:
    rows = left.rows(PSEUDONYMOUS)
    assert rows["name"].str.fullmatch("[A-Z2-7]{26}").all()
    assert rows["name"].is_unique


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    left.require_failed_at(name, FAULTS[name].step)


def test_no_planted_value_is_left_behind(left: Left) -> None:
    assert left.leaks(*CANARIES, KEY.encode()) == []


def test_the_work_area_is_empty(left: Left) -> None:
    left.require_empty_work_area()


def test_the_search_saw_logs_database_manifest_report_and_commit_log(left: Left) -> None:
    left.require_whole_search(failures=len(FAULTS))
    assert f"{GREEN}.publish" in left.output
