"""The question that a reviewer answers before a release is published.

It contains no record and no cell value, and for a differentially private release no figure of the source.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from privacy_engine.verification.republication.notes import notes_on_earlier
from privacy_release.reports.text import (
    ALONE,
    CHANGES,
    FIGURES,
    LIMITS,
    PRIVATE_LIMITS,
    PROMISES,
    RANDOMIZED_LIMITS,
    RISKS,
    STRUCTURE_LIMITS,
    SYNTHETIC_LIMITS,
    promise_in_words,
    shown,
    signed,
)
from privacy_release.steps.approval import ReviewerAnswer
from privacy_release.workarea.journal import sha256_of
from privacy_release.workarea.references import ReportRef, StagedRelease, need, symbols_of

if TYPE_CHECKING:
    from privacy_release.lake.store import ReleaseTable


class ApprovalQuestion(TypedDict):
    """The question that is shown to a reviewer: names, roles, counts and measures, but no record.

    Attributes:
        table, release: Names of the table and of the release.
        sha256: SHA-256 of the staged bytes that the answer is about.
        report_sha256: SHA-256 of the verification report that the question was made from.
        file: Name of the staged file in the work area of the run.
        columns: Name, role and kind of each released column.
        findings: Findings of the verification.
        over_time: Sentences on the attackers with earlier releases that were considered. Missing in questions
            of earlier versions.
        promise: Bound on the total loss of all releases of the schedule, if there is one.
        figures: Label, value and meaning of each figure of utility and risk. For a private release only
            figures about unique records.
        limits: Name and text of each risk that the release does not protect against.
        alerts: Warnings about figures that deviate from their trend.
        attacks: Results of the attacks that the policy bounds: attack, subject and figures as text. For a
            private release only that the bound was met.
        excess: Excess risk of each attack on the earlier releases and on this one, where it is known.
        expectations: Numbers of expectations of the source: defined, evaluated and met. None for a private
            release, and if there are none.
        assigned: IDs of the users who may answer. Empty: every user with permission on the DAG.
        approvers: Number of different users who must approve, 1 or 2.
        first: Answer of the first of two reviewers.
        until: Deadline of the question, ISO 8601.
    """

    table: str
    release: str
    method: str
    sha256: str
    report_sha256: str
    file: str
    rows: int
    counterfeits: int
    columns: list[dict[str, str]]
    findings: list[dict[str, Any]]
    over_time: list[str]
    loss: dict[str, Any] | None
    dataset: str | None
    promise: str | None
    figures: list[list[str]]
    limits: list[list[str]]
    alerts: list[str]
    attacks: list[list[str]]
    excess: list["Course"]
    difference: "Difference | None"
    expectations: dict[str, int] | None
    assigned: list[str]
    approvers: int
    first: ReviewerAnswer | None
    until: str


class Excess(TypedDict):
    """Excess risk of an attack on one release, with its interval. `committed` is empty before publication."""

    release: str
    committed: str
    excess: float
    low: float
    high: float


class Course(TypedDict):
    """The excess risk of an attack on the releases of a table, oldest first. The last awaits a decision."""

    attack: str
    subject: str
    bound: float
    releases: list[Excess]


class Difference(TypedDict):
    """The difference from the last release of the table that is not retracted.

    Attributes:
        release, committed: ID of the last release and time of its publication.
        replaces: Whether the new release replaces the last one under the same ID.
        new, gone: Names of columns that are new, and of columns that no longer exist.
        numbers: Counts and measures in the last release and in this one, by their keys in `CHANGES`.
        figures: Figures of utility and risk in the last release and in this one, by their labels. Missing in
            questions of earlier versions.
    """

    release: str
    committed: str
    replaces: bool
    new: list[str]
    gone: list[str]
    numbers: list[list[str]]
    figures: list[list[str]]


def question(
    staged: StagedRelease,
    report: ReportRef,
    table: "ReleaseTable",
    release_id: str,
    *,
    approvers: int = 1,
    assigned: Sequence[str] = (),
    until: str = "",
) -> ApprovalQuestion:
    """Return the question about a staged release.

    Raises:
        PublishError: If the lake cannot be reached.
        IntegrityError: If the manifest of the last release was changed, or the schema is missing.
    """
    attributes = staged.read_schema().attributes
    booking = staged.booking
    return ApprovalQuestion(
        table=table.name,
        release=release_id,
        method=staged.method,
        sha256=report.sha256,
        report_sha256=sha256_of(report),
        file=Path(staged.uri).name,
        rows=staged.rows,
        counterfeits=int(staged.figures.get("counterfeits", 0)),
        columns=[{"name": a.name, "role": a.role.value, "kind": a.kind.value} for a in attributes],
        findings=[dict(finding) for finding in report.findings],
        over_time=notes_on_earlier(report.findings, followed=staged.follows_people),
        loss=staged.loss,
        dataset=booking.dataset if booking else None,
        promise=promise_in_words(booking.over_time) if booking and booking.over_time is not None else None,
        figures=[
            *(row for known in (FIGURES, RISKS) for row in _figures(known, staged.public_figures)),
            *_figures(ALONE, report.unique_records or {}),
        ],
        limits=_limits(staged),
        alerts=[alert.text for alert in report.alerts],
        attacks=_attacks(report),
        excess=_courses(report, table, release_id),
        difference=_difference(staged, report, table, release_id),
        expectations=None if staged.claims_loss else staged.source.expectations,
        assigned=list(assigned),
        approvers=approvers,
        first=None,
        until=until,
    )


def _figures(known: Mapping[str, tuple[str, str, str]], found: Mapping[str, float]) -> list[list[str]]:
    """Return label, value and meaning of the figures that were measured."""
    return [
        [label, shown(found[key], unit), why] for key, (label, unit, why) in known.items() if key in found
    ]


def _limits(staged: StagedRelease) -> list[list[str]]:
    """Return what the guarantees do not protect against: by the claimed models first, then by their kind."""
    claimed = [PROMISES[g["model"]] for g in staged.guarantees if g["model"] in PROMISES]
    loss = staged.privacy_loss
    if loss is None:
        general = LIMITS
    elif not loss.must_be_booked:
        general = STRUCTURE_LIMITS
    else:
        general = (SYNTHETIC_LIMITS if staged.is_synthetic else RANDOMIZED_LIMITS) + PRIVATE_LIMITS
    return [[promise.name, promise.leaves] for promise in claimed] + [list(limit) for limit in general]


def _difference(
    staged: StagedRelease, report: ReportRef, table: "ReleaseTable", release_id: str
) -> Difference | None:
    """Return the difference from the last release that is not retracted. None if there is no such release."""
    from privacy_release.lake.log import State, publications
    from privacy_release.lake.read import standing_manifest

    standing = [made for made in publications(table) if made.state in (State.CURRENT, State.SUPERSEDED)]
    if not standing:
        return None
    last = standing[-1]
    manifest = standing_manifest(table, last.release_id)
    before = manifest.figures
    # The figures of a private release describe its source, so they are never compared.
    comparable = not staged.claims_loss and last.figures.get("loss") is None
    then, now_ = (before, staged.figures) if comparable else ({}, {})
    findings = last.figures.get("measured") or []
    was = _numbers(findings, last.figures.get("loss"), before) | {"rows": last.rows}
    now = _numbers(report.findings, staged.loss, staged.figures) | {"rows": staged.rows}
    was["rules kept"], now["rules kept"] = _kept(findings), _kept(report.findings)
    columns, had = staged.read_schema().names, last.columns
    return Difference(
        release=last.release_id,
        committed=last.committed,
        replaces=any(made.release_id == release_id for made in standing),
        new=[c for c in columns if c not in had],
        gone=[c for c in had if c not in columns],
        numbers=[
            [key, _number(key, was.get(key)), _number(key, now.get(key))]
            for key in CHANGES
            if key in was or key in now
        ],
        figures=[
            [label, shown(then[key], unit), shown(now_[key], unit)]
            for key, (label, unit, _) in (*FIGURES.items(), *RISKS.items())
            if key in then and key in now_
        ],
    )


def _kept(findings: Sequence[Mapping[str, Any]]) -> int:
    return sum(bool(finding["passed"]) for finding in findings)


def _attacks(report: ReportRef) -> list[list[str]]:
    """Return a row under `ATTACKED` for each outcome, or for each rule whose figures are the curator's."""
    lines = []
    for trial in report.trials:
        bound = f"{trial.bound:g}"
        for o in trial.shown_outcomes:
            excess = f"{signed(o['excess'], 3)} ({signed(o['low'], 3)} to {signed(o['high'], 3)})"
            shares = (f"{o['main']:.3f}", f"{max(o['control'], o['baseline']):.3f}", excess)
            lines.append([trial.attack, o["subject"], *shares, bound, f"{o['planted']:.3f}"])
        if not trial.shown_outcomes:
            kept = "kept; see the curator's report" if trial.passed else "NOT kept"
            lines.append([trial.attack, "", "", "", kept, bound, ""])
    return lines


