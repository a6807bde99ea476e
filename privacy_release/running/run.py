"""Run a whole release in one process, without Airflow."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privacy_release.plan.plan import plan_of
from privacy_release.plan.step import Slot
from privacy_release.reports.attempts import LeftOut
from privacy_release.running.context import Releasing, Watcher, nothing
from privacy_release.running.judging import judged_run
from privacy_release.steps.counts import counts_hidden
from privacy_release.steps.publish import COMPLETED, table_rules
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import Published, ReportRef, StagedRelease

if TYPE_CHECKING:
    from privacy_release.evidence.kept import EvidenceRef
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import Lake
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.spec.model import ReleaseSpec


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a run.

    Attributes:
        staged: Reference to the staged release.
        report: Verification report of the release.
        published: Version and table in which the release was published.
        evidence: Evidence in the curator's folder. None if none is kept.
        warnings: Alerts, reasons why they are incomplete, and missing figures and pages.
    """

    staged: StagedRelease
    report: ReportRef
    published: Published
    evidence: "EvidenceRef | None" = None
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
    """Execute all steps of a release's plan. Nothing is published unless all steps before it pass.

    If the release needs an approval that is missing, or its budget is too small, nothing is read. The secret
    of memoised answers is that of `secrets.default_secret`. The caller removes the work area.

    Args:
        spec: Specification of the release.
        lake: Lake that the release is published in.
        release_id: Name of the release in its table.
        work: Work area in which records are kept during the run.
        watch: Progress callback, called with a step's kind and a message.
        ledger: Ledger in which the release's budget is booked. None: `ledger.default.default_ledger`.
        approved_by: Name of the person who approves the release, for the manifest. None: no one approves it.
        signer: Signer of the release. None: it is not signed.
        history: Lake of superseded releases. Required if the specification keeps them.

    Raises:
        PrivacyEngineError: If a step fails.
    """
    with counts_hidden(spec.name, release_id, is_paid=spec.budget is not None):
        into, signed = lake.table(spec.publish.table), signer is not None
        judged = judged_run(spec, into, release_id, ledger=ledger, approved=bool(approved_by), signed=signed)
        run = Releasing(
            spec=spec,
            schema=spec.data_schema(),
            release_id=release_id,
            work=work,
            watch=watch,
            hides_counts=spec.budget is not None,
            judged=judged,
            required=judged.facts.policy,
            into=into,
            rules=table_rules(spec.publish_mode, spec.publish.superseded, spec.publish.grace, history),
            approved_by=approved_by or None,
            signer=signer,
        )
        approved = spec.approval is not None or bool(approved_by)
        attacked = bool(run.required.attacks)
        run.follow(plan_of(spec, attacked=attacked, approved=approved, mapped=False))
        return _outcome(run)


def _outcome(run: Releasing) -> Outcome:
    published: Published = run.handed[Slot.PUBLISHED]
    # Another attempt published what was completed: its figures are not of these bytes.
    of_release = [COMPLETED] if published.completed else [LeftOut(**figure) for figure in published.left_out]
    warnings = map(str, (*of_release, *run.attempts.left_out))
    return Outcome(
        staged=run.staged,
        report=run.report,
        published=published,
        evidence=run.handed.get(Slot.EVIDENCE),
        warnings=(*run.warnings, *warnings),
    )
