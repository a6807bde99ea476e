"""Processes that publish to an object store or read from it, and that a test can kill."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from privacy_release.lake.store import Lake
from privacy_release.proof.keys import SigningKey
from tests.children.processes import Child
from tests.object_stores.publisher import publish, read
from tests.object_stores.staged import Staged


@contextmanager
def reading(lake: Lake) -> Iterator[Child]:
    """A process that reports each edition that it sees; killed at the end."""
    process = Child(read, lake)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def publishing(
    lake: Lake, staged: Staged, run_key: str, history: Lake | None = None, key: SigningKey | None = None
) -> Iterator[Child]:
    """A process that publishes once, and is killed at the end; a signed snapshot if it has a history."""
    pem = None if key is None else key.pem()
    process = Child(publish, lake, staged, run_key, history=history, pem=pem)
    try:
        yield process
    finally:
        process.kill()


def published(lake: Lake, staged: Staged, run_key: str) -> Any:
    """Publish in another process, from beginning to end.

    Requests of this process on a `Wire` would wait for ever where the Delta library keeps Python's lock.
    """
    with publishing(lake, staged, run_key) as process:
        return process.done()
