"""The report on a release: one HTML file that loads nothing and holds no record of anybody.

What it tells comes from three places only: the release itself, aggregates over whole classes, and
public domains of the schema. Counts of the source are protected (`privacy_engine.distributions`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from operators.report_randomized import randomized_part
from operators.report_synthetic import BudgetLine, budget_lines, mechanisms_of, network_of, own_marginals
from operators.report_text import (
    FIGURES,
    LIMITS,
    NEIGHBOURS,
    NOTES,
    PRIVATE_LIMITS,
    RANDOMIZED_LIMITS,
    RISKS,
    SYNTHETIC_LIMITS,
    claim,
    shown,
)

if TYPE_CHECKING:  # the engine imports pandas and compiles kernels: only where a report is made
    from privacy_engine.classes import EquivalenceClasses
    from privacy_engine.release import Release

SMALLEST_COUNT = 10  # for releases that claim no k
SIZE_BARS = 16


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
) -> str:
    """The report as HTML.

    Args:
        release: what was made; its table is read only for class sizes and the claimed models.
        figures: of ``privacy_engine.utility.figures``; empty where there is no recoding. Not told of a
            differentially private release: they are exact numbers of the source, which void its guarantee.
        risk: of ``privacy_engine.risk.figures``.
        title: name of the release, for people.
        source_rows: records that the method was given.
        findings: of the verification (``Report.to_dict()["findings"]``), where it has taken place.
        about: further facts for the head, such as the release id; label -> text.
        smallest_count: counts of the source below it are hidden, others rounded to its multiples;
            by default the k that the release claims, else 10.
        budget: what the release's data set has spent, this release included: ``dataset``, and ``limits``, a
            list of ``period`` (in words), ``limit``, ``spent`` and ``left`` (epsilons).

    Raises:
        ValueError: if smallest_count is below 2.
    """
    from privacy_engine.classes import EquivalenceClasses

    classes = EquivalenceClasses.of_table(release.table, release.schema)
    randomized = randomized_part(release)
    linkable = bool(release.schema.quasi_identifiers) and release.loss is None and randomized is None
    least = smallest_count if smallest_count is not None else _claimed_k(release)
    guarantees = _guarantees(release, classes)
    told = figures if release.loss is None else {}
    return page_template("report.html.j2").render(
        title=title,
        release=release,
        source_rows=source_rows,
        about=about or {},
        parameters={name: _plain(value) for name, value in release.parameters.items()},
        tiles=_tiles(release, told, risk, source_rows, budget_lines(budget)),
        guarantees=guarantees,
        findings=findings,
        broken=sum(not g["holds"] for g in guarantees) + sum(not f["passed"] for f in findings or ()),
        loss=release.loss,
        factor=f"{math.exp(release.loss.epsilon):,.3g}" if release.loss else "",
        synthetic=release.model is not None,
        randomized=randomized,
        network=network_of(release),
        mechanisms=mechanisms_of(release),
        dataset=(budget or {}).get("dataset"),
        budget=budget_lines(budget),
        marginals=own_marginals(release),
        neighbours=NEIGHBOURS.get(release.loss.neighbours.value, "") if release.loss else "",
        notes=[
            Line(label=n, text=f"{v:.4g}", meaning=NOTES.get(n, "")) for n, v in release.notes.items() if v
        ],
        limits=_limits(release),
        utility=_lines(FIGURES, told),
        risks=_lines(RISKS, risk) if linkable else [],
        sizes=_class_sizes(classes) if linkable else [],
        losses=_losses(release) if release.loss is None else [],
        distributions=_distributions(release, least) if release.loss is None else [],
        smallest_count=least,
    )


def page_template(name: str) -> Template:
    """A page of `operators/templates`; what is filled in is escaped, and a missing value is an error."""
    environment = Environment(
        loader=PackageLoader("operators", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _limits(release: "Release") -> tuple[tuple[str, str], ...]:
    if release.model is not None:
        return SYNTHETIC_LIMITS
    if getattr(release, "randomization", None) is not None:
        return RANDOMIZED_LIMITS
    return LIMITS if release.loss is None else PRIVATE_LIMITS


def _claimed_k(release: "Release") -> int:
    claimed = [int(k) for model in release.guarantees if (k := getattr(model, "k", None)) is not None]
    return max(claimed, default=SMALLEST_COUNT)


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
    release: "Release",
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
            text=f"{len(release.table):,}",
            meaning="none of them a person's" if release.model else of_source,
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
        tiles += [
            Line(
                label="Smallest class",
                text=f"{risk['smallest_class']:,.0f}",
                meaning=f"records; {risk['classes']:,.0f} classes",
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


def _guarantees(release: "Release", classes: "EquivalenceClasses") -> list[dict[str, Any]]:
    """What is claimed, in words, and what the released records measure."""
    from privacy_engine.models import holds, model_to_dict

    return [
        {
            "claim": claim(model_to_dict(model)),
            "required": f"{'at least' if model.at_least else 'at most'} {model.threshold:.6g}",
            "measured": f"{model.measure(classes):.4g}",
            "holds": holds(model, classes),
        }
        for model in release.guarantees
    ]


def _class_sizes(classes: "EquivalenceClasses") -> list[Bar]:
    """Classes by size; bins double where sizes differ much, since few classes are much larger than k."""
    import numpy as np

    if not len(classes):
        return []
    low, high = int(classes.sizes.min()), int(classes.sizes.max())
    firsts = [low]
    while firsts[-1] <= high:
        doubled = high >= low * 4
        step = firsts[-1] if doubled else max(1, -(-(high - low + 1) // SIZE_BARS))
        firsts.append(firsts[-1] + step)
    counts = np.histogram(classes.sizes, bins=firsts)[0]
    records = np.histogram(classes.sizes, bins=firsts, weights=classes.sizes)[0]
    return [
        Bar(
            label=f"{a:,}" if b - a == 1 else f"{a:,} to {b - 1:,}",
            text=f"{count:,} classes, {held:,.0f} records",
            share=count / counts.max(),
        )
        for a, b, count, held in zip(firsts[:-1], firsts[1:], counts, records, strict=True)
    ]


def _losses(release: "Release") -> list[dict[str, Any]]:
    """Mean loss of each quasi-identifier, both ways of charging."""
    if release.recoding is None:
        return []
    from privacy_engine.utility import Charge, ncp

    names = release.recoding.encoded.quasi_identifiers
    by_lca, own = ncp(release.recoding, Charge.LCA), ncp(release.recoding, Charge.OWN)
    return [
        {"name": name, "lca": float(a), "own": float(b)}
        for name, a, b in zip(names, by_lca, own, strict=True)
    ]


def _distributions(release: "Release", smallest_count: int) -> list[dict[str, Any]]:
    """Before and after of each quasi-identifier, as lengths and texts of bars."""
    if release.recoding is None:
        return []
    from privacy_engine.distributions import Withheld, distributions

    found: list[dict[str, Any]] = []
    for d in distributions(release.recoding, smallest_count):
        if isinstance(d, Withheld):
            found.append({"name": d.attribute, "reason": d.reason})
            continue
        longest = max(*(b or 0 for b in d.before), *d.after, 1.0)
        rows = [
            {
                "label": group,
                "before": None if before is None else f"{before:,}",
                "after": f"{after:,.0f}",
                "before_share": (before or 0) / longest,
                "after_share": after / longest,
            }
            for group, before, after in zip(d.groups, d.before, d.after, strict=True)
        ]
        hidden = any(before is None for before in d.before)
        found.append(
            {"name": d.attribute, "reason": None, "ordered": d.ordered, "rows": rows, "hidden": hidden}
        )
    return found
