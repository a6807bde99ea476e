"""Durations as users write them, and the remaining time of running work."""

import re
import time
from collections.abc import Callable
from datetime import timedelta

_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_UNITS = {short: name for name in _SECONDS for short in (name[0], name, f"{name}s")} | {"min": "minute"}
_LONGEST = timedelta(days=366)
PROGRESS = "progress"  # key of the progress that a running task reports
SKIPPED = "skipped"  # key of the reason of a task that skipped what follows it
OFTEN = 10.0  # seconds between two progress messages


def parse_duration(text: str) -> timedelta:
    """Parse a whole number and its unit, up to a year, because private files wait that long.

    >>> parse_duration("2 days")
    datetime.timedelta(days=2)
    >>> parse_duration("90min") == timedelta(hours=1.5)
    True

    Raises:
        ValueError: If it is anything else.
    """
    found = re.fullmatch(r"\s*([1-9]\d{0,6})\s*([a-z]+)\s*", text)
    unit = _UNITS.get(found[2]) if found else None
    if (
        found is None
        or unit is None
        or (span := timedelta(seconds=int(found[1]) * _SECONDS[unit])) > _LONGEST
    ):
        raise ValueError(
            "must be a whole number of minutes, hours, days or weeks, such as 2 days, up to a year"
        )
    return span


class Pace:
    """A listener to progress that reports every ten seconds. Shorter work is not reported.

    Args:
        say: Callback, called with the finished share, 0 to 1, and the estimated remaining seconds, None if
            unknown. The last share is 1, if any was reported before.
        clock: Clock in seconds.
    """

    def __init__(
        self, say: Callable[[float, float | None], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock, self._begun = say, clock, clock()
        self._last = self._begun

    def __call__(self, share: float) -> None:
        """Receive a share, and report it if it is time."""
        now = self._clock()
        if self._last > self._begun if share >= 1.0 else now - self._last >= OFTEN:
            self._last = now
            self._say(share, (now - self._begun) * (1.0 - share) / share if share > 0.0 else None)


def percent(share: float) -> int:
    """Return a share as a whole percent, rounded down, so that 100 means finished.

    >>> percent(0.999), percent(1.0)
    (99, 100)
    """
    return int(100 * share)


def how_far(share: float, left: float | None) -> str:
    """Describe progress from `Pace` in words.

    >>> how_far(0.42, 130.0), how_far(0.9, 12.0), how_far(1.0, 0.0)
    ('42 %, about 3 min left', '90 %, about 12 s left', '100 %')
    """
    if left is None or share >= 1.0:
        return f"{percent(share)} %"
    return f"{percent(share)} %, about {f'{left:.0f} s' if left < 100 else f'{-(-left // 60):.0f} min'} left"
