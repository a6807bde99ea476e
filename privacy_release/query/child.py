"""The process of one statement: it parses, checks and runs it, and writes the answer to its standard output.

It is told by its standard input what to do, and ends when that does. It has no variables of the process that
asks, no keys of a lake and no settings; its own limits (`_limit`) end it even where nobody is left to do so.
The files of a local lake it reads itself, those of an object store it asks for piece by piece.
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

from privacy_release.query.forms import FORMS
from privacy_release.query.frames import Frame, exactly, next_head, send, send_words
from privacy_release.query.rules import QueryError, first_line, tables_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_THREADS = 2
_BATCH = 1_024
_PIECE = 8_000_000  # bytes of a remote file that are asked for at a time
# Bytes beyond those of the database: libraries, stacks and Arrow take 180 MB, freed memory is kept a while.
_OWN = 300_000_000
_ADDRESSES = 1_500_000_000  # bytes that libraries and stacks map and do not use
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,  # a table name must never find a variable of this program
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "temp_directory": "",  # nothing of an answer on disk
    "threads": _THREADS,
}


def open_database(
    tables: Sequence[Mapping[str, Any]], memory: int, remote: Any = None
) -> "DuckDBPyConnection":
    """A database that sees these tables and nothing else, and whose settings cannot be changed.

    Args:
        tables: each with its name, columns, files and, where the column `release` is wanted, the release of
            each file.
        memory: bytes that it may use.
        remote: the file system that has the files; None for that of this machine.
    """
    database = duckdb.connect(config={**_CLOSED, "memory_limit": f"{memory}B"})
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
    """Give the database a view of a table's files under its name; they are read as they are needed.

    A query cannot name the files themselves: `rules` lets it read the tables of the lake alone.
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
    """Both ends of the conversation, as the child has them."""

    def __init__(self, given: IO[bytes], answer: IO[bytes]) -> None:
        self._given, self._answer = given, answer
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Read on while the statement runs, so that this process ends with the one that asks."""
        with suppress(EOFError, OSError):
            while True:
                _, length = next_head(self._given)
                self._heard.put(exactly(self._given, length))
        os._exit(1)

    def work(self) -> None:
        """One statement, from its text to the end of its answer."""
        parser = duckdb.connect(config={**_CLOSED, "enable_external_access": False})
        self._say(ready=True)
        asked = json.loads(self._heard.get())
        _limit(asked["memory"], asked["seconds"])
        try:
            self._say(tables=tables_of(parser, asked["sql"]))
            parser.close()
            self._run(asked, json.loads(self._heard.get()))
        except QueryError as error:
            self._say(refused=str(error), failed=False)
        except _ReadingError as error:
            self._say(refused=str(error), failed=True)
        except (MemoryError, RecursionError):
            self._say(refused=_too_much(asked["memory"]), failed=False)

    def _run(self, asked: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        try:
            remote = None if given["sizes"] is None else _remote(self, given["sizes"])
            database = open_database(given["tables"], asked["memory"], remote)
            reader = database.sql(asked["sql"]).to_arrow_reader(_BATCH)
            self._say(columns=reader.schema.names)
            count = _Count(asked["rows"])
            for piece in FORMS[asked["form"]](reader.schema, count.through(reader)):
                send(self._answer, Frame.ANSWER, piece)
        except QueryError:
            raise
        except (duckdb.Error, pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise _explained(_told(error, asked["memory"]), given["tables"]) from None
        self._say(done=count.rows)

    def read(self, file: int, start: int, length: int) -> bytes:
        """Bytes of a file that the other side has; several threads may ask."""
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
    """A file system whose files the other side reads; DuckDB asks for one of fsspec's kind."""
    import fsspec

    class File(fsspec.spec.AbstractBufferedFile):  # type: ignore[misc]  # fsspec ships no types
        def _fetch_range(self, start: int, end: int) -> bytes:
            pieces = range(start, end, _PIECE)
            return b"".join(child.read(int(self.path), at, min(_PIECE, end - at)) for at in pieces)

    class Files(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec ships no types
        protocol = "release"
        cachable = False

        def _open(self, path: str, mode: str = "rb", **_: Any) -> File:
            # Whole row groups are asked for by DuckDB itself: reading ahead would double that.
            return File(self, path, "rb", cache_type="none", size=sizes[int(path)])

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": sizes[int(self._strip_protocol(path))], "type": "file"}

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

        def modified(self, path: str) -> datetime:
            return datetime.fromtimestamp(0, UTC)  # files of a lake never change

    return Files()


def _limit(memory: int, seconds: float) -> None:
    """Limits of the operating system on this process, which nothing in it can lift."""
    cpu = math.ceil(time.process_time() + seconds * _THREADS) + 1
    for what, most in (
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_DATA, memory + _OWN),  # on Linux all that is written to; elsewhere the heap
        (resource.RLIMIT_AS, memory + _ADDRESSES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),  # what is in memory must not be left on disk
    ):
        with suppress(ValueError, OSError):  # a system that does not know it, or has a lower one
            resource.setrlimit(what, (most, most))


def _told(error: Exception, memory: int) -> Exception:
    """What may be said of an error: DuckDB's words on the query, but never those on a value."""
    kind = str(error).partition(" Error:")[0]
    if kind in ("Parser", "Binder", "Catalog"):
        return QueryError(first_line(error))
    if kind == "Out of Memory" or isinstance(error, MemoryError):
        return QueryError(_too_much(memory))
    return _ReadingError(
        f"the query failed while it read values ({type(error).__name__}); DuckDB's words are withheld, they "
        "may quote one: convert with TRY_CAST; where that is not it, the lake had a fault, so ask again"
    )


def _explained(error: Exception, tables: Sequence[Mapping[str, Any]]) -> Exception:
    """The same; where a column of the source is asked that is released as two bounds, with what to ask."""
    found = re.search(r'column "([^"]+)" not found', str(error))
    if found is None or not isinstance(error, QueryError):
        return error
    for table in tables:
        if {f"{found[1]}_from", f"{found[1]}_to"} <= set(table["columns"]):
            return QueryError(
                f"{found[1]} is released as an interval, in {found[1]}_from and {found[1]}_to: ask for its "
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
    """Serve one statement."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no part of the answer
    try:
        _Child(sys.stdin.buffer, answer).work()
    finally:
        with suppress(OSError):
            answer.flush()
        os._exit(0)  # nothing is left to tidy up, and a database may take long to


if __name__ == "__main__":
    main()
