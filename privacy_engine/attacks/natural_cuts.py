"""Who is in which class of a release, and where a finer cut of a class would lie.

An attacker by minimality knows the quasi-identifiers of everyone in the release. A person is in a class whose
cells cover them. Classes of a strict partition do not overlap; others may. Then the class that loses least is
filled first, up to its size, with those whom the fewest classes cover: an algorithm that generalizes no more
than necessary puts no one into a coarse class who could be in a fine one.

The cuts are those of Mondrian (LeFevre, DeWitt, Ramakrishnan 2006; `privacy_engine.recoding.grouping.cuts`):
for an ordered attribute next to the median's own value, and those that split off as few people as k allows at
either end; for any other, one child of the people's lowest common node, or one value, from the others.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from privacy_engine.attacks.blocks import Blocks
from privacy_engine.attacks.cells import Bools, Cells, Floats, Ints, Space, read
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import class_labels
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import released_as

SAMPLED = 300  # classes used to estimate how many cover a person
MOST_CLASSES = 3_000  # most classes of a release that are analysed
CHILDREN = 3  # number of largest children of a node that are split from the others


@dataclass(frozen=True, kw_only=True)
class ReleasedPeople:
    """Who is in which class of a release.

    Attributes:
        rows: Released records of the classes that are analysed, shape (r,).
        released: Class of each, shape (r,), 0 .. c - 1.
        labels: Class of each person, shape (n,), -1 = in none of them.
        places: For each quasi-identifier, (n, levels) int64 numbers of the people's values, ascending if the
            attribute has an order, else from the top of its hierarchy down.
        ordered: Whether each quasi-identifier has an order.
        losses: Loss of each class in each quasi-identifier, shape (c, q), 0 .. 1.
        along: Classes in an order in which similar ones are close, shape (c,).
    """

    rows: Ints
    released: Ints
    labels: Ints
    places: tuple[Ints, ...]
    ordered: tuple[bool, ...]
    losses: Floats
    along: Ints

    @classmethod
    def of(
        cls, release: pd.DataFrame, people: pd.DataFrame, source: DataSchema, rng: np.random.Generator
    ) -> "ReleasedPeople":
        """Find everyone's class.

        Raises:
            SchemaError: If the release has no quasi-identifier.
        """
        known = replace(source, attributes=source.quasi_identifiers)
        columns = [c for a in known.attributes for c in released_as(a.name, release.columns)]
        released = class_labels([release[c] for c in columns], len(release))
        rows = np.arange(len(release))
        if (classes := int(released.max(initial=-1)) + 1) > MOST_CLASSES:
            chosen = np.zeros(classes, np.bool_)
            chosen[rng.permutation(classes)[:MOST_CLASSES]] = True
            rows = np.flatnonzero(chosen[released])
            released = np.unique(released[rows], return_inverse=True)[1].astype(np.int64)
        first = rows[np.unique(released, return_index=True)[1]]
        space, (boxes, own) = read(release.iloc[first], (people,), known)
        losses = _losses(space, boxes)
        attributes = [known[name] for name in space.names]
        return cls(
            rows=rows,
            released=released,
            labels=_fill(space, boxes, own, losses.sum(axis=1), np.bincount(released), rng),
            places=tuple(
                _levels(people[a.name], a, own, j, len(space.ordered)) for j, a in enumerate(attributes)
            ),
            ordered=tuple(j < len(space.ordered) for j in range(len(attributes))),
            losses=losses,
            along=Blocks.of(space, boxes).order,
        )


def _losses(space: Space, boxes: Cells) -> Floats:
    columns = [space.sizes[j, codes] for j, codes in enumerate(boxes.codes.T)]
    spans = np.nan_to_num(boxes.high - boxes.low)
    return np.hstack([spans, np.array(columns).reshape(len(columns), len(boxes)).T])


def _fill(
    space: Space, boxes: Cells, people: Cells, losses: Floats, sizes: Ints, rng: np.random.Generator
) -> Ints:
    """(n,) the class of each person. Two loops over classes, of which there are a few thousand."""
    waiting = rng.permutation(len(people))
    first = people.low[:, 0] if len(space.ordered) else np.zeros(len(people))
    waiting = waiting[np.argsort(first[waiting], kind="stable")]
    low, left = first[waiting], len(waiting)
    covering, labels = np.zeros(len(people), np.int64), np.full(len(people), -1, np.int64)
    for c in rng.permutation(len(boxes))[:SAMPLED].tolist():
        covering[_covered(space, boxes, c, people, waiting, low)] += 1
    for c in np.argsort(losses, kind="stable").tolist():
        found = _covered(space, boxes, c, people, waiting, low)
        found = found[labels[found] < 0]
        found = found[np.argsort(covering[found], kind="stable")[: sizes[c]]]
        labels[found] = c
        left -= len(found)
        if 2 * left < len(waiting):
            waiting = waiting[labels[waiting] < 0]
            low = first[waiting]
    return labels


def _covered(space: Space, boxes: Cells, c: int, people: Cells, waiting: Ints, low: Floats) -> Ints:
    """Return the waiting people whom a class covers; they ascend by `low`, the first attribute."""
    found = waiting
    if len(space.ordered):
        begin, end = np.searchsorted(low, boxes.low[c, 0]), np.searchsorted(low, boxes.high[c, 0], "right")
        found = waiting[begin : len(waiting) if boxes.null[c, 0] else end]
    for j in range(len(space.ordered)):
        x = people.low[found, j]
        inside = (boxes.low[c, j] <= x) & (x <= boxes.high[c, j])
        found = found[inside | np.isnan(x) & boxes.null[c, j]]
    for j, covers in enumerate(space.covers):
        found = found[covers[boxes.codes[c, j]][people.codes[found, j]] > 0]
    return found


def _levels(column: pd.Series, attribute: Attribute, people: Cells, j: int, ordered: int) -> Ints:
    """(n, levels) numbers of the values, see `ReleasedPeople`."""
    if j < ordered:
        x = people.low[:, j]
        return np.unique(x, return_inverse=True)[1].astype(np.int64).reshape(-1, 1)
    codes = people.codes[:, j - ordered].astype(np.int64)
    tree = attribute.hierarchy
    if tree is None:
        return codes[:, None]
    coded = factorize(column)
    own = [tree.nodes[tree.code(text), ::-1] if text in tree.values else None for text in coded.texts]
    none = np.full(tree.height + 1, -1)  # a null, or a value in no row, is a separate child
    return np.array([*(none if n is None else n for n in own), none], np.int64)[coded.codes]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A cut of a class in two.

    Attributes:
        attribute: Index of the quasi-identifier.
        near: Whether each person of the class is on one side, shape (n,).
    """

    attribute: int
    near: Bools

    @property
    def size(self) -> int:
        """Number of people on the near side."""
        return int(self.near.sum())

    @property
    def least(self) -> int:
        """Number of people on the smaller side."""
        return min(self.size, len(self.near) - self.size)


