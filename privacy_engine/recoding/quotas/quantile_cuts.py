"""Mondrian's cuts if the sides would not keep the distribution: each sensitive value at its own quantile.

A plain cut gives all records up to a value to one side, whatever sensitive values they have. Here a side
takes from such a region only as many records of each kind (see `compositions`) as meet the rules on both
sides: of the r(v) records of kind v in the region min(r(v), share * c(v)), where the class has c(v); if the
share is small enough, both sides have the distribution of the class. The region's other records stay with the
other side, so the sides may overlap in the attribute that is cut.

LeFevre, DeWitt, Ramakrishnan (2006) for the search from the top down; Cao, Karras, Kalnis, Tan: SABRE, VLDB
Journal 20 (2011), for taking from each bucket in proportion.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.progress import tracked
from privacy_engine.recoding.grouping.boxes import Codes, Floats, Ints, boxes_of, join_cost, tabulate
from privacy_engine.recoding.grouping.constraints import Constraints, admits, class_counts
from privacy_engine.recoding.grouping.cuts import (
    NO_PERSONS,
    Flags,
    Task,
    bucket_by,
    cheapest_cut,
    cover,
    loss_of,
)
from privacy_engine.recoding.grouping.model_rules import require_feasible
from privacy_engine.recoding.grouping.partitioning import arrange, mondrian
from privacy_engine.recoding.quotas.compositions import count_kind, kinds_of, rules_of_kinds
from privacy_engine.tables.geometry import Geometry, apart, common_ancestor

MOST_VALUES = 1_000  # of all sensitive attributes together; each is counted for every share that is tried
THRESHOLDS = 8  # of an ordered attribute that are tried in a class
SHARES = 12  # that are tried of a region
ROUNDED = (0.5, 0.0, 0.999)  # added before a share of a kind is cut off to a whole number
LEAST_FALL = 1e-12  # of the loss by a cut, lest rounding be one


class Quotas(NamedTuple):
    """What both sides of a cut must have.

    kind: (n,) of each record.
    places: (v, s) of each kind, see `Kinds`.
    rules: those that are about kinds.
    least: records of a side.
    """

    kind: Ints
    places: Ints
    rules: Constraints
    least: int


def cut_by_quotas(
    codes: Codes,
    geometry: Geometry,
    k: int,
    sensitive: Codes,
    constraints: Constraints,
    turns: Sequence[bool] = (True, False),
) -> Ints:
    """Partition records into classes of at least k that meet the constraints; each counts as a person.

    Done twice: with a cut by quotas whenever it loses less than the best plain one, or only if there is no
    plain one; the partition with the smaller loss is used. With very many sensitive values only plain cuts
    are made.

    Args:
        codes: Quasi-identifier codes, shape (n, q) int32.
        geometry: Costs of the q attributes.
        k: Least class size, >= 1.
        sensitive: Codes of the sensitive attributes, shape (s, n) int32.
        constraints: Further requirements on every class.
        turns: Whether a cut by quotas is made whenever it loses less, for each run.

    Returns:
        labels: (n,) int64, 0 .. classes - 1.

    Raises:
        InfeasibleError: If the whole table cannot be one class.
    """
    if constraints.start[-1] > MOST_VALUES:
        return mondrian(codes, geometry, k, sensitive, constraints)
    require_feasible(len(codes), k, sensitive, constraints)
    task = Task(codes, sensitive, tabulate(geometry), constraints, k, NO_PERSONS)
    kinds = kinds_of(sensitive, constraints)
    quotas = Quotas(kinds.of, kinds.places, rules_of_kinds(constraints), k)
    found, losses = list[Ints](), list[float]()
    for eager in tracked(turns):
        order, opens = np.arange(len(codes)), np.zeros(len(codes), np.int64)
        _cut_all(task, quotas, eager, order, opens)
        labels = np.empty(len(order), np.int64)
        labels[order] = np.cumsum(opens) - 1
        boxes = boxes_of(codes, labels, geometry)
        found.append(labels)
        losses.append(float(boxes.size @ boxes.cost))
    return found[int(np.argmin(losses))]


@kernel()
def _cut_all(task: Task, quotas: Quotas, eager: bool, order: Ints, opens: Ints) -> None:
    """As `partitioning` does it: classes become runs of `order` (n,), and `opens` marks where one begins."""
    part, spare = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    open_runs = np.empty((len(order) // task.least + 2, 2), np.int64)
    open_runs[0] = 0, len(order)
    waiting = 1
    while waiting > 0:
        waiting -= 1
        first, last = open_runs[waiting]
        parts = 0
        if last - first > 2 * task.least - 1:
            parts = _cut(task, quotas, eager, order[first:last], part[first:last])
        if parts < 2:
            opens[first] = 1
            continue
        begin = first
        for end in arrange(order[first:last], part[first:last], parts, spare):
            open_runs[waiting] = begin, first + end
            begin = first + end
            waiting += 1


@kernel()
def _cut(task: Task, quotas: Quotas, eager: bool, rows: Ints, part: Ints) -> int:
    """The side of each record and 2, or 0 if no cut is allowed that lowers the loss."""
    q, space = task.codes.shape[1], task.space
    size, lo, hi = np.zeros(1, np.int64), np.empty((1, q), np.int32), np.empty((1, q), np.int32)
    part[:] = 0
    cover(task.codes, rows, part, space.tree, space.start, space.parent, size, lo, hi)
    best = len(rows) * loss_of(lo, hi, 0, space.tree, space.start, space.value, space.most) - LEAST_FALL
    parts = cheapest_cut(task, rows, lo[0], hi[0], part)
    columns = np.empty((q, len(rows)), np.int32)
    for i in range(len(rows)):
        for j in range(q):
            columns[j, i] = task.codes[rows[i], j]
    if parts > 1:
        if not eager:
            return parts
        best = _loss_after(
            columns, part, space.tree, space.start, space.value, space.parent, space.most, np.inf
        )
    kind, total = quotas.kind[rows], np.zeros(len(quotas.places), np.int64)
    for t in kind:
        total[t] += 1
    side, bucket = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for j in range(q):
        if join_cost(space, j, lo[0, j], hi[0, j], lo[0, j], hi[0, j]) <= 0.0:
            continue
        b = len(bucket_by(task, rows, j, int(lo[0, j]), bucket).size)
        for turn in range(1 if space.tree[j] else 2):
            if turn == 1:
                bucket[:] = b - 1 - bucket
            held = np.zeros((b, len(total)), np.int64)
            for i in range(len(rows)):
                held[bucket[i], kind[i]] += 1
            order = stable_order(bucket)
            for at in _ends(held, space.tree[j]):
                taken = held[at] if space.tree[j] else held[: at + 1].sum(axis=0)
                if taken.sum() < quotas.least or not _reduce(quotas, total, taken):
                    continue
                _mark(order, bucket, kind, at, space.tree[j], taken, side)
                loss = _loss_after(
                    columns, side, space.tree, space.start, space.value, space.parent, space.most, best
                )
                if loss < best and _stand(task, rows, side):
                    best, parts = loss, 2
                    part[:] = side
    return parts


@kernel()
def _ends(held: Ints, one: bool) -> Ints:
    """The buckets (b,) that are a region by themselves, or with all before them, of those tried."""
    if one:
        return np.arange(len(held))
    ends, have, within, n = np.empty(len(held), np.int64), 0, 0, held.sum()
    for b in range(len(held)):
        within += held[b].sum()
        if within * (THRESHOLDS + 1) >= n or b == len(held) - 1:
            ends[have], within = b, 0
            have += 1
    return ends[:have]


@kernel(inner=True)
def _reduce(quotas: Quotas, total: Ints, taken: Ints) -> bool:
    """Reduce the records (v,) of a region to those a side may take from a class; return if that is possible.

    total: (v,) records of each kind in the class.
    """
    region, counts = taken.copy(), np.zeros((2, quotas.rules.start[-1]), np.int32)
    most, least = 0.0, 1.0
    for t in range(len(total)):
        if total[t] > 0:
            most, least = max(most, region[t] / total[t]), min(least, region[t] / total[t])
    if least == 1.0:
        least = 0.5  # the region is the class: each kind is cut at its median
    for step in range(SHARES + 1):
        share = most - (most - least) * step / SHARES
        for up in ROUNDED:
            counts[:] = 0
            size = np.zeros(2, np.int64)
            for t in range(len(total)):
                taken[t] = min(region[t], int(share * total[t] + up))
                count_kind(counts[0], quotas.places, t, taken[t])
                count_kind(counts[1], quotas.places, t, total[t] - taken[t])
                size[0] += taken[t]
                size[1] += total[t] - taken[t]
            if (
                size.min() >= quotas.least
                and admits(counts[0], size[0], quotas.rules)
                and admits(counts[1], size[1], quotas.rules)
            ):
                return True
    return False


@kernel()
def _mark(order: Ints, bucket: Ints, kind: Ints, at: int, one: bool, taken: Ints, side: Ints) -> None:
    """Give side 0 a number of records of each kind, in this order, from one bucket or those up to it."""
    side[:] = 1
    for i in order:
        if taken[kind[i]] > 0 and (bucket[i] == at if one else bucket[i] <= at):
            taken[kind[i]] -= 1
            side[i] = 0


@kernel(inner=True)
def _loss_after(
    columns: Codes,
    side: Ints,
    tree: Flags,
    start: Ints,
    value: Floats,
    parent: Codes,
    most: Floats,
    enough: float,
) -> float:
    """Loss of all records, with these codes (q, m), once both sides are classes; in part if that is `enough`.

    Of a hierarchy's values a side has far fewer than records: each is joined once.
    """
    q, m = columns.shape
    ones = side.sum()
    losses, lo, hi, loss = np.zeros(2), np.empty(2, np.int64), np.empty(2, np.int64), 0.0
    for j in range(q):
        own, nodes = columns[j], start[j + 1] - start[j]
        lo[:] = -1
        if tree[j] and nodes <= m:
            has = np.zeros((2, nodes), np.bool_)
            for i in range(m):
                has[side[i], own[i]] = True
            for s in range(2):
                for code in range(nodes):
                    if has[s, code]:
                        lo[s] = code if lo[s] < 0 else common_ancestor(parent, start[j], lo[s], code)
                hi[s] = lo[s]
        else:
            for i in range(m):
                s, code = side[i], own[i]
                if lo[s] < 0:
                    lo[s] = hi[s] = code
                elif tree[j]:
                    lo[s] = hi[s] = common_ancestor(parent, start[j], lo[s], code)
                else:
                    lo[s], hi[s] = min(lo[s], code), max(hi[s], code)
        for s in range(2):
            if lo[s] >= 0:
                first, last = start[j] + lo[s], start[j] + hi[s]
                losses[s] += value[last] if tree[j] else apart(value, first, last, most[j])
        loss = float((m - ones) * losses[0] + ones * losses[1])
        if loss >= enough:
            break
    return loss


@kernel(inner=True)
def _stand(task: Task, rows: Ints, side: Ints) -> bool:
    """Whether both sides meet all rules, counted by their records: kinds may have several values."""
    counts = class_counts(side, task.sensitive[:, rows], task.constraints.start, 2)
    ones = side.sum()
    return bool(
        admits(counts[0], len(rows) - ones, task.constraints) and admits(counts[1], ones, task.constraints)
    )
