"""Randomized numbers and the moments of the true ones: TRR, bounded noise or bins on a grid, and no noise.

Each of them gives, for a released value, unbiased *scores* of the true x and of its square. The mean of the
scores is an unbiased mean of x; everything that is learned from released numbers adds up such scores.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from privacy_engine.randomizers.channel import Channel, IntArray
from privacy_engine.randomizers.estimation import FloatArray


class NumericMechanism(Protocol):
    """How a number was released."""

    def scores(self, released: FloatArray, centre: float = 0.0) -> FloatArray:
        """(n, 2) scores whose means, given the true x, are x - centre and (x - centre)^2.

        A centre near the mean of x keeps digits that squaring would lose.
        """

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``numeric_from_dict`` reads back."""


@dataclass(frozen=True, kw_only=True)
class Transformation:
    """TRR (Zhang and Tang 2007, section 4): y = a x + b, a and b drawn for each record.

    The paper draws from finite sets A and B. Here they are normal distributions, drawn from afresh for each
    record: from a known, or discovered, finite set, x can be computed from the digits of y. Not
    differentially private: the spread of a x shrinks as x approaches 0, so no ratio bounds what y reveals
    about x.

    Attributes:
        a_mean, a_variance: Moments of A; the mean is not 0, or the mean of x could not be recovered.
        b_mean, b_variance: Moments of B.

    Raises:
        ValueError: If a number is not finite, the mean of A is 0, a variance is negative, or both are 0.
    """

    a_mean: float = 1.0
    a_variance: float = 1.0
    b_mean: float = 0.0
    b_variance: float = 1.0

    def __post_init__(self) -> None:
        for name in ("a_mean", "a_variance", "b_mean", "b_variance"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
        if self.a_mean == 0:
            raise ValueError("a_mean must not be 0: the mean of the true values could not be reconstructed")
        if self.a_variance < 0 or self.b_variance < 0 or self.a_variance + self.b_variance == 0:
            raise ValueError("a_variance and b_variance must be >= 0 and not both 0: nothing would be hidden")

    def transform(self, values: FloatArray, words: npt.NDArray[np.uint64]) -> FloatArray:
        """(n,) released values.

        Args:
            values: True ones, shape (n,).
            words: 64 random bits for a and for b each, shape (n, 2).
        """
        from scipy.special import ndtri

        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        a = self.a_mean + math.sqrt(self.a_variance) * ndtri(uniform[:, 0])
        b = self.b_mean + math.sqrt(self.b_variance) * ndtri(uniform[:, 1])
        return np.asarray(a * values + b)

    def scores(self, released: FloatArray, centre: float = 0.0) -> FloatArray:
        """(n, 2) unbiased scores, eqs. (2) and (3) record by record.

        With z = y - b - a c and x' = x - c: E z = a x' and
        E z^2 = (s_A^2 + a^2) x'^2 + 2 c s_A^2 x' + c^2 s_A^2 + s_B^2.
        """
        z = released - self.b_mean - self.a_mean * centre
        first = z / self.a_mean
        rest = self.a_variance * centre * (2 * first + centre) + self.b_variance
        return np.stack([first, (z**2 - rest) / (self.a_variance + self.a_mean**2)], axis=-1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        numbers = ("a_mean", "a_variance", "b_mean", "b_variance")
        return {"mechanism": "transformation", **{name: getattr(self, name) for name in numbers}}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A numeric attribute on equally spaced public points, released through a channel over them.

    Attributes:
        low, high: First and the last point.
        channel: Over the points.
        laplace: Epsilon of the discrete Laplace noise whose distribution the channel has; None for another
            channel.
    """

    low: float
    high: float
    channel: Channel
    laplace: float | None = None

    @cached_property
    def points(self) -> FloatArray:
        """(k,) the public points."""
        return np.linspace(self.low, self.high, len(self.channel))

    def codes(self, values: FloatArray) -> IntArray:
        """(n,) the nearest point of each value."""
        at = np.rint((values - self.low) / (self.high - self.low) * (len(self.channel) - 1))
        return np.clip(at, 0, len(self.channel) - 1).astype(np.int64)

    def scores(self, released: FloatArray, centre: float = 0.0) -> FloatArray:
        """(n, 2) unbiased scores: the inverse channel applied to x and x^2 on the points."""
        points = self.points - centre
        table = self.channel.inverse @ np.stack([points, points**2], axis=-1)
        return np.asarray(table[self.codes(released)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        numbers = {"low": self.low, "high": self.high, "laplace": self.laplace}
        return {"mechanism": "grid", **numbers, "channel": self.channel.to_dict()}


@dataclass(frozen=True)
class Plain:
    """A number that is released unchanged."""

    def scores(self, released: FloatArray, centre: float = 0.0) -> FloatArray:
        """(n, 2) x - centre and its square."""
        inside = released - centre
        return np.stack([inside, inside**2], axis=-1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"mechanism": "none"}


def numeric_from_dict(fields: Mapping[str, Any]) -> NumericMechanism:
    """Read what ``to_dict`` writes.

    Raises:
        ValueError: If it is no numeric mechanism.
    """
    numbers = {name: value for name, value in fields.items() if name not in ("mechanism", "channel")}
    try:
        if fields.get("mechanism") == "none":
            return Plain()
        if fields.get("mechanism") == "transformation":
            return Transformation(**numbers)
        if fields.get("mechanism") == "grid":
            return Grid(**numbers, channel=Channel.from_dict(fields["channel"]))
    except (KeyError, TypeError):
        raise ValueError("a numeric mechanism must have all its numbers") from None
    raise ValueError("mechanism must be one of ['none', 'transformation', 'grid']")


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Mean and variance of true values, reconstructed from released ones.

    Attributes:
        mean, variance: Unbiased moments; ``variance`` is 0 if the unbiased one is negative.
        mean_error, variance_error: Standard errors, over populations.
        floored: Whether the variance had to be floored: there are too few records for that much noise.
    """

    mean: float
    variance: float
    mean_error: float
    variance_error: float
    floored: bool = field(default=False)


def moments(mechanism: NumericMechanism, released: FloatArray) -> Moments:
    """Moments of a column; standard errors by the delta method.

    The square of the estimated mean is too large by the mean's own variance, which is subtracted as in the
    paper's proof; with scores of TRR this is eq. (3).

    Args:
        mechanism: Mechanism that released the column.
        released: N >= 2, shape (n,).

    Raises:
        ValueError: For fewer than two records.
    """
    n = len(released)
    if n < 2:
        raise ValueError(f"moments need at least 2 records, got {n}")
    centre = float(mechanism.scores(released).mean(axis=0)[0])
    first, second = mechanism.scores(released, centre).T
    mean = first.mean()
    of_mean = first.var(ddof=1) / n
    variance = second.mean() - mean**2 + of_mean
    influence = second - 2 * mean * first  # of one record on the variance
    return Moments(
        mean=float(mean + centre),
        variance=float(max(variance, 0.0)),
        mean_error=float(math.sqrt(of_mean)),
        variance_error=float(influence.std(ddof=1) / math.sqrt(n)),
        floored=bool(variance < 0),
    )
