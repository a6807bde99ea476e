"""Charts of reports and pages as values, which the macros of `charts.html.j2` draw as inline SVG.

A chart that is drawn in pixels keeps its proportions; one on a scale of 0 to 100, or on the canvas of a line
chart, is stretched to its place. Each has a label for readers who do not see it, and a table of its numbers
with it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 640, 380  # of a plot with axes
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 20, 48  # its margins; the labels of the rightmost points need room
LINE, LABEL = 15, 120  # height of a label, and about its greatest length
CELL = 22  # side of a cell of a heat map
LETTER, LONGEST = 7.0, 24  # width of a letter of a name, and letters of a name that are shown
CANVAS_WIDTH, CANVAS_HEIGHT = 1000.0, 240.0  # of a line chart
EDGE = 12.0  # its margin, so that points at an edge are whole


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A mark on an axis.

    Attributes:
        at: Place, in the unit of the chart.
        text: Number of the mark as text.
        close: Whether it is close to others, so that a narrow chart omits it.
    """

    at: float
    text: str
    close: bool = False


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The values along an axis, from one end to the other.

    >>> (
    ...     Scale(low=0, high=4).share(1),
    ...     Scale(low=1, high=100, log=True).share(10),
    ...     Scale(low=2, high=2).share(2),
    ... )
    (0.25, 0.5, 0.5)
    """

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """Place of a value: 0 at the low end, 1 at the high end; the middle if the two are equal."""
        if self.high <= self.low:
            return 0.5
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def round_ticks(least: float, most: float) -> list[float]:
    """At most seven multiples of a round step, from the least value or below to the greatest or above.

    >>> round_ticks(0.0, 0.187), round_ticks(0.32, 0.46), round_ticks(0.0, 0.0)
    ([0.0, 0.05, 0.1, 0.15, 0.2], [0.3, 0.35, 0.4, 0.45, 0.5], [0.0, 0.2])
    """
    span = (most - least) or abs(most) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(power * digit for digit in (1, 2, 5, 10) if span <= 5 * power * digit * (1 + 1e-9))
    first = math.floor(least / step + 1e-9)
    last = max(math.ceil(most / step - 1e-9), first + 1)
    return [float(f"{step * i:.9g}") for i in range(first, last + 1)]


def percent_ticks(least: float, most: float) -> list[tuple[float, str]]:
    """Round ticks of shares, with their texts.

    >>> percent_ticks(0.0, 0.031)
    [(0.0, '0 %'), (0.01, '1 %'), (0.02, '2 %'), (0.03, '3 %'), (0.04, '4 %')]
    """
    return [(value, f"{100 * value:.3g} %") for value in round_ticks(least, most)]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one name in a plot with axes, joined by a line.

    Attributes:
        label: Name of the series.
        kind: Class of its shapes; the points of a `mark` are not drawn.
        points: Places of its points, from left to right.
        label_y: Height of its name, which is to the right of the last point.
    """

    label: str
    kind: str
    points: tuple[tuple[float, float], ...]
    label_y: float = 0.0

    @property
    def path(self) -> str:
        """The points as an SVG polyline has them."""
        return " ".join(f"{x},{y}" for x, y in self.points)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Series between two axes, in pixels."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    series: tuple[Series, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def plot(
    series: Sequence[Series],
    *,
    x: Sequence[tuple[float, str]],
    y: Sequence[tuple[float, str]],
    log_x: bool = False,
) -> Plot:
    """Place series between two axes.

    Args:
        series: Series whose points are values instead of places.
        x: Values and texts of the ticks, which reach from the left to the right end.
        y: The same, from the lower to the upper end.
        log_x: Whether the horizontal axis is logarithmic.
    """
    across = Scale(low=x[0][0], high=x[-1][0], log=log_x)
    up = Scale(low=y[0][0], high=y[-1][0])

    def place(value_x: float, value_y: float) -> tuple[float, float]:
        return (
            round(LEFT + (WIDTH - LEFT - RIGHT) * across.share(value_x), 1),
            round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - up.share(value_y)), 1),
        )

    placed = [tuple(place(*point) for point in one.points) for one in series]
    heights = label_heights([points[-1] for points in placed])
    return Plot(
        x_ticks=tuple(Tick(at=place(value, y[0][0])[0], text=text) for value, text in x),
        y_ticks=tuple(Tick(at=place(x[0][0], value)[1], text=text) for value, text in y),
        series=tuple(
            Series(label=one.label, kind=one.kind, points=points, label_y=height)
            for one, points, height in zip(series, placed, heights, strict=True)
        ),
    )


def label_heights(places: Sequence[tuple[float, float]]) -> list[float]:
    """Heights of the labels of points (x, y): none on another, and none below its point while there is room.

    >>> label_heights([(50.0, 100.0), (60.0, 98.0), (400.0, 99.0)])
    [100.0, 85.0, 99.0]
    """
    risen: dict[int, float] = {}
    for i in sorted(range(len(places)), key=lambda i: -places[i][1]):
        risen[i] = min([places[i][1], *(risen[j] - LINE for j in _near(i, risen, places))])
    heights: dict[int, float] = {}
    for i in sorted(risen, key=risen.__getitem__):  # no label is above the plot
        heights[i] = max([risen[i], float(TOP), *(heights[j] + LINE for j in _near(i, heights, places))])
    return [heights[i] for i in range(len(places))]


def _near(i: int, others: Iterable[int], places: Sequence[tuple[float, float]]) -> list[int]:
    return [j for j in others if abs(places[j][0] - places[i][0]) < LABEL]


