"""Read a table about people into a run's work area."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.linked import renamed_person, schema_of_tables
from privacy_engine.tables.persons import TABLE
from privacy_release.config.places import scheme_of
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.databases.query import Query
from privacy_release.sources.extracts import Extract, Extracted, extracted
from privacy_release.sources.identifiers import Disguise
from privacy_release.sources.pseudonyms import Naming
from privacy_release.sources.reading import Nulls, check_source
from privacy_release.sources.records import CopyRules
from privacy_release.sources.shares import Workers
from privacy_release.sources.versions import DeltaVersion, IcebergVersion
from privacy_release.spec.classification import classification, classified
from privacy_release.spec.floor import floor_policy
from privacy_release.steps.memberships.persons import Persons
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import LOCAL
from privacy_release.workarea.parquet import MAX_EXPANSION, private_parquet, unchanged_batches
from privacy_release.workarea.people import Identification, write_numbered
from privacy_release.workarea.references import EngineRef, SourceRef, Table
from privacy_release.workarea.staged import write_schema

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from privacy_engine.tables.schema import DataSchema


def ingest(
    uri: str | Extract,
    schema: "DataSchema",
    work: WorkArea,
    *,
    columns: Sequence[str] | None = None,
    nulls: Nulls = "fail",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: "AbstractFileSystem | None" = None,
    individual: str | None = None,
    people: Identification | None = None,
    label: str = "ingest",
    engine: EngineRef | None = None,
    max_expansion: int = MAX_EXPANSION,
    naming: Naming | None = None,
    numbering: Identification | None = None,
    sha256: str | None = None,
) -> Table:
    """Read a table about people into the work area, without its identifiers or with pseudonyms for them.

    Columns that the schema derives from dates are computed, and dates are shifted if the schema says so.
    Text that will be released is searched for addresses, numbers and names of persons, and insensitive
    columns for nearly unique values. Both stop the ingest unless the schema allows them.

    Args:
        uri: Parquet file, folder or glob, as a path or address; or a query, or a version of a table.
        schema: Schema that the columns must match.
        work: Work area in which the copy is kept until teardown.
        columns: Columns to read. None reads all, and then each must be in the schema.
        nulls: `fail` raises on a null in a quasi-identifier or sensitive attribute that is not nullable,
            `drop` drops its record, `keep` treats null as a value, as if each attribute were nullable.
        storage_options: Options for fsspec if the address is in an object store.
        filesystem: File system of fsspec to use instead, such as that of an `ObjectStoragePath`.
        people: Identifier and key by which persons are recognised across releases. Keyed hashes are kept in
            a file next to the table. If the schema names a person, persons also get numbers that are made
            with the same key.
        individual: Identifier that is kept, in the work area only, for answers that are memoised by it.
        label: Prefix of the file names. Tasks that share a work area need different ones.
        engine: Engine that later steps use for the table, which may then be larger than memory: it is copied
            in parts, for many records in parallel by the engine's processes, and no step loads it. None or
            kind `local`: the table is held in memory.
        max_expansion: Largest ratio of bytes in memory to bytes in the file, against decompression bombs.
        naming: Series and release that pseudonyms and date shifts are made for, if the schema requires them.
        numbering: Identifier and key that give a person the same number in every run, for a schedule that
            limits in how many releases a person takes part. Its column must be the schema's person.
        sha256: Required SHA-256 of the only file, or fingerprint of several files as the report of a release
            shows it. None: any.

    Raises:
        SchemaError: If the files cannot be read or do not fit the schema, with column, rule and remedy.
        MissingSourceError: If there are no files.
        SourceError: If a database cannot be reached.
        SecretError: If a key of pseudonyms or shifted dates is missing or too short.
        IntegrityError: If the files change while they are read twice, or do not match `sha256`.
        CapacityError: If the disk or the memory is too small.
        SpecError: If persons are to be recognised in two different ways, or the floor policy of the
            deployment cannot be read, so that nothing could be published.
    """
    floor_policy()
    large = engine is not None and engine.kind != LOCAL
    if people is not None and individual is not None:
        raise SpecError("history is about classes, which random answers have none of; leave history out")
    if numbering is not None and numbering.column != schema.by:
        raise SpecError(
            f"persons who are recognised across releases must be the schema's persons, got "
            f"{numbering.column} and {schema.by or 'none'}; name the same column in both places"
        )
    persons = disguise = None
    if people is not None:
        named = schema[people.column] if people.column in schema.names else None
        persons = Persons(people, exact=named is not None and named.exact is not None)
    if numbering is not None:
        disguise = Disguise(numbering.numbering, exact=schema.exact_persons)
    elif people is not None and schema.by and not schema.linked:
        disguise = Disguise(people.numbering, exact=schema.exact_persons)
    schema = schema.as_of(datetime.now(UTC).date())
    schema = schema.keeping_nulls() if nulls == "keep" else schema
    path = work.path(f"{label}.parquet")
    source = TableSource(uri=uri, columns=columns, storage_options=storage_options, filesystem=filesystem)
    with _found(source, schema, work) as (found, checked):
        footers = check_source(found.source, schema, columns, max_expansion)
        rules = CopyRules(
            columns=columns,
            nulls=nulls,
            individual=individual,
            people=persons,
            naming=naming,
            max_expansion=max_expansion,
            disguise=disguise,
            sha256=sha256,
            types=footers.types,
        )
        workers = None
        if engine is not None and large:
            workers = Workers(engine=engine, rows=footers.rows, work=work)
        read = copy_source(found.source, schema, path, rules, workers=workers)
    table = Table(
        uri=str(read.path),
        rows=read.rows - read.dropped,
        sha256=read.sha256,
        schema=write_schema(work, label, read.schema),
        source=_origin(found, read, schema, checked),
        engine=engine if large else None,
    )
    if numbering is not None and disguise is not None:
        path = work.path(f"{label}.spellings.parquet")
        numbered = write_numbered(numbering.key_id, disguise.form, disguise.spellings, path)
        table = replace(table, numbered=numbered)
    if persons is not None:
        written = persons.write(work.path(f"{label}.persons.parquet"))
        owners = None if disguise is None else disguise.form
        table = replace(table, persons=replace(written, owners=owners))
    return table


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """One of several tables that share a person. The other attributes are as the arguments of `ingest`.

    Attributes:
        person: Column that names the person, if its name differs from the schema's.
    """

    uri: str | Extract
    person: str | None = None
    columns: Sequence[str] | None = None
    nulls: Nulls = "fail"
    storage_options: Mapping[str, Any] | None = None
    filesystem: "AbstractFileSystem | None" = None
    max_expansion: int = MAX_EXPANSION
    sha256: str | None = None


def ingest_tables(
    sources: Mapping[str, TableSource], schema: "DataSchema", work: WorkArea, *, label: str = "ingest"
) -> Table:
    """Read tables that share persons into one file of the work area, each as `ingest` does.

    Their records are stacked, with the name of their table in the column `table_name` and nulls in columns
    that their table does not have. A person has the same number in all tables.

    Args:
        sources: Source of each table of the schema, by name.
        schema: Schema of all tables.
        work: Work area in which the copy is kept until teardown.
        label: Prefix of the file names.

    Raises:
        SchemaError: As `ingest`, naming the table; or if two tables have a column of different types.
        CapacityError, SpecError: As `ingest`.
    """
    floor_policy()
    schema, disguise = schema.as_of(datetime.now(UTC).date()), Disguise(exact=schema.exact_persons)
    read: dict[str, Copied] = {}
    origins: dict[str, SourceRef] = {}
    paths = {name: work.path(f"{label}.{name}.parquet") for name in sources}
    for name, table in sources.items():
        own = renamed_person(schema.of_table(name), schema.by, table.person or schema.by)
        own = own.keeping_nulls() if table.nulls == "keep" else own
        with _of_table(name), _found(table, own, work) as (found, checked):
            footers = check_source(found.source, own, table.columns, table.max_expansion)
            rules = CopyRules(
                columns=table.columns,
                nulls=table.nulls,
                max_expansion=table.max_expansion,
                disguise=disguise,
                sha256=table.sha256,
                types=footers.types,
            )
            read[name] = copy_source(found.source, own, paths[name], rules)
        origins[name] = _origin(found, read[name], own, checked)
    whole = schema_of_tables(
        {name: renamed_person(c.schema, c.schema.by, schema.by) for name, c in read.items()},
        schema.by,
        {table.name: table.carried for table in schema.tables},
    )
    path = work.path(f"{label}.parquet")
    copies = [_Copy(name, paths[name], c.sha256, c.schema.by) for name, c in read.items()]
    sha256 = _stacked(copies, whole, path)
    for own_path in paths.values():
        own_path.unlink()
    return Table(
        uri=str(path),
        rows=sum(copied.rows - copied.dropped for copied in read.values()),
        sha256=sha256,
        schema=write_schema(work, label, whole),
        source=_joined(origins),
    )


@contextmanager
def _found(
    table: TableSource, schema: "DataSchema", work: WorkArea
) -> Iterator[tuple[Extracted, str | None]]:
    """Find the files behind an address. Those of a query or a table version exist only within the block.

    Before a record is read, the columns are checked against the classification of the deployment.
    """
    if isinstance(table.uri, str):
        source = find_source(table.uri, table.storage_options, table.filesystem)
        scheme = scheme_of(table.uri)
        files = [f"{scheme}://{file}" if scheme and "://" not in file else file for file in source.files]
        yield Extracted(source=source, origin={}), classified(schema, addresses=files)
        return
    checked = _classified(table.uri, schema)
    with extracted(table.uri, schema, table.columns, work.create().folder) as found:
        yield found, checked


def _classified(extract: Extract, schema: "DataSchema") -> str | None:
    if isinstance(extract, Query):
        return classified(schema, query=(extract.connection, extract.sql))
    if isinstance(extract, DeltaVersion | IcebergVersion):
        return classified(schema, addresses=[extract.uri])
    if classification() is None:
        return None
    raise SpecError("the classification covers files, versions of tables and queries only; read one of these")


@contextmanager
def _of_table(name: str) -> Iterator[None]:
    """Name the table in errors of the block."""
    try:
        yield
    except SchemaError as error:
        raise type(error)(f"table {name}: {error}") from None


class _Copy(NamedTuple):
    """A copied table: its name, file, SHA-256 of the file, and column of its persons."""

    name: str
    path: Path
    sha256: str
    person: str

    def batches(self, person: str) -> Iterator["pa.RecordBatch"]:
        """Yield its records, with the persons in a column of this name."""
        for batch in unchanged_batches(self.path, self.sha256):
            names = [person if name == self.person else name for name in batch.schema.names]
            yield batch.rename_columns(names)


def _stacked(copies: Sequence[_Copy], schema: "DataSchema", path: Path) -> str:
    """Write copied tables below each other, part by part, and return the SHA-256 of the file.

    Raises:
        SchemaError: If two tables have a column of different types.
    """
    kinds: dict[str, pa.DataType] = {TABLE: pa.string()}
    for copy in copies:
        for column in next(copy.batches(schema.by)).schema:
            if kinds.setdefault(column.name, column.type) != column.type:
                raise SchemaError(
                    f"table {copy.name}: column {column.name!r} must have one type in all tables, got "
                    f"{column.type} and {kinds[column.name]}; cast it in one source, or rename it"
                )
    stacked = pa.schema([(name, kinds[name]) for name in schema.names])
    with private_parquet(path) as file:
        for copy in copies:
            for batch in copy.batches(schema.by):
                cells = {TABLE: pa.repeat(pa.scalar(copy.name), len(batch))}
                cells |= dict(zip(batch.schema.names, batch.columns, strict=True))
                columns = [cells[n] if n in cells else pa.nulls(len(batch), kinds[n]) for n in schema.names]
                file.write(pa.Table.from_arrays(columns, schema=stacked))
    return file.sha256


def _joined(origins: Mapping[str, SourceRef]) -> SourceRef:
    """Return the origin of all tables together, with the origin of each."""
    whole = hashlib.sha256()
    for name, origin in origins.items():
        whole.update(f"{name}\0{origin.fingerprint}\n".encode())
    return SourceRef(
        uri=", ".join(origin.uri for origin in origins.values()),
        files=sum(origin.files for origin in origins.values()),
        fingerprint=whole.hexdigest(),
        rows=sum(origin.rows for origin in origins.values()),
        dropped=sum(origin.dropped for origin in origins.values()),
        identifiers=list(dict.fromkeys(n for origin in origins.values() for n in origin.identifiers)),
        tables=dict(origins),
        guessed=any(origin.guessed for origin in origins.values()),
        derived={name: method for origin in origins.values() for name, method in origin.derived.items()},
    )


def _origin(found: Extracted, read: Copied, schema: "DataSchema", checked: str | None) -> SourceRef:
    return SourceRef(
        uri=found.source.uri,
        files=len(found.source.files),
        fingerprint=read.fingerprint,
        rows=read.rows,
        dropped=read.dropped,
        identifiers=[a.name for a in schema.identifiers],
        text=read.text,
        derived={a.name: a.derive.to_dict() for a in schema.attributes if a.derive},
        shifted=read.shifted,
        classification=checked,
        left_out=list(found.source.left_out),
        unchecked=0 if found.origin else read.unchecked,  # extracts were written here
        **found.origin,
    )
