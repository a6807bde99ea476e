"""A lower bound of the loss of every k-anonymous release, from the least box around each record.

What it covers: every release that puts records into classes of at least k, by any method, and shows for each
class and quasi-identifier something that covers all its values: an interval, or a node of the hierarchy
(charged as in `tables.geometry`, the charge by lowest common ancestor). So it covers local, multidimensional
and global recoding, and suppression of cells, and of any number of records, if a suppressed record costs as
much as the whole domain of each attribute. It does not cover releases whose cells need not cover the values
(swapping, noise, microaggregation to means), nor sets charged by their own size.

Proof. Let T(B) be the cost of a record in box B. T grows with B. A record i in a class C with box B is in a
box that holds k records, hence ``T(B) >= b_i``, the least cost of a box that holds i and k - 1 other records.
A suppressed record costs the whole domain, and so no less than any box. Summed over all records, the loss is
at least the sum of the b_i. Further requirements on a class (persons, l, t) only remove releases: k persons
have at least k records. So the bound holds for them as well, but is not sharpened.

b_i is found by branch and bound: a node is a box around i, its records, and the records that may still be
added; the cheapest of these is added in one branch and left out in the other. The (k - 1)-th smallest cost of
a union with one more record bounds a node from below. The search is capped in steps; unopened nodes then
count with their bound, so the result stays a bound. At worst it is the distance to the (k - 1)-th nearest
neighbour.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.agglomeration import distinct_tuples
from privacy_engine.recoding.grouping.boxes import (
    Codes,
    Floats,
    Ints,
    Space,
    box_cost,
    enlarge,
    tabulate,
    union_cost,
    union_cost_up_to,
)
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import Geometry, common_ancestor
from privacy_engine.tables.geometry import apart as ordered_cost

STEPS = 2_000  # costs of unions that are computed for a tuple; ten times as many gain 2 % on Adult at k = 10
MOST_TUPLES = 20_000  # distinct tuples; the work grows with their square: 1 to 4 CPU s at 12,500
SAFE = 1.0 - 1e-9  # sums of floats are off by less
NEIGHBOURS = 8  # times k, tuples that are priced for a first guess of the k nearest
OPEN = 256  # nodes that wait at most, in the search of one box


def least_gcp(encoded: EncodedTable, k: int) -> float | None:
    """What no k-anonymous release of the table can go below in GCP (equal weights, lowest common ancestor).

    1 if there are fewer than k records: none can be released. None if there are more than `MOST_TUPLES`
    distinct tuples of quasi-identifiers, which would take too long. For a part of a table it only bounds that
    part, not the whole.
    """
    tuples, _, counts = distinct_tuples(np.ascontiguousarray(encoded.codes, np.int32))
    if len(tuples) > MOST_TUPLES:
        return None
    if len(encoded) < k:
        return 1.0
    return mean_of_least_boxes(tuples, counts, encoded.geometry(), k)


def mean_of_least_boxes(tuples: Codes, counts: Ints, geometry: Geometry, k: int, steps: int = STEPS) -> float:
    """The bound: mean over records of the cost of the least box that holds k of them.

    Args:
        tuples: Distinct rows of codes, shape (m, q) int32.
        counts: Number of records of each, k or more in total, shape (m,) int64.
        geometry: Costs of the attributes.
        k: Least class size.
        steps: Unions that are priced for a tuple before its search gives up.
    """
    least = _least_boxes(tabulate(geometry), _walk_of(tuples), tuples, counts, k, steps)
    return float(least @ counts / counts.sum() * SAFE)


class Walk(NamedTuple):
    """An order of the tuples in which those that agree in the most distinguishing attributes are neighbours.

    axes: (q,) int64, attributes in the order in which the walk compares them.
    order: (m,) int64, tuples in ascending order of their codes in these attributes.
    place: (m,) int64, place of each tuple in that order.
    end: (m, q) int64, first later place whose codes differ in one of the first d + 1 axes.
    fresh: (m,) int64, first axis in which a place differs from the one before it.
    """

    axes: Ints
    order: Ints
    place: Ints
    end: Ints
    fresh: Ints


def _walk_of(tuples: Codes) -> Walk:
    """The walk that compares attributes of few values first: to differ in one of these costs the most."""
    m, q = tuples.shape
    axes = np.argsort([len(np.unique(column)) for column in tuples.T], kind="stable")
    order = np.lexsort(tuples.T[axes[::-1]])
    ranked = tuples[order][:, axes]
    differs = np.logical_or.accumulate(ranked[1:] != ranked[:-1], axis=1)
    last = np.ones((1, q), np.bool_)
    next_place = np.where(np.concatenate((differs, last)), np.arange(1, m + 1)[:, np.newaxis], m)
    end = np.minimum.accumulate(next_place[::-1], axis=0)[::-1]
    fresh = np.concatenate(([0], np.argmax(differs, axis=1)))
    return Walk(axes, order, np.argsort(order), np.ascontiguousarray(end), fresh)


@kernel(parallel=True)
def _least_boxes(space: Space, walk: Walk, tuples: Codes, counts: Ints, k: int, steps: int) -> Floats:
    """(m,) a lower bound of the cost of a box that holds each tuple and k records; exact within the steps."""
    found = np.zeros(len(counts))
    for t in nb.prange(len(counts)):
        if counts[t] < k:
            at: Any = np.int64(
                t
            )  # `prange` counts without a sign, for which all below would be compiled again
            found[t] = _least_box(space, walk, tuples, counts, at, k, steps)
    return found


@kernel(nogil=True, inner=True)
def _least_box(space: Space, walk: Walk, tuples: Codes, counts: Ints, t: int, k: int, steps: int) -> float:
    m = len(counts)
    within, apart = np.empty(m, np.int64), np.empty(m)
    near = np.empty(k, np.int64)
    # No fewer than k tuples are as near as the farthest of any k: the best of the neighbours in the walk.
    few = min(NEIGHBOURS * k, m)
    first = max(min(walk.place[t] - few // 2, m - few), 0)
    for n in range(few):
        within[n] = walk.order[first + n]
        apart[n] = union_cost(space, tuples[t], tuples[t], tuples[within[n]], tuples[within[n]])
    held = _nearest(within, apart, few, near)
    limit = apart[near[k - 1]] if held == k else np.inf
    held = _nearest(within, apart, _tuples_within(space, walk, tuples, t, limit, within, apart), near)
    have, bound = 0, 0.0
    lo, hi = tuples[t].copy(), tuples[t].copy()
    for i in range(held):
        s = within[near[i]]
        if have < k:
            have += counts[s]
            bound = apart[near[i]]
            enlarge(space, lo, hi, tuples[s], tuples[s])
    most = box_cost(space, lo, hi)
    if most <= bound:
        return bound
    few = 0
    for n in range(_tuples_within(space, walk, tuples, t, most, within, apart)):
        if within[n] != t and apart[n] < most:
            within[few] = within[n]
            apart[few] = within[n]
            few += 1
    others = within[:few][stable_order(apart[:few])]
    return _branch_and_bound(space, tuples, counts, t, others, k, bound, most, steps)


@kernel(nogil=True, inner=True)
def _nearest(within: Ints, apart: Floats, few: int, near: Ints) -> int:
    """Write the places in `within` of the k nearest tuples, nearest first; their number, at most k."""
    k, held = len(near), 0
    for n in range(few):
        if held == k and not _is_nearer(within, apart, n, near[k - 1]):
            continue
        i = min(held, k - 1)
        held = min(held + 1, k)
        while i > 0 and _is_nearer(within, apart, n, near[i - 1]):
            near[i] = near[i - 1]
            i -= 1
        near[i] = n
    return held


@kernel(inline="always")
def _is_nearer(within: Ints, apart: Floats, n: int, other: int) -> bool:
    """Whether one tuple is nearer than another; of two that are as near, the one of the smaller number."""
    return bool(apart[n] < apart[other] or (apart[n] == apart[other] and within[n] < within[other]))


@kernel(nogil=True, inner=True)
def _tuples_within(
    space: Space, walk: Walk, tuples: Codes, t: int, limit: float, within: Ints, apart: Floats
) -> int:
    """Write the tuples whose union with tuple t costs no more than the limit, and these costs; their number.

    Tuples that agree in their first axes cost the same there: if that is too much, all are skipped at once.
    """
    tree, start, value, parent = space.tree, space.start, space.value, space.parent
    farthest, width, offset, cost = space.most, space.width, space.offset, space.cost
    axes, order, end, fresh = walk.axes, walk.order, walk.end, walk.fresh
    m, q = tuples.shape
    total = np.zeros(q + 1)  # of the first axes; the order of the sum differs from that of `union_cost`
    few, place = 0, 0
    while place < m:
        s = order[place]
        following = place + 1
        for d in range(fresh[place], q):
            j = axes[d]
            a, b = tuples[t, j], tuples[s, j]
            if not tree[j]:
                step = ordered_cost(value, start[j] + min(a, b), start[j] + max(a, b), farthest[j])
            elif width[j] > 0:
                step = cost[offset[j] + a * width[j] + b]
            else:
                step = value[start[j] + common_ancestor(parent, start[j], a, b)]
            total[d + 1] = total[d] + step
            if total[d + 1] * SAFE > limit:
                following = end[place, d]
                break
        else:
            exact = union_cost_up_to(space, tuples[t], tuples[t], tuples[s], tuples[s], limit)
            if exact <= limit:
                within[few], apart[few] = s, exact
                few += 1
        place = following
    return few


@kernel(nogil=True, inner=True)
def _branch_and_bound(
    space: Space,
    tuples: Codes,
    counts: Ints,
    t: int,
    others: Ints,
    k: int,
    bound: float,
    most: float,
    steps: int,
) -> float:
    """The least cost of a box with k records around tuple t, or a bound of it.

    others: tuples whose union with t costs less than ``most``, the cost of a box that was found; ``bound``:
    of the root.
    """
    q = tuples.shape[1]
    lows, highs = np.empty((OPEN, q), np.int32), np.empty((OPEN, q), np.int32)
    free = np.empty((OPEN, len(others)), np.int64)  # tuples that may still be added
    frees, held, bounds = np.zeros(OPEN, np.int64), np.zeros(OPEN, np.int64), np.zeros(OPEN)
    lows[0] = highs[0] = tuples[t]
    free[0], frees[0], held[0], bounds[0] = others, len(others), counts[t], bound
    lo, hi, price = np.empty(q, np.int32), np.empty(q, np.int32), np.empty(len(others))
    wider_lo, wider_hi = np.empty(q, np.int32), np.empty(q, np.int32)
    top, unopened = 1, np.inf
    while top > 0:
        top -= 1
        if bounds[top] >= most:
            continue
        if steps < 0 or top + 2 >= OPEN:
            unopened = min(unopened, bounds[top])
            continue
        lo[:], hi[:], have = lows[top], highs[top], held[top]
        cost, left = box_cost(space, lo, hi), 0
        steps -= frees[top]
        for i in range(frees[top]):
            s = free[top, i]
            price[left] = union_cost(space, lo, hi, tuples[s], tuples[s])
            if price[left] <= cost:
                have += counts[s]
            elif price[left] < most:
                free[top, left] = s
                left += 1
        if have >= k:
            most = min(most, cost)
            continue
        ascending = stable_order(price[:left])
        reach, enough = have, -1
        for i in range(left):
            reach += counts[free[top, ascending[i]]]
            if reach >= k:
                enough = ascending[i]
                break
        if enough < 0 or price[enough] >= most:
            continue
        pick = free[top, ascending[0]]
        new = top + 1  # the branch with it; the one without it takes this node's place
        lows[new], highs[new] = lo, hi
        enlarge(space, lows[new], highs[new], tuples[pick], tuples[pick])
        held[new], bounds[new], frees[new] = have + counts[pick], price[enough], 0
        kept = 0
        for i in range(left):
            s = free[top, i]
            if s == pick:
                continue
            free[new, frees[new]] = s
            frees[new] += 1
            wider_lo[:], wider_hi[:] = lo, hi
            enlarge(space, wider_lo, wider_hi, tuples[s], tuples[s])
            if union_cost(space, wider_lo, wider_hi, tuples[pick], tuples[pick]) > price[i]:
                free[top, kept] = s
                kept += 1
        frees[top], held[top], bounds[top] = kept, have, price[enough]
        top += 2
    return min(most, unopened)
