"""The report on a release: one HTML file that loads nothing and contains no individual record.

Its content comes from only three places: the release itself, aggregates over whole classes, and
public domains of the schema. Counts of the source are protected (`privacy_engine.measures.distributions`).
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from privacy_release.reports.data import MeasuredGuarantee, ReportData, ReportFacts
from privacy_release.reports.released import MOST_COLUMNS, SharesPart, drawing
from privacy_release.reports.synthetic import budget_lines
from privacy_release.reports.text import (
    FIGURES,
    FRAGMENT_EFFECTS,
    NOTES,
    NULLS,
    PSEUDONYM_LIMITS,
    RISKS,
    SHIFT_LIMIT,
    claim,
    figure,
    neighbours_in_words,
    promise_in_words,
    shown,
)
from privacy_release.workarea.references import ShiftRef

if TYPE_CHECKING:
    from privacy_engine.measures.distributions import Distribution

T = TypeVar("T")

# Placeholder for the section about attacks, which are tried after the report is made. No other text of the
# report can contain it, because `<` is escaped.
ATTACKS_PLACE = "<!-- attacks -->"
SIZE_BARS = 16
FOLDED = 8  # rules or columns; longer lists are folded


def with_notes_on_earlier(report: str, notes: Sequence[str]) -> str:
    """Add sentences to a report on the attackers with earlier releases that were considered.

    Args:
        report: Page from `render`.
        notes: Sentences from `notes_on_earlier`. If there are none, the page is unchanged.
    """
    if not notes:
        return report
    section = page_template("earlier_releases.html.j2").render(notes=notes)
    return report.replace(ATTACKS_PLACE, section + ATTACKS_PLACE, 1)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar with its label. ``share`` is its length as a share of the longest, 0 to 1."""

    label: str
    text: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Line:
    """A figure with its meaning."""

    label: str
    text: str
    meaning: str


def render(data: ReportData, facts: ReportFacts, *, title: str, attempts: Attempts | None = None) -> str:
    """Return the report as HTML.

    Args:
        data: Data of the release.
        facts: Further facts about the release and its source.
        title: Name of the release.
        attempts: Failures to make figures and drawings, which the page names.
    """
    attempts = attempts or Attempts()
    make, loss, utility = attempts.make, data.loss, {} if data.claims_loss else facts.figures
    budget, shifted = facts.budget, facts.shifted
    linkable = bool(data.schema.quasi_identifiers) and loss is None and data.randomized is None
    guarantees = [_guarantee(measured, of_persons=bool(data.schema.by)) for measured in data.guarantees]
    sizes = make("class sizes", partial(_class_sizes, data.class_sizes)) if linkable else None
    heat = None
    if data.association is not None and not data.invented:  # of invented records it would mean nothing
        heat = make("columns that go together", partial(drawing, data.association))
    return page_template("report.html.j2").render(
        title=title,
        release=data,
        summary=_summary(data, guarantees),
        source_rows=facts.source_rows,
        about=facts.about,
        parameters={name: _plain(value) for name, value in data.parameters.items()},
        tiles=_tiles(data, utility, facts),
        guarantees=guarantees,
        broken=sum(not g["holds"] for g in guarantees),
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
        notes=[
            Line(label=n.replace("_", " "), text=figure(v), meaning=NOTES.get(n, ""))
            for n, v in data.notes.items()
            if v
        ],
        limits=[
            *data.limits,
            *([NULLS] if linkable and _may_be_null(data) else []),
            *_pseudonym_limits(data),
            *([_shift_limit(shifted)] if shifted and not data.synthetic else []),
        ],
        fragments=data.fragments,
        effects=FRAGMENT_EFFECTS,
        utility=_lines(FIGURES, utility),
        risks=_lines(RISKS, facts.risk) if linkable else [],
        sizes=sizes or [],
        losses=[{"name": name, "lca": by_lca, "own": own} for name, by_lca, own in data.losses],
        distributions=make("before and after", partial(_each, _bars, data.distributions)) or [],
        shares=make("sensitive values within classes", partial(_each, _share_bars, data.shares)) or [],
        heat=heat,
        most_columns=MOST_COLUMNS,
        folded=FOLDED,
        smallest_count=facts.smallest_count,
        attacks_place=Markup(ATTACKS_PLACE),  # a constant
        left_out=attempts.left_out,
    )


def report_or_claims(report: Callable[[], str], claims: Claims, *, title: str, attempts: Attempts) -> str:
    """Make a report as HTML or, if that fails, a page with the claimed guarantees and the failures.

    Args:
        report: Function that makes the report.
        claims: Claims of the method about the release.
        title: Heading of the page.
        attempts: Failures to make figures, which the page names.
    """
    page = attempts.make("the report", report)
    if page is not None:
        return page
    return page_template("claims.html.j2").render(
        title=title,
        method=claims.method,
        claims=[claim(model) for model in claims.guarantees],
        loss=claims.loss,
        attacks_place=Markup(ATTACKS_PLACE),  # a constant
        left_out=attempts.left_out,
    )


def _each(draw: Callable[[T], dict[str, Any]], parts: Sequence[T]) -> list[dict[str, Any]]:
    return [draw(part) for part in parts]


def _pseudonym_limits(data: ReportData) -> list[tuple[str, str]]:
    """Return the limits of pseudonyms in the columns."""
    scopes = {a.pseudonym.scope.value for a in data.schema.attributes if a.pseudonym is not None}
    return [PSEUDONYM_LIMITS[scope] for scope in sorted(scopes)]


