"""A whole release in one process, without Airflow: the steps in order, each told to whoever watches."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privacy_engine.counts import without_counts
from privacy_engine.errors import SpecError
from privacy_release.plan.plan import plan_of
from privacy_release.plan.step import Slot
from privacy_release.reports.attempts import LeftOut
from privacy_release.spec.check import learned, method_of, policy_of, schema_of, sources_of
from privacy_release.spec.floor import Floor, floor_policy
from privacy_release.spec.rules.facts import UNKNOWN, Facts
from privacy_release.spec.rules.judge import judged, refuse
from privacy_release.spending.budget import Budget
from privacy_release.spending.secrets import Memory, default_secret, last_fingerprint
from privacy_release.steps.counts import counts_hidden
from privacy_release.steps.facts import budget_of, with_lake, with_ledger
from privacy_release.steps.publish import COMPLETED, table_rules
from privacy_release.steps.running import Releasing, Running, Stage, Watcher, nothing
from privacy_release.work.area import WorkArea
from privacy_release.work.references import Published, ReportRef, StagedRelease, Table

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import Lake, ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.spec.model import ReleaseSpec

# Stages that count records of the source. From the release on, figures are of what is published.
_OF_SOURCE = frozenset({Stage.INGEST, Stage.VALIDATE, Stage.TRANSFORM, Stage.OUTLIERS, Stage.HOLD_OUT})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a run; `warnings` are its alerts, why they are incomplete, and missing figures."""

    staged: StagedRelease
    report: ReportRef
    published: Published
    warnings: tuple[str, ...] = ()


def run_release(
    spec: "ReleaseSpec",
    lake: "Lake",
    release_id: str,
    work: WorkArea,
    watch: Watcher = nothing,
    *,
    ledger: "BudgetLedger | None" = None,
    approved_by: str | None = None,
    signer: "Signer | None" = None,
    history: "Lake | None" = None,
) -> Outcome:
    """Ingest, validate, detect outliers, release, verify, attack, publish: nothing unless all of it passes.

    Where the release must be approved and is not, or spends a budget that is too short, nothing is read. The
    secret of memoised answers is that of `memoised.default_secret`. The caller removes the work area.

    Args:
        spec: what to do.
        lake: where the release goes.
        release_id: names the release in its table.
        work: where records are kept meanwhile.
        watch: told the stage and what is done in it.
        ledger: that the release's budget is booked in; by default the one of `ledger_places.default_ledger`.
        approved_by: who approves what the run makes, if it keeps the policy; the manifest names them.
        signer: signs the release; None: nobody does.
        history: the lake of the superseded releases, where the specification keeps them.

    Raises:
        PrivacyEngineError: as the steps do.
    """
    is_paid = spec.budget is not None
    watch = _quiet(watch) if is_paid else watch
    with counts_hidden(spec.name, release_id, is_paid=is_paid):
        return _run(spec, lake, release_id, work, watch, ledger, approved_by, signer, history)


def _quiet(watch: Watcher) -> Watcher:
    """Report stages that count records of the source without their counts."""
    return lambda stage, text: watch(stage, without_counts(text) if stage in _OF_SOURCE else text)


def _run(
    spec: "ReleaseSpec",
    lake: "Lake",
    release_id: str,
    work: WorkArea,
    watch: Watcher,
    ledger: "BudgetLedger | None",
    approved_by: str | None,
    signer: "Signer | None",
    history: "Lake | None",
) -> Outcome:
    floor = floor_policy()
    if _must_be_approved(spec, floor) and not approved_by:
        raise SpecError(
            f"{spec.name} must be approved before it is published; name who approves it (--approved-by), or "
            "run its DAG, which asks"
        )
    everything = (policy_of(spec, floor), sources_of(spec), method_of(spec), schema_of(spec))
    facts, found = learned(spec, *everything)
    # Whoever is named beside the command approves it, also where the file asks for nobody.
    facts = replace(facts, approval=UNKNOWN, signed=signer is not None)
    judged(facts).refuse(found)
    into = lake.table(spec.publish.table)
    refuse(with_lake(facts, spec, into, release_id))
    memory = _memory(spec, into) if spec.release.memoised else None
    budget, paying = _budget(spec, release_id, ledger, facts)
    refuse(with_ledger(facts, budget, into))
    run = Releasing(
        spec=spec,
        schema=spec.data_schema(),
        release_id=release_id,
        work=work,
        watch=watch,
        policy=facts.own_policy[0],
        required=facts.policy,
        into=into,
        rules=table_rules(spec.publish_mode, spec.publish.superseded, spec.publish.grace, history),
        budget=budget,
        memory=memory,
        approved_by=approved_by or None,
        signer=signer,
        paying=paying,
    )
    approved = spec.approval is not None or bool(approved_by)
    run.follow(plan_of(spec, attacked=bool(facts.policy.attacks), approved=approved, mapped=False))
    published: Published = run.handed[Slot.PUBLISHED]
    if published.completed:
        run.warnings.append(COMPLETED)
    else:
        missing = [*(LeftOut(**figure) for figure in published.left_out), *run.attempts.left_out]
        run.warnings += map(str, missing)
    return Outcome(staged=run.staged, report=run.report, published=published, warnings=(*run.warnings,))


def _must_be_approved(spec: "ReleaseSpec", floor: Floor | None) -> bool:
    """Whether the file of the release or the floor policy asks for it."""
    return (spec.approval is not None and spec.approval.required) or (floor is not None and floor.approval)


def _memory(spec: "ReleaseSpec", table: "ReleaseTable") -> Memory:
    """What memoised answers go by: the secret of the environment, and that of the last release."""
    last = last_fingerprint(table)
    return Memory(secret=default_secret(), last=last, replaces=spec.release.replaces)


def _budget(
    spec: "ReleaseSpec", release_id: str, ledger: "BudgetLedger | None", facts: Facts
) -> tuple[Budget | None, str]:
    """The budget of a release that spends one, and what it spends in words."""
    from privacy_release.ledger.places import default_ledger

    if spec.budget is None or facts.loss is None:
        return None, ""
    budget = budget_of(spec, f"{spec.name}/{release_id}", ledger or default_ledger())
    refuse(replace(facts, promise=budget.promise))
    promise = budget.promise(facts.loss)
    under = f", under a promise of epsilon {promise.loss.epsilon:g}" if promise is not None else ""
    return budget, f"epsilon {facts.loss.epsilon:g} of {budget.dataset}{under}"


def source_table(
    spec: "ReleaseSpec", release_id: str, schema: "DataSchema", work: WorkArea, watch: Watcher
) -> Table:
    """The ingested table, validated and searched for outliers."""
    run = Running(spec=spec, schema=schema, release_id=release_id, work=work, watch=watch)
    run.follow(plan_of(spec).preparing())
    return run.table
