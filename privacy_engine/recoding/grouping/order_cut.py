"""Cutting an order of records into consecutive classes of k to 2k - 1: at least loss, or at peaks.

Yang (2018) cuts the clusters of OBPA from the OPTICS order and does not say how. `cut_at_least_loss` is
exact: among all cuts into runs of k .. 2k - 1 records it finds the one of least total loss, by dynamic
programming, like Hansen and Mukherjee (2003) for microaggregation. `cut_at_peaks` is closer to the paper, for
comparison.
"""

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.errors import InfeasibleError
from privacy_engine.recoding.grouping.boxes import Codes, Floats, Ints, Space, box_cost, enlarge, tabulate
from privacy_engine.tables.geometry import Geometry


def entropies(codes: Codes) -> Floats:
    """(q,) Shannon entropy in nats of each attribute of the records with codes (n, q)."""
    found = np.empty(codes.shape[1])
    for j in range(codes.shape[1]):
        shares = np.unique(codes[:, j], return_counts=True)[1] / len(codes)
        found[j] = -(shares @ np.log(shares))
    return found


def lexicographic_order(codes: Codes, weights: Floats) -> Ints:
    """Records (n, q) sorted by attribute, ascending in entropy over weight: what changes least comes first.

    Args:
        codes: Codes of the records, shape (n, q) int32.
        weights: Weight of each attribute, >= 0, shape (q,); an attribute of weight 0 comes last.

    Returns:
        order: (n,) int64.
    """
    spread = np.full(codes.shape[1], np.inf)
    np.divide(entropies(codes), weights, out=spread, where=weights > 0)
    return np.lexsort(codes.T[np.argsort(spread, kind="stable")[::-1]])


def cut_at_least_loss(codes: Codes, geometry: Geometry, k: int) -> Ints:
    """Labels of the runs whose total loss is least: O(n k q).

    Args:
        codes: Quasi-identifier codes of the records, in the order to cut, shape (n, q) int32.
        geometry: Costs of the q attributes.
        k: Least class size, >= 1. Longer runs than 2k - 1 are never cheaper than their two parts.

    Returns:
        labels: (n,) int64, 0 .. classes - 1, ascending.

    Raises:
        InfeasibleError: Fewer than k records.
    """
    if len(codes) < k:
        raise InfeasibleError(f"{len(codes)} rows cannot be {k}-anonymous; lower k or allow suppression")
    return _labels(_best_begins(tabulate(geometry), np.ascontiguousarray(codes, np.int32), k))


def cut_at_peaks(reach: Floats, k: int) -> Ints:
    """Labels of runs that begin at peaks of the reachability, the highest first.

    A run of 2k or more is cut where the reachability is highest among the positions that leave k on both
    sides; the first of equal ones.

    Args:
        reach: Reachability distances in the order to cut, shape (n,).
        k: Least class size, >= 1.

    Returns:
        labels: (n,) int64, 0 .. classes - 1, ascending.

    Raises:
        InfeasibleError: Fewer than k records.
    """
    if len(reach) < k:
        raise InfeasibleError(f"{len(reach)} rows cannot be {k}-anonymous; lower k or allow suppression")
    opens = np.zeros(len(reach), np.int64)
    waiting = [(0, len(reach))]
    while waiting:  # as many turns as there are classes, each vectorised over its run
        first, last = waiting.pop()
        if last - first < 2 * k:
            opens[first] = 1
            continue
        cut = first + k + int(np.argmax(reach[first + k : last - k + 1]))
        waiting += [(first, cut), (cut, last)]
    return np.cumsum(opens) - 1


def cut_to_size(n: int, k: int) -> Ints:
    """Labels (n,) of runs of k records; the last also has the remainder, fewer than 2k."""
    if n < k:
        raise InfeasibleError(f"{n} rows cannot be {k}-anonymous; lower k or allow suppression")
    return np.minimum(np.arange(n, dtype=np.int64) // k, n // k - 1)


@kernel(nogil=True)
def _best_begins(space: Space, codes: Codes, k: int) -> Ints:
    """``begin[e]`` (n + 1,): where the last run begins in the best cut of the first e records."""
    n, q = codes.shape
    loss = np.full(n + 1, np.inf)
    begin = np.zeros(n + 1, np.int64)
    loss[0] = 0.0
    lo, hi = np.empty(q, np.int32), np.empty(q, np.int32)
    for end in range(k, n + 1):
        lo[:] = codes[end - 1]
        hi[:] = lo
        cost, seen = 0.0, codes[end - 1]
        for first in range(end - 1, max(end - 2 * k, -1), -1):  # the run grows to the left
            row = codes[first]
            changed = False
            for j in range(q):
                changed |= row[j] != seen[j]
            if changed:
                enlarge(space, lo, hi, row, row)
                cost = -1.0
            seen = row
            if end - first < k:
                continue
            if cost < 0.0:
                cost = box_cost(space, lo, hi)
            total = loss[first] + (end - first) * cost
            if total < loss[end]:
                loss[end], begin[end] = total, first
    return begin


@kernel(nogil=True)
def _labels(begin: Ints) -> Ints:
    n = len(begin) - 1
    labels = np.zeros(n, np.int64)
    end = n
    while end > 0:
        labels[begin[end]] = 1
        end = begin[end]
    return np.cumsum(labels) - 1
