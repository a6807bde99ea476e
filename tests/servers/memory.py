"""How much memory a piece of work takes, in a separate process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
needs_proc = pytest.mark.skipif(not STATUS.exists(), reason="the peak of memory is read from /proc (Linux)")


def peak() -> int:
    """Most memory that this process has held so far, in MiB; `ru_maxrss` would count its parent's, too."""
    found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) // 1024


def run_alone(script: str, *arguments: object) -> int:
    """The whole number that a script prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
