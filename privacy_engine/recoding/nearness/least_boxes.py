"""A lower bound of the loss of every k-anonymous release, from the least box around each record.

What it covers: every release that puts records into classes of at least k, no matter by what method, and
shows for each class and quasi-identifier something that covers all its values: an interval, or a node of the
hierarchy (charged as in `tables.geometry`, the charge by lowest common ancestor). So it covers local,
multidimensional and global recoding, and suppression of cells, and of any number of records, where a
suppressed record costs as much as the whole domain of each attribute. It does not cover releases whose cells
need not cover the values (swapping, noise, microaggregation to means), nor sets charged by their own size.

Proof. Let T(B) be the cost of a record in box B. T grows with B. A record i in a class C with box B is in a
box that holds k records, hence ``T(B) >= b_i``, the least cost of a box that holds i and k - 1 other records.
A suppressed record costs the whole domain, and so no less than any box. Summed over all records, the loss is
at least the sum of the b_i. What else a class must keep (persons, l, t) takes releases away and adds none: k
persons are at least k records. So the bound holds for them as well, but is not sharpened.

b_i is found by branch and bound: a node is a box around i, its records, and the records that may still be
added; the cheapest of these is added in one branch and left out in the other. The (k - 1)-th smallest
cost of a union with one more record bounds a node from below. The search is capped in steps; what it has not
opened then counts with its bound, so the result stays a bound. At worst it is the distance to the (k - 1)-th
nearest neighbour.
"""

from typing import Any

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
from privacy_engine.tables.geometry import Geometry

STEPS = 2_000  # costs of unions that are computed for a tuple; ten times as many gain 2 % on Adult at k = 10
MOST_TUPLES = 20_000  # distinct tuples; the work grows with their square: 1 to 4 CPU s at 12,500
SAFE = 1.0 - 1e-9  # sums of floats are off by less
OPEN = 256  # nodes that wait at most, in the search of one box


def least_gcp(encoded: EncodedTable, k: int) -> float | None:
    """What no k-anonymous release of the table can go below in GCP (equal weights, lowest common ancestor).

    1 where there are fewer than k records: none can be released.
    None where there are more than `MOST_TUPLES` distinct tuples of quasi-identifiers, which would take too
    long. Of a part of a table it is a bound of that part alone, and says nothing of the whole.
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
        tuples: (m, q) int32 distinct rows of codes.
        counts: (m,) int64 records of each, k or more in all.
        geometry: costs of the attributes.
        k: least class size.
        steps: unions that are priced for a tuple before its search gives up.
    """
    least = _least_boxes(tabulate(geometry), tuples, counts, k, steps)
    return float(least @ counts / counts.sum() * SAFE)


@kernel(parallel=True)
def _least_boxes(space: Space, tuples: Codes, counts: Ints, k: int, steps: int) -> Floats:
    """(m,) a lower bound of the cost of a box that holds each tuple and k records; exact within the steps."""
    found = np.zeros(len(counts))
    for t in nb.prange(len(counts)):
        if counts[t] < k:
            at: Any = np.int64(
                t
            )  # `prange` counts without a sign, for which all below would be compiled again
            found[t] = _least_box(space, tuples, counts, at, k, steps)
    return found


@kernel(nogil=True, inner=True)
def _least_box(space: Space, tuples: Codes, counts: Ints, t: int, k: int, steps: int) -> float:
    m = len(counts)
    apart = np.empty(m)
    limit, near, held = np.inf, np.empty(k, np.int64), 0  # the k nearest tuples, nearest first
    for s in range(m):
        apart[s] = union_cost_up_to(space, tuples[t], tuples[t], tuples[s], tuples[s], limit)
        if apart[s] < limit:
            held = min(held + 1, k)
            i = held - 1
            while i > 0 and apart[near[i - 1]] > apart[s]:
                near[i] = near[i - 1]
                i -= 1
            near[i] = s
            if held == k:
                limit = apart[near[k - 1]]
    have, bound = 0, 0.0
    lo, hi = tuples[t].copy(), tuples[t].copy()
    for i in range(held):
        if have < k:
            have += counts[near[i]]
            bound = apart[near[i]]
            enlarge(space, lo, hi, tuples[near[i]], tuples[near[i]])
    most = box_cost(space, lo, hi)
    if most <= bound:
        return bound
    others = np.empty(m, np.int64)
    few = 0
    for s in range(m):
        if s != t and union_cost_up_to(space, tuples[t], tuples[t], tuples[s], tuples[s], most) < most:
            others[few] = s
            few += 1
    return _branch_and_bound(space, tuples, counts, t, others[:few], k, bound, most, steps)


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
