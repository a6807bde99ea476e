"""Publishes once, or reads on and on, in a process of its own that a test can kill.

The task comes on the standard input, one JSON line, so that no key is in the list of processes.
"""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from privacy_engine.errors import PublishError
from privacy_release.lake.store import Lake
from privacy_release.proof.keys import SigningKey
from tests.object_stores.staged import Staged, seen, send, send_snapshot


def tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def publish(lake: Lake, task: dict[str, Any]) -> None:
    """Tell what was published, or why nothing was."""
    staged = Staged(**task["staged"] | {name: Path(task["staged"][name]) for name in ("file", "report")})
    try:
        if "history" in task:
            key = SigningKey.from_pem(task["key"].encode(), "the task")
            history = replace(lake, root=task["history"])
            done = send_snapshot(lake, history, staged, key)
        else:
            done = send(lake, staged, task["run_key"])
        tell(asdict(done))
    except PublishError as error:
        tell({"error": str(error)})


def read(lake: Lake, task: dict[str, Any]) -> None:
    """Tell each edition that is seen, until the standard input ends."""
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    while not over.is_set():
        tell(seen(lake))


def main() -> None:
    task = json.loads(sys.stdin.readline())
    lake = Lake(root=task["root"], storage_options=tuple(task["options"].items()))
    act: Callable[[Lake, dict[str, Any]], None] = publish if "staged" in task else read
    act(lake, task)


if __name__ == "__main__":
    main()
