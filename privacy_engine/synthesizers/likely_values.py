"""The likely distribution of one attribute, from a noisy count of each of its values.

A projection (``postprocess``) takes the counts as they are but for their signs and their sum, so that among
many rare values those with luck in the noise get everything. What is known besides: the noise, and that
probabilities vary by factors, and along a scale from one value to the next by smaller ones.

The estimate is the mode of a posterior: Laplace noise, rounded off at its peak, with a Gaussian prior on
the logits z of the distribution p:

    sum_i sqrt(1 + ((p_i - t_i) / b)^2) + sum_i (z_i - mean z)^2 / (2 s^2) + sum_i (z_i+1 - z_i)^2 / (2 r^2),

t the noisy cells, b the scale of the noise, the last sum over neighbours on a scale alone, s = 2 (4 where
there is a scale), r = 1.5. Spikes stay: one that stands out of the noise is worth far more than what the
prior asks for it. s and r are the same for all tables, chosen on one split of Adult.

Only noisy counts and public sizes are read here: post-processing.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from privacy_engine.synthesizers.postprocess import project_to_simplex

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SPREAD = 2.0  # standard deviation of logits around their mean
SPREAD_ON_SCALE = 4.0  # the same where neighbours are held together
STEP = 1.5  # standard deviation of the difference of neighbours' logits
LEAST_START = 1e-6  # added to each probability that the search starts from; else the width of the noise
MOST_STEPS = 200  # of L-BFGS


def likely_values(noisy: Ints, total: int, *, scale: float, on_scale: int) -> Floats:
    """The mode of the distribution, given noisy counts.

    Args:
        noisy: (s,) counts with discrete Laplace noise.
        total: the public number of records, >= 1.
        scale: of the noise, in records, > 0.
        on_scale: how many values, from the first on, lie on a scale, each next to its neighbours.

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
        pull = _pull(z, on_scale)
        return float(length.sum() + z @ pull / 2), slope - likely * slope.sum() + pull

    start = np.log(project_to_simplex(noisy, total) + max(width, LEAST_START))
    with threadpool_limits(limits=1, user_api="blas"):  # as in latent_classes
        found = minimize(
            objective, start - start.mean(), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
        )
    return _softmax(found.x)


def _pull(z: Floats, on_scale: int) -> Floats:
    """The derivative of the prior's part of the sum; a constant added to all logits changes nothing."""
    pull = (z - z.mean()) / (SPREAD_ON_SCALE if on_scale else SPREAD) ** 2
    steps = np.diff(z[:on_scale]) / STEP**2
    pull[1:on_scale] += steps
    pull[: max(on_scale - 1, 0)] -= steps
    return np.asarray(pull)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())
