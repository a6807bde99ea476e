"""A version of a Delta or Iceberg table as a source: always the same records, even while others write.

Without a version, the newest one when reading begins is used and recorded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from privacy_engine.errors import MissingSourceError, PrivacyEngineError, SchemaError, SpecError
from privacy_engine.foreign import is_panic, translated
from privacy_release.config.places import require_allowed, require_below
from privacy_release.sources.addresses import without_secret
from privacy_release.sources.extracts import Records
from privacy_release.workarea.parquet import ROWS

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema

_UNDERSTOOD = frozenset({"timestampNtz"})  # reader features of Delta that are read correctly
_READER_VERSION = 3  # newest reader version of Delta's protocol, which lists its features


@dataclass(frozen=True, kw_only=True)
class _TableVersion:
    """A version of a table whose format keeps earlier versions.

    Attributes:
        uri: Address of the table, see the subclasses.
        version: Number of the version, or snapshot. None: see `at`.
        at: Time, ISO 8601, whose newest version is read. If also None: the newest version.
        storage_options: Options for the library of the format, if the files are in an object store.
    """

    uri: str
    version: int | None = None
    at: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    format: ClassVar[str]

    @property
    def shown(self) -> str:
        """The address, without secrets."""
        return without_secret(self.uri)

    @property
    def name(self) -> str:
        """The format, and the last part of the address."""
        return f"{self.format} table {self.shown.rstrip('/').rpartition('/')[2]}"


@dataclass(frozen=True, kw_only=True)
class DeltaVersion(_TableVersion):
    """A version of a Delta table. `uri` is the address of its folder."""

    format = "Delta"

    @contextmanager
    def opened(self, schema: "DataSchema | None", columns: Sequence[str] | None) -> Iterator[Records]:
        """Open the records in batches; see `Extract`.

        Raises:
            MissingSourceError: If there is no such table or version.
            SchemaError: If it cannot be read.
        """
        with _safe_errors(self.name):
            require_allowed(self.uri)
            table = self._table()
            for file in table.file_uris():
                require_below(file, self.uri, f"each file of {self.name}")
            require_understood(table, self.name)
            dataset = table.to_pyarrow_dataset()
            _require_known_columns(dataset, self.name)
            names = [n for n in dataset.schema.names if columns is None or n in columns]
            yield Records(
                types=dataset.schema.empty_table().select(names).schema.remove_metadata(),
                batches=self._batches(dataset, names),
                origin={"version": table.version()},
            )

    def _batches(self, dataset: Any, names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        # one file after the other, in the order of the log, with little read-ahead
        for batch in dataset.to_batches(columns=list(names), batch_size=ROWS, fragment_readahead=1):
            yield batch.replace_schema_metadata(None)

    def _table(self) -> "DeltaTable":
        options = dict(self.storage_options) or None
        try:
            table = DeltaTable(self.uri, storage_options=options)
        except TableNotFoundError:
            raise MissingSourceError(
                f"{self.shown} must be the folder of a Delta table; correct the address, or wait for it"
            ) from None
        except DeltaError as error:
            # only the name of a feature is shown of the library's text, which may quote anything
            if found := re.search(
                r"[Ff]eature '?([A-Za-z][A-Za-z0-9.-]{0,60})'? is not supported", str(error)
            ):
                raise _not_understood(self.name, [found[1]]) from None
            raise
        wanted = self._wanted(table)
        if wanted > table.version():
            raise MissingSourceError(
                f"{self.name} must have version {wanted}, but its newest is {table.version()}; correct the "
                "version, or wait for it"
            )
        if wanted == table.version():
            return table
        try:
            return DeltaTable(self.uri, version=wanted, storage_options=options)
        except Exception as error:  # noqa: BLE001 -- the Delta library has no specific exception for it
            raise translated(error, f"reading {self.name}") or SchemaError(
                f"{self.name} must still have version {wanted}, but it cannot be read "
                f"({type(error).__name__}): it may have been cleaned up; use a later version"
            ) from None

    def _wanted(self, table: "DeltaTable") -> int:
        if self.at is None:
            return table.version() if self.version is None else self.version
        moment = read_time(self.at).timestamp() * 1000
        older = [commit["version"] for commit in table.history() if commit["timestamp"] <= moment]
        if not older:
            raise MissingSourceError(
                f"{self.name} must have a version of {self.at} or before, but its log begins later; use a "
                "later time"
            )
        return int(max(older))


@dataclass(frozen=True, kw_only=True)
class IcebergVersion(_TableVersion):
    """A snapshot of an Iceberg table.

    `uri` is the address of a metadata file of the table (`.../00012-....metadata.json`), or of its folder if
    it has a `version-hint.text`; or `iceberg://CATALOG/namespace.table`, for a catalog in pyiceberg's own
    configuration.
    """

    format = "Iceberg"

    @contextmanager
    def opened(self, schema: "DataSchema | None", columns: Sequence[str] | None) -> Iterator[Records]:
        """Open the records in batches; see `Extract`. pyiceberg applies deletes and evolved columns.

        Raises:
            SpecError: If pyiceberg is not installed.
            MissingSourceError: If there is no such table or snapshot.
            SchemaError: If it cannot be read.
        """
        with _safe_errors(self.name):
            table = self._table()
            snapshot = self._wanted(table)
            names = [n for n in table.schema().column_names if columns is None or n in columns]
            scan = table.scan(snapshot_id=snapshot, selected_fields=tuple(names))
            self._require_inside(table, snapshot, scan)
            reader = scan.to_arrow_batch_reader()
            types = pa.schema([(column.name, column.type) for column in reader.schema])
            yield Records(
                types=types,
                batches=(pa.RecordBatch.from_arrays(batch.columns, schema=types) for batch in reader),
                origin={"version": snapshot},
            )

    def _table(self) -> Any:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NoSuchTableError
        except ImportError:
            raise SpecError(
                "format: iceberg needs pyiceberg, which is not installed; install privacy-release[iceberg]"
            ) from None
        catalog = re.fullmatch(r"iceberg://([^/]+)/(.+)", self.uri)
        try:
            if catalog is None:
                require_allowed(self.uri)
                return _from_metadata(self.uri, dict(self.storage_options))
            known: Any = load_catalog(catalog[1], **self.storage_options)
            loaded = known._load_file_io
            # The table's properties come together with the catalog's here, and could name classes to import.
            known._load_file_io = lambda properties=None, location=None: loaded(
                _without_code(properties or {}), location
            )
            return known.load_table(catalog[2])
        except (FileNotFoundError, NoSuchTableError):
            raise MissingSourceError(
                f"{self.shown} must be a metadata file of an Iceberg table, its folder with a "
                "version-hint.text, or iceberg://CATALOG/namespace.table; correct it, or wait for the table"
            ) from None

    def _require_inside(self, table: Any, snapshot: int, scan: Any) -> None:
        """Raise if files are outside of the table's folder: its metadata may contain any address."""
        folder = table.metadata_location.rpartition("/")[0].rpartition("/")[0]
        found = table.snapshot_by_id(snapshot)
        require_below(found.manifest_list, folder, f"the list of manifests of {self.name}")
        for manifest in found.manifests(table.io):
            require_below(manifest.manifest_path, folder, f"each manifest of {self.name}")
        for task in scan.plan_files():
            for file in (task.file, *task.delete_files):
                require_below(file.file_path, folder, f"each file of {self.name}")

    def _wanted(self, table: Any) -> int:
        if self.at is not None:
            found = table.snapshot_as_of_timestamp(round(read_time(self.at).timestamp() * 1000))
        elif self.version is not None:
            found = table.snapshot_by_id(self.version)
        else:
            found = table.current_snapshot()
        if found is None:
            which = self.at or (self.version if self.version is not None else "at all")
            raise MissingSourceError(
                f"{self.name} must have a snapshot {which}, but it has none; correct the version or time, or "
                "wait for it"
            )
        return int(found.snapshot_id)


