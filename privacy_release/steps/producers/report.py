"""Make the report of a release, with the state of its budget."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from privacy_release.budget.budget import account_of
from privacy_release.reports.data import ReportFacts, claimed_k
from privacy_release.reports.release import render, report_or_claims
from privacy_release.steps.producers.job import Job, ProducedRelease
from privacy_release.workarea.references import Table, need

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema

_DONE = {"report": "kept", "fail": "kept", "set_aside": "set aside", "suppress": "suppressed"}


def report_of(made: ProducedRelease, table: Table, schema: "DataSchema", job: Job) -> str:
    """Return the report of a release as HTML. If it cannot be made, a page of its claims.

    Args:
        made: Release with its description.
        table: Table that the release was made from.
        schema: Schema of the table.
        job: Job of the producer.
    """
    title, own = job.title or made.claims.method, made.description
    about = {} if made.private else facts_of(table)
    budget = _account(made, job)

    def report() -> str:
        data = replace(own.data(), rows=made.claims.rows)
        facts = ReportFacts(
            figures=own.loss,
            risk=own.risk,
            source_rows=table.rows_with_suppressed,
            smallest_count=claimed_k([guarantee.model for guarantee in data.guarantees]),
            about={**about, **own.about, **codes_of(schema)},
            budget=budget,
            shifted=table.source.shifted,
        )
        return render(data, facts, title=title, attempts=job.attempts)

    return report_or_claims(report, made.claims, title=title, attempts=job.attempts)


def facts_of(table: Table) -> dict[str, str]:
    """Return facts about the source for a report of a release that hides no exact count of it."""
    source = table.source
    files = (
        {"hidden or empty files left out": f"{len(source.files_left_out):,}"} if source.files_left_out else {}
    )
    if unchecked := sum(own.unchecked for own in source.of_tables):
        files["files without page checksums"] = f"{unchecked:,} of {source.files:,}"
    return {"source fingerprint": source.fingerprint, **files} | {
        f"outliers by {o.method}": f"{o.flagged:,} of {o.records:,}, {_DONE[o.action]}"
        for o in table.outliers
    }


def codes_of(schema: "DataSchema") -> dict[str, str]:
    """Return descriptions of values that were coded when the table was read."""
    described = {a.name: a.codes_in_words() for a in schema.attributes}
    return {f"codes of {name}": codes for name, codes in described.items() if codes}


def _account(made: ProducedRelease, job: Job) -> dict[str, Any] | None:
    """Return the state of the budget that paid. None if none did, or if it cannot be read now."""
    if not made.is_paid:
        return None
    return job.attempts.make(
        "what is left of the budget",
        partial(account_of, need(job.budget, "budget"), made.promise),
    )
