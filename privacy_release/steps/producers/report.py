"""Make the report of a release, with the state of its budget."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from privacy_release.budget.budget import account_of
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.release import render_report, report_or_claims
from privacy_release.steps.producers.job import Job
from privacy_release.workarea.references import Table, need
from privacy_release.workarea.staged import codes_of

if TYPE_CHECKING:
    from privacy_engine.release import Release


def report_of(
    release: "Release",
    loss: Mapping[str, float],
    risk: Mapping[str, float],
    table: Table,
    job: Job,
    *,
    about: Mapping[str, str] | None = None,
    budget: Mapping[str, Any] | None = None,
    rows: int | None = None,
) -> str:
    """Return the report of a release as HTML. If it cannot be made, a page of its claims.

    Args:
        release: Release that the report describes.
        loss: Information loss, by name.
        risk: Disclosure risk, by name.
        table: Table that the release was made from.
        job: Job of the producer.
        about: More facts about the release, by name.
        budget: State of the budget. None if no budget pays.
        rows: Number of records. None: the number in the release's table.
    """
    title = job.title or release.method

    def report() -> str:
        return render_report(
            release,
            loss,
            risk,
            title=title,
            source_rows=table.rows_with_suppressed,
            about={**(about or {}), **codes_of(table)},
            budget=budget,
            rows=rows,
            shifted=table.source.shifted,
            attempts=job.attempts,
        )

    claims = Claims.from_dict(release.manifest())
    return report_or_claims(report, claims, title=title, attempts=job.attempts)


def account(job: Job, promise: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Return the state of the budget for the report. None if it cannot be read now."""
    return job.attempts.make(
        "what is left of the budget", partial(account_of, need(job.budget, "budget"), promise)
    )
