"""Regrouping: neighbouring classes are dissolved together and formed again, if the loss falls.

A large-neighbourhood search (ruin and recreate: Schrimpf, Schneider, Stamm-Wilbrandt, Dueck 2000). One trial:

1. a class and a few of its neighbours, drawn at random among those that a record of theirs could enter;
2. their records are merged by ascending price into classes of k, as in `agglomeration`, but each price is
   raised by a random share, so that trials differ;
3. single records are moved between the new classes as in `moving`;
4. the new classes stay if they keep k and all rules and lose less, or more by a small random amount, which
falls from
   sweep to sweep and is 0 in the last ones. Otherwise the old ones are restored.

The work is counted in unions that are priced, never in seconds, so that it can be repeated.
"""

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.progress import advance, tracked
from privacy_engine.recoding.grouping.agglomeration import distinct_tuples
from privacy_engine.recoding.grouping.box_tree import plant
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
from privacy_engine.recoding.grouping.class_state import (
    LEAST,
    ClassState,
    may_swap,
    move,
    open_state,
    single_records,
    total_loss,
)
from privacy_engine.recoding.grouping.constraints import Constraints
from privacy_engine.recoding.grouping.moving import dissolve_classes, found_classes, move_records
from privacy_engine.recoding.grouping.refinement import LookUp

CLASSES = 5  # classes regrouped together, at most; 3 gain less, and 8 or 12 are not worth their time
CANDIDATES = 12  # classes that a tuple could enter, from which neighbours are drawn
RECORDS = 300  # of a trial, at most; and at most 12 k
NOISE = 0.5  # a price is raised by up to this share
HOPEFUL = 1.4  # new classes that lose more than this multiple of the old ones are not refined
HEAT = 0.1  # mean increase that a trial may have in the first sweep, as a share of a class's mean loss
COOL = 0.75  # after this share of the sweeps nothing may be added
PRICES = 1_000  # unions priced in a sweep, for each record
DRAWS = 1 << 17  # random numbers of a sweep, used round and round


