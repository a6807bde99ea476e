"""Zero-concentrated differential privacy, and its conversions from epsilon and to (epsilon, delta).

M is rho-zCDP if for all neighbouring x, y and every alpha > 1 the Renyi divergence D_alpha(M(x) || M(y)) is
at most alpha rho (Bun, Steinke: Concentrated Differential Privacy, 2016, Definition 1.1). The caller
determines the neighbour relation. Rho's of mechanisms that are chosen one after the other, each with a rho
that may depend on all results so far, add, as long as their sum stays below a bound that was fixed before the
first (fully adaptive composition: Feldman, Zrnic: Individual Privacy Accounting via a Renyi Filter, 2021;
Whitehouse, Ramdas, Rogers, Wu: Fully-Adaptive Composition in Differential Privacy, 2023). So rho's are summed
exactly, and only the sum is converted.

From epsilon: an epsilon-DP mechanism is (epsilon^2 / 2)-zCDP (Bun, Steinke, Proposition 1.4).

To (epsilon, delta) (Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy, 2020, section
2.3): let P, Q be the outputs' distributions, Z = log P / Q at a draw of P, and alpha > 1. Then

    the least delta at epsilon is E[max(0, 1 - exp(epsilon - Z))]  over P,
    max(0, 1 - exp(epsilon - z)) <= c exp((alpha - 1) z)  for every z, if c is the maximum of
        (1 - exp(epsilon - z)) exp(-(alpha - 1) z), which is where exp(epsilon - z) = 1 - 1 / alpha:
        c = exp(-(alpha - 1) epsilon) (1 - 1 / alpha)^alpha / (alpha - 1),
    E[exp((alpha - 1) Z)] = exp((alpha - 1) D_alpha(P || Q)) <= exp((alpha - 1) alpha rho)  by zCDP.

So delta = exp((alpha - 1)(alpha rho - epsilon)) (1 - 1 / alpha)^alpha / (alpha - 1) suffices, or solved

    (1)  epsilon = alpha rho + g(alpha),  g(alpha) = (log(1 / delta) + alpha log(1 - 1 / alpha)
                                                       - log(alpha - 1)) / (alpha - 1),

for *every* alpha: a search for the best one cannot make the claim false. The result is computed once more
with 60 digits and rounded to the safe side. The search may end an ulp away on another machine, so a claim
keeps a relative slack of at least 1e-13, and a claim written on one machine is accepted on another.
"""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

LEAST_RHO = 1e-24  # a smaller rho counts as this one: below it, 60 digits would not suffice
_DIGITS = 60
_MARGIN = Decimal("1e-30")  # more than all rounding errors of 60 digits, if alpha < 1e20 and rho >= LEAST_RHO
_REACH = 12.0  # natural logarithms around the first guess of alpha - 1 that are searched
_STEPS = 46  # of golden section: 24 logarithms to within 1e-8
_GOLDEN = (math.sqrt(5) - 1) / 2
_KNOWN = 1_000  # number of conversions to remember: a release repeats a few, each of 0.1 ms


def pure_rho(epsilon: float | Fraction) -> Fraction:
    """The rho of an epsilon-DP mechanism, exactly.

    >>> pure_rho(0.5)
    Fraction(1, 8)
    """
    return Fraction(epsilon) ** 2 / 2


@lru_cache(_KNOWN)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """An epsilon > 0 such that every rho-zCDP mechanism is (epsilon, delta)-DP: (1) at its best alpha.

    >>> round(zcdp_epsilon(0.5, 1e-6), 4)
    5.2215

    Raises:
        ValueError: If rho is not positive and finite, or delta not in (0, 1).
    """
    check_rho(rho)
    _check_delta(delta)
    rho = max(rho, LEAST_RHO)
    log_delta = math.log(delta)
    excess = _best(lambda x: (1 + x) * rho + _g(x, log_delta), math.sqrt(1 - log_delta) / math.sqrt(rho))
    with localcontext(prec=_DIGITS):
        exact = (1 + Decimal(excess)) * Decimal(rho) + _exact_g(excess, delta)
        return math.nextafter(float(max(exact, Decimal(0)) + _MARGIN), math.inf)


@lru_cache(_KNOWN)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho such that `zcdp_epsilon` of it is at most epsilon: (1) solved for rho.

    It is rounded down to 12 digits, which are the same on any machine.

    >>> zcdp_rho(1.0, 1e-9)
    0.0149730576735
    >>> zcdp_epsilon(zcdp_rho(1.0, 1e-9), 1e-9) <= 1.0
    True

    Raises:
        ValueError: If epsilon is not positive and finite, or too small for any rho, or delta not in (0, 1).
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be > 0 and finite, got {epsilon}")
    _check_delta(delta)
    log_delta = math.log(delta)
    # About epsilon = rho + 2 sqrt(rho log(1 / delta)), whose best alpha - 1 is sqrt(log(1 / delta) / rho).
    root = math.sqrt(1 - log_delta)
    guess = root * (math.sqrt(1 - log_delta + epsilon) + root) / epsilon
    excess = _best(lambda x: (_g(x, log_delta) - epsilon) / (1 + x), guess)
    rho = (epsilon - _g(excess, log_delta)) / (1 + excess)
    step = math.ulp(rho)
    while rho > LEAST_RHO and zcdp_epsilon(rho, delta) > epsilon:
        rho, step = rho - step, 2 * step
    if rho <= LEAST_RHO:
        raise ValueError(f"epsilon {epsilon} at delta {delta} is too small for any Gaussian noise; raise it")
    with localcontext(prec=12, rounding=ROUND_DOWN):
        return float(+Decimal(rho * (1 - 1e-12)))


def epsilon_of_part(rho: float, delta: float) -> float:
    """Return an epsilon whose `zcdp_rho` is at most rho, and close to it, for a method that may spend rho.

    >>> zcdp_rho(epsilon_of_part(0.01, 1e-9), 1e-9) <= 0.01
    True

    Raises:
        ValueError: As of `zcdp_rho`.
    """
    epsilon = zcdp_epsilon(rho, delta)
    while zcdp_rho(epsilon, delta) > rho:
        epsilon *= 1 - 1e-12
    return epsilon


def check_rho(rho: float) -> None:
    """Raise if a number is not a valid rho.

    Raises:
        ValueError: If it is not positive and finite.
    """
    if not (rho > 0 and math.isfinite(rho)):
        raise ValueError(f"rho must be > 0 and finite, got {rho}")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1) to convert rho, got {delta}")


def _g(x: float, log_delta: float) -> float:
    """g of (1) at alpha = 1 + x, about."""
    return (-log_delta - x * math.log1p(1 / x) - math.log1p(x)) / x


def _exact_g(excess: float, delta: float) -> Decimal:
    """g of (1) at alpha = 1 + excess, with the digits of the context."""
    x = Decimal(excess)
    log_alpha = (1 + x).ln()
    return (-Decimal(delta).ln() + x * (x.ln() - log_alpha) - log_alpha) / x


def _best(value: Callable[[float], float], guess: float) -> float:
    """Return the minimum in (0, inf) of a function that falls and then rises, by golden section.

    Both functions that are searched have this form: log delta is convex in alpha at any epsilon and rho
    (Canonne, Kamath, Steinke, section 2.3), so that the alphas whose epsilon is below a bound are an
    interval.
    """
    low, high = math.log(guess) - _REACH, math.log(guess) + _REACH
    low, high = max(low, -40.0), min(high, 45.0)  # keeps alpha < 1e20
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(math.exp(left)), value(math.exp(right))
    for _ in range(_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(math.exp(right))
    return math.exp((low + high) / 2)
