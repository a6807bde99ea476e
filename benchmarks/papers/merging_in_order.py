"""The search of Zhu, Zhao, Wang (2010), section 4.3, class after class, to compare with the engine's.

"For each class G of fewer than k records: search in the cluster the class G' for which ILP(G u G') is
smallest, and merge G and G'", until all have k. A class that has reached k takes no further part. The engine
instead merges the cheapest proposals of a round first, lets small classes join large ones, and splits classes
of 2k or more (see `agglomeration`).
"""

import numba as nb
import numpy as np

from privacy_engine import EncodedTable, Recoding
from privacy_engine.anonymizers.groups import distort, label_groups, sensitive_groups
from privacy_engine.anonymizers.sensitive_utility import (
    Reading,
    attribute_weights,
    clusters_in_play,
    utility_matrix,
    weight_matrix,
)
from privacy_engine.recoding.grouping.agglomeration import follow
from privacy_engine.recoding.grouping.boxes import (
    Boxes,
    Codes,
    Ints,
    Space,
    enlarge,
    tabulate,
    union_cost_up_to,
)
from privacy_engine.tables.geometry import Geometry


def bottom_up(encoded: EncodedTable, rng: np.random.Generator, *, k: int, reading: Reading) -> Recoding:
    """Bottom-up k-anonymity of the whole table."""
    weights = attribute_weights(weight_matrix(utility_matrix(encoded, 0), reading))
    return Recoding.of_labels(encoded, merge_in_order(encoded.codes, encoded.geometry(weights), k, rng), {})


def ilp_based(
    encoded: EncodedTable,
    rng: np.random.Generator,
    *,
    k: int,
    l: int,  # noqa: E741  the field's own symbol
    reading: Reading,
) -> Recoding:
    """The paper's section 4.3 as printed, its repair by distortion included; needs l <= k."""
    utility = utility_matrix(encoded, 0)
    geometry = encoded.geometry(attribute_weights(weight_matrix(utility, reading)))
    clusters = clusters_in_play(encoded.sensitive[0], utility, l, len(utility), rng)
    groups = sensitive_groups(encoded.sensitive[0], utility, clusters.of, k)
    labels = label_groups(groups, lambda group: merge_in_order(encoded.codes[group.rows], geometry, k, rng))
    return Recoding.of_labels(distort(encoded, 0, labels, groups, l, rng), labels, {})


def merge_in_order(codes: Codes, geometry: Geometry, k: int, rng: np.random.Generator) -> Ints:
    """Partition records into classes of at least k, by the paper's order.

    Args:
        codes: Quasi-identifier codes, shape (n, q) int32, n >= k.
        geometry: Costs of the q attributes.
        k: Least class size.
        rng: Draws the order, which the paper leaves open.

    Returns:
        labels: (n,) int64, 0 .. classes - 1.
    """
    shuffled = rng.permutation(len(codes))
    tuples = np.ascontiguousarray(codes[shuffled], np.int32)
    boxes = Boxes(tuples, tuples.copy(), np.ones(len(tuples)), np.zeros(len(tuples)))
    into = np.arange(len(tuples))
    _merge(tabulate(geometry), boxes, into, k)
    labels = np.empty(len(tuples), np.int64)
    labels[shuffled] = follow(into)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


@nb.njit(nogil=True, cache=True)
def _merge(space: Space, boxes: Boxes, into: Ints, k: int) -> None:
    while True:
        alive = np.flatnonzero(boxes.size > 0)
        small = alive[boxes.size[alive] < k]
        if len(small) == 0:
            return
        among = small if len(small) > 1 else alive
        for a in small:
            if boxes.size[a] == 0 or boxes.size[a] >= k:
                continue  # merged earlier in this round
            best = _cheapest(space, boxes, a, among, k if len(small) > 1 else len(into))
            if best < 0:
                continue  # the last small class: it joins any class in the next round
            enlarge(space, boxes.lo[a], boxes.hi[a], boxes.lo[best], boxes.hi[best])
            boxes.size[a] += boxes.size[best]
            boxes.size[best] = 0
            into[best] = a


@nb.njit(nogil=True, cache=True)
def _cheapest(space: Space, boxes: Boxes, a: int, among: Ints, below: int) -> int:
    """The class of fewer than ``below`` records with which the union is cheapest; -1 if there is none."""
    best, least = -1, np.inf
    for b in among:
        if b != a and 0 < boxes.size[b] < below:
            cost = union_cost_up_to(space, boxes.lo[a], boxes.hi[a], boxes.lo[b], boxes.hi[b], least)
            if cost < least:
                best, least = b, cost
                if cost == 0.0:
                    break
    return best
