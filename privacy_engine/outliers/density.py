"""Local outlier factors of points: how sparse a point lies, against its neighbours.

Breunig, Kriegel, Ng, Sander: LOF: identifying density-based local outliers, SIGMOD 2000, definitions 3-7.

Deviations: k distinct points count as neighbours, whatever the number of records on each: with equal records
a reachability would be 0 and the factor undefined or arbitrary. And always k of them: of equally distant
points those of the lower number (the paper takes all of them).
"""

import numpy as np

from privacy_engine.errors import InfeasibleError
from privacy_engine.outliers.mixed_space import FloatArray, IntArray, MixedSpace
from privacy_engine.outliers.neighbours import NeighbourTree
from privacy_engine.progress import portion

TINY = 1e-10  # scikit-learn's: distances so small that their squares vanish give no infinite density


def local_outlier_factors(
    space: MixedSpace, rated: IntArray, reference: IntArray, neighbours: int
) -> FloatArray:
    """The factor of some points among the points of reference.

    Args:
        space: Points with their distances.
        rated: Points to rate, all of them in ``reference``, shape (r,).
        reference: Ascending, shape (s,); neighbours are taken from them.
        neighbours: K; as many as there are others where these are fewer.

    Returns:
        (r,) float64, about 1 in the midst of others.

    Raises:
        InfeasibleError: Fewer than two points of reference.
    """
    if len(reference) < 2:
        raise InfeasibleError(
            f"{len(reference)} distinct records have no density to compare; choose attributes that vary"
        )
    k = min(neighbours, len(reference) - 1)
    numbers, categories = space.numbers[reference], space.categories[reference]
    tree = NeighbourTree.plant(numbers, categories, space.penalty)
    s = len(reference)
    found, far = np.zeros((s, k), dtype=np.int64), np.zeros((s, k))
    known = np.zeros(s, dtype=np.bool_)
    wanted = np.searchsorted(reference, rated)

    def search(points: IntArray) -> IntArray:
        """Find all neighbours of the points whose neighbours are still unknown."""
        new = points[~known[points]]
        found[new], far[new] = tree.nearest(numbers[new], categories[new], k, new)
        known[new] = True
        seen = np.zeros(s, dtype=np.bool_)
        seen[found[points]] = True
        return np.flatnonzero(seen)

    # A factor needs the densities of the neighbours, and these the k-distances of theirs.
    with portion(0.4):
        around = np.union1d(wanted, search(wanted))
    with portion(0.4):
        further = search(around)
    with portion(0.2):
        search(further)
    k_distance = np.sqrt(far.max(axis=1))  # 0 if it is neither known nor required
    density = np.zeros(s)
    # Definitions 5 and 6: reach-dist_k(p, o) = max(k-distance(o), d(p, o)); lrd = 1 / its mean.
    reach = np.maximum(k_distance[found[around]], np.sqrt(far[around]))
    density[around] = 1.0 / (reach.mean(axis=1) + TINY)
    # Definition 7: the mean density of the neighbours over one's own.
    return np.asarray(density[found[wanted]].mean(axis=1) / density[wanted])
