"""Which cut of a class is taken: the widest attribute's, as Mondrian has it, or the one that loses least.

First the records are sorted into buckets by one attribute: the units that a cut keeps together. An ordered
attribute has one bucket per value, a hierarchy one bucket per child of the records' lowest common ancestor. A
cut is a grouping of buckets, and its sizes, losses and constraints follow from theirs. Every search looks for
a cut whose parts all have `task.least` records and meet the constraints. If a person may have several
records, a part needs `task.least` distinct persons, counted exactly; a person may be in several parts.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.boxes import Codes, Floats, Ints, Space, join_cost
from privacy_engine.recoding.grouping.constraints import Constraints, admits
from privacy_engine.tables.geometry import apart, common_ancestor

Flags = npt.NDArray[np.bool_]
NO_PERSONS = np.zeros(0, np.int64)  # persons where each record counts as one


class Task(NamedTuple):
    """A table to be cut, and the requirements on every part.

    codes: (n, q) int32 quasi-identifiers; sensitive: (s, n) int32; least: records that a part needs.
    persons: (n,) the person of each record, of whom a part needs `least`; empty if each counts as a person.
    The
        records of a class are sorted by person.
    """

    codes: Codes
    sensitive: Codes
    space: Space
    constraints: Constraints
    least: int
    persons: Ints


class Buckets(NamedTuple):
    """Buckets in the order of their values, or of their nodes.

    size: (b,) int64 records, > 0; counts: (b, m_total) int32 sensitive values; lo, hi: (b, q) int32 boxes.
    """

    size: Ints
    counts: Codes
    lo: Codes
    hi: Codes


@kernel()
def bucket_by(task: Task, rows: Ints, j: int, ancestor: int, bucket: Ints) -> Buckets:
    """Sort records into buckets by attribute j.

    Args:
        task: Table and rules of the search.
        rows: Records of the class, shape (m,).
        j: Index of the attribute.
        ancestor: Lowest common ancestor of the records, where j is a hierarchy.
        bucket: Filled with the bucket of each record, shape (m,).
    """
    space, constraints = task.space, task.constraints
    if space.tree[j]:
        _climb(task.codes, rows, j, space.parent[space.start[j] : space.start[j + 1]], ancestor, bucket)
    else:
        bucket[:] = task.codes[rows, j]
    m = _rank(bucket)
    q = task.codes.shape[1]
    counts = np.zeros((m, constraints.start[-1]), np.int32)
    for a in range(len(constraints.start) - 1):
        _count(task.sensitive[a], rows, bucket, counts[:, constraints.start[a] : constraints.start[a + 1]])
    size, lo, hi = np.zeros(m, np.int64), np.empty((m, q), np.int32), np.empty((m, q), np.int32)
    cover(task.codes, rows, bucket, space.tree, space.start, space.parent, size, lo, hi)
    return Buckets(size, counts, lo, hi)


# What runs once a record or bucket takes plain arrays: a tuple of arrays, handed on or taken apart in a
# loop, has the references to all of them counted each time, which costs more than the record (tenfold).


@kernel(inner=True)
def _climb(codes: Codes, rows: Ints, j: int, parent: Codes, ancestor: int, child: Ints) -> None:
    """The child of `ancestor` above each record's value."""
    for i in range(len(rows)):
        node = codes[rows[i], j]
        while parent[node] != ancestor:
            node = parent[node]
        child[i] = node


@kernel(inner=True)
def _count(values: Codes, rows: Ints, bucket: Ints, counts: Codes) -> None:
    for i in range(len(rows)):
        counts[bucket[i], values[rows[i]]] += 1


@kernel()
def _rank(keys: Ints) -> int:
    """Replace keys by their ranks 0 .. b - 1 in place; b. By counting where the keys lie dense enough."""
    low, high = keys.min(), keys.max()
    if high - low <= 4 * len(keys) + 64:
        place = np.zeros(high - low + 1, np.int64)
        for key in keys:
            place[key - low] = 1
        ranks = np.cumsum(place)
        for i in range(len(keys)):
            keys[i] = ranks[keys[i] - low] - 1
        return int(ranks[-1])
    order = stable_order(keys)
    rank, last = -1, low - 1
    for i in order:
        if keys[i] != last:
            last = keys[i]
            rank += 1
        keys[i] = rank
    return rank + 1


