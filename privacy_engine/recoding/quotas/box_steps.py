"""Steps of large classes, whose boxes no single record changes.

A class takes what lies in a larger box, or gives away what lies outside of a smaller one. The boxes differ in
one attribute: by the parent or a child of a node, or by 1, 2, 4, ... values at one end. A step is made if it
lowers the total loss and every class that it touches keeps k and meets the rules.
"""

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.recoding.grouping.boxes import (
    Boxes,
    Codes,
    Floats,
    Ints,
    Space,
    box_cost,
    enlarge,
    join_cost,
    union_cost_up_to,
)
from privacy_engine.recoding.grouping.class_state import LEAST
from privacy_engine.recoding.grouping.constraints import Constraints, admits
from privacy_engine.recoding.quotas.compositions import count_kind

LARGE = 100  # records of a class that makes such steps
LONGEST = 6  # powers of two of values by which an end of a box moves
WORK = 20_000_000  # joins of two boxes in a round, about a second; then it ends
WIDTH = 1e-12  # of rounding: whether a record lies in a box


@kernel(nogil=True)
def step_boxes(
    space: Space,
    codes: Codes,
    values: Ints,
    labels: Ints,
    boxes: Boxes,
    counts: Codes,
    k: int,
    constraints: Constraints,
) -> float:
    """One round over all large classes and attributes; by how much the total loss fell.

    Args:
        space: Costs of the attributes.
        codes: Int32, shape (n, q).
        values: Index of each record in the counts, shape (n, s) int64.
        labels: Classes, -1 = in none, shape (n,); changed in place, as `boxes` and `counts` (m, values) of
            them are.
        boxes: Boxes of m classes.
        counts: Counts of their sensitive values.
        k: Least size of a class.
        constraints: Rules that every class must meet.
    """
    before = (boxes.size * boxes.cost).sum()
    lo, hi = np.empty(codes.shape[1], np.int32), np.empty(codes.shape[1], np.int32)
    work = WORK
    for c in range(len(boxes.size)):
        for j in range(codes.shape[1]):
            choice = 0
            while boxes.size[c] >= LARGE and choice >= 0 and work > 0:
                lo[:] = boxes.lo[c]
                hi[:] = boxes.hi[c]
                choice = _changed(space, j, choice, lo, hi)
                if choice >= 0:
                    work -= _try(space, codes, values, labels, boxes, counts, k, constraints, c, lo, hi)
    return float(before - (boxes.size * boxes.cost).sum())


