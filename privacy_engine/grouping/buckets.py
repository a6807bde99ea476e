"""The records of a class sorted into buckets by one attribute: what a cut can keep together.

An ordered attribute has a bucket a value, a hierarchy a bucket a child of the records' lowest common
ancestor. A cut is then a grouping of buckets, and its sizes, losses and constraints follow from theirs.
"""

from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from privacy_engine.geometry import common_ancestor
from privacy_engine.grouping.boxes import Codes, Floats, Ints, Space
from privacy_engine.grouping.constraints import Constraints

Flags = npt.NDArray[np.bool_]


class Task(NamedTuple):
    """A table to be cut and what every part must keep.

    codes: (n, q) int32 quasi-identifiers; sensitive: (s, n) int32; least: records that a part needs.
    """

    codes: Codes
    sensitive: Codes
    space: Space
    constraints: Constraints
    least: int


class Buckets(NamedTuple):
    """Buckets in the order of their values, or of their nodes.

    size: (b,) int64 records, > 0; counts: (b, m_total) int32 sensitive values; lo, hi: (b, q) int32 boxes.
    """

    size: Ints
    counts: Codes
    lo: Codes
    hi: Codes


@nb.njit(cache=True)
def bucket_by(task: Task, rows: Ints, j: int, ancestor: int, bucket: Ints) -> Buckets:
    """Sort records into buckets by attribute j.

    Args:
        task: the table.
        rows: (m,) records of the class.
        j: attribute.
        ancestor: lowest common ancestor of the records, where j is a hierarchy.
        bucket: (m,) filled with the bucket of each record.
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


@nb.njit(cache=True)
def _climb(codes: Codes, rows: Ints, j: int, parent: Codes, ancestor: int, child: Ints) -> None:
    """The child of `ancestor` above each record's value."""
    for i in range(len(rows)):
        node = codes[rows[i], j]
        while parent[node] != ancestor:
            node = parent[node]
        child[i] = node


@nb.njit(cache=True)
def _count(values: Codes, rows: Ints, bucket: Ints, counts: Codes) -> None:
    for i in range(len(rows)):
        counts[bucket[i], values[rows[i]]] += 1


@nb.njit(cache=True)
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
    order = np.argsort(keys, kind="mergesort")
    rank, last = -1, low - 1
    for i in order:
        if keys[i] != last:
            last = keys[i]
            rank += 1
        keys[i] = rank
    return rank + 1


@nb.njit(cache=True)
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


@nb.njit(cache=True)
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


@nb.njit(cache=True)
def loss_of(lo: Codes, hi: Codes, a: int, tree: Flags, start: Ints, value: Floats) -> float:
    """Loss of a record that is published with box a."""
    loss = 0.0
    for j in range(lo.shape[1]):
        high = value[start[j] + hi[a, j]]
        loss += high if tree[j] else high - value[start[j] + lo[a, j]]
    return loss
