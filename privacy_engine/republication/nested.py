"""Local search over classes whose boxes are nested with what was released of their members before.

Each person has a core: the smallest box that they were published with, which lies within all the others. A
new box is allowed if it covers the whole core, or lies within it and so becomes the core; for newcomers the
core is the whole domain. The box of a class is the smallest that covers its members' values and is allowed
for each of them: starting from the values, the core of every member whose core the box neither covers nor
lies within is added, until there is none. It is unique, because a box that has left a core can only become
allowed again by covering it.

Members that are `fixed` stay with all the others of their class; classes of theirs are only merged.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.box_tree import INCREASE, BoxTree, cheapest, plant
from privacy_engine.recoding.grouping.boxes import (
    Boxes,
    Codes,
    Floats,
    Ints,
    Space,
    box_cost,
    enlarge,
    join_node,
    union_cost,
    union_cost_up_to,
)
from privacy_engine.recoding.grouping.constraints import Constraints, admits

FEW = 12  # classes that are tried for a person or a class
NEAR = 16  # members that are tried for a class founded around one
SOUGHT = 4096  # people among whom neighbours are searched: with all, the time would be quadratic
ROUNDS = 2
LEAST = 1e-12  # a step must lower the total loss by more than rounding can
MOST_MEMBERS = 4  # times k: a larger class is not dissolved


class People(NamedTuple):
    """Who is put into classes.

    codes: (n, q) int32, their values; low, high: (n, q) int32, their cores.
    values: (n, s) int32, index of their sensitive values in the counts; (n, 0) without rules.
    fixed: (n,) bool, whether they stay with their class.
    """

    codes: Codes
    low: Codes
    high: Codes
    values: Codes
    fixed: npt.NDArray[np.bool_]


class Partition(NamedTuple):
    """A partition that changes.

    labels: (n,) int64; first: (m,) int64, a member of each class, -1 if empty; after: (n,) int64, the next
        member, -1 at the end.
    boxes: boxes of m classes; counts: (m, values) int32, their sensitive values.
    least: (m,) float64, how many members a class must have; bound: (m,) bool, whether it has fixed ones.
    """

    labels: Ints
    first: Ints
    after: Ints
    boxes: Boxes
    counts: Codes
    least: Floats
    bound: npt.NDArray[np.bool_]


def search(
    space: Space,
    people: People,
    labels: Ints,
    k: int,
    planned: int,
    constraints: Constraints,
    rng: np.random.Generator,
) -> tuple[Ints, Codes, Codes]:
    """Form classes of at least k that meet the rules, as far as possible, and their boxes.

    Args:
        space: Costs of the q attributes.
        people: People to put into classes, shape (n,).
        labels: Classes to begin with, >= 0, shape (n,) int64; those of fixed members are only merged.
        k: Least number of members.
        planned: Same of classes without fixed members, >= k.
        constraints: Further requirements on a class.
        rng: Order in which members and classes are tried.

    Returns:
        labels: (n,) int64, 0 .. c - 1; low, high: (c, q) int32, the boxes. One class, or one that misses,
        may be left where nothing else helps.
    """
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    state = _opened(space, people, labels, int(labels.max()) + 1, k, planned, int(constraints.start[-1]))
    n = len(labels)
    for round_ in range(ROUNDS + 1):
        while True:
            alive = np.flatnonzero(state.boxes.size > 0)
            failing = alive[_failing(state, alive, constraints)]
            if not len(failing) or len(alive) == 1:
                break
            order = failing[np.argsort(state.boxes.size[failing], kind="stable")]
            _join_failing(space, people, state, plant(space, state.boxes, alive), order, k, constraints)
        if round_ == ROUNDS:
            break
        _cut(space, people, state, constraints)
        grown = plant(space, state.boxes, np.flatnonzero(state.boxes.size > 0))
        _move_members(space, people, state, grown, rng.permutation(n), constraints)
        _swap_members(space, people, state, grown, rng.permutation(n), constraints)
        _found_classes(space, people, state, rng.permutation(n), planned, constraints)
        grown = plant(space, state.boxes, np.flatnonzero(state.boxes.size > 0))
        _dissolve(space, people, state, grown, rng.permutation(len(state.first)), k, constraints)
    used, numbered = np.unique(state.labels, return_inverse=True)
    return numbered.astype(np.int64), state.boxes.lo[used], state.boxes.hi[used]


@kernel(nogil=True, inner=True)
def lies_within(space: Space, lo: Codes, hi: Codes, wide_lo: Codes, wide_hi: Codes) -> bool:
    """Whether a box lies within another."""
    for j in range(len(lo)):
        if space.tree[j]:
            if lo[j] != wide_lo[j] and join_node(space, j, lo[j], wide_lo[j]) != wide_lo[j]:
                return False
        elif lo[j] < wide_lo[j] or hi[j] > wide_hi[j]:
            return False
    return True


@kernel(nogil=True, inner=True)
def _take_in(space: Space, people: People, i: int, lo: Codes, hi: Codes) -> bool:
    """Grow a box that is not allowed for member i; whether it grew."""
    low, high = people.low[i], people.high[i]
    if lies_within(space, lo, hi, low, high) or lies_within(space, low, high, lo, hi):
        return False
    enlarge(space, lo, hi, low, high)
    return True


@kernel(nogil=True)
def _close(space: Space, people: People, state: Partition, c: int, skip: int, lo: Codes, hi: Codes) -> bool:
    """Grow a box until it is allowed for all members of a class but one; whether it grew."""
    grew, again = False, True
    while again:
        again = False
        i = state.first[c]
        while i >= 0:
            if i != skip and _take_in(space, people, i, lo, hi):
                grew = again = True
            i = state.after[i]
    return grew


@kernel(nogil=True, inner=True)
def _box_without(
    space: Space, people: People, state: Partition, c: int, skip: int, lo: Codes, hi: Codes
) -> bool:
    """Return the box of a class without one member; False if no one remains."""
    some = False
    i = state.first[c]
    while i >= 0:
        if i != skip:
            if some:
                enlarge(space, lo, hi, people.codes[i], people.codes[i])
            else:
                lo[:], hi[:], some = people.codes[i], people.codes[i], True
        i = state.after[i]
    if some:
        _close(space, people, state, c, skip, lo, hi)
    return some


@kernel(nogil=True, inner=True)
def _box_with(space: Space, people: People, state: Partition, c: int, i: int, lo: Codes, hi: Codes) -> float:
    """The box of a class with one member more, and its cost."""
    lo[:], hi[:] = state.boxes.lo[c], state.boxes.hi[c]
    enlarge(space, lo, hi, people.codes[i], people.codes[i])
    while _close(space, people, state, c, -1, lo, hi) or _take_in(space, people, i, lo, hi):
        pass
    return box_cost(space, lo, hi)


@kernel(nogil=True)
def _opened(
    space: Space, people: People, labels: Ints, m: int, k: int, planned: int, places: int
) -> Partition:
    n, q = people.codes.shape
    boxes = Boxes(np.zeros((m, q), np.int32), np.zeros((m, q), np.int32), np.zeros(m), np.zeros(m))
    state = Partition(
        labels.copy(),
        np.full(m, -1),
        np.full(n, -1),
        boxes,
        np.zeros((m, places), np.int32),
        np.full(m, float(planned)),
        np.zeros(m, np.bool_),
    )
    for i in range(n):
        _enter(people, state, labels[i], i)
        if people.fixed[i]:
            state.bound[labels[i]] = True
            state.least[labels[i]] = k
    for c in range(m):
        if boxes.size[c] > 0:
            _box_without(space, people, state, c, -1, boxes.lo[c], boxes.hi[c])
            boxes.cost[c] = box_cost(space, boxes.lo[c], boxes.hi[c])
    return state


@kernel(nogil=True, inner=True)
def _enter(people: People, state: Partition, c: int, i: int) -> None:
    state.after[i] = state.first[c]
    state.first[c] = i
    state.labels[i] = c
    state.boxes.size[c] += 1
    for v in people.values[i]:
        state.counts[c, v] += 1


@kernel(nogil=True)
def _leave(people: People, state: Partition, c: int, i: int) -> None:
    x, last = state.first[c], -1
    while x != i:
        last, x = x, state.after[x]
    if last < 0:
        state.first[c] = state.after[i]
    else:
        state.after[last] = state.after[i]
    state.boxes.size[c] -= 1
    for v in people.values[i]:
        state.counts[c, v] -= 1


@kernel(nogil=True)
def _put(space: Space, people: People, state: Partition, c: int, i: int, lo: Codes, hi: Codes) -> None:
    """Put a member into a class, whose box grows."""
    state.boxes.cost[c] = _box_with(space, people, state, c, i, lo, hi)
    state.boxes.lo[c], state.boxes.hi[c] = lo, hi
    _enter(people, state, c, i)


@kernel(nogil=True, inner=True)
def _keeps(
    people: People, state: Partition, c: int, enters: int, leaves: int, constraints: Constraints
) -> bool:
    """Return whether a class meets the rules if one enters and one of its members leaves; -1 = no one."""
    if len(constraints.kind) == 0:
        return True
    counts, size = state.counts[c].copy(), int(state.boxes.size[c])
    for i, by in ((enters, 1), (leaves, -1)):
        if i >= 0:
            size += by
            for v in people.values[i]:
                counts[v] += by
    return admits(counts, size, constraints)


@kernel(nogil=True)
def _failing(state: Partition, classes: Ints, constraints: Constraints) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(classes), np.bool_)
    for t in range(len(classes)):
        c, size = classes[t], state.boxes.size[classes[t]]
        found[t] = size < state.least[c] or not admits(state.counts[c], int(size), constraints)
    return found


@kernel(nogil=True)
def _join_failing(
    space: Space,
    people: People,
    state: Partition,
    grown: BoxTree,
    order: Ints,
    k: int,
    constraints: Constraints,
) -> None:
    """Join each class that fails whole with the one that costs least."""
    boxes, q = state.boxes, people.codes.shape[1]
    found, price = np.empty(FEW, np.int64), np.empty(FEW)
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    best_lo, best_hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for c in order:
        size = boxes.size[c]
        if size == 0 or (size >= state.least[c] and admits(state.counts[c], int(size), constraints)):
            continue
        have = cheapest(
            space, boxes, grown, boxes.lo[c], boxes.hi[c], size, boxes.cost[c], c, INCREASE, np.inf,
            found, price,
        )  # fmt: skip
        best, least = -1, np.inf
        for b in found[:have]:
            if boxes.size[b] == 0:
                continue
            lo[:], hi[:] = boxes.lo[b], boxes.hi[b]
            enlarge(space, lo, hi, boxes.lo[c], boxes.hi[c])
            while _close(space, people, state, b, -1, lo, hi) or _close(space, people, state, c, -1, lo, hi):
                pass
            union = box_cost(space, lo, hi)
            cost = boxes.size[b] * (union - boxes.cost[b]) + size * (union - boxes.cost[c])
            if cost < least:
                best, least = b, cost
                best_lo[:], best_hi[:] = lo, hi
        if best < 0:
            continue
        state.bound[best] |= state.bound[c]
        if state.bound[best]:
            state.least[best] = k
        i = state.first[c]
        state.first[c], boxes.size[c], boxes.cost[c] = -1, 0, 0
        state.counts[c] = 0
        while i >= 0:
            then = state.after[i]
            _enter(people, state, best, i)
            i = then
        boxes.lo[best], boxes.hi[best] = best_lo, best_hi
        boxes.cost[best] = box_cost(space, best_lo, best_hi)


@kernel(nogil=True, inner=True)
def _best_entry(
    space: Space,
    people: People,
    state: Partition,
    grown: BoxTree,
    i: int,
    bar: float,
    constraints: Constraints,
    found: Ints,
    price: Floats,
    lo: Codes,
    hi: Codes,
) -> tuple[int, float]:
    """Return the class for which a further member costs least, below a limit; -1 if there is none."""
    boxes, own = state.boxes, state.labels[i]
    row = people.codes[i]
    have = cheapest(space, boxes, grown, row, row, 1.0, 0.0, own, INCREASE, bar, found, price)
    best, least = -1, bar
    for b in found[:have]:
        if b == own or boxes.size[b] < state.least[b]:
            continue
        cost = (boxes.size[b] + 1) * _box_with(space, people, state, b, i, lo, hi) - boxes.size[
            b
        ] * boxes.cost[b]
        if cost < least and _keeps(people, state, b, i, -1, constraints):
            best, least = b, cost
    return best, least


@kernel(nogil=True)
def _move_members(
    space: Space, people: People, state: Partition, grown: BoxTree, order: Ints, constraints: Constraints
) -> None:
    """Move members, in this order, to the class where the total falls most."""
    boxes, q = state.boxes, people.codes.shape[1]
    found, price = np.empty(FEW, np.int64), np.empty(FEW)
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    rest_lo, rest_hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for i in order:
        c = state.labels[i]
        if people.fixed[i] or boxes.size[c] <= state.least[c] or boxes.cost[c] == 0.0:
            continue
        if not _box_without(space, people, state, c, i, rest_lo, rest_hi):
            continue
        rest = box_cost(space, rest_lo, rest_hi)
        gain = boxes.size[c] * boxes.cost[c] - (boxes.size[c] - 1) * rest - LEAST
        if not _keeps(people, state, c, -1, i, constraints):
            continue
        best, _ = _best_entry(space, people, state, grown, i, gain, constraints, found, price, lo, hi)
        if best >= 0:
            _leave(people, state, c, i)
            boxes.lo[c], boxes.hi[c], boxes.cost[c] = rest_lo, rest_hi, rest
            _put(space, people, state, best, i, lo, hi)


@kernel(nogil=True, inner=True)
def _boxes_without_one(
    space: Space, people: People, state: Partition, c: int, low: Codes, high: Codes, cost: Floats
) -> None:
    """Return for each member of a class the box of all others and its cost; infinite if there are none."""
    i = state.first[c]
    while i >= 0:
        cost[i] = np.inf
        if _box_without(space, people, state, c, i, low[i], high[i]):
            cost[i] = box_cost(space, low[i], high[i])
        i = state.after[i]


@kernel(nogil=True, inner=True)
def _box_instead(
    space: Space, people: People, state: Partition, c: int, leaves: int, i: int, lo: Codes, hi: Codes
) -> float:
    """Grow the box of a class without one member to the one with another instead; its cost."""
    enlarge(space, lo, hi, people.codes[i], people.codes[i])
    while _close(space, people, state, c, leaves, lo, hi) or _take_in(space, people, i, lo, hi):
        pass
    return box_cost(space, lo, hi)


@kernel(nogil=True)
def _swap_members(
    space: Space, people: People, state: Partition, grown: BoxTree, order: Ints, constraints: Constraints
) -> None:
    """Swap members, in this order, with one of a near class where the total falls most."""
    boxes, (n, q) = state.boxes, people.codes.shape
    found, price = np.empty(FEW, np.int64), np.empty(FEW)
    rest_lo, rest_hi, rest = np.empty((n, q), np.int32), np.empty((n, q), np.int32), np.empty(n)
    lo, hi = np.empty((2, q), np.int32), np.empty((2, q), np.int32)
    best_lo, best_hi, best_cost = np.empty((2, q), np.int32), np.empty((2, q), np.int32), np.empty(2)
    for c in range(len(boxes.size)):
        _boxes_without_one(space, people, state, c, rest_lo, rest_hi, rest)
    for i in order:
        c, row = state.labels[i], people.codes[i]
        if people.fixed[i] or boxes.cost[c] <= rest[i]:
            continue
        have = cheapest(space, boxes, grown, row, row, 1.0, 0.0, c, INCREASE, np.inf, found, price)
        best, most = -1, LEAST
        for b in found[:have]:
            x = state.first[b] if b != c else -1
            while x >= 0:
                y, x = x, state.after[x]
                if people.fixed[y] or not np.isfinite(rest[y]):
                    continue
                before = boxes.size[c] * boxes.cost[c] + boxes.size[b] * boxes.cost[b] - most
                other_row = people.codes[y]
                after = boxes.size[c] * union_cost(space, rest_lo[i], rest_hi[i], other_row, other_row)
                if after >= before:
                    continue
                after += boxes.size[b] * union_cost(space, rest_lo[y], rest_hi[y], row, row)
                if after >= before:
                    continue
                lo[0], hi[0], lo[1], hi[1] = rest_lo[i], rest_hi[i], rest_lo[y], rest_hi[y]
                own = _box_instead(space, people, state, c, i, y, lo[0], hi[0])
                other = _box_instead(space, people, state, b, y, i, lo[1], hi[1])
                after = boxes.size[c] * own + boxes.size[b] * other
                if (
                    after < before
                    and _keeps(people, state, c, y, i, constraints)
                    and _keeps(people, state, b, i, y, constraints)
                ):
                    best, most = y, most + before - after
                    best_lo[:], best_hi[:], best_cost[0], best_cost[1] = lo, hi, own, other
        if best < 0:
            continue
        b = state.labels[best]
        _leave(people, state, c, i)
        _leave(people, state, b, best)
        _enter(people, state, c, best)
        _enter(people, state, b, i)
        for t, part in enumerate((c, b)):
            boxes.lo[part], boxes.hi[part], boxes.cost[part] = best_lo[t], best_hi[t], best_cost[t]
            _boxes_without_one(space, people, state, part, rest_lo, rest_hi, rest)


@kernel(nogil=True)
def _members(state: Partition, c: int) -> Ints:
    found, have = np.empty(int(state.boxes.size[c]), np.int64), 0
    i = state.first[c]
    while i >= 0:
        found[have] = i
        have += 1
        i = state.after[i]
    return found


@kernel(nogil=True)
def _dissolve(
    space: Space,
    people: People,
    state: Partition,
    grown: BoxTree,
    order: Ints,
    k: int,
    constraints: Constraints,
) -> None:
    """Dissolve classes whose members cost less in others."""
    boxes, q = state.boxes, people.codes.shape[1]
    found, price = np.empty(FEW, np.int64), np.empty(FEW)
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for c in order:
        gain = boxes.size[c] * boxes.cost[c]
        if gain == 0.0 or state.bound[c] or boxes.size[c] > MOST_MEMBERS * k:
            continue
        members = _members(state, c)
        target, spent = np.empty(len(members), np.int64), 0.0
        for t in range(len(members)):
            bar = gain - spent - LEAST
            target[t], cost = _best_entry(
                space, people, state, grown, members[t], bar, constraints, found, price, lo, hi
            )
            spent += cost
            if target[t] < 0:
                break
        if target[t] < 0:
            continue
        for t in range(len(members)):
            _leave(people, state, c, members[t])
            _put(space, people, state, target[t], members[t], lo, hi)
        boxes.cost[c] = 0.0


@kernel(nogil=True, inner=True)
def _cost_of(space: Space, people: People, members: Ints, lo: Codes, hi: Codes) -> float:
    """The box that some members have as a class, and its cost."""
    lo[:], hi[:] = people.codes[members[0]], people.codes[members[0]]
    for i in members:
        enlarge(space, lo, hi, people.codes[i], people.codes[i])
    again = True
    while again:
        again = False
        for i in members:
            again |= _take_in(space, people, i, lo, hi)
    return box_cost(space, lo, hi)


@kernel(nogil=True)
def _cut(space: Space, people: People, state: Partition, constraints: Constraints) -> None:
    """Cut classes in the order of one attribute if both parts have enough members, at the lowest cost."""
    boxes, q = state.boxes, people.codes.shape[1]
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    free = 0
    for c in range(len(boxes.size)):
        size, least = int(boxes.size[c]), int(state.least[c])
        if size < 2 * least or boxes.cost[c] == 0.0 or state.bound[c]:
            continue
        members = _members(state, c)
        chosen, place, best = members, 0, size * boxes.cost[c] - LEAST
        for j in range(q):
            keys = np.empty(size, np.int64)
            for t in range(size):
                code = people.codes[members[t], j]
                keys[t] = space.rank[space.start[j] + code] if space.tree[j] else code
            order = stable_order(keys)
            for cut in range(least, size - least + 1):
                if keys[order[cut]] == keys[order[cut - 1]]:
                    continue
                cost = cut * _cost_of(space, people, members[order[:cut]], lo, hi)
                if cost < best:
                    cost += (size - cut) * _cost_of(space, people, members[order[cut:]], lo, hi)
                if cost < best:
                    chosen, place, best = members[order], cut, cost
        while free < len(boxes.size) and boxes.size[free] > 0:
            free += 1
        if place == 0 or free == len(boxes.size):
            continue
        for i in chosen[place:]:
            _leave(people, state, c, i)
            _enter(people, state, free, i)
        state.least[free], state.bound[free] = least, False
        both_keep = True
        for part in (c, free):
            both_keep &= admits(state.counts[part], int(boxes.size[part]), constraints)
        if not both_keep:
            for i in chosen[place:]:
                _leave(people, state, free, i)
                _enter(people, state, c, i)
            continue
        for part in (c, free):
            _box_without(space, people, state, part, -1, boxes.lo[part], boxes.hi[part])
            boxes.cost[part] = box_cost(space, boxes.lo[part], boxes.hi[part])


@kernel(nogil=True)
def _spare(people: People, state: Partition, i: int) -> bool:
    """Return whether a member may leave: it is not fixed, and the class remains large enough."""
    c = state.labels[i]
    return not people.fixed[i] and state.boxes.size[c] > state.least[c]


@kernel(nogil=True, inner=True)
def _company(space: Space, people: People, state: Partition, i: int, size: int, others: Ints) -> Ints:
    """Return member i and others that may leave at low cost; fewer than requested if too few are near."""
    boxes, q = state.boxes, people.codes.shape[1]
    row, bar = people.codes[i], boxes.cost[state.labels[i]]
    near, price, have = np.empty(NEAR, np.int64), np.full(NEAR, np.inf), 0
    for j in others:
        if j == i or not _spare(people, state, j):
            continue
        saved = boxes.cost[state.labels[j]]
        cost = union_cost_up_to(space, row, row, people.codes[j], people.codes[j], bar) - saved
        if cost >= price[-1]:
            continue
        at = min(have, NEAR - 1)
        while at > 0 and price[at - 1] > cost:
            near[at], price[at] = near[at - 1], price[at - 1]
            at -= 1
        near[at], price[at] = j, cost
        have = min(have + 1, NEAR)
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    chosen, some = np.empty(size, np.int64), 1
    chosen[0] = i
    while some < size:
        best, least = -1, np.inf
        for t in range(have):
            if near[t] < 0:
                continue
            c, gone = state.labels[near[t]], 0
            for j in chosen[:some]:
                gone += state.labels[j] == c
            if boxes.size[c] - gone <= state.least[c]:
                continue
            chosen[some] = near[t]
            cost = size * _cost_of(space, people, chosen[: some + 1], lo, hi) - boxes.cost[c]
            if cost < least:
                best, least = t, cost
        if best < 0:
            break
        chosen[some], near[best] = near[best], -1
        some += 1
    return chosen[:some]


@kernel(nogil=True)
def _measured(
    space: Space, people: People, state: Partition, classes: Ints, constraints: Constraints
) -> float:
    """Find the boxes of some classes and their cost, infinity if one misses a rule."""
    boxes, total = state.boxes, 0.0
    for c in classes:
        _box_without(space, people, state, c, -1, boxes.lo[c], boxes.hi[c])
        boxes.cost[c] = box_cost(space, boxes.lo[c], boxes.hi[c])
        total += boxes.size[c] * boxes.cost[c]
        if not admits(state.counts[c], int(boxes.size[c]), constraints):
            total = np.inf
    return total


@kernel(nogil=True)
def _found_classes(
    space: Space, people: People, state: Partition, order: Ints, least: int, constraints: Constraints
) -> None:
    """Found classes of members that may leave theirs, around each in this order, if the total falls."""
    boxes, free, others = state.boxes, 0, np.sort(order[:SOUGHT])
    for i in order:
        while free < len(boxes.size) and boxes.size[free] > 0:
            free += 1
        if free == len(boxes.size):
            return
        if not _spare(people, state, i) or boxes.cost[state.labels[i]] == 0.0:
            continue
        members = _company(space, people, state, i, least, others)
        if len(members) < least:
            continue
        own = state.labels[members]
        left = np.unique(own)
        before = (boxes.size[left] * boxes.cost[left]).sum()
        for t in range(least):
            _leave(people, state, own[t], members[t])
            _enter(people, state, free, members[t])
        state.least[free], state.bound[free] = least, False
        after = _measured(space, people, state, np.append(left, free), constraints)
        if after >= before - LEAST:
            for t in range(least):
                _leave(people, state, free, members[t])
                _enter(people, state, own[t], members[t])
            boxes.cost[free] = 0.0
            _measured(space, people, state, left, constraints)
