"""The step of the refinement that founds new classes from the spare records of others.

Agglomeration leaves classes of k to 2k - 1 records, and more where many are identical. What a class
has above k can be had from it; k such records that lie together make a class of their own. The sum
of these gains is what a search by single moves cannot see: none of the moves pays by itself.
"""

import numba as nb
import numpy as np

from privacy_engine.grouping.boxes import Floats, Ints, Space, enlarge, union_cost
from privacy_engine.grouping.class_state import LEAST, ClassState, exit_gain, may_swap, move, price_exits
from privacy_engine.grouping.constraints import Constraints

FAILURES = 3  # attempts a class is granted in a round


@nb.njit(cache=True, nogil=True)
def found_classes(
    space: Space, state: ClassState, near: Ints, tuple_of: Ints, order: Ints, k: int, constraints: Constraints
) -> int:
    """Found a class around each record, in this order, wherever it lowers the total loss.

    Args:
        space: costs of the attributes.
        state: the partition, changed in place.
        near: (tuples, few) int64, cheapest classes of each distinct tuple; -1 = no more.
        tuple_of: (n,) int64, tuple of each record.
        order: (n,) int64, records in the order in which they are tried.
        k: least class size.
        constraints: what a class must keep besides.

    Returns:
        How many classes were founded.
    """
    boxes = state.boxes
    q, n = state.codes.shape[1], state.codes.shape[0]
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    failures = np.zeros(len(boxes.size), np.int64)
    pool, gain, taken = np.empty(n, np.int64), np.empty(n), np.empty(k, np.int64)
    source, spare = np.empty(k, np.int64), np.zeros(len(boxes.size), np.int64)
    free = done = 0
    for r in order:
        a = state.labels[r]
        if a < 0 or boxes.size[a] <= k or failures[a] >= FAILURES:
            continue
        if exit_gain(space, state, r) <= LEAST:
            continue
        while free < len(boxes.size) and boxes.size[free] > 0:
            free += 1
        if free == len(boxes.size):
            break
        m = _gather(space, state, near[tuple_of[r]], r, k, pool, gain, spare)
        if m < k - 1 or not _grow(space, state, r, k, pool[:m], gain[:m], spare, taken):
            failures[a] += 1
            continue
        balance = 0.0
        for i in range(k):
            source[i] = state.labels[taken[i]]
            balance += move(space, state, taken[i], free, lo, hi)
        kept = balance < -LEAST and may_swap(state, free, -1, -1, constraints)
        for i in range(k):
            kept = kept and may_swap(state, source[i], -1, -1, constraints)
        if kept:
            done += 1
        else:
            failures[a] += 1
            for i in range(k - 1, -1, -1):
                move(space, state, taken[i], source[i], lo, hi)
    return done


@nb.njit(cache=True, nogil=True)
def _gather(
    space: Space, state: ClassState, near: Ints, r: int, k: int, pool: Ints, gain: Floats, spare: Ints
) -> int:
    """Collect the members of r's class and of the classes near it that are above k into `pool`, r not.

    Returns how many they are. `spare` (classes,) is what each class can spare afterwards, r gone; of a
    class of identical records no more than that are collected.
    """
    boxes, a, m = state.boxes, state.labels[r], 0
    for i in range(-1, len(near)):
        c = a if i < 0 else near[i]
        if c < 0 or boxes.size[c] <= k or (i >= 0 and c == a):
            continue
        price_exits(space, state, c)
        size, cost = boxes.size[c], boxes.cost[c]
        spare[c] = int(size - k) - (c == a)
        most = m + spare[c] if cost == 0.0 else len(pool)
        s = state.first[c]
        while s >= 0 and m < most:
            if s != r:
                pool[m], gain[m] = s, size * cost - (size - 1) * state.rest[s]
                m += 1
            s = state.after[s]
    return m


@nb.njit(cache=True, nogil=True)
def _grow(
    space: Space, state: ClassState, r: int, k: int, pool: Ints, gain: Floats, spare: Ints, taken: Ints
) -> bool:
    """Draw the k - 1 cheapest records of the pool to r one by one; whether that promises a profit.

    The promise takes each record's gain as if it left alone; the caller settles the true balance. It
    gives up once even the largest gains could not pay for the box that the new class has by then.
    """
    m, codes, labels = len(pool), state.codes, state.labels
    largest = np.sort(gain)[::-1][:k].cumsum()  # what some records can bring at most
    known = np.zeros(m)  # cost of a record's union with the new class when last looked at: a lower bound
    lo, hi = codes[r].copy(), codes[r].copy()
    cost, balance = 0.0, -exit_gain(space, state, r)
    taken[0] = r
    for have in range(1, k):
        if balance + (k - have) * cost - largest[k - have - 1] >= -LEAST:
            return False
        best, least = -1, np.inf
        for i in range(m):
            if (have + 1) * known[i] - have * cost - gain[i] >= least:
                continue
            row = codes[pool[i]]
            known[i] = union_cost(space, row, row, lo, hi)
            p = (have + 1) * known[i] - have * cost - gain[i]
            if p < least and spare[labels[pool[i]]] > 0:
                best, least = i, p
        if best < 0:
            return False
        balance += least
        cost = known[best]
        taken[have] = pool[best]
        spare[labels[pool[best]]] -= 1
        enlarge(space, lo, hi, codes[pool[best]], codes[pool[best]])
        m -= 1
        pool[best], gain[best], known[best] = pool[m], gain[m], known[m]
    return bool(balance < -LEAST)
