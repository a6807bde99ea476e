"""What a separate process does for a test; `tests.children.processes` starts it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import privacy_release
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import BudgetExceededError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget.budget import Budget
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from tests.children.processes import meet
from tests.tables import SPENDING


def spend(url: str, dataset: str, key: str, epsilon: float, model: str) -> str | None:
    """Reserve, measure a model and commit it; the model that is kept."""
    ledger = BudgetLedger(url)
    held = ledger.reserve(dataset, key, PrivacyLoss(epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE))
    return ledger.commit(dataset, key, model, token=held.token).model


def spend_at_once(url: str, dataset: str, keys: list[str], epsilon: float) -> list[str]:
    """One reservation a key, each in a thread with its own connection, all at once; the outcomes."""
    ledger = BudgetLedger(url)
    loss = PrivacyLoss(epsilon=epsilon, neighbours=Neighbours.REPLACE_ONE)

    def reserve(key: str) -> str:
        try:
            return ledger.reserve(dataset, key, loss).entry_hash
        except BudgetExceededError:
            return "refused"

    with ThreadPoolExecutor(len(keys)) as pool:
        meet()
        return list(pool.map(reserve, keys))


def release_people(
    source: Path,
    schema: dict[str, Any],
    epsilon: float,
    url: str,
    lake: Lake,
    work: Path,
    weeks: tuple[int, ...],
) -> list[dict[str, Any]]:
    """Make, verify and publish a private release of the same records in each of several weeks."""
    ledger, done = BudgetLedger(url), []
    for week in weeks:
        run = f"people/run {week}"
        with WorkArea(work, run) as area:
            table = privacy_release.ingest(str(source), DataSchema.from_dict(schema), area)
            budget = Budget(dataset="people", run=run, ledger=ledger)
            staged = privacy_release.make_release(
                table,
                area,
                method="privbayes",
                parameters={"epsilon": epsilon},
                policy=SPENDING,
                budget=budget,
            )
            report = privacy_release.verify_staged(staged, ReleasePolicy(max_epsilon=1.0), ledger)
            published = privacy_release.publish_staged(
                staged, report, lake.table("people"), f"week {week}", run_key=run
            )
        done.append(
            {
                "sha256": staged.sha256,
                "key": staged.booking.key,
                "already": published.already,
            }
        )
    return done


def run_spec(spec: Path, lake: Lake, release: str, work: Path, url: str) -> None:
    """Run the release of a specification."""
    with WorkArea(work, "child") as area:
        privacy_release.run_release(load_spec(spec), lake, release, area, ledger=BudgetLedger(url))
