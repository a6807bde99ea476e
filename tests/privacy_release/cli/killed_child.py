"""Child process of `test_killed`: a warm interpreter that runs commands in processes of their own.

Reads one JSON object a line: the arguments of a command, and how it is to end, and writes another one: the
exit code (negative: the signal) and how many functions it called, of Python and native ones. A command is
killed when it calls its n-th function of either kind after it has made its work area.
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

# Started from here, a command does not spend its life on imports. None of these starts a thread.
import deltalake
import duckdb
import great_expectations
import pyarrow.parquet

import privacy_release.expectations.table_expectations
import privacy_release.lake.publish
import privacy_release.reports.release
import privacy_release.running.run
import privacy_release.steps.release
from privacy_engine.anonymizers import mondrian
from privacy_release.cli.main import main
from privacy_release.workarea.area import WorkArea

WARM = (deltalake, duckdb, great_expectations, pyarrow.parquet, mondrian, privacy_release)


class Counter:
    """Counts the calls of functions, and sends this process a signal at one of them.

    Attributes:
        at: The kind of the call, `call` or `c_call`, and its number.
    """

    def __init__(self, number: int, at: tuple[str, int] | None) -> None:
        self.number, self.at, self.counts = number, at, {"call": 0, "c_call": 0}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in self.counts:
            self.counts[event] += 1
            if (event, self.counts[event]) == self.at:
                os.kill(os.getpid(), self.number)


def run(order: dict[str, Any], reported: Path) -> int:
    """The command, in this process."""
    number, enter = order.get("signal", 0), WorkArea.__enter__
    counter = Counter(number, next(((e, order[e]) for e in ("call", "c_call") if e in order), None))

    def entered(work: WorkArea) -> WorkArea:
        """The work area is there: count from now on."""
        made = enter(work)
        sys.setprofile(counter)
        return made

    WorkArea.__enter__ = entered  # type: ignore[method-assign]
    code = main(order["argv"])
    sys.setprofile(None)
    reported.write_text(json.dumps(counter.counts))
    return code


def serve(reported: Path) -> None:
    """Run one command after the other."""
    for line in sys.stdin:
        order = json.loads(line)
        reported.write_text("{}")
        child = os.fork()
        if not child:
            output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ |= order["environment"]
            code = 70
            try:
                code = run(order, reported)
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        ended = {"code": os.waitstatus_to_exitcode(status), "calls": json.loads(reported.read_text())}
        sys.stdout.write(f"{json.dumps(ended)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(Path(sys.argv[1]))
