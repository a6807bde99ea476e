"""Possible compositions of a class: the number of records of each kind for which it meets all rules.

Records are of one kind if they share the values of the sensitive attributes that rules are about. The quota
of a kind in a class of m records is its share of the remaining table, times m, as Cao, Karras, Kalnis, Tan:
SABRE, VLDB Journal 20 (2011), redistribute their buckets; rounded, and then exchanged unit by unit until the
class meets the rules. So every composition meets them, whatever records are taken for it.
"""

from typing import NamedTuple

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.boxes import Codes, Ints
from privacy_engine.recoding.grouping.constraints import (
    DISTRIBUTIONS,
    TOLERANCE,
    Constraints,
    admits,
    shortfall,
)

MOST_KINDS = 256  # most kinds of records; if there are more, neighbouring values are one kind


class Kinds(NamedTuple):
    """The kind of each record.

    of: (n,) int64.
    places: (v, s) int64, where a record of each kind is counted, one of s attributes after the other.
    exact: Whether two records of a kind are equal in everything that the rules consider.
    """

    of: Ints
    places: Ints
    exact: bool


def kinds_of(sensitive: Codes, constraints: Constraints) -> Kinds:
    """The kinds of records with these sensitive values (s, n)."""
    constrained, bounded = np.unique(constraints.attribute), _bounded(constraints)
    exact = len(constrained) == len(bounded)
    values = sensitive[bounded].astype(np.int64)
    if len(np.unique(values, axis=1).T) > MOST_KINDS:
        exact = False
        values = np.stack([_neighbours(row, int(MOST_KINDS ** (1 / len(bounded)))) for row in values])
    kinds, of = np.unique(values, axis=1, return_inverse=True)
    places = np.ascontiguousarray((kinds + constraints.start[bounded][:, None]).T)
    return Kinds(of.reshape(-1).astype(np.int64), places, exact)


def rules_of_kinds(constraints: Constraints) -> Constraints:
    """The rules on the attributes that make the kinds, which a composition can be checked for."""
    own = np.isin(constraints.attribute, _bounded(constraints))
    return constraints._replace(
        kind=constraints.kind[own],
        attribute=constraints.attribute[own],
        limit=constraints.limit[own],
        rank=constraints.rank[own],
    )


def _bounded(constraints: Constraints) -> Ints:
    """The sensitive attributes whose distribution a rule bounds."""
    found: Ints = np.unique(constraints.attribute[np.isin(constraints.kind, DISTRIBUTIONS)])
    return found


def _neighbours(codes: Ints, buckets: int) -> Ints:
    """Codes (n,), each replaced by the middle one of as many neighbours as fill one of the buckets."""
    order = np.argsort(codes, kind="stable")
    middle = (np.arange(buckets) * 2 + 1) * len(codes) // (2 * buckets)
    counts = np.bincount(codes)
    bucket = (np.cumsum(counts) - counts) * buckets // len(codes)  # of the first record with a value
    found: Ints = codes[order[middle]][bucket[codes]]
    return found


@kernel(nogil=True, inner=True)
def count_kind(counts: Codes, places: Ints, kind: int, by: int) -> None:
    """Add a number of records of a kind to the counts."""
    for s in range(places.shape[1]):
        counts[places[kind, s]] += by


@kernel(nogil=True)
def compose(left: Ints, m: int, kind: int, places: Ints, constraints: Constraints, quota: Ints) -> bool:
    """Fill `quota` (v,) with the number of records of each kind for a class of m; return whether it is valid.

    Args:
        left: Records of each kind to take from, m or more in total, shape (v,).
        m: Size of the class.
        kind: One that must be in it.
        places: Indexes of the kinds, see `Kinds`.
        constraints: Rules that every class must meet.
        quota: Array that is filled with the result, shape (v,).
    """
    _apportion(left, m, quota)
    if quota[kind] == 0:
        quota[np.argmax(quota)] -= 1
        quota[kind] = 1
    counts = np.zeros(constraints.start[-1], np.int32)
    for t in range(len(left)):
        count_kind(counts, places, t, quota[t])
    short = shortfall(counts, m, constraints)
    while short > 0.0:
        less = more = -1
        for u in range(len(left)):
            if quota[u] == 0 or (u == kind and quota[u] == 1):
                continue
            count_kind(counts, places, u, -1)
            for t in range(len(left)):
                if t != u and quota[t] < left[t]:
                    count_kind(counts, places, t, 1)
                    found = shortfall(counts, m, constraints)
                    count_kind(counts, places, t, -1)
                    if found < short - TOLERANCE:
                        less, more, short = u, t, found
            count_kind(counts, places, u, 1)
        if less < 0:
            return False
        quota[less] -= 1
        quota[more] += 1
        count_kind(counts, places, less, -1)
        count_kind(counts, places, more, 1)
    return bool(admits(counts, m, constraints))


@kernel(nogil=True, inner=True)
def _apportion(left: Ints, m: int, quota: Ints) -> None:
    """m records in proportion to the remaining ones (v,), by largest remainders."""
    total = left.sum()
    remainder = np.empty(len(left), np.int64)
    for t in range(len(left)):
        quota[t] = m * left[t] // total
        remainder[t] = m * left[t] % total
    for t in stable_order(-remainder)[: m - quota.sum()]:
        quota[t] += 1


@kernel(nogil=True)
def least_sizes(left: Ints, k: int, places: Ints, constraints: Constraints) -> Ints:
    """(v,) the least size, k or more, that is found for a class with a record of each kind.

    Sizes are tried in steps of a tenth; 0 where no class can have the kind, or none is left.
    """
    sizes, quota = np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
    total = left.sum()
    for t in range(len(left)):
        m = k
        while left[t] > 0 and m <= total and sizes[t] == 0:
            if compose(left, m, t, places, constraints, quota):
                sizes[t] = m
            m = m + 1 if m < 10 or m == total else min(m + m // 10, total)
    return sizes
