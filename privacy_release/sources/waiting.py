"""Wait for a source that has not arrived, and describe one that never does."""

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
FILE, ROW = "Parquet file", "row"  # what a source that has not arrived lacks


def has_come(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: "AbstractFileSystem | None" = None,
) -> bool:
    """Return whether there are Parquet files at an address.

    Raises:
        SchemaError: If the address cannot be listed because keys are wrong or a store is unreachable.
    """
    try:
        find_source(uri, storage_options, filesystem)
    except MissingSourceError:
        return False
    return True


def await_source(
    uri: str, when_missing: str, timeout: str, every: str, on_progress: Callable[[str], None]
) -> None:
    """Wait for late files in this process, as a specification says.

    Args:
        uri: Address of the files.
        when_missing: `fail`, `skip` or `wait`.
        timeout: Longest time to wait.
        every: Time between two checks.
        on_progress: Progress callback, called after each unsuccessful check.

    Raises:
        MissingSourceError: If they must exist, or did not arrive in time.
        SkippedError: If the release is skipped.
    """
    if when_missing != "fail":
        awaited(
            lambda: find_source(uri), without_secret(uri), FILE, when_missing, timeout, every, on_progress
        )


def awaited(
    look: Callable[[], Found],
    shown: str,
    lacks: str,
    when_missing: str,
    timeout: str,
    every: str,
    on_progress: Callable[[str], None],
) -> Found:
    """Call a function until the source exists, and return its result.

    Args:
        look: Function that raises MissingSourceError as long as the source is missing.
        shown: Name of the source, for messages.
        lacks: Name of what is missing until then, `FILE` or `ROW`.
        when_missing: `fail`, `skip` or `wait`.
        timeout: Longest time to wait.
        every: Time between two checks.
        on_progress: Progress callback, called after each unsuccessful check.

    Raises:
        MissingSourceError: If it must exist, or did not arrive in time.
        SkippedError: If the release is skipped.
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
        on_progress(f"waiting for {shown}, {waited} of {longest}")
        time.sleep(min(parse_duration(every), longest - waited).total_seconds())


def skipped(shown: str, lacks: str) -> str:
    """Return the reason why a release is skipped."""
    return f"{shown} has no {lacks}, and when_missing is skip: this release is left out"


def too_late(shown: str, timeout: str, lacks: str) -> str:
    """Return the reason why a release fails after waiting."""
    return (
        f"{shown} must have a {lacks} within {timeout}, but none arrived; run the release again when it "
        "exists, or set when_missing: skip"
    )
