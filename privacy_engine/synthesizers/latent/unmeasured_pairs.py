"""Pairs of attributes that no view holds: what a tree of the measured pairs implies about them.

Many classes fit the measured tables closely, and leave all other pairs to chance: attributes that no view
holds together come out dependent where they are not. A tree of the strongest measured pairs implies the
tables of the others (Chow, Liu: Approximating Discrete Probability Distributions with Dependence Trees,
1968): two attributes are independent given those on the path between them. The model is fitted to these
tables as well, as to views with more noise. The tree is not used where it misses measured pairs by more than
their noise, as where one group of people causes all dependence, or where its own pairs hardly exceed theirs.

Only noisy tables are read here: post-processing.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.latent.latent_classes import LEAST, View, by_group, single_values
from privacy_engine.synthesizers.latent.parts import Forest
from privacy_engine.synthesizers.latent.rare_values import coarse_groups
from privacy_engine.synthesizers.postprocess import raked

Floats = npt.NDArray[np.float64]
Pair = tuple[int, int]

NOISIER = 3.0  # scale of the noise of an implied table, in those of a view
CLEAR = 0.1  # most noise of the pairs of the tree, in their squared dependence, with which it is used
CLOSE = 1.0  # most squared distance of other measured pairs from the tree's beyond their noise, in this noise
MOST_VALUES = 12  # of an attribute in an implied table: bounds the time of the fits
LEAST_INFORMATION = 1e-4  # nats of a pair of the tree


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredPair:
    """The table of a pair in all views that hold it.

    Attributes:
        cells: Noisy probabilities, shape (s, t).
        noise: Expected sum of squares of the noise of all cells.
    """

    cells: Floats
    noise: float

    def squared_distance(self, table: Floats) -> float:
        """Return the sum of squared differences from a table of the same shape."""
        return float(((self.cells - table) ** 2).sum())

    def denoised(self, expected: Floats) -> Floats:
        """Return the table moved towards the one of independent attributes as far as noise explains it.

        The positive part of James and Stein (Estimation with Quadratic Loss, 1961), with the attributes'
        own shares.

        Args:
            expected: Product of the attributes' shares, of the same shape.
        """
        length = self.squared_distance(expected)
        part = max(0.0, 1 - self.noise / length) if length else 0.0
        table = np.maximum(expected + part * (self.cells - expected), expected * LEAST)
        return raked(table, expected.sum(axis=1), expected.sum(axis=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """A tree of the pairs that share most information, or several trees.

    Attributes:
        shares: Distribution of each attribute, shape (d,).
        pairs: Pairs that views hold.
        neighbours: For each attribute, its neighbours, each with the distributions of its values given those
            of the attribute, shape (s, t).
    """

    shares: tuple[Floats, ...]
    pairs: Mapping[Pair, MeasuredPair]
    neighbours: tuple[dict[int, Floats], ...]

    @classmethod
    def of(cls, views: Sequence[View], sizes: Sequence[int]) -> Self:
        """The tree of the pairs that some views hold.

        Args:
            views: Noisy tables of these attributes.
            sizes: Number of values of each attribute.
        """
        shares = tuple(_shares(views, attribute, size) for attribute, size in enumerate(sizes))
        pairs = _measured_pairs(views, shares)
        tables, information = dict[Pair, Floats](), dict[Pair, float]()
        for pair, measured in pairs.items():
            expected = np.multiply.outer(*(shares[a] for a in pair))
            tables[pair] = measured.denoised(expected)
            information[pair] = float((tables[pair] * np.log(tables[pair] / expected)).sum())
        forest, neighbours = Forest(len(sizes)), tuple(dict[int, Floats]() for _ in sizes)
        for pair in sorted(information, key=information.__getitem__, reverse=True):
            if information[pair] > LEAST_INFORMATION and forest.joins(pair):
                (a, b), table = pair, tables[pair]
                neighbours[a][b], neighbours[b][a] = table / shares[a][:, None], table.T / shares[b][:, None]
                forest.connect(pair)
        return cls(shares=shares, pairs=pairs, neighbours=neighbours)

    def independent(self, first: int, second: int) -> Floats:
        """The table of two attributes that do not depend on each other."""
        return np.multiply.outer(self.shares[first], self.shares[second])

    def implied(self) -> dict[Pair, Floats]:
        """The table that the tree implies of each pair."""
        found: dict[Pair, Floats] = {}
        for first, own in enumerate(self.shares):
            found |= {(first, b): np.multiply.outer(own, self.shares[b]) for b in range(len(self.shares))}
            left = [(first, -1, np.diag(own))]
            while left:
                at, before, table = left.pop()
                for after, given in self.neighbours[at].items():
                    if after != before:
                        found[first, after] = table @ given
                        left.append((after, at, found[first, after]))
        return {pair: table for pair, table in found.items() if pair[0] < pair[1]}

    def is_clear(self) -> bool:
        """Whether its pairs depend on each other by far more than their noise.

        Else each step of a path hides some dependence, and many implied tables that are too near to
        independence outweigh the measured ones.
        """
        pairs = [(a, b) for a, own in enumerate(self.neighbours) for b in own if a < b]
        noise = math.fsum(self.pairs[pair].noise for pair in pairs)
        return noise <= CLEAR * math.fsum(
            self.pairs[a, b].squared_distance(self.independent(a, b)) for a, b in pairs
        )

    def is_close(self, implied: Mapping[Pair, Floats]) -> bool:
        """Whether measured pairs that are not in the tree are as it implies, up to their noise."""
        apart = {pair: m for pair, m in self.pairs.items() if pair[1] not in self.neighbours[pair[0]]}
        off = math.fsum(m.squared_distance(implied[pair]) for pair, m in apart.items())
        noise = math.fsum(m.noise for m in apart.values())
        return off <= (1 + CLOSE) * noise


def implied_views(
    views: Sequence[View], sizes: Sequence[int], on_scale: Sequence[int], *, only_if_close: bool = True
) -> tuple[View, ...]:
    """Tables of the pairs that are in no view, as the tree of the others implies them; none if it is wrong.

    Args:
        views: Noisy tables of these attributes.
        sizes: Number of values of each attribute.
        on_scale: Number of leading values of each attribute that lie on a scale.
        only_if_close: Whether the tree has to imply measured pairs up to their noise.
    """
    joint = [view.scale for view in views if len(view.members) > 1]
    if not joint:
        return ()
    tree = Tree.of(views, sizes)
    if only_if_close and not tree.is_clear():
        return ()
    implied = tree.implied()
    if only_if_close and not tree.is_close(implied):
        return ()
    groups = [
        coarse_groups(own, MOST_VALUES, scaled) if len(own) > MOST_VALUES else None
        for own, scaled in zip(tree.shares, on_scale, strict=True)
    ]
    scale = NOISIER * float(np.median(joint))
    found = []
    for pair in itertools.combinations(range(len(sizes)), 2):
        if pair not in tree.pairs:
            first, second = (groups[a] for a in pair)
            cells = by_group(by_group(implied[pair], second).T, first).T
            found.append(
                View(
                    members=pair,
                    cells=cells,
                    scale=scale,
                    projected=cells / cells.sum(),
                    groups=(first, second),
                )
            )
    return tuple(found)


def _shares(views: Sequence[View], attribute: int, size: int) -> Floats:
    shares, precision = single_values(views, attribute, size)
    shares = np.maximum(shares, LEAST) if precision else np.ones(size)
    return np.asarray(shares / shares.sum())


def _measured_pairs(views: Sequence[View], shares: Sequence[Floats]) -> dict[Pair, MeasuredPair]:
    """Each pair in a view; the mean by precision where several hold it."""
    sums = dict[Pair, tuple[Floats, float]]()
    for view in views:
        groups = view.groups or (None,) * len(view.members)
        for axes in itertools.combinations(range(len(view.members)), 2):
            others = tuple(axis for axis in range(view.cells.ndim) if axis not in axes)
            table = view.cells.sum(axis=others)
            noise = view.variance * view.cells.size  # that of a cell grows as cells are added up
            for axis, (own, group_of) in enumerate((shares[view.members[a]], groups[a]) for a in axes):
                if group_of is not None:
                    part = own / np.bincount(group_of, own)[group_of]
                    table = np.take(table, group_of, axis=axis) * (part[:, None] if axis == 0 else part)
            first, second = (view.members[a] for a in axes)
            pair, table = ((first, second), table) if first < second else ((second, first), table.T)
            total, precision = sums.get(pair, (np.zeros(table.shape), 0.0))
            sums[pair] = total + table / noise, precision + 1 / noise
    return {
        pair: MeasuredPair(cells=total / precision, noise=1 / precision)
        for pair, (total, precision) in sums.items()
    }
