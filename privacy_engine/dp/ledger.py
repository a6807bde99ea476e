"""The privacy budget of a data set: bookings against its limits, and the decision whether another one fits.

Pure: no clock and no storage. Everything follows from the entries of a data set's ledger, oldest first:
limits, bookings and what is left (`privacy_engine.dp.totals`). An entry is never changed: a cancellation is a
further entry.

All losses of a data set are for one neighbour relation and compose sequentially: epsilons and deltas add
(Dwork and Roth 2014, Theorem 3.16), or the rho's of zCDP do, by the accounting of the limit; exactly
(`privacy_engine.dp.limits`). Each booking may depend on everything released before. A limit stops
the first booking that would break it, which is a privacy filter: of pure epsilons (Rogers, Roth, Ullman,
Vadhan 2016), of rho's (Feldman, Zrnic 2021; Whitehouse, Ramdas, Rogers, Wu 2023). Bookings under a promise
count together, as the promise (`privacy_engine.dp.promises`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

from privacy_engine.dp.limits import Limit, Period, decimal_text, exact, rho_of
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import Promise
from privacy_engine.errors import BudgetExceededError


class Event(StrEnum):
    """The event that an entry of the ledger records."""

    GRANT = "grant"  # a limit was set, or replaced the limit of the same period
    RESERVE = "reserve"  # a loss was booked, before any noise was drawn
    COMMIT = "commit"  # the noise was drawn, and the resulting model is stored
    CANCEL = "cancel"  # a reservation was cancelled: no noise was drawn for it


class State(StrEnum):
    """The state of a booking. All except a cancelled one count as spent."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a data set's ledger.

    Attributes:
        number: 1, 2, 3, ... within the data set.
        key: Key of the booking; for a grant, the entry's number.
        attempt: Counts the reservations of one key, from 1: a cancelled one can be repeated.
        at: Time, UTC; never before the previous entry.
        epsilon, delta: Decimal text, so that they are hashed, stored and added exactly.
        detail: For a grant its period, reason and author, and its accounting if it is not by sum; for a
            reservation the caller's details; for a commit the sha256 of the stored model; for a loss with a
            rho, `rho`, decimal text; for a booking under a promise, in each of its entries, the promise.
        salt: Random text, so that the hash can be published: the key is a hash of the data, and without a
            salt someone who knows all records but one could try out the last.
        previous: Hash of the previous entry; empty for the first.
        hash: Hash of all of the above, see `privacy_engine.dp.chain`.
    """

    dataset: str
    number: int
    event: Event
    key: str
    attempt: int
    at: datetime
    epsilon: str
    delta: str
    neighbours: Neighbours
    detail: Mapping[str, str]
    salt: str
    previous: str
    hash: str = ""


@dataclass(frozen=True, kw_only=True)
class Booking:
    """A loss that a data set's budget has paid for, or is reserved to pay for.

    Attributes:
        key: Key of the request, regardless of who makes it: data, method, parameters, schema.
        entry_hash: Hash of the entry that reserved it; unchanged while the booking exists.
        booked_at: Time of the reservation, UTC, from which it counts; in a rolling limit, from its commit.
        detail: Details from the caller of the reservation.
        promise: Promise that it is under; None: it counts by itself.
        model_sha256: Hash of the stored model, once committed.
        model: Stored model, if it was requested from the ledger.
        token: Token that the ledger issued for the booking; required for a commit.
        owned: Whether the token belongs to the call that reserved it, the only one that can cancel it.
    """

    dataset: str
    key: str
    loss: PrivacyLoss
    state: State
    entry_hash: str
    attempt: int
    booked_at: datetime
    detail: Mapping[str, str]
    promise: Promise | None = None
    model_sha256: str | None = None
    model: str | None = None
    token: str = field(default="", repr=False, compare=False)
    owned: bool = field(default=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is spent of a limit at some time.

    Attributes:
        limit: Limit in question.
        spent: Epsilon spent; with zcdp, the epsilon of its rho at the limit's delta.
        spent_delta: Sum of deltas; 0 with zcdp, whose delta is never used up.
        reserved: Part of `spent` that is not committed yet.
        rho: Sum of rho's, with zcdp.
        unlike: Number of bookings without a rho, with zcdp: then the limit covers nothing more.
        promises: Promises that are part of `spent`: a further booking under one of them costs nothing more;
            none with zcdp, where each booking counts by itself.
    """

    limit: Limit
    spent: Fraction
    spent_delta: Fraction
    reserved: Fraction
    promises: frozenset[Promise] = frozenset()
    rho: Fraction = Fraction(0)
    unlike: int = 0

    @property
    def left(self) -> Fraction:
        """Epsilon that a further booking may spend."""
        return max(Fraction(0), exact(self.limit.epsilon) - self.spent)

    @property
    def left_delta(self) -> Fraction:
        """Delta that a further booking may spend."""
        return max(Fraction(0), exact(self.limit.delta) - self.spent_delta)

    @property
    def left_rho(self) -> Fraction:
        """Rho that a further booking may spend, with zcdp."""
        return max(Fraction(0), self.limit.rho - self.rho)

    @property
    def room(self) -> Fraction:
        """Epsilon of the limit outside of promises: other bookings never use up what a promise reserves."""
        return exact(self.limit.epsilon) - self._held(0)

    @property
    def left_share(self) -> Fraction:
        """Share left outside of promises, 0 to 1, of the scarcest resource.

        For a closed limit nothing is left, and nothing is missing if promises reserve all of it.
        """
        return min(self._shares_left.values())

    @property
    def scarcest(self) -> str:
        """The resource with the smallest share left: `epsilon`, `delta`, or `rho` with zcdp."""
        shares = self._shares_left
        return min(shares, key=lambda name: shares[name])

    @property
    def _shares_left(self) -> dict[str, Fraction]:
        """Amount left of each resource of the limit; a delta of 0 is not a resource."""
        if self.limit.is_zcdp:
            wholes = {"rho": (self.left_rho, self.limit.rho)}
        else:
            wholes = {"epsilon": (self.left, self.room)}
            if self.limit.delta:
                wholes["delta"] = (self.left_delta, self._room_of_delta)
        is_open = Fraction(int(self.limit.epsilon > 0))
        return {name: left / whole if whole else is_open for name, (left, whole) in wholes.items()}

    @property
    def _room_of_delta(self) -> Fraction:
        return exact(self.limit.delta) - self._held(1)

    def _held(self, place: int) -> Fraction:
        """Return epsilon (index 0) or delta (index 1) that the promises reserve together."""
        held = (promise.asks(self.limit.period) for promise in self.promises)
        return sum((amounts[place] for amounts in held if amounts), start=Fraction(0))

    def charge(self, loss: PrivacyLoss, promise: Promise | None = None) -> tuple[Fraction, Fraction]:
        """Return epsilon and delta that a further booking of that loss costs, under a promise or none."""
        own = (exact(loss.epsilon), exact(loss.delta))
        if promise is None or self.limit.period.name == "release":
            return own
        if promise in self.promises:
            return Fraction(0), Fraction(0)
        return promise.asks(self.limit.period) or own

    def covers(self, loss: PrivacyLoss, promise: Promise | None = None) -> bool:
        """Return whether a further booking of that loss, under a promise or none, fits the limit."""
        return not self.lacks(loss, promise)

    def lacks(self, loss: PrivacyLoss, promise: Promise | None = None) -> tuple[str, ...]:
        """Return the resources that are too small for a further booking: `epsilon`, `delta`, `rho`."""
        if self.limit.is_zcdp:
            rho = rho_of(loss)
            is_covered = rho is not None and not self.unlike and rho <= self.left_rho
            return () if is_covered else ("rho",)
        needed = zip(
            ("epsilon", "delta"), self.charge(loss, promise), (self.left, self.left_delta), strict=True
        )
        return tuple(name for name, amount, left in needed if amount > left)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for reports; decide with `covers`, which compares exactly."""
        values = {
            **self.limit.to_dict(),
            "spent": float(self.spent),
            "spent_delta": float(self.spent_delta),
            "reserved": float(self.reserved),
            "left": float(self.left),
            "left_delta": float(self.left_delta),
        }
        if self.limit.is_zcdp:
            values |= {"spent_rho": float(self.rho), "left_rho": float(self.left_rho)}
        return values


def committed_with(entries: Sequence[Entry], field: str, value: str) -> list[Entry]:
    """Return the entries that commit a booking and whose detail has this value in a field, in order."""
    return [entry for entry in entries if entry.event is Event.COMMIT and entry.detail.get(field) == value]


def promise_of(entry: Entry) -> Promise | None:
    """Return the promise of a booking's entry; None if there is none."""
    return Promise.of_detail(entry.detail, entry.neighbours)


