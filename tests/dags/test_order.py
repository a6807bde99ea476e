"""The tasks of a release's DAG are the steps of its plan, without a run."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from airflow_privacy_release.pipeline import release_dag
from privacy_release.lake.store import Lake
from privacy_release.plan.plan import plan_of
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from tests.added_step import add_count_rows
from tests.dags.conftest import POLICY
from tests.import_graph import ROOT

SHIPPED = sorted((ROOT / "include" / "releases").rglob("*.yaml"))


def context(task_id: str) -> Any:
    task = SimpleNamespace(dag_id="people", run_id="r1", task_id=task_id, map_index=-1)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace)}


def edges(dag: Any) -> dict[str, set[str]]:
    """The tasks that each task waits for."""
    return {task.task_id: task.upstream_task_ids for task in dag.tasks}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_tasks_of_a_release_wait_for_each_other_as_its_plan_says(path: Any, airflow_home: Any) -> None:
    spec = load_spec(path)
    dag = release_dag(spec, auto_register=False)
    plan = plan_of(spec, attacked="attack" in dag.task_ids)
    ends = {step.name for step in plan.last()}
    assert edges(dag) == {**plan.before(), "cleanup": ends, "done": ends}
    assert [task.task_id for task in dag.tasks if task.is_teardown] == ["cleanup"]


def test_the_tasks_of_a_release_with_all_that_it_can_declare_do_so_too(
    home: Any, load: Callable[..., Any]
) -> None:
    home.write(
        policy={
            "require": [*POLICY["require"], {"model": "attack_risk", "attack": "inference", "excess": 0.5}]
        },
        transform={"sql": "SELECT * FROM records"},
        outliers={"method": "okplof", "action": "report"},
        approval={"required": True},
        publish={"table": "people", "evidence": True},
    )
    found = edges(load("people").dags["people"])
    assert found["attack"] == {"hold_out", "release", "verify"}
    assert found["publish"] == {"approve", "attack", "release"}
    assert found["release"] == {"hold_out"}
    assert found["detect_outliers"] == {"transform"}


def test_a_release_with_a_history_is_read_and_made_with_it(home: Any, load: Callable[..., Any]) -> None:
    home.write(
        policy={"require": POLICY["require"][:1], "repeated_people": "history"},
        release={"method": "mondrian", "k": 10, "l": 2, "seed": 7},
        history={"identifier": "name", "key": "history_key", "m": {"disease": 2}},
    )
    dag = load("people").dags["people"]
    made, read = dag.get_task("release").history, dag.get_task("ingest")
    assert (made["m"], made["policy"]) == ({"disease": 2}, dag.get_task("verify").policy)
    assert (read.person, read.membership_key) == ("name", "history_key")


def test_a_step_without_its_own_operator_runs_in_one_process_and_is_a_task(
    home: Any,
    load: Callable[..., Any],
    invented: pd.DataFrame,
    airflow_lake: Lake,
    work_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_count_rows(monkeypatch, folder := tmp_path / "counted")
    home.write()
    dag = load("people").dags["people"]
    table = dag.get_task("ingest").execute(context("ingest"))
    task = dag.get_task("count_rows")
    task.table = table  # as templates are rendered
    assert task.execute(context("count_rows")) == table
    with WorkArea(tmp_path / "work of one", "r2") as work:
        run_release(load_spec(home.spec("people")), airflow_lake, "r2", work)
    assert {file.name: file.read_text() for file in folder.iterdir()} == dict.fromkeys(
        ("r1", "r2"), str(len(invented))
    )


@pytest.mark.slow  # a whole run
def test_a_step_without_its_own_operator_runs_in_a_dag(
    home: Any,
    run: Callable[[str], Any],
    invented: pd.DataFrame,
    airflow_lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_count_rows(monkeypatch, folder := tmp_path / "counted")
    home.write()
    done = run("people")
    assert (done.state, done.tasks["count_rows"]) == ("success", "success"), done.tasks
    assert [file.read_text() for file in folder.iterdir()] == [str(len(invented))]
