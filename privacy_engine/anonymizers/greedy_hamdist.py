"""Greedy_Hamdist: k-anonymity by keeping the features with the largest Hamming distance between classes.

Zhang, Dave, Mohammed, Al Hasan: Feature selection for classification under anonymity constraint,
arXiv 1512.07158; as the baseline in Huang and Zhu's RFKA. Deviations: anonymity is equality in all kept
features (the original also allows containment); several class labels; see also ``feature_selection``.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.anonymizers.feature_selection import FeatureSelection


@dataclass(frozen=True, kw_only=True)
class GreedyHamdist(FeatureSelection):
    """Keep the features that distinguish most pairs of records with different labels, as far as k allows.

    The sum over pairs is additive over features, so the feature of highest worth among those left does not
    depend on those taken, and one pass over the sorted features is the greedy search. The choice of the
    features follows the label and discloses something about it: no differential privacy is claimed.
    """

    key: ClassVar[str] = "greedy_hamdist"

    def worth(
        self,
        columns: npt.NDArray[np.uint8],
        feature_of: npt.NDArray[np.int32],
        y: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.float64]:
        """(f,) Hamming distance of each feature, summed over its columns."""
        return np.bincount(feature_of, weights=hamming_distances(columns, y)).astype(np.float64)


def hamming_distances(columns: npt.NDArray[np.uint8], y: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(p,) number of pairs of records of different classes that differ in a binary column.

    ``n1 n0`` pairs differ in the column; those within a class are taken off: ``n1 n0 - sum_c n1c n0c``,
    for two classes ``n1+ n0- + n0+ n1-``.

    Args:
        columns: 0 or 1, shape (n, p).
        y: Class 0, 1, ..., shape (n,)
    """
    sizes = np.bincount(y)
    ones = np.stack([columns[y == c].sum(axis=0, dtype=np.float64) for c in range(len(sizes))])  # n1c
    zeros = sizes[:, None] - ones
    return np.asarray(ones.sum(axis=0) * zeros.sum(axis=0) - (ones * zeros).sum(axis=0), dtype=np.float64)
