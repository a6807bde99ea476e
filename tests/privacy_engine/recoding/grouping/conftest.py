"""Geometries and brute-force losses for tables of a few records."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from privacy_engine.tables.geometry import Geometry


def geometry_of(*attributes: Sequence[float] | dict[int, int], weight: float = 1.0) -> Geometry:
    """Positions of an ordered attribute's codes, or the parents of a hierarchy's nodes but for the root."""
    tree, start, value, parent = [], [0], [], []
    for attribute in attributes:
        tree.append(isinstance(attribute, dict))
        if isinstance(attribute, dict):
            root = max(attribute.values())
            inner = {*attribute.values()}
            leaves = [node for node in attribute if node not in inner]
            under = Counter(node for leaf in leaves for node in ancestors(attribute, leaf))
            value += [
                weight * under[node] / len(leaves) if node in inner else 0.0 for node in range(root + 1)
            ]
            parent += [attribute.get(node, root) for node in range(root + 1)]
        else:
            value += [weight * position for position in attribute]
            parent += [0] * len(attribute)
        start.append(len(value))
    return Geometry(
        np.array(tree),
        np.array(start, np.int64),
        np.array(value),
        np.array(parent, np.int32),
        np.full(len(tree), np.inf),
    )


def ancestors(parents: dict[int, int], node: int) -> list[int]:
    """A node and all above it."""
    path = [node]
    while path[-1] in parents:
        path.append(parents[path[-1]])
    return path


def class_cost(codes: np.ndarray, geometry: Geometry) -> float:
    """Loss of one record of the class with these rows, by the definition."""
    total = 0.0
    for j in range(codes.shape[1]):
        part = slice(geometry.start[j], geometry.start[j + 1])
        value, parent = geometry.value[part], geometry.parent[part]
        if not geometry.tree[j]:
            total += min(value[codes[:, j].max()] - value[codes[:, j].min()], geometry.most[j])
            continue
        parents = {node: int(up) for node, up in enumerate(parent) if up != node}
        common = set.intersection(*(set(ancestors(parents, int(leaf))) for leaf in codes[:, j]))
        total += value[min(common)]
    return float(total)


def table_loss(codes: np.ndarray, labels: np.ndarray, geometry: Geometry) -> float:
    """Loss summed over the records that are in a class."""
    return sum(
        (labels == c).sum() * class_cost(codes[labels == c], geometry) for c in np.unique(labels) if c >= 0
    )


@pytest.fixture
def small_geometry() -> Geometry:
    """An ordered attribute of five codes and a hierarchy {{0, 1}, {2, 3}}; every weight 1/2."""
    return geometry_of([0.0, 0.1, 0.3, 0.6, 1.0], {0: 4, 1: 4, 2: 5, 3: 5, 4: 6, 5: 6}, weight=0.5)


@pytest.fixture
def wide_geometry() -> Geometry:
    """As `small_geometry`, with 40 codes and a hierarchy of 600 leaves: too wide to be tabulated."""
    parents = {leaf: 600 + leaf % 20 for leaf in range(600)} | {600 + group: 620 for group in range(20)}
    return geometry_of([i / 39 for i in range(40)], parents, weight=0.5)
