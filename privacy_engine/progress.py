"""Progress of the work, reported to a listener by the loops that do it.

Work consists of parts, and these consist of parts; a loop reports only its own part and does not know the
parts around it. A share measures work, not time: if the number of rounds is unknown in advance, a loop
reports what it knows, such as the share of the records that have a class. Shares never fall, and 1 is
reported at the end.

Only a number between 0 and 1 is reported. It depends on how many rounds and records are done, so it reveals
as much of the data as the duration of the work does; no privacy loss covers either.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from threading import RLock
from typing import Any, ParamSpec, TypeVar

LEAST = 0.001  # a smaller step is not reported, so that a listener gets a thousand reports at most
T = TypeVar("T")
P = ParamSpec("P")
Listener = Callable[[float], None]


class _Whole:
    """All of the work, and the listener that gets the reports.

    A listener that fails must not end the work: it gets no more reports.
    """

    def __init__(self, listener: Listener) -> None:
        self.lock: AbstractContextManager[Any] = RLock()  # blocks of a table are worked on in threads
        self._listener: Listener | None = listener
        self._done = self._reported = 0.0

    def grow(self, by: float) -> None:
        self._done += by
        if self._reported + LEAST <= self._done < 1.0:
            self.report(self._done)

    def report(self, share: float) -> None:
        if self._listener is not None:
            self._reported = share
            try:
                self._listener(share)
            except Exception:  # noqa: BLE001  the work continues after any error of a listener
                self._listener = None


class _Part:
    """A part of the work, and its share of the part that contains it."""

    def __init__(self, above: "_Whole | _Part", share: float) -> None:
        self.lock: AbstractContextManager[Any] = above.lock
        self._above, self._share, self.done = above, share, 0.0

    def grow(self, by: float) -> None:
        by = min(by, 1.0 - self.done)
        if by > 0.0:
            self.done += by
            self._above.grow(by * self._share)


_current: ContextVar[_Part | None] = ContextVar("part", default=None)


@contextmanager
def reporting_to(listener: Listener) -> Iterator[None]:
    """Report the rising share of the work in the block that is done, and 1 once all of it is.

    Args:
        listener: Function that gets each share, at most a thousand times, in any thread that works. An error
            that it raises ends the reports but not the work.
    """
    whole, above = _Whole(listener), _current.get()
    _current.set(_Part(whole, 1.0))
    try:
        yield
    finally:
        _current.set(above)
    whole.report(1.0)


@contextmanager
def portion(share: float) -> Iterator[None]:
    """Count the progress in the block as this share of the part around it, all of it done at the end."""
    above = _current.get()
    if above is None:
        yield
        return
    own = _Part(above, share)
    _current.set(own)
    try:
        yield
    finally:
        _current.set(above)
    with own.lock:
        own.grow(1.0)


def advance(share: float) -> None:
    """Report that this share of the current part is done, 0 .. 1; a smaller share than before is ignored.

    >>> with reporting_to(print):
    ...     advance(0.5)
    ...     advance(0.25)
    0.5
    1.0
    """
    own = _current.get()
    if own is not None:
        with own.lock:
            own.grow(share - own.done)


def tracked(items: Iterable[T], total: float | None = None) -> Iterator[T]:
    """Yield the items; while the loop works on one, it is the current part, and all are of equal share.

    >>> with reporting_to(print):
    ...     for share in tracked([0.5, 1.0]):
    ...         advance(share)
    0.25
    0.5
    1.0

    Args:
        items: Items of a loop.
        total: Number of items, at least; None for the length of ``items``.
    """
    if total is None:
        items = items if isinstance(items, Collection) else list(items)
        total = len(items)
    for item in items:
        with portion(1.0 / max(total, 1)):
            yield item


def apart(work: Callable[P, T], share: float) -> Callable[P, T]:
    """Prepare work for a separate thread; its progress counts as this share of the part current now."""
    context = copy_context()

    def counted(*args: P.args, **kwargs: P.kwargs) -> T:
        with portion(share):
            return work(*args, **kwargs)

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.run(counted, *args, **kwargs)

    return run
