"""A number of records that was measured with noise, and its interval.

`privacy_engine.dp.contributions` releases the count less the scale of its noise, rounded up, within public
limits, and fits the model to that number of records: a random choice of the contributed ones, or all of them
and uniform ones that fill up.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

COUNTED = ("number of rows", "number of persons")  # targets in the books


@dataclass(frozen=True, kw_only=True)
class NoisyNumber:
    """The number of records of a model, and the noise in it.

    Attributes:
        released: Number of records that the model was fitted to.
        mechanism: `discrete_laplace` or `discrete_gaussian`.
        scale: Scale of the noise, in records.
        least: Least number that public figures allow, in records.
        most: Largest one; None where nothing public bounds it.
    """

    released: int
    mechanism: str
    scale: float
    least: int = 0
    most: int | None = None

    @property
    def value(self) -> float:
        """The measured number of records, within public limits."""
        return self._possible(self.released + math.ceil(self.scale))

    def interval(self, level: float) -> tuple[float, float]:
        """Least and largest number of records contributed, with at least the chance `level` in (0, 1).

        A released number that was raised to `least` means that the measured one is no larger, and one that
        was lowered to `most` that it is no smaller, so the interval covers these cases as well.
        """
        measured = self.released + math.ceil(self.scale)
        reach = self._reach(level)
        return self._possible(measured - reach), self._possible(measured + reach)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "NoisyNumber":
        """Read what ``to_dict`` writes."""
        return cls(**fields)

    def _reach(self, level: float) -> int:
        """The least q with P(|noise| > q) <= 1 - level."""
        if self.mechanism == "discrete_gaussian":
            from scipy.special import ndtri

            # Its tails are no heavier than those of a normal deviate that is rounded away from 0.
            return math.ceil(float(ndtri((1 + level) / 2)) * self.scale) + 1
        # P(|X| > q) = 2 p^(q + 1) / (1 + p) with p = exp(-1 / scale).
        p = math.exp(-1 / self.scale)
        return max(0, math.ceil(-self.scale * math.log((1 - level) * (1 + p) / 2) - 1))

    def _possible(self, number: float) -> float:
        return max(self.least, number if self.most is None else min(number, self.most))
