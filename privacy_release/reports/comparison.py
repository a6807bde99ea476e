"""The report that compares releases of one table: figures side by side, and risk against loss as a plot.

It is made of the references that travel between the tasks alone: no record is read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privacy_engine.errors import IntegrityError, SpecError
from privacy_release.reports.release import page_template
from privacy_release.work.references import ReportRef, StagedRelease, measured_symbols

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 20, 48  # margins; the labels of the rightmost points need room
LINE, LABEL = 15, 120  # height of a label, and about its greatest length


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A release in the comparison; None where a figure was not measured.

    Attributes:
        label: its method, and what tells it from another release by the same method.
        k, l, t: measured on the released bytes.
        gcp: loss, 0 to 1.
        risk: highest prosecutor risk; `mean_risk` of the average record.
        seconds: of the method; the first run of a process compiles.
        passed: whether it keeps the policy.
        unbeaten: no other has less loss and no more mean risk, or less risk and no more loss.
    """

    label: str
    k: float | None
    l: float | None  # noqa: E741  the field's own symbol
    t: float | None
    gcp: float | None
    discernibility: float | None
    suppressed: float | None
    risk: float | None
    mean_risk: float | None
    seconds: float | None
    rows: int
    passed: bool
    unbeaten: bool


@dataclass(frozen=True, kw_only=True)
class Point:
    """A release in the plot, in pixels; the label is moved away from others and joined by a line."""

    label: str
    x: float
    y: float
    label_y: float
    unbeaten: bool


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A mark on an axis: place in pixels, and its number."""

    at: float
    text: str


def render_comparison(staged: Sequence[StagedRelease], reports: Sequence[ReportRef], *, title: str) -> str:
    """The comparison as one HTML page that loads nothing.

    Args:
        staged: the releases.
        reports: what verification found on each, in the same order.
        title: for people.

    Raises:
        SpecError: if there is nothing to compare.
        IntegrityError: if a report is about other bytes than its release's.
    """
    entries = compare(staged, reports)
    return page_template("comparison.html.j2").render(
        title=title,
        entries=entries,
        source_rows=_source_rows(staged[0]),
        rules=[rule_text(finding) for finding in reports[0].findings],
        plot=_plot(entries),
        has_t=any(entry.t is not None for entry in entries),
        has_l=any(entry.l is not None for entry in entries),
    )


def compare(staged: Sequence[StagedRelease], reports: Sequence[ReportRef]) -> list[Entry]:
    """The releases with their figures, least loss first; errors as of `render_comparison`."""
    require_comparable(staged, reports)
    labels = _labels(staged)
    places = [_place(release) for release in staged]
    entries = [
        _entry(release, report, label, unbeaten=_unbeaten(place, places))
        for release, report, label, place in zip(staged, reports, labels, places, strict=True)
    ]
    return sorted(entries, key=lambda e: (e.gcp is None, e.gcp or 0.0, e.label))


def require_comparable(staged: Sequence[StagedRelease], reports: Sequence[ReportRef]) -> None:
    """Refuse what is no comparison; errors as of `render_comparison`."""
    if not staged or len(staged) != len(reports):
        raise SpecError(
            f"a comparison needs releases, and a report on each, got {len(staged)} and {len(reports)}; "
            "pass the outputs of the release tasks and of the tasks that verify them"
        )
    if other := sum(s.sha256 != r.sha256 for s, r in zip(staged, reports, strict=True)):
        raise IntegrityError(
            f"each report must be about the bytes of its release, {other} of {len(reports)} are not; "
            "pass both in the same order, and verify again what was released again"
        )
    if len({s.source.fingerprint for s in staged}) > 1:
        raise SpecError("a comparison must be of releases of one table, got several; ingest it once for all")


def rule_text(finding: Mapping[str, Any]) -> str:
    """A rule of the policy; a model carries its number in its name, a limit does not."""
    rule = str(finding["rule"])
    return rule if "(" in rule else f"{rule} {finding['threshold']:g}"


def _entry(release: StagedRelease, report: ReportRef, label: str, *, unbeaten: bool) -> Entry:
    figures, measured = release.figures, measured_symbols(report)
    return Entry(
        label=label,
        k=measured.get("k", figures.get("smallest_class")),
        l=measured.get("l"),
        t=measured.get("t"),
        gcp=figures.get("gcp"),
        discernibility=figures.get("discernibility"),
        suppressed=figures.get("suppressed"),
        risk=figures.get("prosecutor_max"),
        mean_risk=figures.get("prosecutor_mean"),
        seconds=release.seconds,
        rows=release.rows,
        passed=report.passed,
        unbeaten=unbeaten,
    )


def _place(release: StagedRelease) -> tuple[float, float] | None:
    """Mean risk and loss, by which releases are compared in the plot."""
    figures = release.figures
    if "prosecutor_mean" not in figures or "gcp" not in figures:
        return None
    return figures["prosecutor_mean"], figures["gcp"]


def _unbeaten(place: tuple[float, float] | None, places: Sequence[tuple[float, float] | None]) -> bool:
    if place is None:
        return False
    others = [other for other in places if other is not None and other != place]
    return not any(other[0] <= place[0] and other[1] <= place[1] for other in others)


def _labels(staged: Sequence[StagedRelease]) -> list[str]:
    """The methods; with the claimed guarantees where a method stands there twice, and a number if need be."""
    methods = Counter(release.method for release in staged)
    labels = [
        release.method if methods[release.method] == 1 else f"{release.method}{_claims(release)}"
        for release in staged
    ]
    times = Counter(labels)
    seen: Counter[str] = Counter()
    for i, label in enumerate(labels):
        if times[label] > 1:
            seen[label] += 1
            labels[i] = f"{label} #{seen[label]}"
    return labels


def _claims(release: StagedRelease) -> str:
    claimed = {
        symbol: model[symbol] for model in release.guarantees for symbol in ("k", "l", "t") if symbol in model
    }
    return "".join(f" {symbol}={number}" for symbol, number in claimed.items())


def _source_rows(release: StagedRelease) -> int:
    return release.source.rows - release.source.dropped


def _plot(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """The points and axes of mean risk (right is worse) against loss (up is worse); None without a point."""
    placed = [(e, e.mean_risk, e.gcp) for e in entries if e.mean_risk is not None and e.gcp is not None]
    if not placed:
        return None
    right = _round_up(max(risk for _, risk, _ in placed))
    top = _round_up(max(loss for _, _, loss in placed))
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(risk: float) -> float:
        return round(LEFT + inner_width * risk / right, 1)

    def y(loss: float) -> float:
        return round(TOP + inner_height * (1 - loss / top), 1)

    points = [(e, x(risk), y(loss)) for e, risk, loss in placed]
    labels = spread([(px, py) for _, px, py in points])
    quarters = [i / 4 for i in range(5)]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": HEIGHT - BOTTOM,
        "x_ticks": [Tick(at=x(right * q), text=f"{100 * right * q:.3g} %") for q in quarters],
        "y_ticks": [Tick(at=y(top * q), text=f"{100 * top * q:.3g} %") for q in quarters],
        "points": [
            Point(label=e.label, x=px, y=py, label_y=at, unbeaten=e.unbeaten)
            for (e, px, py), at in zip(points, labels, strict=True)
        ],
    }


def _round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 8 times a power of ten; 1 for 0.

    >>> _round_up(0.031), _round_up(0.2), _round_up(0.0)
    (0.04, 0.2, 1.0)
    """
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 <= value:
        power *= 10
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0)
    return float(f"{next(s * power for s in steps if s * power >= value * (1 - 1e-9)):.3g}")


def spread(places: Sequence[tuple[float, float]]) -> list[float]:
    """Heights of the labels of points (x, y): none on another, and none below its point.

    >>> spread([(50.0, 100.0), (60.0, 98.0), (400.0, 99.0)])
    [100.0, 85.0, 99.0]
    """
    heights: dict[int, float] = {}
    for i in sorted(range(len(places)), key=lambda i: -places[i][1]):  # from the bottom up
        x, y = places[i]
        near = [height for j, height in heights.items() if abs(places[j][0] - x) < LABEL]
        heights[i] = min([y, *(height - LINE for height in near)])
    return [heights[i] for i in range(len(places))]