def regroup(
    space: Space,
    codes: Codes,
    labels: Ints,
    k: int,
    sweeps: int,
    rng: np.random.Generator,
    sensitive: Codes,
    constraints: Constraints,
    look_up: LookUp,
) -> Ints:
    """Labels of lower or equal total loss, in classes that keep k and the rules; one record per person.

    Args:
        space: Costs of the attributes.
        codes: Quasi-identifiers, shape (n, q) int32.
        labels: Classes of at least k that meet the rules, shape (n,) int64; -1 = suppressed, which does not
            change.
        k: Least class size.
        sweeps: Number of trials of each record's class; each sweep gains less than the one before.
        rng: Source of randomness for neighbours, prices and acceptance.
        sensitive: Codes of the sensitive attributes of `constraints`, shape (s, n) int32.
        constraints: Further requirements on a class.
        look_up: Fills the classes near each tuple, in parallel or serially.
    """
    n = len(codes)
    if n == 0 or sweeps == 0 or labels.max() < 1:
        return labels.copy()
    codes = np.ascontiguousarray(codes, np.int32)
    tuples, tuple_of, _ = distinct_tuples(codes)
    places = np.zeros((0, n), np.int32)
    if len(constraints.kind):
        places = (sensitive + constraints.start[:-1, None]).astype(np.int32)
    room = max(int(labels.max()) + 1, n // k + 1)
    state = open_state(space, single_records(codes, places), int(constraints.start[-1]), labels, room)
    before = total_loss(state.boxes)
    near, single = np.full((len(tuples), CANDIDATES), -1), np.ones(len(tuples))
    for sweep in tracked(range(sweeps)):
        grown = plant(space, state.boxes, np.flatnonzero(state.boxes.size > 0))
        look_up(space, state.boxes, grown, tuples, single, near)
        mean = total_loss(state.boxes) / np.count_nonzero(state.boxes.size)
        heat = HEAT * mean * max(0.0, 1.0 - (sweep + 1) / (COOL * sweeps))
        _regroup_classes(
            space, state, near, tuple_of, rng.permutation(n), rng.random(DRAWS), k, heat, constraints
        )
        advance(0.7)
        move_records(space, state, near, tuple_of, rng.permutation(n), k, constraints)
        dissolve_classes(space, state, near, tuple_of, rng.permutation(room), constraints)
        found_classes(space, state, near, tuple_of, rng.permutation(n), k, constraints)
    if total_loss(state.boxes) >= before:
        return labels.copy()
    used = np.cumsum(state.boxes.size > 0) - 1
    return np.where(state.labels >= 0, used[state.labels], -1)


@kernel(nogil=True)
def _regroup_classes(
    space: Space,
    state: ClassState,
    near: Ints,
    tuple_of: Ints,
    order: Ints,
    draws: Floats,
    k: int,
    heat: float,
    constraints: Constraints,
) -> int:
    """One sweep: a trial around the class of each record, in this order (n,); how many were kept."""
    n, q = state.codes.shape
    most = min(12 * k, RECORDS)
    chosen, records = np.empty(2 * CLASSES, np.int64), np.empty(most, np.int64)
    old, unit, unit_of = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(n, np.int64)
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    budget, kept, at = PRICES * n, 0, 0
    for r in order:
        a = state.labels[r]
        if a < 0 or state.boxes.cost[a] == 0.0 or state.members[a] > most // 2:
            continue
        at = (at + 31) % (len(draws) // 2)  # where this trial's random numbers begin
        classes = _neighbours(state, near, tuple_of, a, draws[at:], most, chosen)
        if classes < 2:
            continue
        m, units, before = 0, 0, 0.0
        for c in chosen[:classes]:
            before += state.boxes.size[c] * state.boxes.cost[c]
            s = state.first[c]
            while s >= 0:
                records[m], old[m], unit[m] = s, c, units
                for i in range(m):
                    if tuple_of[records[i]] == tuple_of[s]:
                        unit[m] = unit[i]
                        break
                units += unit[m] == units
                m += 1
                s = state.after[s]
        budget -= 2 * units * units
        if budget < 0:
            break
        cluster = _cluster(space, state, records[:m], unit[:m], units, k, draws[at:], HOPEFUL * before)
        classes = _name_clusters(state, cluster, chosen, classes)
        if classes == 0:
            continue
        for i in range(m):
            if state.labels[records[i]] != cluster[unit[i]]:
                move(space, state, records[i], cluster[unit[i]], lo, hi)
            unit_of[records[i]] = unit[i]
        if _keeps(state, chosen[:classes], k, constraints):
            inside = np.empty((units, classes), np.int64)
            inside[:] = chosen[:classes]
            for _ in range(2):
                move_records(space, state, inside, unit_of, records[:m], k, constraints)
            after = 0.0
            for c in chosen[:classes]:
                after += state.boxes.size[c] * state.boxes.cost[c]
            if after < before - LEAST - heat * np.log(1.0 - draws[at + 30]):
                kept += 1
                continue
        for i in range(m):
            if state.labels[records[i]] != old[i]:
                move(space, state, records[i], old[i], lo, hi)
    return kept


@kernel(nogil=True)
def _neighbours(
    state: ClassState, near: Ints, tuple_of: Ints, a: int, draws: Floats, most: int, chosen: Ints
) -> int:
    """Draw classes near class a into ``chosen``, a first; how many, of at most `most` records together.

    Each is one that a member of a class chosen before could enter, rather a cheap one.
    """
    chosen[0], have, total, d = a, 1, state.members[a], 0
    while have < CLASSES and d < 27:
        c = chosen[int(draws[d] * have)]
        s = state.first[c]
        for _ in range(int(draws[d + 1] * state.members[c])):
            s = state.after[s]
        c = near[tuple_of[s], int(draws[d + 2] ** 2 * near.shape[1])]
        d += 3
        if c < 0 or state.members[c] == 0 or total + state.members[c] > most or c in chosen[:have]:
            continue
        chosen[have] = c
        have += 1
        total += state.members[c]
    return have


@kernel(nogil=True)
def _cluster(
    space: Space, state: ClassState, records: Ints, unit: Ints, units: int, k: int, draws: Floats, most: float
) -> Ints:
    """(units,) the cluster of each unit of equal records, the number of one of its units.

    All -1 where the clusters lose more than `most`.
    """
    q = state.codes.shape[1]
    boxes = Boxes(
        np.empty((units, q), np.int32), np.empty((units, q), np.int32), np.zeros(units), np.zeros(units)
    )
    for i in range(len(records)):
        boxes.lo[unit[i]] = state.codes[records[i]]
        boxes.hi[unit[i]] = state.codes[records[i]]
        boxes.size[unit[i]] += state.weight[records[i]]
    into, price = np.arange(units), np.empty((units, units))
    for a in range(units):
        for b in range(a):
            price[a, b] = price[b, a] = _noisy_price(space, boxes, a, b, draws)
    best = np.full(units, -1)
    while True:
        x = -1
        for a in range(units):
            if boxes.size[a] == 0.0 or boxes.size[a] >= k:
                continue
            if best[a] < 0:
                for b in range(units):
                    if b != a and boxes.size[b] > 0.0 and (best[a] < 0 or price[a, b] < price[a, best[a]]):
                        best[a] = b
            if best[a] >= 0 and (x < 0 or price[a, best[a]] < price[x, best[x]]):
                x = a
        if x < 0:
            break
        y = best[x]
        enlarge(space, boxes.lo[x], boxes.hi[x], boxes.lo[y], boxes.hi[y])
        boxes.cost[x] = box_cost(space, boxes.lo[x], boxes.hi[x])
        boxes.size[x] += boxes.size[y]
        boxes.size[y] = 0.0
        best[x] = -1
        for b in range(units):
            if into[b] == y:
                into[b] = x
            if b != x and boxes.size[b] > 0.0:
                price[x, b] = price[b, x] = _noisy_price(space, boxes, x, b, draws)
                if best[b] == x or best[b] == y:
                    best[b] = -1
                elif best[b] >= 0 and price[b, x] < price[b, best[b]]:
                    best[b] = x
    if (boxes.size * boxes.cost).sum() > most:
        into[:] = -1
    return into


@kernel(nogil=True, inner=True)
def _noisy_price(space: Space, boxes: Boxes, a: int, b: int, draws: Floats) -> float:
    """Return the increase of the loss by merging a and b, plus a random share that falls with the sizes."""
    union = union_cost(space, boxes.lo[a], boxes.hi[a], boxes.lo[b], boxes.hi[b])
    price = boxes.size[a] * (union - boxes.cost[a]) + boxes.size[b] * (union - boxes.cost[b])
    low, high = min(a, b), max(a, b)
    at = (low * 769 + high * 13 + int(boxes.size[a] + boxes.size[b]) * 7) % (len(draws) // 2)
    return float(price * (1.0 + NOISE * draws[at]))


@kernel(nogil=True, inner=True)
def _name_clusters(state: ClassState, cluster: Ints, chosen: Ints, classes: int) -> int:
    """Replace the clusters' numbers by class numbers: those chosen, then unused ones, which join ``chosen``.

    Return the number of chosen classes; 0 if there are no clusters, or no more numbers.
    """
    if cluster[0] < 0:
        return 0
    name, named, free = np.full(len(cluster), -1), 0, 0
    for u in range(len(cluster)):
        if name[cluster[u]] < 0:
            if named == classes:
                while free < len(state.members) and (state.members[free] > 0 or free in chosen[:classes]):
                    free += 1
                if free == len(state.members) or classes == len(chosen):
                    return 0
                chosen[classes] = free
                classes += 1
            name[cluster[u]] = chosen[named]
            named += 1
        cluster[u] = name[cluster[u]]
    return classes


@kernel(nogil=True, inner=True)
def _keeps(state: ClassState, classes: Ints, k: int, constraints: Constraints) -> bool:
    """Whether each of the classes is empty, or has k persons and meets the rules."""
    for c in classes:
        if state.members[c] > 0 and (state.people[c] < k or not may_swap(state, c, -1, -1, constraints)):
            return False
    return True
