"""Runs the release of a specification, in a process of its own that a test can kill.

The steps are real; a fault point only ends the process (SIGKILL: no clean-up runs).
"""

import json
import sys
from pathlib import Path

from fault_points import after, before, kill_me

from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_release import run_release
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.model import load_spec
from privacy_release.spending import streams
from privacy_release.work.area import WorkArea


def arm(point: str) -> None:
    """Set one fault point."""
    match point:
        case "booked":
            BudgetLedger.reserve = after(BudgetLedger.reserve, kill_me)
        case "noised":
            streams._Files.write = before(streams._Files.write, kill_me)
        case "stored":
            streams._Files.write = after(streams._Files.write, kill_me)
        case "committed":
            BudgetLedger.commit = after(BudgetLedger.commit, kill_me)
        case "counted":
            Synthesizer.measure_participants = before(Synthesizer.measure_participants, kill_me)
        case _:
            raise ValueError(point)


def main() -> None:
    task = json.loads(sys.argv[1])
    arm(task["point"])
    with WorkArea(Path(task["work"]), "child") as work:
        run_release(
            load_spec(Path(task["spec"])),
            Lake(root=task["lake"]),
            task["release"],
            work,
            ledger=BudgetLedger(task["ledger"]),
        )


if __name__ == "__main__":
    main()