def booking_of(reserve: Entry, closed: Entry | None) -> Booking:
    """Return the booking that one entry reserved and another committed or cancelled."""
    committed = closed if closed and closed.event is Event.COMMIT else None
    state = State.RESERVED if closed is None else State.COMMITTED if committed else State.CANCELLED
    return Booking(
        dataset=reserve.dataset,
        key=reserve.key,
        loss=PrivacyLoss(
            epsilon=float(reserve.epsilon),
            delta=float(reserve.delta),
            neighbours=reserve.neighbours,
            rho=float(reserve.detail["rho"]) if "rho" in reserve.detail else None,
        ),
        state=state,
        entry_hash=reserve.hash,
        attempt=reserve.attempt,
        booked_at=reserve.at,
        detail=reserve.detail,
        promise=promise_of(reserve),
        model_sha256=committed.detail["model_sha256"] if committed else None,
    )


def counts(period: Period, booking: Booking, now: datetime) -> bool:
    """Return whether a reservation counts in the sum of a limit of that period at a time.

    Raises:
        ValueError: If `now` has no time zone.
    """
    if now.tzinfo is None:
        raise ValueError("the time must have a time zone. Use UTC")
    if period.name == "release":
        return False
    return period.window is None or now < booking.booked_at + period.window


def fits(loss: PrivacyLoss, standings: Sequence[Standing], promise: Promise | None = None) -> bool:
    """Return whether a further booking fits every limit; without a limit nothing fits."""
    return bool(standings) and all(
        s.limit.neighbours is loss.neighbours and s.covers(loss, promise) for s in standings
    )


