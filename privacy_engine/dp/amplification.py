"""Privacy amplification by sampling without replacement, for neighbours that differ in one replaced record.

Claim. Let M be epsilon-DP for tables of m records under replace-one, for any order of the records, and
let M' draw m of n records uniformly without replacement, in secret, and apply M. Then M' is epsilon'-DP under
replace-one with the public number n, q = m / n,

    epsilon' = ln(1 + q (e^epsilon - 1))            (Balle, Barthe, Gaboardi, 2018, theorem 9, at delta = 0)

Proof. Let D and D' differ in record i and E be an event. Let P0 be the probability of E given that i is not
in the sample, which is the same for D and D', and P1, P1' the one given that it is. Then
P = (1 - q) P0 + q P1 and P' = (1 - q) P0 + q P1'.

1. The same sample of D and D' with i in it differs in one record: P1 <= e^epsilon P1'.
2. Draw a sample with i, and replace i by a record drawn from outside it: the result is a uniform sample
   without i, and differs in one record: P1 <= e^epsilon P0.
3. So with a = min(P0, P1'): P1 <= e^epsilon a, and a <= P' since P' is a mean of P0 and P1'. Therefore

   P <= (1 - q) P0 + q e^epsilon a = (1 - q) P0 + q a + q (e^epsilon - 1) a <= P' + q (e^epsilon - 1) P'.

The proof requires a sample of fixed size (not one coin per record), without replacement, that no one else
learns: it is never drawn from a seeded generator. Mechanisms on ONE sample are composed first and amplified
afterwards.
"""

import decimal
import math
import secrets
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

_DRAWN_AT_ONCE = 2**20


def amplified(epsilon: float, rate: float | Fraction) -> float:
    """Return the loss of an epsilon-DP mechanism on a secret sample: ln(1 + rate (e^epsilon - 1)).

    Args:
        epsilon: Epsilon of the mechanism on the sample, > 0, replace-one.
        rate: Sampling rate m / n in (0, 1]; a Fraction is exact.

    >>> round(amplified(1.0, 0.1), 6)
    0.158565

    Raises:
        ValueError: If epsilon or the rate is out of range.
    """
    return _through_sampling(epsilon, Fraction(rate), math.inf)


def inner_epsilon(epsilon: float, rate: float | Fraction) -> float:
    """Return the loss that may be spent on a secret sample: ln(1 + (e^epsilon - 1) / rate), rounded down.

    ``amplified(inner_epsilon(epsilon, rate), rate) <= epsilon``.

    Args:
        epsilon: Epsilon of the whole, > 0, replace-one.
        rate: Sampling rate m / n in (0, 1]; a Fraction is exact.

    >>> round(inner_epsilon(0.1, 0.01), 6)
    2.443832

    Raises:
        ValueError: If epsilon or the rate is out of range.
    """
    return _through_sampling(epsilon, Fraction(rate), -math.inf)


def secure_sample(n: int, m: int) -> npt.NDArray[np.int64]:
    """Draw a uniform sample of m of the row numbers 0 .. n-1, without replacement, from the operating system.

    Row numbers are drawn one after another, and repeated ones are skipped: the first m different ones are any
    m with equal probability. If more than half the rows are to be drawn, the rows to leave out are drawn
    instead.

    It cannot be seeded, and must stay secret: the amplification depends on it.

    Returns:
        (m,) int64, ascending. Uses n more bytes, and a fraction of a microsecond per drawn row.

    Raises:
        ValueError: Unless 1 <= m <= n.
    """
    if not 1 <= m <= n:
        raise ValueError(f"a sample must have between 1 and all {n} rows, got {m}")
    chosen, missing = np.zeros(n, dtype=np.bool_), min(m, n - m)
    while missing:
        rows = _secure_rows(n, min(2 * missing, _DRAWN_AT_ONCE))
        new = rows[np.sort(np.unique(rows, return_index=True)[1])]  # each at its first occurrence
        new = new[~chosen[new]][:missing]
        chosen[new] = True
        missing -= len(new)
    return np.flatnonzero(chosen if m <= n - m else ~chosen)


def _secure_rows(n: int, draws: int) -> npt.NDArray[np.int64]:
    """Draw uniform row numbers 0 .. n-1 independently from the operating system, at most a number of them."""
    numbers = np.frombuffer(secrets.token_bytes(8 * draws), dtype=np.uint64)
    even = 2**64 // n * n  # below it each remainder is equally frequent; numbers above are discarded
    fair = numbers if even == 2**64 else numbers[numbers < np.uint64(even)]
    return (fair % np.uint64(n)).astype(np.int64)


def _through_sampling(epsilon: float, rate: Fraction, direction: float) -> float:
    """Return ln(1 + f (e^epsilon - 1)), f = rate rounded up (amplify), or 1 / rate rounded down (undo)."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be > 0 and finite, got {epsilon}")
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be in (0, 1], got {float(rate)}")
    if rate == 1:
        return epsilon  # the sample is the table
    factor = rate if direction > 0 else 1 / rate
    e = Decimal(epsilon)
    # Decimal arithmetic instead of the C library's exp and log, whose last bits are not guaranteed. The
    # digits that 1 + x and e^x - 1 cancel are added, so 50 stay right; `slack` covers all errors.
    digits = 60 + max(0, -e.adjusted()) + len(str(rate.denominator))
    with decimal.localcontext(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
        grown = e.exp() - 1
        value = (1 + grown * factor.numerator / factor.denominator).ln()
        slack = value.scaleb(-40)
        bound = value + slack if direction > 0 else value - slack
    near = float(bound)
    inside = Decimal(near) >= bound if direction > 0 else Decimal(near) <= bound
    return near if inside else math.nextafter(near, direction)
