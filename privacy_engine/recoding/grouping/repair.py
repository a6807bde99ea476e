"""Merge classes that miss a required model until all meet it; suppress records whose suppression pays."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.progress import advance, portion, tracked
from privacy_engine.recoding.grouping.agglomeration import follow, merge_cheapest_first
from privacy_engine.recoding.grouping.box_tree import INCREASE, BoxTree, cheapest, plant
from privacy_engine.recoding.grouping.boxes import Boxes, Codes, Floats, Ints, Space, boxes_of, tabulate
from privacy_engine.recoding.grouping.class_state import (
    LEAST,
    ClassState,
    exit_gain,
    may_swap,
    members_of,
    move,
    open_state,
    single_records,
)
from privacy_engine.recoding.grouping.constraints import (
    Constraints,
    admits,
    bounds_distribution,
    class_counts,
    compares_with_table,
    shortfall,
)
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.recoding.grouping.partners import PartnerSearch, propose_serially
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import Geometry
from privacy_engine.verification.models import KAnonymity, PrivacyModel, holds

PARTNERS = 16  # cheapest classes that a failing one is tried with
STEP = 1.1  # between lengths of the list of suppressed records that are counted exactly


def repair(
    encoded: EncodedTable, labels: Ints, geometry: Geometry, models: Sequence[PrivacyModel], k: int
) -> Ints:
    """Make every class meet the models.

    Args:
        encoded: Encoded table whose classes are changed.
        labels: Classes, -1 = suppressed, shape (n,) int64; those stay suppressed.
        geometry: Costs by which merges are chosen.
        models: Models that every class must satisfy in addition to k.
        k: Least class size.

    Returns:
        labels: (n,) int64, 0 .. classes - 1 and -1. One class remains where nothing else helps.
    """
    if not models:
        return labels
    constraints = compile_constraints(models, encoded.released(labels))  # compared with the released records
    return merge_until_kept(encoded, labels, geometry, constraints, k)


def merge_until_kept(
    encoded: EncodedTable, labels: Ints, geometry: Geometry, constraints: Constraints, k: int
) -> Ints:
    """Merge each class that fails with the class that costs least, until none fails or one is left.

    If the distribution of sensitive values matters, classes are also merged with the class that brings them
    closest to meeting the rules for its cost; the partition with the smaller loss is used.

    Takes and gives labels (n,) int64, -1 = suppressed; given, they are 0 .. classes - 1.
    """
    kept = np.flatnonzero(labels >= 0)
    out = np.full(len(labels), -1, dtype=np.int64)
    if len(kept) == 0:
        return out
    numbered = np.unique(labels[kept], return_inverse=True)[1].astype(np.int64)
    boxes = boxes_of(encoded.codes[kept], numbered, geometry)
    counts = class_counts(numbered, encoded.sensitive[:, kept], constraints.start, len(boxes.size))
    space = tabulate(geometry)
    if bounds_distribution(constraints):
        repaired = Boxes(boxes.lo.copy(), boxes.hi.copy(), boxes.size.copy(), boxes.cost.copy())
        with portion(0.5):
            other = _merge_failing(space, repaired, counts.copy(), constraints, k, repairing=True)
        into = _merge_failing(space, boxes, counts, constraints, k, repairing=False)
        if repaired.size @ repaired.cost < boxes.size @ boxes.cost:
            into = other
    else:
        into = _merge_failing(space, boxes, counts, constraints, k, repairing=False)
    out[kept] = np.unique(into[numbered], return_inverse=True)[1]
    return out


def _merge_failing(
    space: Space, boxes: Boxes, counts: Codes, constraints: Constraints, k: int, *, repairing: bool
) -> Ints:
    """The rounds of agglomeration, for classes that break a rule instead of small ones."""
    into, first = np.arange(len(boxes.size)), 0
    partners = PartnerSearch(space, boxes, INCREASE, propose_serially)
    while True:
        alive = np.flatnonzero(boxes.size > 0)
        failing = alive[_fails(boxes.size[alive], counts[alive], constraints, k)]
        if len(failing) == 0 or len(alive) == 1:
            return follow(into)
        first = first or len(failing)
        advance(1.0 - len(failing) / first)
        if repairing:
            grown = plant(space, boxes, alive)
            partner, price = _propose_repair(space, boxes, grown, failing, counts, constraints)
        else:
            partner, price = partners.of(failing)
        merge_cheapest_first(space, boxes, into, failing, partner, price)
        gone = alive[boxes.size[alive] == 0]
        counts[into[gone]] += counts[gone]  # a class absorbs one other class in a round


@kernel()
def _fails(size: Floats, counts: Codes, constraints: Constraints, k: int) -> npt.NDArray[np.bool_]:
    """(c,) whether a class is too small or breaks a rule."""
    found = np.empty(len(size), np.bool_)
    for c in range(len(size)):
        found[c] = size[c] < k or not admits(counts[c], int(size[c]), constraints)
    return found


@kernel(nogil=True)
def _propose_repair(
    space: Space, boxes: Boxes, grown: BoxTree, failing: Ints, counts: Codes, constraints: Constraints
) -> tuple[Ints, Floats]:
    """Of the cheapest partners of each failing class, return the one with the lowest price for its remedy.

    The remedy is the decrease of the shortfalls together, each times the records of its class. A class that
    none of them helps proposes to the cheapest, after all others.
    """
    partner, price = np.empty(len(failing), np.int64), np.empty(len(failing))
    found, prices = np.empty(PARTNERS, np.int64), np.empty(PARTNERS)
    for t in range(len(failing)):
        a = failing[t]
        size, cost = boxes.size[a], boxes.cost[a]
        lo, hi = boxes.lo[a], boxes.hi[a]
        have = cheapest(space, boxes, grown, lo, hi, size, cost, a, INCREASE, np.inf, found, prices)
        missed = size * shortfall(counts[a], int(size), constraints)
        partner[t], price[t], least = found[0], np.inf, np.inf
        for i in range(have):
            b = found[i]
            repaired = missed + boxes.size[b] * shortfall(counts[b], int(boxes.size[b]), constraints)
            repaired -= (size + boxes.size[b]) * shortfall(
                counts[a] + counts[b], int(size + boxes.size[b]), constraints
            )
            if repaired > LEAST and (prices[i] + LEAST) / repaired < least:
                least = (prices[i] + LEAST) / repaired
                partner[t], price[t] = b, least
    return partner, price


def allowed(limit: float, records: int) -> int:
    """Return how many of a number of records may be suppressed: 29 of 100 if the limit is 0.29."""
    return math.floor(limit * records + 1e-9)


def suppress_where_it_pays(
    encoded: EncodedTable, labels: Ints, k: int, models: Sequence[PrivacyModel], limit: float
) -> Ints:
    """Suppress records whose classes save more without them than they lose: each costs 1, the whole domain.

    The records form one list, the most profitable first, that does not depend on the limit; as many of it as
    the limit allows are suppressed. So a larger limit never gives a larger loss. If a model compares with
    everything released, or counts persons, only lengths of the list are used after which every class was
    verified to meet the models.

    Args:
        encoded: Encoded table whose classes are changed.
        labels: Classes that meet the models, 0 .. c - 1, shape (n,) int64; -1 = suppressed, which does not
            change and counts.
        k: Least class size.
        models: Models that every class must satisfy in addition to k.
        limit: Share of all records that may be suppressed.
    """
    room = allowed(limit, len(encoded)) - int(np.count_nonzero(labels < 0))
    if room <= 0 or labels.max(initial=-1) < 0:
        return labels
    constraints = compile_constraints(models, encoded.released(labels))
    space, codes = tabulate(encoded.geometry()), np.ascontiguousarray(encoded.codes, np.int32)
    values = np.zeros((0, len(encoded)), np.int32)
    if len(constraints.kind):
        values = (encoded.sensitive + constraints.start[:-1, None]).astype(np.int32)
    classes = int(labels.max()) + 1
    state = open_state(space, single_records(codes, values), int(constraints.start[-1]), labels, classes + 1)
    listed = _profitable(space, state, classes, k, constraints)
    exact = [KAnonymity(k=max(k, 2)), *models]

    def after(length: int) -> Ints:
        out = labels.copy()
        out[listed[:length]] = -1
        return out

    if encoded.persons is None and not compares_with_table(constraints):
        return after(room)
    lengths = [len(listed), *_lengths(len(listed))]
    for length in tracked([length for length in lengths if length <= room]):
        found = after(length)
        counted = encoded.classes_of(found)
        if all(holds(model, counted) for model in exact):
            return found
    return labels


def _lengths(most: int) -> list[int]:
    """Some of the numbers 1 .. most, all of the small ones, the largest first."""
    steps = np.arange(math.ceil(math.log(max(most, 1), STEP)) + 1)
    return sorted({int(n) for n in np.ceil(STEP**steps) if n <= most}, reverse=True)


@kernel(nogil=True)
def _profitable(space: Space, state: ClassState, dump: int, k: int, constraints: Constraints) -> Ints:
    """The records whose suppression pays, the most profitable first; they are moved to the class `dump`."""
    n, q = state.codes.shape
    lo, hi, listed, have = np.empty(q, np.int32), np.empty(q, np.int32), np.empty(n, np.int64), 0
    best, gain = np.full(dump, -1), np.zeros(dump)
    changed: Ints = np.arange(dump)
    while True:
        for c in changed:
            best[c], gain[c] = -1, LEAST
            if state.people[c] <= k or state.boxes.cost[c] == 0.0:
                continue
            for r in np.sort(members_of(state, c)):
                saved = exit_gain(space, state, r) - 1.0
                if saved > gain[c] and may_swap(state, c, r, -1, constraints):
                    best[c], gain[c] = r, saved
        chosen = int(np.argmax(gain))
        if best[chosen] < 0:
            return listed[:have]
        listed[have] = best[chosen]
        have += 1
        move(space, state, best[chosen], dump, lo, hi)
        changed = np.full(1, chosen)
