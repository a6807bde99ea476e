"""The rows of a query as a source, streamed from a database in batches, in types that fit the schema.

They come through a cursor of the server, or as Arrow through ADBC, in a read-only transaction if the database
supports it. The query's text may contain literals about people, so neither manifest nor errors show it: the
manifest has its hash. A database error may quote rows, so only its kind is shown.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.sources.databases.adbc import arrow_records, arrow_rows, declares_types, is_adbc
from privacy_release.sources.databases.errors import translated_error
from privacy_release.sources.databases.types import Types, array_of, attribute_of, type_of
from privacy_release.sources.extracts import Records

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, CursorResult

    from privacy_engine.tables.schema import DataSchema

VARIABLE = "PRIVACY_SOURCE_"  # prefix of the environment variable of a connection
_ROWS = 10_000  # rows that are fetched at a time
_CONNECT_SECONDS = 10
_POSTGRES = "postgresql"


@dataclass(frozen=True, kw_only=True)
class Query:
    """The rows of a query.

    Attributes:
        connection: Name of the connection, which may be shown.
        url: Address for SQLAlchemy, with its password. `adbc+postgresql://...` is read through ADBC.
        sql: SELECT in the syntax of SQLAlchemy's `text`.
        values: Values of its bound parameters.
        types: Origin of column types that the database does not declare: the first `values`, or the
            `schema`, which is required if a privacy budget pays.
    """

    connection: str
    url: "str | URL" = field(repr=False)
    sql: str = field(repr=False)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    types: Types = "values"

    @property
    def shown(self) -> str:
        """The connection's name, because an address may name machines and users."""
        return f"query of {self.connection}"

    @property
    def name(self) -> str:
        """The connection's name with the start of the query's hash, for the fingerprint."""
        return f"{self.shown} ({self.sha256[:12]})"

    @property
    def sha256(self) -> str:
        """SHA-256 of the query's text, without the values of parameters."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @contextmanager
    def opened(self, schema: "DataSchema | None", columns: Sequence[str] | None) -> Iterator[Records]:
        """Open the rows in batches; see `Extract`.

        Raises:
            SpecError: If the address or driver is wrong.
            SourceError: If the database cannot be reached, or the connection drops. Nothing was read then.
            SchemaError: If the database refuses the query, or a column has a type that no table can have.
        """
        from sqlalchemy import text  # which releases of files do without, here and below

        url = _address(self.url, self.connection)
        if is_adbc(url):
            with arrow_rows(url, self.sql, self.values, self.connection) as reader:
                declared = declares_types(url)
                yield arrow_records(
                    reader,
                    schema,
                    columns,
                    self.name,
                    self._origin(declared),
                    types=self.types,
                    declared=declared,
                )
            return
        with _safe_errors(self.connection), _engine(url, self.connection).connect() as connection:
            options: dict[str, Any] = {"stream_results": True, "yield_per": _ROWS}
            if connection.dialect.name == _POSTGRES:
                connection = connection.execution_options(postgresql_readonly=True)
            result = connection.execution_options(**options).execute(text(self.sql), self.values)
            names, declared_types = list(result.keys()), _declared(result)
            rows = ([tuple(row) for row in part] for part in result.partitions(_ROWS))
            first = next(rows, [])
            types = [
                type_of(
                    name,
                    declared_types.get(n),
                    [row[n] for row in first],
                    attribute_of(schema, name),
                    self.name,
                    self.types,
                )
                for n, name in enumerate(names)
                if columns is None or name in columns
            ]
            kept = [n for n, name in enumerate(names) if columns is None or name in columns]
            found = pa.schema([(names[n], kind) for n, kind in zip(kept, types, strict=True)])
            yield Records(
                types=found,
                batches=self._batches(chain([first], rows), kept, found),
                origin=self._origin(bool(declared_types)),
            )

    def _origin(self, declared: bool) -> dict[str, Any]:
        """Return facts for the manifest: the hash, and whether types were inferred from the values."""
        guessed = {} if declared or self.types == "schema" else {"guessed": True}
        return {"query": self.sha256, **guessed}

    def _batches(
        self, parts: Iterator[list[tuple[Any, ...]]], kept: Sequence[int], types: "pa.Schema"
    ) -> Iterator["pa.RecordBatch"]:
        begin = 1
        for part in parts:
            if not part:
                continue
            place = f"{self.name}, records {begin:,} to {begin + len(part) - 1:,}"
            arrays = [
                array_of([row[n] for row in part], column.type, column.name, place, self.types)
                for n, column in zip(kept, types, strict=True)
            ]
            begin += len(part)
            yield pa.RecordBatch.from_arrays(arrays, schema=types)


def variable_of(connection: str) -> str:
    """Return the environment variable with the address of a connection, for runs without Airflow.

    >>> variable_of("hospital-db")
    'PRIVACY_SOURCE_HOSPITAL_DB'
    """
    return VARIABLE + re.sub(r"[^A-Z0-9]", "_", connection.upper())


def url_of_environment(connection: str) -> str:
    """Return the address of a connection from the environment, for runs without Airflow.

    Raises:
        SpecError: If the variable is not set.
    """
    if url := os.environ.get(variable_of(connection)):
        return url
    raise SpecError(
        f"the database of connection {connection} must be known: set {variable_of(connection)} to its "
        "address for SQLAlchemy, such as postgresql://user:password@host/name"
    )


def _address(url: "str | URL", connection: str) -> "URL":
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise SpecError(
            f"connection {connection} must hold an address for SQLAlchemy, such as "
            "postgresql://user:password@host/name; correct it"
        ) from None


def _engine(url: "URL", connection: str) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError
    from sqlalchemy.pool import NullPool

    if url.drivername in ("postgres", _POSTGRES):
        url = url.set(drivername=f"{_POSTGRES}+psycopg")
    arguments = {"connect_timeout": _CONNECT_SECONDS} if url.get_backend_name() == _POSTGRES else {}
    try:
        return create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)
    except (ImportError, NoSuchModuleError):
        raise SpecError(
            f"connection {connection} needs a database driver that is not installed; of PostgreSQL install "
            "privacy-release[postgres], of another database the driver that SQLAlchemy names"
        ) from None


@contextmanager
def _safe_errors(connection: str) -> Iterator[None]:
    """Turn errors of the database and its driver into an error that shows no row, address or password."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except PrivacyEngineError:
        raise
    except (SQLAlchemyError, OSError) as error:
        raise translated_error(error, connection, dropped=isinstance(error, DBAPIError | OSError)) from None


def _declared(result: "CursorResult[Any]") -> dict[int, Any]:
    """Return PostgreSQL's descriptions of the columns, by number. Those of other drivers are not usable."""
    if result.context.dialect.name != _POSTGRES or result.cursor is None:
        return {}
    return dict(enumerate(result.cursor.description or ()))