def _from_metadata(uri: str, options: dict[str, str]) -> Any:
    """Open a table by its metadata file, with only the given options: not with its own properties."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import StaticTable

    if not uri.endswith(".metadata.json"):
        uri = StaticTable._metadata_location_from_version_hint(uri, options)
    io = load_file_io(options, location=uri)
    metadata = FromInputFile.table_metadata(io.new_input(uri))
    _without_code(metadata.properties)
    name = "static-table"
    return StaticTable((name, uri), metadata, uri, io, NoopCatalog(name))


def _without_code(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties of a table, if none names a class, which pyiceberg would import and run.

    Raises:
        SchemaError: Naming those that do.
    """
    if named := sorted(name for name in properties if name.endswith(("impl", "-class", ".class"))):
        raise SchemaError(
            f"the table must not name code in its properties, got {', '.join(named)}: it would be imported "
            "and run here; remove these properties"
        )
    return properties


@contextmanager
def _safe_errors(name: str) -> Iterator[None]:
    """Turn errors of the table libraries into an error that quotes no record and no key."""
    try:
        yield
    except PrivacyEngineError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise translated(error, f"reading {name}") or SchemaError(
            f"{name} could not be read ({type(error).__name__}); check its address and keys, that no file of "
            "the version was removed (vacuum), and that it uses no features such as deletion vectors: "
            "rewrite it without them, or use an export"
        ) from None


