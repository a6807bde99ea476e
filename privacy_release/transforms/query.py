"""A step in SQL: DuckDB over ingested tables, with no way to a file, the network, or a setting."""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.foreign import translated
from privacy_release.spec.selects import RECORD, RECORDS, ROW_NUMBER, computed_of
from privacy_release.transforms.transform import Numbers, Output
from privacy_release.workarea.file_sets import paths_of
from privacy_release.workarea.parquet import ROWS
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,  # a table name must never find a variable of this program
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
# What makes of each record one record, by itself alone: any other part of a plan may look at several.
_ROW_BY_ROW = frozenset({"PROJECTION", "SEQ_SCAN", "TABLE_SCAN"})


@dataclass(frozen=True, kw_only=True)
class SqlStep:
    """A SELECT over the table `records`, and others under their names.

    Attributes:
        memory: bytes that the database may take; what is larger goes to files of the work area.
    """

    sql: str
    memory: int

    @property
    def name(self) -> str:
        """What it is called in manifests."""
        return "sql"

    @property
    def sha256(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def made_of(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The columns of `records` that each column is computed of, as far as the text tells; see `Step`."""
        return computed_of(self.sql, columns)

    @contextmanager
    def run(self, tables: Mapping[str, Table], folder: Path) -> Iterator[Output]:
        """The records of the query, in the order of the record that each comes from."""
        with (
            tempfile.TemporaryDirectory(dir=folder) as scratch,
            _telling(),
            _database(tables, Path(scratch), self.memory) as database,
        ):
            query = _only_select(database, self.sql)
            alone = _is_row_by_row(database, query)
            database.execute("SET lock_configuration = true")
            database.execute(f"CREATE TABLE result AS ({query}\n)")
            told = database.execute("SELECT column_name FROM (DESCRIBE result)").fetchall()
            if (names := [name for (name,) in told]).count(RECORD) != 1:
                raise lost_records(self.name)
            order = ", ".join(_quoted(n) for n in sorted(names, key=lambda name: name != RECORD))
            reader = database.sql(f"SELECT * FROM result ORDER BY {order}").to_arrow_reader(ROWS)
            batches: Iterator[Any] = iter(reader)
            yield Output(batches=batches, row_by_row=alone)


def lost_records(name: str) -> SchemaError:
    """The step did not keep what tells whose record each is."""
    return SchemaError(
        f"the step {name} must keep the column {RECORD} once: it tells which record, and so whose, each row "
        f"is; select it, or * from {RECORDS}, and do not aggregate: aggregate in the source"
    )


@contextmanager
def _database(tables: Mapping[str, Table], scratch: Path, memory: int) -> Iterator["DuckDBPyConnection"]:
    """A database with the records of these tables, and no way out."""
    config = {**_CLOSED, "memory_limit": f"{memory}B", "temp_directory": str(scratch / "spill")}
    with duckdb.connect(str(scratch / "records.duckdb"), config=config) as database:
        for name, table in tables.items():
            of, into, begin = Numbers.of(table), f"CREATE TABLE {_quoted(name)} AS", 0
            for file in paths_of(table.uri, table.sha256):
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
    """How many records a table has."""
    found = database.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()
    assert found is not None
    return int(found[0])


def _only_select(database: "DuckDBPyConnection", sql: str) -> str:
    """The text of the one statement."""
    statements = database.extract_statements(sql)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise SpecError("the sql of a step must be one SELECT; correct it")
    return str(statements[0].query).rstrip().rstrip(";")


def _is_row_by_row(database: "DuckDBPyConnection", query: str) -> bool:
    """Whether each record becomes one record, by itself alone; by the plan, before anything is optimized."""
    database.execute("PRAGMA disable_optimizer")
    (told,) = [plan for _, plan in database.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()]
    database.execute("PRAGMA enable_optimizer")
    parts = list(_parts(json.loads(told)))
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
def _telling() -> Iterator[None]:
    """Turn what DuckDB raises into an error that quotes no record."""
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
        "BinderException": "names a column, or uses a function, that is not there or does not fit",
        "CatalogException": f"names a table or function that is not there; the table is {RECORDS}",
        "PermissionException": "asks for a file, an address or a setting, which no step may",
        "ConversionException": "casts a value that cannot be cast",
    }.get(kind, "could not be run")
    return SchemaError(f"the sql of a step {said} ({kind}); correct it")
