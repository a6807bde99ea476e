"""OPTICS on records of mixed attributes: an order in which each record comes when it is nearest.

Ankerst, Breunig, Kriegel, Sander (1999), "OPTICS: ordering points to identify the clustering structure",
figures 5 to 7, with the distance of Yang (2018), equation 1, and an unbounded epsilon. Every point then
changes the reachability of every other, so a scan of the remaining points replaces the seed list: O(m^2 q) in
one compiled loop over the m distinct records.

Deviation: identical records are one point with a multiplicity. They are at distance 0 and would follow
each other in the order anyhow; a core distance counts them one by one.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.progress import advance, portion, tracked
from privacy_engine.recoding.grouping.agglomeration import distinct_tuples
from privacy_engine.recoding.grouping.boxes import Codes, Floats, Ints
from privacy_engine.tables.encoding import Domain
from privacy_engine.tables.hierarchy import Hierarchy

CHUNKS = 8  # pieces of work a thread takes, so that none waits long for another
AT_ONCE = 1_000  # points visited between two progress reports


class MixedDistance(NamedTuple):
    """A weighted sum over q attributes, concatenated; attribute j owns ``start[j] : start[j + 1]``.

    start: (q + 1,) int64.
    tree: (q,) bool.
    position: float64; ordered: weighted and scaled value of a code. Unused (0) for hierarchies.
    step: (q, levels) float64; hierarchy: weighted distance of two leaves that first meet at a level. Ordered:
    the
        largest distance, which is that of a null from any value, if there is one; else infinity.
    node: (values, levels) int32; hierarchy: node of each leaf at each level, the root repeated at the end.
    """

    start: Ints
    tree: npt.NDArray[np.bool_]
    position: Floats
    step: Floats
    node: Codes


class Reachability(NamedTuple):
    """What OPTICS finds of m points.

    order: (m,) int64, the points as they were visited.
    reach: (m,) float64, reachability distance of each point; infinite for the first of the order.
    core: (m,) float64, core distance of each point.
    """

    order: Ints
    reach: Floats
    core: Floats


def mixed_distance(domains: Sequence[Domain], weights: Floats) -> MixedDistance:
    """Yang (2018), equation 1: ``d(X, Y) = sum_i w_i d_i``.

    Ordered: ``|x - y| / (max - min)``, and 1 between a null and a value. Hierarchy of h levels, leaves at
    level 1: ``sum_{i < f} i / sum_{j < h} j`` for a lowest common ancestor at level f, which is 0 or 1 for a
    flat one.

    Args:
        domains: Domains of the attributes, shape (q,).
        weights: Weight of each attribute, >= 0, shape (q,).
    """
    levels = max((d.height + 1 for d in domains if isinstance(d, Hierarchy)), default=1)
    step = np.zeros((len(domains), levels))
    positions, nodes = [], []
    for j, domain in enumerate(domains):
        size = len(domain.values)
        if isinstance(domain, Hierarchy):
            level = np.minimum(np.arange(levels), domain.height)
            step[j] = weights[j] * level * (level + 1) / (domain.height * (domain.height + 1))
            nodes.append(domain.nodes[:, level])
            positions.append(np.zeros(size))
        else:
            nodes.append(np.zeros((size, levels), np.int32))
            position = weights[j] * (domain.values - domain.low) / domain.extent
            position[domain.known :] = 2.0 * weights[j]  # of a null, as `OrderedDomain.places` has it
            positions.append(position)
            step[j] = weights[j] if domain.has_null else np.inf
    sizes = [len(p) for p in positions]
    return MixedDistance(
        start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        tree=np.array([isinstance(d, Hierarchy) for d in domains]),
        position=np.concatenate(positions),
        step=step,
        node=np.ascontiguousarray(np.concatenate(nodes), np.int32),
    )


def optics_of_records(codes: Codes, distance: MixedDistance, min_samples: int) -> Reachability:
    """`optics` of n >= 1 records with codes (n, q), all fields (n,).

    Identical records are adjacent.
    """
    points, point_of, counts = distinct_tuples(np.ascontiguousarray(codes, np.int32))
    found = optics(points, counts, distance, min_samples)
    place = np.empty(len(points), np.int64)
    place[found.order] = np.arange(len(points))
    order = np.argsort(place[point_of], kind="stable")
    core = found.core[point_of]
    reach = np.minimum(core, found.reach[point_of])  # a repeated record is reached like its first, or from it
    first = order[np.concatenate(([0], np.cumsum(counts[found.order])[:-1]))]
    reach[first] = found.reach[found.order]
    return Reachability(order, reach, core)


def optics(points: Codes, counts: Ints, distance: MixedDistance, min_samples: int) -> Reachability:
    """Order the points by density reachability.

    Args:
        points: Distinct records, m >= 1, shape (m, q) int32.
        counts: Number of records that each point represents, shape (m,) int64.
        distance: Distance between two points.
        min_samples: Number of records, the point's own included, that make a point a core point, >= 1; if
            there are fewer, all.

    Returns:
        Ties go to the point with the smaller number, so the result depends on nothing else.
    """
    columns = np.ascontiguousarray(points.T, np.int32)
    with portion(0.6):
        core = core_distances(columns, counts, distance, min(min_samples, int(counts.sum())))
    with portion(0.3):
        order, reach = _visited(columns.copy(), core, distance)
    return Reachability(order, reach, core)


def density_clusters(found: Reachability, eps: float) -> Ints:
    """(n,) clusters 0, 1, ... of DBSCAN at radius eps, -1 = noise: figure 19, ExtractDBSCAN-Clustering.

    As the authors say, a border record that comes before its cluster's core records may count as noise.
    """
    starts = (found.reach > eps) & (found.core <= eps)
    noise = (found.reach > eps) & (found.core > eps)
    clusters = np.empty(len(found.order), np.int64)
    clusters[found.order] = np.cumsum(starts[found.order]) - 1
    return np.where(noise, -1, clusters)


def core_distances(columns: Codes, counts: Ints, distance: MixedDistance, min_samples: int) -> Floats:
    """(m,) distance to the nearest ``min_samples``-th record, the point's own counted; columns (q, m)."""
    m = columns.shape[1]
    core = np.empty(m)
    threads = nb.get_num_threads()
    cuts = np.linspace(0, m, threads * CHUNKS + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        done = pool.map(
            lambda first, last: _core_distances(columns, counts, distance, min_samples, first, last, core),
            cuts[:-1],
            cuts[1:],
        )
        for _ in tracked(done, len(cuts) - 1):
            pass
    return core


def _visited(columns: Codes, core: Floats, distance: MixedDistance) -> tuple[Ints, Floats]:
    """Figure 6, ExpandClusterOrder; `columns` (q, m) is used up."""
    m = columns.shape[1]
    left, pending = np.arange(m), np.full(m, np.inf)
    order, reach = np.empty(m, np.int64), np.full(m, np.inf)
    chosen = 0
    for first in range(0, m, AT_ONCE):
        last = min(first + AT_ONCE, m)
        chosen = _visit(columns, core, distance, left, pending, order, reach, chosen, first, last)
        advance(1.0 - (1.0 - last / m) ** 2)  # each point visits all that remain
    return order, reach


@kernel(nogil=True, inner=True)
def _to_values(columns: Codes, i: int, distance: MixedDistance, row: Floats) -> None:
    """Fill `row` (values,) with the distance of point i to each value of each attribute."""
    start, tree, position, step, node = distance
    for j in range(len(tree)):
        here = start[j] + columns[j, i]
        for v in range(start[j], start[j + 1]):
            if tree[j]:
                level = 0
                while node[v, level] != node[here, level]:
                    level += 1
                row[v] = step[j, level]
            else:
                row[v] = min(abs(position[v] - position[here]), step[j, 0])


@kernel(nogil=True)
def distances_to(columns: Codes, i: int, m: int, distance: MixedDistance, row: Floats, out: Floats) -> None:
    """Fill `out` with the distances of point i to the first m points; `row` (values,) is room to work in."""
    start = distance.start
    _to_values(columns, i, distance, row)
    out[:m] = 0.0
    for j in range(columns.shape[0]):
        column, offset = columns[j], start[j]
        for y in range(m):
            out[y] += row[offset + column[y]]


@kernel(nogil=True)
def _core_distances(
    columns: Codes, counts: Ints, distance: MixedDistance, least: int, first: int, last: int, core: Floats
) -> None:
    m = columns.shape[1]
    row, out = np.empty(distance.start[-1]), np.empty(m)
    near, weight = np.empty(2 * least + 64), np.empty(2 * least + 64, np.int64)
    for i in range(first, last):
        if counts[i] >= least:
            core[i] = 0.0
            continue
        distances_to(columns, i, m, distance, row, out)
        have, bound = 0, np.inf
        for y in range(m):
            if out[y] < bound:
                near[have], weight[have] = out[y], counts[y]
                have += 1
                if have == len(near):
                    have, bound = _keep_nearest(near, weight, have, least)
        core[i] = _keep_nearest(near, weight, have, least)[1]


@kernel(nogil=True, inner=True)
def _keep_nearest(near: Floats, weight: Ints, have: int, least: int) -> tuple[int, float]:
    """Keep the nearest that make up `least` records, in place; return their number and largest distance."""
    order = np.argsort(near[:have])
    sorted_near, sorted_weight = near[:have][order], weight[:have][order]
    total = 0
    for t in range(have):
        near[t], weight[t] = sorted_near[t], sorted_weight[t]
        total += sorted_weight[t]
        if total >= least:
            return t + 1, sorted_near[t]
    return have, np.inf


@kernel(nogil=True)
def _visit(
    columns: Codes,
    core: Floats,
    distance: MixedDistance,
    left: Ints,
    pending: Floats,
    order: Ints,
    reach: Floats,
    chosen: int,
    begin: int,
    end: int,
) -> int:
    """Visit the points of these places in the order; which of those left comes next.

    The remaining points and their reachability are the first of `left`, `pending` (m,) and `columns` (q, m).
    """
    q, m = columns.shape
    row, out = np.empty(distance.start[-1]), np.empty(m)
    for t in range(begin, end):
        p, last = left[chosen], m - t - 1
        order[t], reach[p] = p, pending[chosen]
        for j in range(q):  # the chosen point and the last one change places
            columns[j, chosen], columns[j, last] = columns[j, last], columns[j, chosen]
        left[chosen], pending[chosen] = left[last], pending[last]
        distances_to(columns, last, last, distance, row, out)
        chosen = 0
        for y in range(last):
            pending[y] = min(pending[y], max(core[p], out[y]))
            if pending[y] < pending[chosen] or (pending[y] == pending[chosen] and left[y] < left[chosen]):
                chosen = y
    return chosen
