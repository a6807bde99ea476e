"""Classes from columns: a linear program over possible classes selects those that fit together.

Set partitioning by column generation, solved by a restricted diving heuristic and by local branching around
the best partition (Joncour, Michel, Sadykov, Sverdlov, Vanderbeck 2010; Danna, Rothberg, Le Pape 2005):

1. a column is a class of k to 2k - 1 records; the program finds columns x >= 0 of least loss that cover
   every record, see `prices`. Its dual gives each record a price;
2. new columns: around each tuple a box grows by the near tuple that has the largest price for its increase,
once
   freely and once starting with each of its nearest ones. Those that lose less than their records' prices are
   added;
3. dive: the columns of the largest x become classes, the program is solved again for the records that are
   left, and so on. What no column takes is agglomerated, and all is refined;
4. some more dives, each keeping the half of the best classes whose loss exceeds their records' prices least
(with
   some noise).

Tuples of at least k records lose nothing as separate classes: their prices are 0, and columns may take their
surplus above k. Nothing is proven; classes keep k because columns do.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.progress import portion, tracked
from privacy_engine.recoding.grouping.agglomeration import agglomerate, distinct_tuples
from privacy_engine.recoding.grouping.box_tree import plant
from privacy_engine.recoding.grouping.boxes import (
    Boxes,
    Codes,
    Floats,
    Ints,
    Space,
    boxes_of,
    enlarge,
    union_cost,
    union_cost_up_to,
)
from privacy_engine.recoding.grouping.class_state import ClassState, open_state, single_records
from privacy_engine.recoding.grouping.constraints import no_constraints
from privacy_engine.recoding.grouping.moving import dissolve_classes, found_classes, move_records
from privacy_engine.recoding.grouping.partners import propose_serially
from privacy_engine.recoding.grouping.refinement import CANDIDATES, LookUp
from privacy_engine.recoding.nearness.prices import descend
from privacy_engine.tables.geometry import Geometry

NEAR = 64  # tuples that a column around a tuple is made of
SECONDS = 4  # of them that a column may begin with
MOST_K = 10  # with more, columns are many and a dive finds few that go together
PRICINGS = 5  # before the first dive
STEPS = 150  # of the gradient method after each
DIVE_STEPS = 100
REFINING = 2  # rounds of refinement after a dive
DIVES = 6  # after the first
KEPT = 0.5  # of the best classes, in each of these
SHARE = 0.12  # of the records left that become classes before the program is solved again
SURE = 0.95  # columns of a larger x become classes at once
UNLIKELY = 0.02  # columns of a smaller x do not
# Shares of the mean loss of a class that loses anything: a column that gains less is no new one, one that
# loses that much more than its prices is dropped, and the noise of the selection for another dive.
LEAST_GAIN, HOPELESS, NOISE = 5e-4, 0.15, 0.3


@dataclass(frozen=True)
class _Columns:
    """Sets of records.

    tuples: (c, 2k) int64, the tuples of each, -1 = no more; times: (c, 2k) int64, records of each of them.
    cost: (c,) float64, loss of the set; x: (c,) float64, how much of it the program takes.
    mark: (c,) uint64, equal for columns of the same records.
    """

    tuples: Ints
    times: Ints
    cost: Floats
    x: Floats
    mark: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, tuples: Ints, times: Ints, cost: Floats, x: float) -> "_Columns":
        """With marks."""
        return cls(tuples, times, cost, np.full(len(cost), x), _marks(tuples, times))

    def take(self, which: Ints) -> "_Columns":
        return _Columns(*(values[which] for values in vars(self).values()))

    def joined(self, other: "_Columns") -> "_Columns":
        """Return it with the other's columns, without duplicates."""
        mark = np.concatenate([self.mark, other.mark])
        first = np.sort(np.unique(mark, return_index=True)[1])
        cost, x = np.concatenate([self.cost, other.cost]), np.concatenate([self.x, other.x])
        tuples, times = np.concatenate([self.tuples, other.tuples]), np.concatenate([self.times, other.times])
        return _Columns(tuples[first], times[first], cost[first], x[first], mark[first])

    def excess(self, y: Floats) -> Floats:
        """(c,) what each loses above the prices y (tuples,) of its records."""
        paid: Floats = (np.append(y, 0.0)[self.tuples] * self.times).sum(axis=1)
        return self.cost - paid

    def fitting(self, left: Ints) -> "_Columns":
        """Those that `left` (tuples,) has the records for."""
        room = np.append(left, 0)[self.tuples]
        return self.take(np.flatnonzero((self.times <= room).all(axis=1)))

    def hopeful(self, y: Floats, most: float) -> "_Columns":
        """Those that the program takes, or may yet take."""
        return self.take(np.flatnonzero((self.excess(y) < most) | (self.x > LEAST_GAIN)))


