"""A Bayesian network as a drawing that stays readable from 5 to 40 attributes, whatever its shape.

Each attribute has a row, in the order in which attributes are drawn. From its name a line runs to the right,
and down a lane of its own to the last attribute that depends on it; a dot joins a lane to the row of a child.
So each dependency is one dot, and no two lie on each other. Drawn in layers or by arcs, a network of several
parents each is a tangle, and a star too wide for a page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROW = 22  # height of a name, pixels
LANE = 15  # width of a lane
LETTER = 7.9  # width of a letter of a name, rather too much than too little
LONGEST = 24  # letters of a name that are shown
GAP = 8  # from a name to its line


@dataclass(frozen=True, kw_only=True)
class NetworkRow:
    """An attribute.

    Attributes:
        name: in full; `text` is what fits.
        y: of its row.
        parents: names.
        line: SVG path along the row and down its lane; empty for an attribute alone.
        dots: x of each parent's lane.
    """

    name: str
    text: str
    y: float
    parents: tuple[str, ...]
    line: str
    dots: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class NetworkDrawing:
    """Sizes in pixels; names end at ``x``."""

    width: float
    height: float
    x: float
    rows: tuple[NetworkRow, ...]

    @property
    def dependencies(self) -> int:
        """How many it shows."""
        return sum(len(row.dots) for row in self.rows)


def draw_network(parents: Mapping[str, Sequence[str]]) -> NetworkDrawing:
    """Place a network.

    Args:
        parents: of each attribute, in an order in which parents come first.

    Raises:
        ValueError: if a parent does not come before its child.

    >>> drawing = draw_network({"age": [], "job": ["age"], "wage": ["age", "job"]})
    >>> [len(row.dots) for row in drawing.rows], drawing.height
    ([0, 1, 2], 66)
    """
    place = {name: i for i, name in enumerate(parents)}
    late = [n for n, given in parents.items() if any(place.get(p, place[n]) >= place[n] for p in given)]
    if late:
        raise ValueError(f"parents must come before their child, those of {len(late)} attributes do not")
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
