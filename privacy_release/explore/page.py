"""The page of a grid: risk against loss, the limits of the policy, and each choice before and after.

It is one file that loads and runs nothing: a radio button selects the choice, and style sheets show it. Its
figures are exact figures of the explored records, so it stays where those may be seen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privacy_release.explore.cells import MeasuredChoice
from privacy_release.reports.charts import Scale, Tick, percent_ticks
from privacy_release.reports.release import page_template
from privacy_release.workarea.references import RecordsRef

# Figure of each axis, its description, and its limits in a policy.
RISK, EPSILON = "prosecutor_max", "epsilon"
LOSS, DISTANCE = "gcp", "marginals_2"
FIGURES: Mapping[str, tuple[str, str]] = {
    "epsilon": ("Epsilon", "how much a release may reveal about one person; less is safer"),
    "prosecutor_max": ("Highest risk", "chance to pick the right record of the most exposed person"),
    "journalist_max": ("Journalist's risk", "the same if it is not known that the person is in the table"),
    "prosecutor_mean": ("Mean risk", "for the average record"),
    "marketer": ("Marketer's risk", "share of the records that are linked correctly"),
    "gcp": ("Information lost (GCP)", "mean share of its domain that a cell lost"),
    "non_uniform_entropy": ("Entropy lost (NUE)", "mean share of a cell's information that was lost"),
    "suppressed": ("Suppressed", "share of the records that are omitted"),
    "query_error": ("Query error", "median relative error of counting queries"),
    "marginals_1": ("One-way marginals", "mean distance of the distributions of one column"),
    "marginals_2": ("Two-way marginals", "for two columns together"),
    "accuracy": ("Classifier, release", "right answers on held-out records, learned from the release"),
    "accuracy_source": ("Classifier, original", "the same, learned from the original records"),
    "accuracy_majority": ("Most frequent value", "right answers if it is always chosen"),
}
IN_TABLE = ("epsilon", "prosecutor_max", "prosecutor_mean", "gcp", "non_uniform_entropy", "suppressed")
ERRORS = ("query_error", "marginals_1", "marginals_2", "accuracy")
ORIGINS: Mapping[str, str] = {
    "source": "a random sample of the source's records",
    "public": "a public table in place of the source, as exploring a private method spends privacy",
    "simulated": "simulated records, each value drawn independently and evenly from the schema's public "
    "domains, as exploring a private method on people spends privacy; they lack relations between values, "
    "so the loss on the source may differ much",
    "booked": "the source itself: the epsilon of every choice is booked in the ledger",
}


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of the plot: its title, the values along it, and ticks in percent."""

    text: str
    scale: Scale
    ticks: Sequence[Tick]

    def place(self, value: float) -> float:
        """Return the position of a value in percent."""
        return 100 * self.scale.share(value)


def frontier(cells: Sequence[MeasuredChoice], figures: tuple[str, str] | None = None) -> list[MeasuredChoice]:
    """Return the choices that no other choice beats in both risk and loss, least risk first.

    Args:
        cells: Measured choices. Failed ones are ignored.
        figures: Names of the figures of risk and loss. None: as the cells have them.
    """
    risk, loss = figures or axes_of(cells)
    found: list[MeasuredChoice] = []
    placed = [c for c in cells if risk in c["figures"] and loss in c["figures"]]
    for cell in sorted(placed, key=lambda c: (c["figures"][risk], c["figures"][loss])):
        if not found or cell["figures"][loss] < found[-1]["figures"][loss]:
            found.append(cell)
    return found


def axes_of(cells: Sequence[MeasuredChoice]) -> tuple[str, str]:
    """Return the names of the figures of risk and of loss."""
    private = any("epsilon" in cell["figures"] for cell in cells)
    return (EPSILON, DISTANCE) if private else (RISK, LOSS)


def best(cells: Sequence[MeasuredChoice]) -> MeasuredChoice | None:
    """Return the choice to show first: least loss among those that meet the policy, or on the frontier."""
    edge = frontier(cells)
    _, loss = axes_of(cells)
    kept = [cell for cell in edge if not cell["missed"]]
    kept = kept or [c for c in cells if c["figures"] and not c["missed"]] or edge
    return min(kept, key=lambda cell: cell["figures"][loss], default=None)


def render(
    cells: Sequence[MeasuredChoice],
    records: RecordsRef,
    *,
    title: str,
    file: str,
    yaml_of: Callable[[MeasuredChoice], tuple[str, str]],
) -> str:
    """Return the page as HTML.

    Args:
        cells: Measured choices, in the order of the grid.
        records: Records that they were measured on.
        title: Name of the release.
        file: Path of the specification, as the command takes it.
        yaml_of: Function that returns the line `release` of a choice, and the whole file with it.
    """
    made = [cell for cell in cells if cell["failed"] is None]
    risk, loss = axes_of(made)
    edge, first = {cell["name"] for cell in frontier(made)}, best(made)
    plots = [_plot(made, risk, loss, records, edge)]
    if risk == RISK:
        plots.append(_plot(made, risk, "query_error", records, set()))
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    return page_template("explore.html.j2").render(
        title=title,
        file=file,
        origin=ORIGINS[records.origin],
        private=records.origin in ("source", "booked"),
        records=records,
        rules=_rules(records.policy),
        methods=methods,
        number_of={method: i for i, method in enumerate(methods)},
        cells=[_choice(cell, i, edge, yaml_of) for i, cell in enumerate(made)],
        shown=first["name"] if first else None,
        failed=[cell for cell in cells if cell["failed"] is not None],
        plots=[plot for plot in plots if plot is not None],
        columns=[
            (name, FIGURES[name][0])
            for name in (*IN_TABLE, *ERRORS)
            if any(name in cell["figures"] for cell in made)
        ],
        learned=next((cell["figures"] for cell in made if "accuracy" in cell["figures"]), None),
    )


