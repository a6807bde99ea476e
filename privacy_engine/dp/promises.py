"""A promise: what many bookings lose together in any time window, however many they are.

A sum of losses is valid for any releases, but too high for some: if each person takes part in few of them
(`privacy_engine.dp.participation`), all of them together lose less than their sum. A schedule that can prove
this books them under a promise, and the ledger counts the promise once, instead of each booking:

- In a limit whose window is no longer than the promise's period, the promise counts as long as any booking
  under it does: from the first one's reservation until a whole window after the last one's commit. So in
  every window the limit holds: all bookings under the promise in it lose at most the promise together.
- A longer window w is covered by ceil(w / period) periods, each of which loses at most the promise: it counts
  that many times (sequential composition, Dwork and Roth 2014, Theorem 3.16).
- In a limit on everything ever spent, a promise for a rolling period bounds nothing: there each booking
  counts by itself, as without a promise.
- A limit on each release concerns its own loss; and in a limit accounted as zcdp each booking counts by its
  own rho.

If everyone is in every release, a promise can consist of equal parts (`equal_part`): a fixed number of
bookings of the same loss in any period. Then the promise itself has that number, and the ledger refuses one
more.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from privacy_engine.dp.limits import Limit, Period, decimal_text, exact
from privacy_engine.dp.loss import Neighbours, PrivacyLoss, rounded_down
from privacy_engine.dp.zcdp import epsilon_of_part, pure_rho, zcdp_rho

_FIELDS = ("promise", "promise_period", "promise_epsilon", "promise_delta")
_PARTS = ("promise_releases", "promise_part_epsilon", "promise_part_delta")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The equal parts of a promise.

    Attributes:
        releases: Most bookings in any one period, >= 1.
        epsilon, delta: Loss of each booking.
    """

    releases: int
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if type(self.releases) is not int or self.releases < 1:
            raise ValueError(f"releases must be a whole number >= 1, got {self.releases!r}")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The most that all bookings under it lose together. Another loss or period makes another promise.

    Attributes:
        name: Name of the promise, unique within a data set.
        loss: Loss of all bookings under it in any one period.
        period: Period: `total`, or a rolling window.
        parts: Equal parts that it consists of; None: the caller proves the promise otherwise.
    """

    name: str
    loss: PrivacyLoss
    period: Period
    parts: Parts | None = None

    def __post_init__(self) -> None:
        if self.period.name == "release":
            raise ValueError("a promise must be for a rolling period such as 365d, or total, got release")

    def times(self, period: Period) -> int | None:
        """Return how often it counts in a limit of a period; None if it bounds nothing there.

        >>> loss = PrivacyLoss(epsilon=1, neighbours="replace_person")
        >>> year = Promise(name="visits", loss=loss, period=Period.parse("365d"))
        >>> [year.times(Period.parse(text)) for text in ("30d", "365d", "366d", "total")]
        [1, 1, 2, None]
        """
        if self.period.window is None:
            return 1
        return None if period.window is None else math.ceil(period.window / self.period.window)

    def asks(self, period: Period) -> tuple[Fraction, Fraction] | None:
        """Return epsilon and delta that it takes from a limit of a period; None as for `times`."""
        times = self.times(period)
        return None if times is None else (times * exact(self.loss.epsilon), times * exact(self.loss.delta))

    def unsuited(self, limit: Limit) -> str:
        """Explain why a limit cannot pay for the promise; empty if it can, or is of another kind.

        A limit of a single release concerns the loss of each, and in a limit accounted as zcdp each booking
        counts by its own rho.
        """
        if limit.period.name == "release" or limit.is_zcdp or not limit.epsilon:
            return ""
        needed = self.asks(limit.period)
        if needed is None:
            return (
                f"a limit in total counts each release by itself, while the promise {self.name} is for any "
                f"{self.period.name}: grant it with --period {self.period}"
            )
        lacks = [
            f"{name} {decimal_text(amount)}, the limit has {decimal_text(exact(granted))}"
            for name, amount, granted in zip(
                ("epsilon", "delta"), needed, (limit.epsilon, limit.delta), strict=True
            )
            if amount > exact(granted)
        ]
        if not lacks:
            return ""
        return f"the promise {self.name} takes {' and '.join(lacks)}. Grant at least that, or promise less"

    def is_part(self, loss: PrivacyLoss) -> bool:
        """Return whether a booking of that loss is one of its equal parts; true if it has none.

        With a delta it must have a rho no larger than the part's, because rho's are added.
        """
        each = self.parts
        if each is None:
            return True
        if each.delta and (loss.rho is None or loss.rho > zcdp_rho(each.epsilon, each.delta)):
            return False
        same = (exact(loss.epsilon), exact(loss.delta)) == (exact(each.epsilon), exact(each.delta))
        return same and loss.neighbours is self.loss.neighbours

    def to_detail(self) -> dict[str, str]:
        """Return what an entry of the ledger records of the promise."""
        epsilon, delta = decimal_text(self.loss.epsilon), decimal_text(self.loss.delta)
        fields = dict(zip(_FIELDS, (self.name, self.period.name, epsilon, delta), strict=True))
        if self.parts is not None:
            each = decimal_text(self.parts.epsilon), decimal_text(self.parts.delta)
            fields |= dict(zip(_PARTS, (str(self.parts.releases), *each), strict=True))
        return fields

    @classmethod
    def of_detail(cls, detail: Mapping[str, str], neighbours: Neighbours) -> Self | None:
        """Read the output of `to_detail`; None if there is no promise."""
        if _FIELDS[0] not in detail:
            return None
        name, period, epsilon, delta = (detail[field] for field in _FIELDS)
        loss = PrivacyLoss(epsilon=float(epsilon), delta=float(delta), neighbours=neighbours)
        parts = None
        if _PARTS[0] in detail:
            releases, *each = (detail[field] for field in _PARTS)
            parts = Parts(releases=int(releases), epsilon=float(each[0]), delta=float(each[1]))
        return cls(name=name, loss=loss, period=Period.parse(period), parts=parts)


def equal_part(promised: PrivacyLoss, releases: int, *, gaussian: bool) -> PrivacyLoss:
    """Return the loss of each of a number of releases that together lose at most what is promised.

    Neighbour relation: that of the promise, for a person who is in every release.

    With a delta the promise is one of zCDP: rho = `zcdp_rho(epsilon, delta)` implies it, and rho's add, so
    each release may be (rho / releases)-zCDP. One of pure epsilon e is (e^2 / 2)-zCDP, so that e = sqrt(2 rho
    / releases) will do; so will e = epsilon / releases, for epsilons add, too: the larger one is taken.
    Without a delta only the latter applies.

    Args:
        promised: Loss promised for a period.
        releases: Number of releases in the period, >= 1.
        gaussian: Whether a release may be zCDP with a delta, or must be of pure epsilon.

    >>> year = PrivacyLoss(epsilon=1, delta=1e-9, neighbours="replace_one")
    >>> round(equal_part(year, 52, gaussian=False).epsilon, 4)
    0.024
    >>> round(equal_part(year, 52, gaussian=True).rho, 6)
    0.000288

    Raises:
        ValueError: If a part is too small for any noise, or there are none.
    """
    if type(releases) is not int or releases < 1:
        raise ValueError(f"releases must be a whole number >= 1, got {releases!r}")
    of = promised.neighbours
    pure = rounded_down(Fraction(promised.epsilon) / releases)
    if not promised.delta:
        return PrivacyLoss(epsilon=pure, neighbours=of)
    rho = Fraction(zcdp_rho(promised.epsilon, promised.delta)) / releases
    if gaussian:
        epsilon = epsilon_of_part(rounded_down(rho), promised.delta)
        return PrivacyLoss.within(epsilon, promised.delta, of)
    root = math.sqrt(2 * rho)
    while pure_rho(root) > rho:
        root = math.nextafter(root, 0)
    return PrivacyLoss(epsilon=max(pure, root), neighbours=of)