def refuse_overspending(
    dataset: str,
    loss: PrivacyLoss,
    standings: Sequence[Standing],
    free_again: Callable[[Standing], datetime | None] = lambda standing: None,
    promise: Promise | None = None,
) -> None:
    """Raise if a further booking does not fit every limit; without a limit nothing fits.

    Args:
        dataset: Data set whose budget pays.
        loss: Loss of the further booking.
        standings: Standing of each limit of the data set, without that booking.
        free_again: Function that returns when a limit covers the loss again if nothing else is booked.
        promise: Promise that the booking is under; None: it counts by itself.

    Raises:
        BudgetExceededError: If not; the message has data set, limit, requested and remaining amounts, and
            when it fits.
    """
    if not standings:
        raise BudgetExceededError(
            f"data set {dataset} must have a privacy budget before anything is released from it, but has "
            f"none; {remedy(dataset, loss.neighbours)}"
        )
    others = [s.limit for s in standings if s.limit.neighbours is not loss.neighbours]
    if others:
        raise BudgetExceededError(
            f"data set {dataset} has a privacy budget for the neighbour relation "
            f"{others[0].neighbours}, but the release needs {loss.neighbours}, and these do not add. "
            f"Use a method for {others[0].neighbours}, or convert the loss"
        )
    short = [standing for standing in standings if not standing.covers(loss, promise)]
    if short:
        request = _amount(exact(loss.epsilon), exact(loss.delta), loss.rho)
        if rho_of(loss) is None and any(standing.limit.is_zcdp for standing in short):
            raise BudgetExceededError(
                f"data set {dataset} has a privacy budget accounted as zcdp, but no rho follows from "
                f"{request}; use a method of pure epsilon, or one that reports its noise's rho, or "
                "grant a limit accounted by sum"
            )
        if promise is not None:
            most = _amount(exact(promise.loss.epsilon), exact(promise.loss.delta))
            request += f" under the promise {promise.name} of {most} ({_words(promise.period)})"
        raise BudgetExceededError(
            f"data set {dataset} cannot pay {request}: "
            + "; ".join(_shortage(s, s.lacks(loss, promise), free_again(s)) for s in short)
            + f"; request less, or {_remedies(dataset, short, loss, promise)}"
        )


