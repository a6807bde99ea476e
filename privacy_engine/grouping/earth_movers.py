"""Earth mover's distance between the sensitive values of one class and of the whole table.

Li, Li and Venkatasubramanian (2007), "t-Closeness: Privacy Beyond k-Anonymity and l-Diversity", section 4.
All three take the counts (m,) of a class of `size` > 0 records and the table's shares `prior` (m,), and
give a distance in [0, 1].
"""

import numba as nb
import numpy as np
import numpy.typing as npt


@nb.njit(cache=True)
def equal_distance(counts: npt.NDArray[np.int32], size: int, prior: npt.NDArray[np.float64]) -> float:
    """All values equally far apart: total variation."""
    distance = 0.0
    for value in range(counts.shape[0]):
        distance += abs(counts[value] / size - prior[value])
    return distance / 2.0


@nb.njit(cache=True)
def ordered_distance(counts: npt.NDArray[np.int32], size: int, prior: npt.NDArray[np.float64]) -> float:
    """Values on a line: mean over the gaps between values that the table holds of the mass that crosses."""
    crossing, distance, held = 0.0, 0.0, 0
    for value in range(counts.shape[0]):
        if prior[value] > 0.0:  # a value that no record has is no step between two others
            held += 1
            crossing += counts[value] / size - prior[value]
            distance += abs(crossing)  # beyond the last value nothing crosses: it adds 0
    return float(distance / max(held - 1, 1))


@nb.njit(cache=True)
def hierarchical_distance(
    counts: npt.NDArray[np.int32],
    size: int,
    prior: npt.NDArray[np.float64],
    parent: npt.NDArray[np.int32],
    height: npt.NDArray[np.float64],
) -> float:
    """Values in a tree: at each node, what its children can settle among themselves.

    The sum over nodes N of height(N) / H * min(pos_extra(N), neg_extra(N)); `parent` and `height`
    (nodes,) as in `Constraints`.
    """
    surplus = np.zeros(parent.shape[0])
    lack = np.zeros(parent.shape[0])
    distance = 0.0
    for node in range(parent.shape[0]):  # children stand before their parents
        if node < counts.shape[0]:
            extra = counts[node] / size - prior[node]
        else:
            distance += height[node] * min(surplus[node], lack[node])
            extra = surplus[node] - lack[node]
        if extra > 0.0:
            surplus[parent[node]] += extra
        else:
            lack[parent[node]] -= extra
    return distance
