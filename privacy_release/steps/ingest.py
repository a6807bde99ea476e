"""Reading a table about people into a run's work area, without Airflow."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError
from privacy_release.sources.addresses import Source, find_source, without_secret
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.pseudonyms import Naming
from privacy_release.sources.reading import Nulls, check_source
from privacy_release.spec.floor import floor_policy
from privacy_release.steps.history import Identification, Persons
from privacy_release.work.area import WorkArea
from privacy_release.work.engines import LOCAL
from privacy_release.work.parquet import MAX_EXPANSION
from privacy_release.work.references import EngineRef, SourceRef, TableRef
from privacy_release.work.staged import write_schema

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from privacy_engine.tables.schema import DataSchema


def ingest(
    uri: str,
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
) -> TableRef:
    """Read a table about people into the work area, without its identifiers, or with pseudonyms for them.

    Columns that the schema derives from dates are made on the way, and dates are shifted, where it says so.
    Text that will be released is looked through for addresses, numbers and names of persons, and insensitive
    columns for values that are nearly unique: both stop it unless the schema allows them.

    Args:
        uri: Parquet file, folder or glob, as a path or address.
        schema: what the columns must be.
        work: where the copy is kept until teardown.
        columns: to read; None reads all, and each must be in the schema then.
        nulls: `fail` on a null in a quasi-identifier or sensitive attribute that is not nullable, `drop` its
            record, or `keep` it: a null is a value of its own then, as if each attribute were nullable.
        storage_options: for fsspec, where the address is of an object store.
        filesystem: an fsspec file system to use instead, such as that of an `ObjectStoragePath`.
        people: by which identifier the records are known as a person's, for models across releases: keyed
            hashes are kept beside the table, in a file of their own.
        individual: the one identifier that is kept, in the work area alone, for answers that are memoised by
            it.
        label: begins the names of the files; tasks that share a work area need different ones.
        engine: that later steps work on the table with, where it may be larger than memory: it is copied in
            parts, and no step loads it. None, or one of kind `local`: it is held in memory.
        max_expansion: most bytes of records in memory for each byte of their file: no Parquet bomb.
        naming: which release identifiers get pseudonyms for, and dates are shifted for, where the schema
            asks for it.

    Raises:
        SchemaError: if the files cannot be read or do not fit the schema, by column, rule and remedy.
        SecretError: if a key of pseudonyms or shifted dates is missing or too short.
        IntegrityError: if the files change while they are read twice.
        CapacityError: if the disk or the memory is too small.
        SpecError: if its records are to be known by a person in two ways, or the floor policy of the
            deployment cannot be read: nothing could be published then.
    """
    floor_policy()
    large = engine is not None and engine["kind"] != LOCAL
    if people is not None and individual is not None:
        raise SpecError("history is about classes, which random answers have none of; leave history out")
    persons = Persons(people) if people is not None else None
    schema = schema.as_of(datetime.now(UTC).date())
    schema = schema.keeping_nulls() if nulls == "keep" else schema
    source = find_source(uri, storage_options, filesystem)
    check_source(source, schema, columns, max_expansion)
    path = work.path(f"{label}.parquet")
    read = copy_source(
        source,
        schema,
        path,
        columns,
        nulls,
        individual=individual,
        people=persons,
        naming=naming,
        max_expansion=max_expansion,
    )
    table = TableRef(
        uri=str(path),
        rows=read.rows - read.dropped,
        sha256=read.sha256,
        schema=write_schema(work, label, read.schema),
        source=_origin(uri, source, read, schema),
    )
    if engine is not None and large:
        table["engine"] = engine
    if persons is not None:
        table["persons"] = persons.write(work.path(f"{label}.persons.parquet"))
    return table


def _origin(uri: str, source: Source, read: Copied, schema: "DataSchema") -> SourceRef:
    told = SourceRef(
        uri=without_secret(uri),
        files=len(source.files),
        fingerprint=read.fingerprint,
        rows=read.rows,
        dropped=read.dropped,
        identifiers=[a.name for a in schema.identifiers],
    )
    if read.text:
        told["text"] = read.text
    if derived := {a.name: a.derive.to_dict() for a in schema.attributes if a.derive}:
        told["derived"] = derived
    if read.shifted is not None:
        told["shifted"] = read.shifted
    return told
