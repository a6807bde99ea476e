"""What a process and all processes below it take: CPU seconds, and the memory of the largest."""

import resource
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

PAUSE = 0.25  # seconds between two looks at the processes
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes


class Usage:
    """Watches the processes below this one until the block ends.

    The system tells what was spent below only of children that were waited for, and no one waits for Spark's
    Python workers. A look from time to time misses what a process does after the last look at it. Both are
    too low at worst, so the larger one counts.
    """

    def __enter__(self) -> Self:
        self._waited = _waited()
        self._seconds: dict[tuple[int, float], float] = {}
        self._largest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        """CPU seconds of this process since it began, start of Python included, and of those below it."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        return own.ru_utime + own.ru_stime + max(_waited() - self._waited, sum(self._seconds.values()))

    @property
    def peak(self) -> int:
        """Bytes of resident memory that the largest of the processes ever held."""
        # getrusage's own figure begins with the memory of the process that started this one
        own = held(psutil.Process().pid) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
        below = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _UNIT
        return max(own, below, self._largest)

    def _watch(self) -> None:
        while True:
            over = self._over.wait(PAUSE)
            for child in psutil.Process().children(recursive=True):
                try:
                    times = child.cpu_times()
                    self._seconds[child.pid, child.create_time()] = times.user + times.system
                except psutil.NoSuchProcess:
                    continue
                self._largest = max(self._largest, held(child.pid))
            if over:
                return


def _waited() -> float:
    """CPU seconds of the children that were waited for, and of theirs."""
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return below.ru_utime + below.ru_stime


def held(process: int) -> int:
    """Bytes of resident memory that a process ever held; 0 where the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line[:6] == "VmHWM:"), 0)
