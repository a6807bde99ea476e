"""A source that has not come: whether it is there by now, and what is said of one that never comes."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from privacy_engine.errors import MissingSourceError, SkippedError
from privacy_release.config.durations import parse_duration
from privacy_release.sources.addresses import find_source, without_secret

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Found = TypeVar("Found")
FILE, ROW = "Parquet file", "row"  # what a source lacks that has not come


def has_come(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: "AbstractFileSystem | None" = None,
) -> bool:
    """Whether there are Parquet files at an address.

    Raises:
        SchemaError: if the place cannot be looked at: keys are wrong, or a store is out of reach.
    """
    try:
        find_source(uri, storage_options, filesystem)
    except MissingSourceError:
        return False
    return True


def await_source(uri: str, when_missing: str, timeout: str, every: str, tell: Callable[[str], None]) -> None:
    """Do here what a specification says of files that are late.

    Args:
        uri: where they should be.
        when_missing: `fail`, `skip` or `wait`.
        timeout: how long to wait at most.
        every: how long to wait between two looks.
        tell: is told of each look in vain.

    Raises:
        MissingSourceError: if they must be there, or did not come in time.
        SkippedError: if the release is left out.
    """
    if when_missing != "fail":
        awaited(lambda: find_source(uri), without_secret(uri), FILE, when_missing, timeout, every, tell)


def awaited(
    look: Callable[[], Found],
    shown: str,
    lacks: str,
    when_missing: str,
    timeout: str,
    every: str,
    tell: Callable[[str], None],
) -> Found:
    """What a look at a source gives, once it is there.

    Args:
        look: raises MissingSourceError as long as it is not.
        shown: what is looked at, for people.
        lacks: what it lacks until then, `FILE` or `ROW`.
        when_missing: `fail`, `skip` or `wait`.
        timeout: how long to wait at most.
        every: how long to wait between two looks.
        tell: is told of each look in vain.

    Raises:
        MissingSourceError: if it must be there, or did not come in time.
        SkippedError: if the release is left out.
    """
    begin, longest = time.monotonic(), parse_duration(timeout)
    while True:
        try:
            return look()
        except MissingSourceError:
            if when_missing == "fail":
                raise
        if when_missing == "skip":
            raise SkippedError(skipped(shown, lacks))
        waited = timedelta(seconds=round(time.monotonic() - begin))
        if waited >= longest:
            raise MissingSourceError(too_late(shown, timeout, lacks))
        tell(f"waiting for {shown}, {waited} of {longest}")
        time.sleep(min(parse_duration(every), longest - waited).total_seconds())


def skipped(shown: str, lacks: str) -> str:
    """Why a release is left out."""
    return f"{shown} has no {lacks}, and when_missing is skip: this release is left out"


def too_late(shown: str, timeout: str, lacks: str) -> str:
    """Why it fails."""
    return (
        f"{shown} must have a {lacks} within {timeout}, and none came; run the release again when it is "
        "there, or say when_missing: skip"
    )
