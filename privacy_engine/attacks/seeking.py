"""Search for people among released records: the nearest record, and the people whom a record covers.

The distance of a person from a record is Gower's (1971), summed: 0 if the cell covers the value, else the
distance within the extent, or 1. Of two cells that cover it, the smaller one is nearer by at most `SMALLER`:
a record is more likely where its class is dense. Every record counts, and `Blocks` of them are skipped only
if none in them can match: a block's bound of a distance has no term above that of a record in it, and is
summed in the same order, so that it is no larger to the last digit.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from privacy_engine.attacks.blocks import BITS, SIZE, WORDS, Blocks, Words
from privacy_engine.attacks.cells import Bools, Cells, Codes, Floats, Ints, Space, equal_rows
from privacy_engine.compiled import kernel

SMALLER = 1e-3  # distance of a cell that covers everything
_SAME = 1e-9  # distances that differ by less count as equal


class _Sought(NamedTuple):
    """People who are searched for among records, in the arrays that kernels use.

    Attributes:
        low, high, null, codes: Cells of the records, as in `Cells`.
        truth, of: Ordered values of the people, (t, o), NaN = null, and values of the others, (t, c).
        used: Whether each attribute counts, shape (t, a) or (records, a).
        flat, starts, values, sizes: Coverage of the cells of other attributes in one array, as in `Space`.
        block_low, block_high, block_null, block_words, cell_words: Spans and values of blocks, as in
            `Blocks`, of the records, or of the people if these are searched.
    """

    low: Floats
    high: Floats
    null: Bools
    codes: Codes
    truth: Floats
    of: Codes
    used: Bools
    flat: npt.NDArray[np.uint8]
    starts: Ints
    values: Ints
    sizes: Floats
    block_low: Floats
    block_high: Floats
    block_null: Bools
    block_words: Words
    cell_words: Words


def _sought(space: Space, records: Cells, people: Cells, used: Bools, blocks: Blocks) -> _Sought:
    return _Sought(
        *(records.low, records.high, records.null, records.codes, people.low, people.codes),
        *(np.ascontiguousarray(used), space.flat, space.starts, space.values, space.sizes),
        *(blocks.low, blocks.high, blocks.null, blocks.words, blocks.cell_words),
    )


@kernel(inline="always")
def _far(s: _Sought, i: int, t: int, a: int) -> float:
    """Distance of person t from the cell of record i in attribute a; at most `SMALLER` if covered."""
    o = s.low.shape[1]
    if a < o:
        x, low, high = s.truth[t, a], s.low[i, a], s.high[i, a]
        if x != x:
            return 0.0 if s.null[i, a] else 1.0
        if low != low:
            return 1.0
        if x < low:
            return float(low - x)
        if x > high:
            return float(x - high)
        return float(SMALLER * (high - low))
    c = a - o
    cell = s.codes[i, c]
    if s.flat[s.starts[c] + cell * s.values[c] + s.of[t, c]]:
        return float(SMALLER * s.sizes[c, cell])
    return 1.0


@kernel(inline="always")
def _covers(s: _Sought, i: int, t: int, a: int) -> bool:
    """Return whether the cell of record i in attribute a covers person t, to the last digit."""
    o = s.low.shape[1]
    if a < o:
        x = s.truth[t, a]
        return bool(s.null[i, a] if x != x else s.low[i, a] <= x <= s.high[i, a])
    c = a - o
    return bool(s.flat[s.starts[c] + s.codes[i, c] * s.values[c] + s.of[t, c]] != 0)


@kernel(inline="always")
def _distance(s: _Sought, i: int, t: int, limit: float) -> float:
    """Return the distance of person t from record i; if above the limit, any number above the limit."""
    d = 0.0
    for a in range(s.used.shape[1]):
        if s.used[t, a]:
            d += _far(s, i, t, a)
            if d > limit:
                break
    return d


@kernel(inline="always")
def _block_distance(s: _Sought, b: int, t: int, limit: float) -> float:
    """Bound from below the distance of person t from any record of block b, or return one above the limit."""
    d, o = 0.0, s.low.shape[1]
    for a in range(s.used.shape[1]):
        if not s.used[t, a]:
            continue
        if a < o:
            x = s.truth[t, a]
            if x != x:
                d += 0.0 if s.block_null[b, a] else 1.0
            else:  # 1 from a record without a value, or in a block without any
                d += min(1.0, max(0.0, s.block_low[b, a] - x, x - s.block_high[b, a]))
        else:
            v = s.of[t, a - o] % BITS
            d += 0.0 if (s.block_words[b, a - o, v // 64] >> np.uint64(v % 64)) & np.uint64(1) else 1.0
        if d > limit:
            break
    return d


@kernel(inline="always")
def _end(s: _Sought, b: int) -> int:
    """Return the end of the records of block b."""
    return min(len(s.low), (b + 1) * SIZE)


@kernel(parallel=True)
def _nearest(s: _Sought) -> tuple[Floats, Ints]:
    """(t,) distance of each person to the nearest record in the attributes that count; and the record."""
    found, which = np.full(len(s.truth), np.inf), np.full(len(s.truth), -1)
    for t in nb.prange(len(s.truth)):
        # The most likely block first: the nearer its best record, the more other blocks are skipped.
        bounds = np.empty(len(s.block_low))
        for b in range(len(bounds)):
            bounds[b] = _block_distance(s, b, t, np.inf)
        best, nearest = np.inf, -1
        first = int(bounds.argmin()) if len(bounds) else 0
        for turn in range(-1, len(bounds)):
            b = first if turn < 0 else turn
            if bounds[b] > best:
                continue
            for i in range(b * SIZE, _end(s, b)):
                d = _distance(s, i, t, best)
                if d < best:
                    best, nearest = d, i
        found[t], which[t] = best, nearest
    return found, which


@kernel(parallel=True)
def _votes(s: _Sought, nearest: Floats, weights: Floats, labels: Ints, classes: int) -> Floats:
    """(t, classes) weight of the nearest records of each person, by the records' labels."""
    found = np.zeros((len(s.truth), classes))
    for t in nb.prange(len(s.truth)):
        most = nearest[t] + _SAME
        for b in range(len(s.block_low)):
            if _block_distance(s, b, t, most) > most:
                continue
            for i in range(b * SIZE, _end(s, b)):
                if _distance(s, i, t, most) <= most:
                    found[t, labels[i]] += weights[i]
    return found


