"""Parts of a table that no view connects: each has a model of latent classes, independent of the others.

Few classes cannot represent many blocks of attributes that are independent of each other: b blocks of k
classes each would take k ** b. So what no measured table of several attributes connects is fitted apart. Only
views and models are read here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from privacy_engine.synthesizers.latent.latent_classes import (
    LatentClasses,
    View,
    mean_of,
    with_single_values,
)
from privacy_engine.synthesizers.latent.view_design import Members

MOST_TOGETHER = 8  # attributes that classes represent well if only few of their pairs were measured


class Forest:
    """Which attributes are connected so far.

    >>> forest = Forest(4)
    >>> forest.connect((0, 2))
    >>> [pair for pair in [(0, 1), (0, 2), (1, 3)] if forest.joins(pair)]
    [(0, 1), (1, 3)]
    >>> forest.trees()
    [(0, 2), (1,), (3,)]
    """

    def __init__(self, attributes: int) -> None:
        self._tree = list(range(attributes))

    def joins(self, pair: Sequence[int]) -> bool:
        """Whether a pair connects attributes that are not connected yet."""
        return self._tree[pair[0]] != self._tree[pair[1]]

    def connect(self, members: Sequence[int]) -> None:
        """Connect some attributes, and all that are connected with them."""
        joined = {self._tree[member] for member in members}
        self._tree = [min(joined) if tree in joined else tree for tree in self._tree]

    def trees_of(self, members: Sequence[int]) -> list[Members]:
        """The attributes of the trees that hold some attributes."""
        roots = {self._tree[member] for member in members}
        return [tuple(a for a, tree in enumerate(self._tree) if tree == root) for root in sorted(roots)]

    def trees(self) -> list[Members]:
        """The attributes of each tree, in ascending order."""
        return self.trees_of(range(len(self._tree)))


def connected(views: Sequence[View], attributes: int) -> list[Members]:
    """Sets of at least two attributes that views connect, in ascending order."""
    forest = Forest(attributes)
    for view in views:
        forest.connect(view.members)
    return [members for members in forest.trees() if len(members) > 1]


def small_parts(views: Sequence[View], attributes: int, most: int = MOST_TOGETHER) -> list[Members]:
    """Sets of 2 to ``most`` attributes that views connect, the strongest dependence first.

    Args:
        views: Noisy tables, of which those of several attributes connect these.
        attributes: Number of attributes.
        most: Most attributes of a set.
    """
    forest = Forest(attributes)
    for view in sorted((v for v in views if len(v.members) > 1), key=_dependence, reverse=True):
        if len({member for tree in forest.trees_of(view.members) for member in tree}) <= most:
            forest.connect(view.members)
    return [members for members in forest.trees() if len(members) > 1]


def _dependence(view: View) -> float:
    """L1 distance of a noisy table from the product of its margins."""
    axes = range(view.projected.ndim)
    margins = (view.projected.sum(axis=tuple(a for a in axes if a != axis)) for axis in axes)
    return float(np.abs(view.projected - reduce(np.multiply.outer, margins)).sum())


def views_within(views: Sequence[View], members: Collection[int]) -> tuple[View, ...]:
    """The views of some attributes, which are numbered by their order among these."""
    number = {member: i for i, member in enumerate(sorted(members))}
    return tuple(
        replace(view, members=tuple(number[m] for m in view.members))
        for view in views
        if number.keys() >= set(view.members)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Attributes that are fitted apart from all others.

    Attributes:
        members: Numbers of the attributes, ascending.
        views: Views of these attributes, numbered within the part.
        fitted: Models whose mean is released.
        is_implied: Whether they were fitted to the tables of `unmeasured_pairs` as well.
    """

    members: Members
    views: tuple[View, ...]
    fitted: tuple[LatentClasses, ...]
    is_implied: bool = False

    @property
    def classes(self) -> int:
        """Number of classes of one fitted model."""
        return len(self.fitted[0].weights)

    def model(self) -> LatentClasses:
        """The released model: the mean, its single attributes moved to the values in all views."""
        return with_single_values(mean_of(self.fitted), self.views)
