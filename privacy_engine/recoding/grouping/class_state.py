"""A partition that changes: classes with their members, boxes and counts of sensitive values.

Records move one at a time. A class can be evaluated with one record more or less without being changed, so a
search prices a move exactly before making it. Emptied class numbers are reused.

If a person may have several records, a person's records that are equal in all codes move together: such a
`record` has their number as its weight, and a class counts its distinct persons.
"""

from typing import NamedTuple

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
    union_cost,
)
from privacy_engine.recoding.grouping.constraints import Constraints, admits

LEAST = 1e-12  # a step must lower the total loss by more than rounding can


class Records(NamedTuple):
    """Records that move together.

    codes: (n, q) int32.
    weight: (n,) float64, records that each represents, >= 1.
    entry: (n + 1,) int64; record r owns ``entry[r] : entry[r + 1]`` of `values` and `times`.
    values: (e,) int32 sensitive codes, each with its attribute's offset into the counts added; empty if only
    k is
        required.
    times: (e,) int32, how often a record has that value.
    mates: (n, 2) int64; ``mates[r, 0] : mates[r, 1]`` are the records of r's person, including r; (0, 2) if
    each
        person has one record.
    """

    codes: Codes
    weight: Floats
    entry: Ints
    values: Codes
    times: Codes
    mates: Ints


def single_records(codes: Codes, values: Codes) -> Records:
    """Records (n, q), each of another person, with their sensitive values (s, n), offsets added."""
    s, n = values.shape
    return Records(
        codes=codes,
        weight=np.ones(n),
        entry=np.arange(n + 1) * s,
        values=np.ascontiguousarray(values.T).ravel(),
        times=np.ones(n * s, np.int32),
        mates=np.zeros((0, 2), np.int64),
    )


def records_of_persons(
    codes: Codes, values: Codes, labels: Ints, tuple_of: Ints, persons: Ints
) -> tuple[Records, Ints]:
    """Merge a person's equal records in one class; also return (n,) the index of each record's merged one.

    Args:
        codes: Int32, shape (n, q).
        values: Sensitive codes, offsets added, shape (s, n) int32.
        labels: Class of each record, shape (n,).
        tuple_of: Number of its codes, shape (n,).
        persons: Person of each record, >= 0, shape (n,).
    """
    order = np.lexsort((tuple_of, labels, persons))
    keys = np.stack([persons, labels, tuple_of])[:, order]
    begins = np.flatnonzero((np.diff(keys, axis=1, prepend=-2) != 0).any(axis=0))
    joined = np.empty(len(codes), np.int64)
    joined[order] = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(codes)))
    width = int(values.max(initial=0)) + 1
    had, times = np.unique((joined * width + values).ravel(), return_counts=True)
    owner, own = np.divmod(had, width)
    whose = keys[0, begins]
    records = Records(
        codes=np.ascontiguousarray(codes[order[begins]]),
        weight=np.bincount(joined).astype(np.float64),
        entry=np.searchsorted(owner, np.arange(len(begins) + 1)),
        values=own.astype(np.int32),
        times=times.astype(np.int32),
        mates=np.stack([np.searchsorted(whose, whose), np.searchsorted(whose, whose, side="right")], axis=1),
    )
    return records, joined


class ClassState(NamedTuple):
    """A partition of n records into at most m classes.

    codes, weight, entry, values, times, mates: as in `Records`.
    labels: (n,) int64, -1 = in no class.
    first: (m,) int64, a member of each class, -1 if empty; after, before: (n,) int64, the members
        of a class as a linked list, ended by -1.
    boxes: of m classes; their sizes are sums of weights.
    members: (m,) int64, records in each class; people: (m,) int64, distinct persons.
    counts: (m, values) int32, sensitive values in each class.
    priced: (m,) bool, whether `rest` and `least_rest` are those of the class as it is, see `price_exits`.
    rest: (n,) float64, cost of the box of the record's class without the record.
    least_rest: (m,) float64, the smallest of these in a class; heaviest: (m,) float64, the largest weight.
    """

    codes: Codes
    weight: Floats
    entry: Ints
    values: Codes
    times: Codes
    mates: Ints
    labels: Ints
    first: Ints
    after: Ints
    before: Ints
    boxes: Boxes
    members: Ints
    people: Ints
    counts: Codes
    priced: npt.NDArray[np.bool_]
    rest: Floats
    least_rest: Floats
    heaviest: Floats


