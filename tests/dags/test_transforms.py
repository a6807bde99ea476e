"""A step of the user's own in the DAG of a specification."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake

SQL = "SELECT * FROM records WHERE age >= 30"


@pytest.mark.slow  # a whole run; the order of tasks is tested without one
def test_a_step_of_a_specification_is_a_task_between_gate_and_release(
    home: Any, run: Callable[[str], Any], load: Callable[..., Any], airflow_lake: Lake, invented: pd.DataFrame
) -> None:
    home.write(transform={"sql": SQL})
    tasks = load("people").dags["people"].task_dict
    assert tasks["transform"].upstream_task_ids == {"validate"}
    assert "transform" in tasks["release"].upstream_task_ids
    done = run("people")
    assert done.state == "success", done.tasks
    released = read_release(airflow_lake.table("people"), done.run_id)
    assert released.num_rows == (invented["age"] >= 30).sum()
    (manifest,) = manifest_of(airflow_lake.table("people"), done.run_id)["source"]["transforms"]
    assert (manifest["before"], manifest["rows"]) == (len(invented), released.num_rows)


@pytest.mark.slow  # a whole run; `privacy_release/transforms` has the error
def test_a_step_that_loses_whose_record_a_row_is_publishes_nothing(
    home: Any, run: Callable[[str], Any], airflow_lake: Lake
) -> None:
    home.write(transform={"sql": SQL.replace("*", "* EXCLUDE (_record)")})
    done = run("people")
    assert done.state == "failed"
    assert done.tasks["transform"] == "failed"
    assert done.tasks["publish"] == "upstream_failed"
