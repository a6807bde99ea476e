"""The process of an analyst's statement, on the side of its parent, which can always end it.

DuckDB cannot be interrupted while it plans a query or processes one long value, and a parser can overflow its
stack. So a statement has a separate process, which is killed when its time is over or its answer too large,
and whose limits on memory and processor time are enforced by the operating system.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer
from time import monotonic
from typing import Any

from privacy_engine.errors import CapacityError
from privacy_engine.vocabulary import PARTITION
from privacy_release.lake.store import Lake, reaching
from privacy_release.query.frames import LONGEST_WORDS, Frame, exactly, next_head, send, send_words
from privacy_release.query.rules import QueryError
from privacy_release.query.sources import Snapshot

_START = 60.0  # seconds within which a new process must be ready, even on a busy machine
# The only variables of this environment that the process gets: the places of the system's libraries.
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE")
_FOREVER = 1e9


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a query.

    Attributes:
        rows: Largest number of rows in the answer. A longer answer is refused, not cut.
        size: Largest size of the answer in bytes, in the requested form.
        seconds: Longest duration of the query.
        memory: Largest memory of the database in bytes. The process has 0.3 GB more, so it is below 1 GB by
            default.
        length: Largest number of characters in the query.
        depth: Largest depth of nested brackets in the query.
    """

    rows: int = 10_000
    size: int = 256_000_000
    seconds: float = 60.0
    memory: int = 700_000_000
    length: int = 100_000
    depth: int = 100

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise QueryError(f"{name} must be positive, got {value:g}")
        if self.seconds > _FOREVER:
            raise QueryError(f"seconds must be at most {_FOREVER:,.0f}, got {self.seconds:g}")


class QueryStoppedError(QueryError):
    """A query was stopped by its user."""


class ReadingError(QueryError):
    """A query failed while it ran: on a value, or on a file that could not be read."""


class Stop:
    """Stops a query from another thread, before or while it runs.

    Attributes:
        cpu: Processor seconds of the query's processes, including those that gave no answer.
    """

    def __init__(self) -> None:
        self.cpu = 0.0
        self._lock = Lock()
        self._process: QueryProcess | None = None
        self.is_set = False

    def set(self) -> None:
        """End it."""
        with self._lock:
            self.is_set = True
            if self._process is not None:
                self._process.kill()

    def check(self) -> None:
        """Raise if the query is to be stopped.

        Raises:
            QueryStoppedError: If it is.
        """
        if self.is_set:
            raise QueryStoppedError("the query was stopped by its user")

    def watch(self, process: "QueryProcess | None") -> None:
        """Set the process to end when stopped. None: there is none any more."""
        with self._lock:
            self._process = process
            if self.is_set and process is not None:
                process.kill()


