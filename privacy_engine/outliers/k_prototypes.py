"""k-prototypes: k-means for numbers and categories, with initial centres that are no matter of chance.

Huang: extensions to the k-means algorithm for clustering large data sets with categorical values (1998);
initial centres of Yang (2018), section 1.2.2. Step 1: the centre of the table, means and modes; 2: A_1, the
record farthest from it, at distance r; 3 and 4: A_i, the remaining record whose distance to A_1 is nearest
to (i - 1) r / (k - 1), i = 2 .. k.

Deviations: equal records are one point with a count, so that initial centres differ; a round assigns all
records and then moves all centres, as in k-means (Huang moves a centre with each record), so the order of
the records does not matter; the search for the nearest centre is exact and goes through a tree of them.
"""

from dataclasses import dataclass, field

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.errors import InfeasibleError
from privacy_engine.outliers.mixed_space import CodeArray, FloatArray, IntArray, MixedSpace
from privacy_engine.outliers.neighbours import NeighbourTree
from privacy_engine.progress import portion


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Clusters of records around prototypes.

    Attributes:
        labels: Cluster of each record, 0 .. k - 1, shape (n,) int64.
        distances: Dissimilarity (definition 1) of each record and its prototype, shape (n,) float64.
        numbers: Means of the scaled numbers of each cluster, shape (k, p) float64.
        categories: Modes of its categories, as codes in the order of their texts, shape (k, c) int32.
        rounds: Number of times the records were assigned.
        converged: Whether the last round changed no label.
    """

    labels: IntArray = field(repr=False)
    distances: FloatArray = field(repr=False)
    numbers: FloatArray = field(repr=False)
    categories: CodeArray = field(repr=False)
    rounds: int
    converged: bool

    @property
    def cost(self) -> float:
        """Yang (2018), definition 2: the sum of all dissimilarities."""
        return float(self.distances.sum())


def cluster_points(space: MixedSpace, clusters: int, rounds: int) -> Clustering:
    """Run k-prototypes over the points of a space, each counted with its frequency."""
    first = initial_points(space, clusters)
    numbers, categories = space.numbers[first].copy(), space.categories[first].copy()
    labels = np.zeros(len(space), dtype=np.int64)
    distances = np.full(len(space), np.inf)
    done, converged = 0, False
    while done < rounds and not converged:
        if done:
            numbers, categories = move(space, labels, numbers, categories)
            distances = dissimilarities(space, numbers[labels], categories[labels])
        tree = NeighbourTree.plant(numbers, categories, space.penalty)
        with portion(1.0 / rounds):
            nearest, distances = tree.nearest_one(space.numbers, space.categories, labels, distances)
        converged = done > 0 and bool((nearest == labels).all())
        labels, done = nearest, done + 1
    return Clustering(
        labels=labels,
        distances=distances,
        numbers=numbers,
        categories=categories,
        rounds=done,
        converged=converged,
    )


def initial_points(space: MixedSpace, clusters: int) -> IntArray:
    """(k,) the points A_1 .. A_k that centres start from.

    Raises:
        InfeasibleError: More clusters than points.
    """
    if clusters > len(space):
        raise InfeasibleError(
            f"{len(space)} distinct records cannot found {clusters} clusters; ask for fewer clusters"
        )
    one = np.zeros(len(space), dtype=np.int64)
    centre = move(
        space,
        one,
        np.zeros((1, space.numbers.shape[1])),
        np.zeros((1, space.categories.shape[1]), dtype=np.int32),
    )
    from_centre = dissimilarities(space, *centre)
    farthest = int(from_centre.argmax())
    from_first = dissimilarities(space, space.numbers[[farthest]], space.categories[[farthest]])
    order = np.argsort(from_first, kind="stable")  # A_1 itself comes first, the only one at distance 0
    targets = np.arange(clusters) * from_centre[farthest] / max(clusters - 1, 1)
    return order[_nearest_remaining(from_first[order], targets)]


def dissimilarities(space: MixedSpace, numbers: FloatArray, categories: CodeArray) -> FloatArray:
    """Definition 1: (m,) sum_numeric (x_i - y_i)^2 + lambda sum_categorical [x_i != y_i].

    numbers, categories: one row, or one for each point.
    """
    apart = ((space.numbers - numbers) ** 2).sum(axis=1)
    return np.asarray(apart + space.penalty * (space.categories != categories).sum(axis=1))


def move(
    space: MixedSpace, labels: IntArray, numbers: FloatArray, categories: CodeArray
) -> tuple[FloatArray, CodeArray]:
    """Means (k, p) and modes (k, c) of the clusters; the prototype of an empty one stays where it was."""
    k = len(numbers)
    sizes = np.bincount(labels, weights=space.counts, minlength=k)
    means, modes = numbers.copy(), categories.copy()
    filled = sizes > 0
    for j, column in enumerate(space.numbers.T):
        total = np.bincount(labels, weights=space.counts * column, minlength=k)
        means[filled, j] = total[filled] / sizes[filled]
    for j, column in enumerate(space.categories.T):
        modes[filled, j] = _modes(labels, column, space.counts, k)[filled]
    return means, modes


def _modes(labels: IntArray, codes: CodeArray, counts: IntArray, k: int) -> CodeArray:
    """(k,) the most frequent code of each cluster, the lowest of equally frequent ones."""
    values = int(codes.max()) + 1
    pairs, at = np.unique(labels * values + codes, return_inverse=True)  # thousands of clusters, many codes
    frequency = np.bincount(at, weights=counts)
    modes = np.zeros(k, dtype=np.int32)
    ascending = np.lexsort((-(pairs % values), frequency))  # the last written wins
    modes[pairs[ascending] // values] = pairs[ascending] % values
    return modes


@kernel()
def _nearest_remaining(ascending: FloatArray, targets: FloatArray) -> IntArray:
    """For each target in turn the place of the nearest value not yet taken; of two the lower."""
    m = len(ascending)
    below, above = np.arange(m + 1), np.arange(m + 1)  # next free place, with 0 and m for "none"
    taken = np.empty(len(targets), np.int64)
    for i in range(len(targets)):
        middle = np.searchsorted(ascending, targets[i])
        down, up = _follow(below, middle), _follow(above, middle)  # place down - 1, place up
        if up == m or (down > 0 and targets[i] - ascending[down - 1] <= ascending[up] - targets[i]):
            place = down - 1
        else:
            place = up
        taken[i] = place
        below[place + 1] = place
        above[place] = place + 1
    return taken


@kernel(inner=True)
def _follow(to: IntArray, start: int) -> int:
    """The end of a chain of places, which is made shorter on the way."""
    while to[start] != start:
        to[start] = to[to[start]]
        start = to[start]
    return start
