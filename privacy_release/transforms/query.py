"""A step in SQL: DuckDB over ingested tables, without access to files, the network, or settings."""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from privacy_engine.engines.closed import CLOSED
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.foreign import translated
from privacy_release.spec.selects import RECORD, RECORDS, ROW_NUMBER, computed_of
from privacy_release.transforms.transform import Numbers, Output
from privacy_release.workarea.parquet import ROWS
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Parts of a plan that make one record from each record independently. Others may read several records.
_ROW_BY_ROW = frozenset({"PROJECTION", "SEQ_SCAN", "TABLE_SCAN"})


@dataclass(frozen=True, kw_only=True)
class SqlStep:
    """A SELECT over the table `records`, and others under their names.

    Attributes:
        memory: Largest memory of the database in bytes. Larger data goes to files of the work area.
    """

    sql: str
    memory: int

    @property
    def name(self) -> str:
        """Its name in manifests."""
        return "sql"

    @property
    def sha256(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def made_of(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the columns of `records` that each column is computed from, as far as known; see `Step`."""
        return computed_of(self.sql, columns)

    @contextmanager
    def run(self, tables: Mapping[str, Table], folder: Path) -> Iterator[Output]:
        """Provide the records of the query, in the order of the record that each comes from."""
        with (
            tempfile.TemporaryDirectory(dir=folder) as scratch,
            _safe_errors(),
            _database(tables, Path(scratch), self.memory) as database,
        ):
            query = _only_select(database, self.sql)
            alone = _is_row_by_row(database, query)
            database.execute("SET lock_configuration = true")
            database.execute(f"CREATE TABLE result AS ({query}\n)")
            described = database.execute("SELECT column_name FROM (DESCRIBE result)").fetchall()
            if (names := [name for (name,) in described]).count(RECORD) != 1:
                raise lost_records(self.name)
            order = ", ".join(_quoted(n) for n in sorted(names, key=lambda name: name != RECORD))
            reader = database.sql(f"SELECT * FROM result ORDER BY {order}").to_arrow_reader(ROWS)
            batches: Iterator[Any] = iter(reader)
            yield Output(batches=batches, row_by_row=alone)


def lost_records(name: str) -> SchemaError:
    """Return the error that a step did not keep the number of each row's record."""
    return SchemaError(
        f"the step {name} must keep the column {RECORD} once: it identifies the record, and so the person, "
        f"of each row; select it, or * from {RECORDS}, and do not aggregate: aggregate in the source"
    )


@contextmanager
def _database(tables: Mapping[str, Table], scratch: Path, memory: int) -> Iterator["DuckDBPyConnection"]:
    """Open a database with only the records of these tables."""
    config = {**CLOSED, "memory_limit": f"{memory}B", "temp_directory": str(scratch / "spill")}
    with duckdb.connect(str(scratch / "records.duckdb"), config=config) as database:
        for name, table in tables.items():
            of, into, begin = Numbers.of(table), f"CREATE TABLE {_quoted(name)} AS", 0
            for file in table.paths():
                wanted = f"* EXCLUDE ({ROW_NUMBER})"
                if name == RECORDS:
                    number = f"({ROW_NUMBER} + {begin}) * {of.stride} + {of.offset}"
                    wanted = f"{number} AS {RECORD}, {wanted}"
                read = f"SELECT {wanted} FROM read_parquet(?, {ROW_NUMBER} = true)"
                database.execute(f"{into} {read}", [file])
                into, begin = f"INSERT INTO {_quoted(name)}", _size(database, name)
        database.execute("SET TimeZone = 'UTC'")  # the same answer on every machine
        database.execute("SET enable_external_access = false")
        yield database


def _size(database: "DuckDBPyConnection", name: str) -> int:
    """Return the number of records of a table."""
    found = database.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()
    assert found is not None
    return int(found[0])


def _only_select(database: "DuckDBPyConnection", sql: str) -> str:
    """Return the text of the only statement."""
    statements = database.extract_statements(sql)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise SpecError("the sql of a step must be one SELECT; correct it")
    return str(statements[0].query).rstrip().rstrip(";")


def _is_row_by_row(database: "DuckDBPyConnection", query: str) -> bool:
    """Return whether each record becomes one record independently, by the plan before optimization."""
    database.execute("PRAGMA disable_optimizer")
    (plan_text,) = [plan for _, plan in database.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()]
    database.execute("PRAGMA enable_optimizer")
    parts = list(_parts(json.loads(plan_text)))
    scans = [part for part in parts if "SCAN" in part["name"]]
    named = {part["name"].strip() for part in parts}
    table = str(scans[0].get("extra_info", {}).get("Table", "")) if len(scans) == 1 else ""
    return named <= _ROW_BY_ROW and table.rpartition(".")[2].strip('"') == RECORDS


def _parts(plan: Any) -> Iterator[dict[str, Any]]:
    for part in plan:
        yield part
        yield from _parts(part.get("children", []))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _safe_errors() -> Iterator[None]:
    """Turn errors of DuckDB into an error that quotes no record."""
    try:
        yield
    except duckdb.Error as error:
        raise _ours(error) from None


def _ours(error: Exception) -> Exception:
    kind = type(error).__name__
    if ours := translated(error, "the sql of a step"):
        return ours
    said = {
        "ParserException": "is not valid SQL",
        "BinderException": "names a column, or uses a function, that does not exist or does not fit",
        "CatalogException": f"names a table or function that does not exist; the table is {RECORDS}",
        "PermissionException": "requests a file, an address or a setting, which no step may",
        "ConversionException": "casts a value that cannot be cast",
    }.get(kind, "could not be run")
    return SchemaError(f"the sql of a step {said} ({kind}); correct it")