@kernel(parallel=True)
def _densities(s: _Sought, weights: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """(t, widths) weight of the records around each person; (t, a) weight of those that cover a value."""
    kernels, shares = np.zeros((len(s.truth), len(widths))), np.zeros(s.used.shape)
    for t in nb.prange(len(s.truth)):
        for i in range(len(s.low)):
            d = 0.0
            for a in range(s.used.shape[1]):
                far = _far(s, i, t, a)
                d += far
                if far <= SMALLER:
                    shares[t, a] += weights[i]
            for w in range(len(widths)):
                kernels[t, w] += weights[i] * np.exp(-d / widths[w])
    return kernels, shares


@kernel(parallel=True)
def _passing(s: _Sought, nearest: Floats, multiple: Floats) -> Floats:
    """(t,) probability that a random one of the nearest records passes for the person's own, and is it.

    It passes if it covers the person's values in all attributes, or is off by at most `SMALLER` of their
    extent; and it represents `multiple` equal records.
    """
    found = np.zeros(len(s.truth))
    for t in nb.prange(len(s.truth)):
        most, every, own = nearest[t] + _SAME, 0.0, 0.0
        for b in range(len(s.block_low)):
            if _block_distance(s, b, t, most) > most:
                continue
            for i in range(b * SIZE, _end(s, b)):
                if _distance(s, i, t, most) > most:
                    continue
                every += multiple[i]
                right = True
                for a in range(s.used.shape[1]):
                    if _far(s, i, t, a) > SMALLER:
                        right = False
                        break
                if right:
                    own += 1.0
        found[t] = own / every
    return found


@kernel(inline="always")
def _may_cover(s: _Sought, i: int, b: int) -> bool:
    """Return whether record i may cover someone in block b of the people, in the attributes that count."""
    o = s.low.shape[1]
    for a in range(s.used.shape[1]):
        if not s.used[i, a]:
            continue
        if a < o:
            meets = s.low[i, a] <= s.block_high[b, a] and s.block_low[b, a] <= s.high[i, a]
            if not (meets or (s.null[i, a] and s.block_null[b, a])):
                return False
            continue
        common = np.uint64(0)
        for w in range(WORDS):
            common |= s.cell_words[a - o, s.codes[i, a - o], w] & s.block_words[b, a - o, w]
        if not common:
            return False
    return True


@kernel(parallel=True)
def _matches(s: _Sought, most: int) -> tuple[Ints, Ints]:
    """(records,) number of people a record covers in the attributes that count, up to most; and the last."""
    count, which = np.zeros(len(s.low), np.int64), np.full(len(s.low), -1)
    for i in nb.prange(len(s.low)):
        for b in range(len(s.block_low)):
            if count[i] == most:
                break
            if not _may_cover(s, i, b):
                continue
            for t in range(b * SIZE, min(len(s.truth), (b + 1) * SIZE)):
                covered = True
                for a in range(s.used.shape[1]):
                    if s.used[i, a] and not _covers(s, i, t, a):
                        covered = False
                        break
                if covered:
                    count[i] += 1
                    which[i] = t
                    if count[i] == most:
                        break
    return count, which


@kernel(inline="always")
def _within(s: _Sought, i: int, low: Floats, high: Floats, null: Bools, codes: Codes, p: int, a: int) -> bool:
    """Return whether the cell of record i in attribute a lies within that of predicate p.

    An ordered cell does if both its ends do, and it covers a null only if the predicate does; for another
    attribute, the cells must be the same.
    """
    o = low.shape[1]
    if a >= o:
        return bool(s.codes[i, a - o] == codes[p, a - o])
    if s.low[i, a] != s.low[i, a]:
        return bool(null[p, a])
    ends = low[p, a] <= s.low[i, a] and s.high[i, a] <= high[p, a]
    return bool(ends and (null[p, a] or not s.null[i, a]))


@kernel(inline="always")
def _may_lie_within(
    s: _Sought, b: int, low: Floats, high: Floats, null: Bools, codes: Codes, p: int, one: int
) -> bool:
    """Return whether some record of block b may lie within predicate p, in one set of attributes."""
    o = low.shape[1]
    for a in range(s.used.shape[1]):
        if not s.used[one, a]:
            continue
        if a < o:
            meets = low[p, a] <= s.block_high[b, a] and s.block_low[b, a] <= high[p, a]
            if not (meets or (null[p, a] and s.block_null[b, a])):
                return False
            continue
        for w in range(WORDS):
            if s.cell_words[a - o, codes[p, a - o], w] & ~s.block_words[b, a - o, w]:
                return False
    return True


@kernel(parallel=True)
def _first_alone(s: _Sought, low: Floats, high: Floats, null: Bools, codes: Codes, times: Floats) -> Ints:
    """Return the first row of `used` for which one record lies within each predicate, (p,); -1 if none."""
    first = np.full(len(low), -1)
    for p in nb.prange(len(low)):
        for one in range(len(s.used)):
            count = 0.0
            for b in range(len(s.block_low)):
                if count > 1.0:
                    break
                if not _may_lie_within(s, b, low, high, null, codes, p, one):
                    continue
                for i in range(b * SIZE, _end(s, b)):
                    fits = True
                    for a in range(s.used.shape[1]):
                        if s.used[one, a] and not _within(s, i, low, high, null, codes, p, a):
                            fits = False
                            break
                    if fits:
                        count += times[i]
                        if count > 1.0:
                            break
            if count == 1.0:
                first[p] = one
                break
    return first


@dataclass(frozen=True)
class Target:
    """Released records in which people are searched for.

    Attributes:
        space: Space of all cells.
        blocks: Blocks of distinct released records.
        multiple: Number of equal records that each represents, shape (r,).
        which: Index of the distinct record of each released record, shape (n,).
    """

    space: Space
    blocks: Blocks
    multiple: Floats
    which: Ints

    @classmethod
    def of(cls, space: Space, released: Cells) -> "Target":
        """Build it from the distinct records of a release."""
        keys = equal_rows(released.numbered)
        _, first, count = np.unique(keys, return_index=True, return_counts=True)
        blocks = Blocks.of(space, released.take(first))
        place = np.empty_like(blocks.order)
        place[blocks.order] = np.arange(len(place))
        return cls(space, blocks, count[blocks.order].astype(np.float64), place[keys])

    @property
    def records(self) -> Cells:
        """Return the distinct released records."""
        return self.blocks.cells

    def nearest(self, people: Cells, known: Bools) -> tuple[Floats, Ints]:
        """(t,) distance of each person to the nearest record in known attributes (t, a); and the record."""
        found: tuple[Floats, Ints] = _nearest(self._sought(people, known))
        return found

    def votes(self, people: Cells, known: Bools, labels: Ints, classes: int) -> Floats:
        """(t, classes) number of the nearest records of each person with each of the labels (r,)."""
        sought = self._sought(people, known)
        found: Floats = _votes(sought, _nearest(sought)[0], self.multiple, labels, classes)
        return found

    def taken_for_own(self, people: Cells, known: Bools) -> Floats:
        """(t,) probability that a random one of the nearest records passes for a person's own, and is it."""
        sought = self._sought(people, known)
        found: Floats = _passing(sought, _nearest(sought)[0], self.multiple)
        return found

    def densities(self, people: Cells, widths: Floats) -> tuple[Floats, Floats]:
        """(t, widths) mean over all records of exp(-distance / width); (t, a) share of records that cover."""
        every = np.ones((len(people), len(self.space.names)), np.bool_)
        weights = self.multiple / self.multiple.sum()
        found: tuple[Floats, Floats] = _densities(self._sought(people, every), weights, widths)
        return found

    def first_alone(self, predicates: Cells, sets: Bools) -> Ints:
        """(p,) the first of some sets of attributes in which one record lies within a predicate; or -1."""
        cells = (predicates.low, predicates.high, predicates.null, predicates.codes)
        found: Ints = _first_alone(self._sought(predicates, sets), *cells, self.multiple)
        return found

    def _sought(self, people: Cells, used: Bools) -> _Sought:
        return _sought(self.space, self.records, people, used, self.blocks)


def covered_people(space: Space, records: Cells, people: Blocks, used: Bools, most: int) -> tuple[Ints, Ints]:
    """(r,) number of people each record covers in the attributes that count, up to most; and one of them.

    Args:
        space: Space of all cells.
        records: Records that may cover people.
        people: True records; a covered person is returned as an index in their original order.
        used: Whether each attribute counts for each record, shape (r, a).
        most: Number at which counting stops.
    """
    count, last = _matches(_sought(space, records, people.cells, used, people), most)
    return count, np.append(people.order, -1)[last]


def covers_own(space: Space, records: Cells, people: Cells, used: Bools) -> Bools:
    """(t,) whether record t covers person t in the attributes that count (t, a)."""
    found = np.ones(len(people), np.bool_)
    o = len(space.ordered)
    for a in range(o):
        x = people.low[:, a]
        inside = (records.low[:, a] <= x) & (x <= records.high[:, a])
        found &= ~used[:, a] | np.where(np.isnan(x), records.null[:, a], inside)
    for c, covers in enumerate(space.covers):
        found &= ~used[:, o + c] | (covers[records.codes[:, c], people.codes[:, c]] > 0)
    return found
