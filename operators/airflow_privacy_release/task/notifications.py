"""What people are told of a refused release, a low budget or an alert: by any of Airflow's notifiers.

    VerifyOperator(..., on_failure_callback=tell_failure(SmtpNotifier(
        to="officer@example.org", subject="{{ notice.subject }}", html_content="{{ notice.text | e }}")))

A notifier's templates see the notice as `notice`. It holds names, rules and counts, no value of a record: of
an error only what this project itself worded, which `airflow_privacy_release.task.errors` sees to.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_privacy_release.compat import AirflowFailException
from airflow_privacy_release.task.errors import UnexpectedError
from airflow_privacy_release.task.links import ReportLink
from privacy_engine.errors import LedgerError, PublishError
from privacy_release.alerts.budgets import BELOW, low_budgets

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

_WORDED = (AirflowFailException, UnexpectedError, PublishError, LedgerError)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A message to people.

    Attributes:
        subject: one line.
        text: plain text of a few lines; escape it where a notifier sends HTML.
        link: of the report's page, below Airflow's address.
    """

    subject: str
    text: str
    link: str


def failure_notice(context: Mapping[str, Any]) -> Notice:
    """What may be told of a task that failed.

    Args:
        context: as Airflow gives it to a callback: with `exception`, where there is one.
    """
    task, error = context["ti"], context.get("exception")
    ours = type(context.get("task")).__module__.startswith("airflow_privacy_release.")
    return Notice(
        subject=f"{task.dag_id}: {task.task_id} failed, nothing was published by it",
        text="\n".join(
            [
                f"DAG {task.dag_id}, run {task.run_id}, task {task.task_id}, attempt {task.try_number}.",
                _reason(error) if ours else "The reason stands in the task's log.",
                "Nothing is published without a verification that passed.",
            ]
        ),
        link=_link(task),
    )


def budget_notice(context: Mapping[str, Any], below: float = BELOW) -> Notice | None:
    """What is to be told of the budget that a release task has just spent; None while enough is left.

    Args:
        context: of a release operator's `on_success_callback`.
        below: share of a limit.
    """
    from airflow_privacy_release.hooks.ledger import ledger_of

    task = context["ti"]
    staged = task.xcom_pull(task_ids=task.task_id, map_indexes=task.map_index)
    booking = staged.get("booking") if isinstance(staged, Mapping) else None
    if booking is None:
        return None
    low = low_budgets(booking["dataset"], ledger_of(booking["ledger"]).standing(booking["dataset"]), below)
    if not low:
        return None
    return Notice(
        subject=f"{booking['dataset']}: little of the privacy budget is left",
        text="\n".join(map(str, low)),
        link=_link(task),
    )


def alert_notice(context: Mapping[str, Any]) -> Notice | None:
    """What is to be told of the alerts of a release; None where there are none.

    Args:
        context: of an `on_success_callback` of `VerifyOperator` or `PublishOperator`.
    """
    task = context["ti"]
    told = task.xcom_pull(task_ids=task.task_id, map_indexes=task.map_index)
    alerts = told.get("alerts") if isinstance(told, Mapping) else None
    if not alerts:
        return None
    return Notice(
        subject=f"{task.dag_id}: {len(alerts)} alert{'' if len(alerts) == 1 else 's'} about a release",
        text="\n".join(
            [
                f"DAG {task.dag_id}, run {task.run_id}, task {task.task_id}.",
                *(alert["text"] for alert in alerts),
                "An alert stops nothing: the release keeps its policy.",
            ]
        ),
        link=_link(task),
    )


def tell_alerts(notifier: "BaseNotifier") -> Callable[[Any], None]:
    """An `on_success_callback` of `VerifyOperator` or `PublishOperator` that sends a notice of alerts."""

    def told(context: Any) -> None:
        notice = alert_notice(context)
        if notice is not None:
            _send(notifier, context, notice)

    return told


def tell_failure(notifier: "BaseNotifier") -> Callable[[Any], None]:
    """An `on_failure_callback` that sends a safe notice by a notifier."""

    def told(context: Any) -> None:
        _send(notifier, context, failure_notice(context))

    return told


def tell_low_budget(notifier: "BaseNotifier", below: float = BELOW) -> Callable[[Any], None]:
    """An `on_success_callback` of a release operator that sends a notice where little budget is left.

    Args:
        notifier: that sends it.
        below: share of a limit, 0 to 1.
    """

    def told(context: Any) -> None:
        notice = budget_notice(context, below)
        if notice is not None:
            _send(notifier, context, notice)

    return told


def _send(notifier: "BaseNotifier", context: Mapping[str, Any], notice: Notice) -> None:
    """Render a copy: a notifier's templates are replaced by what they render to."""
    copy(notifier)({**context, "notice": notice})


def _reason(error: Any) -> str:
    if isinstance(error, _WORDED):
        return str(error)
    return (
        "The reason stands in the task's log." if error is None else f"It failed with {type(error).__name__}."
    )


def _link(task: Any) -> str:
    return ReportLink().get_link(None, ti_key=task)  # type: ignore[arg-type]  # it needs no operator
