"""The records that choices are measured on: from the source, from a public table, or simulated."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privacy_engine.errors import SpecError
from privacy_engine.tables.domains import Storage, public_domains
from privacy_engine.verification.models import KAnonymity
from privacy_engine.vocabulary import Kind, Role
from privacy_release.reports.data import SMALLEST_COUNT
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import Origin, RecordsFileRef, RecordsRef, Table
from privacy_release.workarea.staged import write_schema

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy

SAMPLE = 10_000  # records that choices are measured on, which takes minutes on two cores
MOST_HELD_OUT = 2_000  # largest number of records for testing a classifier


def records_of_table(
    table: Table,
    policy: "ReleasePolicy",
    work: WorkArea,
    *,
    origin: Origin,
    rows: int = SAMPLE,
    target: str | None = None,
    seed: int = 0,
) -> RecordsRef:
    """Draw a random sample of an ingested table, and other records of it that are held out.

    If the schema names a person, all of a person's records stay together. A table whose budget pays for each
    release is released as a whole, so nothing of it can be held out.

    Args:
        table: Table from `ingest`.
        policy: Policy that a release must meet.
        work: Work area for the files.
        origin: Origin of the records.
        rows: Largest number of released records; approximate if persons have several.
        target: Attribute that a classifier predicts, see `RecordsRef`. It must be released unchanged.
        seed: Seed of the sample.

    Raises:
        SpecError: If there are too few records, or there is no such target.
        IntegrityError: If the table changed since it was ingested.
    """
    frame, schema = table.frame(), table.read_schema()
    rng = np.random.default_rng(seed)
    if origin == "booked":
        made_from = frame
        held_out = frame.sample(min(MOST_HELD_OUT, len(frame)), random_state=rng)
    else:
        made_from, held_out = _parted(frame, schema, rows, rng)
    booked = table if origin == "booked" else None
    drawn = _Drawn(made_from=made_from, held_out=held_out, schema=schema, origin=origin, rows=len(frame))
    return drawn.written(policy, work, target, seed, booked)


def simulated_records(
    schema: "DataSchema",
    policy: "ReleasePolicy",
    work: WorkArea,
    *,
    rows: int = SAMPLE,
    target: str | None = None,
    seed: int = 0,
) -> RecordsRef:
    """Simulate records whose values are drawn independently and evenly from the schema's public domains.

    Raises:
        SchemaError: If a domain is not public.
        SpecError: If there is no such target.
    """
    # Each person is simulated once, and no name is invented.
    plain = replace(schema.without_identifiers(), person=None)
    rng, count = np.random.default_rng(seed), rows + min(MOST_HELD_OUT, rows // 4)
    domains = public_domains(plain, {a.name: _storage(a) for a in plain.attributes}, {})
    frame = pd.DataFrame({d.name: d.decode(rng.integers(d.size, size=count), rng) for d in domains})
    parts = {"made_from": frame.iloc[:rows], "held_out": frame.iloc[rows:]}
    return _Drawn(**parts, schema=plain, origin="simulated", rows=rows).written(policy, work, target, seed)


def _storage(attribute: Any) -> Any:
    """Return the type of a column whose values are unknown."""
    if attribute.dates is not None:
        return Storage(attribute.kind.value)
    if attribute.bounds is None:
        return Storage.TEXT
    whole = all(float(bound).is_integer() for bound in attribute.bounds) and not attribute.nullable
    return Storage.WHOLE if whole else Storage.REAL


def _parted(
    frame: "pd.DataFrame", schema: "DataSchema", rows: int, rng: "np.random.Generator"
) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Split records into those that are released, and those held out."""
    whose = pd.factorize(frame[schema.by])[0] if schema.by else np.arange(len(frame))
    persons = int(whose.max(initial=-1)) + 1
    if persons < 10:
        raise SpecError(f"a grid is explored on at least 10 records, got {persons}; use a larger table")
    each = len(frame) / persons
    place = rng.permutation(persons)[whose]  # position of each record's person
    held_out = min(round(MOST_HELD_OUT / each), persons // 5)
    held_out = max(held_out, 1)
    kept = min(persons - held_out, max(round(rows / each), 2))
    return frame[place < kept], frame[place >= persons - held_out]


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """Records in memory on which choices are measured.

    Attributes:
        made_from, held_out: Records to release, and other records of the same population.
        schema: Schema of both.
        origin: Origin of the records.
        rows: Number of records that they were drawn from.
    """

    made_from: "pd.DataFrame"
    held_out: "pd.DataFrame"
    schema: "DataSchema"
    origin: Origin
    rows: int

    def written(
        self,
        policy: "ReleasePolicy",
        work: WorkArea,
        target: str | None,
        seed: int,
        booked: Table | None = None,
    ) -> RecordsRef:
        """Write the records to the work area. `booked` is the table if its budget pays for each release."""
        required = [model.k for model in policy.require if isinstance(model, KAnonymity)]
        return RecordsRef(
            origin=self.origin,
            made_from=_file(work.path("explore-made-from.parquet"), self.made_from),
            held_out=_file(work.path("explore-held-out.parquet"), self.held_out),
            schema=write_schema(work, "explore", self.schema),
            policy=policy.to_dict(),
            target=target_of(self.schema, target),
            source_rows=self.rows,
            smallest_count=max([SMALLEST_COUNT, *required]),
            seed=seed,
            table=booked,
        )


def _file(path: Path, frame: "pd.DataFrame") -> RecordsFileRef:
    data = parquet_bytes(frame.reset_index(drop=True))
    return RecordsFileRef(uri=str(path), rows=len(frame), sha256=write_private(path, data))


def target_of(schema: "DataSchema", target: str | None) -> str | None:
    """Return the attribute that a classifier predicts: the requested or the first suitable sensitive one.

    Raises:
        SpecError: If there is no such attribute, or it is not released unchanged.
    """
    fit = [a.name for a in schema.sensitive if a.kind in (Kind.CATEGORICAL, Kind.ORDINAL)]
    if target is None:
        return next(iter(fit), None)
    others = [a.name for a in schema.attributes if a.role is Role.INSENSITIVE]
    if target not in (*fit, *others):
        raise SpecError(
            f"--target must be one of {', '.join((*fit, *others)) or 'no'} columns, which are released "
            "unchanged; correct it, or remove it"
        )
    return target
