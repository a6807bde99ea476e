"""The process of one statement: it parses, checks and runs it, and writes the answer to its standard output.

It gets its task from its standard input, and ends when that ends. It has no environment variables of its
parent, no keys of a lake and no settings. Its own limits (`_limit`) end it even if the parent is gone. It
reads the files of a local lake itself, and requests those of an object store from the parent piece by piece.
"""

import json
import math
import os
import queue
import re
import resource
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from privacy_engine.engines.closed import CLOSED, Setting
from privacy_release.query.forms import FORMS
from privacy_release.query.frames import Frame, exactly, next_head, send, send_words
from privacy_release.query.rules import QueryError, first_line, tables_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_THREADS = 2
_BATCH = 1_024
_PIECE = 8_000_000  # bytes of a remote file that are requested at a time
# Bytes beyond those of the database: libraries, stacks and Arrow take 180 MB, freed memory is kept a while.
_OWN = 300_000_000
_ADDRESSES = 1_500_000_000  # bytes that libraries and stacks map without using them
_SETTINGS: dict[str, Setting] = {
    **CLOSED,
    "temp_directory": "",  # no part of an answer goes to the disk
    "threads": _THREADS,
}


def open_database(
    tables: Sequence[Mapping[str, Any]], memory: int, remote: Any = None
) -> "DuckDBPyConnection":
    """Open a database that only sees these tables, and whose settings cannot be changed.

    Args:
        tables: Tables with name, columns, files and, if the column `release` is requested, the release of
            each file.
        memory: Largest memory in bytes.
        remote: File system that has the files. None: that of this machine.
    """
    database = duckdb.connect(config={**_SETTINGS, "memory_limit": f"{memory}B"})
    if remote is not None:
        database.register_filesystem(remote)
    files = ", ".join(_text(path) for table in tables for path in table["files"])
    database.execute(f"SET allowed_paths = [{files}]")
    database.execute("SET enable_external_access = false")
    for table in tables:
        _show(database, table)
    database.execute("SET TimeZone = 'UTC'")  # the same answer on every machine
    database.execute("SET lock_configuration = true")
    return database


def _show(database: "DuckDBPyConnection", table: Mapping[str, Any]) -> None:
    """Give the database a view of a table's files under its name. They are read on demand.

    A query cannot name the files themselves, because `rules` only allows the tables of the lake.
    """
    path = "file"
    while path in table["columns"]:
        path += "_"
    wanted = [_name(column) for column in table["columns"]]
    if table["releases"] is not None:
        pairs = zip(table["files"], table["releases"], strict=True)
        names = ", ".join(f"{_text(file)}: {_text(release)}" for file, release in pairs)
        wanted.insert(0, f"MAP {{{names}}}[{_name(path)}] AS release")
    files = ", ".join(map(_text, table["files"]))
    database.execute(
        f"CREATE VIEW {_name(table['name'])} AS SELECT {', '.join(wanted)} FROM read_parquet([{files}], "
        f"union_by_name = true, hive_partitioning = false, filename = {_text(path)})"
    )


class _ReadingError(Exception):
    """The statement failed on a value, or on a file that could not be read."""


class _Child:
    """Both ends of the conversation, on the side of the child."""

    def __init__(self, given: IO[bytes], answer: IO[bytes]) -> None:
        self._given, self._answer = given, answer
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Keep reading while the statement runs, so that this process ends with its parent."""
        with suppress(EOFError, OSError):
            while True:
                _, length = next_head(self._given)
                self._heard.put(exactly(self._given, length))
        os._exit(1)

    def work(self) -> None:
        """Process one statement, from its text to the end of its answer."""
        parser = duckdb.connect(config={**_SETTINGS, "enable_external_access": False})
        self._say(ready=True)
        request = json.loads(self._heard.get())
        _limit(request["memory"], request["seconds"])
        try:
            self._say(tables=tables_of(parser, request["sql"]))
            parser.close()
            self._run(request, json.loads(self._heard.get()))
        except QueryError as error:
            self._say(refused=str(error), failed=False)
        except _ReadingError as error:
            self._say(refused=str(error), failed=True)
        except (MemoryError, RecursionError):
            self._say(refused=_too_much(request["memory"]), failed=False)

    def _run(self, request: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        try:
            remote = None if given["sizes"] is None else _remote(self, given["sizes"])
            database = open_database(given["tables"], request["memory"], remote)
            reader = database.sql(request["sql"]).to_arrow_reader(_BATCH)
            self._say(columns=reader.schema.names)
            count = _Count(request["rows"])
            for piece in FORMS[request["form"]](reader.schema, count.through(reader)):
                send(self._answer, Frame.ANSWER, piece)
        except QueryError:
            raise
        except (duckdb.Error, pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise _explained(_shown_error(error, request["memory"]), given["tables"]) from None
        self._say(done=count.rows)

    def read(self, file: int, start: int, length: int) -> bytes:
        """Return bytes of a file that the parent has. Several threads may call this."""
        with self._one_at_a_time:
            self._say(read=[file, start, length])
            return self._heard.get()

    def _say(self, **words: Any) -> None:
        send_words(self._answer, words)


class _Count:
    """Counts the rows of an answer, and ends one that has too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.rows = 0

    def through(self, batches: "pa.RecordBatchReader") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            self.rows += len(batch)
            if self.rows > self._limit:
                raise QueryError(
                    f"an answer must have at most {self._limit:,} rows, this one has more; aggregate, add "
                    "LIMIT, or allow more rows"
                )
            yield batch