@dataclass(frozen=True, kw_only=True)
class HeatCell:
    """A pair of names in a heat map.

    Attributes:
        row, column: Numbers of the two names, the row's the larger one.
        pair: Both names as text.
        value: Number of the pair, 0 .. 1.
        text: Its numbers in words.
        opacity: How full the cell is, 0 .. 1.
    """

    row: int
    column: int
    pair: str
    value: float
    text: str
    opacity: float


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """The lower triangle of a symmetric matrix as squares.

    Attributes:
        names: Names of the rows, as far as there is room.
        cells: Cells, row by row.
        label: Width of the names.
        cell: Side of a cell.
    """

    names: tuple[str, ...]
    cells: tuple[HeatCell, ...]
    label: int
    cell: int = CELL

    @property
    def side(self) -> int:
        """Side of the triangle."""
        return self.cell * (len(self.names) - 1)

    def largest(self, count: int) -> list[HeatCell]:
        """The cells of the largest values."""
        return sorted(self.cells, key=lambda cell: (-cell.value, cell.pair))[:count]


def heat_map(
    names: Sequence[str],
    value: Callable[[int, int], float],
    text: Callable[[int, int], str],
    *,
    full: float = 1.0,
) -> HeatMap:
    """Draw each pair of names as a square.

    Args:
        names: Names of the rows and columns.
        value: Number of a pair by its row and column, 0 .. 1.
        text: Its numbers in words.
        full: Least value of a full cell.
    """
    shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    return HeatMap(
        names=tuple(shown),
        cells=tuple(
            HeatCell(
                row=i,
                column=j,
                pair=f"{names[j]}, {names[i]}",
                value=value(i, j),
                text=text(i, j),
                opacity=min(value(i, j) / full, 1.0),
            )
            for i in range(1, len(names))
            for j in range(i)
        ),
        label=round(LETTER * max(map(len, shown), default=0) + 34),
    )


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A measured value with its interval, on a line from 0 to 100.

    Attributes:
        label: All of it in words.
        low, value, high: Places of the interval and of the value in it.
        nothing: Place of the value that means that nothing was found.
        bound: Place of the bound; None if there is none.
    """

    label: str
    low: float
    value: float
    high: float
    nothing: float
    bound: float | None = None


def interval(
    low: float,
    value: float,
    high: float,
    *,
    scale: Scale,
    nothing: float,
    label: str,
    bound: float | None = None,
) -> Interval:
    """Place a value and its interval on a scale; arguments as of `Interval`, but in the unit of the scale."""
    return Interval(
        label=label,
        low=100 * scale.share(low),
        value=100 * scale.share(value),
        high=100 * scale.share(high),
        nothing=100 * scale.share(nothing),
        bound=None if bound is None else 100 * scale.share(bound),
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """A value of a line chart.

    Attributes:
        x: Place, in any unit.
        y: Value, >= 0.
        text: Title of the point.
        span: Interval of the value; None if it has none.
    """

    x: float
    y: float
    text: str
    span: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A point on the canvas of a line chart."""

    x: str
    y: str
    text: str


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """A line on a canvas, with words at the ends of its axes.

    Attributes:
        label: All of it in one sentence.
        line, area: Path data. The area is the one below the line, or that of the intervals if all points have
            one.
        limit: Height of the dashed line; None without a limit.
        top, bottom: Words at the ends of the vertical axis.
        first, last: Words at the ends of the horizontal axis.
    """

    label: str
    line: str
    area: str
    dots: tuple[Dot, ...]
    limit: str | None
    top: str
    bottom: str
    first: str
    last: str


def line_chart(
    points: Sequence[Point],
    *,
    label: str,
    ends: tuple[str, str],
    top: float,
    texts: tuple[str, str],
    limit: float | None = None,
    steps: bool = False,
) -> LineChart:
    """Draw values from 0 upwards, from left to right.

    Args:
        points: Points, at least one, ordered by `x`.
        label: All of it in one sentence.
        ends: Words under the first and the last point.
        top: Value at the upper edge.
        texts: Words for the upper and the lower edge.
        limit: Value of the dashed line; None for none.
        steps: Whether a value holds until the next one, instead of a straight line between them.
    """
    width, height = Scale(low=points[0].x, high=points[-1].x), Scale(low=0.0, high=top or 1.0)
    floor = CANVAS_HEIGHT - EDGE

    def across(x: float) -> float:
        return EDGE + width.share(x) * (CANVAS_WIDTH - 2 * EDGE)

    def up(y: float) -> float:
        return floor - height.share(y) * (CANVAS_HEIGHT - 2 * EDGE)

    places = [(across(p.x), up(p.y)) for p in points]
    line = f"M{_at(*places[0])}"
    for (_, before), (x, y) in pairwise(places):
        line += f"L{_at(x, before)}L{_at(x, y)}" if steps else f"L{_at(x, y)}"
    spans = [(across(p.x), *map(up, p.span)) for p in points if p.span is not None]
    if len(spans) == len(points):
        edge = [_at(x, high) for x, _, high in spans] + [_at(x, low) for x, low, _ in reversed(spans)]
        area = f"M{'L'.join(edge)}Z"
    else:
        area = f"{line}L{_at(places[-1][0], floor)}L{_at(places[0][0], floor)}Z"
    return LineChart(
        label=label,
        line=line,
        area=area,
        dots=tuple(
            Dot(x=f"{x:.1f}", y=f"{y:.1f}", text=p.text) for (x, y), p in zip(places, points, strict=True)
        ),
        limit=None if limit is None else f"{up(limit):.1f}",
        top=texts[0],
        bottom=texts[1],
        first=ends[0],
        last=ends[1],
    )


def _at(x: float, y: float) -> str:
    return f"{x:.1f} {y:.1f}"
