"""Noise with a privacy claim, on counts and in private selection, all from OpenDP.

For pure epsilon discrete Laplace noise and permute-and-flip, for zCDP (`privacy_engine.dp.zcdp`) discrete
Gaussian noise and Gumbel noise.

Why OpenDP and not numpy: the low bits of floating-point Laplace noise reveal the true value (Mironov, On
Significance of the Least Significant Bits for Differential Privacy, 2012). Here only the scale is a float:
the data are 64-bit integers, the samplers are exact (Canonne, Kamath, Steinke, The Discrete Gaussian for
Differential Privacy, 2020, section 5; McKenna, Sheldon, Permute-and-Flip, 2020) and draw from the operating
system. So a draw cannot be seeded or repeated: store the result.

A mechanism here knows nothing about tables. Its ``sensitivity`` is the caller's: how much its input changes
at most between two neighbouring tables. The epsilon, or rho, holds for the relation that this was derived
for.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import rounded_down, rounded_up
from privacy_engine.dp.zcdp import check_rho

if TYPE_CHECKING:
    from opendp.mod import Measurement

# OpenDP's `int` is 32 bits wide and clips what does not fit; counts are 64 bits wide.
_INTEGER = "i64"
_LARGEST_SCALE = 2**60


def laplace_counts(
    counts: npt.NDArray[np.int64], *, epsilon: float, sensitivity: int = 2
) -> npt.NDArray[np.int64]:
    """Counts plus discrete Laplace noise, epsilon-differentially private.

    P(noise = z) is proportional to exp(-|z| / scale). Noisy counts may be negative.

    Args:
        counts: Any shape, int64.
        epsilon: Epsilon for all counts together, > 0.
        sensitivity: Most by which the counts change between neighbouring tables, in sum of absolute values.
            One contingency table changes by 2 if one record is replaced (one cell loses it, one gains it),
            by 1 if one is added or removed.

    Returns:
        Noisy counts in the same shape, int64; clipped to its range.

    Raises:
        ValueError: If epsilon is not positive and finite, or far too small, or the counts are not integers.
    """
    _, measurement = _calibrated(_laplace, 1, epsilon, sensitivity)
    noisy = measurement(_integers(counts, "counts").ravel())
    return np.array(noisy, dtype=np.int64).reshape(counts.shape)


def noisy_max(scores: npt.NDArray[np.int64], *, epsilon: float, sensitivity: int) -> int:
    """Return the index of a candidate with a high score, epsilon-differentially private.

    Permute-and-flip, never worse in expectation than the exponential mechanism at the same epsilon: the
    candidates are tried in random order, i is taken with probability exp((scores[i] - max) / scale).

    Args:
        scores: Scores, shape (c,) int64, c >= 1.
        epsilon: Epsilon of the choice, > 0.
        sensitivity: Most by which one score changes between neighbouring tables.

    Returns:
        Index into ``scores``.

    Raises:
        ValueError: If epsilon is not positive and finite, or far too small, the scores are not integers, or
            there is none.
    """
    if scores.ndim != 1 or not len(scores):
        raise ValueError(f"scores must be one row of at least one score, got shape {scores.shape}")
    _, measurement = _calibrated(_noisy_max, 2, epsilon, sensitivity)
    return int(measurement(_integers(scores, "scores")))


def gaussian_counts(
    counts: npt.NDArray[np.int64], *, rho: float, squared_sensitivity: int = 2
) -> npt.NDArray[np.int64]:
    """Counts plus discrete Gaussian noise, rho-zCDP.

    P(noise = z) is proportional to exp(-z^2 / (2 scale^2)). Shifted by a whole number d, it has a divergence
    D_alpha of at most alpha d^2 / (2 scale^2) (Canonne, Kamath, Steinke 2020); the cells' noises are
    independent, so their divergences add: rho = squared_sensitivity / (2 scale^2). Noisy counts may be
    negative.

    Args:
        counts: Any shape, int64.
        rho: Rho for all counts together, > 0.
        squared_sensitivity: Most by which the counts change between neighbouring tables, in the sum of
            squares, which is a whole number. One contingency table changes by 1 in two cells if one record is
            replaced: 2. If all m records of one person are, it loses a and gains b, each m records in total
                and neither negative: |b - a|^2 <= |a|^2 + |b|^2 <= 2 m^2, as if all moved from one cell into
                another.

    Returns:
        Noisy counts in the same shape, int64; beyond its range they stop at its ends.

    Raises:
        ValueError: If rho is not positive and finite, or absurdly small, or the counts are no integers.
    """
    _, measurement = _calibrated_zcdp(_gaussian, _root_above(squared_sensitivity), rho, squared_sensitivity)
    noisy = measurement(_integers(counts, "counts").ravel())
    return np.array(noisy, dtype=np.int64).reshape(counts.shape)


def gumbel_max(scores: npt.NDArray[np.int64], *, rho: float, sensitivity: int) -> int:
    """Return the index of a candidate with a high score, rho-zCDP.

    The exponential mechanism, as the largest of the scores with Gumbel noise: i is taken with a probability
    proportional to exp(scores[i] / scale). Between neighbours, the logarithm of i's probability changes by
    (change of scores[i]) / scale and a number that is the same for all i; so these privacy losses lie in a
    range of e = 2 sensitivity / scale, and such a mechanism is (e^2 / 8)-zCDP, by Hoeffding's lemma (Cesar,
    Rogers: Bounding, Concentrating, and Truncating, 2021), a quarter of what e-DP gives in general:

        rho = sensitivity^2 / (2 scale^2).

    Arguments, result and errors as for ``noisy_max``, with rho > 0 for epsilon.
    """
    if scores.ndim != 1 or not len(scores):
        raise ValueError(f"scores must be one row of at least one score, got shape {scores.shape}")
    _, measurement = _calibrated_zcdp(_gumbel_max, sensitivity, rho, sensitivity**2)
    return int(measurement(_integers(scores, "scores")))


@cache
def gaussian_scale(*, rho: float, squared_sensitivity: int) -> float:
    """Return the scale of ``gaussian_counts``, the smallest OpenDP guarantees; about the standard deviation.

    >>> round(gaussian_scale(rho=0.25, squared_sensitivity=2), 9)
    2.0
    """
    return _calibrated_zcdp(_gaussian, _root_above(squared_sensitivity), rho, squared_sensitivity)[0]


@cache
def gumbel_max_scale(*, rho: float, sensitivity: int) -> float:
    """Return the scale of ``gumbel_max``, the smallest that OpenDP guarantees.

    >>> gumbel_max_scale(rho=0.125, sensitivity=2)
    4.0
    """
    return _calibrated_zcdp(_gumbel_max, sensitivity, rho, sensitivity**2)[0]


@cache
def laplace_scale(*, epsilon: float, sensitivity: int) -> float:
    """Return the scale of ``laplace_counts``: sensitivity over epsilon, the smallest that OpenDP guarantees.

    >>> laplace_scale(epsilon=0.5, sensitivity=2)
    4.0
    """
    return _calibrated(_laplace, 1, epsilon, sensitivity)[0]


@cache
def noisy_max_scale(*, epsilon: float, sensitivity: int) -> float:
    """Return the scale of ``noisy_max``: twice the sensitivity over epsilon, the smallest OpenDP guarantees.

    Twice, because one score may rise while the highest falls.

    >>> noisy_max_scale(epsilon=0.5, sensitivity=2)
    8.0
    """
    return _calibrated(_noisy_max, 2, epsilon, sensitivity)[0]


def split(epsilon: float, weights: Sequence[float]) -> tuple[float, ...]:
    """Split epsilon, or rho, in proportion to the weights, rounded down so the sum never exceeds it.

    >>> split(1.0, [1, 3])
    (0.25, 0.75)

    Raises:
        ValueError: If epsilon or a weight is not positive and finite, or there is no weight.
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


