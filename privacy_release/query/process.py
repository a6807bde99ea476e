"""A process for one statement of an analyst, as the process that asks has it: it can always be ended.

DuckDB is asked in vain to stop while it plans a query or works on one long value, and a parser can overflow
its stack. So a statement has a process of its own, which is killed when its time is over or its answer too
large, and whose limits on memory and processor time the operating system holds.
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

_START = 60.0  # seconds within which a new process must be ready, on a busy machine, too
# All that the process gets of this one's environment: where a system has its libraries.
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE")
_FOREVER = 1e9


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a query may take.

    Attributes:
        rows: of the answer; one with more is refused, not cut.
        size: bytes of the answer in the form that was asked for.
        seconds: that the query may run.
        memory: bytes that the database may use; the process has 0.3 GB more, so it is below 1 GB by default.
        length: characters of the query.
        depth: of brackets within brackets in it.
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
    """A query was ended by who asked it."""


class ReadingError(QueryError):
    """A query failed while it ran: on a value, or on a file that could not be read."""


class Stop:
    """Ends a query from another thread, before or while it runs.

    Attributes:
        cpu: seconds of processor time that the query's processes took, also of one that gave no answer.
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
        """Go no further with a query that is to end.

        Raises:
            QueryStoppedError: if it is.
        """
        if self.is_set:
            raise QueryStoppedError("the query was stopped by who asked it")

    def watch(self, process: "QueryProcess | None") -> None:
        """Have this process ended; None has none any more."""
        with self._lock:
            self._process = process
            if self.is_set and process is not None:
                process.kill()


class QueryProcess:
    """A fresh process that parses and runs one query; a context, at whose end it is dead and gone.

    Attributes:
        seconds: that the query has run, here and in processes before.
        cpu: seconds of processor time, known at the end.
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
                stderr=subprocess.DEVNULL,  # a library's last words may quote a value
                cwd="/",
                env=environment,
                start_new_session=True,  # a group of its own, which is killed as a whole
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
            with suppress(OSError):  # what was not sent any more
                pipe.close()  # type: ignore[union-attr]  # both are pipes

    def kill(self) -> None:
        """End the process and all that it may have started."""
        with self._lock:
            if not self._gone:  # until it is waited for, nobody else can have its number
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def tables_of(self, sql: str, form: str) -> tuple[str, ...]:
        """Start on a query: the tables that it reads, if its words are allowed.

        Raises:
            QueryError: if they are not.
        """
        limits = self._limits
        with self._counted():
            self._send(sql=sql, form=form, rows=limits.rows, memory=limits.memory, seconds=limits.seconds)
            return tuple(self._hear("tables"))

    def answer(self, lake: Lake, seen: Sequence[Snapshot]) -> tuple[tuple[str, ...], bytes, int]:
        """Run the query on snapshots of its tables: the answer's columns, its bytes, its number of rows.

        Raises:
            QueryError: if it is wrong or takes more than it may.
            PublishError: if a file in an object store cannot be read.
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
        """Work on the query, which counts against its time."""
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
        with suppress(OSError):  # of a process that ended: its silence tells
            send_words(self._process.stdin, words)

    def _hear(self, key: str, files: "Files | None" = None) -> Any:
        """What the process says under a key."""
        heard = self._next(files, 0)
        assert isinstance(heard, dict)
        return heard[key]

    def _next(self, files: "Files | None", room: int) -> dict[str, Any] | bytes:
        """The next words or piece of the answer; asked for parts of files it serves meanwhile.

        Raises:
            QueryError: what the process says of the query, that the answer is too large, or why it ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while True:
            try:
                kind, length = next_head(self._process.stdout)
                if kind is Frame.ANSWER and length > room:
                    raise QueryError(
                        f"an answer must have at most {self._limits.size:,} bytes, this one has more; ask "
                        "for fewer rows or columns, or allow more bytes"
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
        """Why the process has ended before its answer."""
        self._stop.check()
        if not self._ready:
            return _no_process("one that ended" if not self._late else "none yet")
        if self._late:
            return QueryError(
                f"a query must end within {self._limits.seconds:g} seconds; ask for less, or allow more time"
            )
        return QueryError(
            f"the query's process ended: it may use {self._limits.memory:,} bytes of memory and must not be "
            "nested without end; aggregate, read fewer columns, or split it"
        )


def _no_process(got: str) -> CapacityError:
    return CapacityError(
        f"the process of a query must start within {_START:g} seconds, got {got}; see that the machine has "
        "memory left, and that Python can start as it did here"
    )


class Files:
    """The files of snapshots as a query's process is told of them; those of an object store are read here.

    Attributes:
        tables: for the process, `child.open_database`.
        sizes: of the files in bytes, by number; None where the process reads them itself.
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
        """Bytes of a file."""
        stored, path = self._found[number]
        with reaching(self._lake, "read a release"):
            if number not in self._opened:
                self._opened[number] = stored.open_input_file(path)
            return bytes(self._opened[number].read_at(length, start))
