"""The sweeper DAG: areas of runs that are over go, those of runs that go on or wait for a person never do."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from airflow_privacy_release.plugin.views.leftovers import is_over
from airflow_privacy_release.task import run as task_run
from privacy_release.lake.read import releases
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.presence import LOCK, Owner
from privacy_release.workarea.sweep import AreaState, SweepRules, sweep
from tests.canaries import planted
from tests.clock import make_older
from tests.dags.officers import Officers
from tests.dags.scanner import new_root, started
from tests.waiting import wait_for

HOUR = timedelta(hours=1)
DAG = "people"


def area_of(root: Path, run_id: str) -> WorkArea:
    """The area of a run of which no task is at work, for a day."""
    with WorkArea(root, f"{DAG}/{run_id}", Owner.RUN) as work:
        work.path("raw.parquet").write_bytes(b"canary")
    rest(work)
    return work


def rest(work: WorkArea) -> None:
    make_older(work.folder / LOCK, 24 * HOUR)


@pytest.fixture
def add_run(load: Callable[[], Any], home: Any) -> Iterator[Callable[[str, str], None]]:
    """Write a run to Airflow's database, as the scheduler does."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import delete

    added = []

    def add(run_id: str, state: str) -> None:
        added.append(run_id)
        with create_session() as session:
            session.add(
                DagRun(
                    dag_id=DAG,
                    run_id=run_id,
                    run_type=DagRunType.MANUAL,
                    state=DagRunState(state),
                    triggered_by=DagRunTriggeredByType.UI,
                )
            )

    load()
    yield add
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG, DagRun.run_id.in_(added)))


def test_the_sweeper_removes_areas_of_runs_that_are_over_and_no_other(
    home: Any, run: Any, add_run: Callable[[str, str], None], work_root: Path
) -> None:
    states = ("queued", "running", "success", "failed")
    areas = {state: area_of(work_root, f"was_{state}+00:00") for state in states}
    for state in states:
        add_run(f"was_{state}+00:00", state)
    areas["unknown"] = area_of(work_root, "of_another_Airflow")
    with WorkArea(work_root, f"{DAG}/at_work", Owner.RUN) as at_work:
        add_run("at_work", "failed")  # set by hand, while a task has not heard of it
        rest(at_work)
        done = run("sweep_work_areas")
        assert done.state == "success"
        assert done.returned("sweep") == {"run not over": 2, "removed": 2, "run unknown": 1, "in use": 1}
        assert at_work.folder.exists()
    there = {state for state, work in areas.items() if (work.folder / LOCK).exists()}
    assert there == {"queued", "running", "unknown"}


@pytest.mark.slow  # a whole run each; the sweep above has a run that goes on, and one with a task at work
@pytest.mark.parametrize(("in_one_process", "expected"), [(True, "in use"), (False, "run not over")])
def test_the_area_of_a_run_that_waits_for_approval_is_never_swept(
    home: Any,
    run: Any,
    officers: Officers,
    airflow_lake: Lake,
    work_root: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_one_process: bool,
    expected: str,
) -> None:
    """With `in_one_process` unset as workers have it: no process is there while a person is asked."""
    if not in_one_process:
        monkeypatch.setattr(task_run, "_in_one_process", lambda: False)
    found: list[str] = []

    def sweep_meanwhile() -> None:
        (folder,) = work_root.iterdir()
        os.utime(folder / LOCK, (0, 0))
        rules = SweepRules(idle=timedelta(0), is_over=is_over, kept=True, unknown_runs=True)
        found.extend(str(looked.state) for looked in sweep(work_root, rules))

    home.write(approval={})
    officers.before = sweep_meanwhile
    assert run(DAG).state == "success"
    assert found == [expected]
    assert len(releases(airflow_lake.table(DAG))) == 1
    assert list(work_root.iterdir()) == []


@pytest.mark.slow
def test_what_a_killed_run_of_one_process_had_read_goes_with_the_next_sweep(
    make_home: Any, invented: pd.DataFrame, tmp_path: Path
) -> None:
    root = new_root(tmp_path)
    make_home(root).write(planted(invented))
    areas = root / ".airflow" / "work_area"
    with started(root, [DAG]) as child:

        def read() -> bool:
            assert child.poll() is None, (root / "output.txt").read_text()[-2000:]
            return any(areas.glob("*/*.parquet"))

        wait_for(read, "the records of the run to be read", every=0.02)
        child.kill()
    assert [json.loads(lock.read_text())["owner"] for lock in areas.glob(f"*/{LOCK}")] == ["process"]
    assert [looked.state for looked in sweep(areas, SweepRules(idle=6 * HOUR))] == [AreaState.REMOVED]
    assert list(areas.iterdir()) == []
