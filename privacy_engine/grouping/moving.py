"""The steps of the refinement that move records between classes: single moves, chains, swaps, dissolving.

A move is made if it lowers the total loss and every class that it touches keeps k and all rules.
"""

import numba as nb
import numpy as np

from privacy_engine.grouping.boxes import Codes, Ints, Space, union_cost
from privacy_engine.grouping.class_state import (
    LEAST,
    ClassState,
    box_without,
    exit_gain,
    largest_gain,
    may_swap,
    members_of,
    move,
)
from privacy_engine.grouping.constraints import Constraints

NEIGHBOURS = 16  # classes at most that are asked for a substitute


@nb.njit(cache=True, inline="always")
def _entry_price(space: Space, state: ClassState, r: int, c: int) -> float:
    """What the total rises by when record r, now in no class, enters class c."""
    boxes, row = state.boxes, state.codes[r]
    h = boxes.size[c]
    return float((h + 1) * union_cost(space, row, row, boxes.lo[c], boxes.hi[c]) - h * boxes.cost[c])


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
def move_records(
    space: Space, state: ClassState, near: Ints, tuple_of: Ints, order: Ints, k: int, constraints: Constraints
) -> int:
    """Move records, in this order, to the class where the total falls most; return how many moved.

    Where r's class would fall below k or break a rule, another record takes r's place: a chain, or
    a swap if it comes from the class that r goes to.

    Args:
        space: costs of the attributes.
        state: the partition, changed in place.
        near: (tuples, few) int64, cheapest classes of each distinct tuple; -1 = no more.
        tuple_of: (n,) int64, tuple of each record.
        order: (n,) int64, the records.
        k: least class size.
        constraints: what a class must keep besides.
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
        if boxes.size[a] > k and may_swap(state, a, r, -1, constraints):
            move(space, state, r, b, lo, hi)
            moved += 1
            continue
        s = _substitute(space, state, near, tuple_of, r, b, gain - price, k, constraints)
        if s >= 0:
            move(space, state, r, b, lo, hi)
            move(space, state, s, a, lo, hi)
            moved += 2
    return moved


@nb.njit(cache=True, nogil=True)
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

    It comes from b, to which r goes, or from a class above k that is near to a member of r's class.
    ``profit`` is what the move of r saves, its entry to b paid.
    """
    boxes, q, a, row_r = state.boxes, state.codes.shape[1], state.labels[r], state.codes[r]
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    other_lo, other_hi = np.empty(q, np.int32), np.empty(q, np.int32)
    rest = box_without(space, state, r, lo, hi)
    others = boxes.size[a] - 1
    best, most = -1, LEAST
    for c in _classes_near(state, near, tuple_of, a):
        size, cost = boxes.size[c], boxes.cost[c]
        if size <= k and c != b:
            continue
        bound = largest_gain(space, state, c)
        if c == b:
            size, cost = size + 1, union_cost(space, row_r, row_r, boxes.lo[c], boxes.hi[c])
            bound = size * cost - (size - 1) * state.least_rest[c]
        if profit - rest + bound <= most:
            continue
        s = state.first[c]
        while s >= 0:
            value = profit + size * cost - (size - 1) * state.rest[s]
            if value - rest > most:  # s costs the class that it enters at least the rest
                row = state.codes[s]
                value += others * rest - (others + 1) * union_cost(space, row, row, lo, hi)
                if value > most and c == b:  # r stays where s was
                    value += (size - 1) * state.rest[s]
                    value -= (size - 1) * _cost_of_swapped(space, state, r, s, cost, other_lo, other_hi)
                if value > most and _may_replace(state, r, s, b, constraints):
                    best, most = s, value
            s = state.after[s] if boxes.cost[c] > 0.0 else -1  # at cost 0 all members are alike
    return best


@nb.njit(cache=True, nogil=True)
def _cost_of_swapped(
    space: Space, state: ClassState, r: int, s: int, cost: float, lo: Codes, hi: Codes
) -> float:
    """Cost of the box of s's class with r instead of s; ``cost``: with both. lo, hi: (q,) room to work in."""
    if state.rest[s] == state.boxes.cost[state.labels[s]]:
        return cost
    box_without(space, state, s, lo, hi)
    return float(union_cost(space, state.codes[r], state.codes[r], lo, hi))


@nb.njit(cache=True, nogil=True)
def _may_replace(state: ClassState, r: int, s: int, b: int, constraints: Constraints) -> bool:
    """Whether r's class, with s for r, and s's class, which gets r if it is b, keep all rules."""
    c = state.labels[s]
    return may_swap(state, state.labels[r], r, s, constraints) and may_swap(
        state, c, s, r if c == b else -1, constraints
    )


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
def dissolve_classes(
    space: Space, state: ClassState, near: Ints, tuple_of: Ints, order: Ints, constraints: Constraints
) -> int:
    """Empty each class, in this order (m,), whose records cost less elsewhere; how many there were."""
    q, boxes, done = state.codes.shape[1], state.boxes, 0
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for a in order:
        size = int(boxes.size[a])
        budget = size * boxes.cost[a] - LEAST
        if size == 0 or budget <= 0.0:
            continue
        members = members_of(state, a)
        spent = 0.0
        for r in members:  # what it would cost if no record heeded another: quick, and nearly always too much
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
