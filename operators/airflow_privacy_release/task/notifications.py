"""Notices of a failed release, a low budget or an alert, sent by any of Airflow's notifiers.

    VerifyOperator(..., on_failure_callback=notify_failure(SmtpNotifier(
        to="officer@example.org", subject="{{ notice.subject }}", html_content="{{ notice.text | e }}")))

A notifier's templates see the notice as `notice`. It holds names, rules and counts, no value of a record. Of
an error, it holds only text that this project wrote, see `airflow_privacy_release.task.errors`.
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
        subject: Subject, one line.
        text: Plain text of a few lines; escape it if the notifier sends HTML.
        link: Link to the report's page, below Airflow's address.
    """

    subject: str
    text: str
    link: str


def failure_notice(context: Mapping[str, Any]) -> Notice:
    """Build the notice of a failed task.

    Args:
        context: Airflow's context of the callback, with `exception` if there is one.
    """
    task, error = context["ti"], context.get("exception")
    ours = type(context.get("task")).__module__.startswith("airflow_privacy_release.")
    return Notice(
        subject=f"{task.dag_id}: {task.task_id} failed, nothing was published",
        text="\n".join(
            [
                f"DAG {task.dag_id}, run {task.run_id}, task {task.task_id}, attempt {task.try_number}.",
                _reason(error) if ours else "The reason is in the task's log.",
                "No release is published unless its verification passed.",
            ]
        ),
        link=_link(task),
    )


def budget_notice(context: Mapping[str, Any], below: float = BELOW) -> Notice | None:
    """Build the notice of a low budget after a release task has spent from it; None if enough is left.

    Args:
        context: Airflow's context of a release operator's `on_success_callback`.
        below: Share of a limit, 0 to 1, below which a notice is sent.
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
        subject=f"{booking['dataset']}: the privacy budget is nearly used up",
        text="\n".join(map(str, low)),
        link=_link(task),
    )


def alert_notice(context: Mapping[str, Any]) -> Notice | None:
    """Build the notice of a release's alerts; None if there are none.

    Args:
        context: Airflow's context of an `on_success_callback` of `VerifyOperator` or `PublishOperator`.
    """
    task = context["ti"]
    reported = task.xcom_pull(task_ids=task.task_id, map_indexes=task.map_index)
    alerts = reported.get("alerts") if isinstance(reported, Mapping) else None
    if not alerts:
        return None
    return Notice(
        subject=f"{task.dag_id}: {len(alerts)} alert{'' if len(alerts) == 1 else 's'} about a release",
        text="\n".join(
            [
                f"DAG {task.dag_id}, run {task.run_id}, task {task.task_id}.",
                *(alert["text"] for alert in alerts),
                "An alert stops nothing. The release meets its policy.",
            ]
        ),
        link=_link(task),
    )


def notify_alerts(notifier: "BaseNotifier") -> Callable[[Any], None]:
    """Return an `on_success_callback` of `VerifyOperator` or `PublishOperator` that sends alerts."""

    def notify(context: Any) -> None:
        notice = alert_notice(context)
        if notice is not None:
            _send(notifier, context, notice)

    return notify


def notify_failure(notifier: "BaseNotifier") -> Callable[[Any], None]:
    """Return an `on_failure_callback` that sends a notice without any value of a record."""

    def notify(context: Any) -> None:
        _send(notifier, context, failure_notice(context))

    return notify


def notify_low_budget(notifier: "BaseNotifier", below: float = BELOW) -> Callable[[Any], None]:
    """Return an `on_success_callback` of a release operator that sends a notice if little budget is left.

    Args:
        notifier: Notifier that sends the notice.
        below: Share of a limit, 0 to 1, below which a notice is sent.
    """

    def notify(context: Any) -> None:
        notice = budget_notice(context, below)
        if notice is not None:
            _send(notifier, context, notice)

    return notify


def _send(notifier: "BaseNotifier", context: Mapping[str, Any], notice: Notice) -> None:
    """Render a copy and send it: rendering replaces a notifier's templates."""
    copy(notifier)({**context, "notice": notice})


def _reason(error: Any) -> str:
    if isinstance(error, _WORDED):
        return str(error)
    return "The reason is in the task's log." if error is None else f"It failed with {type(error).__name__}."


def _link(task: Any) -> str:
    return ReportLink().get_link(None, ti_key=task)  # type: ignore[arg-type]  # it uses no operator
