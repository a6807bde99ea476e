"""Metrics of releases, sent through Airflow's own statistics: StatsD, Datadog or OpenTelemetry.

A metric holds a count, seconds or a privacy figure, never a value of a record; docs/metrics.md lists them.
The DAG's id is part of each name, because plain StatsD drops tags. If metrics are off, nothing is sent or
logged. A metric that cannot be sent never fails a release.
"""

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from airflow_privacy_release.compat import Stats
from airflow_privacy_release.task.paid import is_paid
from privacy_engine.errors import LedgerError, VerificationError
from privacy_release.alerts.budgets import low_budgets
from privacy_release.workarea.references import (
    FragmentReleaseRef,
    ReportRef,
    StagedRelease,
    Table,
    measured_symbols,
)

if TYPE_CHECKING:
    from privacy_release.budget.budget import Budget
    from privacy_release.workarea.references import AlertRef

P = ParamSpec("P")
R = TypeVar("R")
Operator = TypeVar("Operator")

PREFIX = "privacy_release"
_LONGEST_PART = 80


def monitored(
    stage: str,
) -> Callable[[Callable[Concatenate[Operator, P], R]], Callable[Concatenate[Operator, P], R]]:
    """Decorate a step of an operator, whose first argument is the context, to send its metrics.

    Args:
        stage: Name of the stage in the metrics, such as ingest or publish.
    """

    def decorate(step: Callable[Concatenate[Operator, P], R]) -> Callable[Concatenate[Operator, P], R]:
        @functools.wraps(step)
        def run(operator: Operator, /, *args: P.args, **kwargs: P.kwargs) -> R:
            context = args[0] if args else kwargs["context"]  # Airflow passes it by keyword
            began = time.perf_counter()
            try:
                result = step(operator, *args, **kwargs)
            except Exception as error:
                _of_task(context, stage, "incr", "failed")
                if isinstance(error, VerificationError):
                    _of_task(context, stage, "incr", "refused")
                raise
            _of_task(
                context, stage, "timing", "seconds", 1000 * _seconds(result, time.perf_counter() - began)
            )
            if not _counts_source(result) or not is_paid(operator):
                for name, value in _figures(result):
                    _of_task(context, stage, "gauge", name, value)
            return result

        return run

    return decorate


def send_findings(context: Any, report: "ReportRef") -> None:
    """Send the k, l and t that a verification measured, and the number of failed rules."""
    failed = sum(not finding["passed"] for finding in report.findings)
    for name, value in {**measured_symbols(report), "rules_failed": failed}.items():
        _of_task(context, "verify", "gauge", name, value)


def send_alerts(context: Any, alerts: Sequence["AlertRef"]) -> None:
    """Send the number of a release's figures that are outside of their limits."""
    _of_task(context, "verify", "gauge", "alerts", len(alerts))


def send_budget(operator: Any, budget: "Budget | None") -> None:
    """Send what is spent and left of the privacy budget that a release used; log a warning if little is left.

    Limits of a single release are omitted, because they are never used up.

    Args:
        operator: Operator whose log is written.
        budget: Budget that paid for the release; None sends nothing.
    """
    if budget is None:
        return
    with suppress(LedgerError):
        standings = [s for s in budget.ledger.standing(budget.dataset) if s.limit.period.name != "release"]
        for standing in standings:
            name = f"budget.{plain(budget.dataset)}.{plain(standing.limit.period.name)}"
            _send("gauge", f"{name}.epsilon_spent", float(standing.spent))
            _send("gauge", f"{name}.epsilon_left", float(standing.left))
        for low in low_budgets(budget.dataset, standings):
            _send("incr", f"budget.{plain(low.dataset)}.{plain(low.period)}.low", 1)
            operator.log.warning(
                "budget is low",
                dataset=low.dataset,
                period=low.period,
                resource=low.resource,
                limit=low.limit,
                left=low.left,
            )


def plain(name: str) -> str:
    """Make a name usable as one part of a metric's name: letters, digits, `_` and `-`, no dot.

    >>> plain("open data/people.v2")
    'open_data_people_v2'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_PART] or "_"


def _seconds(result: Any, measured: float) -> float:
    """Return the seconds of a step; for a differentially private release, only those of the sampling.

    The time of the measuring depends on the records, and the claimed epsilon does not cover it.
    """
    return result.seconds if isinstance(result, StagedRelease) and result.claims_loss else measured


def _counts_source(result: Any) -> bool:
    """Return whether the figures count records of the source: those of what is not yet staged."""
    if isinstance(result, list):  # of fragments
        return True
    counting = isinstance(result, Table | FragmentReleaseRef)
    return counting and not isinstance(result, StagedRelease)


def _figures(result: Any) -> Iterator[tuple[str, float]]:
    """Yield the figures in the reference, or list of references, that a step returned."""
    if isinstance(result, list):
        parts = each(result)
        yield "rows", sum(part.rows for part in parts)
        yield "fragments", len(parts)
        return
    yield "rows", result.rows
    if isinstance(result, StagedRelease):
        yield from result.loss_figures.items()
    elif isinstance(result, ReportRef):
        yield "classes", result.classes
    elif isinstance(result, Table):
        yield "rows_in", result.source.rows
        yield "rows_dropped", result.source.dropped
        if result.outliers:
            yield "outliers", result.outliers[-1].flagged


def each(parts: Iterable[Any]) -> list[Any]:
    """Flatten references, some of which may be in batches.

    >>> each([1, [2, 3]])
    [1, 2, 3]
    """
    return [ref for part in parts for ref in (part if isinstance(part, list) else [part])]


def _of_task(context: Any, stage: str, kind: str, name: str, value: float = 1) -> None:
    task = context["ti"]
    tags = {"dag_id": plain(task.dag_id), "task_id": plain(task.task_id)}
    _send(kind, f"{tags['dag_id']}.{stage}.{name}", value, tags)


def _send(kind: str, name: str, value: float, tags: Mapping[str, str] | None = None) -> None:
    kinds: dict[str, Callable[..., None]] = {"incr": Stats.incr, "gauge": Stats.gauge, "timing": Stats.timing}
    with suppress(Exception):  # a metric must not fail a release; Airflow has logged the problem
        kinds[kind](f"{PREFIX}.{name}", value, tags=dict(tags or {}))