@kernel()
def cover(
    codes: Codes,
    rows: Ints,
    bucket: Ints,
    tree: Flags,
    start: Ints,
    parent: Codes,
    size: Ints,
    lo: Codes,
    hi: Codes,
) -> None:
    """Sizes and boxes of buckets, filled in place; sizes come as 0."""
    for i in range(len(rows)):
        row, b = rows[i], bucket[i]
        for j in range(codes.shape[1]):
            code = codes[row, j]
            if size[b] == 0:
                lo[b, j] = code
                hi[b, j] = code
            elif tree[j]:
                if code != lo[b, j]:
                    lo[b, j] = common_ancestor(parent, start[j], lo[b, j], code)
                    hi[b, j] = lo[b, j]
            elif code < lo[b, j]:
                lo[b, j] = code
            elif code > hi[b, j]:
                hi[b, j] = code
        size[b] += 1


@kernel()
def persons_beside(who: Ints, bucket: Ints, one: bool, near: Ints, far: Ints) -> None:
    """Distinct persons on either side of each cut.

    Args:
        who: Person of each record of the class, >= 0, shape (m,), sorted by person.
        bucket: Bucket of each record, shape (m,).
        one: Whether a cut splits off one bucket, else all up to it.
        near: Filled with the persons in the bucket, or in one up to it, shape (b,).
        far: Filled with the persons in the other buckets, shape (b,).
    """
    near[:] = 0
    far[:] = 0
    met = np.full(len(near), -1, np.int64)  # the person that a bucket was last counted for
    begin, total = 0, 0
    while begin < len(who):
        person = who[begin]
        first = last = bucket[begin]
        end = begin
        while end < len(who) and who[end] == person:
            b = bucket[end]
            first, last = min(first, b), max(last, b)
            if one and met[b] != person:
                met[b] = person
                near[b] += 1
            end += 1
        if not one:
            near[first] += 1
            far[last] -= 1
        elif first == last:
            far[first] -= 1  # without the bucket, nothing is left of them
        begin = end
        total += 1
    if not one:
        near[:] = np.cumsum(near)
        far[:] = np.cumsum(far)
    far += total


@kernel()
def persons_in(who: Ints, bucket: Ints, chosen: Flags) -> int:
    """Distinct persons of the records in the chosen buckets (b,); arguments as in `persons_beside`."""
    found, last = 0, -1
    for i in range(len(who)):
        if chosen[bucket[i]] and who[i] != last:
            last = who[i]
            found += 1
    return found


@kernel(inner=True)
def _persons_of(task: Task, rows: Ints) -> Ints:
    """(m,) the person of each record; (0,) where each counts as a person."""
    return task.persons[rows] if len(task.persons) > 0 else task.persons


@kernel()
def join(
    lo: Codes, hi: Codes, a: int, lo2: Codes, hi2: Codes, b: int, tree: Flags, start: Ints, parent: Codes
) -> None:
    """Grow box a of the first array of boxes so that it covers box b of the second."""
    for j in range(lo.shape[1]):
        if tree[j]:
            lo[a, j] = common_ancestor(parent, start[j], lo[a, j], lo2[b, j])
            hi[a, j] = lo[a, j]
        else:
            lo[a, j] = min(lo[a, j], lo2[b, j])
            hi[a, j] = max(hi[a, j], hi2[b, j])


@kernel()
def loss_of(lo: Codes, hi: Codes, a: int, tree: Flags, start: Ints, value: Floats, most: Floats) -> float:
    """Loss of a record that is published with box a."""
    loss = 0.0
    for j in range(lo.shape[1]):
        low, high = start[j] + lo[a, j], start[j] + hi[a, j]
        loss += value[high] if tree[j] else apart(value, low, high, most[j])
    return loss


