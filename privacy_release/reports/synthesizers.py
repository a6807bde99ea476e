"""The report that compares synthesizers: what each epsilon preserves of the source, in tables and plots.

Its figures are exact figures of the source. If the records are about people, it is only for the curator. It
may be public only if the source may be public, for example if it is simulated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privacy_release.reports.charts import Plot, Series, percent_ticks, plot
from privacy_release.reports.comparison import rule_text
from privacy_release.reports.release import page_template
from privacy_release.workarea.references import ReportRef

if TYPE_CHECKING:
    from privacy_engine.attacks.synthetic import Share
    from privacy_engine.measures.synthetic_assessment import Assessment
    from privacy_engine.measures.synthetic_learning import Score


METHOD_COLORS = 4  # number of classes `method-0` and so on in the style sheet


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A synthetic table compared with its source.

    Attributes:
        method: Label of the method's line in the chart, see `labels_of`.
        epsilon: Privacy loss, for one record replaced by another one.
        tvd: Mean total variation distance of all marginals of 1, 2 and 3 attributes, as far as they exist.
        scores: Scores of classifiers, by target.
        closeness: Probability that a synthetic record is closer to the source than a source record is to the
            others.
    """

    method: str
    epsilon: float
    tvd: tuple[float, ...]
    scores: "Mapping[str, Score]"
    closeness: "Share | None"
    passed: bool

    @property
    def accuracy(self) -> float | None:
        """Mean accuracy over the targets when learning from the synthetic records. None without a target."""
        return _mean([score.synthetic for score in self.scores.values()])


def labels_of(methods: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return the label of each method: its registry key plus the parameters that differ, except epsilon.

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
    """Return the figures of one synthetic table, from its assessment."""
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
    """Return the comparison as one HTML page that loads nothing.

    Args:
        entries: Synthetic tables with their figures.
        reports: Verification reports, of which any one provides the rules of the policy.
        title: Title of the page.
        rows: Number of records in the source.
        redrawn: Mean distances of the same marginals for records drawn from the source with replacement.
        spent: Total epsilon of all tables, by data set.
        public: Whether exact figures of the source may be public.
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
) -> Plot:
    """Return lines over epsilon (logarithmic). Marks show what does not depend on epsilon."""
    epsilons = sorted({epsilon for points in lines.values() for epsilon, _ in points})
    values = [value for points in lines.values() for _, value in points] + list(marks.values())
    ends = (epsilons[0], epsilons[-1])
    across = [
        Series(label=name, kind="mark", points=tuple((end, value) for end in ends))
        for name, value in marks.items()
    ]
    measured = [
        Series(label=name, kind=f"method-{i % METHOD_COLORS}", points=tuple(points))
        for i, (name, points) in enumerate(lines.items())
    ]
    return plot(
        [*across, *measured],
        x=[(epsilon, f"{epsilon:g}") for epsilon in epsilons],
        y=percent_ticks(0.0 if from_zero else min(values), max(values)),
        log_x=True,
    )
