"""The rows of a query as a source: streamed from a database, batch by batch, in types that fit the schema.

The query is read through a cursor of the server, in a transaction that may only read where the database
knows such. Its text may hold literals about people, so neither manifest nor errors show it: the manifest has
its hash. What a database says in an error may quote rows: only its kind is told.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import PrivacyEngineError, SchemaError, SourceError, SpecError
from privacy_release.sources.extracts import Records

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy.engine import URL, CursorResult

    from privacy_engine.tables.schema import Attribute, DataSchema

VARIABLE = "PRIVACY_SOURCE_"  # begins the environment variable of a connection
_ROWS = 10_000  # rows that are fetched at a time
_CONNECT_SECONDS = 10
_POSTGRES = "postgresql"
_UNBOUNDED = 65_535  # what libpq calls the precision of a numeric that has none
_MOST_DIGITS = 38
# PostgreSQL's numbers of types (pg_type.dat) -> Arrow's names; the same on every server.
_TYPES: Mapping[int, str] = MappingProxyType(
    {
        **{16: "bool", 20: "int64", 21: "int16", 23: "int32", 26: "int64", 700: "float32", 701: "float64"},
        **dict.fromkeys((19, 25, 1042, 1043, 2950), "string"),  # name, text, char, varchar, uuid
        **{1082: "date32", 1114: "timestamp", 1184: "timestamptz", 1700: "numeric"},
    }
)
# Classes and codes of SQLSTATE (PostgreSQL, appendix A) that mean something to whoever wrote the query.
_STATES: Mapping[str, str] = MappingProxyType(
    {
        "42P01": "the query names a table that is not there, or not for this user: correct it",
        "42703": "the query names a column that is not there: correct it",
        "42501": "the user of the connection may not read what the query names: grant SELECT on it",
        "42": "the query is not valid SQL there: correct it",
        "0A": "the query would do more than read: write a SELECT",
        "25006": "the query would write, and a source is only read: write a SELECT",
        "22": "a value cannot be read or cast as the query says: mend the cast, or the rows",
    }
)


@dataclass(frozen=True, kw_only=True)
class Query:
    """The rows of a query.

    Attributes:
        connection: its name, which may be shown.
        url: SQLAlchemy's, with its password.
        sql: a SELECT as SQLAlchemy's `text` takes it.
        values: of its bound parameters.
    """

    connection: str
    url: "str | URL" = field(repr=False)
    sql: str = field(repr=False)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The connection's name: an address may name machines and users."""
        return f"query of {self.connection}"

    @property
    def name(self) -> str:
        """With the first characters of the query's hash, for the fingerprint."""
        return f"{self.shown} ({self.sha256[:12]})"

    @property
    def sha256(self) -> str:
        """Of the query's text; the values of parameters are no part of it."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @contextmanager
    def opened(self, schema: "DataSchema | None", columns: Sequence[str] | None) -> Iterator[Records]:
        """The rows, some at a time; see `Extract`.

        Raises:
            SpecError: if the address or driver is wrong.
            SourceError: if the database cannot be reached, or the connection drops; nothing was read then.
            SchemaError: if the database refuses the query, or a column has no type of a table.
        """
        import pyarrow as pa
        from sqlalchemy import text

        with _telling(self.connection), _engine(self.url, self.connection).connect() as connection:
            options: dict[str, Any] = {"stream_results": True, "yield_per": _ROWS}
            if connection.dialect.name == _POSTGRES:
                connection = connection.execution_options(postgresql_readonly=True)
            result = connection.execution_options(**options).execute(text(self.sql), self.values)
            names, told = list(result.keys()), _declared(result)
            rows = ([tuple(row) for row in part] for part in result.partitions(_ROWS))
            first = next(rows, [])
            types = [
                _type_of(name, told.get(n), [row[n] for row in first], _attribute(schema, name), self.name)
                for n, name in enumerate(names)
                if columns is None or name in columns
            ]
            kept = [n for n, name in enumerate(names) if columns is None or name in columns]
            found = pa.schema([(names[n], kind) for n, kind in zip(kept, types, strict=True)])
            yield Records(
                types=found,
                batches=self._batches(chain([first], rows), kept, found),
                told={"query": self.sha256},
            )

    def _batches(
        self, parts: Iterator[list[tuple[Any, ...]]], kept: Sequence[int], types: "pa.Schema"
    ) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        begin = 1
        for part in parts:
            if not part:
                continue
            place = f"{self.name}, records {begin:,} to {begin + len(part) - 1:,}"
            arrays = [
                _array([row[n] for row in part], column.type, column.name, place)
                for n, column in zip(kept, types, strict=True)
            ]
            begin += len(part)
            yield pa.RecordBatch.from_arrays(arrays, schema=types)


def variable_of(connection: str) -> str:
    """The environment variable that holds the address of a connection, without Airflow.

    >>> variable_of("hospital-db")
    'PRIVACY_SOURCE_HOSPITAL_DB'
    """
    return VARIABLE + re.sub(r"[^A-Z0-9]", "_", connection.upper())


def url_of_environment(connection: str) -> str:
    """The address of a connection, without Airflow.

    Raises:
        SpecError: if nobody set it.
    """
    if url := os.environ.get(variable_of(connection)):
        return url
    raise SpecError(
        f"the database of connection {connection} must be known: set {variable_of(connection)} to its "
        "address for SQLAlchemy, such as postgresql://user:password@host/name"
    )


def _engine(url: "str | URL", connection: str) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    from sqlalchemy.pool import NullPool

    try:
        told = make_url(url)
        if told.drivername in ("postgres", _POSTGRES):
            told = told.set(drivername=f"{_POSTGRES}+psycopg")
        postgres = told.get_backend_name() == _POSTGRES
        arguments = {"connect_timeout": _CONNECT_SECONDS} if postgres else {}
        return create_engine(told, poolclass=NullPool, hide_parameters=True, connect_args=arguments)
    except (ImportError, NoSuchModuleError):
        raise SpecError(
            f"connection {connection} needs a database driver that is not installed; of PostgreSQL install "
            "privacy-release[postgres], of another database the driver that SQLAlchemy names"
        ) from None
    except (ArgumentError, ValueError):
        raise SpecError(
            f"connection {connection} must hold an address for SQLAlchemy, such as "
            "postgresql://user:password@host/name; correct it"
        ) from None


@contextmanager
def _telling(connection: str) -> Iterator[None]:
    """Turn what the database and its driver raise into an error that shows no row, address or password."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except PrivacyEngineError:
        raise
    except (SQLAlchemyError, OSError) as error:
        raise _ours(error, connection, dropped=isinstance(error, DBAPIError | OSError)) from None


