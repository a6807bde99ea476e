"""Noise that carries a privacy claim: discrete Laplace on counts, and private selection, both by OpenDP.

Why OpenDP and not numpy: the low bits of floating-point Laplace noise give the true value away (Mironov, On
Significance of the Least Significant Bits for Differential Privacy, 2012). Here nothing is a float but the
scale: the data are 64-bit integers, the samplers are exact (Canonne, Kamath, Steinke, The Discrete Gaussian
for Differential Privacy, 2020, section 5; McKenna, Sheldon, Permute-and-Flip, 2020) and draw from the
operating system, so that a draw can neither be seeded nor repeated: store what was drawn.

A mechanism here knows nothing of tables. Its ``sensitivity`` is the caller's: how much its input changes, at
most, between two neighbouring tables. The epsilon holds for the neighbour relation that this was derived for.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import rounded_down, rounded_up

if TYPE_CHECKING:
    from opendp.mod import Measurement

# OpenDP's `int` is 32 bits wide and clips what does not fit; counts are 64 bits wide.
_INTEGER = "i64"
_LARGEST_SCALE = 2**60


def laplace_counts(
    counts: npt.NDArray[np.int64], *, epsilon: float, sensitivity: int = 2
) -> npt.NDArray[np.int64]:
    """Counts plus discrete Laplace noise, epsilon-differentially private.

    P(noise = z) is proportional to exp(-|z| / scale). Counts may come out negative.

    Args:
        counts: any shape, int64.
        epsilon: > 0, for all the counts together.
        sensitivity: most by which the counts change between neighbouring tables, in sum of absolute values.
            One contingency table changes by 2 where one record is replaced (one cell loses it, one gains it),
            by 1 where one is added or removed.

    Returns:
        Noisy counts in the same shape, int64; beyond its range they stop at its ends.

    Raises:
        ValueError: if epsilon is not positive and finite, or absurdly small, or the counts are no integers.
    """
    _, measurement = _calibrated(_laplace, 1, epsilon, sensitivity)
    noisy = measurement(_integers(counts, "counts").ravel())
    return np.array(noisy, dtype=np.int64).reshape(counts.shape)


def noisy_max(scores: npt.NDArray[np.int64], *, epsilon: float, sensitivity: int) -> int:
    """The number of a candidate with a high score, epsilon-differentially private.

    Permute-and-flip, never worse in expectation than the exponential mechanism at the same epsilon: the
    candidates are tried in random order, i is taken with probability exp((scores[i] - max) / scale).

    Args:
        scores: (c,) int64, c >= 1.
        epsilon: > 0.
        sensitivity: most by which one score changes between neighbouring tables.

    Returns:
        Index into ``scores``.

    Raises:
        ValueError: if epsilon is not positive and finite, or absurdly small, the scores are no integers, or
            there is none.
    """
    if scores.ndim != 1 or not len(scores):
        raise ValueError(f"scores must be one row of at least one score, got shape {scores.shape}")
    _, measurement = _calibrated(_noisy_max, 2, epsilon, sensitivity)
    return int(measurement(_integers(scores, "scores")))


def laplace_scale(*, epsilon: float, sensitivity: int) -> float:
    """The scale of ``laplace_counts``: the sensitivity over epsilon, the least that OpenDP vouches for.

    >>> laplace_scale(epsilon=0.5, sensitivity=2)
    4.0
    """
    return _calibrated(_laplace, 1, epsilon, sensitivity)[0]


def noisy_max_scale(*, epsilon: float, sensitivity: int) -> float:
    """The scale of ``noisy_max``: twice the sensitivity over epsilon, the least that OpenDP vouches for.

    Twice, because one score may rise while the highest falls.

    >>> noisy_max_scale(epsilon=0.5, sensitivity=2)
    8.0
    """
    return _calibrated(_noisy_max, 2, epsilon, sensitivity)[0]


def split(epsilon: float, weights: Sequence[float]) -> tuple[float, ...]:
    """Parts of epsilon in proportion to the weights, rounded down: their exact sum never exceeds epsilon.

    >>> split(1.0, [1, 3])
    (0.25, 0.75)

    Raises:
        ValueError: if epsilon or a weight is not positive and finite, or there is no weight.
    """
    if not weights or not all(weight > 0 and math.isfinite(weight) for weight in weights):
        raise ValueError("weights must be positive and finite, and at least one")
    _check_epsilon(epsilon)
    whole = sum(map(Fraction, weights))
    parts = tuple(rounded_down(Fraction(epsilon) * Fraction(weight) / whole) for weight in weights)
    if not all(parts):
        raise ValueError(f"epsilon {epsilon} is too small to be split into {len(weights)} parts")
    return parts


def _laplace(scale: float) -> "Measurement":
    import opendp.prelude as dp

    _allow_opendp()
    domain, metric = dp.vector_domain(dp.atom_domain(T=_INTEGER)), dp.l1_distance(T=_INTEGER)
    return dp.m.make_laplace(domain, metric, scale)


def _noisy_max(scale: float) -> "Measurement":
    import opendp.prelude as dp

    _allow_opendp()
    domain, metric = dp.vector_domain(dp.atom_domain(T=_INTEGER)), dp.linf_distance(T=_INTEGER)
    return dp.m.make_noisy_max(domain, metric, dp.max_divergence(), scale)


def _allow_opendp() -> None:
    """Enable OpenDP's `contrib` features, which both mechanisms are: proven on paper, not by a machine.

    This is a state of the whole process in OpenDP, so it is set here alone and not when a module is imported.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")


def _integers(values: npt.NDArray[np.int64], name: str) -> npt.NDArray[np.int64]:
    if not np.issubdtype(values.dtype, np.signedinteger):
        raise ValueError(f"{name} must be signed whole numbers, got {values.dtype}: nothing is rounded here")
    return values.astype(np.int64, copy=False)


def _calibrated(
    make: Callable[[float], "Measurement"], factor: int, epsilon: float, sensitivity: int
) -> tuple[float, "Measurement"]:
    """The scale factor * sensitivity / epsilon, on the safe side, and the measurement with it."""
    _check_epsilon(epsilon)
    if sensitivity < 1 or sensitivity != int(sensitivity):
        raise ValueError(f"sensitivity must be a whole number >= 1, got {sensitivity}")
    exact = Fraction(factor * int(sensitivity)) / Fraction(epsilon)
    if exact > _LARGEST_SCALE:
        raise ValueError(
            f"epsilon must be larger for a sensitivity of {sensitivity}: its noise has over 60 bits"
        )
    scale = rounded_up(exact)
    # So the epsilon of this scale is not above the one asked for; OpenDP's map, which rounds up, has the say.
    while (measurement := make(scale)).map(int(sensitivity)) > epsilon:  # type: ignore[no-untyped-call]  # OpenDP's
        scale = math.nextafter(scale, math.inf)
    return scale, measurement


def _check_epsilon(epsilon: float) -> None:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be > 0 and finite, got {epsilon}")
