"""The question to a reviewer as text: Markdown for Airflow's form, which replaces our page if that fails.

Every text that is not written here is escaped, so that the name of a table, a column or a release is shown
literally.
"""

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from privacy_engine.vocabulary import counted
from privacy_release.reports.text import (
    ALONE,
    CHANGES,
    FIGURES,
    RISKS,
    figure,
    limit_in_words,
    measured_in_words,
)
from privacy_release.steps.approval import APPROVE, LONGEST_COMMENT, REJECT, SEND_BACK
from privacy_release.steps.approval_question import ApprovalQuestion, Difference

_MARKS = str.maketrans({mark: f"\\{mark}" for mark in string.punctuation})


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


def _measures(title: str, known: Mapping[str, tuple[str, str, str]], posed: ApprovalQuestion) -> list[str]:
    labels = {label for label, _, _ in known.values()}
    rows = [(label, value) for label, value, _ in posed["figures"] if label in labels]
    return [_heading(title), _table(("figure", "value"), rows)] if rows else []


def _alerts(posed: ApprovalQuestion) -> list[str]:
    lines = [f"- {escaped(text)}" for text in posed.get("alerts", ())]
    return [_heading("Alerts"), "\n".join(lines)] if lines else []


ATTACKED = ("attack", "of", "in the release", "control", "excess risk", "bound", "planted leak")


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
