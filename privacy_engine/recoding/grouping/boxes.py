"""Boxes of the quasi-identifier space, what a class of records spans, and the cost of their unions.

A box is a pair of rows ``lo, hi`` (q,) as in `privacy_engine.tables.geometry`; its cost is the loss of one
record that is published with it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.tables.geometry import Geometry, apart, class_spans, common_ancestor, span_costs

WIDEST_TABLE = 512  # nodes of a hierarchy up to which all pairs are tabulated (2 MB each)

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Space(NamedTuple):
    """A `Geometry` with lowest common ancestors and their costs tabulated where that is small.

    tree, start, value, parent, most: as in `Geometry`.
    width: (q,) int64, nodes of a tabulated hierarchy; 0 where ancestors are found by climbing.
    offset: (q,) int64, first entry of attribute j's ``width x width`` tables.
    cost: float64, cost of the lowest common ancestor of a pair of nodes.
    node: int32, that ancestor.
    rank: int32, like `value`: place of a node in a depth-first walk, so that subtrees are runs.
    """

    tree: npt.NDArray[np.bool_]
    start: Ints
    value: Floats
    parent: Codes
    most: Floats
    width: Ints
    offset: Ints
    cost: Floats
    node: Codes
    rank: Codes


class Boxes(NamedTuple):
    """Classes as boxes.

    lo, hi: (m, q) int32.
    size: (m,) float64, records; 0 for a box without a class.
    cost: (m,) float64, loss of one record.
    """

    lo: Codes
    hi: Codes
    size: Floats
    cost: Floats


def boxes_of(codes: Codes, labels: Ints, geometry: Geometry) -> Boxes:
    """The boxes of classes ``labels`` (n,), 0 .. m - 1 without gaps; records labelled -1 are passed over."""
    size = np.bincount(labels[labels >= 0]).astype(np.float64)
    lo, hi = class_spans(codes, labels, len(size), geometry)
    return Boxes(lo, hi, size, span_costs(lo, hi, geometry).sum(axis=1))


def tabulate(geometry: Geometry) -> Space:
    """The space of a geometry, with its pair tables."""
    nodes = np.diff(geometry.start)
    width = np.where(geometry.tree & (nodes <= WIDEST_TABLE), nodes, 0).astype(np.int64)
    offset = np.concatenate(([0], np.cumsum(width**2)[:-1])).astype(np.int64)
    tables = _pair_tables(geometry, width, offset, int((width**2).sum()))
    return Space(*geometry, width, offset, *tables)


@kernel(nogil=True)
def _pair_tables(geometry: Geometry, width: Ints, offset: Ints, entries: int) -> tuple[Floats, Codes, Codes]:
    cost, node = np.empty(entries), np.empty(entries, np.int32)
    rank = np.zeros(len(geometry.value), np.int32)
    for j in range(len(width)):
        start = geometry.start[j]
        for a in range(width[j]):
            for b in range(width[j]):
                u = common_ancestor(geometry.parent, start, a, b)
                cost[offset[j] + a * width[j] + b] = geometry.value[start + u]
                node[offset[j] + a * width[j] + b] = u
        if geometry.tree[j]:
            end = geometry.start[j + 1]
            _depth_first_ranks(geometry.parent[start:end], rank[start:end])
    return cost, node, rank


@kernel(nogil=True, inner=True)
def _depth_first_ranks(parent: Codes, rank: Codes) -> None:
    """Pre-order places: a parent's number is larger than its children's, so one pass each way does."""
    m = len(parent)
    weight = np.ones(m, np.int32)
    for u in range(m - 1):
        weight[parent[u]] += weight[u]
    taken = np.ones(m, np.int32)
    rank[m - 1] = 0
    for u in range(m - 2, -1, -1):
        rank[u] = rank[parent[u]] + taken[parent[u]]
        taken[parent[u]] += weight[u]


@kernel(inline="always")
def join_node(space: Space, j: int, a: int, b: int) -> int:
    """Lowest common ancestor of two nodes of hierarchy j."""
    w = space.width[j]
    if w > 0:
        return int(space.node[space.offset[j] + a * w + b])
    return common_ancestor(space.parent, space.start[j], a, b)


@kernel(inline="always")
def join_cost(space: Space, j: int, alo: int, ahi: int, blo: int, bhi: int) -> float:
    """Cost in attribute j of the union of two boxes."""
    start = space.start[j]
    if space.tree[j]:
        w = space.width[j]
        if w > 0:
            return float(space.cost[space.offset[j] + alo * w + blo])
        return float(space.value[start + common_ancestor(space.parent, start, alo, blo)])
    return float(apart(space.value, start + min(alo, blo), start + max(ahi, bhi), space.most[j]))


@kernel(inline="always")
def union_cost(space: Space, alo: Codes, ahi: Codes, blo: Codes, bhi: Codes) -> float:
    """Cost of the union of two boxes: the loss of one record in it."""
    return union_cost_up_to(space, alo, ahi, blo, bhi, np.inf)


@kernel(nogil=True, inner=True)
def union_cost_up_to(space: Space, alo: Codes, ahi: Codes, blo: Codes, bhi: Codes, limit: float) -> float:
    """Cost of the union of two boxes; infinity once it exceeds the limit."""
    # Neither inlined nor with a field of `space` in the loop: numba would count references, 50 times slower.
    tree, start, value, parent = space.tree, space.start, space.value, space.parent
    most, width, offset, cost = space.most, space.width, space.offset, space.cost
    total = 0.0
    for j in range(len(alo)):
        if not tree[j]:
            total += apart(value, start[j] + min(alo[j], blo[j]), start[j] + max(ahi[j], bhi[j]), most[j])
        elif width[j] > 0:
            total += cost[offset[j] + alo[j] * width[j] + blo[j]]
        else:
            total += value[start[j] + common_ancestor(parent, start[j], alo[j], blo[j])]
        if total > limit:
            return np.inf
    return total


@kernel(nogil=True, inner=True)
def enlarge(space: Space, lo: Codes, hi: Codes, blo: Codes, bhi: Codes) -> None:
    """Grow the box lo, hi in place so that it covers the other."""
    tree, start, parent = space.tree, space.start, space.parent
    width, offset, node = space.width, space.offset, space.node
    for j in range(len(lo)):
        if not tree[j]:
            lo[j] = min(lo[j], blo[j])
            hi[j] = max(hi[j], bhi[j])
            continue
        if width[j] > 0:
            lo[j] = node[offset[j] + lo[j] * width[j] + blo[j]]
        else:
            lo[j] = common_ancestor(parent, start[j], lo[j], blo[j])
        hi[j] = lo[j]


@kernel(inline="always")
def box_cost(space: Space, lo: Codes, hi: Codes) -> float:
    """Loss of one record that is published with this box."""
    return union_cost(space, lo, hi, lo, hi)
