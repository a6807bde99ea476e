"""Make a release of records that are drawn from a differentially private model."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.engines.frames import to_arrow
from privacy_engine.progress import advance, portion
from privacy_release.budget.budget import measured_model
from privacy_release.manifest.manifest import Claims
from privacy_release.steps.producers.job import Description, Job, ProducedRelease
from privacy_release.workarea.parquet import private_parquet
from privacy_release.workarea.references import Table, need
from privacy_release.workarea.staged import finite

if TYPE_CHECKING:
    from privacy_engine.release import Release
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.synthesizers.synthesizer import Synthesizer
    from privacy_engine.tables.schema import DataSchema


def synthesized(releaser: Any, schema: "DataSchema", table: Table, job: Job) -> ProducedRelease:
    """Draw records from the booked model. All figures derive from the model, none from the source."""
    budget = need(job.budget, "budget")
    with portion(0.8):
        measured = measured_model(releaser, table, schema, budget, job.on_progress)
    job.on_progress("sampling")
    began = time.perf_counter()
    rng = np.random.default_rng(measured.seed if job.seed is None else job.seed)
    with portion(0.15):
        drawn = draw_parts(releaser, measured.model, schema, rng, job.records)
    seconds = time.perf_counter() - began
    release, notes = drawn.release, finite(drawn.release.notes)
    return ProducedRelease(
        claims=Claims.from_dict(release.manifest() | {"rows": drawn.rows}),
        schema=release.schema,
        figures=notes,
        sha256=drawn.sha256,
        description=Description.of(release, job, notes),
        seconds=seconds,
        seeded=job.seed is not None,
        private=True,
        booking=measured.booking,
        model=measured.text,
        mechanisms=[spend.to_dict() for spend in measured.model.spends],
    )


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A release whose records are in a file and were never in memory as a whole.

    Attributes:
        release: Release with the first part of the records as its table.
        rows: Number of records in the file.
        sha256: SHA-256 of the file.
    """

    release: "Release"
    rows: int
    sha256: str


def draw_parts(
    method: "Synthesizer",
    model: "SynthesizerModel",
    schema: "DataSchema",
    rng: "np.random.Generator",
    path: Path,
    size: int | None = None,
) -> Drawn:
    """Draw the same records as `Synthesizer.release_of` if one part is enough, otherwise as many in parts.

    Args:
        method: Method that measured the model.
        model: Model to draw from.
        schema: Schema that the model was measured with.
        rng: Random generator of the drawing.
        path: Path of the file.
        size: Largest number of records in a part. None: the synthesizer's default.
    """
    from privacy_engine.synthesizers.synthesizer import PART

    all_rows = model.rows if method.rows is None else method.rows
    release, others = method.release_parts(model, schema, rng, size or PART)
    with private_parquet(path) as file:
        file.write(to_arrow(release.table))
        for part in others:
            advance(file.rows / all_rows)
            file.write(to_arrow(part))
    return Drawn(release=release, rows=file.rows, sha256=file.sha256)
