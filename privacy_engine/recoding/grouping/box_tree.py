"""Exact search for the box whose union with a given one costs least.

A k-d tree over boxes. A node of it knows, per attribute, what every box under it must span at
least, so a lower bound of the union's cost prunes whole subtrees and the answer stays exact.
Bounds are sums of the same terms in the same order as the costs themselves; rounding is monotone,
so a bound never exceeds the cost that it bounds.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.boxes import (
    Boxes,
    Codes,
    Floats,
    Ints,
    Space,
    join_node,
    union_cost_up_to,
)
from privacy_engine.tables.geometry import apart, common_ancestor

SAMPLE = 32  # boxes of a node from which the gain of a cut is estimated
WIDE = 100  # nodes of a hierarchy above which boxes with one of its values are found by the value
ALIKE = 256  # boxes up to which those with one value are
LEAF = 8  # boxes in a leaf of the tree: below this a scan is quicker than more bounds


class Criterion(IntEnum):
    """How the union of classes G and H, of g and h records, is priced; c is the cost of a record.

    WHOLE: (g + h) c(G u H), the loss of the union, as Xu et al. (2006) and Zhu et al. (2010) do.
    INCREASE: g (c(G u H) - c(G)) + h (c(G u H) - c(H)), what the merge adds to the table's loss.
    """

    WHOLE = 0
    INCREASE = 1


INCREASE = int(Criterion.INCREASE)  # numba compiles a function once more for a member of an enumeration


class BoxTree(NamedTuple):
    """A k-d tree over m boxes; node 0 is the root, children of t are ``child[t]`` and ``child[t] + 1``.

    order: (m,) int64, box numbers; node t covers ``order[begin[t] : end[t]]``.
    child: (nodes,) int64, 0 for a leaf of the tree.
    low, high: (nodes, q) int32. Ordered attribute: largest ``lo`` and smallest ``hi`` under the
        node. Hierarchy: the first and the last node of all boxes in a depth-first walk.
    smallest, dearest: (nodes,) float64, smallest size and largest cost under the node.
    depth: int, nodes from the root to the deepest leaf.
    wide: (w,) int64, the hierarchies of more than `WIDE` nodes.
    walk, node: (w, m) int64 and int32, the boxes in the order of a depth-first walk of each of these
        hierarchies, -1 = removed, and their nodes in it.
    """

    order: Ints
    begin: Ints
    end: Ints
    child: Ints
    low: Codes
    high: Codes
    smallest: Floats
    dearest: Floats
    depth: int
    wide: Ints
    walk: Ints
    node: Codes


@kernel(nogil=True)
def plant(space: Space, boxes: Boxes, members: Ints) -> BoxTree:
    """Build the search tree over the boxes with the numbers ``members``."""
    lo, hi, size, cost = boxes
    m, q = len(members), lo.shape[1]
    most = m + 3
    order = members.copy()
    begin, end = np.zeros(most, np.int64), np.zeros(most, np.int64)
    child, level = np.zeros(most, np.int64), np.ones(most, np.int64)
    low, high = np.empty((most, q), np.int32), np.empty((most, q), np.int32)
    smallest, dearest = np.full(most, np.inf), np.zeros(most)
    end[0] = m
    used, t = 1, 0
    key = np.empty(m)
    while t < used:
        widest = _bound_node(space, lo, hi, order[begin[t] : end[t]], low[t], high[t])
        for i in order[begin[t] : end[t]]:
            smallest[t] = min(smallest[t], size[i])
            dearest[t] = max(dearest[t], cost[i])
        if end[t] - begin[t] > LEAF and used + 2 <= most:
            cut = _cut(space, lo, hi, order[begin[t] : end[t]], key, widest)
            if cut > 0:
                child[t] = used
                begin[used], end[used] = begin[t], begin[t] + cut
                begin[used + 1], end[used + 1] = begin[t] + cut, end[t]
                level[used : used + 2] = level[t] + 1
                used += 2
        t += 1
    depth = level[:used].max()
    wide, walk, node = _walks(space, lo, members)
    return BoxTree(
        order, begin[:used], end[:used], child[:used], low[:used], high[:used], smallest, dearest, depth,
        wide, walk, node,
    )  # fmt: skip


@kernel(nogil=True, inner=True)
def _walks(space: Space, lo: Codes, members: Ints) -> tuple[Ints, Ints, Codes]:
    """`wide`, `walk` and `node` of a tree."""
    wide = np.flatnonzero(space.tree & (space.start[1:] - space.start[:-1] > WIDE))
    walk, node = np.empty((len(wide), len(members)), np.int64), np.empty((len(wide), len(members)), np.int32)
    key = np.empty(len(members), np.int64)
    for w in range(len(wide)):
        j = wide[w]
        for i in range(len(members)):
            key[i] = space.rank[space.start[j] + lo[members[i], j]]
        walk[w] = members[stable_order(key)]
        for i in range(len(members)):
            node[w, i] = lo[walk[w, i], j]
    return wide, walk, node


@kernel(nogil=True)
def uproot(grown: BoxTree, gone: npt.NDArray[np.bool_]) -> None:
    """Remove boxes (m,) that are gone from the leaves of a tree; its bounds still hold for the others."""
    for t in range(len(grown.child)):
        if grown.child[t] == 0:
            end = grown.begin[t]
            for i in grown.order[grown.begin[t] : grown.end[t]]:
                if not gone[i]:
                    grown.order[end] = i
                    end += 1
            grown.end[t] = end
    for w in range(len(grown.wide)):
        for i in range(grown.walk.shape[1]):
            if grown.walk[w, i] >= 0 and gone[grown.walk[w, i]]:
                grown.walk[w, i] = -1


@kernel(nogil=True, inner=True)
def _bound_node(space: Space, lo: Codes, hi: Codes, items: Ints, low: Codes, high: Codes) -> int:
    """Fill a node's bounds; return the attribute in which a cut separates its boxes best."""
    tree, start, value, rank = space.tree, space.start, space.value, space.rank
    widest, most = 0, -1.0
    for j in range(lo.shape[1]):
        if len(items) == 0:
            low[j], high[j] = 0, 0
            continue
        v = start[j]
        low[j], high[j] = lo[items[0], j], hi[items[0], j]
        if tree[j]:
            for i in items[1:]:
                if rank[v + lo[i, j]] < rank[v + low[j]]:
                    low[j] = lo[i, j]
                if rank[v + lo[i, j]] > rank[v + high[j]]:
                    high[j] = lo[i, j]
            spread = 0.0 if low[j] == high[j] else _gain(space, lo, items, j)
        else:
            for i in items[1:]:
                low[j] = max(low[j], lo[i, j])
                high[j] = min(high[j], hi[i, j])
            spread = abs(value[v + low[j]] - value[v + high[j]])
        if spread > most:
            widest, most = j, spread
    return widest