def _gaussian(scale: float) -> "Measurement":
    import opendp.prelude as dp

    _allow_opendp()
    # The distance is a float, for it is the root of a whole number; counts and noise are 64-bit integers.
    domain, metric = dp.vector_domain(dp.atom_domain(T=_INTEGER)), dp.l2_distance(T=float)
    return dp.m.make_gaussian(domain, metric, scale)


def _gumbel_max(scale: float) -> "Measurement":
    import opendp.prelude as dp

    _allow_opendp()
    domain, metric = dp.vector_domain(dp.atom_domain(T=_INTEGER)), dp.linf_distance(T=_INTEGER)
    return dp.m.make_noisy_max(domain, metric, dp.zero_concentrated_divergence(), scale)


def _allow_opendp() -> None:
    """Enable OpenDP's `contrib` features, which all mechanisms here are: proven on paper, not by machine.

    This is global state in OpenDP, so it is only set here and not when a module is imported.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")


def _integers(values: npt.NDArray[np.int64], name: str) -> npt.NDArray[np.int64]:
    if not np.issubdtype(values.dtype, np.signedinteger):
        raise ValueError(
            f"{name} must be signed whole numbers, got {values.dtype}: values are not rounded here"
        )
    return values.astype(np.int64, copy=False)


@lru_cache(maxsize=128)  # a method adds the same noise to many tables; a measurement keeps no data
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
    # So the epsilon of this scale is not above the requested one; OpenDP's map, which rounds up, decides.
    while (measurement := make(scale)).map(int(sensitivity)) > epsilon:  # type: ignore[no-untyped-call]  # OpenDP's
        scale = math.nextafter(scale, math.inf)
    return scale, measurement


@lru_cache(maxsize=128)  # a method adds the same noise to many tables; a measurement keeps no data
def _calibrated_zcdp(
    make: Callable[[float], "Measurement"], distance: float, rho: float, squared: int
) -> tuple[float, "Measurement"]:
    """The scale sqrt(squared / (2 rho)), on the safe side, and the measurement with it.

    distance: the root of `squared`, not below it, as input of OpenDP's map.
    """
    check_rho(rho)
    if distance < 1 or squared != int(squared):
        raise ValueError(f"sensitivity must be a whole number >= 1, got {distance}")
    exact = Fraction(int(squared)) / (2 * Fraction(rho))
    if exact > _LARGEST_SCALE**2:
        raise ValueError(f"rho must be larger for a sensitivity of {distance}: its noise has over 60 bits")
    scale, step = math.sqrt(exact), 0.0
    # The rho of this scale is not above the requested one; OpenDP's map, which rounds up, decides.
    while (
        Fraction(scale) ** 2 < exact or (measurement := make(scale)).map(distance) > rho  # type: ignore[no-untyped-call]  # OpenDP's
    ):
        step = 2 * step or math.ulp(scale)
        scale += step
    return scale, measurement


def _root_above(squared: int) -> float:
    """The root of a whole number, or the least float that is above it."""
    if squared < 1 or squared != int(squared):
        raise ValueError(f"squared_sensitivity must be a whole number >= 1, got {squared}")
    root = math.sqrt(squared)
    return root if Fraction(root) ** 2 >= squared else math.nextafter(root, math.inf)


def _check_epsilon(epsilon: float) -> None:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be > 0 and finite, got {epsilon}")