def _ours(error: Exception, connection: str, *, dropped: bool) -> PrivacyEngineError:
    cause = getattr(error, "orig", None) or error
    code = str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or "")
    kind = f"{type(cause).__name__}, {code}" if code else type(cause).__name__
    said = _STATES.get(code) or _STATES.get(code[:2])
    if code == "SQLITE_ERROR":  # its words about the query are about names
        missing = re.match(r"no such (table|column)", str(cause))
        said = f"the query names a {missing[1]} that is not there: correct it" if missing else _STATES["42"]
    if said is not None:
        return SchemaError(f"query of {connection}: {said} ({kind})")
    if type(cause).__name__ == "DataError":
        return SchemaError(f"query of {connection}: {_STATES['22']} ({kind})")
    if not dropped:
        return SpecError(f"query of {connection} could not be run ({kind}); correct the query or its address")
    return SourceError(
        f"the database of connection {connection} cannot be reached, or the connection dropped ({kind}); "
        "nothing of it is kept: check that it runs, its address, user and password, then retry"
    )


def _declared(result: "CursorResult[Any]") -> dict[int, Any]:
    """What PostgreSQL says of the columns, by their number; other drivers say nothing that can be used."""
    if result.context.dialect.name != _POSTGRES or result.cursor is None:
        return {}
    return dict(enumerate(result.cursor.description or ()))


def _attribute(schema: "DataSchema | None", name: str) -> "Attribute | None":
    return schema[name] if schema is not None and name in schema.names else None


def _type_of(
    name: str, declared: Any, values: Sequence[Any], attribute: "Attribute | None", place: str
) -> "pa.DataType":
    """The type of a column: as the database declares it, else by the first values, else by the schema."""
    import pyarrow as pa

    known = [value for value in values if value is not None]
    told = _TYPES.get(declared.type_code, "") if declared is not None else _told_by(known)
    if told == "numeric":
        precision, scale = getattr(declared, "precision", None), getattr(declared, "scale", None)
        if precision and precision <= _MOST_DIGITS and precision != _UNBOUNDED:
            return pa.decimal128(precision, scale or 0)
        # without a precision a later value may have more digits than any type that is taken from the first
        if attribute is not None and not attribute.ordered:
            told = ""
        else:
            return pa.float64()
    if told == "null":
        return _expected(attribute)
    if not told:
        raise SchemaError(
            f"{place}: column {name!r} has a type that no table here can have; cast it in the query, such as "
            "CAST(... AS text), AS double precision or AS numeric(12, 2)"
        )
    return {"timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}.get(
        told
    ) or pa.type_for_alias(told)


def _told_by(values: Sequence[Any]) -> str:
    """The type of values as Python has them; empty where it is none of a table."""
    kinds = {type(value).__name__ for value in values}
    if not kinds:
        return "null"
    if kinds == {"datetime"}:
        zones = {value.tzinfo is not None for value in values}
        return "" if len(zones) > 1 else "timestamptz" if zones == {True} else "timestamp"
    if kinds <= {"int", "float"}:
        return "int64" if kinds == {"int"} else "float64"
    names = {"bool": "bool", "str": "string", "UUID": "string", "date": "date32", "Decimal": "numeric"}
    return names.get(kinds.pop(), "") if len(kinds) == 1 else ""


def _expected(attribute: "Attribute | None") -> "pa.DataType":
    """The type of a column of which only nulls are known."""
    import pyarrow as pa

    from privacy_engine.vocabulary import Kind

    if attribute is not None and attribute.dates is not None and attribute.dates.format is None:
        return pa.date32() if attribute.kind is Kind.DATE else pa.timestamp("us")
    ordered = attribute is not None and attribute.ordered and attribute.categories is None
    return pa.float64() if ordered and attribute is not None and attribute.dates is None else pa.string()


def _array(values: list[Any], kind: "pa.DataType", name: str, place: str) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.types as t

    try:
        if t.is_string(kind):
            values = [str(v) if type(v).__name__ == "UUID" else v for v in values]
        elif t.is_floating(kind):
            values = [None if v is None else float(v) for v in values]
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise SchemaError(
            f"{place}: column {name!r} must hold values of one type, {kind} by its declaration or its first "
            "values; cast it in the query"
        ) from None
