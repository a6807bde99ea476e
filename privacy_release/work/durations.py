"""Spans of time as people write them."""

import re
from datetime import timedelta

_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_UNITS = {short: name for name in _SECONDS for short in (name[0], name, f"{name}s")} | {"min": "minute"}
_LONGEST = timedelta(days=366)


def parse_duration(text: str) -> timedelta:
    """A whole number and its unit; at most a year, for private files wait that long.

    >>> parse_duration("2 days")
    datetime.timedelta(days=2)
    >>> parse_duration("90min") == timedelta(hours=1.5)
    True

    Raises:
        ValueError: if it is anything else.
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
