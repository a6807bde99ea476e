"""Scales of numbers with public bounds: edges of bins that are equal in width or in the logarithm.

Position of a value x on the logarithmic scale, by the bounds only:

    bounds that contain 0:   sign(x) log(1 + |x|)      in units of 1: below that, about linear
    bounds above 0:          log x
    bounds below 0:         -log -x

So the positions ascend with the values. Zero has a separate bin if the bounds contain it, next to the bins of
the positive and of the negative values, each of which lie on one side of it.
"""

from enum import StrEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bounds = tuple[float, float]

DEFAULT_BINS = 16  # bins of a numeric attribute without a number of bins in the schema
SMALLEST = 5e-324  # the positive float next to 0: end of the bin of a real 0
SMALL = 100.0  # unit of width of bounds around 0, or near it; of others, the bound that is nearer to 0
BROAD = 2500.0  # units between bounds from which on they are wide
WIDE = 100.0  # units that an equal bin may be wide even then
FINE = 128  # bins of the public grid whose noisy counts give quantiles


class Scale(StrEnum):
    """How the bins of a number lie between its bounds."""

    LINEAR = "linear"
    LOG = "log"
    QUANTILES = "quantiles"


def are_wide(bounds: Bounds, bins: int) -> bool:
    """Whether bins of equal width cannot distinguish most values that such bounds suggest.

    In units of the bound that is nearer to 0, or of `SMALL` if that is more: the bounds are more than `BROAD`
    apart, and an equal bin is more than `WIDE` wide.

    >>> are_wide((0, 100_000), 16), are_wide((0, 1_000_000), 16), are_wide((12_000, 1_500_000), 16)
    (False, True, False)
    """
    low, high = bounds
    nearest = min(abs(low), abs(high)) if low * high > 0 else 0.0
    unit = max(nearest, SMALL)
    return high - low > BROAD * unit and (high - low) / bins > WIDE * unit


def positions(values: Floats, bounds: Bounds) -> Floats:
    """Return the positions of some values on the logarithmic scale of the bounds."""
    size = np.abs(values)
    if bounds[0] <= 0 <= bounds[1]:
        return np.asarray(np.sign(values) * np.log1p(size))
    return np.asarray(np.sign(values) * np.log(size))


def values_at(places: Floats, bounds: Bounds) -> Floats:
    """Return the values at some positions: the inverse of `positions`."""
    if bounds[0] <= 0 <= bounds[1]:
        return np.asarray(np.sign(places) * np.expm1(np.abs(places)))
    return np.asarray(np.exp(places) if bounds[0] > 0 else -np.exp(-places))


def log_width(bounds: Bounds, bins: int) -> float:
    """Return the factor between the ends of one of a number of bins that are equal in the logarithm.

    >>> round(log_width((1, 10_000), 4))
    10
    """
    low, high = positions(np.array(bounds, dtype=np.float64), bounds)
    return float(np.exp((high - low) / bins))


def log_edges(bounds: Bounds, bins: int, *, whole: bool) -> Floats:
    """Return edges of bins that are equal on the logarithmic scale, ascending.

    Args:
        bounds: Smallest and largest value; for whole numbers, the largest plus 1.
        bins: Number of bins, in addition to that of zero; less if whole numbers lie closer.
        whole: Whether values are whole numbers.

    >>> log_edges((1, 10_000), 4, whole=False).round(6).tolist()
    [1.0, 10.0, 100.0, 1000.0, 10000.0]
    >>> log_edges((0, 1000), 3, whole=True).tolist()
    [0.0, 1.0, 15.0, 126.0, 1000.0]
    """
    low, high = bounds
    if high == 0 and not whole:
        return np.append(_side(low, -SMALLEST, bins, bounds, whole=False), 0.0)
    if not low <= 0 < high:
        return _side(low, high, bins, bounds, whole=whole)
    first = 1.0 if whole else SMALLEST
    below, above = -positions(np.array([low, high]), bounds)[0], positions(np.array([high]), bounds)[0]
    sides = [np.array([0.0])]
    on_left = min(max(round(bins * below / (below + above)), 1), max(bins - 1, 1)) if low < 0 else 0
    if low < 0:
        sides.insert(0, _side(low, 0.0, on_left, bounds, whole=whole)[:-1])
    if high > first:
        sides.append(_side(first, high, max(bins - on_left, 1), bounds, whole=whole))
    else:
        sides.append(np.array([high]))
    return np.concatenate(sides)


def _side(low: float, high: float, bins: int, bounds: Bounds, *, whole: bool) -> Floats:
    ends = positions(np.array([low, high]), bounds)
    edges = values_at(np.linspace(ends[0], ends[1], bins + 1), bounds)
    if whole:
        edges = np.ceil(edges - 1e-9 * np.abs(edges))
    edges[0], edges[-1] = low, high
    return np.unique(np.clip(edges, low, high))


def sides_of(edges: Floats) -> list[slice]:
    """The bins of negative values, and those of positive ones; without that of zero.

    >>> sides_of(np.array([-5.0, -1.0, 0.0, 1.0, 7.0, 40.0]))
    [slice(0, 2, None), slice(3, 5, None)]
    """
    low, high = edges[:-1], edges[1:]
    zero = np.flatnonzero(((low == 0) & np.isin(high, [1.0, SMALLEST])) | ((high == 0) & (low == -SMALLEST)))
    if not len(zero):
        return [slice(0, len(low))]
    at = int(zero[0])
    return [side for side in (slice(0, at), slice(at + 1, len(low))) if side.stop > side.start]