def _shift_limit(shifted: ShiftRef) -> tuple[str, str]:
    """Return the limits of shifted dates."""
    name, text = SHIFT_LIMIT
    return name.format(columns=", ".join(shifted.columns)), text.format(days=shifted.days)


def page_template(name: str) -> Template:
    """Return a page of the folder `templates`. Inserted text is escaped, and a missing value is an error."""
    return _pages().get_template(name)


@cache
def _pages() -> Environment:
    """Return the environment of the templates, made once per process, which caches compiled pages."""
    pages = Environment(
        loader=PackageLoader("privacy_release.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["figure"] = figure
    return pages


def _summary(data: ReportData, guarantees: Sequence[Mapping[str, Any]]) -> str:
    """Return the verdict on a release that keeps all of its rules, in one sentence."""
    if data.invented:
        return "All records are invented: the file shows the columns of a release and nothing about people."
    if guarantees:
        names = list(dict.fromkeys(g["claim"].model for g in guarantees))
        held = f"The guarantee of {names[0]} holds" if len(names) == 1 else f"{_listed(names)} hold"
        return f"{held} on the released records."
    if not data.claims_loss and data.randomized is not None:
        return "Values were randomized, but no guarantee covers a whole record."
    if data.loss is None:
        return "The method claims no privacy guarantee for this table."
    limit = f"epsilon {figure(data.loss.epsilon)}"
    if data.randomized is not None:
        return f"The values were randomized one by one, with a privacy loss of at most {limit} per record."
    return f"The release is differentially private, with a privacy loss of at most {limit}."


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _may_be_null(data: ReportData) -> bool:
    return any(attribute.nullable for attribute in data.schema.quasi_identifiers)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _lines(known: Mapping[str, tuple[str, str, str]], figures: Mapping[str, float]) -> list[Line]:
    """Return the known figures that were measured, in the order of ``known``."""
    return [
        Line(label=label, text=shown(figures[name], unit), meaning=meaning)
        for name, (label, unit, meaning) in known.items()
        if name in figures
    ]


def _tiles(release: ReportData, figures: Mapping[str, float], facts: ReportFacts) -> list[Line]:
    """Return the figures at the top of the page. `figures` are those of the facts that may be shown."""
    risk, budget = facts.risk, budget_lines(facts.budget)
    of_source = "" if release.claims_loss else f"of {facts.source_rows:,} in the source"
    invented = release.synthetic or release.invented
    tiles = [
        Line(
            label="Records released",
            text=f"{release.rows:,}",
            meaning="none of them belongs to a person" if invented else of_source,
        ),
    ]
    if "suppressed_records" in figures:
        share = shown(figures.get("suppressed", 0.0), "share")
        count = f"{figures['suppressed_records']:,.0f}"
        tiles.append(Line(label="Suppressed", text=count, meaning=f"{share} of the source"))
    if release.loss is not None:
        delta = f"privacy loss; delta {figure(release.loss.delta)}"
        meaning = "no record was read" if release.invented else delta
        tiles.append(Line(label="Epsilon", text=figure(release.loss.epsilon), meaning=meaning))
        if budget:
            least = min(budget, key=lambda line: line.left)
            meaning = f"of epsilon {figure(least.limit)}, {least.period}"
            tiles.append(Line(label="Budget left", text=figure(least.left), meaning=meaning))
    elif "smallest_class" in risk:
        noun = "persons who" if release.schema.by else "records that"
        classes = counted(round(risk["classes"]), "class", "classes")
        tiles += [
            Line(
                label="Smallest class",
                text=f"{risk['smallest_class']:,.0f}",
                meaning=f"{noun} look alike; {classes} in all",
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
                meaning="of the detail in quasi-identifiers",
            )
        )
    return tiles


def _guarantee(measured: MeasuredGuarantee, *, of_persons: bool) -> dict[str, Any]:
    """Return a claimed guarantee in words, with the number measured on the released records."""
    model = measured.model
    return {
        "claim": claim(model_to_dict(model), of_persons=of_persons),
        "required": f"{'at least' if model.at_least else 'at most'} {figure(model.threshold)}",
        "measured": figure(measured.number),
        "holds": measured.holds,
    }


def _class_sizes(classes_by_size: Mapping[int, int]) -> list[Bar]:
    """Return bars of classes by size. Bins double if sizes differ much, since few classes are much larger."""
    if not classes_by_size:
        return []
    sizes, classes = np.array([*classes_by_size.items()]).T
    low, high = min(classes_by_size), max(classes_by_size)
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
    """Return classes by the share of their most frequent sensitive value."""
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


def _bars(shown_counts: "Distribution | Withheld") -> dict[str, Any]:
    """Return a quasi-identifier before and after, as lengths and texts of bars."""
    if isinstance(shown_counts, Withheld):
        return {"name": shown_counts.attribute, "reason": shown_counts.reason}
    longest = max(*(b or 0 for b in shown_counts.before), *shown_counts.after, 1.0)
    rows = [
        {
            "label": group,
            "before": None if before is None else f"{before:,}",
            "after": f"{after:,.0f}",
            "before_share": (before or 0) / longest,
            "after_share": after / longest,
        }
        for group, before, after in zip(
            shown_counts.groups, shown_counts.before, shown_counts.after, strict=True
        )
    ]
    hidden = any(before is None for before in shown_counts.before)
    return {
        "name": shown_counts.attribute,
        "reason": None,
        "ordered": shown_counts.ordered,
        "rows": rows,
        "hidden": hidden,
    }
