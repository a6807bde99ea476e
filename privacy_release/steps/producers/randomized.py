"""A release of random answers, one for each record."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.progress import portion
from privacy_engine.randomizers.randomness import Randomness
from privacy_release.budget.random_answers import Answers, draw_answers, paid_answers
from privacy_release.manifest.manifest import Claims
from privacy_release.steps.producers.job import Description, Job, ProducedRelease
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import Table
from privacy_release.workarea.staged import finite

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema


def randomized(releaser: Any, schema: "DataSchema", table: Table, job: Job) -> ProducedRelease:
    """Make a release of random answers. It has no equivalence classes, so there is no risk of linking."""
    began = time.perf_counter()
    with portion(0.8):
        answers = _answers(releaser, schema, table, job)
    release, seconds = answers.release, time.perf_counter() - began
    notes = finite(release.notes)
    return ProducedRelease(
        claims=Claims.from_dict(release.manifest()),
        schema=release.schema,
        figures=notes,
        sha256=write_private(job.records, parquet_bytes(release.table)),
        description=Description.of(release, job, notes),
        seconds=seconds,
        seeded=release.randomization.randomness is Randomness.SEEDED,
        private=True,
        booking=answers.booking,
        replaces=job.memory.replaces if job.memory is not None else None,
    )


def _answers(releaser: Any, schema: "DataSchema", table: Table, job: Job) -> Answers:
    """Draw answers that the budget pays for, or answers that claim no loss."""
    if job.budget is not None and job.loss is not None:
        return paid_answers(
            releaser, table, schema, job.work, job.label, job.budget, job.loss, job.on_progress
        )
    return draw_answers(releaser, table, schema, np.random.default_rng(job.seed))
