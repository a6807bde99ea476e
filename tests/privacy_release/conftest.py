"""Processes that work on fragments, or measure a cost, start from one that has imported what they need."""

from multiprocessing import get_context

import pytest

from privacy_engine.engines import processes
from privacy_release.explore import cost

PRELOADED = [
    "fsspec.implementations.local",
    "pandas",
    "pyarrow.parquet",
    "privacy_engine.engines.local",
    "privacy_engine.anonymizers.mondrian",
    "privacy_release.explore.cost",
    "privacy_release.sources.shares",
    "privacy_release.steps.producers.fragments",
]


@pytest.fixture(autouse=True)
def forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork from a server without threads or records instead of spawning, which imports for two seconds.

    That spawned processes do the same is tested where the processes are, in `privacy_engine/engines`.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    for module in (processes, cost):
        monkeypatch.setattr(module, "get_context", lambda _: context)
