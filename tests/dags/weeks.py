"""Weekly partitions and the finished runs of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Week:
    """A finished run of one partition: its key, its state, and the state of each task by its short name."""

    key: str
    state: str
    tasks: Mapping[str, str]


def key_of(week: int) -> str:
    """The partition key of a week, counted from 0."""
    return f"{MONDAY + timedelta(weeks=week):%Y-%m-%dT%H:%M:%S}"
