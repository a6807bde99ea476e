"""A version of a Delta table as a source: the same records whenever it is read, also while others write.

Without a version the newest one is taken as the reading begins, and recorded.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import MissingSourceError, PrivacyEngineError, SchemaError, SpecError
from privacy_engine.foreign import is_panic, translated
from privacy_release.sources.addresses import without_secret
from privacy_release.sources.extracts import Records
from privacy_release.work.parquet import ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class DeltaVersion:
    """A version of a Delta table.

    Attributes:
        uri: of its folder.
        version: its number; None: see `at`.
        at: the version that was the newest at that time, ISO 8601; None as well: the newest one.
        storage_options: for the Delta library, where it is on an object store.
    """

    uri: str
    version: int | None = None
    at: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The address, without secrets."""
        return without_secret(self.uri)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return f"Delta table {self.shown.rstrip('/').rpartition('/')[2]}"

    @contextmanager
    def opened(self, schema: "DataSchema | None", columns: Sequence[str] | None) -> Iterator[Records]:
        """The records, some at a time; see `Extract`.

        Raises:
            MissingSourceError: if there is no such table or version.
            SchemaError: if it cannot be read.
        """
        with self._telling():
            table = self._table()
            dataset = table.to_pyarrow_dataset()
            names = [n for n in dataset.schema.names if columns is None or n in columns]
            yield Records(
                types=dataset.schema.empty_table().select(names).schema.remove_metadata(),
                batches=self._batches(dataset, names),
                told={"version": table.version()},
            )

    def _batches(self, dataset: Any, names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        # one file after the other, in the order of the log, and few of them ahead
        for batch in dataset.to_batches(columns=list(names), batch_size=ROWS, fragment_readahead=1):
            yield batch.replace_schema_metadata(None)

    def _table(self) -> "DeltaTable":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        options = dict(self.storage_options) or None
        try:
            table = DeltaTable(self.uri, storage_options=options)
        except TableNotFoundError:
            raise MissingSourceError(
                f"{self.shown} must be the folder of a Delta table; correct the address, or wait for it"
            ) from None
        wanted = self._wanted(table)
        if wanted > table.version():
            raise MissingSourceError(
                f"{self.name} must have version {wanted}, its newest is {table.version()}; correct the "
                "version, or wait for it"
            )
        if wanted == table.version():
            return table
        try:
            return DeltaTable(self.uri, version=wanted, storage_options=options)
        except Exception as error:  # noqa: BLE001 -- the Delta library has no exception of its own for it
            raise translated(error, f"reading {self.name}") or SchemaError(
                f"{self.name} must still have version {wanted}, and it cannot be read "
                f"({type(error).__name__}): it may have been cleaned up; take a later version"
            ) from None

    def _wanted(self, table: "DeltaTable") -> int:
        if self.at is None:
            return table.version() if self.version is None else self.version
        asked = read_time(self.at).timestamp() * 1000
        older = [commit["version"] for commit in table.history() if commit["timestamp"] <= asked]
        if not older:
            raise MissingSourceError(
                f"{self.name} must have a version of {self.at} or before, and its log begins later; take a "
                "later time"
            )
        return int(max(older))

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn what the Delta library raises into an error that quotes no record and no key."""
        try:
            yield
        except PrivacyEngineError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            raise translated(error, f"reading {self.name}") or SchemaError(
                f"{self.name} could not be read ({type(error).__name__}); check its address and keys, that "
                "no file of the version was removed (vacuum), and that it uses no features such as deletion "
                "vectors: rewrite it without them, or take an export"
            ) from None


def read_time(text: str) -> datetime:
    """A time with its zone, UTC where it names none.

    Raises:
        SpecError: if it is none.
    """
    try:
        found = datetime.fromisoformat(re.sub(r"Z$", "+00:00", text.strip()))
    except ValueError:
        raise SpecError("a time must have ISO's form, such as 2026-11-02T06:00:00Z; correct it") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
