"""The report on a release: one HTML file that loads nothing and holds no record of anybody.

What it tells comes from three places only: the release itself, aggregates over whole classes, and
public domains of the schema. Counts of the source are protected (`privacy_engine.measures.distributions`).
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from privacy_engine.measures.distributions import Withheld
from privacy_engine.verification.models import model_to_dict
from privacy_engine.vocabulary import counted
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.data import SMALLEST_COUNT, Measured, ReportData, claimed_k, data_of_release
from privacy_release.reports.released import MOST_COLUMNS, SharesPart, drawing
from privacy_release.reports.synthetic import BudgetLine, budget_lines
from privacy_release.reports.text import (
    FIGURES,
    FRAGMENT_EFFECTS,
    NOTES,
    NULLS,
    PSEUDONYM_LIMITS,
    RISKS,
    SHIFT_LIMIT,
    claim,
    neighbours_in_words,
    promise_in_words,
    shown,
)
from privacy_release.workarea.references import ShiftRef

if TYPE_CHECKING:
    from privacy_engine.measures.distributions import Distribution
    from privacy_engine.release import Release

__all__ = ["SMALLEST_COUNT", "page_template", "render", "render_report"]

T = TypeVar("T")

# Where a published report tells of attacks, which are tried after it is made. No text of others makes it: `<`
# is escaped in that.
ATTACKS_PLACE = "<!-- attacks -->"
SIZE_BARS = 16
FOLDED = 8  # rules or columns; longer lists are folded


def with_over_time(report: str, notes: Sequence[str]) -> str:
    """A report with sentences on which attackers with the earlier releases were judged.

    Args:
        report: Page of `render_report`.
        notes: As `notes_over_time` gives them; none: the page as it is.
    """
    if not notes:
        return report
    section = page_template("over_time.html.j2").render(notes=notes)
    return report.replace(ATTACKS_PLACE, section + ATTACKS_PLACE, 1)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar with its label; ``share`` of the longest is its length, 0 .. 1."""

    label: str
    text: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Line:
    """A figure with its meaning."""

    label: str
    text: str
    meaning: str


def render_report(
    release: "Release",
    figures: Mapping[str, float],
    risk: Mapping[str, float],
    *,
    title: str,
    source_rows: int,
    findings: Sequence[Mapping[str, Any]] | None = None,
    about: Mapping[str, str] | None = None,
    smallest_count: int | None = None,
    budget: Mapping[str, Any] | None = None,
    rows: int | None = None,
    shifted: ShiftRef | None = None,
    attempts: Attempts | None = None,
) -> str:
    """The report as HTML, on a release whose table is at hand; `render` is for any other.

    Args:
        release: what was made; its table is read only for class sizes and the claimed models.
        figures: of ``privacy_engine.measures.utility.figures``, see `render`.
        risk: of ``privacy_engine.measures.risk.figures``.
        title: see `render`, and so the next three.
        source_rows: records that the method was given.
        findings: of the verification.
        about: further facts for the head.
        budget: what the release's data set has spent.
        rows: of the release, where its table is only the first of them.
        shifted: which dates of the source were shifted.
        smallest_count: counts of the source below it are hidden, others rounded to its multiples;
            by default the k that the release claims, else 10.
        attempts: Makes the figures; those that fail are named on the page.

    Raises:
        ValueError: if smallest_count is below 2.
    """
    least = smallest_count if smallest_count is not None else claimed_k(release.guarantees)
    attempts = attempts or Attempts()
    data = data_of_release(release, least, attempts)
    return render(
        data if rows is None else replace(data, rows=rows),
        figures,
        risk,
        title=title,
        source_rows=source_rows,
        smallest_count=least,
        findings=findings,
        about=about,
        budget=budget,
        shifted=shifted,
        attempts=attempts,
    )


