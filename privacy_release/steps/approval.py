"""The question that a reviewer answers before a release is published, and the approval that results.

The text is Markdown for Airflow's form. Every text that is not written here is escaped, so that the name of a
table, a column or a release is shown literally. The question contains no record and no cell value, and for a
differentially private release no figure of the source.
"""

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlencode

from privacy_engine.errors import IntegrityError
from privacy_engine.verification.republication.notes import notes_on_earlier
from privacy_engine.vocabulary import counted
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
    figure,
    limit_in_words,
    measured_in_words,
    promise_in_words,
    shown,
    signed,
)
from privacy_release.workarea.journal import sha256_of
from privacy_release.workarea.references import Reference, ReportRef, StagedRelease, need, symbols_of

if TYPE_CHECKING:
    from privacy_release.lake.store import ReleaseTable

APPROVE, REJECT, SEND_BACK = "Approve", "Reject", "Send back"
COMMENT = "comment"
LONGEST_COMMENT = 500
_PUBLIC = frozenset({"by", "at", "comment", "automatic", "report_sha256", "question_sha256", "first"})
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in string.punctuation})


@dataclass(frozen=True, kw_only=True)
class ApprovalRef(Reference):
    """An approval of exactly the bytes that were verified.

    Attributes:
        by: ID and name of the user. Only a name if the approval was given on the command line. None if no
            approval was required.
        at: Time of the answer, ISO 8601.
        comment: Comment of the user, which is published.
        automatic: Whether the run needs no approval, so that no one had to answer.
        sha256: SHA-256 of the approved bytes.
        report_sha256: SHA-256 of the verification report that was shown.
        question_sha256: SHA-256 of the question as it was shown. None if no question was shown.
        first: Earlier approval of the same bytes by another person, if two people must approve.
    """

    by: dict[str, str] | str | None
    at: str
    comment: str
    automatic: bool
    sha256: str
    report_sha256: str
    question_sha256: str | None
    first: "ReviewerAnswer | None" = None


class ReviewerAnswer(TypedDict):
    """The answer of one of two reviewers: ID and name, time in ISO 8601, comment."""

    by: dict[str, str]
    at: str
    comment: str


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


def approval_of(report: ReportRef, by: str | None, at: str) -> ApprovalRef:
    """Return an approval that was given on the command line, without a question.

    Args:
        report: Verification report of the release.
        by: Name of the person who approves. None if the release needs no approval.
        at: Time in ISO 8601.
    """
    return ApprovalRef(
        by=by,
        at=at,
        comment="",
        automatic=by is None,
        sha256=report.sha256,
        report_sha256=sha256_of(report),
        question_sha256=None,
    )


def public_approval(approval: ApprovalRef, report: ReportRef) -> dict[str, Any]:
    """Return the section of the manifest about an approval.

    Raises:
        IntegrityError: If the approval is about other bytes or another report than the verified ones.
    """
    if approval.sha256 != report.sha256:
        raise IntegrityError(
            f"the approved bytes must be the verified bytes (sha256 {report.sha256}), but the approval is of "
            "other bytes; request the approval again"
        )
    if approval.report_sha256 != sha256_of(report):
        raise IntegrityError(
            "the approval must be based on the current verification report, but the release was verified "
            "again since; request the approval again"
        )
    return {name: value for name, value in approval.to_ref().items() if name in _PUBLIC}


def plain_comment(given: object) -> str:
    """Return a comment as one line of at most `LONGEST_COMMENT` characters, empty if there is none."""
    text = (
        " ".join("".join(c if c.isprintable() else " " for c in given).split())
        if isinstance(given, str)
        else ""
    )
    return text if len(text) <= LONGEST_COMMENT else text[: LONGEST_COMMENT - 1] + "…"


