"""Starts `ledger_child.py`, and reads what it says."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.local.embedded import checkout

CHILD = checkout() / "tests/children/ledger_child.py"


class Child:
    """A process that spends; its task goes through a file, because an address may hold a password."""

    def __init__(self, folder: Path, **task: Any) -> None:
        file = folder / f"task-{len(list(folder.iterdir()))}.json"
        file.write_text(json.dumps(task))
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(file)],
            env={**os.environ, "PYTHONPATH": str(checkout())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> list[str]:
        """Wait for the meeting point; the lines before it."""
        assert self.process.stdout is not None
        lines = list(iter(lambda: self.process.stdout.readline().strip(), "ready"))  # type: ignore[union-attr]
        assert "" not in lines, "the child ended before the meeting point"
        return lines

    def go(self) -> None:
        """Let it go on from the meeting point."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def killed(self) -> list[str]:
        """Wait for its end by SIGKILL; the lines it said."""
        out, _ = self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL
        return out.splitlines()

    def done(self) -> list[str]:
        """Wait for its end; the lines it said."""
        out, _ = self.process.communicate()
        assert self.process.returncode == 0
        return out.splitlines()
