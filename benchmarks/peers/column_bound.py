"""A tighter lower bound of the loss, on request: a linear program over classes, its columns found by pricing.

The least loss is at least the optimum of: minimize the sum over classes C of ``x_C |C| T(C)``, each record
covered (T: cost of the class's box, see `least_boxes` for what releases this covers). Its dual gives each
record i a number y_i; the sum of the y_i is a lower bound if they are admissible:

(1) ``y_i <= 1``, the cost of a suppressed record, and
(2) for every set S of exactly k records, ``sum of y_i over S <= k T(S)``.

Proof. Let C be a class of c >= k records. Each of its subsets S of k records has T(S) <= T(C). Averaged over
(2) says ``(k / c) sum of y_i over C <= k T(C)``, so the records of C pay at most its loss c T(C). Summed over
all classes and suppressed records, the y_i are at most the loss.

How the y_i are found is irrelevant for the proof: the dual of the program over the columns known so far is
solved roughly, by a primal-dual gradient method (Chambolle, Pock 2011), starting from a partition's own
classes. Then they are made admissible. Tuples are taken in descending order of y. A set S is checked once,
with the first of its tuples: t, in a copies. If it breaks (2), y_t falls by ``(y_S - k T(S)) / a``; later
numbers only fall, so S keeps (2) from then on. The worst S for t is found by branch and bound over boxes,
with all later tuples in a box as candidates; if the search is capped, y_t falls by the bound of the rest.
Sets with ``T(S) >= y_t`` need no check, because no later y is larger. The worst sets are new columns.

On a part of a table this only bounds that part; the sum over parts does not bound the whole.
"""

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.recoding.grouping.agglomeration import distinct_tuples
from privacy_engine.recoding.grouping.boxes import (
    Codes,
    Floats,
    Ints,
    Space,
    box_cost,
    boxes_of,
    enlarge,
    tabulate,
    union_cost,
    union_cost_up_to,
)
from privacy_engine.recoding.nearness.least_boxes import SAFE, least_gcp
from privacy_engine.recoding.nearness.prices import descend
from privacy_engine.tables.encoding import EncodedTable

ROUNDS = 8  # of pricing; more of them gain little
STEPS = 200_000  # unions that are priced for a tuple in a round
GRADIENT_STEPS = 400
BROKEN = 1e-5  # a set that breaks its bound by less a record is no new column
OPEN = 64  # nodes that wait at most


def least_gcp_by_columns(
    encoded: EncodedTable, labels: Ints, k: int, *, rounds: int = ROUNDS, steps: int = STEPS
) -> float:
    """What no k-anonymous release of the table can go below in GCP, by column generation.

    Takes about 3 CPU s a round for 30,000 records at k = 5, and more the larger k is. Never below
    `least_gcp`, where that is known.

    Args:
        encoded: Encoded table with all its records.
        labels: Partition to begin with, -1 = suppressed, shape (n,); any one gives a bound.
        k: Least class size.
        rounds: Number of rounds of pricing.
        steps: Most work for a tuple in a round, in unions that are priced.
    """
    bound = least_gcp(encoded, k) or 0.0
    if len(encoded) < k or not len(encoded):
        return bound
    geometry = encoded.geometry()
    space, codes = tabulate(geometry), np.ascontiguousarray(encoded.codes, np.int32)
    tuples, tuple_of, counts = distinct_tuples(codes)
    columns = _Columns(len(tuples))
    cost = np.ones(len(codes))
    if (labels >= 0).any():
        boxes = boxes_of(codes, labels, geometry)
        cost = np.where(labels >= 0, boxes.cost[labels], 1.0)
        for c in range(len(boxes.size)):
            columns.add(tuple_of[labels == c], float(boxes.size[c] * boxes.cost[c]))
    y = np.bincount(tuple_of, weights=cost) / counts
    for _ in range(rounds):
        y = columns.prices(counts.astype(np.float64), y)
        y[counts >= k] = 0.0  # a separate class costs them nothing
        order = np.lexsort((np.arange(len(y)), -y))
        admissible, broken, lo, hi = _make_admissible(space, tuples, counts, y, order, k, steps)
        bound = max(bound, float(admissible @ counts / counts.sum()) * SAFE)
        later = np.argsort(order)
        for t in np.flatnonzero(broken > BROKEN).tolist():
            members = _worst_set(space, tuples, counts, y, later, t, k, lo[t], hi[t])
            columns.add(members, k * float(box_cost(space, lo[t], hi[t])))
    return bound


