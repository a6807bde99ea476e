"""What somebody is told who has to approve a release, and what an approval is.

The text is Markdown for Airflow's form. Whatever was not written here is escaped: the name of a table, a
column or a release is shown as text, whatever stands in it. No record and no cell value is in it, and of a
differentially private release no figure of the source.
"""

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlencode

from privacy_engine.errors import IntegrityError
from privacy_release.reports.text import FIGURES, RISKS, shown
from privacy_release.work.references import ReportRef, StagedRef, symbols_of

if TYPE_CHECKING:
    from privacy_release.lake.store import Lake

APPROVE, REJECT = "Approve", "Reject"
COMMENT = "comment"
LONGEST_COMMENT = 500
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in string.punctuation})


class ApprovalRef(TypedDict):
    """An approval of the very bytes that were verified.

    Attributes:
        by: id and name of the user; a name alone where it was given on the command line; None where nobody
            was asked.
        at: time of the answer, ISO 8601.
        comment: what they said; it is published.
        automatic: nobody was asked, because this run needs no approval.
        sha256: of the bytes that are approved.
    """

    by: dict[str, str] | str | None
    at: str
    comment: str
    automatic: bool
    sha256: str


def public_approval(approval: ApprovalRef, report: ReportRef) -> dict[str, Any]:
    """What a manifest says of an approval.

    Raises:
        IntegrityError: if other bytes were approved than those that were verified.
    """
    if approval.get("sha256") != report["sha256"]:
        raise IntegrityError(
            f"what was approved must be the verified bytes (sha256 {report['sha256']}), got an approval of "
            "others; ask for approval again"
        )
    return {name: approval[name] for name in ("by", "at", "comment", "automatic")}


def plain_comment(given: object) -> str:
    """A comment as one line of at most `LONGEST_COMMENT` characters; empty where there is none."""
    text = (
        " ".join("".join(c if c.isprintable() else " " for c in given).split())
        if isinstance(given, str)
        else ""
    )
    return text if len(text) <= LONGEST_COMMENT else text[: LONGEST_COMMENT - 1] + "…"


def escaped(text: object) -> str:
    r"""Text that Markdown shows as it is, on one line: neither form, nor link, nor HTML.

    >>> print(escaped("a_b <img> | [x](y)"))
    a\_b \<img\> \| \[x\]\(y\)
    """
    return re.sub(r"\s+", " ", str(text)).strip().translate(_MARKS)


def subject(name: str, release_id: str) -> str:
    """The headline of the form, which shows plain text."""
    return f"Publish release {release_id} of {name}?"


def body(
    staged: StagedRef, report: ReportRef, lake: "Lake", name: str, release_id: str, dag_id: str, run_id: str
) -> str:
    """The text of the form.

    Raises:
        PublishError: if the lake cannot be reached.
        IntegrityError: if the manifest of the last release was changed.
    """
    link = f"/privacy/report?{urlencode({'dag_id': dag_id, 'run_id': run_id})}"
    parts = [
        f"Release **{escaped(release_id)}** of the table **{escaped(name)}**: {staged['rows']:,} records, "
        f"made by {escaped(staged['method'])}.{_counterfeits(staged)} [Read the whole report]({link}).",
        _heading("Guarantees, measured on the bytes that would be published"),
        _table(("rule", "limit", "measured", "kept"), map(_finding, report["findings"])),
        *_loss(staged),
        *_figures("Utility", FIGURES, staged),
        *_figures("Risk", RISKS, staged),
        *_difference(staged, report, lake, name, release_id),
        _heading("What your answer does"),
        f"**{APPROVE}** publishes these very bytes (sha256 {report['sha256']}) and no others. **{REJECT}**, "
        "or no answer in time, publishes nothing and removes the staged records. Your name, the time and "
        "your comment stand in the manifest of the release, which all its readers may read: a comment must "
        f"not speak of a person. It may be left out; {LONGEST_COMMENT} characters are kept.",
    ]
    return "\n\n".join(parts)


def _counterfeits(staged: StagedRef) -> str:
    """How many of the records are of nobody, where there are any."""
    count = int(staged["figures"].get("counterfeits", 0))
    return f" {count:,} of them are counterfeits: records of nobody, told in each class." if count else ""


def _heading(text: str) -> str:
    return f"#### {text}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _finding(finding: Mapping[str, Any]) -> tuple[str, str, str, str]:
    measured = finding["measured"]
    return (
        finding["rule"],
        f"{finding['threshold']:g}",
        "nothing" if measured is None else f"{measured:.4g}",
        "yes" if finding["passed"] else "NO",
    )


def _loss(staged: StagedRef) -> list[str]:
    loss = staged["loss"]
    if loss is None:
        return []
    text = (
        f"Epsilon **{loss['epsilon']:g}**, delta {loss['delta']:g}, neighbours {escaped(loss['neighbours'])}"
    )
    booking = staged.get("booking")
    paid = f", paid from the privacy budget of **{escaped(booking['dataset'])}**" if booking else ""
    return [_heading("Privacy loss"), f"{text}{paid}."]


def _figures(title: str, known: Mapping[str, tuple[str, str, str]], staged: StagedRef) -> list[str]:
    """The known figures that were measured; of a private release they would be figures of the source."""
    if staged["loss"] is not None:
        return []
    found = staged["figures"]
    rows = [(label, shown(found[key], unit)) for key, (label, unit, _) in known.items() if key in found]
    return [_heading(title), _table(("figure", "value"), rows)] if rows else []


def _difference(staged: StagedRef, report: ReportRef, lake: "Lake", name: str, release_id: str) -> list[str]:
    """Against the last release of the table that is not retracted."""
    from privacy_release.lake.log import State
    from privacy_release.lake.read import manifest_of, releases
    from privacy_release.work.staged import read_schema

    standing = [e for e in releases(lake, name) if e["state"] in (State.CURRENT, State.SUPERSEDED)]
    heading = _heading("Difference from the last release")
    if not standing:
        return [heading, "There is none: this would be the first release of the table."]
    last = standing[-1]
    before = manifest_of(lake, name, last["release_id"]).get("figures") or {}
    was = _numbers(last["figures"].get("measured") or [], last["figures"].get("loss"), before) | {
        "rows": last["rows"]
    }
    now = _numbers(report["findings"], staged["loss"], staged["figures"]) | {"rows": staged["rows"]}
    rows = [(key, _number(was.get(key)), _number(now.get(key))) for key in _ORDER if key in was or key in now]
    columns, had = read_schema(staged["schema"]).names, last["columns"]
    told = [
        f"{what}: {', '.join(map(escaped, names))}."
        for what, names in (
            ("New columns", [c for c in columns if c not in had]),
            ("Columns that are gone", [c for c in had if c not in columns]),
        )
        if names
    ]
    again = (
        ["It **replaces** the release of that name."]
        if any(entry["release_id"] == release_id for entry in standing)
        else []
    )
    about = (
        f"The last one is **{escaped(last['release_id'])}**, published {escaped(last['committed'][:16])} UTC."
    )
    return [heading, " ".join([about, *again, *told]), _table(("", "last", "this one"), rows)]


_ORDER = ("rows", "k", "l", "t", "epsilon", "gcp", "suppressed")


def _numbers(
    findings: Sequence[Mapping[str, Any]], loss: Mapping[str, Any] | None, figures: Mapping[str, float]
) -> dict[str, float]:
    told = (
        {"epsilon": loss["epsilon"]}
        if loss
        else {key: figures[key] for key in ("gcp", "suppressed") if key in figures}
    )
    return symbols_of(findings) | told


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
