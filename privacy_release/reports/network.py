"""Draw a Bayesian network so that it stays readable from 5 to 40 attributes, whatever its shape.

Each attribute has a row, in the order in which attributes are drawn. From its name a line runs to the right,
then down a separate lane to the last attribute that depends on it. A dot joins a lane to the row of a child.
So each dependency is one dot, and no two overlap. In a drawing by layers or arcs, a network with several
parents per attribute is a tangle, and a star is too wide for a page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROW = 22  # height of a name, pixels
LANE = 15  # width of a lane
LETTER = 7.9  # width of a letter of a name, an upper estimate
LONGEST = 24  # largest number of letters of a name that are shown
GAP = 8  # distance from a name to its line


@dataclass(frozen=True, kw_only=True)
class NetworkRow:
    """A row of the drawing, for one attribute.

    Attributes:
        name: Full name of the attribute.
        text: Shortened name that fits.
        y: Height of the row.
        parents: Names of the parents.
        line: SVG path along the row and down its lane. Empty if nothing depends on the attribute.
        dots: Horizontal position of the lane of each parent, in the order of `parents`.
    """

    name: str
    text: str
    y: float
    parents: tuple[str, ...]
    line: str
    dots: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class NetworkDrawing:
    """The drawing, with sizes in pixels. Names end at ``x``."""

    width: float
    height: float
    x: float
    rows: tuple[NetworkRow, ...]

    @property
    def dependencies(self) -> int:
        """Number of dependencies shown."""
        return sum(len(row.dots) for row in self.rows)


def draw_network(parents: Mapping[str, Sequence[str]]) -> NetworkDrawing:
    """Lay out a network.

    Args:
        parents: Parents of each attribute, in an order in which parents come first.

    Raises:
        ValueError: If a parent does not come before its child.

    >>> drawing = draw_network({"age": [], "job": ["age"], "wage": ["age", "job"]})
    >>> [len(row.dots) for row in drawing.rows], drawing.height
    ([0, 1, 2], 66)
    """
    place = {name: i for i, name in enumerate(parents)}
    late = [n for n, given in parents.items() if any(place.get(p, place[n]) >= place[n] for p in given)]
    if late:
        raise ValueError(f"parents must come before their child, but those of {len(late)} attributes do not")
    last_child = {parent: place[child] for child, given in parents.items() for parent in given}
    texts = {name: _short(name) for name in parents}
    x = round(LETTER * max(map(len, texts.values()), default=0), 1)
    lane = {name: x + GAP + LANE * (i + 1) for i, name in enumerate(n for n in parents if n in last_child)}
    rows = []
    for name, given in parents.items():
        y, dots = _y(place[name]), tuple(sorted(lane[p] for p in given))
        end = lane.get(name, max(dots, default=0.0))
        line = f"M{x + GAP:.1f} {y}H{end:.1f}" if end else ""
        down = f"V{_y(last_child[name])}" if name in last_child else ""
        rows.append(
            NetworkRow(name=name, text=texts[name], y=y, parents=tuple(given), line=line + down, dots=dots)
        )
    return NetworkDrawing(
        width=round(max([x, *lane.values()]) + LANE, 1), height=ROW * len(rows), x=x, rows=tuple(rows)
    )


def _y(row: int) -> float:
    return ROW * row + ROW / 2


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
