"""The report that compares synthesizers: what each epsilon leaves of the source, side by side and as plots.

Its figures are exact figures of the source. Of records of people it is for the curator; only where the source
may be known to everybody, such as simulated records, may it be read by everybody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from privacy_release.reports.comparison import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Tick,
    round_up,
    rule_text,
    spread,
)
from privacy_release.reports.release import page_template
from privacy_release.work.references import ReportRef

if TYPE_CHECKING:
    from privacy_engine.attacks.synthetic import Share
    from privacy_engine.measures.synthetic_assessment import Assessment
    from privacy_engine.measures.synthetic_learning import Score

HEADROOM = 1.15  # of the plot of accuracies above the best


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A synthetic table beside its source.

    Attributes:
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
    scores = entries[0].scores
    real, majority = (_mean([getattr(s, name) for s in scores.values()]) for name in ("real", "majority"))
    ways = len(entries[0].tvd)
    learned = {
        method: [(e.epsilon, e.accuracy) for e in entries if e.method == method and e.accuracy is not None]
        for method in dict.fromkeys(e.method for e in entries)
    }
    lost = {method: [(e.epsilon, e.tvd[-1]) for e in entries if e.method == method] for method in learned}
    return page_template("synthesizers.html.j2").render(
        title=title,
        entries=entries,
        ways=ways,
        targets=list(scores),
        source_rows=rows,
        redrawn=redrawn,
        real=real,
        majority=majority,
        spent=spent,
        public=public,
        rules=[rule_text(finding) for finding in reports[0]["findings"] if finding["rule"].startswith("max")],
        loss_plot=_plot(lost, marks={"redrawn records": redrawn[-1]}),
        accuracy_plot=None
        if real is None or majority is None
        else _plot(learned, marks={"real records": real, "always the commonest": majority}),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _plot(lines: Mapping[str, Sequence[tuple[float, float]]], marks: Mapping[str, float]) -> dict[str, Any]:
    """Lines over epsilon (logarithmic), heights from 0; marks are what does not depend on epsilon."""
    epsilons = sorted({epsilon for points in lines.values() for epsilon, _ in points})
    highest = max(max(y for points in lines.values() for _, y in points), *marks.values())
    top = min(round_up(highest), HEADROOM * highest) or 1.0
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    least, span = log(epsilons[0]), log(epsilons[-1] / epsilons[0])

    def x(epsilon: float) -> float:
        return round(LEFT + width * ((log(epsilon) - least) / span if span else 0.5), 1)

    def y(value: float) -> float:
        return round(TOP + height * (1 - value / top), 1)

    placed = {name: tuple((x(e), y(value)) for e, value in points) for name, points in lines.items()}
    placed |= {
        name: ((x(epsilons[0]), y(value)), (x(epsilons[-1]), y(value))) for name, value in marks.items()
    }
    labels = spread([points[-1] for points in placed.values()])
    drawn = [
        Line(label=name, points=points, label_y=at)
        for (name, points), at in zip(placed.items(), labels, strict=True)
    ]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": HEIGHT - BOTTOM,
        "x_ticks": [Tick(at=x(e), text=f"{e:g}") for e in epsilons],
        "y_ticks": [Tick(at=y(top * q), text=f"{100 * top * q:.3g} %") for q in (0, 0.25, 0.5, 0.75, 1)],
        "lines": drawn[: len(lines)],
        "marks": drawn[len(lines) :],
    }
