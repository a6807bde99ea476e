"""Figures of a release and its report: what the data lost, how exposed people are, the bound of the loss."""

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from privacy_engine.measures import risk, utility
from privacy_engine.recoding.nearness.least_boxes import least_gcp
from privacy_engine.tables.linked import ReleasedClasses
from privacy_engine.verification import known_rows
from privacy_engine.verification.models import KAnonymity
from privacy_release.budget.budget import account_of
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.release import render_report, report_or_claims
from privacy_release.steps.outliers import suppressed_before
from privacy_release.steps.producers.job import Job
from privacy_release.workarea.references import Table, need
from privacy_release.workarea.staged import codes_of, finite

if TYPE_CHECKING:
    import numpy as np

    from privacy_engine.release import Release

# A figure for those who decide on a release. It comes from the source and cannot be read off the released
# table, as the other figures of loss nearly can: it is in no manifest and no report.
BOUND = "gcp_bound"


def measure(release: "Release", rng: "np.random.Generator") -> tuple[dict[str, float], dict[str, float]]:
    """Loss of information, and risk of the released records, by name; what is not finite is left out."""
    release = release.of_persons
    return lost_of(release, rng), risk_of(release)


def lost_of(release: "Release", rng: "np.random.Generator") -> dict[str, float]:
    """Notes of the method and loss of information, by name."""
    lost = dict(release.notes)
    if release.recoding is not None:
        lost |= utility.figures(release.recoding, rng)
    if release.recodings:
        lost |= utility.figures_of_tables(list(release.recodings.values()))
    return finite(lost)


def risk_of(release: "Release") -> dict[str, float]:
    """Risk of the released records by name."""
    released = ReleasedClasses.of_table(release.table, release.schema, release.persons)
    at_risk = risk.figures(released.whole)
    if released.tables:
        at_risk["hasr"] = max(map(risk.hasr, released.tables.values()))
    if released.whole.persons is not None:
        secret = [a.name for a in release.schema.sensitive]
        known = {name: released.of_attribute(name).values_left(name) for name in secret}
        at_risk |= known_rows.figures(known, release.guarantees)
    return finite(at_risk)


def loss_bound(release: "Release") -> dict[str, float]:
    """``gcp_bound``, below which no k-anonymous release of this table can lose, where it is known.

    It is rounded down to two digits: not even the officer needs to be told the source more exactly.
    Nothing is told of linked rows, of other methods than anonymizers, and of very large tables.
    """
    asked = [model.k for model in release.guarantees if isinstance(model, KAnonymity)]
    if release.recoding is None or release.trajectories is not None or not asked:
        return {}
    bound = least_gcp(release.recoding.encoded, max(asked))
    return {} if bound is None else {BOUND: _rounded_down(bound)}


def _rounded_down(bound: float) -> float:
    """To two digits."""
    scale = 10.0 ** (1 - math.floor(math.log10(bound))) if bound > 0 else 1.0
    return math.floor(bound * scale) / scale


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
    """The report of a release as HTML; where it cannot be made, its claims.

    Args:
        release: The release.
        loss: What the data lost, by name.
        risk: How exposed people are, by name.
        table: Table that it was made from.
        job: What was asked of the producer.
        about: More facts about the release, by name.
        budget: State of the budget.
        rows: Number of records; None: those of the release's table.
    """
    title = job.title or release.method

    def report() -> str:
        return render_report(
            release,
            loss,
            risk,
            title=title,
            source_rows=table.rows + suppressed_before(table),
            about={**(about or {}), **codes_of(table)},
            budget=budget,
            rows=rows,
            shifted=table.source.shifted,
            attempts=job.attempts,
        )

    claims = Claims.from_dict(release.manifest())
    return report_or_claims(report, claims, title=title, attempts=job.attempts)


def account(job: Job, promise: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """State of the budget for the report; None if it cannot be read now."""
    return job.attempts.make(
        "what is left of the budget", partial(account_of, need(job.budget, "budget"), promise)
    )
