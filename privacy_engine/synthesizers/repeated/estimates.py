"""The current table from all noisy rows so far: the linear estimate of least variance, smoothed over time.

Rows y = B x + z of a cell, z of known variance, x_1 .. x_t its counts. Without an assumption the best linear
unbiased estimate of x_t is generalized least squares; for the binary tree this is Honaker's (Efficient Use
of Differentially Private Binary Trees, 2015). Where a population changes slowly, last week's estimate says a
Use of Differentially Private Binary Trees, 2015). If a population changes slowly, last week's estimate is
informative about this week's count: with x a random walk of variance `drift` per week the estimate is
Kalman's filter. How fast a table drifts is estimated from its noisy rows: the variance under which they are
most likely, over all its cells.

All of this is post-processing: it only reads noisy rows and public numbers, and the assumptions do not affect
privacy, only the error.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRIFTS = tuple(10.0 ** (power / 2) for power in range(-12, 5))  # times the least variance of a row


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """A linear estimate of the last count.

    Attributes:
        weights: Weights of the rows, shape (m,).
        variance: Variance of the estimate, from its noise and from the drift of the counts.
    """

    weights: Floats
    variance: float


def estimate(rows: Floats, variances: Floats, drift: float = math.inf) -> Estimate:
    """The estimate of the last of t counts.

    Args:
        rows: Measured rows, shape (m, t), of rank t or, with a finite drift, of any rank >= 1.
        variances: Variances of their noise, > 0, shape (m,).
        drift: Variance of a count's change from one week to the next, > 0; infinite: nothing is assumed.

    >>> of_two = estimate(np.eye(2), np.ones(2), drift=1e-6)  # the counts hardly change: their mean
    >>> of_two.weights.round(6).tolist(), round(of_two.variance, 6)
    ([0.5, 0.5], 0.5)
    """
    unit = float(variances.min())
    scaled = rows / np.sqrt(variances / unit)[:, None]
    precision = scaled.T @ scaled
    if math.isfinite(drift):
        steps = np.diff(np.eye(rows.shape[1]), axis=0)
        precision = precision + steps.T @ steps * (unit / drift)
    last = np.linalg.solve(precision, np.eye(rows.shape[1])[-1])
    return Estimate(weights=scaled @ last * np.sqrt(unit / variances), variance=float(last[-1]) * unit)


def likely_drift(rows: Floats, variances: Floats, noisy: Floats) -> float:
    """The drift under which the noisy rows are likeliest, of those that are tried.

    The likelihood of what remains when the level of each cell is taken out (restricted maximum likelihood).

    Args:
        rows: Measured rows as weights of the t counts, shape (m, t).
        variances: Variances of the noise of the rows, > 0, shape (m,).
        noisy: Noisy cells that the rows measured, shape (m, cells).
    """
    if rows.shape[1] < 2 or len(rows) < 2:
        return math.inf
    unit = float(variances.min())
    weight = 1 / np.sqrt(variances / unit)
    level = (rows.sum(axis=1) * weight)[:, None]
    contrasts = np.linalg.svd(level)[0][:, 1:].T  # orthogonal to a constant count
    changes = contrasts @ (noisy * weight[:, None]) / math.sqrt(unit)
    walk = np.tril(np.ones((rows.shape[1], rows.shape[1])))[:, 1:]
    moved = contrasts @ (rows * weight[:, None]) @ walk
    # One decomposition serves all drifts: the covariance is I + drift * moved moved^T.
    vectors, sizes, _ = np.linalg.svd(moved)
    spread = np.zeros(len(contrasts))
    spread[: len(sizes)] = sizes**2
    squares = ((vectors.T @ changes) ** 2).sum(axis=1)
    cells = noisy.shape[1]
    fit = [
        float((squares / (1 + drift * spread)).sum() + cells * np.log1p(drift * spread).sum())
        for drift in DRIFTS
    ]
    return float(DRIFTS[int(np.argmin(fit))] * unit)