def no_part_left(dataset: str, loss: PrivacyLoss, promise: Promise) -> str:
    """Explain why a promise in equal parts refuses a further booking."""
    most = _amount(exact(promise.loss.epsilon), exact(promise.loss.delta))
    releases = promise.parts.releases if promise.parts else 0
    named = f"the promise {promise.name} of {most} ({_words(promise.period)})"
    if not promise.is_part(loss):
        request = _amount(exact(loss.epsilon), exact(loss.delta))
        return f"data set {dataset}: {named} consists of equal parts, and {request} is not one. Use a part"
    wait = "Wait until the first of them is older than that, or make" if promise.period.window else "Make"
    return (
        f"data set {dataset}: {named} is for {releases} releases, and all of them were made. {wait} a "
        "new promise under another name, which the budget must cover in addition"
    )


def remedy(dataset: str, neighbours: Neighbours = Neighbours.REPLACE_ONE) -> str:
    """Return the command that gives a data set its first budget, for a neighbour relation."""
    return f"the owner of the budget grants it: {_command(dataset, neighbours, 'E')}"


def _remedies(dataset: str, short: Sequence[Standing], loss: PrivacyLoss, promise: Promise | None) -> str:
    """Return the command for each limit that is too small, with a letter for the new amount."""
    commands = []
    for standing in short:
        limit, lacks = standing.limit, standing.lacks(loss, promise)
        epsilon = "E" if {"epsilon", "rho"} & {*lacks} else decimal_text(exact(limit.epsilon))
        delta = "D" if "delta" in lacks else decimal_text(exact(limit.delta)) if limit.delta else ""
        commands.append(_command(dataset, loss.neighbours, epsilon, delta, limit))
    return f"the owner of the budget grants it: {', and '.join(commands)}"


def _command(
    dataset: str, neighbours: Neighbours, epsilon: str, delta: str = "", limit: Limit | None = None
) -> str:
    quoted = "'" + dataset.replace("'", "'\"'\"'") + "'" if not _plain(dataset) else dataset
    options = [f"--epsilon {epsilon}"]
    if delta:
        options.append(f"--delta {delta}")
    if limit is not None and limit.period.name != "total":
        options.append(f"--period {limit.period}")
    if limit is not None and limit.is_zcdp:
        options.append(f"--accounting {limit.accounting}")
    if neighbours is not Neighbours.REPLACE_ONE:
        options.append(f"--neighbours {neighbours}")
    return f"privacy-release budget grant {quoted} {' '.join(options)} --reason TEXT"


def _plain(name: str) -> bool:
    return all((c.isascii() and c.isalnum()) or c in "_-./:@%+=" for c in name) and not name.startswith("-")


def _shortage(standing: Standing, lacks: Sequence[str], again: datetime | None) -> str:
    limit = standing.limit
    whole = _amount(exact(limit.epsilon), exact(limit.delta))
    left = _amount(standing.left, standing.left_delta, with_delta=bool(limit.delta))
    text = f"{left} is left of {whole} ({_words(limit.period)})"
    if limit.is_zcdp:
        text += f", which is rho {float(standing.left_rho):.6g} of {float(limit.rho):.6g}, as zcdp"
    if "delta" in lacks:
        text += f", too little {' and '.join(lacks)}"
    return text if again is None else f"{text}, enough is free again at {again:%Y-%m-%d %H:%M:%S} UTC"


def _words(period: Period) -> str:
    names = {"total": "in total", "release": "for each release"}
    return names.get(period.name, f"in {period.name[:-1]} days")


def _amount(epsilon: Fraction, delta: Fraction, rho: float | None = None, *, with_delta: bool = False) -> str:
    text = f"epsilon {decimal_text(epsilon)}"
    text = f"{text} and delta {decimal_text(delta)}" if delta or with_delta else text
    return text if rho is None else f"{text} (rho {rho:.6g})"