def render(
    data: ReportData,
    figures: Mapping[str, float],
    risk: Mapping[str, float],
    *,
    title: str,
    source_rows: int,
    smallest_count: int,
    findings: Sequence[Mapping[str, Any]] | None = None,
    about: Mapping[str, str] | None = None,
    budget: Mapping[str, Any] | None = None,
    shifted: ShiftRef | None = None,
    attempts: Attempts | None = None,
) -> str:
    """The report as HTML.

    Args:
        data: what is told of the release.
        figures: of ``privacy_engine.measures.utility.figures``; empty where there is no recoding. Not told of
            a differentially private release: they are exact numbers of the source, which void its guarantee.
        risk: of ``privacy_engine.measures.risk.figures``.
        title: name of the release, for people.
        source_rows: records that the method was given.
        smallest_count: counts of the source below it are hidden in the distributions.
        findings: of the verification (``Report.to_dict()["findings"]``), where it has taken place.
        about: further facts for the head, such as the release id; label -> text.
        budget: what the release's data set has spent, this release included: ``dataset``, and ``limits``, a
            list of ``period`` (in words), ``limit``, ``spent`` and ``left`` (epsilons).
        shifted: which dates of the source were shifted.
        attempts: Makes the drawings. The page also names the figures that failed in it before.
    """
    attempts = attempts or Attempts()
    make, loss, told = attempts.make, data.loss, figures if data.loss is None else {}
    linkable = bool(data.schema.quasi_identifiers) and loss is None and data.randomized is None
    guarantees = [_guarantee(measured, of_persons=bool(data.schema.by)) for measured in data.guarantees]
    sizes = make("class sizes", partial(_class_sizes, data.class_sizes)) if linkable else None
    heat = None
    if data.association is not None:
        heat = make("columns that go together", partial(drawing, data.association))
    return page_template("report.html.j2").render(
        title=title,
        release=data,
        source_rows=source_rows,
        about=about or {},
        parameters={name: _plain(value) for name, value in data.parameters.items()},
        tiles=_tiles(data, told, risk, source_rows, budget_lines(budget)),
        guarantees=guarantees,
        findings=findings,
        broken=sum(not g["holds"] for g in guarantees) + sum(not f["passed"] for f in findings or ()),
        loss=loss,
        factor=f"{math.exp(loss.epsilon):,.3g}" if loss else "",
        synthetic=data.synthetic,
        randomized=data.randomized,
        network=data.network,
        mechanisms=data.mechanisms,
        dataset=(budget or {}).get("dataset"),
        budget=budget_lines(budget),
        marginals=data.marginals,
        neighbours=neighbours_in_words(loss.neighbours.value, participants=data.participants) if loss else "",
        participants=data.participants,
        promise=promise_in_words(promise) if (promise := (budget or {}).get("promise")) else None,
        notes=[Line(label=n, text=f"{v:.4g}", meaning=NOTES.get(n, "")) for n, v in data.notes.items() if v],
        limits=[
            *data.limits,
            *([NULLS] if linkable and _may_be_null(data) else []),
            *_pseudonym_limits(data),
            *([_shift_limit(shifted)] if shifted and not data.synthetic else []),
        ],
        fragments=data.fragments,
        effects=FRAGMENT_EFFECTS,
        utility=_lines(FIGURES, told),
        risks=_lines(RISKS, risk) if linkable else [],
        sizes=sizes or [],
        losses=[{"name": name, "lca": by_lca, "own": own} for name, by_lca, own in data.losses],
        distributions=make("before and after", partial(_each, _bars, data.distributions)) or [],
        shares=make("sensitive values within classes", partial(_each, _share_bars, data.shares)) or [],
        heat=heat,
        most_columns=MOST_COLUMNS,
        folded=FOLDED,
        smallest_count=smallest_count,
        attacks_place=Markup(ATTACKS_PLACE),  # no text of others
        left_out=attempts.left_out,
    )


def report_or_claims(report: Callable[[], str], claims: Claims, *, title: str, attempts: Attempts) -> str:
    """Make a report as HTML or, if that fails, a page with the claimed guarantees and what is missing.

    Args:
        report: Function that makes the report.
        claims: What the method says of the release.
        title: Heading of the page.
        attempts: Makes the report; the page names the figures that failed in it before.
    """
    page = attempts.make("the report", report)
    if page is not None:
        return page
    return page_template("claims.html.j2").render(
        title=title,
        method=claims.method,
        claims=[claim(model) for model in claims.guarantees],
        loss=claims.loss,
        attacks_place=Markup(ATTACKS_PLACE),  # no text of others
        left_out=attempts.left_out,
    )


def _each(draw: Callable[[T], dict[str, Any]], parts: Sequence[T]) -> list[dict[str, Any]]:
    return [draw(part) for part in parts]


def _pseudonym_limits(data: ReportData) -> list[tuple[str, str]]:
    """What pseudonyms among the columns do not promise."""
    scopes = {a.pseudonym.scope.value for a in data.schema.attributes if a.pseudonym is not None}
    return [PSEUDONYM_LIMITS[scope] for scope in sorted(scopes)]


def _shift_limit(shifted: ShiftRef) -> tuple[str, str]:
    """What the shift of dates does not promise."""
    name, text = SHIFT_LIMIT
    return name.format(columns=", ".join(shifted.columns)), text.format(days=shifted.days)


def page_template(name: str) -> Template:
    """A page of the folder `templates`; what is filled in is escaped, and a missing value is an error."""
    return _pages().get_template(name)