@kernel(nogil=True)
def open_state(space: Space, records: Records, distinct_values: int, labels: Ints, m: int) -> ClassState:
    """The state of a partition ``labels`` (n,); m: room for classes, more than ``labels.max()``."""
    codes = records.codes
    n, q = codes.shape
    boxes = Boxes(np.zeros((m, q), np.int32), np.zeros((m, q), np.int32), np.zeros(m), np.zeros(m))
    state = ClassState(
        codes,
        records.weight,
        records.entry,
        records.values,
        records.times,
        records.mates,
        np.full(n, -1),
        np.full(m, -1),
        np.full(n, -1),
        np.full(n, -1),
        boxes,
        np.zeros(m, np.int64),
        np.zeros(m, np.int64),
        np.zeros((m, distinct_values), np.int32),
        np.zeros(m, np.bool_),
        np.zeros(n),
        np.zeros(m),
        np.zeros(m),
    )
    for r in range(n - 1, -1, -1):
        if labels[r] >= 0:
            _link(state, r, labels[r])
            if state.members[labels[r]] == 1:
                boxes.lo[labels[r]] = codes[r]
                boxes.hi[labels[r]] = codes[r]
            else:
                enlarge(space, boxes.lo[labels[r]], boxes.hi[labels[r]], codes[r], codes[r])
    for c in range(m):
        if boxes.size[c] > 0:
            boxes.cost[c] = box_cost(space, boxes.lo[c], boxes.hi[c])
    return state


@kernel(nogil=True, inner=True)
def has_mate(state: ClassState, r: int, c: int) -> bool:
    """Whether another record of r's person is in class c."""
    if len(state.mates) > 0:
        for s in range(state.mates[r, 0], state.mates[r, 1]):
            if s != r and state.labels[s] == c:
                return True
    return False


@kernel(nogil=True)
def people_without(state: ClassState, r: int) -> int:
    """Distinct persons in r's class once r has left it."""
    return int(state.people[state.labels[r]]) - (not has_mate(state, r, state.labels[r]))


@kernel(nogil=True)
def _link(state: ClassState, r: int, c: int) -> None:
    head = state.first[c]
    state.after[r], state.before[r] = head, -1
    if head >= 0:
        state.before[head] = r
    state.first[c] = r
    state.labels[r] = c
    state.boxes.size[c] += state.weight[r]
    state.members[c] += 1
    state.people[c] += not has_mate(state, r, c)
    _count(state.counts[c], state.entry, state.values, state.times, r, 1)


@kernel(nogil=True, inner=True)
def _unlink(state: ClassState, r: int) -> None:
    c, nxt, prv = state.labels[r], state.after[r], state.before[r]
    if nxt >= 0:
        state.before[nxt] = prv
    if prv >= 0:
        state.after[prv] = nxt
    else:
        state.first[c] = nxt
    state.labels[r] = -1
    state.boxes.size[c] -= state.weight[r]
    state.members[c] -= 1
    state.people[c] -= not has_mate(state, r, c)
    _count(state.counts[c], state.entry, state.values, state.times, r, -1)


@kernel(nogil=True, inner=True)
def box_without(space: Space, state: ClassState, r: int, lo: Codes, hi: Codes) -> float:
    """Write the box of r's class without r into lo, hi; return its cost. An empty class costs 0."""
    c = state.labels[r]
    box_lo, box_hi = state.boxes.lo[c], state.boxes.hi[c]
    if state.priced[c] and state.rest[r] == state.boxes.cost[c]:  # the others span all that the class does
        lo[:] = box_lo
        hi[:] = box_hi
        return float(state.rest[r])
    started = False
    s = state.first[c]
    while s >= 0:
        if s != r:
            if started:
                enlarge(space, lo, hi, state.codes[s], state.codes[s])
                if _same(lo, box_lo) and _same(hi, box_hi):
                    return float(state.boxes.cost[c])
            else:
                lo[:] = state.codes[s]
                hi[:] = state.codes[s]
                started = True
        s = state.after[s]
    return box_cost(space, lo, hi) if started else 0.0


@kernel(inline="always")
def _same(a: Codes, b: Codes) -> bool:
    differences = 0
    for j in range(len(a)):
        differences += a[j] != b[j]
    return differences == 0


