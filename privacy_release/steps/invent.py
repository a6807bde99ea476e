"""Prepare a table without records from a schema: what a structure file is made of. No source is read."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from privacy_engine.engines.frames import to_arrow
from privacy_engine.structure.invented import invented
from privacy_release.sources.pseudonyms import Naming, PseudonymKey, Pseudonyms
from privacy_release.sources.reading import kept_schema
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import private_parquet
from privacy_release.workarea.references import SourceRef, Table
from privacy_release.workarea.staged import write_schema

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema

_NO_KEY = PseudonymKey(bytes(32))  # the pseudonyms are invented, so no key can show whose they are


def invent(
    schema: "DataSchema", work: WorkArea, *, types: Mapping[str, str] | None = None, label: str = "ingest"
) -> Table:
    """Return a table without records, in the form in which `ingest` or `ingest_tables` would copy one.

    Args:
        schema: Schema of the source, which need not exist.
        work: Work area in which the file is kept until teardown.
        types: Type of a column, see `Structure`.
        label: Prefix of the file names.

    Raises:
        SchemaError: If the schema leaves the values of a column to the records.
    """
    naming = Naming(series="", release="", key_of=lambda _: _NO_KEY)
    own = schema.as_of(datetime.now(UTC).date())
    kept = kept_schema(Pseudonyms(own, naming).released(own)).ingested().coded()
    # The columns of one invented record have the types. The record itself is not written.
    size = max(len(kept.tables), 1)
    columns = to_arrow(invented(kept, size, np.random.default_rng(0), types)).schema
    path = work.path(f"{label}.parquet")
    with private_parquet(path) as file:
        file.write(pa.Table.from_batches([], columns.remove_metadata()))
    return Table(
        uri=str(path),
        rows=0,
        sha256=file.sha256,
        schema=write_schema(work, label, kept),
        source=SourceRef(
            uri="",
            files=0,
            fingerprint="",
            rows=0,
            dropped=0,
            identifiers=[a.name for a in schema.identifiers],
            derived={a.name: a.derive.to_dict() for a in schema.attributes if a.derive},
        ),
    )