@kernel(nogil=True)
def _changed(space: Space, j: int, choice: int, lo: Codes, hi: Codes) -> int:
    """Change the box to the next choice in attribute j; the number of the choice after it, -1 = no more."""
    nodes = space.start[j + 1] - space.start[j]
    if space.tree[j]:
        parent = space.parent[space.start[j] : space.start[j + 1]]
        node = lo[j]
        for u in range(choice, nodes):
            if u != node and (parent[u] == node or parent[node] == u):
                lo[j] = u
                hi[j] = u
                return u + 1
        return -1
    first, last = lo[j], hi[j]
    while choice < 4 * LONGEST:
        by, end = 1 << (choice // 4), choice % 4
        choice += 1
        lo[j], hi[j] = first, last
        if end == 0:
            lo[j] = max(first - by, 0)
        elif end == 1:
            hi[j] = min(last + by, nodes - 1)
        elif end == 2:
            lo[j] = min(first + by, last)
        else:
            hi[j] = max(last - by, first)
        if lo[j] != first or hi[j] != last:
            return choice
    return -1


@kernel(nogil=True, inner=True)
def _try(
    space: Space,
    codes: Codes,
    values: Ints,
    labels: Ints,
    boxes: Boxes,
    counts: Codes,
    k: int,
    constraints: Constraints,
    c: int,
    lo: Codes,
    hi: Codes,
) -> int:
    """Make the step of class c to the box lo, hi if it pays; the work that it took, in joins of two boxes."""
    cost = box_cost(space, lo, hi)
    saved = boxes.size[c] * (boxes.cost[c] - cost)
    rows = _concerned(space, codes, labels, boxes.cost, c, lo, hi, cost)
    if saved < 0.0:
        for r in rows:
            saved += boxes.cost[labels[r]] - cost
    else:
        if boxes.size[c] - len(rows) < k:
            return len(labels) // 8
        saved += len(rows) * cost  # at most: elsewhere they cost something
    if saved <= LEAST or len(rows) == 0:
        return len(labels) // 8
    source, old = labels[rows], (boxes.lo.copy(), boxes.hi.copy(), boxes.size.copy(), boxes.cost.copy())
    if cost > boxes.cost[c]:
        kept = _take(values, labels, boxes, counts, k, constraints, c, cost, rows)
    else:
        kept = _give(space, codes, values, labels, boxes, counts, constraints, c, cost, rows)
    if kept:
        touched = np.zeros(len(boxes.size), np.bool_)
        touched[c] = True
        touched[source] = True
        touched[labels[rows]] = True
        _cover(space, codes, labels, boxes, touched)
        before = (old[2] * old[3]).sum()
        kept = (boxes.size * boxes.cost).sum() < before - LEAST
    if not kept:
        for i in range(len(rows)):
            count_kind(counts[labels[rows[i]]], values, rows[i], -1)
            count_kind(counts[source[i]], values, rows[i], 1)
            labels[rows[i]] = source[i]
        boxes.lo[:] = old[0]
        boxes.hi[:] = old[1]
        boxes.size[:] = old[2]
        boxes.cost[:] = old[3]
    return len(labels) // 4 + len(rows) * (2 if cost > old[3][c] else len(boxes.size))


@kernel(nogil=True, inner=True)
def _concerned(
    space: Space, codes: Codes, labels: Ints, costs: Floats, c: int, lo: Codes, hi: Codes, cost: float
) -> Ints:
    """Find the records in a larger box whose classes cost more, or records of c outside of a smaller box.

    costs: (m,) of the classes; cost: of the box.
    """
    larger, have = cost > costs[c], 0
    found = np.empty(len(labels), np.int64)
    for r in range(len(labels)):
        a = labels[r]
        if (larger and a >= 0 and costs[a] > cost) or (not larger and a == c):
            found[have] = r
            have += 1
    kept = np.full(have, larger)
    for j in range(len(lo)):
        own = join_cost(space, j, lo[j], hi[j], lo[j], hi[j]) * (1.0 + WIDTH) + WIDTH
        joined = np.empty(space.start[j + 1] - space.start[j])  # with each value of the attribute
        for v in range(len(joined)):
            joined[v] = join_cost(space, j, lo[j], hi[j], v, v)
        _part(codes, j, joined <= own, larger, found[:have], kept)
    concerned: Ints = found[:have][kept]
    return concerned


@kernel(nogil=True)
def _part(
    codes: Codes, j: int, inside: npt.NDArray[np.bool_], larger: bool, rows: Ints, kept: npt.NDArray[np.bool_]
) -> None:
    """Keep the rows whose values of attribute j lie inside; of a smaller box, add those that do not."""
    for i in range(len(rows)):
        if larger:
            kept[i] &= inside[codes[rows[i], j]]
        else:
            kept[i] |= not inside[codes[rows[i], j]]


@kernel(nogil=True)
def _take(
    values: Ints,
    labels: Ints,
    boxes: Boxes,
    counts: Codes,
    k: int,
    constraints: Constraints,
    c: int,
    cost: float,
    rows: Ints,
) -> bool:
    """Move records to class c from dearer classes that can spare them; return whether c meets the rules."""
    for r in rows:
        a = labels[r]
        if boxes.cost[a] <= cost or boxes.size[a] <= k:
            continue
        count_kind(counts[a], values, r, -1)
        if not admits(counts[a], int(boxes.size[a]) - 1, constraints):
            count_kind(counts[a], values, r, 1)
            continue
        boxes.size[a] -= 1
        boxes.size[c] += 1
        count_kind(counts[c], values, r, 1)
        labels[r] = c
    return bool(admits(counts[c], int(boxes.size[c]), constraints))


@kernel(nogil=True, inner=True)
def _give(
    space: Space,
    codes: Codes,
    values: Ints,
    labels: Ints,
    boxes: Boxes,
    counts: Codes,
    constraints: Constraints,
    c: int,
    cost: float,
    rows: Ints,
) -> bool:
    """Move records of class c, at its new cost, to where they cost least; return whether that may pay."""
    balance = boxes.size[c] * boxes.cost[c] - (boxes.size[c] - len(rows)) * cost
    for r in rows:
        row, best, price = codes[r], -1, balance
        for b in range(len(boxes.size)):
            if b == c or boxes.size[b] == 0:
                continue
            size = boxes.size[b]
            limit = (price + size * boxes.cost[b]) / (size + 1) * (1.0 + WIDTH)
            union = union_cost_up_to(space, boxes.lo[b], boxes.hi[b], row, row, limit)
            if union + size * (union - boxes.cost[b]) < price:
                count_kind(counts[b], values, r, 1)
                if admits(counts[b], int(size) + 1, constraints):
                    best, price = b, union + size * (union - boxes.cost[b])
                count_kind(counts[b], values, r, -1)
        if best < 0:
            return False
        balance -= price
        labels[r] = best
        count_kind(counts[c], values, r, -1)
        count_kind(counts[best], values, r, 1)
        boxes.size[c] -= 1
        boxes.size[best] += 1
        enlarge(space, boxes.lo[best], boxes.hi[best], row, row)
        boxes.cost[best] = box_cost(space, boxes.lo[best], boxes.hi[best])
    return bool(admits(counts[c], int(boxes.size[c]), constraints))


@kernel(nogil=True)
def _cover(space: Space, codes: Codes, labels: Ints, boxes: Boxes, touched: npt.NDArray[np.bool_]) -> None:
    """Fit the boxes of classes to their records again."""
    begun = np.zeros(len(touched), np.bool_)
    for r in range(len(labels)):
        c = labels[r]
        if c < 0 or not touched[c]:
            continue
        if begun[c]:
            enlarge(space, boxes.lo[c], boxes.hi[c], codes[r], codes[r])
        else:
            boxes.lo[c] = codes[r]
            boxes.hi[c] = codes[r]
            begun[c] = True
    for c in np.flatnonzero(touched):
        boxes.cost[c] = box_cost(space, boxes.lo[c], boxes.hi[c])
