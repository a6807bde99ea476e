"""Running totals of a ledger: all that a decision needs of the entries up to one of them.

A rolling limit counts what was committed in its window, for that is when somebody could see it, and what is
reserved and not older than the window. What was committed never comes back, so its sum in a window is the
difference of two running totals: those now, and those when the window began. A reservation may come back or
be committed, so those that are open are looked at one by one, where there are any that are older.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from privacy_engine.dp.ledger import Entry, Event, Standing
from privacy_engine.dp.limits import Limit, Period, decimal_text, exact
from privacy_engine.dp.loss import Neighbours, PrivacyLoss


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Exact sums of epsilons and deltas."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, amount: Entry | PrivacyLoss) -> Self:
        """That of one entry or loss."""
        if isinstance(amount, Entry):
            return cls(epsilon=Fraction(amount.epsilon), delta=Fraction(amount.delta))
        return cls(epsilon=exact(amount.epsilon), delta=exact(amount.delta))

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(epsilon=self.epsilon + other.epsilon, delta=self.delta + other.delta)

    def __sub__(self, other: "Sums") -> "Sums":
        return Sums(epsilon=self.epsilon - other.epsilon, delta=self.delta - other.delta)


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What bookings spend: by those that are committed, and by those that are reserved and not yet."""

    committed: Sums = Sums()
    reserved: Sums = Sums()


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Of a data set, after one of its entries; without arguments, before the first.

    Attributes:
        limits: that hold: the last grant of each period, in the order of their periods' first grants.
        spent: by all bookings that were not given back.
        bookings: how many these are.
        neighbours: what their losses are for; None where there are none.
    """

    limits: tuple[Limit, ...] = ()
    spent: Spent = Spent()
    bookings: int = 0
    neighbours: Neighbours | None = None

    def after(self, entry: Entry) -> "Totals":
        """The totals when one more entry is written."""
        if entry.event is Event.GRANT:
            held = {limit.period.name: limit for limit in self.limits}
            limit = _limit(entry.detail["period"], entry.epsilon, entry.delta, entry.neighbours)
            return replace(self, limits=tuple({**held, limit.period.name: limit}.values()))
        committed, reserved, amount = self.spent.committed, self.spent.reserved, Sums.of(entry)
        match entry.event:
            case Event.RESERVE:
                return replace(
                    self,
                    spent=Spent(committed=committed, reserved=reserved + amount),
                    bookings=self.bookings + 1,
                    neighbours=entry.neighbours,
                )
            case Event.COMMIT:
                return replace(self, spent=Spent(committed=committed + amount, reserved=reserved - amount))
            case Event.CANCEL:
                return replace(
                    self,
                    spent=Spent(committed=committed, reserved=reserved - amount),
                    bookings=self.bookings - 1,
                    neighbours=self.neighbours if self.bookings > 1 else None,
                )

    def to_text(self) -> str:
        """One text for equal totals, which `from_text` reads back."""
        sums = (self.spent.committed, self.spent.reserved)
        fields = {
            "limits": [
                [
                    limit.period.name,
                    decimal_text(limit.epsilon),
                    decimal_text(limit.delta),
                    limit.neighbours.value,
                ]
                for limit in self.limits
            ],
            "spent": [[decimal_text(s.epsilon), decimal_text(s.delta)] for s in sums],
            "bookings": self.bookings,
            "neighbours": self.neighbours.value if self.neighbours else None,
        }
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` writes.

        Raises:
            ValueError: if it is something else.
        """
        fields = json.loads(text)
        committed, reserved = (
            Sums(epsilon=Fraction(epsilon), delta=Fraction(delta)) for epsilon, delta in fields["spent"]
        )
        return cls(
            limits=tuple(_limit(*limit) for limit in fields["limits"]),
            spent=Spent(committed=committed, reserved=reserved),
            bookings=fields["bookings"],
            neighbours=None if fields["neighbours"] is None else Neighbours(fields["neighbours"]),
        )


def standings(totals: Totals, outside: Mapping[str, Spent]) -> tuple[Standing, ...]:
    """What of each limit is spent.

    Args:
        totals: of the data set.
        outside: for each rolling period by its name: what of the totals is older than its window.
    """
    return tuple(_standing(limit, totals.spent, outside) for limit in totals.limits)


def _standing(limit: Limit, spent: Spent, outside: Mapping[str, Spent]) -> Standing:
    name = limit.period.name
    if name == "release":
        return Standing(limit=limit, spent=Fraction(0), spent_delta=Fraction(0), reserved=Fraction(0))
    older = outside[name] if limit.period.window else Spent()
    reserved = spent.reserved - older.reserved
    counted = spent.committed - older.committed + reserved
    return Standing(limit=limit, spent=counted.epsilon, spent_delta=counted.delta, reserved=reserved.epsilon)


def _limit(period: str, epsilon: str, delta: str, neighbours: str) -> Limit:
    return Limit(
        epsilon=float(epsilon),
        delta=float(delta),
        neighbours=Neighbours(neighbours),
        period=Period.parse(period),
    )
