"""Sources other than folders of Parquet files, whose records are first written to a file of the work area.

From there they are processed like all records (`privacy_release.sources.copying`), so that every rule about
files applies to them, too. Memory: one batch of records. Disk: one more copy, which is removed at the end.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from privacy_engine.engines.parquet import regrouped
from privacy_engine.errors import MissingSourceError, SchemaError
from privacy_release.sources.addresses import Source
from privacy_release.sources.reading import check_arrow
from privacy_release.workarea.parquet import private_parquet

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Records:
    """A stream of records in batches.

    Attributes:
        types: Types of the columns, by name.
        batches: Records in these types.
        origin: Facts about the origin for the manifest, without values and addresses.
    """

    types: "pa.Schema"
    batches: Iterator["pa.RecordBatch"]
    origin: Mapping[str, Any]


class Extract(Protocol):
    """A query, or a version of a table."""

    @property
    def shown(self) -> str:
        """The location, without secrets."""

    @property
    def name(self) -> str:
        """The name in errors, which is part of the fingerprint."""

    def opened(
        self, schema: "DataSchema | None", columns: Sequence[str] | None
    ) -> AbstractContextManager[Records]:
        """Open the records. Columns that are not requested may be missing.

        Args:
            schema: Schema that the columns must match. None if it is not known yet.
            columns: Requested columns. None: all.
        """


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """A source as a file of the work area, and facts about its origin for the manifest."""

    source: Source
    origin: Mapping[str, Any]


@contextmanager
def extracted(
    extract: Extract, schema: "DataSchema | None", columns: Sequence[str] | None, folder: Path
) -> Iterator[Extracted]:
    """Write the records of an extract to a private file, which is removed when the block ends.

    Columns and types are checked against the schema before any record is written.

    Raises:
        SchemaError: If they do not fit, or two columns have the same name.
        MissingSourceError: If there are no records.
        CapacityError: If the disk or the memory is too small.
    """
    from fsspec.implementations.local import LocalFileSystem

    path = folder / f"extract-{secrets.token_hex(4)}.parquet"
    try:
        with extract.opened(schema, columns) as records:
            if repeated := sorted({n for n in records.types.names if records.types.names.count(n) > 1}):
                raise SchemaError(
                    f"{extract.name}: column names must be unique, got {repeated} more than once; rename them"
                )
            if schema is not None:
                check_arrow(records.types, extract.name, schema, columns)
            wanted = [n for n in records.types.names if columns is None or n in columns]
            parts = (pa.Table.from_batches([batch]).select(wanted) for batch in records.batches)
            with private_parquet(path) as file:
                for part in regrouped(parts):
                    file.write(part)
                if not file.rows:
                    raise MissingSourceError(
                        f"{extract.name}: the table is empty: nothing can be released; correct the query or "
                        "the version, or set when_missing to skip or wait for a query"
                    )
        yield Extracted(
            source=Source(
                uri=extract.shown, filesystem=LocalFileSystem(), files=(str(path),), names=(extract.name,)
            ),
            origin=records.origin,
        )
    finally:
        path.unlink(missing_ok=True)
