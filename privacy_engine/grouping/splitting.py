"""Splitting classes of 2k records or more, which agglomeration leaves where small classes met large ones."""

import numba as nb
import numpy as np

from privacy_engine.grouping.boxes import Codes, Floats, Ints, Space, box_cost, enlarge


@nb.njit(cache=True, nogil=True)
def split_large(space: Space, tuples: Codes, counts: Ints, labels: Ints, k: int) -> Ints:
    """Cut classes of 2k or more in two, as often as both parts can keep k, where it costs least.

    A cut is a place in the order of one attribute's values (of a hierarchy: depth first). The total
    loss never rises. Identical records stay together.

    Args:
        space: costs of the attributes.
        tuples: (m, q) int32 distinct tuples.
        counts: (m,) int64, records of each.
        labels: (m,) int64, class of each tuple.
        k: least class size.

    Returns:
        labels: (m,) int64, each the number of a tuple of the class.
    """
    order = np.argsort(labels, kind="mergesort")
    labels = labels.copy()
    todo = [(0, 0) for _ in range(0)]
    begin = 0
    for i in range(1, len(order) + 1):
        if i == len(order) or labels[order[i]] != labels[order[begin]]:
            todo.append((begin, i))
            begin = i
    while len(todo) > 0:
        begin, end = todo.pop()
        members = order[begin:end]
        cut = 0
        if end - begin > 1 and counts[members].sum() >= 2 * k:
            cut = _cheapest_cut(space, tuples, counts, members, k)
        if cut > 0:
            todo.append((begin, begin + cut))
            todo.append((begin + cut, end))
        else:
            labels[members] = members.min()
    return labels


@nb.njit(cache=True, nogil=True)
def _cheapest_cut(space: Space, tuples: Codes, counts: Ints, members: Ints, k: int) -> int:
    """Put the members in the order of the best cut and return its place; 0 if no cut keeps k twice."""
    best, least = 0, np.inf
    chosen = members.copy()
    total = counts[members].sum()
    for j in range(tuples.shape[1]):
        keys = np.empty(len(members), np.int64)
        for i in range(len(members)):
            code = tuples[members[i], j]
            keys[i] = space.rank[space.start[j] + code] if space.tree[j] else code
        ordered = members[np.argsort(keys, kind="mergesort")]
        left = _prefix_costs(space, tuples, ordered)
        right = _prefix_costs(space, tuples, ordered[::-1].copy())
        size = 0
        for cut in range(1, len(ordered)):
            size += counts[ordered[cut - 1]]
            if size >= k and total - size >= k:
                loss = size * left[cut - 1] + (total - size) * right[len(ordered) - cut - 1]
                if loss < least:
                    best, least = cut, loss
                    chosen = ordered
    members[:] = chosen
    return best


@nb.njit(cache=True, nogil=True)
def _prefix_costs(space: Space, tuples: Codes, members: Ints) -> Floats:
    """Cost of the box of the first 1, 2, ... members."""
    costs = np.empty(len(members))
    lo, hi = tuples[members[0]].copy(), tuples[members[0]].copy()
    for i in range(len(members)):
        enlarge(space, lo, hi, tuples[members[i]], tuples[members[i]])
        costs[i] = box_cost(space, lo, hi)
    return costs
