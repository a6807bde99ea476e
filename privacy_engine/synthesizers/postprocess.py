"""Noisy counts made a probability distribution: three rules, all post-processing and so free of budget.

``likely_values`` is a fourth, for single attributes. A projection only changes the counts' signs and their
sum, so that among many rare values those with luck in the noise get everything. In addition, the noise is
known, and that probabilities vary by factors, and along a scale from one value to the next by smaller ones.

The estimate is the mode of a posterior: Laplace noise, rounded off at its peak, with a Gaussian prior on
the logits z of the distribution p:

    sum_i sqrt(1 + ((p_i - t_i) / b)^2) + sum_i (z_i - mean z)^2 / (2 s^2) + sum_i (z_i+1 - z_i)^2 / (2 r^2),

t the noisy cells, b the scale of the noise, the last sum only over neighbours on a scale, s = 2 (4 if there
is a scale), r = 1.5. Spikes remain: one that exceeds the noise gains far more than the prior costs. s and r
are the same for all tables, chosen on one split of Adult.

Only noisy counts and public sizes are read here: post-processing.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.descent import descend

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RAKES = 20  # of rows and columns in turn
GRID = 1000  # IMLap-Noisy tries the thresholds i / 1000


class PostProcess(StrEnum):
    """How negative cells and a total other than n are corrected."""

    CLIP = "clip"
    THRESHOLD = "threshold"
    SIMPLEX = "simplex"


def clip_and_normalise(counts: Ints, total: int) -> Floats:
    """Negative cells become 0, the rest is scaled to sum to 1: NoisyConditionals of PrivBayes.

    Args:
        counts: Noisy counts, any shape.
        total: Public number of records, n.

    Returns:
        Probabilities in the same shape; uniform where nothing is left.

    >>> clip_and_normalise(np.array([3, -1, 1]), 4).tolist()
    [0.75, 0.0, 0.25]
    """
    return _normalised(np.maximum(counts, 0) / total)


def imlap_threshold(counts: Ints, total: int) -> Floats:
    """Cells below a threshold become 0, the rest is scaled to sum to 1: IMLap-Noisy, steps (5) to (9).

    Formula (5) of the paper is lost. Known: t = i / 1000 for a positive whole i, computed from the noisy
    table. Here t is the grid value for which the mass of the cells >= t is closest to 1, the smallest of
    equal ones, and not above the largest cell, so that at least one cell remains (without that, a table
    dominated by noise could end up empty). If the largest cell is below the grid, the result is uniform.

    Args and returns as ``clip_and_normalise``.

    Of these cells .6 and .395 have mass .995, which is nearer to 1 than 1.085: t = .091.

    >>> imlap_threshold(np.array([600, 395, 90, -85]), 1000).round(3).tolist()
    [0.603, 0.397, 0.0, 0.0]
    """
    kept = counts * float(GRID) >= chosen_threshold(counts, total) * total
    return _normalised(np.where(kept, counts / total, 0.0))


def chosen_threshold(counts: Ints, total: int) -> int:
    """i of the threshold i / 1000 of ``imlap_threshold``; 1 where no cell reaches that.

    In counts instead of probabilities: whole numbers, whose ties are ties in floating point, too.
    """
    ascending = np.sort(counts, axis=None).astype(np.float64)
    grid = np.arange(1, GRID + 1) * float(total)
    grid = grid[: max(1, np.searchsorted(grid, ascending[-1] * GRID, side="right"))]
    mass_from = np.append(np.cumsum(ascending[::-1])[::-1], 0.0)
    mass = mass_from[np.searchsorted(ascending * GRID, grid, side="left")]
    return int(np.argmin(np.abs(mass - total))) + 1


def project_to_simplex(counts: Ints | Floats, total: int) -> Floats:
    """The distribution nearest to the noisy probabilities in Euclidean distance.

    Cells are lowered (or raised) by one common amount, and stop at 0, so that the sum is 1: Duchi,
    Shalev-Shwartz, Singer, Chandra (2008), figure 1. The sum is known without noise: n is public.

    Args and returns as ``clip_and_normalise``.

    >>> project_to_simplex(np.array([4, -1, 3]), 4).tolist()
    [0.625, 0.0, 0.375]
    """
    cells = (counts / total).ravel()
    descending = np.sort(cells)[::-1]
    excess = np.cumsum(descending) - 1.0
    rank = np.arange(1, len(cells) + 1)
    last = np.flatnonzero(descending * rank > excess)[-1]
    return _normalised(np.maximum(cells - excess[last] / (last + 1), 0.0).reshape(counts.shape))


def probabilities(counts: Ints, total: int, rule: PostProcess) -> Floats:
    """Noisy counts as a distribution, by the rule."""
    return _RULES[rule](counts, total)


_RULES: Mapping[PostProcess, Callable[[Ints, int], Floats]] = {
    PostProcess.CLIP: clip_and_normalise,
    PostProcess.THRESHOLD: imlap_threshold,
    PostProcess.SIMPLEX: project_to_simplex,
}


def conditional(joint: Floats) -> Floats:
    """Pr(X | parents) from Pr(parents, X), the child on the last axis.

    If the joint distribution has nothing on a combination of parents, the child's own distribution in the
    same table is used instead: it may still be required, because the parents are drawn from other tables.
    """
    mass = joint.sum(axis=-1, keepdims=True)
    own = joint.reshape(-1, joint.shape[-1]).sum(axis=0)
    given = np.where(mass > 0, joint / np.where(mass > 0, mass, 1.0), own / own.sum())
    return np.asarray(given / given.sum(axis=-1, keepdims=True))


def _normalised(cells: Floats) -> Floats:
    mass = float(cells.sum())
    return cells / mass if mass > 0 else np.full(cells.shape, 1.0 / cells.size)


SPREAD = 2.0  # standard deviation of logits around their mean
SPREAD_ON_SCALE = 4.0  # the same where neighbours are held together
STEP = 1.5  # standard deviation of the difference of neighbours' logits
LEAST_START = 1e-6  # added to each probability that the search starts from; else the width of the noise
MOST_STEPS = 200  # of L-BFGS


def likely_values(noisy: Ints, total: int, *, scale: float, on_scale: int, step: float = STEP) -> Floats:
    """The mode of the distribution, given noisy counts.

    Args:
        noisy: Counts with discrete Laplace noise, shape (s,).
        total: Public number of records, >= 1.
        scale: Scale of the noise, in records, > 0.
        on_scale: Number of leading values that lie on a scale, each next to its neighbours.
        step: Standard deviation r of the difference of neighbours' logits.

    Returns:
        (s,) positive probabilities.

    >>> noisy = np.array([900, 40, -25, 60, 20])  # of 1000 records, noise of scale 30
    >>> likely_values(noisy, 1000, scale=30.0, on_scale=0).round(2).tolist()
    [0.89, 0.03, 0.01, 0.05, 0.02]
    """
    cells, width = noisy / total, scale / total

    def objective(z: Floats) -> tuple[float, Floats]:
        likely = _softmax(z)
        off = (likely - cells) / width
        length = np.sqrt(1 + off**2)
        slope = likely * (off / length / width)
        pull = _pull(z, on_scale, step)
        return float(length.sum() + z @ pull / 2), slope - likely * slope.sum() + pull

    start = np.log(project_to_simplex(noisy, total) + max(width, LEAST_START))
    return _softmax(descend(objective, start - start.mean(), steps=MOST_STEPS))


def _pull(z: Floats, on_scale: int, step: float) -> Floats:
    """The derivative of the prior's part of the sum; a constant added to all logits changes nothing."""
    pull = (z - z.mean()) / (SPREAD_ON_SCALE if on_scale else SPREAD) ** 2
    steps = np.diff(z[:on_scale]) / step**2
    pull[1:on_scale] += steps
    pull[: max(on_scale - 1, 0)] -= steps
    return np.asarray(pull)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def raked(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return a table of two attributes with given sums, and the odds ratios that it has.

    Iterative proportional fitting (Deming, Stephan, 1940).

    Args:
        table: Cells > 0, shape (a, b).
        rows: Sums of the rows, > 0, shape (a,).
        columns: Sums of the columns, > 0, with about the same total, shape (b,).
    """
    for _ in range(RAKES):
        table = table * (rows / table.sum(axis=1))[:, None]
        table = table * (columns / table.sum(axis=0))
    return table
