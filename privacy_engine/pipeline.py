"""Steps of a stream of records that are done at the same time, each in a thread, in the order of the stream.

What works on records in Arrow, NumPy, DuckDB or a hash gives the interpreter free, so that threads keep the
cores busy. Nothing else changes: results come in the order of what they were made of, an error is raised
where it would have been raised without threads, and what is held in memory is bounded.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def each_ahead(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[Iterator[R]]:
    """``work`` done on each item, some items ahead of the one whose result is asked for.

    Once one fails no more are begun. At the end of the block nothing is worked on any more.

    It is a block and no generator, since a generator may be left to the garbage collector. That would wait
    for these threads in the midst of anything, such as the start of another thread, which holds a lock that
    they need to end.

    >>> with each_ahead(abs, [3, -1, 2], 2) as results:
    ...     print(*results)
    3 1 2

    Args:
        work: does not depend on the order in which it is called, nor on what was done before.
        items: are taken by whoever asks for the results, one at a time.
        threads: that work; as many results, and one more, wait to be asked for at most.
    """
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
    """``work`` done on each item for its effect alone, see `each_ahead`."""
    with each_ahead(work, items, threads) as results:
        for _ in results:
            pass


@contextmanager
def ahead(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """The items, the next of which is made in a thread while the caller works on the one before.

    At the end of the block nothing is made any more, and a generator is closed. The progress that it tells is
    that of the caller, see `progress`.

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
            yield item  # type: ignore[misc]  # whatever is not the end is an item

    with ThreadPoolExecutor(1) as pool:
        try:
            yield found()
        finally:
            if close := getattr(items, "close", None):
                pool.submit(context.run, close).result()
