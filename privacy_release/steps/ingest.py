"""Reading a table about people into a run's work area, without Airflow."""

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
from privacy_release.sources.shares import Workers
from privacy_release.sources.versions import DeltaVersion, IcebergVersion
from privacy_release.spec.classification import classification, classified
from privacy_release.spec.floor import floor_policy
from privacy_release.steps.history import Persons
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
    """Read a table about people into the work area, without its identifiers, or with pseudonyms for them.

    Columns that the schema derives from dates are made on the way, and dates are shifted, where it says so.
    Text that will be released is looked through for addresses, numbers and names of persons, and insensitive
    columns for values that are nearly unique: both stop it unless the schema allows them.

    Args:
        uri: Parquet file, folder or glob, as a path or address; or a query, or a version of a table.
        schema: what the columns must be.
        work: where the copy is kept until teardown.
        columns: to read; None reads all, and each must be in the schema then.
        nulls: `fail` on a null in a quasi-identifier or sensitive attribute that is not nullable, `drop` its
            record, or `keep` it: a null is a value of its own then, as if each attribute were nullable.
        storage_options: for fsspec, where the address is of an object store.
        filesystem: an fsspec file system to use instead, such as that of an `ObjectStoragePath`.
        people: by which identifier the records are known again, for models across releases: keyed hashes are
            kept beside the table, in a file of their own. Where the schema names a person, whose records they
            are is known again, too, by numbers that are made with the same key.
        individual: the one identifier that is kept, in the work area alone, for answers that are memoised by
            it.
        label: begins the names of the files; tasks that share a work area need different ones.
        engine: that later steps work on the table with, where it may be larger than memory: it is copied in
            parts, in shares of its files by the engine's processes where there are many records, and no step
            loads it. None, or one of kind `local`: it is held in memory.
        max_expansion: most bytes of records in memory for each byte of their file: no Parquet bomb.
        naming: which release identifiers get pseudonyms for, and dates are shifted for, where the schema
            asks for it.
        numbering: by what key a person has the same number in every run, for a schedule that bounds in how
            many releases a person takes part; it names the column of the person.
        sha256: what that of the only file must be, or of several files the fingerprint, which the report of a
            release shows; None: anything.

    Raises:
        SchemaError: if the files cannot be read or do not fit the schema, by column, rule and remedy.
        MissingSourceError: if there are none.
        SourceError: if a database cannot be reached.
        SecretError: if a key of pseudonyms or shifted dates is missing or too short.
        IntegrityError: if the files change while they are read twice, or are not those of `sha256`.
        CapacityError: if the disk or the memory is too small.
        SpecError: if its records are to be known by a person in two ways, or the floor policy of the
            deployment cannot be read: nothing could be published then.
    """
    floor_policy()
    large = engine is not None and engine.kind != LOCAL
    if people is not None and individual is not None:
        raise SpecError("history is about classes, which random answers have none of; leave history out")
    if numbering is not None and numbering.column != schema.by:
        raise SpecError(
            f"persons who are to be known again must be those of the schema's person, got {numbering.column} "
            f"for {schema.by or 'none'}; name the same column as both"
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
    told = TableSource(uri=uri, columns=columns, storage_options=storage_options, filesystem=filesystem)
    with _found(told, schema, work) as (found, checked):
        footers = check_source(found.source, schema, columns, max_expansion)
        read = copy_source(
            found.source,
            schema,
            path,
            columns,
            nulls,
            individual=individual,
            people=persons,
            naming=naming,
            max_expansion=max_expansion,
            disguise=disguise,
            types=footers.types,
            workers=Workers(engine=engine, rows=footers.rows, work=work)
            if engine is not None and large
            else None,
            sha256=sha256,
        )
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
    """What is read of one of several tables that share a person; as the arguments of `ingest`.

    Attributes:
        person: the column that names the person, where it is called otherwise than in the schema.
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
    """Read tables that share persons into one file of the work area, as `ingest` reads each.

    Their records stand below each other, with the name of their table in the column `table_name`, and nulls
    for what their table does not have. A person has the same number in all of them.

    Args:
        sources: of each table of the schema.
        schema: of all of them.
        work: where the copy is kept until teardown.
        label: begins the names of the files.

    Raises:
        SchemaError: as `ingest`, naming the table; or if two tables have a column of different types.
        CapacityError, SpecError: as `ingest`.
    """
    floor_policy()
    schema, disguise = schema.as_of(datetime.now(UTC).date()), Disguise(exact=schema.exact_persons)
    read: dict[str, Copied] = {}
    origins: dict[str, SourceRef] = {}
    paths = {name: work.path(f"{label}.{name}.parquet") for name in sources}
    for name, told in sources.items():
        own = renamed_person(schema.of_table(name), schema.by, told.person or schema.by)
        own = own.keeping_nulls() if told.nulls == "keep" else own
        with _of_table(name), _found(told, own, work) as (found, checked):
            footers = check_source(found.source, own, told.columns, told.max_expansion)
            read[name] = copy_source(
                found.source,
                own,
                paths[name],
                told.columns,
                told.nulls,
                max_expansion=told.max_expansion,
                disguise=disguise,
                types=footers.types,
                sha256=told.sha256,
            )
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
def _found(told: TableSource, schema: "DataSchema", work: WorkArea) -> Iterator[tuple[Extracted, str | None]]:
    """The files behind an address; of a query or a version of a table one that goes with the block.

    Before a record is read, its columns are held against the classification of the deployment.
    """
    if isinstance(told.uri, str):
        source = find_source(told.uri, told.storage_options, told.filesystem)
        scheme = scheme_of(told.uri)
        files = [f"{scheme}://{file}" if scheme and "://" not in file else file for file in source.files]
        yield Extracted(source=source, told={}), classified(schema, addresses=files)
        return
    checked = _classified(told.uri, schema)
    with extracted(told.uri, schema, told.columns, work.create().folder) as found:
        yield found, checked


def _classified(extract: Extract, schema: "DataSchema") -> str | None:
    if isinstance(extract, Query):
        return classified(schema, query=(extract.connection, extract.sql))
    if isinstance(extract, DeltaVersion | IcebergVersion):
        return classified(schema, addresses=[extract.uri])
    if classification() is None:
        return None
    raise SpecError("the classification knows files, versions of tables and queries only; read one of these")


@contextmanager
def _of_table(name: str) -> Iterator[None]:
    """Say which table an error is about."""
    try:
        yield
    except SchemaError as error:
        raise type(error)(f"table {name}: {error}") from None


class _Copy(NamedTuple):
    """A copied table: its name, file, the file's sha256, and the column of its persons."""

    name: str
    path: Path
    sha256: str
    person: str

    def batches(self, person: str) -> Iterator["pa.RecordBatch"]:
        """Its records, with the persons in a column of this name."""
        for batch in unchanged_batches(self.path, self.sha256):
            names = [person if name == self.person else name for name in batch.schema.names]
            yield batch.rename_columns(names)


def _stacked(copies: Sequence[_Copy], schema: "DataSchema", path: Path) -> str:
    """Write copied tables below each other, part by part; the sha256 of the file.

    Raises:
        SchemaError: if two tables have a column of different types.
    """
    kinds: dict[str, pa.DataType] = {TABLE: pa.string()}
    for copy in copies:
        for column in next(copy.batches(schema.by)).schema:
            if kinds.setdefault(column.name, column.type) != column.type:
                raise SchemaError(
                    f"table {copy.name}: column {column.name!r} must have one type in all tables, got "
                    f"{column.type} and {kinds[column.name]}; cast it in one source, or rename it"
                )
    told = pa.schema([(name, kinds[name]) for name in schema.names])
    with private_parquet(path) as file:
        for copy in copies:
            for batch in copy.batches(schema.by):
                cells = {TABLE: pa.repeat(pa.scalar(copy.name), len(batch))}
                cells |= dict(zip(batch.schema.names, batch.columns, strict=True))
                columns = [cells[n] if n in cells else pa.nulls(len(batch), kinds[n]) for n in schema.names]
                file.write(pa.Table.from_arrays(columns, schema=told))
    return file.sha256


def _joined(origins: Mapping[str, SourceRef]) -> SourceRef:
    """Where the records of all tables came from, and those of each."""
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
        derived={name: told for origin in origins.values() for name, told in origin.derived.items()},
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
        unchecked=0 if found.told else read.unchecked,  # else of files that were written here
        **found.told,
    )
