"""Two parties that want one lock at a time: whether the second waits while the first is inside.

Both run in this process: locks of two open files exclude each other there as between processes. The second
party tries the operation that the product asked for without blocking first, so that a test knows that it
waits without waiting itself.
"""

import fcntl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import pytest

from tests.waiting import wait_for

T = TypeVar("T")


class Meeting:
    """Watches every `flock` of this process while a second party runs in a thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: SimpleQueue[str] = SimpleQueue()
        self._flock = fcntl.flock
        monkeypatch.setattr(fcntl, "flock", self._watched)

    def entered(self) -> None:
        """Note that the second party is inside; its own code calls this there."""
        self._seen.put("entered")

    def second(self, party: Callable[[], T]) -> tuple[str, Future[T]]:
        """Start the second party, from inside of the first; "waits", or "entered", and its result to be."""
        pool = ThreadPoolExecutor(1)
        result = pool.submit(party)
        result.add_done_callback(lambda _: self._seen.put("ended"))
        pool.shutdown(wait=False)
        wait_for(lambda: not self._seen.empty(), "the second party to wait or to enter", every=0.001)
        return self._seen.get(), result

    def _watched(self, handle: int, operation: int) -> None:
        try:
            self._flock(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            self._seen.put("waits")
            self._flock(handle, operation)