@kernel(inner=True)
def widest_cut(task: Task, rows: Ints, lo: Codes, hi: Codes, part: Ints) -> int:
    """LeFevre et al. (2006), section 4: cut the attribute of widest span, the next one where that fails.

    The span is weighted and normalised: the attribute's cost of a record of the class; ties in column order.
    An ordered attribute is cut next to its median. A hierarchy is cut into the children of the common
    ancestor: each that is large enough is a part and the others together are one, to which the smallest are
    added until it is large enough; otherwise into two groups of children of about equal size.

    Args:
        task: Table and rules of the search.
        rows: Records of the class, shape (m,).
        lo: Class's box, shape (q,).
        hi: Upper ends of the class's box, shape (q,).
        part: Filled with the part of each record, shape (m,).

    Returns:
        The number of parts, 0 if no cut is allowed.
    """
    span, who = np.empty(len(lo)), _persons_of(task, rows)
    for j in range(len(lo)):
        span[j] = join_cost(task.space, j, lo[j], hi[j], lo[j], hi[j])
    while span.max() > 0.0:
        j = int(span.argmax())
        span[j] = 0.0
        buckets = bucket_by(task, rows, j, int(lo[j]), part)
        group = np.empty(len(buckets.size), np.int64)
        parts = 0
        if not task.space.tree[j]:
            parts = _halve(task, who, part, buckets, group)
        else:
            parts = _stand_alone(task, who, part, buckets, group)
            if parts < 2:
                parts = _deal(task, who, part, buckets, group)
        if parts > 1:
            for i in range(len(part)):
                part[i] = group[part[i]]
            return parts
    return 0


@kernel(inner=True)
def cheapest_cut(task: Task, rows: Ints, lo: Codes, hi: Codes, part: Ints) -> int:
    """The cut in two after which the records lose least, over all attributes.

    An ordered attribute may be cut between any two of its values; of a hierarchy one child may be split
    from the others. Equal losses: the first in column order, then in the order of values or nodes.
    Arguments and result as in `widest_cut`.
    """
    best, parts, who = np.inf, 0, _persons_of(task, rows)
    bucket = np.empty(len(rows), np.int64)
    for j in range(len(lo)):
        if join_cost(task.space, j, lo[j], hi[j], lo[j], hi[j]) <= 0.0:
            continue
        buckets = bucket_by(task, rows, j, int(lo[j]), bucket)
        loss, at = cheapest_grouping(task, who, bucket, buckets, task.space.tree[j])
        if loss < best:
            best, parts = loss, 2
            for i in range(len(rows)):
                part[i] = bucket[i] != at if task.space.tree[j] else bucket[i] > at
    return parts


@kernel()
def cheapest_grouping(task: Task, who: Ints, bucket: Ints, buckets: Buckets, one: bool) -> tuple[float, int]:
    """Least loss of the records with one bucket, or with those up to it, split off; and that bucket.

    who: (m,) the person of each record; (0,) where each counts as a person. bucket: (m,) of each record.
    """
    space, n = task.space, buckets.size.sum()
    near, far = _losses(
        buckets.lo, buckets.hi, one, space.tree, space.start, space.value, space.parent, space.most
    )
    size = buckets.size if one else np.cumsum(buckets.size)
    loss = size * near + (n - size) * far
    people, others = size, n - size
    if len(who) > 0:
        people, others = np.empty(len(size), np.int64), np.empty(len(size), np.int64)
        persons_beside(who, bucket, one, people, others)
    loss[(people < task.least) | (others < task.least)] = np.inf
    if len(task.constraints.kind) == 0:
        b = int(loss.argmin())
        return float(loss[b]), b
    counts, total = buckets.counts.copy(), np.zeros(buckets.counts.shape[1], np.int32)
    for b in range(len(counts)):
        total += counts[b]
        if not one:
            counts[b] = total
    for b in stable_order(loss):
        if loss[b] == np.inf:
            break
        if admits(counts[b], size[b], task.constraints) and admits(
            total - counts[b], n - size[b], task.constraints
        ):
            return float(loss[b]), int(b)
    return np.inf, -1


