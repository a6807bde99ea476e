"""Check a run before any record is read: rules, lake and ledger."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_release.budget.secrets import Memory, default_secret, last_fingerprint
from privacy_release.lake.log import ReleaseRun
from privacy_release.ledger.default import default_ledger
from privacy_release.spec.check import learned, method_of, policy_of, schema_of, sources_of
from privacy_release.spec.floor import Floor, floor_policy
from privacy_release.spec.rules.facts import UNKNOWN, Facts
from privacy_release.spec.rules.judge import judged, refuse
from privacy_release.steps.facts import budget_of, with_lake, with_ledger
from privacy_release.steps.memberships.earlier import EarlierReleases

if TYPE_CHECKING:
    from privacy_release.budget.budget import Budget
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.spec.model import ReleaseSpec


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """The result of judging a run that breaks no rule: what is known of it, and what pays for it.

    Attributes:
        facts: Facts that files, lake and ledger state.
        budget: Budget that pays for the release. None if it spends none.
        memory: Secret of memoised answers, with the fingerprint of the last release's secret.
        earlier: Earlier releases of the table, without the publication of this run.
    """

    facts: Facts
    budget: "Budget | None"
    memory: Memory | None
    earlier: EarlierReleases

    @property
    def ledger(self) -> "BudgetLedger | None":
        """The ledger that books the loss. None if the release spends no budget."""
        return self.budget.ledger if self.budget else None


def judged_run(
    spec: "ReleaseSpec",
    into: "ReleaseTable",
    release_id: str,
    *,
    ledger: "BudgetLedger | None",
    approved: bool,
    signed: bool,
) -> JudgedRun:
    """Judge a run. Nothing is read or booked.

    Args:
        spec: Specification of the release.
        into: Release table that the release is published in.
        release_id: Name of the release in its table.
        ledger: Ledger in which the loss is booked. None: the default ledger.
        approved: Whether a person approves the release.
        signed: Whether the release is signed.

    Raises:
        PrivacyEngineError: If a rule is broken, or a file, the lake or the ledger cannot be read.
    """
    floor = floor_policy()
    if _must_be_approved(spec, floor) and not approved:
        raise SpecError(
            f"{spec.name} must be approved before it is published; name who approves it (--approved-by), or "
            "run its DAG, which asks for an approval"
        )
    everything = (policy_of(spec, floor), sources_of(spec), method_of(spec), schema_of(spec))
    facts, found = learned(spec, *everything)
    # The person named on the command line approves the release, even if the file requires no approval.
    facts = replace(facts, approval=UNKNOWN, signed=signed)
    judged(facts).refuse(found)
    refuse(with_lake(facts, spec, into, release_id))
    memory = _memory(spec, into) if spec.release.memoised else None
    budget = _budget(spec, release_id, ledger, facts)
    refuse(with_ledger(facts, budget, into))
    earlier = EarlierReleases(named=into, run=ReleaseRun(release_id, release_id))
    return JudgedRun(facts=facts, budget=budget, memory=memory, earlier=earlier)


def _must_be_approved(spec: "ReleaseSpec", floor: Floor | None) -> bool:
    """Return whether the release file or the floor policy requires an approval."""
    return (spec.approval is not None and spec.approval.required) or (floor is not None and floor.approval)


def _memory(spec: "ReleaseSpec", table: "ReleaseTable") -> Memory:
    """Return the secret of memoised answers from the environment, with the last release's fingerprint."""
    last = last_fingerprint(table)
    return Memory(secret=default_secret(), last=last, replaces=spec.release.replaces)


def _budget(
    spec: "ReleaseSpec", release_id: str, ledger: "BudgetLedger | None", facts: Facts
) -> "Budget | None":
    """Return the budget that pays for the release. None if it spends none."""
    if spec.budget is None or facts.loss is None:
        return None
    budget = budget_of(spec, f"{spec.name}/{release_id}", ledger or default_ledger())
    refuse(replace(facts, promise_for=budget.promise))
    return budget
