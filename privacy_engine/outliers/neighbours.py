"""Exact nearest neighbours among points of numbers and categories: a tree of boxes.

A node is a run of points with its box: the smallest and largest of each number, and one bit per category that
occurs (code modulo 64, so that the bound is never too high). A query reads the nearer child first and skips
every node whose box is farther than the k-th nearest point so far. Of equally near points the lower number is
nearer, so that the answer is unique.
"""

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.ordering import stable_order
from privacy_engine.progress import tracked

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
MaskArray = npt.NDArray[np.uint64]

LEAF = 16  # points a leaf: fewer cost more nodes, more cost more distances
AT_ONCE = 16_384  # queries processed between two progress reports
BLOCK = 64  # queries that share a stack
DEPTH = 512  # of that stack: a level halves a run, or takes from it a value that is most of it


@dataclass(frozen=True)
class NeighbourTree:
    """Points in the order of the leaves, and the nodes over them.

    Attributes:
        numbers, categories: Points in the order of the leaves, shapes (m, p) float64 and (m, c) int32.
        ids: Number of each of them as the caller knows it, shape (m,) int64.
        start, end: Run of each node, shape (nodes,) int64.
        left: First child of each node, the second follows it, shape (nodes,) int64; -1 = leaf.
        low, high, masks: Box of each node, shapes (nodes, p) float64 and (nodes, c) uint64.
        penalty: Squared distance of two categories.
    """

    numbers: FloatArray
    categories: CodeArray
    ids: IntArray
    start: IntArray
    end: IntArray
    left: IntArray
    low: FloatArray
    high: FloatArray
    masks: MaskArray
    penalty: float

    @classmethod
    def plant(cls, numbers: FloatArray, categories: CodeArray, penalty: float) -> "NeighbourTree":
        """The tree over at least one point; their numbers are 0 .. m - 1."""
        order, start, end, left = _split(numbers, categories, penalty)
        placed, coded = numbers[order], categories[order]
        return cls(
            placed, coded, order, start, end, left, *_boxes(placed, coded, start, end, left), float(penalty)
        )

    def nearest(
        self, numbers: FloatArray, categories: CodeArray, k: int, itself: IntArray
    ) -> tuple[IntArray, FloatArray]:
        """The k nearest points of each query, in no particular order.

        Args:
            numbers: Numbers of the queries, shape (q, p) float64.
            categories: Categories of the queries, shape (q, c) int32.
            k: 1 .. m - 1, or m where no query is one of the points.
            itself: Number of the point that a query is, which is no neighbour, shape (q,); -1 = none.

        Returns:
            (q, k) int64 numbers of the points, and their (q, k) squared distances.
        """
        found = np.full((len(itself), k), np.iinfo(np.int64).max, dtype=np.int64)
        far = np.full((len(itself), k), np.inf)
        self._search(numbers, categories, itself, found, far)
        return found, far

    def nearest_one(
        self, numbers: FloatArray, categories: CodeArray, guess: IntArray, guessed: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """The nearest point of each query (q,), searched from a point that is known to be ``guessed`` far.

        An infinite guess is no guess. Returns (q,) numbers and (q,) squared distances.
        """
        found, far = guess.reshape(-1, 1).copy(), guessed.reshape(-1, 1).copy()
        self._search(numbers, categories, np.full(len(guess), -1, dtype=np.int64), found, far)
        return found[:, 0], far[:, 0]

    def _search(
        self, numbers: FloatArray, categories: CodeArray, itself: IntArray, found: IntArray, far: FloatArray
    ) -> None:
        for first in tracked(range(0, len(itself), AT_ONCE)):
            some = slice(first, first + AT_ONCE)
            _search_all(
                self.numbers, self.categories, self.ids, self.start, self.end, self.left, self.low, self.high,
                self.masks, self.penalty, numbers[some], categories[some], itself[some], found[some],
                far[some],
            )  # fmt: skip


@kernel()
def _split(
    numbers: FloatArray, categories: CodeArray, penalty: float
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Halve the points along the attribute that has the largest spread, until leaves are small.

    A category is never split in two: its run is cut at the change of value nearest to the middle.
    """
    m, p, c = len(numbers), numbers.shape[1], categories.shape[1]
    order = np.arange(m)
    start, end = np.zeros(2 * m, np.int64), np.zeros(2 * m, np.int64)
    left = np.full(2 * m, -1, np.int64)
    end[0] = m
    nodes, node = 1, 0
    while node < nodes:
        a, b = start[node], end[node]
        if b - a > LEAF:
            run = order[a:b]
            widest, spread = -1, 0.0
            for j in range(p):
                least = largest = numbers[run[0], j]
                for i in run:
                    least, largest = min(least, numbers[i, j]), max(largest, numbers[i, j])
                if (largest - least) ** 2 > spread:
                    widest, spread = j, (largest - least) ** 2
            for j in range(c):
                if penalty > spread:
                    for i in run:
                        if categories[i, j] != categories[run[0], j]:
                            widest, spread = p + j, penalty
                            break
            if widest >= 0:
                if widest < p:
                    run = run[stable_order(numbers[run, widest])]
                    cut = (b - a) // 2
                else:
                    run = run[stable_order(categories[run, widest - p])]
                    cut = _change(categories[run, widest - p])
                order[a:b] = run
                left[node] = nodes
                start[nodes], end[nodes] = a, a + cut
                start[nodes + 1], end[nodes + 1] = a + cut, b
                nodes += 2
        node += 1
    return order, start[:nodes].copy(), end[:nodes].copy(), left[:nodes].copy()


@kernel()
def _change(values: CodeArray) -> int:
    """Where ascending values, not all equal, change nearest to their middle."""
    middle = len(values) // 2
    for step in range(len(values)):
        below, above = middle - step, middle + step
        if below > 0 and values[below - 1] != values[below]:
            return below
        if 0 < above < len(values) and values[above - 1] != values[above]:
            return above
    return middle


@kernel()
def _boxes(
    numbers: FloatArray, categories: CodeArray, start: IntArray, end: IntArray, left: IntArray
) -> tuple[FloatArray, FloatArray, MaskArray]:
    nodes, p, c = len(start), numbers.shape[1], categories.shape[1]
    low, high = np.full((nodes, p), np.inf), np.full((nodes, p), -np.inf)
    masks = np.zeros((nodes, c), np.uint64)
    for node in range(nodes - 1, -1, -1):  # children have higher numbers than their parent
        child = left[node]
        if child < 0:
            for i in range(start[node], end[node]):
                for j in range(p):
                    low[node, j] = min(low[node, j], numbers[i, j])
                    high[node, j] = max(high[node, j], numbers[i, j])
                for j in range(c):
                    masks[node, j] |= _bit(categories[i, j])
        else:
            for j in range(p):
                low[node, j] = min(low[child, j], low[child + 1, j])
                high[node, j] = max(high[child, j], high[child + 1, j])
            for j in range(c):
                masks[node, j] = masks[child, j] | masks[child + 1, j]
    return low, high, masks


@kernel(inline="always")
def _bit(code: int) -> np.uint64:
    return np.uint64(1) << np.uint64(code & 63)


@kernel(parallel=True)
def _search_all(
    at: FloatArray, of: CodeArray, ids: IntArray, start: IntArray, end: IntArray, left: IntArray,
    low: FloatArray, high: FloatArray, masks: MaskArray, penalty: float,
    numbers: FloatArray, categories: CodeArray, itself: IntArray, found: IntArray, far: FloatArray,
) -> None:  # fmt: skip
    """Fill the heaps ``found`` and ``far`` (q, k), the farthest first, with the nearest points."""
    for block in nb.prange((len(itself) + BLOCK - 1) // BLOCK):
        waiting, bounds = np.empty(DEPTH, np.int64), np.empty(DEPTH)
        for q in range(block * BLOCK, min((block + 1) * BLOCK, len(itself))):
            _search(
                at, of, ids, start, end, left, low, high, masks, penalty,
                numbers, categories, q, itself[q], found[q], far[q], waiting, bounds,
            )  # fmt: skip


@kernel()
def _search(
    at: FloatArray, of: CodeArray, ids: IntArray, start: IntArray, end: IntArray, left: IntArray,
    low: FloatArray, high: FloatArray, masks: MaskArray, penalty: float,
    numbers: FloatArray, categories: CodeArray, q: int, itself: int, found: IntArray, far: FloatArray,
    waiting: IntArray, bounds: FloatArray,
) -> None:  # fmt: skip
    p, c = numbers.shape[1], categories.shape[1]
    waiting[0], bounds[0], depth = 0, 0.0, 1
    while depth > 0:
        depth -= 1
        node = waiting[depth]
        if bounds[depth] > far[0]:  # an equally far point may have a lower number
            continue
        if left[node] < 0:
            for i in range(start[node], end[node]):
                d = 0.0
                for j in range(p):
                    d += (numbers[q, j] - at[i, j]) ** 2
                for j in range(c):
                    if categories[q, j] != of[i, j]:
                        d += penalty
                if d <= far[0] and ids[i] != itself and (d < far[0] or ids[i] < found[0]):
                    _replace_farthest(found, far, ids[i], d)
            continue
        one = left[node]
        near, away = one, one + 1
        bound = _bound(low, high, masks, penalty, numbers, categories, q, one)
        other = _bound(low, high, masks, penalty, numbers, categories, q, one + 1)
        if other < bound:
            near, away = one + 1, one
            bound, other = other, bound
        waiting[depth], bounds[depth] = away, other
        waiting[depth + 1], bounds[depth + 1] = near, bound
        depth += 2


@kernel()
def _bound(
    low: FloatArray, high: FloatArray, masks: MaskArray, penalty: float,
    numbers: FloatArray, categories: CodeArray, q: int, node: int,
) -> float:  # fmt: skip
    """Least squared distance of a query to the points of a node; summed in the order of the distance."""
    d = 0.0
    for j in range(numbers.shape[1]):
        if numbers[q, j] < low[node, j]:
            d += (numbers[q, j] - low[node, j]) ** 2
        elif numbers[q, j] > high[node, j]:
            d += (numbers[q, j] - high[node, j]) ** 2
    for j in range(categories.shape[1]):
        if masks[node, j] & _bit(categories[q, j]) == 0:
            d += penalty
    return d


@kernel(inner=True)
def _replace_farthest(found: IntArray, far: FloatArray, point: int, d: float) -> None:
    """Replace the farthest of a heap by a point and let it sink."""
    k, at = len(far), 0
    while True:
        child = 2 * at + 1
        if child >= k:
            break
        right = child + 1
        if right < k and (
            far[right] > far[child] or (far[right] == far[child] and found[right] > found[child])
        ):
            child = right
        if far[child] < d or (far[child] == d and found[child] < point):
            break
        far[at], found[at] = far[child], found[child]
        at = child
    far[at], found[at] = d, point
