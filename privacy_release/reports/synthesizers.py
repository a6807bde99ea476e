"""The report that compares synthesizers: what each epsilon leaves of the source, side by side and as plots.

Its figures are exact figures of the source. Of records of people it is for the curator; only where the source
may be known to everybody, such as simulated records, may it be read by everybody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log
from typing import TYPE_CHECKING, Any

from privacy_release.reports.comparison import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LINE,
    RIGHT,
    TOP,
    WIDTH,
    Tick,
    rule_text,
    spread,
)
from privacy_release.reports.release import page_template
from privacy_release.work.references import ReportRef

if TYPE_CHECKING:
    from privacy_engine.attacks.synthetic import Share
    from privacy_engine.measures.synthetic_assessment import Assessment
    from privacy_engine.measures.synthetic_learning import Score


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A synthetic table beside its source.

    Attributes:
        method: its key, with the parameters that tell it from another line, see `labels_of`.
        epsilon: its loss, for one record replaced by another one.
        tvd: mean total variation distance of all marginals of 1, 2 and 3 attributes, where there are so many.
        scores: of classifiers, by target.
        closeness: chance that a synthetic record is closer to the source than a person in it to the others.
    """

    method: str
    epsilon: float
    tvd: tuple[float, ...]
    scores: "Mapping[str, Score]"
    closeness: "Share | None"
    passed: bool

    @property
    def accuracy(self) -> float | None:
        """Mean over the targets of what is learned from the synthetic records; None without a target."""
        return _mean([score.synthetic for score in self.scores.values()])


@dataclass(frozen=True, kw_only=True)
class Line:
    """A method in a plot, in pixels; `label_y` is the height of its name at the right end."""

    label: str
    points: tuple[tuple[float, float], ...]
    label_y: float

    @property
    def path(self) -> str:
        """As an SVG polyline has them."""
        return " ".join(f"{x},{y}" for x, y in self.points)


def labels_of(methods: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Each method's key, with the parameters in which it differs from others of the same key; not epsilon.

    >>> labels_of(
    ...     [("a", {"epsilon": 1, "degree": 2}), ("a", {"epsilon": 2, "degree": 3}), ("b", {"degree": 2})]
    ... )
    ['a degree=2', 'a degree=3', 'b']
    """
    labels = []
    for key, parameters in methods:
        others = [other for name, other in methods if name == key]
        varied = [
            f" {name}={value}"
            for name, value in parameters.items()
            if name != "epsilon" and any(other.get(name) != value for other in others)
        ]
        labels.append(key + "".join(varied))
    return labels


def compared(method: str, epsilon: float, found: "Assessment", *, passed: bool) -> Compared:
    """What the report tells of one synthetic table, from its assessment."""
    return Compared(
        method=method,
        epsilon=epsilon,
        tvd=tuple(marginal.mean for marginal in found.marginals),
        scores=found.scores,
        closeness=found.closeness,
        passed=passed,
    )


def render_synthesizers(
    entries: Sequence[Compared],
    reports: Sequence[ReportRef],
    *,
    title: str,
    rows: int,
    redrawn: Sequence[float],
    spent: Mapping[str, float],
    public: bool,
) -> str:
    """The comparison as one HTML page that loads nothing.

    Args:
        entries: the synthetic tables.
        reports: what verification found, of any of them: for the rules of the policy.
        title: for people.
        rows: records of the source.
        redrawn: mean distances of the same marginals of records drawn from the source with replacement.
        spent: data set -> epsilon that all tables together cost it.
        public: whether everybody may know exact figures of the source.
    """
    entries = sorted(entries, key=lambda e: (e.epsilon, e.tvd[-1], e.method))
    scores: Mapping[str, Score] = next((e.scores for e in entries if e.scores), {})
    real, majority = (_mean([getattr(s, name) for s in scores.values()]) for name in ("real", "majority"))
    ways = len(entries[0].tvd)
    lost: dict[str, list[tuple[float, float]]] = {e.method: [] for e in entries}
    learned: dict[str, list[tuple[float, float]]] = {e.method: [] for e in entries if e.scores}
    for e in entries:
        lost[e.method].append((e.epsilon, e.tvd[-1]))
        if e.accuracy is not None:
            learned[e.method].append((e.epsilon, e.accuracy))
    return page_template("synthesizers.html.j2").render(
        title=title,
        entries=entries,
        ways=ways,
        targets=list(scores),
        taught=scores,
        source_rows=rows,
        redrawn=redrawn,
        real=real,
        majority=majority,
        spent=spent,
        public=public,
        rules=[rule_text(finding) for finding in reports[0].findings if finding["rule"].startswith("max")],
        loss_plot=_plot(lost, {"redrawn records": redrawn[-1]}, from_zero=True),
        accuracy_plot=None
        if real is None or majority is None
        else _plot(learned, {"real records": real, "commonest value": majority}, from_zero=False),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _plot(
    lines: Mapping[str, Sequence[tuple[float, float]]], marks: Mapping[str, float], *, from_zero: bool
) -> dict[str, Any]:
    """Lines over epsilon (logarithmic); marks are what does not depend on epsilon."""
    epsilons = sorted({epsilon for points in lines.values() for epsilon, _ in points})
    values = [value for points in lines.values() for _, value in points] + list(marks.values())
    ticks = _ticks(0.0 if from_zero else min(values), max(values))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    least, span = log(epsilons[0]), log(epsilons[-1] / epsilons[0])

    def x(epsilon: float) -> float:
        return round(LEFT + width * ((log(epsilon) - least) / span if span else 0.5), 1)

    def y(value: float) -> float:
        return round(TOP + height * (1 - (value - ticks[0]) / (ticks[-1] - ticks[0])), 1)

    placed = {name: tuple((x(e), y(value)) for e, value in points) for name, points in lines.items()}
    ends = (epsilons[0], epsilons[-1])
    placed |= {name: tuple((x(end), y(value)) for end in ends) for name, value in marks.items()}
    drawn = [
        Line(label=name, points=points, label_y=at)
        for (name, points), at in zip(
            placed.items(), _below_the_top(spread([points[-1] for points in placed.values()])), strict=True
        )
    ]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": HEIGHT - BOTTOM,
        "x_ticks": [Tick(at=x(e), text=f"{e:g}") for e in epsilons],
        "y_ticks": [Tick(at=y(value), text=f"{100 * value:.3g} %") for value in ticks],
        "lines": drawn[: len(lines)],
        "marks": drawn[len(lines) :],
    }


def _ticks(least: float, most: float) -> list[float]:
    """At most seven multiples of a round step that reach from below the least to above the greatest value.

    >>> _ticks(0.0, 0.187), _ticks(0.32, 0.46)
    ([0.0, 0.05, 0.1, 0.15, 0.2], [0.3, 0.35, 0.4, 0.45, 0.5])
    """
    step = next(s for s in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if most - least <= 5 * s)
    first = floor(least / step + 1e-9)
    return [round(step * i, 3) for i in range(first, max(ceil(most / step - 1e-9), first + 1) + 1)]


def _below_the_top(heights: Sequence[float]) -> list[float]:
    """Heights of labels with those that stand out above the plot moved down, none on another."""
    moved, least = list(heights), float(TOP)
    for i in sorted(range(len(moved)), key=moved.__getitem__):
        moved[i] = max(moved[i], least)
        least = moved[i] + LINE
    return moved
