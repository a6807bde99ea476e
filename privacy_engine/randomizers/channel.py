"""A channel: with which probability each value of a public domain is released as which.

ERRPH (Zhang and Tang 2007, section 3) is the channel ``p_0 I + 1 p^T``; Warner's randomized response and the
bounded geometric mechanism are others. Probabilities are whole multiples of 2^-53, so that sampling from
random bits has exactly the stated probabilities: epsilon is computed from those integers, not claimed.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import rounded_up
from privacy_engine.randomizers.estimation import Estimate, FloatArray, estimate_joint

BITS = 53
TOTAL = 1 << BITS  # a row's weights add up to this
LARGEST = 1 << (62 - BITS)  # most values of a domain: code * TOTAL must fit into 63 bits
SLACK = 1e-9  # how far given probabilities may be from a sum of 1
MOST_GEOMETRIC = 30.0  # epsilon beyond which 53 bits do not hold the far ends of geometric noise
WORST_CONDITION = 1e9  # of a matrix that is still inverted

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Channel:
    """A row-stochastic matrix over a public domain of k values.

    Attributes:
        labels: Values' public names, distinct, shape (k,); from the schema, never from the data.
        weights: Row i: how often, of 2^53, value i is released as each value, shape (k, k) int64.

    Raises:
        ValueError: If the labels repeat, a weight is negative, or a row does not add up to 2^53.

    >>> coin = Channel.partial_hiding(("yes", "no"), keep=0.5)
    >>> coin.matrix.tolist(), round(coin.epsilon, 6) == round(math.log(3), 6)
    ([[0.75, 0.25], [0.25, 0.75]], True)
    """

    labels: tuple[str, ...]
    weights: IntArray

    def __post_init__(self) -> None:
        k = len(self.labels)
        if not 1 <= k <= LARGEST or len(set(self.labels)) < k:
            raise ValueError(
                f"a channel must have 1 to {LARGEST} distinct labels, got {k}: use coarser values"
            )
        weights = np.array(self.weights, dtype=np.int64)
        if weights.shape != (k, k) or (weights < 0).any() or (weights.sum(axis=1) != TOTAL).any():
            raise ValueError(
                f"the weights of {k} labels must be {k} x {k}, >= 0, and each row sum to 2^{BITS}"
            )
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of_matrix(cls, labels: Sequence[str], matrix: npt.ArrayLike) -> "Channel":
        """Probabilities, each row from one true value, rounded to multiples of 2^-53.

        Raises:
            ValueError: If a probability is not in [0, 1] or a row does not sum to 1 within 1e-9.
        """
        given = np.asarray(matrix, dtype=np.float64)
        if given.shape != (len(labels), len(labels)):
            raise ValueError(f"the matrix of {len(labels)} labels must be square, got shape {given.shape}")
        if not ((given >= 0) & (given <= 1)).all() or (np.abs(given.sum(axis=1) - 1) > SLACK).any():
            raise ValueError("each row of a channel must hold probabilities that sum to 1")
        weights = np.floor(given / given.sum(axis=1, keepdims=True) * TOTAL).astype(np.int64)
        rows = np.arange(len(labels))
        weights[rows, weights.argmax(axis=1)] += TOTAL - weights.sum(axis=1)
        return cls(tuple(labels), weights)

    @classmethod
    def partial_hiding(
        cls, labels: Sequence[str], *, keep: float, spread: Sequence[float] | None = None
    ) -> "Channel":
        """ERRPH: the value itself with probability p_0, else value j with p_j whatever the true one is.

        Args:
            labels: Domain, k >= 2, shape (k,).
            keep: Probability p_0, in (0, 1).
            spread: P_j > 0, with p_0 a sum of 1, shape (k,); (1 - p_0) / k each where none are given.

        Raises:
            ValueError: If p_0 or a p_j is out of range, or they do not sum to 1.
        """
        k = len(labels)
        check_share("p_0", keep)
        others = np.full(k, (1 - keep) / k) if spread is None else np.asarray(spread, dtype=np.float64)
        if others.shape != (k,) or not (others > 0).all():
            raise ValueError(f"there must be one p_j > 0 for each of the {k} values, got {others.size}")
        if abs(keep + others.sum() - 1) > SLACK:
            raise ValueError(f"p_0 and the p_j must sum to 1, got {keep + others.sum():.9g}")
        return cls(tuple(labels), _hiding(np.floor(others * TOTAL).astype(np.int64)))

    @classmethod
    def of_epsilon(cls, labels: Sequence[str], epsilon: float) -> "Channel":
        """ERRPH with equal p_j: the most truthful one whose computed epsilon does not exceed the given one.

        Inverts epsilon = ln(1 + k p_0 / (1 - p_0)): p_j = 1 / (e^epsilon + k - 1) of being another value j.

        Raises:
            ValueError: If epsilon is not > 0 and finite.
        """
        check_epsilon(epsilon)
        k = len(labels)
        other = math.ceil(TOTAL / (math.exp(min(epsilon, BITS)) + k - 1))  # e^53 > 2^53: nothing is lost
        while _log_ratio(TOTAL - (k - 1) * other, other) > epsilon:  # the logarithm's rounding: a few steps
            other += 1
        return cls(tuple(labels), _hiding(np.full(k, other, dtype=np.int64)))

    @classmethod
    def geometric(cls, labels: Sequence[str], epsilon: float) -> "Channel":
        """Ordered values plus discrete Laplace noise of scale (k - 1) / epsilon, clamped to the domain.

        Ghosh, Roughgarden, Sundararajan 2009: Universally utility-maximizing privacy mechanisms. The scale is
        raised until the computed epsilon does not exceed the given one.

        Raises:
            ValueError: If epsilon is not > 0 and finite.
        """
        check_epsilon(epsilon)
        k = len(labels)
        slack = 0.0  # what rounding the weights to multiples of 2^-53 takes of epsilon, found by doubling
        while True:
            step = min(epsilon, MOST_GEOMETRIC) * (1 - slack) / max(k - 1, 1)
            channel = cls(tuple(labels), _geometric(k, step))
            if channel.epsilon <= epsilon:
                return channel
            slack = max(2 * slack, 1e-15)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def matrix(self) -> FloatArray:
        """(k, k) probabilities, exact: 53 bits fit into a float."""
        return np.asarray(self.weights / TOTAL, dtype=np.float64)

    @cached_property
    def epsilon(self) -> float:
        """Local differential privacy: ln of the largest ratio, over outputs, of two true values; rounded up.

        Neighbours are any two true values of one individual. Infinite where an output rules a value out.
        """
        used = self.weights[:, self.weights.max(axis=0) > 0]
        high, low = used.max(axis=0), used.min(axis=0)
        if not low.all():
            return math.inf
        worst = int(np.argmax(high / low))
        near = np.flatnonzero(high / low >= high[worst] / low[worst] * (1 - 1e-12))  # ties up to rounding
        return max(_log_ratio(int(high[j]), int(low[j])) for j in near)

    @cached_property
    def hiding(self) -> IntArray | None:
        """(k,) weights of the p_j of partial hiding; None where the channel is another one."""
        other = self.weights.min(axis=0)
        return other if len(self) > 1 and np.array_equal(self.weights, _hiding(other)) else None

    @cached_property
    def inverse(self) -> FloatArray:
        """(k, k) inverse of the matrix.

        Raises:
            ValueError: If it has none, like a channel without information.
        """
        if not np.linalg.cond(self.matrix) < WORST_CONDITION:
            raise ValueError(
                "the channel has no usable inverse: its output has (almost) no information. Raise p_0 or "
                "epsilon"
            )
        return np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)

    @cached_property
    def fingerprint(self) -> bytes:
        """(16,) bytes that differ for any two channels."""
        text = "".join(f"{len(label)}:{label}" for label in self.labels).encode()
        return hashlib.blake2b(text + b"\0" + self.weights.astype("<i8").tobytes(), digest_size=16).digest()

    def perturb(self, codes: npt.ArrayLike, words: npt.NDArray[np.uint64]) -> IntArray:
        """Release codes at random.

        Args:
            codes: True values, 0 .. k - 1, shape (n,).
            words: 64 random bits each, shape (n,); their upper 53 decide.

        Returns:
            (n,) int64 released codes.

        Raises:
            ValueError: If a code is outside the domain.
        """
        true = np.asarray(codes, dtype=np.int64)
        if true.size and not (true.min() >= 0 and true.max() < len(self)):
            raise ValueError(f"codes must be 0 .. {len(self) - 1}")
        ends = self.weights.cumsum(axis=1) + np.arange(len(self), dtype=np.int64)[:, None] * TOTAL
        at = true * TOTAL + (words >> np.uint64(64 - BITS)).astype(np.int64)
        return np.searchsorted(ends.ravel(), at, side="right") - true * len(self)

    def estimate(self, counts: npt.ArrayLike) -> Estimate:
        """The distribution of the true values from the released ones, eq. (1).

        Args:
            counts: Number of times each value was released, shape (k,).
        """
        return estimate_joint(counts, [self.inverse])

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back exactly; short for partial hiding and for noise."""
        labels = {"labels": list(self.labels)}
        if self.hiding is not None:
            return labels | {"other": self.hiding.tolist()}
        if (bands := _bands(self.weights)) is not None:
            return labels | {"bands": {name: part.tolist() for name, part in bands.items()}}
        return labels | {"weights": self.weights.tolist()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Channel":
        """Read what ``to_dict`` writes.

        Raises:
            ValueError: If it is no channel.
        """
        try:
            labels = tuple(map(str, fields["labels"]))
            if "other" in fields:
                return cls(labels, _hiding(np.array(fields["other"], dtype=np.int64)))
            if "bands" in fields:
                bands = {name: np.array(part, dtype=np.int64) for name, part in fields["bands"].items()}
                return cls(labels, _of_bands(**bands))
            return cls(labels, np.array(fields["weights"], dtype=np.int64))
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError):
            raise ValueError("a channel must have labels, and weights of whole numbers") from None


