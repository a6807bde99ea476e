"""Check a run before any record is read: rules, lake and ledger."""

from dataclasses import replace
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_release.budget.secrets import Memory, default_secret, last_fingerprint
from privacy_release.ledger.default import default_ledger
from privacy_release.running.context import Releasing, Watcher
from privacy_release.spec.check import learned, method_of, policy_of, schema_of, sources_of
from privacy_release.spec.floor import Floor, floor_policy
from privacy_release.spec.rules.facts import UNKNOWN, Facts
from privacy_release.spec.rules.judge import judged, refuse
from privacy_release.steps.facts import budget_of, with_lake, with_ledger
from privacy_release.steps.publish import table_rules
from privacy_release.workarea.area import WorkArea

if TYPE_CHECKING:
    from privacy_release.budget.budget import Budget
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import Lake, ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.spec.model import ReleaseSpec


def judged_run(
    spec: "ReleaseSpec",
    lake: "Lake",
    release_id: str,
    work: WorkArea,
    watch: Watcher,
    *,
    ledger: "BudgetLedger | None",
    approved_by: str | None,
    signer: "Signer | None",
    history: "Lake | None",
) -> Releasing:
    """Return a run that breaks no rule. Nothing is read or booked. See `run_release` for the arguments.

    Raises:
        PrivacyEngineError: If a rule is broken, or a file, the lake or the ledger cannot be read.
    """
    floor = floor_policy()
    if _must_be_approved(spec, floor) and not approved_by:
        raise SpecError(
            f"{spec.name} must be approved before it is published; name who approves it (--approved-by), or "
            "run its DAG, which asks for an approval"
        )
    everything = (policy_of(spec, floor), sources_of(spec), method_of(spec), schema_of(spec))
    facts, found = learned(spec, *everything)
    # The person named on the command line approves the release, even if the file requires no approval.
    facts = replace(facts, approval=UNKNOWN, signed=signer is not None)
    judged(facts).refuse(found)
    into = lake.table(spec.publish.table)
    refuse(with_lake(facts, spec, into, release_id))
    memory = _memory(spec, into) if spec.release.memoised else None
    budget = _budget(spec, release_id, ledger, facts)
    refuse(with_ledger(facts, budget, into))
    return Releasing(
        spec=spec,
        schema=spec.data_schema(),
        release_id=release_id,
        work=work,
        watch=watch,
        hides_counts=spec.budget is not None,
        policy=facts.own_policy[0],
        required=facts.policy,
        into=into,
        rules=table_rules(spec.publish_mode, spec.publish.superseded, spec.publish.grace, history),
        budget=budget,
        loss=facts.loss,
        memory=memory,
        approved_by=approved_by or None,
        signer=signer,
    )


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
