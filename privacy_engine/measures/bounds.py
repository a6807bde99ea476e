"""The smallest and the largest value of counts and means in all tables consistent with a release.

A released record states for each attribute the values that it may have had, and nothing more: any record of a
class may have any value of the class's interval or set. Suppressed records may have had any values. So each
record surely meets a condition, or may meet it. Each bound is reached by some table.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The smallest and the largest value; NaN if there may be no record for a mean."""

    low: float
    high: float


def count_bounds(surely: Truths, maybe: Truths) -> Bounds:
    """How many records meet a condition.

    Args:
        surely: Whether a record meets it whatever its values are, shape (n,).
        maybe: Whether some of its values let it, shape (n,).

    >>> count_bounds(np.array([True, False]), np.array([True, True]))
    Bounds(low=1, high=2)
    """
    return Bounds(low=int(np.count_nonzero(surely)), high=int(np.count_nonzero(maybe)))


def mean_bounds(surely: Truths, maybe: Truths, low: Floats, high: Floats) -> Bounds:
    """The mean of a number over the records that meet a condition.

    Args:
        surely: Whether a record meets the condition whatever its values are, shape (n,).
        maybe: Whether some of its values let it meet the condition, shape (n,).
        low: Least number that each may have while it meets the condition, shape (n,).
        high: Largest, shape (n,).

    >>> mean_bounds(
    ...     np.array([True, False]), np.array([True, True]), np.array([2.0, 0.0]), np.array([4.0, 9.0])
    ... )
    Bounds(low=1.0, high=6.5)
    """
    below = _least_mean(low[surely], low[maybe & ~surely])
    above = _least_mean(-high[surely], -high[maybe & ~surely])
    return Bounds(low=below, high=-above)


def _least_mean(certain: Floats, optional: Floats) -> float:
    """Return the least mean of all first values and any number of the others, of at least one value."""
    optional = np.sort(optional)
    if not len(certain):
        return float(optional[0]) if len(optional) else math.nan
    if not len(optional) or optional[0] == -math.inf:
        return -math.inf if len(optional) else float(certain.mean())
    # Each that is below the mean so far lowers it, the smallest first.
    counts = len(certain) + np.arange(len(optional) + 1)
    return float(((certain.sum() + np.append(0.0, np.cumsum(optional))) / counts).min())