def require_understood(table: "DeltaTable", name: str) -> None:
    """Raise if a Delta table has a feature that changes the meaning of its files and is not read correctly.

    Column mapping is judged by the table's configuration: tables of reader version 2 list no features, and
    the Delta library reads the values of renamed columns as nulls.

    Args:
        table: Version of the table.
        name: Name of the table in the error.

    Raises:
        SchemaError: Naming the features.
    """
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - _UNDERSTOOD
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if protocol.min_reader_version > _READER_VERSION:
        features.add(f"reader version {protocol.min_reader_version}")
    if features:
        raise _not_understood(name, features)


def _require_known_columns(dataset: Any, name: str) -> None:
    """Raise if data files have columns that the table does not have, which may be read as nulls."""
    known = set(dataset.schema.names)
    unknown = [len(set(part.physical_schema.names) - known) for part in dataset.get_fragments()]
    if files := sum(map(bool, unknown)):
        raise SchemaError(
            f"{name} must name the columns like its data files, but {files} files have up to {max(unknown)} "
            "columns that it does not know: their values would be read as nulls; rewrite the table, or use "
            "an export"
        )


def _not_understood(name: str, features: Iterable[str]) -> SchemaError:
    return SchemaError(
        f"{name} must use no reader features except {', '.join(sorted(_UNDERSTOOD))}, got "
        f"{', '.join(sorted(features))}: its files cannot be read correctly without supporting them; rewrite "
        "the table without them (ALTER TABLE ... DROP FEATURE, CREATE TABLE ... AS SELECT), or use an export"
    )


def version_of(
    form: str, uri: str, version: int | None, at: str | None, options: Mapping[str, str] | None = None
) -> DeltaVersion | IcebergVersion:
    """Return a version of a `delta` or `iceberg` table. `options` are for the format's library."""
    kind = DeltaVersion if form == "delta" else IcebergVersion
    return kind(uri=uri, version=version, at=at, storage_options=options or {})


def read_time(text: str) -> datetime:
    """Parse a time with its zone, UTC if it names none.

    Raises:
        SpecError: If it is not a time.
    """
    try:
        found = datetime.fromisoformat(re.sub(r"Z$", "+00:00", text.strip()))
    except ValueError:
        raise SpecError("a time must have ISO's form, such as 2026-11-02T06:00:00Z; correct it") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
