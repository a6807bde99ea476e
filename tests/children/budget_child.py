"""Makes, verifies and publishes private releases, in a process of its own that a test can kill or hold.

The steps are real; a fault point only ends the process (SIGKILL: no clean-up runs) or waits for the parent.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fault_points import after, before, kill_me, rendezvous

import privacy_release
from privacy_engine.judge.policy import ReleasePolicy
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.tables.schema import DataSchema
from privacy_release.lake import publish as lake
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spending.budget import Budget
from privacy_release.work.area import WorkArea


def arm(point: str) -> None:
    """Set one fault point or meeting point."""
    match point:
        case "before_reserve":
            BudgetLedger.reserve = before(BudgetLedger.reserve, kill_me)
        case "after_reserve":
            BudgetLedger.reserve = after(BudgetLedger.reserve, kill_me)
        case "after_measure":
            Synthesizer.measure_coded = after(Synthesizer.measure_coded, kill_me)
        case "after_commit":
            BudgetLedger.commit = after(BudgetLedger.commit, kill_me)
        case "before_publish":
            lake.put = before(lake.put, kill_me)
        case "after_publish":
            lake._commit = after(lake._commit, kill_me)
        case "meet_after_measure":
            Synthesizer.measure_coded = after(Synthesizer.measure_coded, rendezvous)
        case _:
            raise ValueError(point)


def release(task: dict[str, Any], run: str, week: str) -> dict[str, Any]:
    """One run, from the source to the lake."""
    schema = DataSchema.from_dict(task["schema"])
    ledger = BudgetLedger(task["ledger"])
    budget = Budget(dataset="people", run=run, ledger=ledger)
    with WorkArea(Path(task["work"]), run) as work:
        table = privacy_release.ingest(task["source"], schema, work)
        staged = privacy_release.make_release(
            table, work, method="privbayes", parameters={"epsilon": task["epsilon"]}, budget=budget
        )
        report = privacy_release.verify_staged(staged, ReleasePolicy(max_epsilon=1.0), ledger)
        done = privacy_release.publish_staged(
            staged, report, Lake(root=task["lake"]), "people", week, run_key=run
        )
    return {"sha256": staged["sha256"], "key": staged["booking"]["key"], "already": done["already"]}


def main() -> None:
    task = json.loads(sys.argv[1])
    for point in task["points"]:
        arm(point)
    done = [release(task, *run) for run in task["runs"]]
    sys.stdout.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    main()
