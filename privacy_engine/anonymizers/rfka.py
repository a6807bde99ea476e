"""RFKA: k-anonymity by keeping the features that matter most to a random forest.

Huang and Zhu: k-anonymity by random forest feature importance; algorithm 1 (RFKA), algorithm 2 (privacy
test), formula (3). Deviations: see ``feature_selection``; with ``generalize=False`` it is the paper's.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.anonymizers.feature_selection import FeatureSelection
from privacy_engine.recoding.features.forest_importance import forest_importance


@dataclass(frozen=True, kw_only=True)
class RFKA(FeatureSelection):
    """Keep the features by which a random forest predicts a class label best, as far as k allows.

    Features are ranked by out-of-bag permutation importance. The choice of the features follows the label
    and discloses something about it: no differential privacy is claimed.

    Attributes:
        trees: Number of trees, each fully grown; 1,000 in the paper.
    """

    trees: int = 1000
    key: ClassVar[str] = "rfka"

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.trees) is not int or self.trees < 1:
            raise ValueError(f"trees must be a whole number >= 1, got {self.trees!r}")

    def worth(
        self,
        columns: npt.NDArray[np.uint8],
        feature_of: npt.NDArray[np.int32],
        y: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.float64]:
        """Return each feature's importance, (f,): loss of correct records per tree if it is permuted."""
        return forest_importance(columns, feature_of, y, self.trees, rng)
