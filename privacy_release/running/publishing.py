"""The steps that approve and publish a staged release, and what is made of it afterwards."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from privacy_release.alerts.trend import find_alerts
from privacy_release.evidence.kept import EvidenceRef, keep_evidence
from privacy_release.plan.step import Slot, Step
from privacy_release.proof.statement import StatementSigner
from privacy_release.running.context import Releasing
from privacy_release.steps.approval import ApprovalRef, approval_of
from privacy_release.steps.curator import report_to_curator
from privacy_release.steps.publish import publish_staged
from privacy_release.workarea.references import Published, ReportRef


def approve(run: Releasing, step: Step) -> ApprovalRef:
    """The approval that was given with the command; where it may be left out, that no one was asked."""
    run.handed[Slot.REPORT] = _warned(run)
    return approval_of(run.report, run.approved_by, datetime.now(UTC).isoformat(timespec="seconds"))


def publish(run: Releasing, step: Step) -> Published:
    """The published release."""
    if Slot.APPROVAL not in run.handed:
        run.handed[Slot.REPORT] = _warned(run)
    run.say(step, "committing")
    published = publish_staged(
        run.staged,
        run.report,
        run.into,
        run.release_id,
        approved=run.handed.get(Slot.APPROVAL),
        signer=run.signer,
        rules=run.rules,
    )
    run.say(step, f"version {published.version} of {published.table}")
    return published


def _warned(run: Releasing) -> ReportRef:
    """The report with the alerts of the specification, which stop nothing."""
    if run.spec.alerts is None:
        return run.report
    problems: list[str] = []
    alerts = find_alerts(
        run.staged,
        run.report,
        run.spec.alerts,
        table=lambda: run.into,
        run=run.run,
        ledger=run.budget.ledger if run.budget else None,
        tell=problems.append,
    )
    run.warnings += [a.text for a in alerts] + [f"alerts are incomplete: {p}" for p in problems]
    return replace(run.report, alerts=alerts)


def evidence(run: Releasing, step: Step) -> EvidenceRef | None:
    """The evidence of the published release, in the curator's folder.

    The release stands where that fails, which is a warning then: `privacy-release evidence` makes it later.
    """
    key = run.signer.key if isinstance(run.signer, StatementSigner) else None
    keep = partial(keep_evidence, run.into, run.release_id, key)
    made = run.attempts.make("the evidence of the release", keep)
    if made:
        run.say(step, f"kept for the service's user: {made['evidence']}")
    return made


def curator_report(run: Releasing, step: Step) -> None:
    """A report that compares the release with its source, in the curator's folder."""
    published: Published = run.handed[Slot.PUBLISHED]
    if published.completed:  # of another attempt's bytes
        return
    write = partial(report_to_curator, run.table, run.staged, run.spec.name, run.release_id)
    if path := run.attempts.make("the private report for the curator", write):
        run.say(step, f"a private report, not to be published: {path}")
