"""Work on the parts of a table in other processes, which free their memory and are replaced if they die.

A process works on one part at a time and on a limited number of them. Python's own pool does not help: if the
kernel kills a child, all work is lost, and the pool does not report which part it was.
"""

import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from multiprocessing import connection, current_process, get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import threadpoolctl

from privacy_engine.engines.engine import Apart, Work
from privacy_engine.engines.parquet import reading
from privacy_engine.engines.partitions import read_streams
from privacy_engine.errors import CapacityError, PrivacyEngineError
from privacy_engine.foreign import is_panic, translated

_LIFE = 16  # fragments per process; a new process imports for a second or two
_MEMORY = 1_500_000_000  # bytes that a method uses for a fragment of half a million records
_ATTEMPTS = 2


def process_count(requested: int | None) -> int:
    """Return the number of processes: as requested, else one per core, but no more than memory allows."""
    allowed = max(1, int(psutil.virtual_memory().available // _MEMORY))
    return min(requested or len(os.sched_getaffinity(0)), allowed)


def work_apart(work: Work, files: Mapping[int, Path], processes: int) -> Iterator[Mapping[str, Any]]:
    """Do ``work`` on the records of each fragment; yield its results as they come.

    A fragment's file of Arrow streams is removed once its work is done. Errors as for `run_apart`.
    """
    on_file = partial(_on_file, work, {fragment: str(file) for fragment, file in files.items()})
    for fragment, outcome in run_apart(on_file, files, processes):
        files[fragment].unlink()
        yield outcome


def work_here(work: Work, files: Mapping[int, Path]) -> Iterator[Mapping[str, Any]]:
    """Like `work_apart`, in this process, for tables that are too small to start processes for.

    Results and errors are copied as between processes, so an error has no frames that hold records. The work
    does not report its progress, because the fragment is one part of the caller's.
    """
    for fragment, file in files.items():
        on_file = partial(_on_file, work, {fragment: str(file)})
        outcome = pickle.loads(pickle.dumps(Context().run(_done, on_file, fragment, "fragment")))
        file.unlink()
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


def run_apart(
    work: Apart, numbers: Iterable[int], processes: int, what: str = "fragment", life: int = _LIFE
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Do ``work`` for each number; yield the number and its result as they come.

    The processes end with the iterator, even if the caller stops early or the work on a part fails.

    Args:
        work: Function that can be pickled; repeating it is harmless.
        numbers: Numbers of the parts.
        processes: Largest number of processes at a time.
        what: Name of a part in errors.
        life: Number of parts after which a process is replaced.

    Raises:
        CapacityError: If processes die twice on the same part, or one runs out of memory.
        EngineError: If a native library crashes.
        PrivacyEngineError: Any such error of ``work``, unchanged.
        RuntimeError: If ``work`` raises anything else; its message may quote cells, so only its type is
            reported.
    """
    waiting = deque(numbers)
    attempts = dict.fromkeys(waiting, 0)
    children: list[_Child] = []
    processes = min(processes, len(waiting))
    try:
        while waiting or any(child.number is not None for child in children):
            while waiting and sum(child.number is not None for child in children) < processes:
                child = next((c for c in children if c.number is None), None)
                if child is None:
                    child = _Child(work, what, max(1, len(os.sched_getaffinity(0)) // processes))
                    children.append(child)
                number = waiting.popleft()
                attempts[number] += 1
                child.begin(number)
            busy = {child.pipe: child for child in children if child.number is not None}
            for pipe in connection.wait(list(busy)):
                child = busy[pipe]  # type: ignore[index]  # only pipes were waited for
                number, outcome = child.outcome()
                if outcome is None and attempts[number] < _ATTEMPTS:
                    waiting.appendleft(number)
                elif outcome is None:
                    raise CapacityError(
                        f"{_ATTEMPTS} processes that worked on {what} {number} ended with "
                        f"{child.ending()}. Memory is the most likely cause: use fewer processes "
                        f"or smaller {what}s"
                    )
                elif isinstance(outcome, Exception):
                    raise outcome
                else:
                    yield number, outcome
                if outcome is None or child.begun >= life:
                    child.end()
                    children.remove(child)
    finally:
        for child in children:
            child.end()


def _on_file(work: Work, files: Mapping[int, str], fragment: int) -> Mapping[str, Any]:
    """Do the work on a fragment, whose records are read from its file."""
    with reading(files[fragment]):
        records = pa.concat_tables(read_streams(Path(files[fragment])))
    return work(fragment, records)


class _Child:
    """A process that works on one part after the other."""

    def __init__(self, work: Apart, what: str, cores: int) -> None:
        context = get_context("spawn")  # a fork would copy the locks of threads, and the parent's records
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work, what, cores), daemon=True)
        with _as_one_who_may():
            self._process.start()
        theirs.close()  # so that the pipe ends when the process does
        self.begun = 0
        self.number: int | None = None

    def begin(self, number: int) -> None:
        self.begun, self.number = self.begun + 1, number
        with suppress(OSError):  # the process died, which the pipe shows
            self.pipe.send(number)

    def outcome(self) -> tuple[int, Mapping[str, Any] | Exception | None]:
        """Return the part, and its result or error; None if the process died."""
        number, self.number = self.number, None
        assert number is not None
        try:
            return number, self.pipe.recv()
        except (EOFError, OSError):
            return number, None

    def ending(self) -> str:
        """Describe how the process ended."""
        self._process.join()
        code = self._process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def _as_one_who_may() -> Iterator[None]:
    """Allow a daemon to have children, which Python forbids because they could outlive it; these do not.

    Workers of Celery are daemons.
    """
    config: dict[str, Any] = current_process()._config  # type: ignore[attr-defined]  # where Python looks
    daemon = config.pop("daemon", None)
    try:
        yield
    finally:
        if daemon is not None:
            config["daemon"] = daemon


def _serve(pipe: "Connection[Any, Any]", work: Apart, what: str, cores: int) -> None:
    """Run a child until it is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_threads(cores)
    while True:
        pipe.send(_done(work, pipe.recv(), what))


def _done(work: Apart, number: int, what: str) -> Mapping[str, Any] | Exception:
    """Return the result, or an error that quotes no cell."""
    try:
        return dict(work(number))
    except PrivacyEngineError as error:
        return error
    except BaseException as error:  # the message of any error may quote cells
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return translated(error, f"the work on {what} {number}") or RuntimeError(
            f"the work on {what} {number} failed with {type(error).__name__}; to see the full error, "
            f"run it on this {what} only, where records may be shown"
        )


def _limit_threads(cores: int) -> None:
    """Limit a child to its share of the cores, in libraries that are loaded or will be."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ.update(dict.fromkeys(names, str(cores)))
    pa.set_cpu_count(cores)
    threadpoolctl.threadpool_limits(cores)
    if numba := sys.modules.get("numba"):  # it reads its settings at each compilation, and refuses a change
        numba.set_num_threads(min(cores, numba.config.NUMBA_NUM_THREADS))
    else:
        os.environ["NUMBA_NUM_THREADS"] = str(cores)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
