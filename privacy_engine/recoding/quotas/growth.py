"""Classes that grow around seeds, each by the nearest records that its quotas have room for.

Remaining records join the class where they cost least among those that still meet the rules.
"""

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.boxes import (
    Boxes,
    Codes,
    Floats,
    Ints,
    Space,
    box_cost,
    enlarge,
    union_cost,
    union_cost_up_to,
)
from privacy_engine.recoding.grouping.constraints import Constraints, admits
from privacy_engine.recoding.quotas.compositions import compose, count_kind, least_sizes

SPARE = 4  # times the least size: a class that has room in its quotas can be refined
ROOMY = 64  # records from which on a class counts as large
ATTEMPTS = 6  # nearest records of a kind that are tried at each step
RARE = 2  # kinds that need classes of more than this multiple of the least size are seeds first


@kernel(nogil=True)
def grow_classes(
    space: Space, codes: Codes, kind: Ints, places: Ints, order: Ints, k: int, constraints: Constraints
) -> Ints:
    """Labels (n,) of classes that meet k and the rules; -1 = left over.

    Args:
        space: Costs of the attributes.
        codes: Int32, shape (n, q).
        kind: Kind of each record, see `Kinds`, shape (n,).
        places: Indexes of each kind, see `Kinds`, shape (v, s).
        order: Order in which records become seeds, shape (n,).
        k: Least size of a class.
        constraints: Rules that every class must meet.
    """
    n, v = len(codes), len(places)
    labels = np.full(n, -1)
    left = np.bincount(kind, minlength=v)
    share = left / n
    start = np.zeros(v + 1, np.int64)
    start[1:] = np.cumsum(left)
    pool = order[stable_order(kind[order])]
    need = least_sizes(left, k, places, constraints)
    served = need == 0  # kinds of which no class grows any more
    least = n
    for t in range(v):
        if need[t] > 0:
            least = min(least, need[t])
    quota, used = np.zeros(v, np.int64), 0
    while left.sum() >= k:
        t = _next_kind(left, share, need, served, least)
        if t < 0:
            break
        m, total = max(need[t], min(SPARE * need[t], ROOMY)), left.sum()
        while m <= total and not compose(left, m, t, places, constraints, quota):
            m += 1 + m // 10
        if m > total:
            served[t] = True
            continue
        _grow(space, codes, labels, pool, start, left, quota, t, used)
        used += 1
    return labels


@kernel(nogil=True, inner=True)
def _next_kind(left: Ints, share: Floats, need: Ints, served: Codes, least: int) -> int:
    """Return the kind of the next seed: first those that need large classes, then over-represented ones."""
    best, size, most = -1, 0, 0.0
    for t in range(len(left)):
        if left[t] > 0 and not served[t]:
            large = need[t] if need[t] > RARE * least else 0
            if large > size or (large == size and left[t] / share[t] > most):
                best, size, most = t, large, left[t] / share[t]
    return best


@kernel(nogil=True)
def _grow(
    space: Space,
    codes: Codes,
    labels: Ints,
    pool: Ints,
    start: Ints,
    left: Ints,
    quota: Ints,
    kind: int,
    label: int,
) -> None:
    """Fill a class by its quotas, around the first record of a kind that is in none."""
    seed = start[kind]
    while labels[pool[seed]] >= 0:
        seed += 1
    r = pool[seed]
    labels[r] = label
    left[kind] -= 1
    quota[kind] -= 1
    lo, hi = codes[r].copy(), codes[r].copy()
    begin = np.zeros(len(quota) + 1, np.int64)
    for t in range(len(quota)):
        begin[t + 1] = begin[t] + min(left[t], quota[t] + ATTEMPTS) * (quota[t] > 0)
    near = np.empty(begin[-1], np.int64)
    for t in range(len(quota)):
        if begin[t + 1] > begin[t]:
            _nearest(space, codes, labels, pool[start[t] : start[t + 1]], r, near[begin[t] : begin[t + 1]])
    head = begin[:-1].copy()
    for _ in range(quota.sum()):
        best, cost = -1, np.inf
        kind_of_best = 0
        for t in range(len(quota)):
            if quota[t] == 0:
                continue
            while labels[near[head[t]]] >= 0:
                head[t] += 1
            attempts, i = 0, head[t]
            while attempts < ATTEMPTS and i < begin[t + 1]:
                x = near[i]
                if labels[x] < 0:
                    attempts += 1
                    found = union_cost_up_to(space, lo, hi, codes[x], codes[x], cost)
                    if found < cost:
                        best, cost, kind_of_best = x, found, t
                i += 1
        labels[best] = label
        left[kind_of_best] -= 1
        quota[kind_of_best] -= 1
        enlarge(space, lo, hi, codes[best], codes[best])


@kernel(nogil=True)
def _nearest(space: Space, codes: Codes, labels: Ints, pool: Ints, r: int, near: Ints) -> None:
    """Fill `near` with records of the pool, in no class, that cost least together with r, nearest first."""
    price = np.full(len(pool), np.inf)
    bar, have = np.inf, 0
    heap = np.full(len(near), np.inf)  # the least prices so far, while they are few
    few = len(near) <= 4 * ATTEMPTS + ROOMY
    for i in range(len(pool)):
        if labels[pool[i]] < 0:
            price[i] = union_cost_up_to(space, codes[r], codes[r], codes[pool[i]], codes[pool[i]], bar)
            if few and price[i] < bar:
                j = min(have, len(near) - 1)
                while j > 0 and heap[j - 1] > price[i]:
                    heap[j] = heap[j - 1]
                    near[j] = near[j - 1]
                    j -= 1
                heap[j] = price[i]
                near[j] = pool[i]
                have = min(have + 1, len(near))
                if have == len(near):
                    bar = heap[have - 1]
    if not few:
        near[:] = pool[stable_order(price)[: len(near)]]


@kernel(nogil=True)
def join_left_over(
    space: Space,
    codes: Codes,
    values: Ints,
    labels: Ints,
    boxes: Boxes,
    counts: Codes,
    order: Ints,
    constraints: Constraints,
) -> None:
    """Put records of no class, in this order, where they cost least and the rules are met.

    If no class would meet them, where they cost least. Changes labels (n,), boxes of m classes and their
    counts (m, values).

    values: (n, s) int64, where each record is counted.
    """
    m = len(boxes.size)
    price = np.empty(m)
    for r in order:
        if labels[r] >= 0:
            continue
        row = codes[r]
        for c in range(m):
            union = union_cost(space, boxes.lo[c], boxes.hi[c], row, row)
            price[c] = union + boxes.size[c] * (union - boxes.cost[c])
        ascending = stable_order(price)
        chosen = ascending[0]
        for c in ascending:
            count_kind(counts[c], values, r, 1)
            kept = admits(counts[c], int(boxes.size[c]) + 1, constraints)
            count_kind(counts[c], values, r, -1)
            if kept:
                chosen = c
                break
        labels[r] = chosen
        count_kind(counts[chosen], values, r, 1)
        boxes.size[chosen] += 1
        enlarge(space, boxes.lo[chosen], boxes.hi[chosen], row, row)
        boxes.cost[chosen] = box_cost(space, boxes.lo[chosen], boxes.hi[chosen])
