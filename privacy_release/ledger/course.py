"""Spent budget over time, at a limited number of moments, however long the ledger is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from privacy_engine.dp.ledger import Event, Standing
from privacy_engine.dp.totals import standings
from privacy_release.ledger.book import Book

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What was spent of each limit at a time."""

    time: datetime
    standings: tuple[Standing, ...]


def course_of(book: Book, moments: int) -> tuple[Moment, ...]:
    """Return moments of grants, bookings, cancellations, and ends of windows. The last one is now.

    A reservation that was committed later than the window of a rolling limit counts for it until then.
    """
    entries = book.rows.sample(_spread(range(1, book.head.entries + 1), moments))
    windows = [limit.period.window for limit in book.totals.limits if limit.period.window is not None]
    spends = [entry.at for entry in entries if entry.event in (Event.RESERVE, Event.COMMIT)]
    ends = {at + window for at in spends for window in windows}
    times = {entry.at for entry in entries} | ends | {book.now}
    chosen = _spread(sorted(time for time in times if time <= book.now), moments)
    return tuple(Moment(time=time, standings=_at(book, time)) for time in chosen)


def _at(book: Book, time: datetime) -> tuple[Standing, ...]:
    _, totals = book.totals_until(time)
    return standings(totals, book.outside(totals, time, book.open_reservations))


def _spread(values: Sequence[_T], count: int) -> Sequence[_T]:
    """Return at most `count` of the values, evenly chosen, including the first and the last."""
    if len(values) <= count:
        return values
    return [values[round(i * (len(values) - 1) / (count - 1))] for i in range(count)]