def _remote(child: _Child, sizes: Sequence[int]) -> Any:
    """Return a file system whose files the parent reads. DuckDB requires one of fsspec."""
    import fsspec

    class File(fsspec.spec.AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
        def _fetch_range(self, start: int, end: int) -> bytes:
            pieces = range(start, end, _PIECE)
            return b"".join(child.read(int(self.path), at, min(_PIECE, end - at)) for at in pieces)

    class Files(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
        protocol = "release"
        cachable = False

        def _open(self, path: str, mode: str = "rb", **_: Any) -> File:
            # DuckDB requests whole row groups itself: reading ahead would double that.
            return File(self, path, "rb", cache_type="none", size=sizes[int(path)])

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": sizes[int(self._strip_protocol(path))], "type": "file"}

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

        def modified(self, path: str) -> datetime:
            return datetime.fromtimestamp(0, UTC)  # files of a lake never change

    return Files()


def _limit(memory: int, seconds: float) -> None:
    """Set limits of the operating system on this process, which nothing in it can lift."""
    cpu = math.ceil(time.process_time() + seconds * _THREADS) + 1
    for what, most in (
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_DATA, memory + _OWN),  # on Linux all memory that is written to; elsewhere the heap
        (resource.RLIMIT_AS, memory + _ADDRESSES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),  # memory must not be written to disk
    ):
        with suppress(ValueError, OSError):  # a system without this limit, or with a lower one
            resource.setrlimit(what, (most, most))


def _shown_error(error: Exception, memory: int) -> Exception:
    """Return what may be shown of an error: DuckDB's message on the query, but never one on a value."""
    kind = str(error).partition(" Error:")[0]
    if kind in ("Parser", "Binder", "Catalog"):
        return QueryError(first_line(error))
    if kind == "Out of Memory" or isinstance(error, MemoryError):
        return QueryError(_too_much(memory))
    return _ReadingError(
        f"the query failed while it read values ({type(error).__name__}); DuckDB's message is withheld, it "
        "may quote one: convert with TRY_CAST; if that is not the cause, the lake had a fault, so try again"
    )


def _explained(error: Exception, tables: Sequence[Mapping[str, Any]]) -> Exception:
    """Add advice if a query names a source column that is released as two bounds."""
    found = re.search(r'column "([^"]+)" not found', str(error))
    if found is None or not isinstance(error, QueryError):
        return error
    for table in tables:
        if {f"{found[1]}_from", f"{found[1]}_to"} <= set(table["columns"]):
            return QueryError(
                f"{found[1]} is released as an interval, in {found[1]}_from and {found[1]}_to: query its "
                "mean, or for counts of ranges of it, with --intervals (in Python: "
                "privacy_release.intervals), or name those two columns"
            )
    return error


def _too_much(memory: int) -> str:
    return f"a query may use {memory:,} bytes of memory; aggregate, read fewer columns, or nest it less"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def main() -> None:
    """Process one statement."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not become part of the answer
    try:
        _Child(sys.stdin.buffer, answer).work()
    finally:
        with suppress(OSError):
            answer.flush()
        os._exit(0)  # there is nothing to clean up, and closing a database may take long


if __name__ == "__main__":
    main()