def _rules(policy: Mapping[str, Any]) -> list[str]:
    """Return the policy in short."""
    models = [
        ", ".join(f"{name} {value}" for name, value in model.items() if name != "model") or model["model"]
        for model in policy.get("require", ())
    ]
    limits = [f"{name} {value:g}" for name, value in policy.items() if name.startswith("max_")]
    return [*models, *limits]


def _choice(
    cell: MeasuredChoice, number: int, edge: set[str], yaml_of: Callable[[MeasuredChoice], tuple[str, str]]
) -> dict[str, Any]:
    line, whole = yaml_of(cell)
    return {
        **cell,
        "id": number,
        "unbeaten": cell["name"] in edge,
        "line": line,
        "whole": whole,
        "lines": [
            (label, meaning, number_text(name, cell["figures"][name]))
            for name, (label, meaning) in FIGURES.items()
            if name in cell["figures"]
        ],
        "texts": {name: number_text(name, value) for name, value in cell["figures"].items()},
        "bars": [_bars(column) for column in cell["columns"]],
    }


def number_text(name: str, value: float) -> str:
    """Format a figure: shares in percent, epsilon unchanged."""
    return f"{value:.4g}" if name == "epsilon" else f"{100 * value:.3g} %"


def _bars(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return lengths of bars in percent of the longest."""
    longest = max([1, *(count or 0 for count in (*column["before"], *column["after"]))])
    rows = [
        {
            "label": group,
            "before": None if before is None else f"{before:,}",
            "after": None if after is None else f"{after:,}",
            "before_width": round(100 * (before or 0) / longest, 1),
            "after_width": round(100 * (after or 0) / longest, 1),
        }
        for group, before, after in zip(column["groups"], column["before"], column["after"], strict=True)
    ]
    return {"name": column["name"], "reason": column["reason"], "rows": rows}


def _plot(
    cells: Sequence[MeasuredChoice], risk: str, loss: str, records: RecordsRef, edge: set[str]
) -> dict[str, Any] | None:
    """Return positions in percent of the plot's area, from its upper left. None if there are none."""
    placed = [
        (i, cell) for i, cell in enumerate(cells) if risk in cell["figures"] and loss in cell["figures"]
    ]
    if not placed:
        return None
    limits = _limits(records.policy, risk, loss)
    x = _log_axis(risk, [cell["figures"][risk] for _, cell in placed], limits[0])
    y = _axis(loss, [cell["figures"][loss] for _, cell in placed])
    points: list[dict[str, Any]] = [
        {
            "id": i,
            "name": cell["name"],
            "method": cell["method"],
            "x": round(x.place(max(cell["figures"][risk], 1e-9)), 2),
            "y": round(100 - y.place(cell["figures"][loss]), 2),
            "kept": not cell["missed"],
            "unbeaten": cell["name"] in edge,
            "text": f"{cell['name']}: {x.text} {number_text(risk, cell['figures'][risk])}, "
            f"{y.text} {number_text(loss, cell['figures'][loss])}, policy "
            + ("kept" if not cell["missed"] else "not kept"),
        }
        for i, cell in placed
    ]
    line = sorted((p for p in points if p["unbeaten"]), key=lambda p: p["x"])
    right = 100.0 if limits[0] is None else min(max(x.place(limits[0]), 0.0), 100.0)
    top = 0.0 if limits[1] is None else min(max(100 - y.place(limits[1]), 0.0), 100.0)
    allowed = None if limits == (None, None) else {"width": round(right, 2), "top": round(top, 2)}
    return {
        "kind": loss,
        "x": x,
        "y": y,
        "points": points,
        "frontier": " ".join(f"{p['x']},{p['y']}" for p in line),
        "allowed": allowed,
    }


def _limits(policy: Mapping[str, Any], risk: str, loss: str) -> tuple[float | None, float | None]:
    """Return the largest risk and the largest loss that a policy allows. None: any."""
    ks = [m["k"] for m in policy.get("require", ()) if m.get("model") == "k_anonymity"]
    most = policy.get("max_epsilon") if risk == EPSILON else (1 / max(ks) if ks else None)
    return most, policy.get("max_gcp") if loss == LOSS else None


def _log_axis(figure: str, values: Sequence[float], limit: float | None) -> Axis:
    """Return a logarithmic axis for risks. Ticks are the policy's limit, then the ends, then what fits."""
    known = sorted({float(f"{value:.3g}") for value in (*values, limit or 0.0) if value > 0})
    scale = Scale(low=known[0] / 1.25, high=known[-1] * 1.25, log=True)
    ticks: list[Tick] = []
    for mark in (*([limit] if limit else []), known[0], known[-1], *known):
        at = 100 * scale.share(mark)
        apart = min((abs(at - tick.at) for tick in ticks), default=100.0)
        if apart >= 12:
            text = f"{mark:g}" if figure == EPSILON else f"1 in {1 / mark:,.0f}"
            ticks.append(Tick(at=round(at, 2), text=text, close=apart < 25))
    return Axis(text=FIGURES[figure][0], scale=scale, ticks=ticks)


def _axis(figure: str, values: Sequence[float]) -> Axis:
    marks = percent_ticks(0.0, max(1.04 * max(values), 1e-6))
    scale = Scale(low=0.0, high=marks[-1][0])
    ticks = [Tick(at=round(100 - 100 * scale.share(value), 2), text=text) for value, text in marks]
    return Axis(text=FIGURES[figure][0], scale=scale, ticks=ticks)
