"""Make a structure file: invented records in the columns of another release."""

import hashlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from privacy_engine.engines.frames import to_frame
from privacy_engine.structure.structure import Structure
from privacy_engine.verification.verify import Finding
from privacy_release.manifest.manifest import Claims
from privacy_release.steps.producers.job import Description, Job, ProducedRelease
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import StagedRelease, Table

if TYPE_CHECKING:
    from privacy_engine.release import Release
    from privacy_engine.tables.schema import DataSchema

SEED = 0  # the choices need not be secret, so that anyone can make the file again


def structured(releaser: Structure, schema: "DataSchema", table: Table, job: Job) -> ProducedRelease:
    """Make a structure file. Only the types of the table's columns are read, no record."""
    began = time.perf_counter()
    columns = pq.read_schema(table.first_path())
    types = {str(n): str(kind) for n, kind in to_frame(columns.empty_table()).dtypes.items()}
    seed = SEED if job.seed is None else job.seed
    release = releaser.with_types(types, schema).invent(schema, np.random.default_rng(seed))
    seconds = time.perf_counter() - began
    made = release.manifest() | {"suppressed": 0, "classes": None}
    claims = Claims.from_dict(made | {"parameters": {**release.parameters, "seed": seed}})
    shown = {"method": releaser.shown.key, "parameters": dict(releaser.like), "loss": None}
    plain = replace(release, recoding=None, recodings={}, parameters=dict(claims.parameters))
    return ProducedRelease(
        claims=claims,
        schema=release.schema,
        figures={},
        sha256=write_private(job.records, parquet_bytes(release.table)),
        description=Description.of(plain, job, {}),
        seconds=seconds,
        seeded=True,
        private=True,
        persons=release.persons,
        described=Claims.from_dict(made | shown),
    )


def made_again(staged: StagedRelease) -> Finding:
    """Return the finding on whether the staged bytes follow from schema, parameters and seed.

    This proves a privacy loss of 0: records that no table went into say nothing about the people in one.
    """
    sha256 = _sha256_of_invented(staged)
    same = sha256 == staged.sha256
    return Finding(
        rule="structure: the records follow from schema, parameters and seed",
        threshold=1,
        measured=float(same),
        passed=same,
        failing_rows=0 if same else staged.rows,
        remedy="" if same else "start a new run: these records are others than those that were invented",
    )


def _sha256_of_invented(staged: StagedRelease) -> str | None:
    """Return the SHA-256 of records that are invented again. None if the method invents none."""
    if staged.method != Structure.key:
        return None
    parameters = dict(staged.read_manifest().parameters)
    seed = int(parameters.pop("seed"))
    schema = staged.read_source_schema()
    release: Release = Structure(**parameters).invent(schema, np.random.default_rng(seed))
    return hashlib.sha256(parquet_bytes(release.table)).hexdigest()
