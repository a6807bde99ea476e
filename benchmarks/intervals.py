"""A mean over runs with its 95 % interval, Student's t."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Mean:
    """A mean and half the width of its interval; NaN where one run gives none."""

    value: float
    half: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of independent runs, at least one."""
        n = len(values)
        spread = float(np.std(values, ddof=1)) if n > 1 else float("nan")
        quantile = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) if n > 1 else float("nan")
        return cls(value=float(np.mean(values)), half=quantile * spread / n**0.5, runs=n)

    @property
    def low(self) -> float:
        """Lower end; the mean itself after a single run."""
        return self.value if self.runs == 1 else self.value - self.half

    @property
    def high(self) -> float:
        """Upper end; the mean itself after a single run."""
        return self.value if self.runs == 1 else self.value + self.half

    def __str__(self) -> str:
        return f"{self.value:.3f}" if self.runs == 1 else f"{self.value:.3f} ± {self.half:.3f}"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Mean:
    """Of paired runs: what both share (the split, the test records) cancels out."""
    return Mean.of([a - b for a, b in zip(ours, theirs, strict=True)])


def signs(leads: Mapping[float, Mean]) -> str:
    """Where a paired lead is clear of zero, and where it is not."""
    parts = {
        "ahead": [e for e, lead in leads.items() if lead.low > 0],
        "tied": [e for e, lead in leads.items() if lead.low <= 0 <= lead.high],
        "behind": [e for e, lead in leads.items() if lead.high < 0],
    }
    return "; ".join(f"{word} at {_list(at)}" for word, at in parts.items() if at)


def _list(epsilons: Sequence[float]) -> str:
    return ", ".join(f"{e:g}" for e in epsilons)
