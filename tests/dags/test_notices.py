"""What people are notified of, and where the link leads, after real runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_privacy_release.task.notifications import (
    failure_notice,
    notify_failure,
    notify_low_budget,
)
from privacy_engine.dp.limits import Limit, Period
from privacy_release.alerts.budgets import low_budgets
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from tests.clock import Clock
from tests.ledgers import new_ledger

PRIVATE = {
    "columns": {
        "town": {"categories": ["north", "south"]},
        "disease": {"categories": ["cold", "flu", "gout"]},
        "remark": {"categories": ["a", "b"]},
    },
    "policy": {"max_epsilon": 1.0},
    "release": {"method": "latent_class", "epsilon": 0.875},
    "budget": {"dataset": "people"},
}


class Letters(BaseNotifier):
    """Keeps what it would send."""

    template_fields = ("subject", "text")

    def __init__(self, subject: str, text: str) -> None:
        super().__init__()
        self.subject = subject
        self.text = text
        self.sent: list[tuple[str, str]] = []

    def notify(self, context: Any) -> None:
        self.sent.append((self.subject, self.text))


@pytest.fixture
def letters() -> Letters:
    return Letters(subject="{{ notice.subject }}", text="{{ notice.text }} see {{ notice.link }}")


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0, period=Period.parse("total")), reason="test")
    return ledger


@pytest.fixture
def run_with(
    load: Callable[..., Any], work_root: Path, airflow_lake: Lake, clock: Clock
) -> Callable[..., Any]:
    """Run the DAG `people` with a callback on one of its tasks."""
    clock.in_sleep()

    def test(task_id: str, **callbacks: Any) -> Any:
        dag = load("people").dags["people"]
        for name, callback in callbacks.items():
            setattr(dag.get_task(task_id), name, [callback])
        return dag.test()

    return test


def test_a_refused_release_sends_the_rules_that_failed_and_no_value(
    home: Any, invented: Any, run_with: Callable[..., Any], letters: Letters
) -> None:
    home.write(invented, policy={"require": [{"model": "k_anonymity", "k": 50}]})
    done = run_with("verify", on_failure_callback=notify_failure(letters))
    assert str(done.state) == "failed"
    ((subject, text),) = letters.sent
    assert subject == "people: verify failed, nothing was published"
    assert "k_anonymity(k=50) measured 5" in text
    assert f"run {done.run_id}, task verify, attempt 1." in text
    assert "see /privacy/report?dag_id=people&run_id=" in text
    values = {str(value) for column in ("name", "town", "disease") for value in invented[column]}
    assert not [value for value in values if value in subject + text]


@pytest.mark.slow  # two whole runs
def test_a_notifier_can_send_more_than_once(
    home: Any, invented: Any, run_with: Callable[..., Any], letters: Letters
) -> None:
    home.write(invented, policy={"require": [{"model": "k_anonymity", "k": 50}]})
    first = run_with("verify", on_failure_callback=notify_failure(letters))
    second = run_with("verify", on_failure_callback=notify_failure(letters))
    assert [run.run_id in text for run, (_, text) in zip((first, second), letters.sent, strict=True)] == [
        True,
        True,
    ]


def test_of_an_error_that_this_project_did_not_word_only_the_type_is_reported(
    home: Any, load: Callable[..., Any]
) -> None:
    task = load("people").dags["people"].get_task("verify")
    running = type("Running", (), {"dag_id": "people", "run_id": "r", "task_id": "t", "map_index": -1})()
    running.try_number = 1
    text = failure_notice({"ti": running, "task": task, "exception": ValueError("secret cell")}).text
    assert "It failed with ValueError." in text
    assert "secret" not in text
    foreign = failure_notice({"ti": running, "task": object(), "exception": RuntimeError("secret")}).text
    assert "secret" not in foreign
    assert "is in the task's log" in foreign


@pytest.mark.slow  # three whole runs
def test_a_budget_that_runs_low_is_reported_once_it_does(
    home: Any, invented: Any, ledger: BudgetLedger, run_with: Callable[..., Any], letters: Letters
) -> None:
    home.write(invented, **{**PRIVATE, "release": {"method": "latent_class", "epsilon": 0.5}})
    assert str(run_with("release", on_success_callback=notify_low_budget(letters)).state) == "success"
    assert letters.sent == []
    home.write(invented, **{**PRIVATE, "release": {"method": "latent_class", "epsilon": 0.375}})
    assert str(run_with("release", on_success_callback=notify_low_budget(letters)).state) == "success"
    ((subject, text),) = letters.sent
    assert subject == "people: the privacy budget is nearly used up"
    assert "people: 0.125 of epsilon 1 is left (in total)." in text


@pytest.mark.slow  # a whole run
def test_a_release_without_a_budget_tells_nothing_of_one(
    run_with: Callable[..., Any], home: Any, letters: Letters
) -> None:
    assert str(run_with("release", on_success_callback=notify_low_budget(letters)).state) == "success"
    assert letters.sent == []


def test_limits_of_one_release_and_closed_data_sets_are_never_low(ledger: BudgetLedger) -> None:
    ledger.grant("people", Limit(epsilon=0.0, period=Period.parse("release")), reason="test")
    ledger.grant("closed", Limit(epsilon=0.0, period=Period.parse("total")), reason="test")
    assert low_budgets("people", ledger.standing("people"), below=1.0) == ()
    assert low_budgets("closed", ledger.standing("closed"), below=1.0) == ()
    with pytest.raises(ValueError, match="from 0 to 1"):
        low_budgets("people", ledger.standing("people"), below=20)


@pytest.mark.slow  # a whole run
def test_tasks_of_a_release_link_to_its_report(home: Any, run: Callable[[str], Any], load: Any) -> None:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    done = run("people")
    assert done.state == "success"
    with create_session() as session:
        rows = session.query(XComModel).filter_by(run_id=done.run_id, key="_link_ReportLink").all()
        links = {row.task_id: str(row.value).strip('"') for row in rows}
    assert set(links) == {"release", "verify", "publish"}
    for task_id, link in links.items():
        assert link.startswith("/privacy/report?dag_id=people&run_id=manual__")
        assert link.endswith(f"&task_id={task_id}&map_index=-1")
        assert "+00:00" not in link