class _Columns:
    """Sets of records, as tuples with how many of each, and the dual prices of the program over them."""

    def __init__(self, tuples: int) -> None:
        self._tuples = tuples
        self._seen: set[tuple[bytes, bytes]] = set()
        self._members: list[Ints] = []
        self._times: list[Ints] = []
        self._costs: list[float] = []
        self._x = np.zeros(0)

    def add(self, members: Ints, cost: float) -> None:
        """Add a set, with one entry for each record."""
        tuples, times = np.unique(members, return_counts=True)
        key = tuples.tobytes(), times.tobytes()
        if key not in self._seen:
            self._seen.add(key)
            self._members.append(tuples)
            self._times.append(times)
            self._costs.append(cost)

    def prices(self, counts: Floats, y: Floats) -> Floats:
        """(tuples,) nearly the best y of the program, from the last x and from this y."""
        if not self._costs:
            return y.copy()
        start = np.concatenate([[0], np.cumsum([len(m) for m in self._members])])
        self._x = np.concatenate([self._x, np.zeros(len(self._costs) - len(self._x))])
        x, found = descend(
            start,
            np.concatenate(self._members),
            np.concatenate(self._times).astype(np.float64),
            np.array(self._costs),
            counts,
            self._x,
            y,
            GRADIENT_STEPS,
        )
        self._x = x
        return found


@kernel(nogil=True)
def _make_admissible(
    space: Space, tuples: Codes, counts: Ints, y: Floats, order: Ints, k: int, steps: int
) -> tuple[Floats, Floats, Codes, Codes]:
    """Lower y, in this order of descending y, until no set breaks (2).

    Returns:
        The numbers (m,); by how much the worst set found for each tuple breaks (2), for a copy of it; and the
        two ends of the boxes (m, q) of these sets, of `y` as it was.
    """
    m, q = tuples.shape
    lows, highs, broken, y = np.empty((m, q), np.int32), np.empty((m, q), np.int32), np.zeros(m), y.copy()
    others, apart = np.empty(m, np.int64), np.empty(m)
    for place in range(m):
        t = order[place]
        if y[t] <= 0.0 or counts[t] >= k:
            continue
        few = 0
        for s in order[place + 1 :]:
            cost = union_cost_up_to(space, tuples[t], tuples[t], tuples[s], tuples[s], y[t])
            if cost < y[t]:
                others[few], apart[few] = s, cost
                few += 1
        nearest = stable_order(apart[:few])
        fall, broken[t] = _worst_box(
            space,
            tuples,
            counts,
            y,
            t,
            others[:few][nearest],
            apart[:few][nearest],
            k,
            steps,
            lows[t],
            highs[t],
        )
        y[t] -= fall
    return y, broken, lows, highs


