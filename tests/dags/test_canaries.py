"""Unique invented values are planted in the input, and looked for in all that runs leave behind."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake
from tests.canaries import CANARIES, MARK, NUMBER, files_below, files_with, planted_everywhere
from tests.dags.scanner import Left, left_by, new_root

# Every way to fail, pseudonyms and shifted dates, in a process whose whole output is kept.
EVERY_WAY = pytest.mark.slow

GREEN, PSEUDONYMOUS, SHIFTED = "people", "pseudonymous", "shifted"
KEY = "the key of pseudonyms of these runs alone"
PSEUDONYM = {"pseudonym": {"connection": "pseudonyms", "scope": "series"}}
SHIFT = {"connection": "pseudonyms", "days": 300, "scope": "series"}
DATED: dict[str, Any] = {
    "born": {"role": "identifier", "kind": "date", "bounds": ["1930-01-01", "1950-12-31"]},
    "seen": {"role": "insensitive", "kind": "timestamp", "as_is": True, "shift": SHIFT},
    "years": {
        "role": "quasi_identifier",
        "kind": "numeric",
        "bounds": [0, 120],
        "derive": {"years_between": ["born", "seen"]},
    },
}
BORN, SEEN = dt.date(1931, 5, 7), dt.datetime(2011, 7, 9, 3, 41, 17)
# As text, as Python writes them, in days and in microseconds since 1970.
TRUE_DATES = [
    form.encode()
    for date in (BORN, SEEN.date())
    for form in (date.isoformat(), repr(date)[:-1], f"{date:%d.%m.%Y}", f"{date:%Y/%m/%d}")
]
TRUE_DATES += [b"03:41:17", str(int(SEEN.replace(tzinfo=dt.UTC).timestamp() * 10**6)).encode()]
IN_SET = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "town", "value_set": ["north"]}}
NO_NUMBER = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "town", "min_value": 1}}


def dated(table: pd.DataFrame) -> pd.DataFrame:
    """The table with true dates, the same for everybody, that no file may tell."""
    return table.assign(born=BORN, seen=pd.Timestamp(SEEN))


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
    "birth_out_of_bounds": Fault(
        step="ingest",
        spoil=dated,
        changes={},
        column={**DATED, "born": DATED["born"] | {"bounds": ["1940-01-01", "1950-12-31"]}},
    ),
    "seen_out_of_bounds": Fault(
        step="ingest",
        spoil=dated,
        changes={},
        column={**DATED, "seen": DATED["seen"] | {"bounds": ["2012-01-01", "2013-12-31"]}},
    ),
    "years_out_of_bounds": Fault(
        step="ingest",
        spoil=dated,
        changes={},
        column={**DATED, "years": DATED["years"] | {"bounds": [0, 79]}},
    ),
    "birth_unreadable": Fault(
        step="ingest",
        spoil=lambda t: dated(t).assign(born=f"{BORN:%d.%m.%Y}"),
        changes={},
        column={**DATED, "born": DATED["born"] | {"format": "%Y-%m-%d"}},
    ),
    "no_key_of_shifts": Fault(
        step="ingest",
        spoil=dated,
        changes={},
        column={**DATED, "seen": DATED["seen"] | {"shift": SHIFT | {"connection": "nowhere"}}},
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


def test_a_run_that_publishes_and_one_that_fails_leave_no_planted_value(
    home: Any,
    invented: pd.DataFrame,
    run: Callable[[str], Any],
    airflow_home: Path,
    airflow_lake: Lake,
    work_root: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    table = planted_everywhere(invented)
    home.write(table)
    home.write(table, name="strict", policy={"require": [{"model": "k_anonymity", "k": 60}]})
    green, failed = run("people"), run("strict")
    assert (green.state, failed.tasks["verify"]) == ("success", "failed")
    (tmp_path / "output.txt").write_text("".join(capfd.readouterr()))
    published = read_release(airflow_lake.table("people"), green.run_id).to_pandas()
    assert published["remark"].str.startswith(f"{MARK}-insensitive").all()
    sources = set(home.folder.rglob("*.parquet"))
    released = set(airflow_lake.folder.rglob("*.parquet"))
    left = set(files_below(airflow_home, tmp_path)) - sources - released
    planted = [f"{MARK}-{kind}" for kind in ("identifier", "insensitive", "town", "disease")]
    assert files_with(left, *(value.encode() for value in (*planted, str(NUMBER)))) == []
    assert not list(work_root.iterdir())
    # The search saw the log, the database with its rendered fields, and what the lake proves.
    database = [file for file in left if file.name.startswith("airflow.db")]
    assert files_with([tmp_path / "output.txt"], b"Task failed with exception")
    for words in (green.run_id, failed.run_id, "rendered_task_instance_fields"):
        assert files_with(database, words.encode())
    assert {file.suffix for file in left if "_proof" in file.parts} >= {".html", ".json"}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any, invented: pd.DataFrame) -> Left:
    """A green run and all faulty ones, in one process whose output is kept."""
    root = new_root(tmp_path_factory.mktemp("canaries"))
    home, table = make_home(root), planted_everywhere(invented)
    home.write(table, outliers={"method": "lof", "action": "set_aside", "top": 3})
    home.write(table, name=PSEUDONYMOUS, columns={"name": PSEUDONYM})
    home.write(dated(table), name=SHIFTED, columns=DATED)
    for name, fault in FAULTS.items():
        home.write(fault.spoil(table), name=name, columns=fault.column, **fault.changes)
    login = {"AIRFLOW_CONN_PSEUDONYMS": json.dumps({"conn_type": "generic", "password": KEY})}
    return left_by(root, [GREEN, PSEUDONYMOUS, SHIFTED, *FAULTS], login)


@EVERY_WAY
def test_a_green_run_publishes_the_planted_values(left: Left) -> None:
    rows = left.rows(GREEN)
    assert len(rows) == 117
    assert rows["remark"].str.startswith(MARK).all()
    assert "name" not in rows


@EVERY_WAY
def test_a_release_with_pseudonyms_publishes_one_a_record(left: Left) -> None:
    rows = left.rows(PSEUDONYMOUS)
    assert rows["name"].str.fullmatch("[A-Z2-7]{26}").all()
    assert rows["name"].is_unique


@EVERY_WAY
def test_a_release_with_shifted_dates_publishes_ages_and_no_true_date(left: Left) -> None:
    rows = left.rows(SHIFTED)
    assert set(rows) == {
        *("age_from", "age_to", "town", "disease", "remark", "seen", "years_from", "years_to")
    }
    moved = (rows["seen"] - pd.Timestamp(SEEN)).dt.days
    assert moved.abs().between(1, 300).all()
    assert moved.nunique() > 60  # of 120 people
    assert set(rows["years_from"]) == set(rows["years_to"]) == {80}


@EVERY_WAY
@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    left.require_failed_at(name, FAULTS[name].step)


@EVERY_WAY
def test_no_planted_value_is_left_behind(left: Left) -> None:
    assert left.leaks(*CANARIES, KEY.encode(), *TRUE_DATES) == []


@EVERY_WAY
def test_the_work_area_is_empty(left: Left) -> None:
    left.require_empty_work_area()


@EVERY_WAY
def test_the_search_saw_logs_database_manifest_report_and_commit_log(left: Left) -> None:
    left.require_whole_search(failures=len(FAULTS))
    assert f"{GREEN}.publish" in left.output
