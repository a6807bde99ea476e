"""The noisy table of a large attribute and the attribute that it depends on, read as far as noise allows.

Three ways to read a table of many cells, of which most are noise:

    function    each value of the large attribute has one value of the other in nearly all of its records:
                its largest cell
    cells       cells that clearly exceed independence, and of the remainder the singular vectors that exceed
                those of noise, shrunk (Gavish, Donoho: Optimal Shrinkage of Singular Values, 2017)
    groups      groups of values whose records have the other attribute distributed alike

A cell is clear above the least threshold that ten times as many cells exceed upwards as downwards: noise is
symmetric, so what is below independence by as much shows how many cells noise alone lifts (Barber, Candes:
Controlling the False Discovery Rate via Knockoffs, 2015).

Only noisy tables and public sizes are read here: post-processing.
"""

import math

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.postprocess import raked

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_CELL = 1e-9  # records of a cell where it divides
FALSE = 0.1  # share of the clear cells that may be noise
SURE = 6.0  # standard deviations of noise from which on a largest cell shows if it is the only one
TOLERANCE = 0.01  # share of the records that may be exceptions to a function
CLEAR = 2.0  # standard deviations of noise that exceptions may lie above that
APART = 1.0  # standard deviations by which the largest cell of a value must exceed the next one
STARTS, MOVES = 8, 25  # of the search for groups


def clear_cells(off: Floats) -> npt.NDArray[np.bool_]:
    """Cells that exceed independence by more than noise explains.

    Args:
        off: Difference of each noisy cell from independence, any shape.

    >>> off = np.array([*range(-9, 10), *[50] * 20])
    >>> int(clear_cells(off).sum())  # and one of noise
    21
    """
    sizes = np.sort(np.abs(off), axis=None)
    above = np.sort(off[off > 0], axis=None)
    below = np.sort(-off[off < 0], axis=None)
    exceed = len(above) - np.searchsorted(above, sizes, side="right")
    false = 1 + len(below) - np.searchsorted(below, sizes, side="right")
    allowed = np.flatnonzero(false <= FALSE * exceed)
    return off > sizes[allowed[0]] if len(allowed) else np.zeros(off.shape, dtype=np.bool_)


def low_rank(off: Floats, deviation: float) -> Floats:
    """The part of a matrix that noise of a standard deviation does not explain, nearest in sum of squares.

    A singular value of y sqrt(n) standard deviations, n the longer side and b <= 1 the ratio of the sides, is
    shrunk to sqrt((y^2 - b - 1)^2 - 4 b) / y times that, and to 0 up to y = 1 + sqrt(b).
    """
    left, values, right = np.linalg.svd(off, full_matrices=False)
    ratio, unit = min(off.shape) / max(off.shape), deviation * math.sqrt(max(off.shape))
    y = values / unit
    seen = y > 1 + math.sqrt(ratio)
    inner = np.where(seen, (y**2 - ratio - 1) ** 2 - 4 * ratio, 0.0)
    shrunk = unit * np.sqrt(np.maximum(inner, 0.0)) / np.maximum(y, LEAST_CELL)
    return np.asarray((left * shrunk) @ right)


def readable_cells(noisy: Ints, rows: Floats, columns: Floats, deviation: float) -> Floats:
    """(a, b) counts >= 0 of a pair: independence, the clear cells, and the low rank of the remainder.

    Args:
        noisy: Counts of the pair, shape (a, b).
        rows: Counts of the first attribute that the result has, > 0, shape (a,).
        columns: Counts of the second, > 0, with about the same sum, shape (b,).
        deviation: Standard deviation of the noise of a cell.
    """
    clear = clear_cells(noisy - np.multiply.outer(rows, columns) / rows.sum())
    known = np.where(clear, noisy, 0)
    left = [np.maximum(of - known.sum(axis=1 - axis), LEAST_CELL) for axis, of in enumerate((rows, columns))]
    expected = np.multiply.outer(*left) / math.sqrt(left[0].sum() * left[1].sum())
    rest = low_rank(np.where(clear, 0.0, noisy - expected), deviation)
    cells = np.maximum(np.where(clear, noisy, expected + rest), LEAST_CELL)
    return raked(cells, rows, columns)


def is_function(noisy: Ints, deviation: float) -> bool:
    """Whether values with many records nearly all have one value of the other attribute.

    Args:
        noisy: Counts of the pair, shape (a, b).
        deviation: Standard deviation of the noise of a cell.
    """
    largest = noisy.max(axis=1, initial=0)
    sure = largest > SURE * deviation
    if not sure.any():
        return False
    records = noisy[sure].sum()
    exceptions = records - largest[sure].sum()
    chance = deviation * math.sqrt(sure.sum() * (noisy.shape[1] - 1))
    return bool(exceptions <= TOLERANCE * records + CLEAR * chance)


def is_sure(noisy: Ints, deviation: float) -> npt.NDArray[np.bool_]:
    """(a,) whether the largest cell of a value clearly exceeds its next one."""
    if noisy.shape[1] < 2:
        return np.ones(len(noisy), dtype=np.bool_)
    second, first = np.partition(noisy, -2, axis=1)[:, -2:].T
    return np.asarray(first - second > APART * deviation)


def alike(noisy: Ints, counts: Floats, deviation: float, most: int, rng: np.random.Generator) -> Ints:
    """(a,) groups of values whose records have the other attribute distributed alike, 0 .. groups - 1.

    The means of ``most`` groups, weighted by the precision of each value's distribution (Lloyd's algorithm);
    the best of several starts (Arthur, Vassilvitskii: k-means++, 2007).

    Args:
        noisy: Counts of the pair, shape (a, b).
        counts: Counts of the large attribute's values, > 0, shape (a,).
        deviation: Standard deviation of the noise of a cell.
        most: Largest number of groups, >= 1.
        rng: Draws the starts; it does not affect privacy.
    """
    shares = noisy / counts[:, None]
    weights = counts**2 / (deviation**2 + counts / noisy.shape[1])
    best, found = math.inf, np.zeros(len(noisy), dtype=np.int64)
    for _ in range(STARTS if len(noisy) > 1 else 0):
        means = _start(shares, weights, min(most, len(noisy)), rng)
        for _ in range(MOVES):
            nearest = _distances(shares, means).argmin(axis=1)
            mass = np.bincount(nearest, weights, len(means))
            sums = np.zeros_like(means)
            np.add.at(sums, nearest, weights[:, None] * shares)
            means = np.where(mass[:, None] > 0, sums / np.maximum(mass, LEAST_CELL)[:, None], means)
        cost = float((weights * _distances(shares, means).min(axis=1)).sum())
        if cost < best:
            best, found = cost, nearest
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _start(shares: Floats, weights: Floats, most: int, rng: np.random.Generator) -> Floats:
    chosen = [int(rng.choice(len(shares), p=weights / weights.sum()))]
    far = _distances(shares, shares[chosen])[:, 0]
    while len(chosen) < most and (mass := weights * far).sum() > 0:
        chosen.append(int(rng.choice(len(shares), p=mass / mass.sum())))
        far = np.minimum(far, _distances(shares, shares[chosen[-1:]])[:, 0])
    return shares[chosen].copy()


def _distances(shares: Floats, means: Floats) -> Floats:
    squares = (shares**2).sum(axis=1)[:, None] - 2 * shares @ means.T + (means**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))
