"""An evidence pack as a page and as a PDF, both made from the same sections."""

import io
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError
from privacy_engine.verification.republication.notes import notes_on_earlier
from privacy_engine.vocabulary import counted
from privacy_release.evidence.criteria import HIPAA, NIST, WP29
from privacy_release.reports.release import page_template
from privacy_release.reports.text import figure, limit_in_words, measured_in_words, signed

if TYPE_CHECKING:
    from fpdf import FPDF

PDF_PACKAGES = ("fpdf", "matplotlib")  # packages of the extra `pdf`: the writer and its fonts
_MARGIN, _TEXT, _HEAD = 18, 9, 13  # of a PDF: millimetres, and points
_FIRST = 300  # characters of a text that stay with its heading


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the evidence: sentences, then a table if there are rows."""

    title: str
    texts: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def sections_of(facts: Mapping[str, Any], opinion: str) -> list[Section]:
    """Return all parts, in order.

    Args:
        facts: Facts from `privacy_release.evidence.facts.facts_of`.
        opinion: Opinion of the expert, as plain text.
    """
    software = facts["software"]
    made = [
        f"{counted(facts['rows'], 'record')}, made by {facts['method']} of {software['name']} "
        f"{software['version']}.",
        f"sha256 of the verified records: {facts['sha256']}.",
    ]
    if facts["reference"]:
        made.append(
            f"The algorithm, its paper, and what it is proven to guarantee are described in the module "
            f"{facts['reference']}."
        )
    parts = [
        Section(
            title="The release",
            texts=made,
            heads=("Parameter", "Value"),
            rows=[(name, _plain(value)) for name, value in facts["parameters"].items()],
        ),
        Section(title="Guarantees", texts=facts["sentences"]),
        Section(
            title="What was measured on the published bytes",
            texts=[
                "Each rule of the policy, which is kept apart from the method.",
                *(f"{note}." for note in notes_on_earlier(facts["measured"], followed="history" in facts)),
            ],
            heads=("Rule", "Bound", "Measured", "Kept"),
            rows=[
                (f["rule"], _limit(f), _measured(f), "yes" if f["passed"] else "NO")
                for f in facts["measured"]
            ],
        ),
    ]
    if facts["risks"] or facts.get("classes"):
        parts.append(_risks(facts))
    if facts.get("attacks"):
        parts.append(_attacks(facts["attacks"]))
    parts += [
        Section(
            title=standard,
            heads=("Criterion", "Answer", "Grounds"),
            rows=[
                (f"{a['criterion']}: {a['asks']}", a["status"], " ".join(a["says"]))
                for a in facts["answers"]
                if a["standard"] == standard
            ],
        )
        for standard in (WP29, HIPAA, NIST)
    ]
    return [
        *parts,
        Section(title="Opinion of the expert", texts=[p for p in opinion.split("\n") if p.strip()]),
    ]


def _risks(facts: Mapping[str, Any]) -> Section:
    """Return figures of risk, and numbers of records by the size of their class."""
    sizes = [
        (
            f"Records in classes of {band['from']}"
            + (
                " or more" if band["to"] is None else f" to {band['to']}" if band["to"] > band["from"] else ""
            ),
            f"{band['records']:,}",
            counted(band["classes"], "class", "classes"),
        )
        for band in facts.get("classes", ())
    ]
    return Section(
        title="Distribution of risk",
        texts=[
            "For the released table. The chance to pick a person's record in a class of k is at most 1 in k."
        ],
        heads=("Figure", "Value", "Meaning"),
        rows=[*((r["name"], r["value"], r["meaning"]) for r in facts["risks"]), *sizes],
    )


def _attacks(trials: Sequence[Mapping[str, Any]]) -> Section:
    """Return the figures of attacks in the manifest."""
    return Section(
        title="Attacks that were tried",
        texts=[
            "How much more an attacker gets right about people in the release than about people who "
            "were held out of it. An attack never proves safety: another one may find more."
        ],
        heads=("Attack", "Excess risk", "Interval", "Bound"),
        rows=[
            (
                f"{about['attack'].replace('_', ' ')}: {o['subject']}",
                signed(o["excess"]),
                f"{signed(o['low'])} to {signed(o['high'])}",
                figure(about["bound"]),
            )
            for about in trials
            for o in about["outcomes"]
        ],
    )


def html_of(facts: Mapping[str, Any], opinion: str) -> bytes:
    """Return one page that loads nothing."""
    page = page_template("evidence.html.j2").render(facts=facts, sections=sections_of(facts, opinion))
    return page.encode()


def pdf_of(facts: Mapping[str, Any], opinion: str) -> bytes:
    """Return the evidence as a PDF, with equal bytes for equal facts.

    Raises:
        SpecError: If the extra `pdf` is not installed.
    """
    try:
        import matplotlib as mpl
        from fpdf import FPDF
    except ImportError:
        raise SpecError(
            "a PDF needs the extra `pdf`: pip install 'privacy-release[pdf]', or omit it with --no-pdf"
        ) from None
    fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"  # covers names and comments in many scripts
    document = FPDF(format="A4")
    document.set_creation_date(datetime.fromisoformat(facts["published"]))
    document.set_title(f"Evidence: {facts['table']}, release {facts['release']}")
    document.set_lang("en")
    for style, file in (("", "DejaVuSans.ttf"), ("B", "DejaVuSans-Bold.ttf")):
        document.add_font("text", style, fonts / file)
    document.set_margin(_MARGIN)
    document.set_auto_page_break(auto=True, margin=_MARGIN)
    document.add_page()
    document.set_font("text", "B", 20)
    document.multi_cell(0, 10, facts["table"], new_x="LMARGIN", new_y="NEXT")
    document.set_font("text", "", _TEXT)
    lead = (
        f"Evidence of release {facts['release']}, published {facts['published'][:10]}: {facts['guarantee']}."
    )
    document.multi_cell(0, 5, lead, align="L", new_x="LMARGIN", new_y="NEXT")
    scratch = deepcopy(document)  # one copy for all sections: it takes longer than writing most of them
    scratch.set_auto_page_break(auto=False, margin=_MARGIN)
    for section in sections_of(facts, opinion):
        scratch.set_y(document.y)
        _write(scratch, _beginning(section))
        if scratch.y > document.page_break_trigger:  # a heading stays with what follows it
            document.add_page()
        document.start_section(section.title)  # an entry of the viewers' outline
        _write(document, section)
    target = io.BytesIO()
    document.output(target)
    return target.getvalue()


def _beginning(section: Section) -> Section:
    """Return what must stay with a heading: the sentences and the first row, or a text's first lines."""
    if section.rows:
        return replace(section, rows=section.rows[:1])
    return replace(section, texts=[text[:_FIRST] for text in section.texts[:1]])


