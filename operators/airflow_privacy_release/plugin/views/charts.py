"""Small line charts as inline SVG: shapes on a canvas that is stretched to its place, words beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 1000.0, 240.0
_MARGIN = 12.0  # so that points at an edge are whole


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measured value.

    Attributes:
        x: place, in any unit.
        y: value.
        text: what a pointer on it is told.
        span: an interval of the value, where it has one.
    """

    x: float
    y: float
    text: str
    span: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A point on the canvas."""

    x: str
    y: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What the template draws.

    Attributes:
        label: says all of it in one sentence, for those who do not see it.
        line, area: path data; the area is that down to the floor, or of the intervals if all points have one.
        limit: height of the dashed line; None without one.
        top, bottom: words at the ends of the value axis; first, last: of the other.
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


def chart(
    points: Sequence[Point],
    *,
    label: str,
    ends: tuple[str, str],
    top: float,
    texts: tuple[str, str],
    bottom: float = 0.0,
    limit: float | None = None,
    steps: bool = False,
) -> Chart:
    """Draw points from left to right.

    Args:
        points: at least one, ordered by `x`.
        label: see `Chart`.
        ends: words under the first and the last place.
        top: value at the upper edge.
        texts: words for the upper and the lower edge.
        bottom: value at the lower edge.
        limit: value of the dashed line.
        steps: a value holds until the next one, instead of a straight line between them.
    """
    first, last = points[0].x, points[-1].x
    span = top - bottom or 1.0

    def across(x: float) -> float:
        share = (x - first) / (last - first) if last > first else 0.5
        return _MARGIN + share * (WIDTH - 2 * _MARGIN)

    def up(y: float) -> float:
        return HEIGHT - _MARGIN - (y - bottom) / span * (HEIGHT - 2 * _MARGIN)

    places = [(across(p.x), up(p.y)) for p in points]
    line = f"M{_at(*places[0])}"
    for (_, before), (x, y) in pairwise(places):
        line += f"L{_at(x, before)}L{_at(x, y)}" if steps else f"L{_at(x, y)}"
    floor = HEIGHT - _MARGIN
    spans = [p.span for p in points if p.span is not None]
    if len(spans) == len(points):
        ends_of = [(x, up(low), up(high)) for (x, _), (low, high) in zip(places, spans, strict=True)]
        edge = [_at(x, high) for x, _, high in ends_of] + [_at(x, low) for x, low, _ in reversed(ends_of)]
        area = f"M{'L'.join(edge)}Z"
    else:
        area = f"{line}L{_at(places[-1][0], floor)}L{_at(places[0][0], floor)}Z"
    return Chart(
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
