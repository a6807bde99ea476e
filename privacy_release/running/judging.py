"""What must hold of a run before a record is read: the rules, the lake, the ledger."""

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
    """A run that no rule refuses; nothing was read or booked for it. See `run_release` for the arguments.

    Raises:
        PrivacyEngineError: if a rule refuses it, or a file, the lake or the ledger cannot be read.
    """
    floor = floor_policy()
    if _must_be_approved(spec, floor) and not approved_by:
        raise SpecError(
            f"{spec.name} must be approved before it is published; name who approves it (--approved-by), or "
            "run its DAG, where a person is asked"
        )
    everything = (policy_of(spec, floor), sources_of(spec), method_of(spec), schema_of(spec))
    facts, found = learned(spec, *everything)
    # The person who is named beside the command approves it, also where the file asks for no approval.
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
    """Whether the file of the release or the floor policy demands it."""
    return (spec.approval is not None and spec.approval.required) or (floor is not None and floor.approval)


def _memory(spec: "ReleaseSpec", table: "ReleaseTable") -> Memory:
    """The secret of memoised answers, from the environment, and what the last release had."""
    last = last_fingerprint(table)
    return Memory(secret=default_secret(), last=last, replaces=spec.release.replaces)


def _budget(
    spec: "ReleaseSpec", release_id: str, ledger: "BudgetLedger | None", facts: Facts
) -> "Budget | None":
    """The budget of a release that spends one."""
    if spec.budget is None or facts.loss is None:
        return None
    budget = budget_of(spec, f"{spec.name}/{release_id}", ledger or default_ledger())
    refuse(replace(facts, promise=budget.promise))
    return budget
