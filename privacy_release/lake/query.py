"""SQL on published releases: analysts ask, and only released data answer.

Every answer names the releases that it was made from and what each of them guarantees. Nothing else can be
reached: a query is one SELECT on release tables (`query_rules`), and the database that runs it has no files,
no network, no extensions, no settings to change and none of this process's variables. It sees the tables
through views on one version each, so a release that is published or retracted meanwhile shows as before or as
after, never in part; a release that was retracted before the answer is ready is not answered from.

Guarantees are each release's own. A query on several of them, or on every release of a table, reads more
about the people who are in several than each of them says: k-anonymity does not survive composition, and
epsilons of releases about the same people add up.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event, Timer
from typing import TYPE_CHECKING

from privacy_engine.errors import PublishError
from privacy_release.lake.log import ATTEMPTS
from privacy_release.lake.query_rules import QueryError, first_line, tables_of
from privacy_release.lake.query_sources import (
    Snapshot,
    Source,
    check_rows,
    has_moved,
    is_retracted,
    take_snapshot,
)
from privacy_release.lake.rows import PARTITION
from privacy_release.lake.store import Lake

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

__all__ = ["Answer", "QueryError", "Source", "answer"]

ROWS = 10_000
SECONDS = 60.0
_MEMORY = "2GB"
_BATCH = 1_024
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,  # a table name must never find a variable of the caller
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "temp_directory": "",  # nothing of an answer on disk
    "memory_limit": _MEMORY,
    "threads": 2,
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a query gave.

    Attributes:
        columns: their names, in order; a query may repeat one.
        rows: Arrow table.
        sources: every release that was read, by table.
    """

    columns: tuple[str, ...]
    rows: "pa.Table"
    sources: tuple[Source, ...]


def answer(
    lake: Lake,
    sql: str,
    *,
    tables: Collection[str] | None = None,
    release: str | None = None,
    every_release: bool = False,
    limit: int = ROWS,
    seconds: float = SECONDS,
) -> Answer:
    """Answer a query from published releases that are not retracted.

    A table's name stands for its newest release: the one that was published last for the first time.

    Args:
        lake: where the tables are.
        sql: one SELECT in DuckDB's dialect; each table by its name in the lake, quoted where it has a hyphen.
        tables: only these may be asked; None allows all of the lake.
        release: ask this release of each table that the query names, instead of the newest.
        every_release: a table's name stands for all of its releases, and has a column `release`.
        limit: the most rows that an answer may have; one with more is refused, not cut.
        seconds: the longest that the query may run.

    Raises:
        QueryError: if the query is wrong, not allowed, too long or too large, or a release does not exist.
        PublishError: if the lake cannot be reached.
        IntegrityError: if a table does not hold the rows that were published.
    """
    import duckdb

    if limit < 1 or not seconds > 0:
        raise QueryError(f"limit and seconds must be positive, got {limit} and {seconds:g}")
    if release is not None and every_release:
        raise QueryError("either one release or every release can be asked; leave one out")
    with closing(duckdb.connect(config=_CLOSED)) as parser:
        names = tables_of(parser, sql)
    if not names:
        raise QueryError("a query must read a release table, got none; list them with `inspect`")
    closed = [name for name in names if tables is not None and name not in tables]
    if closed:
        raise QueryError(
            f"table {closed[0]!r} may not be asked; allowed are {', '.join(sorted(tables or ()))}"
        )
    for _ in range(ATTEMPTS):
        seen: list[Snapshot] = []
        try:
            for name in names:
                seen.append(take_snapshot(lake, name, release, every_release=every_release))
                check_rows(lake, seen[-1])
            rows = _run(sql, seen, limit, seconds)
        except (PublishError, _ValueError):
            if any(has_moved(lake, table) for table in seen):
                continue  # a release was retracted, and its files erased, while they were read
            raise
        if not any(is_retracted(lake, table) for table in seen):
            sources = tuple(source for table in seen for source in table.sources)
            return Answer(columns=tuple(rows.column_names), rows=rows, sources=sources)
    raise PublishError(f"the lake changed under each of {ATTEMPTS} attempts to answer; ask again")


class _ValueError(QueryError):
    """The query failed while it ran: on a value, or on a file that could not be read."""


def _run(sql: str, seen: Sequence[Snapshot], limit: int, seconds: float) -> "pa.Table":
    """Run a checked query in a database of its own, which sees nothing but these tables."""
    import duckdb
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    late = Event()
    with closing(duckdb.connect(config=_CLOSED)) as database:
        for number, table in enumerate(seen):
            _show(database, table, f"files {number}")
        database.execute("SET TimeZone = 'UTC'")  # the same answer on every machine
        database.execute("SET lock_configuration = true")
        with _deadline(database, seconds, late):
            try:
                reader = database.sql(sql).to_arrow_reader(_BATCH)
                for batch in reader:
                    batches.append(batch)
                    if late.is_set() or sum(map(len, batches)) > limit:
                        break
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                if not late.is_set():
                    raise _refusal(error) from None
    if late.is_set():
        raise QueryError(f"a query must end within {seconds:g} seconds; ask for less, or allow more time")
    if sum(map(len, batches)) > limit:
        raise QueryError(
            f"an answer must have at most {limit:,} rows, this one has more; aggregate, add LIMIT, "
            "or allow more rows"
        )
    return pa.Table.from_batches(batches, reader.schema)


def _show(database: "DuckDBPyConnection", table: Snapshot, files: str) -> None:
    """Give the database a view of a table's releases under its name; their files are read as they are needed.

    A query cannot name the files themselves: `query_rules` lets it read the tables of the lake alone.
    """
    columns = ", ".join(map(_name, table.columns))
    wanted = ", ".join(_text(source.release) for source in table.sources)
    selection = f"SELECT {columns} FROM {_name(files)} WHERE {PARTITION} IN ({wanted})"
    database.register(files, table.files)
    database.execute(f"CREATE VIEW {_name(table.name)} AS {selection}")


@contextmanager
def _deadline(database: "DuckDBPyConnection", seconds: float, late: Event) -> Iterator[None]:
    """Interrupt what the database does once the time is over; `late` is set then."""

    def stop() -> None:
        late.set()
        database.interrupt()

    timer = Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it must not touch a database that is closed


def _refusal(error: Exception) -> QueryError:
    """What may be said of an error: DuckDB's words on the query, but never those on a value."""
    kind = str(error).partition(" Error:")[0]
    if kind in ("Parser", "Binder", "Catalog"):
        return QueryError(first_line(error))
    if kind == "Out of Memory":
        return QueryError(f"a query may use {_MEMORY} of memory; aggregate, or read fewer columns")
    return _ValueError(
        f"the query failed while it read values ({type(error).__name__}); DuckDB's words are withheld, they "
        "may quote one: convert with TRY_CAST; where that is not it, the lake had a fault, so ask again"
    )


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
