"""Limits of a privacy budget, and the exact numbers that they are compared with.

Epsilons and deltas add and compare exactly, as the decimal numbers that people write: a float stands for the
shortest decimal that reads back as it, so that ten spends of 0.1 fill a budget of 1.0 and an eleventh does
not fit. A float differs from that decimal by at most 2**-53 of it; so much of each spend is not counted.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Self

from privacy_engine.choice import choice
from privacy_engine.dp.loss import Neighbours

_LONGEST_WINDOW = 36500  # days


@dataclass(frozen=True, kw_only=True)
class Period:
    """What a limit bounds: all bookings ever (`total`), each one (`release`), or the last days' (`365d`).

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
        """The period of that name.

        Raises:
            ValueError: if there is none.
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
    """The most that a period may spend; epsilon 0 allows nothing, and so closes the data set.

    >>> Limit(epsilon=1.0, period=Period.parse("365d")).to_dict()
    {'period': '365d', 'epsilon': 1.0, 'delta': 0.0, 'neighbours': 'replace_one'}
    """

    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    period: Period = Period()

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon of a limit must be >= 0 and finite, got {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta of a limit must be in [0, 1), got {self.delta}")
        object.__setattr__(self, "neighbours", choice(Neighbours, self.neighbours, "neighbours"))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "period": self.period.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours.value,
        }


def exact(value: float) -> Fraction:
    """The shortest decimal that reads as this float, exactly.

    >>> sum(exact(0.1) for _ in range(10)) == 1
    True
    """
    return Fraction(repr(float(value)))


def decimal_text(value: Fraction | float) -> str:
    """All digits of a number that is a finite decimal, such as a sum of epsilons.

    >>> decimal_text(Fraction(1, 10) + Fraction(1, 5)), decimal_text(1e-9), decimal_text(2.0)
    ('0.3', '0.000000001', '2')
    """
    value = value if isinstance(value, Fraction) else exact(value)
    with localcontext(prec=1100):  # more digits than any sum of floats has
        return f"{(Decimal(value.numerator) / value.denominator).normalize():f}"
