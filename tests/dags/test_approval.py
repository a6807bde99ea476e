"""DAG runs that ask a person: what was approved is published, what was not leaves nothing behind."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from tests.dags.officers import Officers


def work_is_gone(work_root: Path) -> bool:
    return not list(work_root.iterdir())


def test_an_approved_release_is_published_with_who_when_and_why(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={"required": True, "assigned_to": ["officer"]})
    officers.users, officers.comment = ("viewer", "stranger", "officer"), "looks fine"
    done = run("people")
    assert done.state == "success", done.tasks
    assert officers.statuses == [("viewer", 403), ("stranger", 403), ("officer", 200)]
    told = manifest_of(airflow_lake, "people", done.run_id)["approval"]
    assert told["by"] == {"id": "officer", "name": "officer"}
    assert (told["comment"], told["automatic"]) == ("looks fine", False)
    assert told["at"].startswith("20")
    assert work_is_gone(work_root)


def test_the_form_is_about_the_staged_bytes_and_may_be_sent_without_a_comment(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    done = run("people")
    (question,) = officers.seen
    assert releases(airflow_lake, "people")[0]["sha256"] in question["body"]
    assert question["defaults"] is None
    assert question["params"]["comment"]["schema"]["type"] == ["null", "string"]
    assert manifest_of(airflow_lake, "people", done.run_id)["approval"]["comment"] == ""


def test_nothing_is_published_while_the_run_waits(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    published: list[int] = []
    officers.before = lambda: published.append(len(releases(airflow_lake, "people")))
    run("people")
    assert published == [0]
    assert len(releases(airflow_lake, "people")) == 1


def test_a_rejected_release_is_not_published_and_nothing_stays(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    officers.option = "Reject"
    done = run("people")
    assert done.state == "failed"
    assert done.tasks["people.approve"] == "failed"
    assert done.tasks["people.publish"] == "upstream_failed"
    assert done.tasks["people.cleanup"] == "success"
    assert releases(airflow_lake, "people") == []
    assert work_is_gone(work_root)


def test_a_release_that_is_sent_back_ends_without_a_failure_and_nothing_stays(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={})
    officers.option, officers.comment = "Send back", "coarser ages"
    done = run("people")
    assert done.state == "success"
    assert done.tasks["people.approve"] == "skipped"
    assert done.tasks["people.publish"] == "skipped"
    assert releases(airflow_lake, "people") == []
    assert work_is_gone(work_root)


def test_a_second_person_is_asked_and_the_first_is_not_taken_twice(
    home: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={"approvers": 2})
    answering = iter(["officer", "officer", "stranger"])

    def next_one() -> None:
        officers.users = (next(answering),)

    officers.before = next_one
    done = run("people")
    assert done.state == "success", done.tasks
    assert [user for user, _ in officers.statuses] == ["officer", "officer", "stranger"]
    told = manifest_of(airflow_lake, "people", done.run_id)["approval"]
    assert (told["first"]["by"]["id"], told["by"]["id"]) == ("officer", "stranger")


def test_no_answer_in_time_counts_as_rejected(
    home: Any,
    run: Any,
    officers: Officers,
    airflow_lake: Lake,
    work_root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update
    from structlog import get_logger

    def sweep(seconds: float) -> None:
        """What the scheduler does every few seconds, once the two days are over."""
        waiting = TaskInstance.state == "awaiting_input"
        with create_session() as session:
            late = update(TaskInstance).where(waiting)
            session.execute(late.values(trigger_timeout=datetime.now(UTC) - timedelta(seconds=1)))
        scheduler = SchedulerJobRunner.__new__(SchedulerJobRunner)
        scheduler._log = get_logger()
        scheduler.check_awaiting_input_timeouts()

    home.write(approval={})
    monkeypatch.setattr(time, "sleep", sweep)
    done = run("people")
    assert done.state == "failed"
    assert done.tasks["people.approve"] == "failed"
    assert done.tasks["people.publish"] == "upstream_failed"
    assert releases(airflow_lake, "people") == []
    assert work_is_gone(work_root)


def test_a_run_may_ask_for_an_approval_that_is_not_required(
    home: Any, load: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={"required": False})
    quiet = run("people")
    assert officers.seen == []
    assert manifest_of(airflow_lake, "people", quiet.run_id)["approval"]["automatic"]
    asked = load().dags["people"].test(run_conf={"approval": True})
    assert str(asked.state) == "success"
    assert len(officers.seen) == 1
    assert not manifest_of(airflow_lake, "people", asked.run_id)["approval"]["automatic"]


def test_a_run_cannot_switch_off_an_approval_that_is_required(
    home: Any, load: Any, run: Any, officers: Officers, airflow_lake: Lake, work_root: Path
) -> None:
    home.write(approval={"required": True})
    dag = load().dags["people"]
    assert "approval" not in dag.params
    dag.test(run_conf={"approval": False})
    assert len(officers.seen) == 1