class QueryProcess:
    """A new process that parses and runs one query. When the context ends, the process has been killed.

    Attributes:
        seconds: Seconds that the query has run, here and in earlier processes.
        cpu: Processor seconds, known at the end.
    """

    def __init__(self, limits: Limits, stop: Stop, seconds: float = 0.0) -> None:
        self._limits, self._stop = limits, stop
        self._lock = Lock()
        self._ready = self._late = self._gone = False
        self.seconds = seconds
        self.cpu = 0.0

    def __enter__(self) -> "QueryProcess":
        folders = [str(Path(folder or ".").absolute()) for folder in sys.path]
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {
            "PYTHONPATH": os.pathsep.join(folders),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",  # it computes nothing with that library
            "MALLOC_ARENA_MAX": "2",
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "privacy_release.query.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # messages of libraries may quote a value
                cwd="/",
                env=environment,
                start_new_session=True,  # a separate process group, which is killed as a whole
            )
        except OSError as error:
            raise _no_process(os.strerror(error.errno or 0)) from None
        self._stop.watch(self)
        try:
            with self._killed_after(_START):
                self._ready = self._hear("ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._stop.watch(None)
        with self._lock:
            _, status, usage = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._gone = True
        self.cpu = usage.ru_utime + usage.ru_stime
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # data that was not sent any more
                pipe.close()  # type: ignore[union-attr]  # both are pipes

    def kill(self) -> None:
        """Kill the process and all processes that it may have started."""
        with self._lock:
            if not self._gone:  # until it is waited for, no other process can have its number
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def tables_of(self, sql: str, form: str) -> tuple[str, ...]:
        """Start a query, and return the tables that it reads, if its text is allowed.

        Raises:
            QueryError: If it is not.
        """
        limits = self._limits
        with self._counted():
            self._send(sql=sql, form=form, rows=limits.rows, memory=limits.memory, seconds=limits.seconds)
            return tuple(self._hear("tables"))

    def answer(self, lake: Lake, seen: Sequence[Snapshot]) -> tuple[tuple[str, ...], bytes, int]:
        """Run the query on snapshots of its tables. Return the answer's columns, bytes, and number of rows.

        Raises:
            QueryError: If it is wrong or exceeds a limit.
            PublishError: If a file in an object store cannot be read.
        """
        files = Files(lake, seen)
        pieces: list[bytes] = []
        room = self._limits.size
        with self._counted():
            self._send(tables=files.tables, sizes=files.sizes)
            columns = tuple(self._hear("columns", files))
            while isinstance(heard := self._next(files, room), bytes):
                pieces.append(heard)
                room -= len(heard)
        return columns, b"".join(pieces), int(heard["done"])

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count the time of the block as time of the query."""
        begun = monotonic()
        try:
            with self._killed_after(max(0.0, self._limits.seconds - self.seconds)):
                yield
        finally:
            self.seconds += monotonic() - begun

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        def expire() -> None:
            self._late = True
            self.kill()

        timer = Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _send(self, **words: Any) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # if the process ended, its silence is noticed later
            send_words(self._process.stdin, words)

    def _hear(self, key: str, files: "Files | None" = None) -> Any:
        """Return what the process says under a key."""
        heard = self._next(files, 0)
        assert isinstance(heard, dict)
        return heard[key]

    def _next(self, files: "Files | None", room: int) -> dict[str, Any] | bytes:
        """Return the next message or piece of the answer, and serve requests for parts of files meanwhile.

        Raises:
            QueryError: If the process refuses the query, the answer is too large, or the process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while True:
            try:
                kind, length = next_head(self._process.stdout)
                if kind is Frame.ANSWER and length > room:
                    raise QueryError(
                        f"an answer must have at most {self._limits.size:,} bytes, but this one has more; "
                        "query fewer rows or columns, or allow more bytes"
                    )
                if length > max(room, LONGEST_WORDS):
                    raise EOFError
                data = exactly(self._process.stdout, length)
            except EOFError:
                raise self._ended() from None
            if kind is Frame.ANSWER:
                return data
            words: dict[str, Any] = json.loads(data)
            if "refused" in words:
                raise (ReadingError if words["failed"] else QueryError)(words["refused"])
            if files is None or "read" not in words:
                return words
            piece = files.read(*words["read"])
            with suppress(OSError):
                send(self._process.stdin, Frame.FILE, piece)

    def _ended(self) -> Exception:
        """Return why the process ended before its answer."""
        self._stop.check()
        if not self._ready:
            return _no_process("one that ended" if not self._late else "none yet")
        if self._late:
            return QueryError(
                f"a query must end within {self._limits.seconds:g} seconds; simplify it, or allow more time"
            )
        return QueryError(
            f"the query's process ended: it may use {self._limits.memory:,} bytes of memory and must not be "
            "nested without end; aggregate, read fewer columns, or split it"
        )


def _no_process(got: str) -> CapacityError:
    return CapacityError(
        f"the process of a query must start within {_START:g} seconds, got {got}; check that the machine has "
        "memory left, and that Python can start as it did here"
    )


class Files:
    """The files of snapshots as a query's process sees them. Those in an object store are read here.

    Attributes:
        tables: Tables for the process, see `child.open_database`.
        sizes: Sizes of the files in bytes, by number. None if the process reads them itself.
    """

    def __init__(self, lake: Lake, seen: Sequence[Snapshot]) -> None:
        self._lake = lake
        self._opened: dict[int, Any] = {}
        self._found: list[tuple[Any, str]] = []  # file system and path, by number
        self.sizes: list[int] | None = None if lake.folder is not None else []
        self.tables = [self._table(snapshot) for snapshot in seen]

    def _table(self, snapshot: Snapshot) -> dict[str, Any]:
        with reaching(self._lake, f"list the files of table {snapshot.name}"):
            found = snapshot.paths()
            stored = snapshot.files.filesystem
            infos = [] if self.sizes is None else stored.get_file_info(list(found))
        if self.sizes is None:
            names = [str(Path(self._lake.table(snapshot.name).address) / path) for path in found]
        else:
            names = [f"release://{len(self._found) + number}" for number in range(len(found))]
            self._found += [(stored, path) for path in found]
            self.sizes += [info.size for info in infos]
        every = PARTITION in snapshot.columns
        return {
            "name": snapshot.name,
            "columns": [column for column in snapshot.columns if column != PARTITION],
            "files": names,
            "releases": list(found.values()) if every else None,
        }

    def read(self, number: int, start: int, length: int) -> bytes:
        """Return bytes of a file."""
        stored, path = self._found[number]
        with reaching(self._lake, "read a release"):
            if number not in self._opened:
                self._opened[number] = stored.open_input_file(path)
            return bytes(self._opened[number].read_at(length, start))
