"""What a compiled kernel uses of the quasi-identifiers: costs of intervals and of tree nodes.

A class of records is a pair of integer rows ``lo, hi`` (q,):

* an ordered attribute (numeric, ordinal) spans the codes ``lo[j] .. hi[j]`` and costs the distance
    of their positions; null, if it is a value, is the last code and as far from every value as the
    ends of the domain are from each other;
* a tree attribute (categorical) is at node ``lo[j] == hi[j]``, the lowest common ancestor of its
  values, and costs that node's share of the leaves; a leaf costs 0.

This is the information loss penalty ILP of Zhu, Zhao and Wang (2010), section 3.2, and with equal
weights the normalised certainty penalty NCP of Xu et al. (2006). The weights are multiplied in.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel


class Geometry(NamedTuple):
    """Costs of all quasi-identifiers, concatenated; attribute j owns ``start[j] : start[j + 1]``.

    tree: (q,) bool, True for a hierarchy, False for an ordered attribute.
    start: (q + 1,) int64.
    value: float64; ordered: weighted position of a code, ascending; tree: weighted cost of a node.
    parent: int32; tree: parent of a node, as a node of the same attribute. A parent's number is
        larger than its children's, the leaves come first, the root is last and its own parent.
        Unused (0) for ordered attributes.
    most: (q,) float64; ordered: its weight if null is a value, which lies at twice the weight: no two values
    are
        farther apart. Infinity otherwise, and for trees.
    """

    tree: npt.NDArray[np.bool_]
    start: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    parent: npt.NDArray[np.int32]
    most: npt.NDArray[np.float64]


@kernel(inline="always")
def common_ancestor(parent: npt.NDArray[np.int32], start: int, a: int, b: int) -> int:
    """Lowest common ancestor of nodes a and b: the smaller number climbs until they meet."""
    while a != b:
        if a < b:
            a = parent[start + a]
        else:
            b = parent[start + b]
    return a


@kernel(inline="always")
def apart(value: npt.NDArray[np.float64], low: int, high: int, most: float) -> float:
    """Cost of an ordered attribute between two positions of `Geometry.value`, the lower first."""
    return float(min(value[high] - value[low], most))


@kernel()
def class_spans(
    codes: npt.NDArray[np.int32], labels: npt.NDArray[np.int64], classes: int, geometry: Geometry
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(classes, q) lowest and highest code of each class, or its tree node twice; label -1 is skipped."""
    n, q = codes.shape
    lo = np.full((classes, q), -1, dtype=np.int32)
    hi = np.full((classes, q), -1, dtype=np.int32)
    for i in range(n):
        c = labels[i]
        if c < 0:
            continue
        for j in range(q):
            x = codes[i, j]
            if lo[c, j] < 0:
                lo[c, j] = hi[c, j] = x
            elif geometry.tree[j]:
                if lo[c, j] != x:
                    lo[c, j] = hi[c, j] = common_ancestor(geometry.parent, geometry.start[j], lo[c, j], x)
            else:
                lo[c, j] = min(lo[c, j], x)
                hi[c, j] = max(hi[c, j], x)
    return lo, hi


def span_costs(
    lo: npt.NDArray[np.int32], hi: npt.NDArray[np.int32], geometry: Geometry
) -> npt.NDArray[np.float64]:
    """(classes, q) weighted ILP of one record of each class, per attribute."""
    at_lo, at_hi = geometry.value[geometry.start[:-1] + lo], geometry.value[geometry.start[:-1] + hi]
    between = np.minimum(at_hi - at_lo, geometry.most)
    return np.asarray(np.where(geometry.tree, at_lo, between), dtype=np.float64)
