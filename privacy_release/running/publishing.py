"""Steps that approve and publish a staged release, and the reports that follow."""

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
from privacy_release.steps.learning import model_path, train, write_model
from privacy_release.steps.publish import publish_staged
from privacy_release.workarea.references import Published, ReportRef


def approve(run: Releasing, step: Step) -> ApprovalRef:
    """Return the approval given on the command line, or an automatic one if none is required."""
    run.handed[Slot.REPORT] = _warned(run)
    return approval_of(run.report, run.approved_by, datetime.now(UTC).isoformat(timespec="seconds"))


def publish(run: Releasing, step: Step) -> Published:
    """Publish the release."""
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
    """Return the report with the alerts of the specification. Alerts never stop a release."""
    if run.spec.alerts is None:
        return run.report
    problems: list[str] = []
    alerts = find_alerts(
        run.staged,
        run.report,
        run.spec.alerts,
        table=lambda: run.into,
        run=run.judged.earlier.run,
        ledger=run.judged.ledger,
        on_problem=problems.append,
    )
    run.warnings += [a.text for a in alerts] + [f"alerts are incomplete: {p}" for p in problems]
    return replace(run.report, alerts=alerts)


def learn(run: Releasing, step: Step) -> None:
    """Train naive Bayes on the published release, and store it in the lake with its report.

    If this fails, the release stays published and a warning is added.
    """
    given = run.spec.learn
    assert given is not None

    def trained() -> dict[str, str]:
        path = model_path(run.spec.name, run.release_id)
        model = train(run.into, [run.release_id], **given.model_dump())
        return write_model(run.into.lake, path, model, None)

    if made := run.attempts.make("the model of the release", trained):
        run.say(step, made["model"])


def evidence(run: Releasing, step: Step) -> EvidenceRef | None:
    """Write the evidence of the published release into the curator's folder.

    If this fails, the release stays published and a warning is added. You can write the evidence later with
    `privacy-release evidence`.
    """
    key = run.signer.key if isinstance(run.signer, StatementSigner) else None
    keep = partial(keep_evidence, run.into, run.release_id, key)
    made = run.attempts.make("the evidence of the release", keep)
    if made:
        run.say(step, f"readable only by the service's user: {made['evidence']}")
    return made


def curator_report(run: Releasing, step: Step) -> None:
    """Write a report that compares the release with its source into the curator's folder."""
    published: Published = run.handed[Slot.PUBLISHED]
    if published.completed:  # the published bytes are those of an earlier attempt
        return
    write = partial(report_to_curator, run.table, run.staged, run.spec.name, run.release_id)
    if path := run.attempts.make("the private report for the curator", write):
        run.say(step, f"private report, not for publication: {path}")