def _courses(report: ReportRef, table: "ReleaseTable", release_id: str) -> list[Course]:
    """Return the excess risk of each attack on this release and, where it is known, on the earlier ones."""
    from privacy_release.steps.attacks.earlier import figures_of_earlier

    trials = [trial for trial in report.trials if trial.shown_outcomes]
    earlier = figures_of_earlier(table, need(report.attacks, "attacks").curator) if trials else []
    return [
        Course(
            attack=trial.attack,
            subject=o["subject"],
            bound=trial.bound,
            releases=[
                *(
                    _excess(release.release_id, release.committed, risk)
                    for release in earlier
                    if (risk := release.figures.get((trial.attack, o["subject"])))
                ),
                _excess(release_id, "", o),
            ],
        )
        for trial in trials
        for o in trial.shown_outcomes
    ]


def _excess(release_id: str, committed: str, found: Mapping[str, float]) -> Excess:
    return Excess(
        release=release_id,
        committed=committed,
        excess=found["excess"],
        low=found["low"],
        high=found["high"],
    )


def _numbers(
    findings: Sequence[Mapping[str, Any]], loss: Mapping[str, Any] | None, figures: Mapping[str, float]
) -> dict[str, float]:
    figures_of_loss = (
        {"epsilon": loss["epsilon"]}
        if loss
        else {key: figures[key] for key in ("gcp", "suppressed") if key in figures}
    )
    return symbols_of(findings) | figures_of_loss


def _number(key: str, value: float | None) -> str:
    return "none" if value is None else shown(value, CHANGES[key][1])
