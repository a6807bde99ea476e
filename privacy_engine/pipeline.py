"""Steps on a stream of records that run at the same time, each in a thread, in the order of the stream.

Work on records in Arrow, NumPy, DuckDB or a hash function releases the interpreter's lock, so threads keep
the cores busy. Nothing else changes: results keep the order of the items, an error is raised where it would
have been raised without threads, and memory use is bounded.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def each_ahead(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[Iterator[R]]:
    """Do ``work`` on each item in threads, a few items ahead of the result that the caller reads.

    Once one item fails, no more are started. At the end of the block no work is running.

    This is a context manager and not a generator, because a generator may be left to the garbage collector.
    The collector would wait for these threads at any point, such as the start of another thread, which holds
    a lock that they need to end.

    >>> with each_ahead(abs, [3, -1, 2], 2) as results:
    ...     print(*results)
    3 1 2

    Args:
        work: Function of one item, independent of the order of the calls and of earlier calls.
        items: Items to work on, read one at a time in the thread that reads the results.
        threads: Number of threads; at most this many results, and one more, wait to be read.
    """
    if isinstance(items, Sized) and len(items) < 2:  # starting a thread costs more than it saves
        yield map(work, items)
        return
    waiting: deque[Future[R]] = deque()

    def results() -> Iterator[R]:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    with ThreadPoolExecutor(threads) as pool:
        try:
            yield results()
        finally:
            for future in waiting:
                future.cancel()


def each_done(work: Callable[[T], object], items: Iterable[T], threads: int) -> None:
    """Do ``work`` on each item only for its effect, see `each_ahead`."""
    with each_ahead(work, items, threads) as results:
        for _ in results:
            pass


@contextmanager
def ahead(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """Yield the items, and make the next one in a thread while the caller works on the one before.

    At the end of the block nothing more is made, and a generator is closed. Progress that the generator
    reports counts as the caller's, see `progress`.

    >>> with ahead(iter([1, 2])) as numbers:
    ...     print(*numbers)
    1 2
    """
    context, end = copy_context(), object()

    def made() -> object:
        return context.run(next, items, end)

    def found() -> Iterator[T]:
        waiting = pool.submit(made)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(made)
            yield item  # type: ignore[misc]  # every object except the end marker is an item

    with ThreadPoolExecutor(1) as pool:
        try:
            yield found()
        finally:
            if close := getattr(items, "close", None):
                pool.submit(context.run, close).result()
