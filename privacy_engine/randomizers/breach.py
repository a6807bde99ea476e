"""How much a randomized release gives away by the measures of its paper (Zhang and Tang 2007, section 6.1).

They measure how likely a true value is recognised by someone who knows nothing else; epsilon limits what
anyone can learn. Both are reported.
"""

from statistics import NormalDist

import numpy as np

from privacy_engine.randomizers.channel import TOTAL, Channel
from privacy_engine.randomizers.estimation import FloatArray
from privacy_engine.randomizers.numeric import Grid
from privacy_engine.randomizers.randomization import Mechanism, Randomization


def breach_coefficients(channel: Channel) -> FloatArray:
    """Return for each value the share released unchanged times the chance that it is recognised, (k,).

    p_0 * p_0 / (p_0 + p_i); with equal p_i it is k p_0^2 / ((k - 1) p_0 + 1) for every value.

    >>> breach_coefficients(Channel.partial_hiding(("a", "b"), keep=0.5)).round(3).tolist()
    [0.333, 0.333]

    Raises:
        ValueError: If the channel is not one of partial hiding.
    """
    other = channel.hiding
    if other is None:
        raise ValueError("the breach coefficient is defined for partial hiding (ERRPH) only")
    p_0 = 1 - other.sum() / TOTAL
    return np.asarray(p_0**2 / (p_0 + other / TOTAL), dtype=np.float64)


def largest_breach(mechanism: Mechanism) -> float | None:
    """Return the coefficient of the most exposed value; None for anything but partial hiding."""
    channel = mechanism.channel if isinstance(mechanism, Grid) else mechanism
    if not isinstance(channel, Channel) or channel.hiding is None:
        return None
    return float(breach_coefficients(channel).max())


def breach_note(randomization: Randomization) -> dict[str, float]:
    """The largest coefficient of all attributes, as a note of the release; empty where none has one."""
    known = [b for m in randomization.mechanisms.values() if (b := largest_breach(m)) is not None]
    return {"breach": max(known)} if known else {}


def breach_width(sigma: float, confidence: float) -> float:
    """Width of the interval that holds a normal x with a confidence, whatever was released.

    >>> [round(breach_width(1.0, c), 3) for c in (0.5, 0.95, 0.999)]
    [1.349, 3.92, 6.581]

    Raises:
        ValueError: If the confidence is not in (0, 1).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    return 2 * NormalDist().inv_cdf((1 + confidence) / 2) * sigma
