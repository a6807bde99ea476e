"""Releases in mapped fragments, as DAG runs: what they publish, and that planted values are left nowhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_release.lake.read import manifest_of
from tests.canaries import CANARIES, planted_everywhere
from tests.dags.scanner import Left, left_by, new_root
from tests.servers.pages import Page, require_closed_page

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def many(invented: pd.DataFrame) -> pd.DataFrame:
    """Enough invented people for several fragments, with values to look for in every column."""
    table = invented.sample(ROWS, replace=True, random_state=7, ignore_index=True)
    return planted_everywhere(table.assign(age=np.random.default_rng(6).integers(20, 80, ROWS).astype(float)))


@pytest.fixture(scope="module")
def left(
    tmp_path_factory: pytest.TempPathFactory, make_home: Callable[[Path], Any], many: pd.DataFrame
) -> Left:
    """A green run and all faulty ones, in one process whose output is kept."""
    root = new_root(tmp_path_factory.mktemp("fragment-canaries"))
    home = make_home(root)
    home.write(many, engine=ENGINE)
    for name, (_, changes) in FAULTS.items():
        home.write(many, name=name, engine=ENGINE, **changes)
    return left_by(root, [GREEN, *FAULTS])


def test_a_green_run_publishes_every_record_and_the_planted_values(left: Left) -> None:
    rows = left.rows(GREEN)
    assert set(left.ended[GREEN]["tasks"].values()) == {"success"}
    assert len(rows) == ROWS
    assert rows["remark"].nunique() == ROWS
    assert "name" not in rows
    assert rows.groupby(["age_from", "age_to", "town"]).size().min() >= 5


def test_manifest_and_report_tell_of_the_fragments(left: Left) -> None:
    manifest = manifest_of(*left.release(GREEN))["fragments"]
    assert manifest["count"] >= 3
    assert manifest["rows"]["most"] == 1_000
    pages = [data.decode() for name, data in left.files.items() if name.endswith(".html")]
    assert len(pages) == 2  # the other is the data dictionary
    for page in pages:
        require_closed_page(page)
    (text,) = [read for page in pages if "across fragments" in (read := Page(page).text)]
    assert f"cut into {manifest['count']} fragments of {manifest['rows']['smallest']:,} to" in text
    assert "No class is made across fragments" in text


def test_each_fragment_was_its_own_task(left: Left) -> None:
    count = manifest_of(*left.release(GREEN))["fragments"]["count"]
    assert left.output.count("fragment released") >= count


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    left.require_failed_at(name, FAULTS[name][0])


def test_no_planted_value_is_left_behind(left: Left) -> None:
    assert left.leaks(*CANARIES) == []


def test_the_work_area_is_empty(left: Left) -> None:
    left.require_empty_work_area()


def test_the_search_saw_logs_database_manifest_and_report(left: Left) -> None:
    left.require_whole_search(failures=len(FAULTS))
    database = b"".join(data for name, data in left.files.items() if "airflow.db" in name)
    assert b"fragment-00000" in database