@cache
def _pages() -> Environment:
    """The folder of pages, once in a process: it keeps each page that it has compiled."""
    return Environment(
        loader=PackageLoader("privacy_release.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _may_be_null(data: ReportData) -> bool:
    return any(attribute.nullable for attribute in data.schema.quasi_identifiers)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _lines(known: Mapping[str, tuple[str, str, str]], figures: Mapping[str, float]) -> list[Line]:
    """The known figures that were measured, in the order of ``known``."""
    return [
        Line(label=label, text=shown(figures[name], unit), meaning=meaning)
        for name, (label, unit, meaning) in known.items()
        if name in figures
    ]


def _tiles(
    release: ReportData,
    figures: Mapping[str, float],
    risk: Mapping[str, float],
    source_rows: int,
    budget: Sequence[BudgetLine],
) -> list[Line]:
    """The headline: what most readers came for."""
    of_source = f"of {source_rows:,} in the source" if release.loss is None else ""
    tiles = [
        Line(
            label="Records released",
            text=f"{release.rows:,}",
            meaning="none of them a person's" if release.synthetic else of_source,
        ),
    ]
    if "suppressed_records" in figures:
        share = shown(figures.get("suppressed", 0.0), "share")
        count = f"{figures['suppressed_records']:,.0f}"
        tiles.append(Line(label="Suppressed", text=count, meaning=f"{share} of the source"))
    if release.loss is not None:
        delta = f"delta {release.loss.delta:g}"
        tiles.append(Line(label="Epsilon", text=f"{release.loss.epsilon:g}", meaning=delta))
        if budget:
            least = min(budget, key=lambda line: line.left)
            meaning = f"of {least.limit:.4g}, {least.period}"
            tiles.append(Line(label="Budget left", text=f"{least.left:.4g}", meaning=meaning))
    elif "smallest_class" in risk:
        counted = "persons" if release.schema.by else "records"
        tiles += [
            Line(
                label="Smallest class",
                text=f"{risk['smallest_class']:,.0f}",
                meaning=f"{counted}; {risk['classes']:,.0f} classes",
            ),
            Line(
                label="Highest risk",
                text=f"1 in {1 / risk['prosecutor_max']:,.0f}" if risk["prosecutor_max"] else "none",
                meaning="of linking a record to its person",
            ),
        ]
    if "gcp" in figures:
        tiles.append(
            Line(
                label="Information lost",
                text=shown(figures["gcp"], "share"),
                meaning="GCP, by common ancestor",
            )
        )
    return tiles


def _guarantee(measured: Measured, *, of_persons: bool) -> dict[str, Any]:
    """What is claimed, in words, and what the released records measure."""
    model = measured.model
    return {
        "claim": claim(model_to_dict(model), of_persons=of_persons),
        "required": f"{'at least' if model.at_least else 'at most'} {model.threshold:.6g}",
        "measured": f"{measured.number:.4g}",
        "holds": measured.holds,
    }


def _class_sizes(told: Mapping[int, int]) -> list[Bar]:
    """Classes by size; bins double where sizes differ much, since few classes are much larger than k."""
    if not told:
        return []
    sizes, classes = np.array([*told.items()]).T
    low, high = min(told), max(told)
    firsts = [low]
    while firsts[-1] <= high:
        doubled = high >= low * 4
        step = firsts[-1] if doubled else max(1, -(-(high - low + 1) // SIZE_BARS))
        firsts.append(firsts[-1] + step)
    counts = np.histogram(sizes, bins=firsts, weights=classes)[0]
    records = np.histogram(sizes, bins=firsts, weights=sizes * classes)[0]
    return [
        Bar(
            label=f"{a:,}" if b - a == 1 else f"{a:,} to {b - 1:,}",
            text=f"{counted(int(count), 'class', 'classes')}, {counted(round(held), 'record')}",
            share=count / counts.max(),
        )
        for a, b, count, held in zip(firsts[:-1], firsts[1:], counts, records, strict=True)
    ]


def _share_bars(part: SharesPart) -> dict[str, Any]:
    """Classes by the share of their most frequent sensitive value."""
    width, most = 100 // len(part.classes), max(part.classes)
    bars = [
        Bar(
            label=f"{i * width} to {(i + 1) * width} %",
            text=f"{counted(classes, 'class', 'classes')}, {counted(records, 'record')}",
            share=classes / most,
        )
        for i, (classes, records) in enumerate(zip(part.classes, part.records, strict=True))
    ]
    first = next(i for i, classes in enumerate(part.classes) if classes)
    last = max(i for i, classes in enumerate(part.classes) if classes)
    return {
        "name": part.name,
        "overall": shown(part.overall, "share"),
        "alike": f"{part.alike:,}",
        "bars": bars[first : last + 1],
    }


def _bars(told: "Distribution | Withheld") -> dict[str, Any]:
    """Before and after of a quasi-identifier, as lengths and texts of bars."""
    if isinstance(told, Withheld):
        return {"name": told.attribute, "reason": told.reason}
    longest = max(*(b or 0 for b in told.before), *told.after, 1.0)
    rows = [
        {
            "label": group,
            "before": None if before is None else f"{before:,}",
            "after": f"{after:,.0f}",
            "before_share": (before or 0) / longest,
            "after_share": after / longest,
        }
        for group, before, after in zip(told.groups, told.before, told.after, strict=True)
    ]
    hidden = any(before is None for before in told.before)
    return {"name": told.attribute, "reason": None, "ordered": told.ordered, "rows": rows, "hidden": hidden}
