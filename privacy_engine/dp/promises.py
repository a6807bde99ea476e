"""A promise: what many bookings lose together in any window of time, however many they are.

A sum of losses is right for any releases, and too much for some: where each person takes part in few of them
(`privacy_engine.dp.participation`), all of them together lose less than their sum. Whoever can prove that
books them under a promise, and the ledger counts the promise once, instead of each booking:

- In a limit whose window is no longer than the promise's period, the promise counts as long as any booking
  under it does: from the first one's reservation until a whole window after the last one's commit. So in
  every window the limit holds: all bookings under the promise in it lose no more than the promise together.
- A longer window of w is covered by ceil(w / period) periods, each of which loses the promise at most: it
  counts so often (sequential composition, Dwork and Roth 2014, Theorem 3.16).
- In a limit on all that is ever spent, a promise for a rolling period bounds nothing: there each booking
  counts by itself, as without a promise.
- A limit on each release is about its own loss.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from privacy_engine.dp.limits import Period, decimal_text, exact
from privacy_engine.dp.loss import Neighbours, PrivacyLoss

_FIELDS = ("promise", "promise_period", "promise_epsilon", "promise_delta")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The most that all bookings under it lose together. Another loss or period is another promise.

    Attributes:
        name: tells two promises of a data set apart.
        loss: of all bookings under it in any one period.
        period: `total`, or a rolling window.
    """

    name: str
    loss: PrivacyLoss
    period: Period

    def __post_init__(self) -> None:
        if self.period.name == "release":
            raise ValueError("a promise must be for a rolling period such as 365d, or total, got release")

    def times(self, period: Period) -> int | None:
        """How often it counts in a limit of a period; None where it bounds nothing there.

        >>> loss = PrivacyLoss(epsilon=1, neighbours="replace_person")
        >>> year = Promise(name="visits", loss=loss, period=Period.parse("365d"))
        >>> [year.times(Period.parse(text)) for text in ("30d", "365d", "366d", "total")]
        [1, 1, 2, None]
        """
        if self.period.window is None:
            return 1
        return None if period.window is None else math.ceil(period.window / self.period.window)

    def asks(self, period: Period) -> tuple[Fraction, Fraction] | None:
        """Epsilon and delta that it takes of a limit of a period; None as of `times`."""
        times = self.times(period)
        return None if times is None else (times * exact(self.loss.epsilon), times * exact(self.loss.delta))

    def to_detail(self) -> dict[str, str]:
        """What an entry of the ledger records of it."""
        epsilon, delta = decimal_text(self.loss.epsilon), decimal_text(self.loss.delta)
        return dict(zip(_FIELDS, (self.name, self.period.name, epsilon, delta), strict=True))

    @classmethod
    def of_detail(cls, detail: Mapping[str, str], neighbours: Neighbours) -> Self | None:
        """What `to_detail` wrote, if it did."""
        if _FIELDS[0] not in detail:
            return None
        name, period, epsilon, delta = (detail[field] for field in _FIELDS)
        loss = PrivacyLoss(epsilon=float(epsilon), delta=float(delta), neighbours=neighbours)
        return cls(name=name, loss=loss, period=Period.parse(period))