def cuts_of(people: ReleasedPeople, members: Ints, k: int) -> list[Cut]:
    """Return the cuts of a class that leave at least k people on either side.

    Args:
        people: People of the release.
        members: Those in the class, shape (n,).
        k: Least number of people on a side, at least 1.
    """
    found = []
    for j, places in enumerate(people.places):
        own = places[members]
        sides = _thresholds(own[:, 0], k) if people.ordered[j] else _children(own, k)
        found += [Cut(attribute=j, near=near) for near in sides]
    return found


def _thresholds(values: Ints, k: int) -> list[Bools]:
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)
    upto = np.cumsum(counts)[:-1]
    fine = np.flatnonzero((upto >= k) & (n - upto >= k))
    if not len(fine):
        return []
    median = int(np.searchsorted(upto, n // 2, "right"))  # the value of the person in the middle
    chosen = {int(fine[0]), int(fine[-1]), *({median - 1, median} & set(fine.tolist()))}
    return [values <= distinct[i] for i in sorted(chosen)]


def _children(levels: Ints, k: int) -> list[Bools]:
    apart = (levels != levels[0]).any(axis=0)
    if not apart.any():
        return []
    own = levels[:, int(apart.argmax())]
    children, counts = np.unique(own, return_counts=True)
    fine = np.flatnonzero((counts >= k) & (len(own) - counts >= k))
    largest = fine[np.argsort(-counts[fine], kind="stable")][:CHILDREN]
    return [own == children[i] for i in (largest[:1] if len(children) == 2 else largest)]