def _write(document: "FPDF", section: Section) -> None:
    from fpdf.fonts import FontFace

    document.ln(5)
    document.set_font("text", "B", _HEAD)
    document.multi_cell(0, 7, section.title, new_x="LMARGIN", new_y="NEXT")
    document.set_font("text", "", _TEXT)
    for text in section.texts:
        document.multi_cell(0, 5, text, align="L", new_x="LMARGIN", new_y="NEXT")
        document.ln(1)
    if not section.rows:
        return
    widths = {2: (1, 2), 3: (3, 2, 5), 4: (6, 1.3, 1.5, 1)}[len(section.heads)]
    with document.table(
        col_widths=widths,
        line_height=4.6,
        text_align="LEFT",
        headings_style=FontFace(emphasis="BOLD"),
        padding=1,
    ) as table:
        table.row(list(section.heads))
        for row in section.rows:
            table.row(list(row))


def _plain(value: object) -> str:
    return "none" if value is None else str(value)


def _limit(finding: Mapping[str, Any]) -> str:
    return "kept apart" if finding["threshold"] is None else limit_in_words(finding)


def _measured(finding: Mapping[str, Any]) -> str:
    applies = not str(finding.get("note") or "").startswith("Not applicable")
    return "kept apart" if finding["measured"] is None and applies else measured_in_words(finding)
