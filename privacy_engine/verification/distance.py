"""Earth mover's distance between a class's distribution of a sensitive attribute and the table's.

Li, Li, Venkatasubramanian: t-closeness, ICDE 2007, section 4. Each function takes the difference to move, the
share in the class less the share in the table, (c, m) for c classes and m values, and returns (c,) distances
in [0, 1].
"""

import numpy as np
import numpy.typing as npt

from privacy_engine.tables.hierarchy import Hierarchy

FloatArray = npt.NDArray[np.float64]


def ordered_distance(moved: FloatArray) -> FloatArray:
    """Li et al. (2007), ordered distance: 1/(m-1) sum_i |sum_{j <= i} (p_j - q_j)|.

    Over the m values that occur in the table: a value without a record is no step between two others.
    """
    return np.asarray(np.abs(np.cumsum(moved, axis=1)).sum(axis=1) / max(moved.shape[1] - 1, 1))


def hierarchical_distance(moved: FloatArray, hierarchy: Hierarchy) -> FloatArray:
    """Li et al. (2007), hierarchical distance: sum over inner nodes N of height(N)/H min(pos(N), neg(N)).

    pos and neg are the surplus and the deficit among the children's extras.
    """
    cost = np.zeros(len(moved))
    extra = np.zeros((len(moved), len(hierarchy.parent)))
    extra[:, : moved.shape[1]] = moved
    for level in range(1, hierarchy.height + 1):
        below, above = np.unique(np.stack([hierarchy.at_level(level - 1), hierarchy.at_level(level)]), axis=1)
        surplus, deficit = np.zeros_like(extra), np.zeros_like(extra)
        for child, node in zip(below, above, strict=True):
            surplus[:, node] += np.maximum(extra[:, child], 0)
            deficit[:, node] += np.maximum(-extra[:, child], 0)
        nodes = np.unique(above)
        extra[:, nodes] = surplus[:, nodes] - deficit[:, nodes]
        cost += level / hierarchy.height * np.minimum(surplus, deficit).take(nodes, axis=1).sum(axis=1)
    return cost
