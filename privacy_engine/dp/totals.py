"""Running totals of a ledger: everything that a decision requires from the entries up to one of them.

A rolling limit counts what was committed in its window, because that is when someone could see it, and
reservations that are not older than the window. A commit is never undone, so the sum of commits in a window
is the difference of two running totals: the current ones, and those when the window began. A reservation may
be cancelled or committed, so open reservations are checked one by one, if there are any that are older.

Bookings under a promise (`privacy_engine.dp.promises`) are summed separately, for each promise. Every booking
has an epsilon above zero, so their sum in a window shows whether there are any, and then the promise counts.

Rho's are summed as well, and bookings without one are counted, in the totals of a data set that ever had a
limit accounted as zcdp; then all of its totals are computed that way. Those of other data sets are unchanged.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from privacy_engine.dp.ledger import Booking, Entry, Event, Standing, promise_of
from privacy_engine.dp.limits import Accounting, Limit, Period, decimal_text, exact
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import Promise
from privacy_engine.dp.zcdp import pure_rho

_NO_RHOS = (("0", 0), ("0", 0))  # the rho part of sums without rho


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Exact sums of epsilons and deltas, and of rho's where these count.

    `unlike` is the number of losses without a rho.
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    unlike: int = 0

    @classmethod
    def of(cls, amount: Entry | PrivacyLoss, *, zcdp: bool = False) -> Self:
        """Return the sums of one entry or loss; its rho only if rho's count."""
        if isinstance(amount, Entry):
            sums = cls(epsilon=Fraction(amount.epsilon), delta=Fraction(amount.delta))
            rho = Fraction(amount.detail["rho"]) if "rho" in amount.detail else None
        else:
            sums = cls(epsilon=exact(amount.epsilon), delta=exact(amount.delta))
            rho = None if amount.rho is None else exact(amount.rho)
        if not zcdp:
            return sums
        if rho is None and sums.delta:
            return replace(sums, unlike=1)
        return replace(sums, rho=pure_rho(sums.epsilon) if rho is None else rho)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            epsilon=self.epsilon + other.epsilon,
            delta=self.delta + other.delta,
            rho=self.rho + other.rho,
            unlike=self.unlike + other.unlike,
        )

    def __sub__(self, other: "Sums") -> "Sums":
        return Sums(
            epsilon=self.epsilon - other.epsilon,
            delta=self.delta - other.delta,
            rho=self.rho - other.rho,
            unlike=self.unlike - other.unlike,
        )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What bookings spend: committed ones, and reserved ones that are not committed yet.

    Attributes:
        committed, reserved: Sums of bookings under no promise.
        promised: Sums of the losses of bookings under each promise that has any.
    """

    committed: Sums = Sums()
    reserved: Sums = Sums()
    promised: Mapping[Promise, "Spent"] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether something is reserved and not committed."""
        return self.reserved != Sums() or any(under.is_open for under in self.promised.values())

    def only_committed(self) -> "Spent":
        """Return the totals without reservations."""
        return Spent(
            committed=self.committed,
            promised={promise: under.only_committed() for promise, under in self.promised.items()},
        )

    def moved(self, promise: Promise | None, *, committed: Sums = Sums(), reserved: Sums = Sums()) -> "Spent":
        """Return the totals with further sums added to both, under a promise or none."""
        if promise is None:
            return replace(self, committed=self.committed + committed, reserved=self.reserved + reserved)
        under = self.promised.get(promise, Spent()).moved(None, committed=committed, reserved=reserved)
        others = {known: spent for known, spent in self.promised.items() if known != promise}
        return replace(self, promised=others if under == Spent() else {**others, promise: under})


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The totals of a data set after one of its entries; without arguments, before the first.

    Attributes:
        limits: Limits in force: the last grant of each period, in the order of their periods' first grants.
        spent: Sums of all bookings that were not cancelled.
        bookings: Number of these bookings.
        neighbours: Neighbour relation of their losses; None if there are none.
        zcdp: Whether rho's are summed, because a limit was ever accounted as zcdp.
    """

    limits: tuple[Limit, ...] = ()
    spent: Spent = Spent()
    bookings: int = 0
    neighbours: Neighbours | None = None
    zcdp: bool = False

    def after(self, entry: Entry) -> "Totals":
        """Return the totals after one more entry."""
        if entry.event is Event.GRANT:
            held = {limit.period.name: limit for limit in self.limits}
            accounting = entry.detail.get("accounting", Accounting.SUM)
            limit = _limit(entry.detail["period"], entry.epsilon, entry.delta, entry.neighbours, accounting)
            limits = tuple({**held, limit.period.name: limit}.values())
            return replace(self, limits=limits, zcdp=self.zcdp or limit.is_zcdp)
        promise, amount = promise_of(entry), Sums.of(entry, zcdp=self.zcdp)
        back = Sums() - amount
        match entry.event:
            case Event.RESERVE:
                return replace(
                    self,
                    spent=self.spent.moved(promise, reserved=amount),
                    bookings=self.bookings + 1,
                    neighbours=entry.neighbours,
                )
            case Event.COMMIT:
                return replace(self, spent=self.spent.moved(promise, committed=amount, reserved=back))
            case Event.CANCEL:
                return replace(
                    self,
                    spent=self.spent.moved(promise, reserved=back),
                    bookings=self.bookings - 1,
                    neighbours=self.neighbours if self.bookings > 1 else None,
                )

    def without(self, reservation: Booking) -> "Totals":
        """Return the totals as if a reservation were cancelled."""
        back = Sums() - Sums.of(reservation.loss, zcdp=self.zcdp)
        return replace(self, spent=self.spent.moved(reservation.promise, reserved=back))

    def to_text(self) -> str:
        """Return text that is the same for equal totals, for `from_text`."""
        fields: dict[str, Any] = {
            "limits": [
                [
                    limit.period.name,
                    decimal_text(limit.epsilon),
                    decimal_text(limit.delta),
                    limit.neighbours.value,
                    *([limit.accounting.value] if limit.is_zcdp else []),
                ]
                for limit in self.limits
            ],
            "spent": _sums_text(self.spent),
            "bookings": self.bookings,
            "neighbours": self.neighbours.value if self.neighbours else None,
        }
        if self.zcdp:
            fields["rho"] = _rhos_text(self.spent)
        if self.spent.promised:  # without one the text is the same as before promises existed
            fields["promised"] = [
                [
                    promise.to_detail(),
                    promise.loss.neighbours.value,
                    _sums_text(under),
                    *([_rhos_text(under)] if self.zcdp else []),
                ]
                for promise, under in self.spent.promised.items()
            ]
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read the output of `to_text`.

        Raises:
            ValueError: If it is something else.
        """
        fields = json.loads(text)
        promised = {
            promise: _spent_of(*sums)
            for detail, neighbours, *sums in fields.get("promised", [])
            if (promise := Promise.of_detail(detail, Neighbours(neighbours))) is not None
        }
        rhos = fields.get("rho", _NO_RHOS)
        return cls(
            limits=tuple(_limit(*limit) for limit in fields["limits"]),
            spent=replace(_spent_of(fields["spent"], rhos), promised=promised),
            bookings=fields["bookings"],
            neighbours=None if fields["neighbours"] is None else Neighbours(fields["neighbours"]),
            zcdp="rho" in fields,
        )


