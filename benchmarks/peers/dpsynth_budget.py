"""The budget of a mechanism of Google's dpsynth by which it protects a replaced record by (epsilon, delta).

dpsynth books zCDP for a record added or removed, rho in all. What a *replaced* record costs follows from its
code (`dpsynth/data_generation_v3.py` and `dpsynth/discrete_mechanisms` at `COMMIT`):

- A tenth of rho goes in equal parts to the noisy number of records and to the counts of each of d attributes.
  The number does not change; counts change by sqrt(2) in L2 instead of 1, so their noise costs 2 times what
  is booked.
- Of the rest, some goes to *choices*. Their scores are L1 distances between counts and a model. A replaced
  record leaves one cell for another, which changes a distance by up to 2 instead of 1, so they cost 4 times
  what is booked: Gaussian noise on all scores, whose vector changes by 2 sqrt(m) instead of sqrt(m), as much
  as an exponential mechanism, whose log-probabilities range over 2 e instead of e. This is reached: the
  distance of one table can grow by 2 while that of another shrinks by 2.
- What then remains is noise on counts, which costs 2 times what is booked.

So with a share c of choices, a replaced record costs rho times

    (1)  2 d / (d + 1) / 10 + 9 / 10 (4 c + 2 (1 - c)).

c is 1/2 for MST and 1/10 for SWIFT. AIM-GDP first spends half of one of 16 d planned rounds on the scores of
all tables, and then a tenth of each round, so c = f + (1 - f) / 10 with f = 1 / (32 d).

Where all is Gaussian noise, (epsilon, delta) is that of a Gaussian mechanism with mu^2 = 2 rho (Balle, Wang
2018, Theorem 8; adaptive budgets with a fixed sum: Smith, Thakurta 2022). MST's choices are not Gaussian.
They are counted as if they were, which is more than zCDP allows: in doubt the peer gets more, never less.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scipy.special import log_ndtr

COMMIT = "cf8075f319b96c2e009e4ea6bb55378faccbbc80"
FIRST = 0.1  # share of the number of records and of single attributes
DELTA = 1e-9
_STEPS = 100  # of bisection: more than a double has digits


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A mechanism of dpsynth.

    Attributes:
        module: Module of the folder of peers.
        choices: Number of attributes -> share of choices in what the first tenth leaves.
    """

    module: str
    choices: Callable[[int], float]

    def replacement_cost(self, d: int) -> float:
        """What a replaced record of d attributes costs, as a multiple of the booked rho: equation (1).

        >>> round(MECHANISMS["MST"].replacement_cost(9), 9), round(MECHANISMS["SWIFT"].replacement_cost(9), 9)
        (2.88, 2.16)
        """
        chosen = self.choices(d)
        return FIRST * 2 * d / (d + 1) + (1 - FIRST) * (4 * chosen + 2 * (1 - chosen))

    def booked_rho(self, epsilon: float, d: int, *, delta: float = DELTA) -> float:
        """The largest rho that dpsynth may book to protect a replaced record by (epsilon, delta)."""
        return gaussian_mu(epsilon, delta) ** 2 / (2 * self.replacement_cost(d))


def _with_first_scores(d: int) -> float:
    first = 1 / (32 * d)
    return first + (1 - first) / 10


MECHANISMS: Mapping[str, Mechanism] = {
    "AIM-GDP": Mechanism(module="dpsynth_aim_gdp", choices=_with_first_scores),
    "SWIFT": Mechanism(module="dpsynth_swift", choices=lambda _: 1 / 10),
    "MST": Mechanism(module="dpsynth_mst", choices=lambda _: 1 / 2),
}


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The least delta at epsilon of a Gaussian mechanism whose sensitivity is mu standard deviations.

    Balle, Wang: Improving the Gaussian Mechanism for Differential Privacy (2018), Theorem 8.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    near, far = (float(log_ndtr(side * mu / 2 - epsilon / mu)) for side in (1, -1))
    return math.exp(near) - math.exp(epsilon + far)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose `gaussian_delta` at epsilon is at most delta."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
    return low
