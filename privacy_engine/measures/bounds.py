"""The least and the largest value of counts and means in all tables that a release is consistent with.

A released record says of each attribute which values it may have had, and no more: any record of a class may
have any value of the class's interval or set. Suppressed records may have had any values. So of each record
it is told whether it surely meets a condition, and whether it may. Each bound is reached by some table.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The least and the largest value; NaN where there may be no record to take a mean of."""

    low: float
    high: float


def count_bounds(surely: Truths, maybe: Truths) -> Bounds:
    """How many records meet a condition.

    Args:
        surely: (n,) whether a record meets it whatever its values are.
        maybe: (n,) whether some of its values let it.

    >>> count_bounds(np.array([True, False]), np.array([True, True]))
    Bounds(low=1, high=2)
    """
    return Bounds(low=int(np.count_nonzero(surely)), high=int(np.count_nonzero(maybe)))


def mean_bounds(surely: Truths, maybe: Truths, low: Floats, high: Floats) -> Bounds:
    """The mean of a number over the records that meet a condition.

    Args:
        surely: (n,) as of ``count_bounds``.
        maybe: (n,) as of ``count_bounds``.
        low: (n,) the least number that each may have while it meets the condition.
        high: (n,) the largest.

    >>> mean_bounds(
    ...     np.array([True, False]), np.array([True, True]), np.array([2.0, 0.0]), np.array([4.0, 9.0])
    ... )
    Bounds(low=1.0, high=6.5)
    """
    below = _least_mean(low[surely], low[maybe & ~surely])
    above = _least_mean(-high[surely], -high[maybe & ~surely])
    return Bounds(low=below, high=-above)


def _least_mean(certain: Floats, optional: Floats) -> float:
    """The least mean of all of the first and any of the others, of at least one."""
    optional = np.sort(optional)
    if not len(certain):
        return float(optional[0]) if len(optional) else math.nan
    if not len(optional) or optional[0] == -math.inf:
        return -math.inf if len(optional) else float(certain.mean())
    # Each that is below the mean so far lowers it, the smallest first.
    counts = len(certain) + np.arange(len(optional) + 1)
    return float(((certain.sum() + np.append(0.0, np.cumsum(optional))) / counts).min())