def escaped(text: object) -> str:
    r"""Escape text so that Markdown shows it literally on one line: no form, link or HTML.

    >>> print(escaped("a_b <img> | [x](y)"))
    a\_b \<img\> \| \[x\]\(y\)
    """
    return re.sub(r"\s+", " ", str(text)).strip().translate(_MARKS)


def subject(name: str, release_id: str) -> str:
    """Return the heading of the form, which is shown as plain text."""
    return f"Publish a new release of {name}? ({release_id})"


def page_address(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
    """Return the path of an approval's page, relative to Airflow's own address."""
    place = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
    return f"/privacy/approval?{urlencode(place)}"


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


def body(
    posed: ApprovalQuestion,
    dag_id: str,
    run_id: str,
    task_id: str = "approve",
    map_index: int = -1,
) -> str:
    """Return the text of Airflow's own form, which replaces the page if that cannot be used."""
    link = f"/privacy/report?{urlencode({'dag_id': dag_id, 'run_id': run_id})}"
    page = page_address(dag_id, run_id, task_id, map_index)
    two = (
        " **Two different people must approve**, so there are two answers." if posed["approvers"] > 1 else ""
    )
    parts = [
        f"**[Decide on the page of this approval]({page})**: it shows the columns and some records as "
        f"they would be published, and asks you to confirm a rejection.{two}",
        f"Table **{escaped(posed['table'])}**, release **{escaped(posed['release'])}**: "
        f"{counted(posed['rows'], 'record')}, made by {escaped(posed['method'])}.{_counterfeits(posed)} "
        f"[Read the whole report]({link}).",
        *_alerts(posed),
        *_changes(posed["difference"]),
        _heading("Guarantees, measured on the bytes that would be published"),
        _table(("rule", "limit", "measured", "result"), map(_finding, posed["findings"])),
        *map(escaped, posed.get("over_time", ())),
        *_expectations(posed),
        *_loss(posed),
        *_measures("Utility", FIGURES, posed),
        *_measures("Risk", RISKS, posed),
        *_measures("Uniqueness", ALONE, posed),
        *_attacked(posed),
        _heading("What your answer does"),
        f"**{APPROVE}** publishes exactly these bytes (sha256 {posed['sha256']}). **{REJECT}**, "
        f"or no answer in time, publishes nothing and removes the staged records. **{SEND_BACK}** does the "
        "same, but the run does not fail: say in the comment what should change. If you approve, "
        "your name, the time and your comment become part of the release's manifest, which all its readers "
        "can read. Do not write about a person in the comment. "
        f"It is optional; the first {LONGEST_COMMENT} characters are kept.",
    ]
    return "\n\n".join(parts)


def _counterfeits(posed: ApprovalQuestion) -> str:
    """Return a sentence on counterfeit records, empty if there are none."""
    count = posed["counterfeits"]
    if not count:
        return ""
    return f" {count:,} of them are counterfeits: they belong to no person, and each class states how many."


def expectations_in_words(posed: ApprovalQuestion) -> str:
    """Return a sentence on how many expectations of the source are met, empty if there are none."""
    found = posed.get("expectations")
    if not found:
        return ""
    return f"{found['passed']:,} of {counted(found['expected'], 'expectation')} of the source are met."


def _expectations(posed: ApprovalQuestion) -> list[str]:
    words = expectations_in_words(posed)
    return [words] if words else []


def _heading(text: str) -> str:
    return f"#### {text}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _finding(finding: Mapping[str, Any]) -> tuple[str, str, str, str]:
    measured = measured_in_words(finding)
    result = "passed" if finding["passed"] else "FAILED"
    return (
        finding["rule"],
        limit_in_words(finding),
        measured,
        "" if measured == "not applicable" else result,
    )


def _loss(posed: ApprovalQuestion) -> list[str]:
    loss = posed["loss"]
    if loss is None:
        return []
    text = (
        f"Epsilon **{figure(loss['epsilon'])}**, delta {figure(loss['delta'])}: the most that the release "
        f"may depend on {_PROTECTED.get(loss['neighbours'], 'any one person')}"
    )
    dataset = posed["dataset"]
    paid = f", paid from the privacy budget of **{escaped(dataset)}**" if dataset else ""
    promise = posed.get("promise")  # missing in questions of earlier versions
    return [_heading("Privacy loss"), f"{text}{paid}.", *([promise] if promise else [])]


def _figures(known: Mapping[str, tuple[str, str, str]], found: Mapping[str, float]) -> list[list[str]]:
    """Return label, value and meaning of the figures that were measured."""
    return [
        [label, shown(found[key], unit), why] for key, (label, unit, why) in known.items() if key in found
    ]


def _measures(title: str, known: Mapping[str, tuple[str, str, str]], posed: ApprovalQuestion) -> list[str]:
    labels = {label for label, _, _ in known.values()}
    rows = [(label, value) for label, value, _ in posed["figures"] if label in labels]
    return [_heading(title), _table(("figure", "value"), rows)] if rows else []


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


def _alerts(posed: ApprovalQuestion) -> list[str]:
    lines = [f"- {escaped(text)}" for text in posed.get("alerts", ())]
    return [_heading("Alerts"), "\n".join(lines)] if lines else []


ATTACKED = ("attack", "of", "in the release", "control", "excess risk", "bound", "planted leak")


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


def _attacked(posed: ApprovalQuestion) -> list[str]:
    lines = posed.get("attacks") or []
    note = "What attackers gain compared with people who are not in the release. No attack proves safety."
    return [_heading("Attacks on this release"), note, _table(ATTACKED, lines)] if lines else []


def _changes(difference: Difference | None) -> list[str]:
    heading = _heading("What changed since the last release")
    if difference is None:
        return [heading, "This would be the first release of the table."]
    changes = [
        f"{what}: {', '.join(map(escaped, names))}."
        for what, names in (
            ("New columns", difference["new"]),
            ("Columns that are gone", difference["gone"]),
        )
        if names
    ]
    again = ["The new release **replaces** it under the same name."] if difference["replaces"] else []
    found = changes_of(difference)
    rest = [
        f"{what}: {', '.join(escaped(label) for label, _, _ in rows)}."
        for what, rows in (("Also changed", found.further), ("Unchanged", found.same))
        if rows
    ]
    about = (
        f"The last release is **{escaped(difference['release'])}**, published "
        f"{escaped(difference['committed'][:16])} UTC."
    )
    return [
        heading,
        " ".join([about, *again, *changes]),
        *([_table(("", "last release", "this release"), found.main)] if found.main else []),
        *(rest if found.main or found.further else ["No figure changed."]),
    ]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Figures of the last release and of this one, each with its label, last value and new value.

    Attributes:
        main: Changed counts and measures, and the highest risk.
        further: Other figures of utility and risk that changed.
        same: Figures that did not change.
    """

    main: list[list[str]]
    further: list[list[str]]
    same: list[list[str]]


def changes_of(difference: Difference) -> Changes:
    """Return which figures changed since the last release, the most important ones first."""
    numbers = [
        [CHANGES[key][0] if key in CHANGES else key, was, now] for key, was, now in difference["numbers"]
    ]
    figures = [row for row in difference.get("figures", []) if row[0] != FIGURES["gcp_lca"][0]]  # see "gcp"
    highest = [row for row in figures if row[0] == RISKS["prosecutor_max"][0]]
    others = [row for row in figures if row not in highest]
    return Changes(
        main=[row for row in numbers + highest if row[1] != row[2]],
        further=[row for row in others if row[1] != row[2]],
        same=[row for row in numbers + highest + others if row[1] == row[2]],
    )


# neighbour relation -> the records that a privacy loss is about
_PROTECTED: Mapping[str, str] = {
    "add_remove": "any one record",
    "replace_one": "any one record",
    "replace_person": "all rows of any one person",
}


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
