"""What a task tells of how far it is: and that nothing that goes wrong with it fails the task."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.run import progressing
from privacy_engine.progress import advance
from privacy_release.config.durations import PROGRESS


class Half(BaseOperator):
    """Half of its work, and the rest."""

    @guarded
    def execute(self, context: Any) -> dict[str, int]:
        """Tell of the half."""
        advance(0.5)
        return {"rows": 1}


@pytest.fixture
def each_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privacy_release.config.durations.OFTEN", 0.0)


def context(push: Any) -> dict[str, Any]:
    task = SimpleNamespace(dag_id="people", run_id="r1", task_id="half", map_index=-1, xcom_push=push)
    return {"ti": task}


def test_a_guarded_task_tells_percent_and_text(each_step_is_long: None) -> None:
    pushed: list[tuple[str, dict[str, Any]]] = []
    Half(task_id="half").execute(context(lambda key, value: pushed.append((key, value))))
    assert [key for key, _ in pushed] == [PROGRESS, PROGRESS]
    assert [reported["percent"] for _, reported in pushed] == [50, 100]
    assert pushed[0][1]["text"].startswith("50 %")


def test_a_channel_that_fails_fails_no_task_and_the_log_goes_on(
    each_step_is_long: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(key: str, value: Any) -> None:
        raise ConnectionError("person-000 has measles")

    assert Half(task_id="half").execute(context(fail)) == {"rows": 1}
    out = "".join(capsys.readouterr())
    assert "progress is not shown" in out
    assert "percent=50" in out
    assert "percent=100" in out
    assert "measles" not in out


def test_a_task_that_fails_is_not_reported_as_done(each_step_is_long: None) -> None:
    pushed: list[int] = []
    operator = Half(task_id="half")

    def half_and_fail() -> None:
        with progressing(operator, context(lambda key, value: pushed.append(value["percent"]))):
            advance(0.5)
            raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        half_and_fail()
    assert pushed == [50]
