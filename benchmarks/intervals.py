"""A mean over runs with its 95 % interval, Student's t, where there are runs enough for one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95
LEAST_RUNS = 3  # of two runs, Student's t is 12.7: an interval that says nothing


@dataclass(frozen=True)
class Mean:
    """A mean and half the width of its interval; NaN where there are fewer runs than one is made of."""

    value: float
    half: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of independent runs, at least one."""
        n = len(values)
        if n < LEAST_RUNS:
            return cls(value=float(np.mean(values)), half=float("nan"), runs=n)
        spread, quantile = float(np.std(values, ddof=1)), float(stats.t.ppf((1 + LEVEL) / 2, n - 1))
        return cls(value=float(np.mean(values)), half=quantile * spread / n**0.5, runs=n)

    @property
    def low(self) -> float:
        """Lower end; the mean itself where there is no interval."""
        return self.value if math.isnan(self.half) else self.value - self.half

    @property
    def high(self) -> float:
        """Upper end; the mean itself where there is no interval."""
        return self.value if math.isnan(self.half) else self.value + self.half

    def __str__(self) -> str:
        return self.shown()

    def shown(self, digits: int = 3, scale: float = 1.0) -> str:
        """The mean times ``scale``, with its interval where there is one.

        >>> Mean(0.5, 0.1, 3).shown(1, 100.0), Mean(0.5, float("nan"), 2).shown(1, 100.0)
        ('50.0 ± 10.0', '50.0')
        """
        mean = f"{scale * self.value:.{digits}f}"
        return mean if math.isnan(self.half) else f"{mean} ± {scale * self.half:.{digits}f}"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Mean:
    """Of paired runs: what both share (the split, the test records) cancels out."""
    return Mean.of([a - b for a, b in zip(ours, theirs, strict=True)])
