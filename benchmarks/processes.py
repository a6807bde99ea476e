"""A module of the benchmarks in a separate process, whose peak memory and CPU seconds are measured."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.environments import UnavailableError, last_line
from benchmarks.timing import Timing

ROOT = Path(__file__).parents[1]


def answer_of(module: str, *arguments: str) -> Any:
    """Return what a module prints in its last line, as JSON.

    Args:
        module: Name below `benchmarks`, such as `scale.cases`.
        arguments: Arguments of its command.

    Raises:
        UnavailableError: If the process fails, with its last line.
    """
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        raise UnavailableError(f"its process failed: {last_line(done.stderr)}")
    return json.loads(done.stdout.splitlines()[-1])


def timings_of(answer: dict[str, Any]) -> dict[str, Timing]:
    """Return the timings in an answer, by call."""
    return {name: Timing(tuple(t["walls"]), tuple(t["cpus"])) for name, t in answer["timings"].items()}