@kernel()
def _losses(
    lo: Codes,
    hi: Codes,
    one: bool,
    tree: Flags,
    start: Ints,
    value: Floats,
    parent: Codes,
    most: Floats,
) -> tuple[Floats, Floats]:
    """Loss of a record on either side of each cut: with the bucket (`one`) or those up to it, and without."""
    m = len(lo)
    below_lo, below_hi = lo.copy(), hi.copy()
    above_lo, above_hi = lo.copy(), hi.copy()
    for b in range(1, m):
        join(below_lo, below_hi, b, below_lo, below_hi, b - 1, tree, start, parent)
        join(above_lo, above_hi, m - 1 - b, above_lo, above_hi, m - b, tree, start, parent)
    near, far = np.empty(m), np.zeros(m)
    for b in range(m):
        near[b] = loss_of(lo if one else below_lo, hi if one else below_hi, b, tree, start, value, most)
        if b < m - 1:
            far[b] = loss_of(above_lo, above_hi, b + 1, tree, start, value, most)
    if one:
        for b in range(
            m - 1, 0, -1
        ):  # downwards: what lies below b is not yet joined with what lies above it
            if b < m - 1:
                join(below_lo, below_hi, b - 1, above_lo, above_hi, b + 1, tree, start, parent)
            far[b] = loss_of(below_lo, below_hi, b - 1, tree, start, value, most)
    return near, far


@kernel(inner=True)
def _stands(task: Task, who: Ints, bucket: Ints, size: int, counts: Codes, chosen: Flags) -> bool:
    """Whether the records in the chosen buckets (b,), of this size and sensitive values, may be a class."""
    if size < task.least or not admits(counts, size, task.constraints):
        return False
    return len(who) == 0 or persons_in(who, bucket, chosen) >= task.least


@kernel(inner=True)
def _halve(task: Task, who: Ints, bucket: Ints, buckets: Buckets, group: Ints) -> int:
    """Cut below or above the median's own bucket, whichever is more even, else the other."""
    n = buckets.size.sum()
    median, upto = 0, buckets.size[0]
    while upto <= n // 2:
        median += 1
        upto += buckets.size[median]
    below = upto - buckets.size[median]
    even = median if abs(2 * below - n) <= abs(2 * upto - n) else median + 1
    for first in (even, 2 * median + 1 - even):
        for b in range(len(group)):
            group[b] = b >= first
        if _both_stand(task, who, bucket, buckets, group):
            return 2
    return 0


@kernel(inner=True)
def _stand_alone(task: Task, who: Ints, bucket: Ints, buckets: Buckets, group: Ints) -> int:
    """Make each sufficient bucket a group; the rest is group 0, which the smallest join until it suffices."""
    people = buckets.size
    if len(who) > 0:
        people, others = np.empty(len(group), np.int64), np.empty(len(group), np.int64)
        persons_beside(who, bucket, True, people, others)
    rest, size = np.zeros(buckets.counts.shape[1], np.int32), 0
    joined = np.zeros(len(group), np.bool_)
    for b in range(len(group)):
        joined[b] = people[b] < task.least or not admits(buckets.counts[b], buckets.size[b], task.constraints)
        if joined[b]:
            rest += buckets.counts[b]
            size += buckets.size[b]
    if size > 0:
        for b in stable_order(buckets.size):
            if not joined[b] and not _stands(task, who, bucket, size, rest, joined):
                joined[b] = True
                rest += buckets.counts[b]
                size += buckets.size[b]
    groups = 1 if size > 0 else 0
    for b in range(len(group)):
        group[b] = 0 if joined[b] else groups
        groups += not joined[b]
    return groups


@kernel(inner=True)
def _deal(task: Task, who: Ints, bucket: Ints, buckets: Buckets, group: Ints) -> int:
    """Buckets into two groups, the largest first, each to the smaller group."""
    size = np.zeros(2, np.int64)
    for b in stable_order(-buckets.size):
        group[b] = 0 if size[0] <= size[1] else 1
        size[group[b]] += buckets.size[b]
    return 2 if _both_stand(task, who, bucket, buckets, group) else 0


@kernel(inner=True)
def _both_stand(task: Task, who: Ints, bucket: Ints, buckets: Buckets, group: Ints) -> bool:
    """Whether groups 0 and 1 may be classes."""
    size, counts = np.zeros(2, np.int64), np.zeros((2, buckets.counts.shape[1]), np.int32)
    for b in range(len(group)):
        size[group[b]] += buckets.size[b]
        counts[group[b]] += buckets.counts[b]
    return _stands(task, who, bucket, size[0], counts[0], group == 0) and _stands(
        task, who, bucket, size[1], counts[1], group == 1
    )