@kernel(nogil=True, inner=True)
def price_exits(space: Space, state: ClassState, c: int) -> None:
    """Bring `rest` of all members of class c up to date, in one sweep there and back: O(size q).

    The span without a record is that of the members before and after it.
    """
    if state.priced[c]:
        return
    codes, rest, cost, q = state.codes, state.rest, state.boxes.cost[c], state.codes.shape[1]
    members = members_of(state, c)
    last = len(members) - 1
    state.priced[c] = True
    state.least_rest[c] = cost
    state.heaviest[c] = state.weight[members].max() if last >= 0 else 1.0
    if cost == 0.0 or last <= 0:
        rest[members] = 0.0
        state.least_rest[c] = 0.0
        return
    after_lo, after_hi = np.empty((last + 1, q), np.int32), np.empty((last + 1, q), np.int32)
    after_lo[last] = codes[members[last]]
    after_hi[last] = codes[members[last]]
    for i in range(last - 1, -1, -1):
        after_lo[i] = after_lo[i + 1]
        after_hi[i] = after_hi[i + 1]
        enlarge(space, after_lo[i], after_hi[i], codes[members[i]], codes[members[i]])
    rest[members[0]] = box_cost(space, after_lo[1], after_hi[1])
    lo, hi = codes[members[0]].copy(), codes[members[0]].copy()
    for i in range(1, last):
        rest[members[i]] = union_cost(space, lo, hi, after_lo[i + 1], after_hi[i + 1])
        enlarge(space, lo, hi, codes[members[i]], codes[members[i]])
    rest[members[last]] = box_cost(space, lo, hi)
    for r in members:
        state.least_rest[c] = min(state.least_rest[c], rest[r])


@kernel(nogil=True)
def exit_gain(space: Space, state: ClassState, r: int) -> float:
    """Return the decrease of the total loss when record r leaves its class."""
    c = state.labels[r]
    price_exits(space, state, c)
    size, cost = state.boxes.size[c], state.boxes.cost[c]
    return float(size * cost - (size - state.weight[r]) * state.rest[r])


@kernel(nogil=True)
def largest_gain(space: Space, state: ClassState, c: int) -> float:
    """The largest `exit_gain` of a member of class c; where weights differ, no less than that."""
    price_exits(space, state, c)
    size, cost = state.boxes.size[c], state.boxes.cost[c]
    return float(size * cost - (size - state.heaviest[c]) * state.least_rest[c])


@kernel(nogil=True)
def move(space: Space, state: ClassState, r: int, target: int, lo: Codes, hi: Codes) -> float:
    """Move record r to class ``target``, which may be empty; return the change of the total loss.

    lo, hi: (q,) room to work in.
    """
    source = state.labels[r]
    boxes = state.boxes
    before = boxes.size[source] * boxes.cost[source] + boxes.size[target] * boxes.cost[target]
    cost = box_without(space, state, r, lo, hi)
    _unlink(state, r)
    boxes.lo[source], boxes.hi[source], boxes.cost[source] = lo, hi, cost
    if boxes.size[target] == 0:
        boxes.lo[target] = state.codes[r]
        boxes.hi[target] = state.codes[r]
    else:
        enlarge(space, boxes.lo[target], boxes.hi[target], state.codes[r], state.codes[r])
    _link(state, r, target)
    boxes.cost[target] = box_cost(space, boxes.lo[target], boxes.hi[target])
    state.priced[source] = state.priced[target] = False
    return float(boxes.size[source] * boxes.cost[source] + boxes.size[target] * boxes.cost[target] - before)


@kernel(nogil=True)
def may_swap(state: ClassState, c: int, out: int, into: int, constraints: Constraints) -> bool:
    """Whether class c meets all rules without record ``out`` and with record ``into`` (-1 = none)."""
    if constraints.kind.shape[0] == 0:
        return True
    counts, entry, values, times = state.counts[c], state.entry, state.values, state.times
    size = state.boxes.size[c]
    if out >= 0:
        size -= state.weight[out]
    if into >= 0:
        size += state.weight[into]
    _count(counts, entry, values, times, out, -1)
    _count(counts, entry, values, times, into, 1)
    kept = admits(counts, int(size), constraints)
    _count(counts, entry, values, times, out, 1)
    _count(counts, entry, values, times, into, -1)
    return bool(kept)


@kernel(inline="always")
def _count(counts: Codes, entry: Ints, values: Codes, times: Codes, r: int, by: int) -> None:
    """Add the sensitive values of record r, if there is one, to the counts, a number of times."""
    if r >= 0:
        for e in range(entry[r], entry[r + 1]):
            counts[values[e]] += by * times[e]


@kernel(nogil=True)
def total_loss(boxes: Boxes) -> float:
    """Loss summed over records."""
    return float((boxes.size * boxes.cost).sum())


@kernel(nogil=True, inner=True)
def members_of(state: ClassState, c: int) -> Ints:
    """The records of class c."""
    members = np.empty(state.members[c], np.int64)
    r = state.first[c]
    for i in range(len(members)):
        members[i] = r
        r = state.after[r]
    return members
