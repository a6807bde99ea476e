"""Starts `publisher.py`."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deploy.local.embedded import checkout
from privacy_release.lake.store import Lake
from tests.object_stores.staged import Staged


@contextmanager
def child(lake: Lake, **task: Any) -> Iterator[subprocess.Popen[str]]:
    """A running child, which is dead afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.object_stores.publisher"],
        cwd=checkout(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(task | {"root": lake.root, "options": lake.options}) + "\n")
    process.stdin.flush()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def publishing(lake: Lake, staged: Staged, run_key: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A child that publishes once; with `history` and `key` it is a signed snapshot."""
    task = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(staged).items()}
    with child(lake, staged=task, run_key=run_key, **more) as process:
        yield process


def result(process: subprocess.Popen[str]) -> Any:
    """What a child tells next: what it published, or its `error`; the edition that it saw."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def published(lake: Lake, staged: Staged, run_key: str) -> Any:
    """Publish in a child, from beginning to end.

    Requests of this process on a `Wire` would wait for ever where the Delta library keeps Python's lock.
    """
    with publishing(lake, staged, run_key) as process:
        return result(process)
