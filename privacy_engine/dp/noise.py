"""The noise of a release, in pure epsilon or in rho of zCDP, with one interface.

An algorithm is written once. It splits what it may spend into parts, adds noise to tables and chooses by
scores with a part each, and computes the size of a part's noise. Its noise budget knows whether a part is of
epsilon (discrete Laplace noise, permute-and-flip) or of rho (discrete Gaussian noise, Gumbel noise).

    noise = NoiseBudget.of(loss)                            # PrivacyLoss without rho: pure; with rho: zCDP
    first, rest = split(noise.whole, [1, 3])                # parts of epsilon or of rho alike
    noisy = noise.add(counts, first, Change.of_table(coded.each), target="age, sex")
    best = noise.choose(scores, part, by=sensitivity, targets=["age", "sex"])
    noise.scale(first, Change.of_table(coded.each))         # of that noise; and its deviation(...)
    noise.left, noise.spends                                # what further parts may spend; the books

The noise of a part differs: ``scale`` is proportional to part ** (-1 / power), with power 1 for
epsilon and 2 for rho. So p equal parts make the noise p ** (1 / power) times as large, and noise that may be
g times as large costs g ** -power of the part. The parts of tables with s cells each that have the least
summed error, s times scale, are proportional to s ** (power / (power + 1)).

Parts may be chosen on the way, from noisy results: parts of either kind add, as long as they never exceed the
whole, which was fixed before (pure epsilon: Rogers, Roth, Ullman, Vadhan: Privacy Odometers and Filters,
2016; zCDP: see ``privacy_engine.dp.zcdp``). A budget here checks this, exactly, before it draws anything.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import PrivacyLoss, rounded_down
from privacy_engine.dp.mechanisms import (
    gaussian_counts,
    gaussian_scale,
    gumbel_max,
    gumbel_max_scale,
    laplace_counts,
    laplace_scale,
    noisy_max,
    noisy_max_scale,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Change:
    """The largest change of counts between neighbouring tables, as a number of counts and their change.

    Attributes:
        counts: Number of counts that change, >= 1.
        by: Change of each, a whole number >= 1.

    >>> Change.of_table(3)
    Change(counts=2, by=3)
    >>> Change.of_table(3).summed, Change.of_table(3).squared
    (6, 18)
    """

    counts: int
    by: int

    @classmethod
    def of_table(cls, each: int) -> "Change":
        """Return the change of a table of counts if the ``each`` records of one person are replaced.

        The worst case is all of them moving from one cell to another: sums of absolute values by the triangle
        inequality, of squares since |b - a|^2 <= |a|^2 + |b|^2 where nothing is negative.
        """
        return cls(counts=2, by=each)

    @classmethod
    def of_count(cls, each: int) -> "Change":
        """Return the change of one count of records if the ``each`` records of one person are replaced."""
        return cls(counts=1, by=each)

    @property
    def summed(self) -> int:
        """In sum of absolute values."""
        return self.counts * self.by

    @property
    def squared(self) -> int:
        """In sum of squares."""
        return self.counts * self.by**2


class NoiseBudget(ABC):
    """The loss that a release may spend on noise and has spent: ``PureNoise`` or ``GaussianNoise``.

    Attributes:
        whole: Epsilon or rho that it may spend.
        spends: Mechanisms that were run, in order.
        unit: Unit of a part, ``epsilon`` or ``rho``.
        power: Exponent of the scale, see above.
    """

    unit: ClassVar[str]
    power: ClassVar[int]
    mechanism: ClassVar[str]  # in the books
    deviations: ClassVar[float]  # standard deviation of the noise, in its scale
    errors: ClassVar[float]  # mean size of the noise, in its scale

    def __init__(self, whole: float) -> None:
        self.whole = whole
        self.spends: list[Spend] = []
        self._left = Fraction(whole)

    @staticmethod
    def of(loss: PrivacyLoss) -> "NoiseBudget":
        """Return the budget of a release that claims a loss: its rho, or its pure epsilon.

        Raises:
            ValueError: If it has a delta and no rho, from which no noise follows.
        """
        if loss.rho is not None:
            return GaussianNoise(loss.rho)
        if loss.delta:
            raise ValueError(f"a loss with delta {loss.delta} must have a rho, see PrivacyLoss.within")
        return PureNoise(loss.epsilon)

    @property
    def left(self) -> float:
        """Return what further parts may spend together, rounded down."""
        return rounded_down(self._left)

    def add(self, counts: Ints, part: float, change: Change, *, target: str) -> Ints:
        """Return noisy counts in the same shape.

        Args:
            counts: Any shape, int64.
            part: Part of the budget to spend.
            change: Change of all counts together.
            target: Attributes that are measured, for the books.

        Raises:
            ValueError: If no such part is left, or the counts are no integers. Nothing was drawn then.
        """
        scale = self.scale(part, change)
        self._take(part)
        noisy = self._noisy(counts, part, change)
        self.spends.append(self._spend(self.mechanism, target, part, self._sensitivity(change), scale))
        return noisy

    def choose(self, scores: Ints, part: float, *, by: int, targets: Sequence[str]) -> int:
        """Return the index of a candidate with a high score.

        Args:
            scores: Scores, shape (c,) int64, c >= 1.
            part: Part of the budget to spend.
            by: Most by which one score changes between neighbouring tables.
            targets: Attributes of each candidate, for the books, which record the chosen one.

        Raises:
            ValueError: If no such part is left, the scores are not integers, or there are none. Nothing was
                drawn then.
        """
        scale = self.scale_of_choice(part, by=by)
        self._take(part)
        chosen = self._chosen(scores, part, by)
        self.spends.append(self._spend("noisy_max", targets[chosen], part, by, scale))
        return chosen

    def deviation(self, part: float, change: Change) -> float:
        """Return the approximate standard deviation of a part's noise on each count."""
        return self.deviations * self.scale(part, change)

    def mean_error(self, part: float, change: Change) -> float:
        """Return the approximate mean size of a part's noise on each count."""
        return self.errors * self.scale(part, change)

    @abstractmethod
    def scale(self, part: float, change: Change) -> float:
        """Return the scale of a part's noise on each count."""

    @abstractmethod
    def scale_of_choice(self, part: float, *, by: int) -> float:
        """Return the scale of a part's noise in a choice: scores lower by it are about e times less likely.

        Raises:
            ValueError: If the part is too small for any choice.
        """

    @abstractmethod
    def imitated(self, rng: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Floats:
        """Draw numbers distributed approximately as noise with a standard deviation; they hide nothing."""

    @abstractmethod
    def _sensitivity(self, change: Change) -> int: ...

    @abstractmethod
    def _noisy(self, counts: Ints, part: float, change: Change) -> Ints: ...

    @abstractmethod
    def _chosen(self, scores: Ints, part: float, by: int) -> int: ...

    def _take(self, part: float) -> None:
        if Fraction(part) > self._left:
            raise ValueError(
                f"noise must not spend more than the whole: {self.unit} {part} was requested, but "
                f"{self.left} of "
                f"{self.whole} is left"
            )
        self._left -= Fraction(part)

    def _spend(self, mechanism: str, target: str, part: float, sensitivity: int, scale: float) -> Spend:
        fields: dict[str, Any] = {self.unit: part}
        return Spend(mechanism=mechanism, target=target, sensitivity=sensitivity, scale=scale, **fields)


class PureNoise(NoiseBudget):
    """Noise of a release of pure epsilon: discrete Laplace noise, permute-and-flip."""

    unit = "epsilon"
    power = 1
    mechanism = "discrete_laplace"
    deviations = math.sqrt(2)
    errors = 1.0

    def scale(self, part: float, change: Change) -> float:
        """Return the scale of the discrete Laplace noise."""
        return laplace_scale(epsilon=part, sensitivity=change.summed)

    def scale_of_choice(self, part: float, *, by: int) -> float:
        """Of permute-and-flip."""
        return noisy_max_scale(epsilon=part, sensitivity=by)

    def imitated(self, rng: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Floats:
        """Laplace noise."""
        return rng.laplace(scale=deviation / math.sqrt(2), size=shape)

    def _sensitivity(self, change: Change) -> int:
        return change.summed

    def _noisy(self, counts: Ints, part: float, change: Change) -> Ints:
        return laplace_counts(counts, epsilon=part, sensitivity=change.summed)

    def _chosen(self, scores: Ints, part: float, by: int) -> int:
        return noisy_max(scores, epsilon=part, sensitivity=by)


class GaussianNoise(NoiseBudget):
    """Noise of a zCDP release: discrete Gaussian noise, Gumbel noise."""

    unit = "rho"
    power = 2
    mechanism = "discrete_gaussian"
    deviations = 1.0
    errors = math.sqrt(2 / math.pi)

    def scale(self, part: float, change: Change) -> float:
        """Return the scale of the discrete Gaussian noise."""
        return gaussian_scale(rho=part, squared_sensitivity=change.squared)

    def scale_of_choice(self, part: float, *, by: int) -> float:
        """Return the scale of the Gumbel noise."""
        return gumbel_max_scale(rho=part, sensitivity=by)

    def imitated(self, rng: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Floats:
        """Gaussian noise."""
        return rng.normal(scale=deviation, size=shape)

    def _sensitivity(self, change: Change) -> int:
        return change.squared

    def _noisy(self, counts: Ints, part: float, change: Change) -> Ints:
        return gaussian_counts(counts, rho=part, squared_sensitivity=change.squared)

    def _chosen(self, scores: Ints, part: float, by: int) -> int:
        return gumbel_max(scores, rho=part, sensitivity=by)
