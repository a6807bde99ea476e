"""Reading Parquet tables about people: what is hashed is what is parsed, and identifiers stay in the source.

A file is looked at twice. First its footer alone: columns and types are held against the schema before any
record is read. Then its bytes, once: the fingerprint and the records come from the same bytes. Memory: one
file and the table.

Which Arrow types an attribute of a schema may have, and what to do about the others.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from privacy_engine.errors import SchemaError
from privacy_release.sources.addresses import Source, partition_values, reading, without_values

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    from privacy_engine.tables.schema import Attribute, DataSchema

Nulls = Literal["fail", "drop"]
_INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps a row index: no column of the table


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """A table as it was read.

    Attributes:
        table: the records, without identifiers and without dropped records.
        fingerprint: sha256 over name, size and sha256 of every file: changed data have another one.
        rows: records in the source.
        dropped: records left out because of nulls.
    """

    table: "pd.DataFrame"
    fingerprint: str
    rows: int
    dropped: int


def check_source(source: Source, schema: "DataSchema", columns: Sequence[str] | None = None) -> None:
    """Hold the columns and types of every file against the schema; reads footers only.

    Args:
        source: the files.
        schema: what the columns must be; identifiers must be there, too.
        columns: the columns to look at; None: all.

    Raises:
        SchemaError: naming file, column, rule and remedy.
    """
    import pyarrow.parquet as pq

    first = None
    for file, name in zip(source.files, source.names, strict=True):
        with reading(name), source.filesystem.open(file, "rb") as stream:
            found = with_partitions(pq.read_schema(stream).remove_metadata(), name)
        check_arrow(found, name, schema, columns)
        first = found if first is None else first
        check_equal(first, found, source.names[0], name)


def read_source(
    source: Source,
    schema: "DataSchema",
    columns: Sequence[str] | None = None,
    nulls: Nulls = "fail",
    individual: str | None = None,
) -> Ingested:
    """The records of all files, in the order of the file names.

    Raises:
        SchemaError: if a file is no whole Parquet file, the records do not fit the schema, or the individual
            is no identifier of it.
    """
    kept = kept_schema(schema, individual)
    digest = hashlib.sha256()
    parts = []
    for name, data in _contents(source):
        opened, found = _opened(name, data)
        # the file may have been replaced since its footer was checked
        check_arrow(found, name, schema, columns)
        parts.append(_columns(name, opened, kept.names))
        check_equal(parts[0].schema, parts[-1].schema, source.names[0], name)
        digest.update(f"{name}\0{len(data)}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    table = _joined(parts)
    rows = len(table)
    if nulls == "drop":
        table = table.dropna(subset=never_null(kept)).reset_index(drop=True)
        require_left(rows, len(table))
    kept.check(table)
    return Ingested(table=table, fingerprint=digest.hexdigest(), rows=rows, dropped=rows - len(table))


def kept_schema(schema: "DataSchema", individual: str | None = None) -> "DataSchema":
    """The schema of what is read: without identifiers, but for the one that names an individual.

    Raises:
        SchemaError: if that is no identifier of the schema.
    """
    names = [a.name for a in schema.identifiers]
    if individual is None:
        return schema.without_identifiers()
    if individual not in names:
        raise SchemaError(
            f"the individual must be named by an identifier of the schema, {names}, got {individual!r}: give "
            "its column the role identifier"
        )
    return schema.select([name for name in schema.names if name == individual or name not in names])


def _contents(source: Source) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each file, one at a time."""
    for file, name in zip(source.files, source.names, strict=True):
        with reading(name):
            data = source.filesystem.cat_file(file)
        yield name, data


