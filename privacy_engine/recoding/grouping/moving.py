"""The steps of the refinement: single moves of records, chains, swaps, dissolving and founding classes.

A move is made if it lowers the total loss and every class that it touches has k persons and meets all rules.

New classes are founded from the spare records of others. Agglomeration leaves classes of k to 2k - 1 records,
and more if many are identical. What a class has above k can be taken from it; k such records that are close
form a separate class. A search by single moves cannot see the sum of these gains: no single move reduces the
loss.
"""

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.recoding.grouping.boxes import Codes, Floats, Ints, Space, enlarge, union_cost
from privacy_engine.recoding.grouping.class_state import (
    LEAST,
    ClassState,
    box_without,
    exit_gain,
    has_mate,
    largest_gain,
    may_swap,
    members_of,
    move,
    people_without,
    price_exits,
)
from privacy_engine.recoding.grouping.constraints import Constraints

NEIGHBOURS = 16  # most classes that are searched for a substitute
NO, YES, UNKNOWN = 0, 1, 2


@kernel(inline="always")
def _entry_price(space: Space, state: ClassState, r: int, c: int) -> float:
    """Return the increase of the total when record r, now in no class, enters class c."""
    boxes, row = state.boxes, state.codes[r]
    h, w = boxes.size[c], state.weight[r]
    return float((h + w) * union_cost(space, row, row, boxes.lo[c], boxes.hi[c]) - h * boxes.cost[c])


@kernel(nogil=True, inner=True)
def _best_entry(
    space: Space, state: ClassState, near: Ints, r: int, skip: int, bar: float, constraints: Constraints
) -> tuple[int, float]:
    """Cheapest admissible class of the candidates ``near`` for record r below the price bar, or -1."""
    best, price = -1, bar
    for c in near:
        if c < 0 or c == skip or state.boxes.size[c] == 0:
            continue
        p = _entry_price(space, state, r, c)
        if p < price and may_swap(state, c, -1, r, constraints):
            best, price = c, p
    return best, price


@kernel(nogil=True)
def move_records(
    space: Space, state: ClassState, near: Ints, tuple_of: Ints, order: Ints, k: int, constraints: Constraints
) -> int:
    """Move records, in this order, to the class where the total falls most; return how many moved.

    Where r's class would fall below k or break a rule, another record takes r's place: a chain, or
    a swap if it comes from the class that r goes to.

    Args:
        space: Costs of the attributes.
        state: Partition, changed in place.
        near: Cheapest classes of each distinct tuple, shape (tuples, few) int64; -1 = no more.
        tuple_of: Tuple of each record, shape (n,) int64.
        order: Records, shape (n,) int64.
        k: Least class size.
        constraints: Further requirements on a class.
    """
    q, boxes, moved = state.codes.shape[1], state.boxes, 0
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for r in order:
        a = state.labels[r]
        if a < 0 or boxes.cost[a] == 0.0:
            continue
        gain = exit_gain(space, state, r)
        b, price = _best_entry(space, state, near[tuple_of[r]], r, a, gain - LEAST, constraints)
        if b < 0:
            continue
        if people_without(state, r) >= k and may_swap(state, a, r, -1, constraints):
            move(space, state, r, b, lo, hi)
            moved += 1
            continue
        s = _substitute(space, state, near, tuple_of, r, b, gain - price, k, constraints)
        if s >= 0:
            move(space, state, r, b, lo, hi)
            move(space, state, s, a, lo, hi)
            moved += 2
    return moved