@kernel(nogil=True, inner=True)
def _gain(space: Space, lo: Codes, items: Ints, j: int) -> float:
    """Return twice the decrease of the span in hierarchy j by a cut at the median; on a sample.

    A cut between two of a thousand children of one node lowers nothing: both parts span the node.
    """
    few = min(len(items), SAMPLE)
    node, key = np.empty(few, np.int64), np.empty(few, np.int64)
    for s in range(few):
        node[s] = lo[items[s * len(items) // few], j]
        key[s] = space.rank[space.start[j] + node[s]]
    node = node[stable_order(key)]
    v, half = space.start[j], few // 2
    whole = space.value[v + join_node(space, j, node[0], node[few - 1])]
    left = space.value[v + join_node(space, j, node[0], node[half - 1])] if half > 0 else 0.0
    right = space.value[v + join_node(space, j, node[half], node[few - 1])]
    return float(2 * whole - left - right)


@kernel(nogil=True)
def _cut(space: Space, lo: Codes, hi: Codes, items: Ints, key: Floats, j: int) -> int:
    """Sort the items by attribute j and return where to cut: the boundary nearest the median, or 0."""
    m = len(items)
    v = space.start[j]
    for t in range(m):
        i = items[t]
        if space.tree[j]:
            key[t] = space.rank[v + lo[i, j]]
        else:
            key[t] = space.value[v + lo[i, j]] + space.value[v + hi[i, j]]
    by = stable_order(key[:m])
    items[:] = items[by]
    half = m // 2
    for away in range(half + 1):
        for cut in (half - away, half + away):
            if 0 < cut < m and key[by[cut - 1]] != key[by[cut]]:
                return cut
    return half


@kernel(nogil=True, inner=True)
def _union_bound(space: Space, grown: BoxTree, t: int, lo: Codes, hi: Codes, floor: Floats) -> float:
    """The least that the union of box lo, hi with any box under node t can cost.

    floor: (q,) the least in each hierarchy.
    """
    # The fields are read once: in the loop they would count references, at many times the cost.
    tree, start, value, parent, rank = space.tree, space.start, space.value, space.parent, space.rank
    most, width, offset, node = space.most, space.width, space.offset, space.node
    low, high = grown.low, grown.high
    total = 0.0
    for j in range(len(lo)):
        v = start[j]
        if not tree[j]:
            total += apart(value, v + min(lo[j], low[t, j]), v + max(hi[j], high[t, j]), most[j])
            continue
        # A subtree is a run of the walk, so no node of the run [low, high] has a lower common ancestor
        # with one outside of it than the nearer end has. Inside the run a box may add nothing.
        at = rank[v + lo[j]]
        if at < rank[v + low[t, j]]:
            end = low[t, j]
        elif at > rank[v + high[t, j]]:
            end = high[t, j]
        else:
            total += floor[j]
            continue
        if width[j] > 0:
            u = node[offset[j] + lo[j] * width[j] + end]
        else:
            u = common_ancestor(parent, v, lo[j], end)
        total += max(value[v + u], floor[j])
    return total


@kernel(nogil=True)
def cheapest(
    space: Space,
    boxes: Boxes,
    grown: BoxTree,
    lo: Codes,
    hi: Codes,
    size: float,
    cost: float,
    skip: int,
    criterion: int,
    bar: float,
    found: Ints,
    price: Floats,
) -> int:
    """Find the boxes whose union with a given one costs least; exact, ties to the smaller number.

    Args:
        space: Costs of the attributes.
        boxes: All boxes among which partners are searched.
        grown: Their search tree.
        lo: Lower ends of the given box, shape (q,) int32.
        hi: Upper ends of the given box, shape (q,) int32.
        size: Records of the given box.
        cost: Loss of one of them.
        skip: Number of a box to leave out, or -1.
        criterion: Number of the `Criterion` that prices a union.
        bar: Price above which partners are ignored; infinity for none.
        found: Filled with the numbers of boxes, cheapest first, shape (few,).
        price: Filled with their prices, shape (few,).

    Returns:
        Number found: fewer than requested only if there are no more.
    """
    few, have, top, worst = len(found), 0, 1, bar
    # Boxes with the given box's value are priced first. All others differ in it, at a cost that prunes the
    # tree where most values are rare.
    floor, first, last = _floors(space, grown, lo)
    for w in range(len(first)):
        for i in grown.walk[w, first[w] : last[w]]:
            if i >= 0 and i != skip:
                p = _price_up_to(space, boxes, i, lo, hi, size, cost, criterion, worst)
                if p <= worst and not _is_listed(found, have, i):
                    have = insert(found, price, have, i, p)
                    if have == few:
                        worst = min(bar, price[few - 1])
    stack, bound = np.empty(grown.depth + 2, np.int64), np.empty(grown.depth + 2)
    stack[0], bound[0] = 0, 0.0
    while top > 0:
        top -= 1
        t = stack[top]
        if bound[top] > worst:
            continue
        near, far = grown.child[t], grown.child[t] + 1
        if near > 0:
            b = _price_bound(space, grown, near, lo, hi, size, cost, criterion, floor)
            c = _price_bound(space, grown, far, lo, hi, size, cost, criterion, floor)
            if b > c:
                near, far, b, c = far, near, c, b
            if c <= worst:
                stack[top], bound[top] = far, c
                top += 1
            if b <= worst:
                stack[top], bound[top] = near, b
                top += 1
            continue
        for i in grown.order[grown.begin[t] : grown.end[t]]:
            if i == skip:
                continue
            p = _price_up_to(space, boxes, i, lo, hi, size, cost, criterion, worst)
            if p <= worst and not (len(first) > 0 and _is_listed(found, have, i)):
                have = insert(found, price, have, i, p)
                if have == few:
                    worst = min(bar, price[few - 1])
    return have


@kernel(nogil=True, inner=True)
def _floors(space: Space, grown: BoxTree, lo: Codes) -> tuple[Floats, Ints, Ints]:
    """(q,) the least cost in each hierarchy of a union with any box but ``walk[w, first[w] : last[w]]``.

    In hierarchy ``wide[w]`` these add nothing to the given box. They are a run of the walk, because subtrees
    are; and of all other boxes, those next to the run have the lowest common ancestors with the given one.
    """
    value, rank, m = space.value, space.rank, grown.walk.shape[1]
    floor = np.zeros(len(lo))
    for j in range(len(lo)):
        if space.tree[j]:
            floor[j] = value[space.start[j] + lo[j]]
    first, last = np.zeros(len(grown.wide), np.int64), np.zeros(len(grown.wide), np.int64)
    for w in range(len(grown.wide)):
        j, node = grown.wide[w], grown.node[w]
        v, own = space.start[j], lo[grown.wide[w]]
        begin, end = 0, m
        while begin < end:
            middle = (begin + end) // 2
            if rank[v + node[middle]] < rank[v + own]:
                begin = middle + 1
            else:
                end = middle
        least = np.inf
        while end < m and end - begin <= ALIKE:
            met = value[v + join_node(space, j, own, node[end])]
            if met > floor[j]:
                least = met
                break
            end += 1
        while begin > 0 and end - begin <= ALIKE:
            met = value[v + join_node(space, j, own, node[begin - 1])]
            if met > floor[j]:
                least = min(least, met)
                break
            begin -= 1
        if end - begin <= ALIKE:
            first[w], last[w], floor[j] = begin, end, least
    return floor, first, last


@kernel(nogil=True, inner=True)
def _is_listed(found: Ints, have: int, i: int) -> bool:
    """Whether box i is among the first that were found."""
    listed = False
    for s in range(have):
        listed |= found[s] == i
    return listed


@kernel(nogil=True, inner=True)
def _price_up_to(
    space: Space,
    boxes: Boxes,
    i: int,
    lo: Codes,
    hi: Codes,
    size: float,
    cost: float,
    criterion: int,
    worst: float,
) -> float:
    """Return the price of the union with box i; infinity if it exceeds the worst price in use."""
    h, cost_h = boxes.size[i], boxes.cost[i]
    if criterion == Criterion.WHOLE:
        limit = worst / (size + h)
    else:
        limit = (worst + size * cost + h * cost_h) / (size + h)
    # The price reaches `worst` at this union; the margin is for rounding.
    union = union_cost_up_to(space, lo, hi, boxes.lo[i], boxes.hi[i], limit * (1 + 1e-9) + 1e-15)
    return merge_price(size, cost, h, cost_h, union, criterion)


@kernel(inline="always")
def merge_price(g: float, cost_g: float, h: float, cost_h: float, union: float, criterion: int) -> float:
    """The price of a merge by its `Criterion`; `union` is the cost of a record in the union."""
    if criterion == Criterion.WHOLE:
        return (g + h) * union
    return g * (union - cost_g) + h * max(0.0, union - cost_h)


@kernel(nogil=True, inner=True)
def _price_bound(
    space: Space,
    grown: BoxTree,
    t: int,
    lo: Codes,
    hi: Codes,
    size: float,
    cost: float,
    criterion: int,
    floor: Floats,
) -> float:
    """The least that a union with any box under node t can be priced."""
    union = _union_bound(space, grown, t, lo, hi, floor)
    return merge_price(size, cost, grown.smallest[t], grown.dearest[t], union, criterion)


@kernel(nogil=True, inner=True)
def insert(found: Ints, price: Floats, have: int, i: int, p: float) -> int:
    """Insert box i at its place among the cheapest; return how many there are."""
    few = len(found)
    if have == few:
        if p > price[few - 1] or (p == price[few - 1] and i > found[few - 1]):
            return have
    else:
        have += 1
    at = have - 1
    while at > 0 and (p < price[at - 1] or (p == price[at - 1] and i < found[at - 1])):
        found[at], price[at] = found[at - 1], price[at - 1]
        at -= 1
    found[at], price[at] = i, p
    return have
