"""Work on fragments in other processes: their memory is given back, and one that dies is replaced.

A process works on one fragment at a time and on some of them in its life. Python's own pool is no help: a
child that the kernel kills takes all work down with it, and the pool does not say whose it was.
"""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import threadpoolctl

from privacy_engine.engines.engine import Work
from privacy_engine.engines.parquet import reading
from privacy_engine.engines.partitions import read_streams
from privacy_engine.errors import CapacityError, PrivacyEngineError
from privacy_engine.foreign import is_panic, translated

_LIFE = 16  # fragments of a process; a new one imports for a second or two
_MEMORY = 1_500_000_000  # bytes that a method takes for a fragment of half a million records
_ATTEMPTS = 2


def process_count(wanted: int | None) -> int:
    """How many processes work at a time: as wanted, else one a core, but no more than memory allows."""
    allowed = max(1, int(psutil.virtual_memory().available // _MEMORY))
    return min(wanted or len(os.sched_getaffinity(0)), allowed)


def work_apart(work: Work, files: Mapping[int, Path], processes: int) -> Iterator[Mapping[str, Any]]:
    """``work`` done on the records of each fragment; its results as they come.

    The file of a fragment, of Arrow streams, is removed as soon as its work is done. The processes end with
    the iterator, also where the caller stops early or a fragment fails.

    Raises:
        CapacityError: if processes die twice over the same fragment, or one runs out of memory.
        EngineError: if a native library breaks down.
        PrivacyEngineError: what ``work`` raises of this family, as it is.
        RuntimeError: if ``work`` raises anything else; its message may quote cells, so only its type is told.
    """
    waiting = deque(files)
    attempts = dict.fromkeys(files, 0)
    children: list[_Child] = []
    processes = min(processes, len(files))
    try:
        while waiting or any(child.fragment is not None for child in children):
            while waiting and sum(child.fragment is not None for child in children) < processes:
                child = next((c for c in children if c.fragment is None), None)
                if child is None:
                    child = _Child(work, max(1, len(os.sched_getaffinity(0)) // processes))
                    children.append(child)
                fragment = waiting.popleft()
                attempts[fragment] += 1
                child.begin(fragment, files[fragment])
            busy = {child.pipe: child for child in children if child.fragment is not None}
            for pipe in connection.wait(list(busy)):
                child = busy[pipe]  # type: ignore[index]  # only pipes were waited for
                fragment, outcome = child.outcome()
                if outcome is None and attempts[fragment] < _ATTEMPTS:
                    waiting.appendleft(fragment)
                elif outcome is None:
                    raise CapacityError(
                        f"a process must last for the work on fragment {fragment}, got {_ATTEMPTS} that "
                        f"ended with {child.ending()}; memory is the most likely cause: have fewer processes "
                        "or smaller fragments"
                    )
                elif isinstance(outcome, Exception):
                    raise outcome
                else:
                    files[fragment].unlink()
                    yield outcome
                if outcome is None or child.begun >= _LIFE:
                    child.end()
                    children.remove(child)
    finally:
        for child in children:
            child.end()


class _Child:
    """A process that does the work on one fragment after the other."""

    def __init__(self, work: Work, cores: int) -> None:
        context = get_context("spawn")  # a fork would copy the locks of threads, and the parent's records
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work, cores), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends when the process does
        self.begun = 0
        self.fragment: int | None = None

    def begin(self, fragment: int, file: Path) -> None:
        self.begun, self.fragment = self.begun + 1, fragment
        with suppress(OSError):  # of a process that died: the pipe tells
            self.pipe.send((fragment, str(file)))

    def outcome(self) -> tuple[int, Mapping[str, Any] | Exception | None]:
        """The fragment, and its result or what was raised; None if the process died."""
        fragment, self.fragment = self.fragment, None
        assert fragment is not None
        try:
            return fragment, self.pipe.recv()
        except (EOFError, OSError):
            return fragment, None

    def ending(self) -> str:
        """How the process ended."""
        self._process.join()
        code = self._process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(pipe: "Connection[Any, Any]", work: Work, cores: int) -> None:
    """What a child does, until it is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_threads(cores)
    while True:
        fragment, file = pipe.recv()
        pipe.send(_done(work, fragment, file))


def _done(work: Work, fragment: int, file: str) -> Mapping[str, Any] | Exception:
    """The result, or an error that quotes no cell."""
    try:
        with reading(file):
            records = pa.concat_tables(read_streams(Path(file)))
        return dict(work(fragment, records))
    except PrivacyEngineError as error:
        return error
    except BaseException as error:  # whatever it is, its message may quote cells
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return translated(error, f"the work on fragment {fragment}") or RuntimeError(
            f"the work on fragment {fragment} failed with {type(error).__name__}; to see the whole of it, "
            "run the method on the fragment alone, in a place that may see records"
        )


def _limit_threads(cores: int) -> None:
    """A child's share of the cores: for what is loaded already, and what will be."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ.update(dict.fromkeys(names, str(cores)))
    pa.set_cpu_count(cores)
    threadpoolctl.threadpool_limits(cores)
    if numba := sys.modules.get("numba"):  # which reads its settings at each compilation, and refuses another
        numba.set_num_threads(min(cores, numba.config.NUMBA_NUM_THREADS))
    else:
        os.environ["NUMBA_NUM_THREADS"] = str(cores)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