@kernel(nogil=True, inner=True)
def _substitute(
    space: Space,
    state: ClassState,
    near: Ints,
    tuple_of: Ints,
    r: int,
    b: int,
    profit: float,
    k: int,
    constraints: Constraints,
) -> int:
    """The record that takes r's place in its class at the least cost, or -1 if none leaves a profit.

    It comes from b, to which r goes, or from a class above k persons that is close to a member of r's class.
    ``profit`` is what the move of r saves, its entry to b paid.

    Where each record counts as a person and has one sensitive value, whether it may take the place depends on
    its value alone: each value is checked once in r's class and once in each other class.
    """
    boxes, q, a, row_r = state.boxes, state.codes.shape[1], state.labels[r], state.codes[r]
    weight, values, rests, after = state.weight, state.values, state.rest, state.after
    by_value = len(state.mates) == 0 and len(values) == len(weight)
    enters, leaves = np.full(state.counts.shape[1], UNKNOWN), np.full(state.counts.shape[1], UNKNOWN)
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    other_lo, other_hi = np.empty(q, np.int32), np.empty(q, np.int32)
    rest = box_without(space, state, r, lo, hi)
    others = boxes.size[a] - weight[r]
    best, most = -1, LEAST
    for c in _classes_near(state, near, tuple_of, a):
        size, cost = boxes.size[c], boxes.cost[c]
        if state.people[c] <= k and c != b:
            continue
        bound = largest_gain(space, state, c)
        if c == b:
            size, cost = size + weight[r], union_cost(space, row_r, row_r, boxes.lo[c], boxes.hi[c])
            bound = size * cost - (size - state.heaviest[c]) * state.least_rest[c]
        if profit - rest + bound <= most:
            continue
        leaves[:] = UNKNOWN
        varied = boxes.cost[c] > 0.0  # else all members are alike
        s = state.first[c]
        while s >= 0:
            w = weight[s]
            value = profit + size * cost - (size - w) * rests[s]
            # s costs the class that it enters at least the rest
            if value - w * rest > most and not (by_value and (enters[values[s]] * leaves[values[s]] == NO)):
                row = state.codes[s]
                value += others * rest - (others + w) * union_cost(space, row, row, lo, hi)
                if value > most and c == b:  # r stays where s was
                    value += (size - w) * rests[s]
                    value -= (size - w) * _cost_of_swapped(space, state, r, s, cost, other_lo, other_hi)
                if value > most and (
                    _may_replace_by_value(state, r, s, b, constraints, enters, leaves)
                    if by_value
                    else _may_replace(state, r, s, b, k, constraints)
                ):
                    best, most = s, value
            s = after[s] if varied else -1
    return best


@kernel(nogil=True, inner=True)
def _may_replace_by_value(
    state: ClassState, r: int, s: int, b: int, constraints: Constraints, enters: Ints, leaves: Ints
) -> bool:
    """`_may_replace` where it depends on the sensitive value of s; what is found is noted for that value.

    enters, leaves: (values,) whether r's class may have a record with the value for r, and s's class may lose
    one: `YES`, `NO` or `UNKNOWN`.
    """
    value, c = state.values[s], state.labels[s]
    if enters[value] == UNKNOWN:
        enters[value] = YES if may_swap(state, state.labels[r], r, s, constraints) else NO
    if enters[value] == NO:
        return False
    if leaves[value] == UNKNOWN:
        leaves[value] = YES if may_swap(state, c, s, r if c == b else -1, constraints) else NO
    return bool(leaves[value] == YES)


@kernel(nogil=True, inner=True)
def _cost_of_swapped(
    space: Space, state: ClassState, r: int, s: int, cost: float, lo: Codes, hi: Codes
) -> float:
    """Cost of the box of s's class with r instead of s; ``cost``: with both. lo, hi: (q,) room to work in."""
    if state.rest[s] == state.boxes.cost[state.labels[s]]:
        return cost
    box_without(space, state, s, lo, hi)
    return float(union_cost(space, state.codes[r], state.codes[r], lo, hi))


@kernel(nogil=True, inner=True)
def _may_replace(state: ClassState, r: int, s: int, b: int, k: int, constraints: Constraints) -> bool:
    """Return whether r's class, with s for r, and s's class, with r if it is b, keep k and all rules."""
    c = state.labels[s]
    if len(state.mates) > 0 and state.mates[r, 0] != state.mates[s, 0]:  # otherwise both keep their persons
        if people_without(state, r) + (not has_mate(state, s, state.labels[r])) < k:
            return False
        if people_without(state, s) + (c == b and not has_mate(state, r, c)) < k:
            return False
    return may_swap(state, state.labels[r], r, s, constraints) and may_swap(
        state, c, s, r if c == b else -1, constraints
    )


@kernel(nogil=True)
def _classes_near(state: ClassState, near: Ints, tuple_of: Ints, a: int) -> Ints:
    """The candidate classes of the members of class a, each once, without a and without emptied ones."""
    seen = np.empty(NEIGHBOURS, np.int64)
    have = 0
    x = state.first[a]
    while x >= 0 and have < NEIGHBOURS:
        for c in near[tuple_of[x]]:
            if c >= 0 and c != a and state.boxes.size[c] > 0 and have < NEIGHBOURS and c not in seen[:have]:
                seen[have] = c
                have += 1
        x = state.after[x]
    return seen[:have]