def check_share(name: str, share: float) -> None:
    """Refuse a probability that is not inside (0, 1).

    Raises:
        ValueError: Naming the parameter.
    """
    if not 0 < share < 1:
        raise ValueError(f"{name} must be in (0, 1), got {share!r}")


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is not > 0 and finite.

    Raises:
        ValueError: If so.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be > 0 and finite, got {epsilon!r}")


def _hiding(other: IntArray) -> IntArray:
    """(k, k) weights: column j has ``other[j]`` in every row but its own, which takes the rest."""
    weights = np.tile(other, (len(other), 1))
    np.fill_diagonal(weights, TOTAL - other.sum() + other)
    return weights


def _bands(weights: IntArray) -> dict[str, IntArray] | None:
    """The parts that ``_of_bands`` takes; None where the weights are not made of them."""
    if len(weights) < 4:
        return None
    bands = {
        "diagonal": weights.diagonal().copy(),
        "distances": weights[0, 1:-1],
        "first": weights[:, 0],
        "last": weights[:, -1],
    }
    return bands if np.array_equal(_of_bands(**bands), weights) else None


def _of_bands(diagonal: IntArray, distances: IntArray, first: IntArray, last: IntArray) -> IntArray:
    """(k, k) weights of clamped noise, which only depend on the distance, except in the end columns.

    Args:
        diagonal: Weights of unchanged values, with the remainder of all rounding, shape (k,).
        distances: Weights at the distances 1 .. k - 2, shape (k - 2,).
        first: First column, where all the tail below it falls, shape (k,).
        last: Last column, shape (k,).
    """
    k = len(diagonal)
    by_distance = np.concatenate([[0], distances, [0]]).astype(np.int64)
    weights: IntArray = by_distance[np.abs(np.arange(k)[:, None] - np.arange(k)[None, :])]
    np.fill_diagonal(weights, diagonal)
    weights[:, 0], weights[:, -1] = first, last
    return weights


def _geometric(k: int, step: float) -> IntArray:
    """(k, k) weights of clamped discrete Laplace noise whose ratio of neighbouring values is e^-step."""
    ratio = math.exp(-step)
    distance = np.abs(np.arange(k)[:, None] - np.arange(k)[None, :])
    inner = -math.expm1(-step) / (1 + ratio) * ratio**distance
    inner[:, [0, -1]] = ratio ** distance[:, [0, -1]] / (1 + ratio)  # all the tail beyond an end falls on it
    weights: IntArray = np.floor(inner * TOTAL).astype(np.int64)
    np.fill_diagonal(weights, 0)
    np.fill_diagonal(weights, TOTAL - weights.sum(axis=1))
    return weights


def _log_ratio(high: int, low: int) -> float:
    """ln(high / low), never below the true value; 0 for equal weights."""
    if high == low:
        return 0.0
    return math.nextafter(math.log(rounded_up(Fraction(high, low))), math.inf)
