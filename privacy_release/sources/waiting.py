"""A source that has not come: whether it is there by now, and what is said of one that never comes."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import MissingSourceError, SkippedError
from privacy_release.sources.addresses import find_source, without_secret
from privacy_release.work.durations import parse_duration

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


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
    if when_missing == "fail" or has_come(uri):
        return
    if when_missing == "skip":
        raise SkippedError(skipped(uri))
    begin, longest = time.monotonic(), parse_duration(timeout)
    while not has_come(uri):
        waited = timedelta(seconds=round(time.monotonic() - begin))
        if waited >= longest:
            raise MissingSourceError(too_late(uri, timeout))
        tell(f"waiting for {without_secret(uri)}, {waited} of {longest}")
        left = longest - waited
        time.sleep(min(parse_duration(every), left).total_seconds())


def skipped(uri: str) -> str:
    """Why a release is left out."""
    return f"{without_secret(uri)} has no Parquet file, and when_missing is skip: this release is left out"


def too_late(uri: str, timeout: str) -> str:
    """Why it fails."""
    return (
        f"{without_secret(uri)} must have a Parquet file within {timeout}, and none came; run the release "
        "again when it is there, or say when_missing: skip"
    )
