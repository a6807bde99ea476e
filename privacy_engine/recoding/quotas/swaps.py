"""Swaps of two records of one kind between two classes: no distribution moves, only the loss counts."""

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.recoding.grouping.boxes import Ints, Space, union_cost, union_cost_up_to
from privacy_engine.recoding.grouping.class_state import (
    LEAST,
    ClassState,
    box_without,
    may_swap,
    move,
    price_exits,
)
from privacy_engine.recoding.grouping.constraints import Constraints

PARTNERS = 1_000  # records of its kind at most that a record is compared with in a sweep


@kernel(nogil=True)
def swap_alike(
    space: Space,
    state: ClassState,
    kind: Ints,
    pool: Ints,
    start: Ints,
    order: Ints,
    offset: Ints,
    exact: bool,
    constraints: Constraints,
) -> float:
    """Swap each record, in this order, with the one of its kind that lowers the total most; by how much.

    Args:
        space: Costs of the attributes.
        state: Partition, changed in place; each record counts as a person.
        kind: Kind of each record, shape (n,).
        pool: Records by kind, those of kind t at ``start[t] : start[t + 1]``, shape (n,).
        start: Int64, shape (v + 1,).
        order: Records, shape (n,).
        offset: Start of each record's search within its kind, shape (n,) int64.
        exact: Whether records of a kind are equal in everything that the rules consider.
        constraints: Requirements on a class.
    """
    boxes, q, saved = state.boxes, state.codes.shape[1], 0.0
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    other_lo, other_hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for a in range(len(boxes.size)):
        if boxes.size[a] > 0:
            price_exits(space, state, a)
    for r in order:
        a = state.labels[r]
        if a < 0 or boxes.cost[a] == 0.0:
            continue
        if state.rest[r] >= boxes.cost[a]:
            continue
        gain = boxes.size[a] * (boxes.cost[a] - state.rest[r])
        box_without(space, state, r, lo, hi)
        own = boxes.size[a]
        first, count = start[kind[r]], start[kind[r] + 1] - start[kind[r]]
        best, most = -1, LEAST
        for i in range(min(count, PARTNERS)):
            s = pool[first + (offset[r] + i) % count]
            b = state.labels[s]
            if b < 0 or b == a:
                continue
            if not state.priced[b]:
                price_exits(space, state, b)
            size = boxes.size[b]
            value = gain + size * (boxes.cost[b] - state.rest[s])
            if value <= most:
                continue
            row = state.codes[s]
            rise = union_cost_up_to(space, lo, hi, row, row, state.rest[r] + (value - most) / own)
            value -= own * (rise - state.rest[r])
            if value <= most:
                continue
            box_without(space, state, s, other_lo, other_hi)
            row = state.codes[r]
            value -= size * (union_cost(space, other_lo, other_hi, row, row) - state.rest[s])
            if value > most and (
                exact or (may_swap(state, a, r, s, constraints) and may_swap(state, b, s, r, constraints))
            ):
                best, most = s, value
        if best >= 0:
            b = state.labels[best]
            saved -= move(space, state, r, b, lo, hi) + move(space, state, best, a, lo, hi)
            price_exits(space, state, a)
            price_exits(space, state, b)
    return saved
