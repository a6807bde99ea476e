"""Refinement: local search over partitions that never raises the total loss and meets every rule.

One round:

1. every distinct tuple looks up its cheapest classes (in parallel, exact at the round's start);
2. records, in random order, move to the class where the total falls most. Where a record's class
   would fall below k, another record of a neighbouring class takes its place (a swap if it is the
   target class that gives one back);
3. classes are dissolved where their records cost less elsewhere;
4. records of classes above k are drawn together into new classes where that costs less.

The local search goes beyond Xu et
al. (2006) and Zhu, Zhao and Wang (2010); a privacy model is kept as a constraint of every step.
"""

from collections.abc import Callable

import numba as nb
import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.progress import advance, tracked
from privacy_engine.recoding.grouping.agglomeration import distinct_tuples
from privacy_engine.recoding.grouping.box_tree import INCREASE, BoxTree, cheapest, plant
from privacy_engine.recoding.grouping.boxes import Boxes, Codes, Floats, Ints, Space, tabulate, union_cost
from privacy_engine.recoding.grouping.class_state import (
    open_state,
    records_of_persons,
    single_records,
    total_loss,
)
from privacy_engine.recoding.grouping.constraints import Constraints
from privacy_engine.recoding.grouping.moving import dissolve_classes, found_classes, move_records
from privacy_engine.tables.geometry import Geometry

CANDIDATES = 6  # classes that a tuple looks up in a round; more of them gain little
ROUNDS = 3  # most of the fall is in the first two
ENOUGH = 1e-2  # a round that lowers the total by less is the last


LookUp = Callable[[Space, Boxes, BoxTree, Codes, Floats, Ints], None]


def refine(
    codes: Codes,
    labels: Ints,
    geometry: Geometry,
    k: int,
    rng: np.random.Generator,
    sensitive: Codes,
    constraints: Constraints,
    rounds: int = ROUNDS,
) -> Ints:
    """A partition of lower or equal total loss in which every class meets k and the rules.

    Args:
        codes: Quasi-identifier codes, shape (n, q) int32.
        labels: Partition into classes of at least k that meet the rules, shape (n,) int64; -1 = suppressed,
            which does not change.
        geometry: Costs of the q attributes.
        k: Least class size.
        rng: Order in which records and classes are tried.
        sensitive: Codes of the sensitive attributes of `constraints`, shape (s, n) int32; (0, n) if none.
        constraints: Further requirements on a class; `no_constraints()` costs nothing.
        rounds: Largest number of rounds.

    Returns:
        labels: (n,) int64, 0 .. classes - 1, -1 where `labels` is -1.
    """
    return refine_in(tabulate(geometry), codes, labels, k, rng, sensitive, constraints, rounds, look_up)


def refine_in(
    space: Space,
    codes: Codes,
    labels: Ints,
    k: int,
    rng: np.random.Generator,
    sensitive: Codes,
    constraints: Constraints,
    rounds: int,
    look_up: LookUp,
    persons: Ints | None = None,
) -> Ints:
    """`refine` in a tabulated space, with the parallel or the serial search for candidates.

    persons: (n,) person of each record, of whom every class has and keeps k; None: each counts as a person.
    Equal records of one person move together.
    """
    if len(codes) == 0:
        return labels.copy()
    codes = np.ascontiguousarray(codes, np.int32)  # one memory layout, lest kernels be compiled again
    tuples, tuple_of, _ = distinct_tuples(codes)
    places = _count_places(sensitive, constraints)
    records, joined = single_records(codes, places), np.arange(len(codes))
    if persons is not None:
        records, joined = records_of_persons(codes, places, labels, tuple_of, persons)
        labels, tuple_of = _of_joined(labels, joined), _of_joined(tuple_of, joined)
    n = len(records.codes)
    weights = np.bincount(tuple_of, weights=records.weight) / np.bincount(tuple_of)
    room = max(int(labels.max(initial=0)) + 1, n // k + 1)
    state = open_state(space, records, int(constraints.start[-1]), labels, room)
    loss = total_loss(state.boxes)
    near = np.full((len(tuples), CANDIDATES), -1)
    for _ in tracked(range(rounds)):
        grown = plant(space, state.boxes, np.flatnonzero(state.boxes.size > 0))
        look_up(space, state.boxes, grown, tuples, weights, near)
        advance(0.4)
        move_records(space, state, near, tuple_of, rng.permutation(n), k, constraints)
        advance(0.6)
        dissolve_classes(space, state, near, tuple_of, rng.permutation(room), constraints)
        advance(0.8)
        found_classes(space, state, near, tuple_of, rng.permutation(n), k, constraints)
        before, loss = loss, total_loss(state.boxes)
        if loss >= before * (1.0 - ENOUGH):
            break
    used = np.cumsum(state.boxes.size > 0) - 1
    refined: Ints = np.where(state.labels >= 0, used[state.labels], -1)[joined]
    return refined


def _of_joined(values: Ints, joined: Ints) -> Ints:
    """The common attributes of joined records, once for each."""
    found = np.empty(int(joined.max()) + 1, np.int64)
    found[joined] = values
    return found


def _count_places(sensitive: Codes, constraints: Constraints) -> Codes:
    """Index of each sensitive value (s, n) in the counts; (0, n) without rules."""
    if len(constraints.kind) == 0:
        return np.zeros((0, sensitive.shape[1]), np.int32)
    return (sensitive + constraints.start[:-1, None]).astype(np.int32)


@kernel(parallel=True)
def look_up(space: Space, boxes: Boxes, grown: BoxTree, tuples: Codes, weights: Floats, near: Ints) -> None:
    """Fill ``near`` (m, few) with the classes which one more record of a tuple costs least; on all cores.

    weights: (m,) what such a record weighs.
    """
    for t in nb.prange(len(tuples)):
        _look_up_one(space, boxes, grown, tuples[t], weights[t], near[t])


@kernel(nogil=True)
def look_up_serially(
    space: Space, boxes: Boxes, grown: BoxTree, tuples: Codes, weights: Floats, near: Ints
) -> None:
    """The same on the calling thread, for callers that run several at once."""
    for t in range(len(tuples)):
        _look_up_one(space, boxes, grown, tuples[t], weights[t], near[t])


@kernel(nogil=True, inner=True)
def _look_up_one(space: Space, boxes: Boxes, grown: BoxTree, row: Codes, weight: float, near: Ints) -> None:
    """Fill ``near`` (few,), -1 = no more; its content of the last round bounds the search."""
    bar = 0.0
    for c in near:
        if c < 0 or boxes.size[c] == 0:
            bar = np.inf
            break
        h = boxes.size[c]
        union = union_cost(space, row, row, boxes.lo[c], boxes.hi[c])
        bar = max(bar, weight * union + h * (union - boxes.cost[c]))
    near[:] = -1
    prices = np.empty(len(near))
    cheapest(space, boxes, grown, row, row, weight, 0.0, -1, INCREASE, bar, near, prices)
