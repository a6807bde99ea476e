"""The distribution of true values from randomly released ones, unbiased, with standard errors.

Zhang and Tang (2007), eq. (1) and section 6.2, for any channel that has an inverse, and for several at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Reconstructed shares; unbiased, so that some may be negative or above 1.

    Attributes:
        shares: Shares, one axis per channel; they sum to 1.
        standard_errors: Standard errors for the population that the records were drawn from.
        randomization_errors: Standard errors for the randomized records themselves, only from the
            randomization.
    """

    shares: FloatArray
    standard_errors: FloatArray
    randomization_errors: FloatArray

    @property
    def distribution(self) -> FloatArray:
        """The shares clipped to [0, 1] and made to sum to 1; no longer unbiased."""
        return clipped(self.shares)


def clipped(shares: FloatArray) -> FloatArray:
    """Shares in [0, 1] that sum to 1."""
    inside = np.clip(shares, 0.0, 1.0)
    return np.asarray(inside / inside.sum())


def estimate_joint(counts: npt.ArrayLike, inverses: Sequence[FloatArray]) -> Estimate:
    """The joint distribution of attributes that were randomized independently, one axis each.

    With A the inverse of the (product) channel transposed, pi = A lambda is unbiased. An output j of a true
    value i adds A_kj to pi_k, whose mean is [i = k] and whose mean square, over records, ((A o A) lambda)_k.
    So Var pi_k = (((A o A) lambda)_k - pi_k^2) / N over populations, for ERRPH lambda_k (1 - lambda_k) / N /
    p_0^2, and (((A o A) lambda)_k - pi_k) / N for the given records.

    Args:
        counts: Number of times each combination was released, one axis per channel, not all zero.
        inverses: Inverses of the channels of the axes, (k, k) each.

    Raises:
        ValueError: If the shapes differ, or there are no records.
    """
    released, shape = np.asarray(counts, dtype=np.float64), tuple(map(len, inverses))
    if released.shape != shape or not released.sum() > 0:
        raise ValueError(f"there must be counts of shape {shape} that do not sum to 0")
    n = released.sum()
    shares = squares = released / n
    for axis, inverse in enumerate(inverses):
        shares = along(shares, inverse.T, axis)
        squares = along(squares, inverse.T**2, axis)
    return Estimate(
        shares=shares,
        standard_errors=np.sqrt(np.maximum(squares - shares**2, 0.0) / n),
        randomization_errors=np.sqrt(np.maximum(squares - shares, 0.0) / n),
    )


def along(values: FloatArray, matrix: FloatArray, axis: int) -> FloatArray:
    """Apply a matrix to one axis of an array."""
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)
