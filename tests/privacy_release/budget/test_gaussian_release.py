"""A release with Gaussian noise under a limit that adds by rho: booked, verified, reported, paid once."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import BudgetExceededError
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget.budget import Budget
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import StagedRelease, Table
from tests.ledgers import new_ledger
from tests.privacy_release.budget.test_budget import ingested, people
from tests.tables import SPENDING

DELTA = 1e-9
POLICY = ReleasePolicy(max_epsilon=0.7, max_delta=DELTA)
CLAIM = PrivacyLoss.within(0.7, DELTA, Neighbours.REPLACE_ONE)
QUICK: dict[str, Any] = {"classes": 2, "fits": 1, "rounds": 1}


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    """A ledger in a file, with an epsilon of 1 at delta 1e-9 for the data set `people`."""
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=1.0, delta=DELTA, accounting="zcdp"), reason="a test", by="officer")
    return made


@pytest.fixture
def budget(ledger: BudgetLedger) -> Budget:
    return Budget(dataset="people", run="people/run 1", ledger=ledger)


@pytest.fixture
def table(work: WorkArea, tmp_path: Path) -> Table:
    return ingested(people(), work, tmp_path)


def released(
    table: Table, work: WorkArea, budget: Budget, label: str = "staged", **more: Any
) -> StagedRelease:
    given = {"epsilon": 0.7, "delta": DELTA} | QUICK | more
    return make_release(
        table, work, method="latent_class", parameters=given, policy=SPENDING, budget=budget, label=label
    )


def test_it_is_booked_by_its_rho_and_a_retry_costs_nothing(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    first = released(table, work, budget)
    again = released(table, work, replace(budget, run="people/run 2"), label="again")
    assert first.booking == again.booking
    (standing,) = ledger.standing("people")
    assert float(standing.rho) == CLAIM.rho
    assert first.loss == CLAIM.to_dict()
    with pytest.raises(BudgetExceededError, match="as zcdp"):
        released(table, work, budget, label="more", epsilon=0.75)


def test_it_passes_its_verification_and_the_manifest_tells_rho(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    staged = released(table, work, budget)
    report = verify_staged(staged, POLICY, ledger)
    assert report.passed, report.findings
    manifest = staged.read_manifest()
    assert manifest.loss.rho == CLAIM.rho
    first = manifest.model.mechanisms[0].to_dict()
    assert "rho" in first
    assert "epsilon" not in first


def test_a_policy_without_a_delta_refuses_it(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    staged = released(table, work, budget)
    report = verify_staged(staged, replace(POLICY, max_delta=0), ledger)
    assert not report.passed


def test_a_smaller_claim_of_rho_than_was_booked_and_spent_fails(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    staged = released(table, work, budget)
    loss = PrivacyLoss.within(0.5, DELTA, Neighbours.REPLACE_ONE).to_dict()
    manifest = Path(staged.manifest)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"loss": loss}))
    report = verify_staged(replace(staged, loss=loss), POLICY, ledger)
    failed = [finding["rule"] for finding in report.findings if not finding["passed"]]
    assert "rho of all mechanisms, at most the claimed" in failed
    assert "epsilon of all mechanisms, at most the claimed" in failed


def test_its_report_tells_rho(table: Table, work: WorkArea, budget: Budget) -> None:
    words = " ".join(Path(released(table, work, budget).report).read_text().split())
    assert "Discrete Gaussian noise: rho" in words
    assert "which gives the claimed epsilon at its delta" in words