class ColumnSearch:
    """The search in one table: its tuples, their neighbours, and all columns found so far."""

    def __init__(
        self, space: Space, geometry: Geometry, codes: Codes, k: int, labels: Ints, look_up: LookUp
    ) -> None:
        self._space, self._geometry, self._k, self._look_up = space, geometry, k, look_up
        self._codes = np.ascontiguousarray(codes, np.int32)
        self._tuples, self._tuple_of, self._counts = distinct_tuples(self._codes)
        self._whole = self._counts >= k  # separate classes
        self._spare = np.where(self._whole, self._counts - k, self._counts)
        self._by_tuple = np.argsort(self._tuple_of, kind="stable")
        self._first = np.concatenate([[0], self._counts.cumsum()])
        self._near = self._nearest()
        boxes = boxes_of(self._codes, labels, geometry)
        self._scale = float(boxes.size @ boxes.cost) / np.count_nonzero(boxes.cost)
        self._y = np.bincount(self._tuple_of, weights=boxes.cost[labels]) / self._counts
        self._y[self._whole] = 0.0
        self._columns = self._columns_of(labels)

    def run(self, rng: np.random.Generator) -> Ints:
        """(n,) classes of at least k: the best of all dives."""
        for _ in tracked(range(PRICINGS), 3 * PRICINGS):
            self._columns = self._columns.joined(self._new_columns(self._spare, self._y))
            self._columns, self._y = self._solved(self._columns, self._spare, self._y, STEPS)
            self._columns = self._columns.hopeful(self._y, HOPELESS * self._scale)
        with portion(0.2):
            best = self._dive(self._columns.take(np.zeros(0, np.int64)), rng)
        for _ in tracked(range(DIVES), 2 * DIVES):
            own = self._columns_of(best)
            self._columns = self._columns.joined(own)
            noise = rng.normal(scale=NOISE * self._scale, size=len(own.cost))
            order = np.argsort(own.excess(self._y) + noise)
            found = self._dive(own.take(order[: int(KEPT * len(order))]), rng)
            best = min(best, found, key=self._loss)
        return best

    def _loss(self, labels: Ints) -> float:
        boxes = boxes_of(self._codes, labels, self._geometry)
        return float(boxes.size @ boxes.cost)

    def _nearest(self) -> Ints:
        """(tuples, NEAR) the other tuples that columns may take from, nearest first; -1 = no more."""
        live = np.flatnonzero(self._spare > 0)
        tuples = np.ascontiguousarray(self._tuples[live])
        points = Boxes(tuples, tuples, np.ones(len(live)), np.zeros(len(live)))
        found = np.full((len(live), NEAR + 1), -1)
        grown = plant(self._space, points, np.arange(len(live)))
        self._look_up(self._space, points, grown, tuples, np.ones(len(live)), found)
        found = np.append(live, -1)[found]
        found[found == live[:, None]] = -1  # itself
        last = np.argsort(found < 0, axis=1, kind="stable")
        near = np.full((len(self._tuples), NEAR), -1)
        near[live] = np.take_along_axis(found, last, 1)[:, :NEAR]
        return near

    def _columns_of(self, labels: Ints) -> _Columns:
        """Return the classes with a loss, except classes of more than 2k tuples."""
        width, m = 2 * self._k, len(self._tuples)
        pairs, times = np.unique(labels * m + self._tuple_of, return_counts=True)
        classes, tuples = np.divmod(pairs, m)
        first = np.searchsorted(classes, np.arange(classes[-1] + 2))
        boxes = boxes_of(self._codes, labels, self._geometry)
        few = np.diff(first) <= width
        rows, place = classes, np.arange(len(pairs)) - first[classes]
        inside = few[classes]
        made = np.full((len(few), width), -1), np.zeros((len(few), width), np.int64)
        made[0][rows[inside], place[inside]] = tuples[inside]
        made[1][rows[inside], place[inside]] = times[inside]
        columns = _Columns.of(*made, boxes.size * boxes.cost, 1.0)
        return columns.take(np.flatnonzero(few & (boxes.cost > 0.0))).fitting(self._spare)

    def _new_columns(self, left: Ints, y: Floats) -> _Columns:
        """Columns that lose less than their records' prices."""
        tuples, times, cost = _grow_columns(
            self._space, self._tuples, left, y, self._near, self._k, LEAST_GAIN * self._scale
        )
        return _Columns.of(tuples, times, cost, 0.0)

    def _solved(self, columns: _Columns, left: Ints, y: Floats, steps: int) -> tuple[_Columns, Floats]:
        held = columns.tuples >= 0
        start = np.concatenate([[0], held.sum(axis=1).cumsum()])
        need = np.where(self._whole, 0, left).astype(np.float64)
        times = columns.times[held].astype(np.float64)
        x, y = descend(start, columns.tuples[held], times, columns.cost, need, columns.x, y, steps)
        return replace(columns, x=x), y

    def _dive(self, kept: _Columns, rng: np.random.Generator) -> Ints:
        """Return classes made from the kept columns, and from the best ones for the other records."""
        left, y = self._spare.copy(), self._y
        chosen = [kept.take(_accept(kept, np.arange(len(kept.cost)), left, len(left)))]
        columns = self._columns.fitting(left)
        while (rest := int(left[~self._whole].sum())) > 0:
            new = self._new_columns(left, y)
            self._columns = self._columns.joined(new)
            columns, y = self._solved(columns.joined(new), left, y, DIVE_STEPS)
            columns = columns.hopeful(y, HOPELESS * self._scale)
            likely = np.flatnonzero(columns.x >= UNLIKELY)
            order = likely[np.argsort(-columns.x[likely], kind="stable")]
            taken = _accept(columns, order, left, max(SHARE * rest, 10 * self._k))
            if len(taken) == 0:
                break
            chosen.append(columns.take(taken))
            columns = columns.fitting(left)
        self._columns = self._columns.hopeful(self._y, HOPELESS * self._scale)
        return self._classes(chosen, rng)

    def _classes(self, chosen: list[_Columns], rng: np.random.Generator) -> Ints:
        """Labels (n,) of the chosen columns, of whole tuples, and of the rest, agglomerated; refined."""
        tuples = np.concatenate([columns.tuples for columns in chosen])
        times = np.concatenate([columns.times for columns in chosen])
        labels = _hand_out(tuples, times, self._by_tuple, self._first)
        whole = (labels < 0) & self._whole[self._tuple_of]
        labels[whole] = len(tuples) + self._tuple_of[whole]
        rest = np.flatnonzero(labels < 0)
        next_label = len(tuples) + len(self._tuples)
        if len(rest) >= self._k:
            more = agglomerate(self._codes[rest], self._geometry, self._k, rng, search=propose_serially)
            labels[rest] = next_label + more
        elif len(rest):
            labels[rest] = labels.max()
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        return self._refined(labels, rng)

    def _refined(self, labels: Ints, rng: np.random.Generator) -> Ints:
        """As in `refinement`; only classes of near tuples are candidates, in a fifth of the time."""
        n, nothing, rules = len(labels), np.zeros((0, len(labels)), np.int32), no_constraints()
        room = max(int(labels.max()) + 1, n // self._k + 1)
        state = open_state(self._space, single_records(self._codes, nothing), 0, labels, room)
        problem = self._space, state
        for _ in range(REFINING):
            near = _classes_near(*problem, self._near, self._by_tuple, self._first, self._tuples)
            move_records(*problem, near, self._tuple_of, rng.permutation(n), self._k, rules)
            dissolve_classes(*problem, near, self._tuple_of, rng.permutation(room), rules)
            found_classes(*problem, near, self._tuple_of, rng.permutation(n), self._k, rules)
        return np.unique(state.labels, return_inverse=True)[1].astype(np.int64)


def regroup_by_columns(
    space: Space,
    geometry: Geometry,
    codes: Codes,
    labels: Ints,
    k: int,
    rng: np.random.Generator,
    look_up: LookUp,
) -> Ints:
    """Labels of lower or equal total loss, in classes that keep k; each record belongs to another person.

    Args:
        space: Costs of the attributes, of this ``geometry``.
        geometry: Geometry of the quasi-identifiers, from which `space` was made.
        codes: Quasi-identifiers, shape (n, q) int32.
        labels: Classes of at least k, shape (n,) int64; -1 = suppressed, and stays so.
        k: Least class size.
        rng: Source of randomness for the dives and the order of the refinement.
        look_up: Function that finds the neighbours of each tuple, in parallel or serially.
    """
    inside = np.flatnonzero(labels >= 0)
    if len(inside) == 0:
        return labels.copy()
    before = boxes_of(codes, labels, geometry)
    if not before.cost.any():
        return labels.copy()
    found = ColumnSearch(space, geometry, codes[inside], k, labels[inside], look_up).run(rng)
    after = boxes_of(codes[inside], found, geometry)
    made = labels.copy()
    if after.size @ after.cost < before.size @ before.cost:
        made[inside] = found
    return made


def _accept(columns: _Columns, order: Ints, left: Ints, most: float) -> Ints:
    """Which columns become classes, in this order: until they have `most` records, save those that are sure.

    Their records are taken from `left`.
    """
    return _accept_in_order(columns.tuples, columns.times, columns.x, order, left, most)


@kernel(nogil=True)
def _accept_in_order(tuples: Ints, times: Ints, x: Floats, order: Ints, left: Ints, most: float) -> Ints:
    taken, had, records = np.empty(len(order), np.int64), 0, 0
    for c in order:
        if records >= most and x[c] < SURE:
            break
        fits = True
        for i in range(tuples.shape[1]):
            fits = fits and (tuples[c, i] < 0 or times[c, i] <= left[tuples[c, i]])
        if fits:
            for i in range(tuples.shape[1]):
                if tuples[c, i] >= 0:
                    left[tuples[c, i]] -= times[c, i]
                    records += times[c, i]
            taken[had] = c
            had += 1
    return taken[:had]


@kernel(nogil=True)
def _marks(tuples: Ints, times: Ints) -> npt.NDArray[np.uint64]:
    """(c,) a sum of a hash (splitmix64: Steele, Lea, Flood 2014) of each record's tuple."""
    marks = np.zeros(len(tuples), np.uint64)
    for c in range(len(tuples)):
        for i in range(tuples.shape[1]):
            if tuples[c, i] >= 0:
                z = np.uint64(tuples[c, i] + 1) * np.uint64(0x9E3779B97F4A7C15)
                z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                marks[c] += (z ^ (z >> np.uint64(31))) * np.uint64(times[c, i])
    return marks


@kernel(nogil=True)
def _hand_out(tuples: Ints, times: Ints, by_tuple: Ints, first: Ints) -> Ints:
    """(n,) the column of each record, -1 = none; records of a tuple go to its columns in their order."""
    labels, next_of = np.full(len(by_tuple), -1), first.copy()
    for c in range(len(tuples)):
        for i in range(tuples.shape[1]):
            for _ in range(times[c, i]):
                labels[by_tuple[next_of[tuples[c, i]]]] = c
                next_of[tuples[c, i]] += 1
    return labels


@kernel(nogil=True)
def _classes_near(
    space: Space, state: ClassState, near: Ints, by_tuple: Ints, first: Ints, tuples: Codes
) -> Ints:
    """(tuples, CANDIDATES) the classes of near tuples that each can enter at the least cost, -1 = no more."""
    size, cost, lo, hi, labels = (
        state.boxes.size,
        state.boxes.cost,
        state.boxes.lo,
        state.boxes.hi,
        state.labels,
    )
    found, prices = np.full((len(tuples), CANDIDATES), -1), np.empty(CANDIDATES)
    for t in range(len(tuples)):
        have, dearest = 0, np.inf
        for i in range(-1, near.shape[1]):
            s = t if i < 0 else near[t, i]
            if s < 0:
                break
            for place in range(first[s], first[s + 1]):
                c = labels[by_tuple[place]]
                if c in found[t, :have]:
                    continue
                limit = (dearest + size[c] * cost[c]) / (size[c] + 1.0)
                union = union_cost_up_to(space, tuples[t], tuples[t], lo[c], hi[c], limit)
                price = (size[c] + 1.0) * union - size[c] * cost[c]
                if price >= dearest:
                    continue
                j = have if have < CANDIDATES else CANDIDATES - 1
                have = min(have + 1, CANDIDATES)
                while j > 0 and prices[j - 1] > price:
                    prices[j], found[t, j] = prices[j - 1], found[t, j - 1]
                    j -= 1
                prices[j], found[t, j] = price, c
                if have == CANDIDATES:
                    dearest = prices[CANDIDATES - 1]
    return found


@kernel(nogil=True)
def _grow_columns(
    space: Space, tuples: Codes, left: Ints, y: Floats, near: Ints, k: int, least_gain: float
) -> tuple[Ints, Ints, Floats]:
    """Columns (c, 2k) around each tuple that has a price, their times and their costs (c,)."""
    m, q = tuples.shape
    room, made = (SECONDS + 1) * m, 0
    members, times, costs = np.full((room, 2 * k), -1), np.zeros((room, 2 * k), np.int64), np.empty(room)
    lo, hi, others = np.empty(q, np.int32), np.empty(q, np.int32), np.empty(near.shape[1], np.int64)
    for t in range(m):
        if left[t] == 0 or y[t] <= 0.0:
            continue
        few, most = 0, 0.0
        for s in near[t]:
            if s >= 0 and left[s] > 0:
                others[few] = s
                few, most = few + 1, max(most, y[s])
        most = left[t] * y[t] + (k - left[t]) * most  # what k records can pay
        reach = 0
        while reach < few:
            s = others[reach]
            if k * union_cost(space, tuples[t], tuples[t], tuples[s], tuples[s]) >= most:
                break
            reach += 1
        for second in range(-1, SECONDS):
            if second < reach:
                cost, gain = _grow_column(
                    space, tuples, left, y, others[:reach], t, second, k, members[made], times[made], lo, hi
                )
                if gain > least_gain:
                    costs[made] = cost
                    made += 1
                else:
                    members[made] = -1
                    times[made] = 0
    return members[:made], times[:made], costs[:made]


@kernel(nogil=True, inner=True)
def _grow_column(
    space: Space,
    tuples: Codes,
    left: Ints,
    y: Floats,
    near: Ints,
    t: int,
    second: int,
    k: int,
    members: Ints,
    times: Ints,
    lo: Codes,
    hi: Codes,
) -> tuple[float, float]:
    """Write one column around tuple t into ``members``, ``times`` (2k,); its loss, and its prices above that.

    second: place in ``near`` of the tuple that comes next, -1 = the best. The gain is -inf for fewer than k.
    """
    lo[:], hi[:] = tuples[t], tuples[t]
    members[0], times[0] = t, left[t]
    few, size, cost, paid = 1, left[t], 0.0, left[t] * y[t]
    used = np.zeros(len(near), np.bool_)
    while size < 2 * k - 1:
        best, value, wider = -1, -np.inf if size < k else 0.0, 0.0
        if few == 1 and second >= 0:
            best = second
            wider = union_cost(space, lo, hi, tuples[near[best]], tuples[near[best]])
        else:
            for i in range(len(near)):
                s = near[i]
                if used[i]:
                    continue
                if size < k:  # the price of one of its records, less its share of the loss of a class of k
                    w = min(left[s], k - size)
                    union = union_cost_up_to(
                        space, lo, hi, tuples[s], tuples[s], cost + (y[s] - value) * w / k
                    )
                    worth = y[s] - k * (union - cost) / w
                else:
                    w = min(left[s], 2 * k - 1 - size)
                    union = union_cost_up_to(space, lo, hi, tuples[s], tuples[s], y[s])
                    worth = w * y[s] - ((size + w) * union - size * cost)
                if worth > value:
                    best, value, wider = i, worth, union
        if best < 0:
            break
        s = near[best]
        w = min(left[s], (k if size < k else 2 * k - 1) - size)
        members[few], times[few], used[best] = s, w, True
        few, size, cost, paid = few + 1, size + w, wider, paid + w * y[s]
        enlarge(space, lo, hi, tuples[s], tuples[s])
    return size * cost, paid - size * cost if size >= k else -np.inf
