"""How much of the work is done, told by the loops that do it to whoever listens.

Work is made of parts, and these of parts again; a loop tells of its own part alone, and knows of nothing
above it. A share is of work, not of time: where the number of rounds is not known before, a loop tells what
is known, such as the share of the records that have a place. Shares never fall, and 1 is told at the end.

Nothing but a number between 0 and 1 is told. It depends on how many rounds and records are done, so it says
of the data what the duration of the work says; neither is covered by a privacy loss.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from threading import RLock
from typing import Any, ParamSpec, TypeVar

LEAST = 0.001  # a smaller step is not told, so that a listener hears of a thousand steps at most
T = TypeVar("T")
P = ParamSpec("P")
Listener = Callable[[float], None]


class _Whole:
    """All of the work, and who is told of it.

    A listener that fails must not take the work down with it: it is told nothing more.
    """

    def __init__(self, listener: Listener) -> None:
        self.lock: AbstractContextManager[Any] = RLock()  # blocks of a table are worked on in threads
        self._listener: Listener | None = listener
        self._done = self._told = 0.0

    def grow(self, by: float) -> None:
        self._done += by
        if self._told + LEAST <= self._done < 1.0:
            self.tell(self._done)

    def tell(self, share: float) -> None:
        if self._listener is not None:
            self._told = share
            try:
                self._listener(share)
            except Exception:  # noqa: BLE001  whatever a listener raises, the work goes on
                self._listener = None


class _Part:
    """A part of the work, and the share of what it is a part of."""

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
def telling(listener: Listener) -> Iterator[None]:
    """Tell the share that is done of the work in the block, rising, and 1 once all of it is.

    Args:
        listener: is told; at most a thousand times, and from whatever thread works. What it raises ends the
            telling and not the work.
    """
    whole, above = _Whole(listener), _current.get()
    _current.set(_Part(whole, 1.0))
    try:
        yield
    finally:
        _current.set(above)
    whole.tell(1.0)


@contextmanager
def portion(share: float) -> Iterator[None]:
    """What is told in the block is told of this share of the work around it, all of which is done then."""
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
    """Tell that this share of the current part is done, 0 .. 1; less than before is passed over.

    >>> with telling(print):
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
    """The items, each of which is an equal part of the current one while the loop works on it.

    >>> with telling(print):
    ...     for share in tracked([0.5, 1.0]):
    ...         advance(share)
    0.25
    0.5
    1.0

    Args:
        items: of a loop.
        total: how many there are, at least; None: as many as `items` has.
    """
    if total is None:
        items = items if isinstance(items, Collection) else list(items)
        total = len(items)
    for item in items:
        with portion(1.0 / max(total, 1)):
            yield item


def apart(work: Callable[P, T], share: float) -> Callable[P, T]:
    """The work in a thread of its own, told as this share of the part that is current now."""
    context = copy_context()

    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        with portion(share):
            return work(*args, **kwargs)

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.run(told, *args, **kwargs)

    return run
