"""Read the rows of a query through ADBC, as Arrow from the driver on, in the types of the database.

An address such as `adbc+postgresql://user:password@host/name` names the package `adbc_driver_postgresql`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from privacy_engine.errors import PrivacyEngineError, SourceError, SpecError
from privacy_release.sources.databases.errors import translated_error
from privacy_release.sources.databases.types import (
    Types,
    array_of,
    attribute_of,
    by_schema,
    expected,
    mixed,
    numeric,
    require_short,
    unfit,
)
from privacy_release.sources.extracts import Records

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from privacy_engine.tables.schema import DataSchema

_PREFIX = "adbc+"
_POSTGRES = "postgresql"
# Parameter styles of drivers, in SQLAlchemy's terms; the drivers' own `paramstyle` is not always right.
_PARAMETERS: Mapping[str, Any] = MappingProxyType({_POSTGRES: "numeric_dollar"})


def is_adbc(url: "URL") -> bool:
    """Return whether an address is read through ADBC."""
    return url.drivername.startswith(_PREFIX)


def declares_types(url: "URL") -> bool:
    """Return whether the database declares column types. Other drivers infer some from the values."""
    return url.drivername.removeprefix(_PREFIX) == _POSTGRES


@contextmanager
def arrow_rows(
    url: "URL", sql: str, values: Mapping[str, Any], connection: str
) -> Iterator["pa.RecordBatchReader"]:
    """Yield the rows of a query in batches.

    Memory: PostgreSQL's driver streams a query without parameters, and holds the result of one with some.

    Args:
        url: Address, see the module.
        sql: Query in the syntax of SQLAlchemy's `text`.
        values: Values of its parameters.
        connection: Name of the connection, for errors.

    Raises:
        SpecError: If the driver is not installed.
        SourceError: If the database cannot be reached, or the connection drops.
        SchemaError: If the database refuses the query.
    """
    backend = url.drivername.removeprefix(_PREFIX)
    driver = _driver(backend, connection)
    with (
        _safe_errors(connection),
        driver.connect(_address(url, backend)) as opened,
        opened.cursor() as cursor,
    ):
        if backend == _POSTGRES:
            cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(*_query(sql, values, _PARAMETERS.get(backend, "qmark")))
        with cursor.fetch_record_batch() as rows:
            yield rows


def arrow_records(
    rows: "pa.RecordBatchReader",
    schema: "DataSchema | None",
    columns: Sequence[str] | None,
    place: str,
    origin: Mapping[str, Any],
    *,
    types: Types,
    declared: bool,
) -> Records:
    """Return the rows as records of a source.

    Args:
        rows: Rows of a query.
        schema: Schema that the columns must match. None if it is not known yet.
        columns: Columns to read. None: all.
        place: Name of the source, for errors.
        origin: Facts for the manifest about the source.
        types: Origin of types that are not declared, see `Query`.
        declared: Whether the database declares types.

    Raises:
        SchemaError: If a column has a type that no table can have, or the schema does not determine it.
    """
    batches = filter(len, rows)
    first = next(batches, None)
    kept = [n for n, name in enumerate(rows.schema.names) if columns is None or name in columns]
    named = [(rows.schema.field(n), None if first is None else first.column(n)) for n in kept]
    if types == "schema":  # then it must not matter whether the first values are nulls
        named = [(field, None) for field, _ in named]
    if types == "schema" and not declared:
        kinds = [(f.name, by_schema(attribute_of(schema, f.name), f.name, place)) for f, _ in named]
    else:
        kinds = [(field.name, _type_of(field, values, schema, place)) for field, values in named]
    found = batches if first is None else chain([first], batches)
    return Records(
        types=pa.schema(kinds), batches=_cast(found, kept, pa.schema(kinds), place, types), origin=origin
    )


def _cast(
    batches: "Iterable[pa.RecordBatch]", kept: Sequence[int], kinds: "pa.Schema", place: str, types: Types
) -> "Iterator[pa.RecordBatch]":
    for batch in batches:
        columns = []
        for n, field in zip(kept, kinds, strict=True):
            column = batch.column(n)
            column = column.storage if isinstance(column, pa.ExtensionArray) else column
            if types == "schema" and column.type != field.type and not pa.types.is_floating(field.type):
                columns.append(array_of(column.to_pylist(), field.type, field.name, place, types))
                continue
            try:
                if field.type == pa.string():
                    lengths = pc.binary_length(column.cast(pa.large_string()))
                    require_short(pc.max(lengths).as_py() or 0, field.name, place)
                columns.append(column.cast(field.type))
            except pa.ArrowException:
                raise mixed(field.name, field.type, place) from None
        yield pa.RecordBatch.from_arrays(columns, schema=kinds)


def _type_of(
    field: "pa.Field", first: "pa.Array | None", schema: "DataSchema | None", place: str
) -> "pa.DataType":
    """Return the type of a column in a table, the same as with the other drivers of a database."""
    attribute = attribute_of(schema, field.name)
    found = field.type
    if isinstance(found, pa.OpaqueType) and found.type_name == "numeric":
        return numeric(*_digits(field), attribute, field.name, place)
    elif t.is_null(found) or (first is not None and first.null_count == len(first) and t.is_int64(found)):
        return expected(attribute)  # SQLite's driver reports a column of nulls as integers
    elif any(
        is_one(found) for is_one in (t.is_boolean, t.is_integer, t.is_floating, t.is_decimal, t.is_date)
    ):
        return found
    elif t.is_timestamp(found):
        return pa.timestamp("us", found.tz)
    elif t.is_string(found) or t.is_large_string(found) or t.is_string_view(found):
        return pa.string()
    raise unfit(field.name, place)


def _digits(field: "pa.Field") -> tuple[int, int]:
    """Return precision and scale of a decimal from PostgreSQL's `typmod`. Zeros if it has none."""
    typmod = int((field.metadata or {}).get(b"POSTGRESQL:typmod", -1)) - 4
    return (typmod >> 16, typmod & 0x7FF) if typmod >= 0 else (0, 0)


