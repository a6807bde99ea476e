"""Runs that must fail: nothing published, the work area empty, the last release readable."""

from pathlib import Path
from typing import Any

import pytest

from privacy_release.lake.read import read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.spec.model import load_spec
from privacy_release.steps.ingest import ingest
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea


@pytest.fixture
def published(home: Any, airflow_lake: Lake, tmp_path: Path) -> str:
    """The id of a release that was published before."""
    spec = load_spec(home.spec("people"))
    with WorkArea(tmp_path / "before", "people/before") as work:
        table = ingest(spec.source.uri, spec.data_schema(), work)
        staged = make_release(table, work, method="mondrian", parameters={"k": 5, "l": 2}, seed=1)
        report = verify_staged(staged, spec.release_policy())
        return publish_staged(staged, report, airflow_lake.table("people"), "before").release


def assert_failed_at(step: str, done: Any, published: str, lake: Lake, work_root: Path) -> None:
    assert done.state == "failed"
    assert done.tasks[step] == "failed"
    assert done.tasks["publish"] in ("failed", "upstream_failed")
    assert done.tasks["cleanup"] == "success"
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == [published]
    assert read_release(lake.table("people"), published).num_rows == 120
    assert not list(work_root.iterdir())


SOURCES = {
    "a column is missing": lambda t: t.drop(columns="town"),
    "a column is not in the schema": lambda t: t.assign(extra=1),
    "numbers are text": lambda t: t.assign(age=t["age"].astype(str)),
    "a quasi-identifier is null": lambda t: t.assign(town=t["town"].where(t.index > 0)),
    "a number is out of bounds": lambda t: t.assign(age=t["age"].where(t.index > 0, 999.0)),
    "there is no row": lambda t: t.head(0),
}


@pytest.mark.slow  # whole runs; the reasons are those of the reader's tests, and a truncated source is quick
@pytest.mark.parametrize("fault", SOURCES)
def test_a_source_that_does_not_fit_stops_at_ingest(
    fault: str, home: Any, invented: Any, run: Any, published: str, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(SOURCES[fault](invented))
    assert_failed_at("ingest", run("people"), published, airflow_lake, work_root)


def test_a_truncated_source_stops_at_ingest(
    home: Any, run: Any, published: str, airflow_lake: Lake, work_root: Path
) -> None:
    file = home.folder / "people.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    assert_failed_at("ingest", run("people"), published, airflow_lake, work_root)


@pytest.mark.slow  # a whole run; a failed checkpoint stops a quick one there, and `operators` this
def test_a_failed_expectation_stops_at_validate(
    home: Any, run: Any, published: str, airflow_lake: Lake, work_root: Path
) -> None:
    expectation = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1000}}
    home.write(suite={"name": "people", "expectations": [expectation]})
    assert_failed_at("validate", run("people"), published, airflow_lake, work_root)


@pytest.mark.slow  # a whole run; one that fails stops there as well
def test_a_misspelt_expectation_stops_at_validate(
    home: Any, run: Any, published: str, airflow_lake: Lake, work_root: Path
) -> None:
    expectation = {"type": "expect_column_values_to_not_be_nul", "kwargs": {"column": "age"}}
    home.write(suite={"name": "people", "expectations": [expectation]})
    assert_failed_at("validate", run("people"), published, airflow_lake, work_root)


@pytest.mark.slow  # whole runs; each error is that of the step
@pytest.mark.parametrize("parameters", [{"k": 121}, {"k": 5, "l": 4}, {"k": 1}], ids=["k", "l", "wrong"])
def test_a_guarantee_that_cannot_be_met_stops_at_release(
    parameters: Any, home: Any, run: Any, published: str, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(release={"method": "mondrian", **parameters})
    assert_failed_at("release", run("people"), published, airflow_lake, work_root)


@pytest.mark.slow  # a whole run; `test_history` has one that stops there and keeps the release before it
def test_a_policy_stricter_than_the_method_stops_at_verify(
    home: Any, run: Any, published: str, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(policy={"require": [{"model": "k_anonymity", "k": 50}]})
    assert_failed_at("verify", run("people"), published, airflow_lake, work_root)


@pytest.mark.slow  # a whole run
def test_a_lake_that_is_not_set_up_stops_before_the_method(
    home: Any, run: Any, published: str, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(publish={"lake": "elsewhere", "table": "people"})
    assert_failed_at("release", run("people"), published, airflow_lake, work_root)


def test_the_clean_up_waits_for_no_success_and_its_failure_is_the_runs(home: Any, load: Any) -> None:
    dag = load("people").dags["people"]
    cleanup = dag.get_task("cleanup")
    assert cleanup.is_teardown
    assert cleanup.on_failure_fail_dagrun
    # An upstream setup would have to succeed first: what a killed ingest wrote would stay.
    assert not [task for task in dag.tasks if task.is_setup]
    assert set(cleanup.get_flat_relative_ids(upstream=True)) == {
        "ingest",
        "validate",
        "release",
        "verify",
        "publish",
    }
