"""Limits of a privacy budget, and the exact numbers they are compared with.

Epsilons and deltas add and compare exactly, as the decimal numbers that people write: a float represents the
shortest decimal that reads back as it, so that ten spends of 0.1 fill a budget of 1.0 and an eleventh does
not fit. A float differs from that decimal by at most 2**-53 of it; that part of each spend is not counted.

A limit is accounted by `sum`, where epsilons and deltas add, or as `zcdp`: each booking counts by its rho,
which a pure epsilon has too (epsilon^2 / 2), and the sum is compared with the largest rho that implies the
limit's epsilon at the limit's delta (`privacy_engine.dp.zcdp`). Many small releases then cost about the
square root of their number instead of their number.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from privacy_engine.choice import choice
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.zcdp import pure_rho, zcdp_epsilon, zcdp_rho

_LONGEST_WINDOW = 36500  # days
_SHOWN = 6  # digits of a rounded number


class Accounting(StrEnum):
    """How the bookings under a limit are added up."""

    SUM = "sum"  # epsilons and deltas add
    ZCDP = "zcdp"  # rho's add, and their sum is converted at the limit's delta


@dataclass(frozen=True, kw_only=True)
class Period:
    """The scope of a limit: all bookings ever (`total`), each one (`release`), or the last days' (`365d`).

    >>> Period.parse("365d")
    Period(name='365d')
    >>> Period.parse("365d").window
    datetime.timedelta(days=365)
    """

    name: str = "total"

    def __post_init__(self) -> None:
        number = self.name.removesuffix("d")
        whole = number.isascii() and number.isdecimal() and str(int(number)) == number
        window = self.name.endswith("d") and whole and 1 <= int(number) <= _LONGEST_WINDOW
        if not (window or self.name in ("total", "release")):
            raise ValueError(
                f"a period must be total, release or a number of days such as 365d, got {self.name!r}"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the period of that name.

        Raises:
            ValueError: If there is no such period.
        """
        return cls(name=text)

    @property
    def window(self) -> timedelta | None:
        """How long a booking counts; None for `total` and `release`."""
        return timedelta(days=int(self.name[:-1])) if self.name.endswith("d") else None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The most that may be spent in a period; epsilon 0 allows nothing, and so closes the data set.

    With `zcdp` it requires a delta > 0, at which the sum of all bookings is converted.

    >>> Limit(epsilon=1.0, period=Period.parse("365d")).to_dict()
    {'period': '365d', 'epsilon': 1.0, 'delta': 0.0, 'neighbours': 'replace_one'}
    """

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    period: Period = Period()
    accounting: Accounting = Accounting.SUM

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon of a limit must be >= 0 and finite, got {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta of a limit must be in [0, 1), got {self.delta}")
        object.__setattr__(self, "neighbours", choice(Neighbours, self.neighbours, "neighbours"))
        object.__setattr__(self, "accounting", choice(Accounting, self.accounting, "accounting"))
        if self.is_zcdp:
            if not self.delta:
                raise ValueError(
                    "delta of a limit accounted as zcdp must be > 0, got 0, because rho's are "
                    "converted at it. Set one far below 1 / (number of persons), such as 1e-9"
                )
            _ = self.rho  # raises for an epsilon without a rho

    @property
    def is_zcdp(self) -> bool:
        """Whether rho's add."""
        return self.accounting is Accounting.ZCDP

    @cached_property
    def rho(self) -> Fraction:
        """The largest rho that implies the limit, with zcdp."""
        return exact(zcdp_rho(self.epsilon, self.delta)) if self.epsilon else Fraction(0)

    def in_epsilon(self, rho: Fraction) -> Fraction:
        """Return the epsilon of a sum of rho's at the limit's delta, with zcdp."""
        return exact(zcdp_epsilon(float(rho), self.delta)) if rho else Fraction(0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the accounting only if it is not by sum."""
        values = {
            "period": self.period.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours.value,
        }
        return values | {"accounting": self.accounting.value} if self.is_zcdp else values


def rho_of(loss: PrivacyLoss) -> Fraction | None:
    """Return the rho of a loss in a zcdp limit; None for a delta without rho, which does not determine one.

    >>> rho_of(PrivacyLoss(epsilon=0.1, neighbours="replace_one"))
    Fraction(1, 200)
    """
    if loss.rho is not None:
        return exact(loss.rho)
    return None if loss.delta else pure_rho(exact(loss.epsilon))


def exact(value: float) -> Fraction:
    """The shortest decimal that reads as this float, exactly.

    >>> sum(exact(0.1) for _ in range(10)) == 1
    True
    """
    return Fraction(repr(float(value)))


def decimal_text(value: Fraction | float) -> str:
    """Return all digits of a number that is a finite decimal, such as a sum of epsilons.

    >>> decimal_text(Fraction(1, 10) + Fraction(1, 5)), decimal_text(1e-9), decimal_text(2.0)
    ('0.3', '0.000000001', '2')
    """
    with localcontext(prec=2200):  # more digits than any sum of floats, or of halves of their squares, has
        return f"{_quotient(value).normalize():f}"


def rounded_text(value: Fraction | float, *, up: bool) -> str:
    """Return a number to six digits, in one direction: up for what is spent, down for what is left.

    So no reader counts on more than there is. A number of at most six digits is exact.

    >>> (
    ...     rounded_text(Fraction(2, 3), up=True),
    ...     rounded_text(Fraction(2, 3), up=False),
    ...     rounded_text(0.1, up=True),
    ... )
    ('0.666667', '0.666666', '0.1')
    """
    with localcontext(prec=_SHOWN, rounding=ROUND_CEILING if up else ROUND_FLOOR):
        return f"{_quotient(value).normalize():f}"


def _quotient(value: Fraction | float) -> Decimal:
    """Return a number to the digits of the context, rounded once."""
    value = value if isinstance(value, Fraction) else exact(value)
    return Decimal(value.numerator) / value.denominator
