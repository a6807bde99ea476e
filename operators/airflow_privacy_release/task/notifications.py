"""What people are told when a release is refused or a privacy budget runs low: by any of Airflow's notifiers.

    VerifyOperator(..., on_failure_callback=tell_failure(SmtpNotifier(
        to="officer@example.org", subject="{{ notice.subject }}", html_content="{{ notice.text | e }}")))

A notifier's templates see the notice as `notice`. It holds names, rules and counts, no value of a record: of
an error only what this project itself worded, which `airflow_privacy_release.task.errors` sees to.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_privacy_release.compat import AirflowFailException
from airflow_privacy_release.task.errors import UnexpectedError
from airflow_privacy_release.task.links import ReportLink
from privacy_engine.errors import LedgerError, PublishError

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

    from privacy_engine.dp.ledger import Standing

BELOW = 0.2
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


@dataclass(frozen=True, kw_only=True)
class BudgetLowNotice:
    """Too little of a limit is left.

    Attributes:
        dataset: in the ledger.
        period: of the limit: `total`, or a number of days such as `365d`.
        limit, spent, left: epsilon.
    """

    dataset: str
    period: str
    limit: float
    spent: float
    left: float

    def __str__(self) -> str:
        return (
            f"{self.left:g} of epsilon {self.limit:g} is left of {self.dataset} ({self.period}); "
            "plan the next releases, or grant more with `privacy-release budget grant`"
        )


def low_budgets(
    dataset: str, standings: Iterable["Standing"], below: float = BELOW
) -> tuple[BudgetLowNotice, ...]:
    """The limits of a data set of which less than a share is left.

    Args:
        dataset: in the ledger.
        standings: of the data set, `BudgetLedger.standing`; limits of a single release are never low.
        below: share of a limit, 0 to 1.

    Raises:
        ValueError: if the share is out of range.
    """
    if not 0 <= below <= 1:
        raise ValueError(f"the share must be from 0 to 1, got {below:g}")
    return tuple(
        BudgetLowNotice(
            dataset=dataset,
            period=standing.limit.period.name,
            limit=standing.limit.epsilon,
            spent=float(standing.spent),
            left=float(standing.left),
        )
        for standing in standings
        if standing.limit.period.name != "release"
        and standing.limit.epsilon > 0
        and float(standing.left) < below * standing.limit.epsilon
    )


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