def _opened(name: str, data: bytes) -> "tuple[pq.ParquetFile, pa.Schema]":
    """A Parquet file in memory, and its columns with those of its folders."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(name):
        opened = pq.ParquetFile(pa.BufferReader(data))
        return opened, with_partitions(opened.schema_arrow.remove_metadata(), name)


def _columns(name: str, opened: "pq.ParquetFile", wanted: Sequence[str]) -> "pa.Table":
    """Columns of a file, in the given order."""
    stored = opened.schema_arrow.names
    with reading(name):
        table = opened.read(columns=[c for c in wanted if c in stored], use_pandas_metadata=False)
        return wanted_columns(table, name, wanted)


def wanted_columns(table: "pa.Table", name: str, wanted: Sequence[str]) -> "pa.Table":
    """Records of a file, with the columns of its folders, in the given order and in plain types."""
    import pyarrow as pa

    from privacy_engine.engines.frames import plain_columns

    stored = table.column_names
    for column, value in partition_values(name).items():
        if column in wanted and column not in stored:
            table = table.append_column(column, pa.repeat(pa.scalar(value, pa.string()), len(table)))
    return plain_columns(table, wanted)


def with_partitions(stored: "pa.Schema", name: str) -> "pa.Schema":
    """The columns of a file and of its folders; a column of the file is the truer one."""
    import pyarrow as pa

    for column in partition_values(name):
        if column not in stored.names:
            stored = stored.append(pa.field(column, pa.string()))
    return stored


def _joined(parts: "Sequence[pa.Table]") -> "pd.DataFrame":
    import pyarrow as pa

    from privacy_engine.engines.frames import to_frame

    return to_frame(pa.concat_tables(parts))


def check_arrow(found: "pa.Schema", name: str, schema: "DataSchema", columns: Sequence[str] | None) -> None:
    """Columns and types of one file."""
    if columns is not None:
        schema.check_columns(columns)
    wanted = set(schema.names if columns is None else columns)
    present = [c for c in found.names if c in wanted or (columns is None and not _INDEX.fullmatch(c))]
    try:
        schema.check_columns(present)
    except SchemaError as error:
        raise SchemaError(f"{without_values(name)}: {error}") from None
    problems = [
        f"{attribute.name}: {problem}"
        for attribute in schema.attributes
        if (problem := problem_of_type(found.field(attribute.name).type, attribute))
    ]
    if problems:
        raise SchemaError(f"{without_values(name)}: {'; '.join(problems)}")


def check_equal(first: "pa.Schema", other: "pa.Schema", first_name: str, name: str) -> None:
    """All files of a source must have the same types: a cast would change values in silence."""
    types = {f.name: f.type for f in first}
    differing = [f.name for f in other if f.name in types and types[f.name] != f.type]
    missing = sorted(set(first.names) ^ set(other.names))
    if differing or missing:
        raise SchemaError(
            f"all files must have the same columns and types; {without_values(first_name)} and "
            f"{without_values(name)} differ in "
            f"{sorted({*differing, *missing})}: write them alike, or read them as two sources"
        )


def never_null(schema: "DataSchema") -> list[str]:
    """The columns without whose value a record cannot be released: those of attributes not nullable."""
    return [a.name for a in (*schema.quasi_identifiers, *schema.sensitive) if not a.nullable]


def require_left(rows: int, left: int) -> None:
    """Refuse a table of which dropping nulls leaves nothing.

    Raises:
        SchemaError: if there were records and none is left.
    """
    if rows and not left:
        raise SchemaError(
            f"all {rows} records have a null in a quasi-identifier or sensitive one: mend the source"
        )


def problem_of_type(kind: "pa.DataType", attribute: "Attribute") -> str | None:
    """What is wrong with the type of a column, and the remedy; None if it fits.

    Identifiers may have any type: they are not read.
    """
    import pyarrow.types as t

    from privacy_engine.tables.schema import Role

    if attribute.role is Role.IDENTIFIER:
        return None
    if t.is_dictionary(kind):
        kind = kind.value_type
    number = t.is_integer(kind) or t.is_floating(kind)
    if attribute.ordered and attribute.categories is None:
        if number:
            return None
        remedy = "cast it to double" if t.is_decimal(kind) or _is_text(kind) else "cast it to a number"
        rule = f"must be a number because it is {attribute.kind.value}"
        return f"{rule}, got {kind}: {remedy}, or make it categorical"
    if _is_text(kind) or number or t.is_boolean(kind):
        return None
    if attribute.role is Role.INSENSITIVE and (
        t.is_date(kind) or t.is_timestamp(kind) or t.is_decimal128(kind)
    ):
        return None
    return f"must be text, a number or a truth value, got {kind}: cast it in the source, or do not read it"


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))
