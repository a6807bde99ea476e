"""A real run tells how far its tasks are: in the log, in an XCom, and on the page of the run meanwhile."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pytest
import structlog

from privacy_release.config.durations import PROGRESS


@pytest.fixture
def each_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each step of the work took ten seconds."""
    monkeypatch.setattr("privacy_release.config.durations.OFTEN", 0.0)


def shares_of(dag_id: str, run_id: str) -> Mapping[str, Any]:
    """What the tasks of a run have reported last, by task."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    requested = select(XComModel).where(
        XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.key == PROGRESS
    )
    with create_session() as session:
        return {row.task_id: XComModel.deserialize_value(row) for row in session.scalars(requested)}


class Log:
    """Keeps what tasks log of how far they are, and what the page of the run shows at that moment."""

    def __init__(self) -> None:
        self.percents: dict[str, list[int]] = {}
        self.shown: list[tuple[str, int, int]] = []

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if event.get("event") == "progress":
            self.keep(event["percent"])
        return event

    def keep(self, logged: int) -> None:
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        from airflow_privacy_release.plugin.views.run_reports import progress

        with create_session() as session:
            (running,) = session.scalars(select(TaskInstance).where(TaskInstance.state == "running")).all()
        self.percents.setdefault(running.task_id, []).append(logged)
        self.shown += [(one.label, one.percent, logged) for one in progress(running.dag_id, running.run_id)]


@pytest.fixture
def log() -> Iterator[Log]:
    kept, before = Log(), structlog.get_config()["processors"]
    structlog.configure(processors=[kept, *before])
    yield kept
    structlog.configure(processors=before)


@pytest.mark.slow  # a run long enough to have a progress
def test_tasks_tell_percents_that_rise_to_100_in_log_xcom_and_page(
    samples: None, each_step_is_long: None, log: Log, run: Callable[[str], Any]
) -> None:
    done = run("adult_bottom_up")
    assert done.state == "success", done.tasks
    assert {"detect_outliers", "release"} <= set(log.percents)
    for percents in log.percents.values():
        assert percents == sorted(percents)
        assert percents[-1] == 100
    assert len(set(log.percents["release"])) > 10
    reported = shares_of("adult_bottom_up", done.run_id)
    assert {task: one["percent"] for task, one in reported.items()} == dict.fromkeys(log.percents, 100)
    assert {(label, percent) for label, percent, _ in log.shown} >= {
        ("release", percent) for percent in log.percents["release"]
    }
    assert all(percent == logged for _, percent, logged in log.shown)


@pytest.mark.slow  # a whole run
def test_short_tasks_tell_nothing(samples: None, log: Log, run: Callable[[str], Any]) -> None:
    done = run("adult_mondrian_daily")
    assert done.state == "success", done.tasks
    assert log.percents == {}
    assert shares_of("adult_mondrian_daily", done.run_id) == {}