def _driver(backend: str, connection: str) -> Any:
    name = f"adbc_driver_{backend}"
    try:
        return import_module(f"{name}.dbapi")
    except ImportError:
        raise SpecError(
            f"connection {connection} needs the package {name.replace('_', '-')}, which is not installed; "
            "install it: of PostgreSQL and SQLite it is in privacy-release[adbc]"
        ) from None


def _address(url: "URL", backend: str) -> str:
    """Return the address for the driver, with its password."""
    if backend == "sqlite":
        return url.database or ""
    return url.set(drivername=backend).render_as_string(hide_password=False)


def _query(sql: str, values: Mapping[str, Any], style: Any) -> "tuple[str, tuple[Any, ...] | None]":
    """Return the text of a query with the parameters of a driver, and their values in order."""
    from sqlalchemy import text
    from sqlalchemy.engine.default import DefaultDialect

    compiled = text(sql).compile(dialect=DefaultDialect(paramstyle=style))
    return str(compiled), tuple(values[name] for name in compiled.positiontup or ()) or None


@contextmanager
def _safe_errors(connection: str) -> Iterator[None]:
    """Turn errors of the driver into an error that shows no row, address or password."""
    import adbc_driver_manager

    try:
        yield
    except PrivacyEngineError:
        raise
    except adbc_driver_manager.Error as error:
        raise translated_error(
            error, connection, dropped=isinstance(error, adbc_driver_manager.OperationalError)
        ) from None
    except (pa.ArrowException, OSError) as error:
        # Between two batches, a driver reports only that it failed.
        raise SourceError(
            f"query of {connection}: the rows ended with an error ({type(error).__name__}); nothing was "
            "kept: a value cannot be read or cast as the query requires, or the connection dropped: correct "
            "the query, or retry"
        ) from None
