"""The least value of a smooth function, by L-BFGS-B with one thread.

The method solves systems of twice as many unknowns as it keeps gradients. A BLAS would share even these among
all cores, whose threads then wait for each other: on a busy machine ten times as long as one thread needs.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

Floats = npt.NDArray[np.float64]


def descend(
    objective: Callable[[Floats], tuple[float, Floats]], start: Floats, *, steps: int, memory: int = 10
) -> Floats:
    """Where the objective is least, or how far the steps come.

    Args:
        objective: Function from a place to its value and its gradient (p,).
        start: Place to start from, shape (p,).
        steps: Largest number of steps.
        memory: Number of pairs of gradients to keep.

    >>> descend(lambda x: (float(x @ x), 2 * x), np.array([3.0, -4.0]), steps=50).round(6) + 0
    array([0., 0.])
    """
    from scipy.optimize import minimize  # a third of a second, which releases without a synthesizer save

    with _blas().limit(limits=1, user_api="blas"):
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": memory}
        )
    return np.asarray(found.x)


@cache
def _blas() -> ThreadpoolController:
    """The libraries of this process; to look for them takes longer than to fit a small table."""
    return ThreadpoolController()
