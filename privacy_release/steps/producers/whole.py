"""Anonymize a table in one piece."""

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.progress import portion
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.figures import counted_in, loss_bound, lost_of, risk_of
from privacy_release.steps.memberships.persons import KnownPersons
from privacy_release.steps.producers.job import Description, Job, ProducedRelease
from privacy_release.steps.producers.kept_safe import kept_safe
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import Table
from privacy_release.workarea.staged import finite

if TYPE_CHECKING:
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema


def anonymized(releaser: "ReleaseMethod", schema: "DataSchema", table: Table, job: Job) -> ProducedRelease:
    """Anonymize a table in one piece."""
    rng = np.random.default_rng(job.seed)
    job.on_progress("reading")
    frame = table.frame()
    job.on_progress(f"running {releaser.key}")
    began = time.perf_counter()
    with portion(0.8):
        if job.past is None:
            release, history = releaser.release(frame, schema, rng), None
        else:
            persons = KnownPersons.of(table.followed_persons)
            release, history = kept_safe(releaser, frame, schema, rng, persons, job.past)
    seconds = time.perf_counter() - began
    job.on_progress("measuring")
    whole = release.of_persons
    loss = job.attempts.make("what the data lost", partial(lost_of, whole, rng)) or finite(release.notes)
    risk = job.attempts.make("how exposed people are", partial(risk_of, whole)) or {}
    if not schema.tables:  # from several tables, no outliers were removed
        loss = counted_in(loss, table.suppressed, len(frame), len(schema.quasi_identifiers))
    claims = Claims.from_dict(release.manifest())
    bound = (
        {}
        if table.suppressed
        else job.attempts.make("the bound of the loss", partial(loss_bound, release)) or {}
    )
    about = _facts_of_tables(claims)
    if history is not None:
        about |= {"earlier releases": history.sentence(release.notes)}
    return ProducedRelease(
        claims=claims,
        schema=release.schema,
        figures=loss | risk | bound,
        sha256=write_private(job.records, parquet_bytes(release.table)),
        description=Description.of(release, job, loss, risk, about),
        seconds=seconds,
        seeded=job.seed is not None,
        positions=release.rows,
        persons=release.persons,
        earlier=None if history is None else list(history.versions),
        history=None if history is None else history.to_dict(release.notes),
        before=None if history is None else history.before,
        waiting=None if history is None else history.waiting,
    )


def _facts_of_tables(claims: Claims) -> dict[str, str]:
    """Return a line about each of several tables for the report."""
    return {
        f"table {name}": f"{own.rows:,} records, {own.suppressed:,} suppressed"
        for name, own in claims.tables.items()
    }
