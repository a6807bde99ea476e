"""What a process that a test can kill does: publish once, read on and on, or store a file of a task."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from privacy_engine.errors import PublishError
from privacy_release.lake.store import Lake
from privacy_release.proof.keys import SigningKey
from privacy_release.workarea.presence import Mark
from privacy_release.workarea.remote.scratch import Scratch
from privacy_release.workarea.remote.store import Store
from tests.children.processes import kill_me, report
from tests.object_stores.staged import Staged, seen, send, send_snapshot


def publish(
    lake: Lake, staged: Staged, run_key: str, *, history: Lake | None, pem: bytes | None
) -> dict[str, Any]:
    """What was published, or the `error` for which nothing was."""
    try:
        if history is None:
            return asdict(send(lake, staged, run_key))
        assert pem is not None
        return asdict(send_snapshot(lake, history, staged, SigningKey.from_pem(pem, "the task")))
    except PublishError as error:
        return {"error": str(error)}


def read(lake: Lake) -> NoReturn:
    """Report each edition that is seen, until the process is killed."""
    while True:
        report(seen(lake))


def store_and_die(folder: Path, store: Store, mark: Mark, *, stores: bool) -> NoReturn:
    """Be a task that is killed before or after it has stored its file in the work area."""
    with Scratch(folder, f"{mark.key}/task", run=store.of(mark.key), mark=mark) as work:
        path = work.path("staged.parquet")
        path.write_bytes(b"x" * 5_000_000)
        if stores:
            work.send(str(path))
        kill_me()
    raise AssertionError
