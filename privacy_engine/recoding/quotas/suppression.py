"""Which records to search without, where a model compares each class with all that is released.

Under such a model a single record can rarely leave its class: the others would no longer meet the rules, and
every suppressed record changes the shares that all classes are compared with. So a method searches again
without some of the records: classes are compared with the kept ones, as in verification. A method that
refines its classes does not run again as a whole: without rare values it starts from cuts under quotas or
from its current classes, and without outliers from those.

This module proposes those records, as two series of larger and larger sets. No set depends on how many
records may be suppressed: a larger limit tries the same sets and more.
"""

from collections.abc import Iterator

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.boxes import Codes, Floats, Ints, Space, enlarge, tabulate, union_cost
from privacy_engine.recoding.grouping.constraints import COMPARED, Constraints
from privacy_engine.tables.geometry import Geometry

SHARES = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # of the records, of outliers to go without


def of_rare_values(sensitive: Codes, constraints: Constraints) -> Iterator[Ints]:
    """Rows (g,) of all records of the rarest sensitive value, of the two rarest, and so on.

    Under delta-disclosure each class must have every value; under beta-likeness a class with one record of a
    value of share p has at least 1 / (p (1 + beta)) records. So a few of a rare value make classes large.

    Args:
        sensitive: Codes, shape (s, n).
        constraints: Rules; values count of the attributes that a rule compares with the table.
    """
    compared = np.unique(constraints.attribute[np.isin(constraints.kind, COMPARED)])
    values = [
        (int(count), int(attribute), int(value))
        for attribute in compared
        for value, count in zip(*np.unique(sensitive[attribute], return_counts=True), strict=True)
    ]
    gone = np.zeros(sensitive.shape[1], np.bool_)
    for _, attribute, value in sorted(values):
        gone |= sensitive[attribute] == value
        yield np.flatnonzero(gone)


def of_outliers(codes: Codes, labels: Ints, geometry: Geometry) -> Iterator[Ints]:
    """Rows (g,) of records without which the rest of their class loses less, by more than 1 for each of them.

    They are the farthest from the middle of their class, as many as pay most: several close outliers pay even
    if none of them would by itself. Classes in which they pay most for each come first; the sets have up to
    each of `SHARES` of the records.

    Args:
        codes: Int32, shape (n, q).
        labels: Classes, -1 = suppressed: passed over, shape (n,).
        geometry: Costs of the quasi-identifiers.
    """
    order = np.argsort(labels, kind="stable")
    start = np.searchsorted(labels[order], np.arange(labels.max(initial=-1) + 2))
    codes = np.ascontiguousarray(codes, np.int32)
    parts, gains = _outlying_parts(tabulate(geometry), codes, order, start)
    listed = [order[start[c] : start[c] + parts[c]] for c in np.argsort(-gains, kind="stable") if parts[c]]
    ends = np.cumsum([len(part) for part in listed])
    for taken in dict.fromkeys(np.searchsorted(ends, share * len(codes), side="right") for share in SHARES):
        if taken:
            yield np.sort(np.concatenate(listed[:taken]))


@kernel(nogil=True)
def _outlying_parts(space: Space, codes: Codes, order: Ints, start: Ints) -> tuple[Ints, Floats]:
    """(c,) number of records in the part of each class that pays most, 0 = none, and its gain per record.

    Class c owns ``order[start[c] : start[c + 1]]``, sorted with the farthest from its middle first.
    """
    classes = len(start) - 1
    parts, gains = np.zeros(classes, np.int64), np.zeros(classes)
    for c in range(classes):
        members = order[start[c] : start[c + 1]]
        m, middle = len(members), _middle(space, codes, order[start[c] : start[c + 1]])
        distance = np.empty(m)
        for i in range(m):
            own = codes[members[i]]
            distance[i] = union_cost(space, middle, middle, own, own)
        members[:] = members[stable_order(-distance)]
        rest, lo, hi = np.empty(m), codes[members[-1]].copy(), codes[members[-1]].copy()
        for i in range(m - 1, -1, -1):
            enlarge(space, lo, hi, codes[members[i]], codes[members[i]])
            rest[i] = (m - i) * union_cost(space, lo, hi, lo, hi)
        best = 0.0
        for i in range(1, m):
            gain = rest[0] - rest[i] - i
            if gain > best:
                best, parts[c], gains[c] = gain, i, gain / i
    return parts, gains


@kernel(nogil=True)
def _middle(space: Space, codes: Codes, members: Ints) -> Codes:
    """(q,) the median code of each ordered attribute, the most frequent leaf of each hierarchy."""
    m, q = len(members), codes.shape[1]
    middle = np.empty(q, np.int32)
    for j in range(q):
        own = np.empty(m, np.int32)
        for i in range(m):
            own[i] = codes[members[i], j]
        own.sort()
        middle[j] = own[m // 2]
        if space.tree[j]:
            run = most = 0
            for i in range(m):
                run = run + 1 if i > 0 and own[i] == own[i - 1] else 1
                if run > most:
                    most, middle[j] = run, own[i]
    return middle