@kernel(nogil=True)
def dissolve_classes(
    space: Space, state: ClassState, near: Ints, tuple_of: Ints, order: Ints, constraints: Constraints
) -> int:
    """Empty each class, in this order (m,), whose records cost less elsewhere; how many there were."""
    q, boxes, done = state.codes.shape[1], state.boxes, 0
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for a in order:
        size = state.members[a]
        budget = boxes.size[a] * boxes.cost[a] - LEAST
        if size == 0 or budget <= 0.0:
            continue
        members = members_of(state, a)
        spent = 0.0
        for r in members:  # the cost if records were independent: fast, and nearly always too high
            spent += _best_entry(space, state, near[tuple_of[r]], r, a, budget, constraints)[1]
            if spent >= budget:
                break
        if spent >= budget:
            continue
        spent, gone = 0.0, 0
        for r in members:
            b, price = _best_entry(space, state, near[tuple_of[r]], r, a, budget - spent, constraints)
            if b < 0:
                break
            spent += price
            gone += 1
            move(space, state, r, b, lo, hi)
        done += gone == size
        if gone < size:
            for r in members[:gone]:
                move(space, state, r, a, lo, hi)
    return done


FAILURES = 3  # attempts a class is granted in a round


@kernel(nogil=True)
def found_classes(
    space: Space, state: ClassState, near: Ints, tuple_of: Ints, order: Ints, k: int, constraints: Constraints
) -> int:
    """Found a class around each record, in this order, wherever it lowers the total loss.

    Args:
        space: Costs of the attributes.
        state: Partition, changed in place.
        near: Cheapest classes of each distinct tuple, shape (tuples, few) int64; -1 = no more.
        tuple_of: Tuple of each record, shape (n,) int64.
        order: Records in the order in which they are tried, shape (n,) int64.
        k: Least class size.
        constraints: Further requirements on a class.

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
        if a < 0 or state.people[a] <= k or failures[a] >= FAILURES:
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


@kernel(nogil=True, inner=True)
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
        if c < 0 or state.people[c] <= k or (i >= 0 and c == a):
            continue
        price_exits(space, state, c)
        size, cost = boxes.size[c], boxes.cost[c]
        spare[c] = state.people[c] - k - (c == a)
        most = m + spare[c] if cost == 0.0 else len(pool)
        s = state.first[c]
        while s >= 0 and m < most:
            if s != r:
                pool[m], gain[m] = s, size * cost - (size - state.weight[s]) * state.rest[s]
                m += 1
            s = state.after[s]
    return m


@kernel(nogil=True)
def _grow(
    space: Space, state: ClassState, r: int, k: int, pool: Ints, gain: Floats, spare: Ints, taken: Ints
) -> bool:
    """Draw the k - 1 cheapest records of the pool to r one by one; whether that promises a profit.

    All belong to different persons.

    The promise counts each record's gain as if it left alone; the caller computes the true balance. It gives
    up as soon as even the largest gains could not pay for the box of the new class.
    """
    m, codes, labels = len(pool), state.codes, state.labels
    largest = np.sort(gain)[::-1][:k].cumsum()  # what some records can bring at most
    known = np.zeros(m)  # cost of a record's union with the new class when last computed: a lower bound
    lo, hi = codes[r].copy(), codes[r].copy()
    cost, balance, size = 0.0, -exit_gain(space, state, r), state.weight[r]
    taken[0] = r
    for have in range(1, k):
        if balance + (k - have) * cost - largest[k - have - 1] >= -LEAST:
            return False
        best, least = -1, np.inf
        for i in range(m):
            w = state.weight[pool[i]]
            if (size + w) * known[i] - size * cost - gain[i] >= least:
                continue
            row = codes[pool[i]]
            known[i] = union_cost(space, row, row, lo, hi)
            p = (size + w) * known[i] - size * cost - gain[i]
            if p < least and spare[labels[pool[i]]] > 0 and not _is_mate(state, pool[i], taken[:have]):
                best, least = i, p
        if best < 0:
            return False
        balance += least
        cost = known[best]
        size += state.weight[pool[best]]
        taken[have] = pool[best]
        spare[labels[pool[best]]] -= 1
        enlarge(space, lo, hi, codes[pool[best]], codes[pool[best]])
        m -= 1
        pool[best], gain[best], known[best] = pool[m], gain[m], known[m]
    return bool(balance < -LEAST)


@kernel(nogil=True, inner=True)
def _is_mate(state: ClassState, r: int, others: Ints) -> bool:
    """Return whether r belongs to the person of one of the others."""
    if len(state.mates) > 0:
        for s in others:
            if state.mates[s, 0] == state.mates[r, 0]:
                return True
    return False