def standings(totals: Totals, outside: Mapping[str, Spent]) -> tuple[Standing, ...]:
    """Return the loss spent of each limit.

    Args:
        totals: Totals of the data set.
        outside: Part of the totals older than the window, by name of each rolling period.
    """
    return tuple(_standing(limit, totals.spent, outside) for limit in totals.limits)


def _standing(limit: Limit, spent: Spent, outside: Mapping[str, Spent]) -> Standing:
    name = limit.period.name
    if name == "release":
        return Standing(limit=limit, spent=Fraction(0), spent_delta=Fraction(0), reserved=Fraction(0))
    older = outside[name] if limit.period.window else Spent()
    counted, reserved = _counted(spent, older)
    held = set()
    for promise, under in spent.promised.items():
        own, own_reserved = _counted(under, older.promised.get(promise, Spent()))
        promised = None if limit.is_zcdp else promise.asks(limit.period)
        if promised is not None and own.epsilon:
            held.add(promise)
            all_reserved = own == own_reserved
            own = Sums(epsilon=promised[0], delta=promised[1])
            own_reserved = own if all_reserved else Sums()
        counted, reserved = counted + own, reserved + own_reserved
    if limit.is_zcdp:
        in_all = limit.in_epsilon(counted.rho)
        return Standing(
            limit=limit,
            spent=in_all,
            spent_delta=Fraction(0),
            reserved=in_all - limit.in_epsilon(counted.rho - reserved.rho),
            rho=counted.rho,
            unlike=counted.unlike,
        )
    return Standing(
        limit=limit,
        spent=counted.epsilon,
        spent_delta=counted.delta,
        reserved=reserved.epsilon,
        promises=frozenset(held),
    )


def parts_used(promise: Promise, spent: Spent, older: Spent) -> int:
    """Return the number of bookings under a promise of equal parts in its period: their sum over one part.

    Args:
        promise: Promise with parts.
        spent: Sums of the data set.
        older: Part of the sums older than the period.
    """
    if promise.parts is None:
        return 0
    under, before = (sums.promised.get(promise, Spent()) for sums in (spent, older))
    return math.ceil(_counted(under, before)[0].epsilon / exact(promise.parts.epsilon))


def _counted(spent: Spent, older: Spent) -> tuple[Sums, Sums]:
    """Return the loss in the window, and the reserved part of it."""
    reserved = spent.reserved - older.reserved
    return spent.committed - older.committed + reserved, reserved


def _sums_text(spent: Spent) -> list[list[str]]:
    return [[decimal_text(s.epsilon), decimal_text(s.delta)] for s in (spent.committed, spent.reserved)]


def _rhos_text(spent: Spent) -> list[list[str | int]]:
    return [[decimal_text(s.rho), s.unlike] for s in (spent.committed, spent.reserved)]


def _spent_of(texts: Sequence[Sequence[str]], rhos: Sequence[tuple[str, int]] = _NO_RHOS) -> Spent:
    committed, reserved = (
        Sums(epsilon=Fraction(epsilon), delta=Fraction(delta), rho=Fraction(rho), unlike=unlike)
        for (epsilon, delta), (rho, unlike) in zip(texts, rhos, strict=True)
    )
    return Spent(committed=committed, reserved=reserved)


def _limit(period: str, epsilon: str, delta: str, neighbours: str, accounting: str = Accounting.SUM) -> Limit:
    return Limit(
        epsilon=float(epsilon),
        delta=float(delta),
        neighbours=Neighbours(neighbours),
        period=Period.parse(period),
        accounting=Accounting(accounting),
    )