@kernel(nogil=True, inner=True)
def _worst_box(
    space: Space,
    tuples: Codes,
    counts: Ints,
    y: Floats,
    t: int,
    others: Ints,
    apart: Floats,
    k: int,
    steps: int,
    worst_lo: Codes,
    worst_hi: Codes,
) -> tuple[float, float]:
    """How far y_t must fall at most, and how far for the worst set that was found, whose box is written.

    others: later tuples, by ascending cost ``apart`` of their union with t.
    """
    q = tuples.shape[1]
    worst, unopened = 0.0, 0.0
    worst_lo[:], worst_hi[:] = tuples[t], tuples[t]
    largest, have, few, bound = np.empty(k), 0, 0, 0.0
    for i in range(len(others)):
        have = _insert(largest, have, y[others[i]], counts[others[i]])
        excess = _excess(largest, have, y[t], counts[t], apart[i])
        if excess > BROKEN / 2:
            few, bound = i + 1, max(bound, excess)
    lows, highs = np.empty((OPEN, q), np.int32), np.empty((OPEN, q), np.int32)
    free, frees = np.empty((OPEN, few), np.int64), np.zeros(OPEN, np.int64)
    tops, held, bounds = np.empty((OPEN, k)), np.zeros(OPEN, np.int64), np.zeros(OPEN)
    lows[0], highs[0] = tuples[t], tuples[t]
    free[0], frees[0], bounds[0] = others[:few], few, bound
    lo, hi, price = np.empty(q, np.int32), np.empty(q, np.int32), np.empty(few)
    wider_lo, wider_hi, top = np.empty(q, np.int32), np.empty(q, np.int32), np.empty(k)
    nodes = 1
    while nodes > 0:
        nodes -= 1
        enough = worst + BROKEN / 2
        if bounds[nodes] <= enough:
            continue
        if steps < 0 or nodes + 2 >= OPEN:
            unopened = max(unopened, bounds[nodes])
            continue
        lo[:], hi[:], top[:], have = lows[nodes], highs[nodes], tops[nodes], held[nodes]
        cost, left = box_cost(space, lo, hi), 0
        steps -= frees[nodes]
        for i in range(frees[nodes]):
            s = free[nodes, i]
            price[left] = union_cost(space, lo, hi, tuples[s], tuples[s])
            if price[left] <= cost:
                have = _insert(top, have, y[s], counts[s])
            elif price[left] < y[t]:
                free[nodes, left] = s
                left += 1
        excess = _excess(top, have, y[t], counts[t], cost)
        if excess > worst:
            worst, enough = excess, excess + BROKEN / 2
            worst_lo[:], worst_hi[:] = lo, hi
        ascending = stable_order(price[:left])
        largest[:], reach, bound, last, pick = top, have, 0.0, 0, -1
        for i in range(left):
            s = free[nodes, ascending[i]]
            reach = _insert(largest, reach, y[s], counts[s])
            excess = _excess(largest, reach, y[t], counts[t], price[ascending[i]])
            if excess > enough:
                last, bound = i + 1, max(bound, excess)
        if last == 0:
            continue
        for i in ascending[:last]:  # the largest violation comes first
            if pick < 0 or y[free[nodes, i]] - k * price[i] > y[free[nodes, pick]] - k * price[pick]:
                pick = i
        chosen = free[nodes, pick]
        new = nodes + 1  # the branch with it; the one without it takes this node's place
        lows[new], highs[new] = lo, hi
        enlarge(space, lows[new], highs[new], tuples[chosen], tuples[chosen])
        for i in range(last):
            free[new, i] = free[nodes, ascending[i]]
        frees[new], kept = last, 0
        for i in range(last):
            s = free[new, i]
            wider_lo[:], wider_hi[:] = lo, hi
            enlarge(space, wider_lo, wider_hi, tuples[s], tuples[s])
            if union_cost(space, wider_lo, wider_hi, tuples[chosen], tuples[chosen]) > price[ascending[i]]:
                free[nodes, kept] = s
                kept += 1
        frees[nodes] = kept
        for node in (nodes, new):
            held[node], bounds[node] = have, bound
            tops[node] = top
        nodes += 2
    return max(worst + BROKEN / 2, unopened), worst


@kernel(nogil=True, inner=True)
def _insert(largest: Floats, have: int, value: float, times: int) -> int:
    """Insert a value a number of times into the descending list of the largest; return their number then."""
    for _ in range(times):
        if have == len(largest):
            if value <= largest[have - 1]:
                return have
            i = have - 1
        else:
            i = have
            have += 1
        while i > 0 and largest[i - 1] < value:
            largest[i] = largest[i - 1]
            i -= 1
        largest[i] = value
    return have


@kernel(nogil=True)
def _excess(largest: Floats, have: int, own: float, copies: int, cost: float) -> float:
    """The most that a copy of a tuple must fall by, for sets of 1 .. ``copies`` of it in a box of this cost.

    The rest of a set are the largest of the other numbers in the box. -inf if there are too few.
    """
    k = len(largest)
    first = k - copies
    if have < first:
        return -np.inf
    others = largest[:first].sum()
    most = own + (others - k * cost) / copies
    for a in range(copies - 1, 0, -1):
        if k - a > have:
            break
        others += largest[k - a - 1]
        most = max(most, own + (others - k * cost) / a)
    return float(most)


@kernel(nogil=True)
def _worst_set(
    space: Space,
    tuples: Codes,
    counts: Ints,
    y: Floats,
    place: Ints,
    t: int,
    k: int,
    lo: Codes,
    hi: Codes,
) -> Ints:
    """The tuples of the k records in a box that pay most: t, and others that come later."""
    cost, few = box_cost(space, lo, hi), 0
    others, negative = np.empty(len(y), np.int64), np.empty(len(y))
    for s in range(len(y)):
        if place[s] > place[t] and union_cost(space, lo, hi, tuples[s], tuples[s]) <= cost:
            others[few], negative[few] = s, -y[s]
            few += 1
    found, have = np.full(k, t), counts[t]
    for i in stable_order(negative[:few]):
        for _ in range(counts[others[i]]):
            if have < k:
                found[have] = others[i]
                have += 1
    return found[:have]
