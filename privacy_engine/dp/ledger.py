"""The privacy budget of a data set: bookings against its limits, and the decision whether one more fits.

Pure: no clock and no storage. The entries of a data set's ledger, oldest first, are the whole truth; limits,
bookings and what is left derive from them. An entry is never changed: what is taken back is a further entry.

All losses of a data set are for one neighbour relation and compose sequentially (Dwork and Roth 2014,
Theorem 3.16): epsilons and deltas add, exactly (`privacy_engine.dp.limits`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

from privacy_engine.dp.limits import Limit, Period, decimal_text, exact
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import BudgetExceededError


class Event(StrEnum):
    """What an entry of the ledger records."""

    GRANT = "grant"  # a limit was set, or replaced the limit of the same period
    RESERVE = "reserve"  # a loss was booked, before any noise was drawn
    COMMIT = "commit"  # the noise was drawn, and the model that it made is stored
    CANCEL = "cancel"  # a reservation was given back: no noise was drawn for it


class State(StrEnum):
    """How far a booking is. All but a cancelled one count as spent."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a data set's ledger.

    Attributes:
        number: 1, 2, 3, ... within the data set.
        key: of the booking; of a grant, the entry's number.
        attempt: counts the reservations of one key, from 1: a cancelled one can be made again.
        at: when, UTC; never before the entry above it.
        epsilon, delta: decimal text, so that they are hashed, stored and added exactly.
        detail: of a grant its period, reason and author; of a reservation what its caller told; of a commit
            the sha256 of the stored model.
        salt: random text, so that the hash can be published: the key is a hash of the data, and without a
            salt whoever knows all records but one could try out the last.
        previous: hash of the entry above; empty for the first.
        hash: of all of the above, see `privacy_engine.dp.chain`.
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
        key: names what was asked, whoever asks: data, method, parameters, schema.
        entry_hash: of the entry that reserved it; the same for as long as the booking stands.
        booked_at: when it was reserved, UTC; from then on it counts.
        detail: what the caller told when it reserved.
        model_sha256: of the stored model, once committed.
        model: the stored model itself, where the ledger was asked for it.
    """

    dataset: str
    key: str
    loss: PrivacyLoss
    state: State
    entry_hash: str
    attempt: int
    booked_at: datetime
    detail: Mapping[str, str]
    model_sha256: str | None = None
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What of a limit is spent at some time; `reserved` is the part of `spent` that is not committed yet."""

    limit: Limit
    spent: Fraction
    spent_delta: Fraction
    reserved: Fraction

    @property
    def left(self) -> Fraction:
        """Epsilon that a further booking may spend."""
        return max(Fraction(0), exact(self.limit.epsilon) - self.spent)

    @property
    def left_delta(self) -> Fraction:
        """Delta that a further booking may spend."""
        return max(Fraction(0), exact(self.limit.delta) - self.spent_delta)

    def covers(self, loss: PrivacyLoss) -> bool:
        """Whether a further booking of that loss keeps the limit."""
        return exact(loss.epsilon) <= self.left and exact(loss.delta) <= self.left_delta

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for reports; decide with `covers`, which compares exactly."""
        return {
            **self.limit.to_dict(),
            "spent": float(self.spent),
            "spent_delta": float(self.spent_delta),
            "reserved": float(self.reserved),
            "left": float(self.left),
            "left_delta": float(self.left_delta),
        }


def limits_of(entries: Iterable[Entry]) -> tuple[Limit, ...]:
    """The limits that hold: the last grant of each period, in the order of their periods' first grants."""
    held: dict[str, Limit] = {}
    for entry in entries:
        if entry.event is Event.GRANT:
            period = Period.parse(entry.detail["period"])
            held[period.name] = Limit(
                epsilon=float(entry.epsilon),
                delta=float(entry.delta),
                neighbours=entry.neighbours,
                period=period,
            )
    return tuple(held.values())


def bookings_of(entries: Iterable[Entry]) -> dict[str, Booking]:
    """The bookings by key, in the order of their reservations; of one key only the last attempt."""
    held: dict[str, Booking] = {}
    for entry in entries:
        match entry.event:
            case Event.RESERVE:
                held.pop(entry.key, None)
                held[entry.key] = Booking(
                    dataset=entry.dataset,
                    key=entry.key,
                    loss=PrivacyLoss(
                        epsilon=float(entry.epsilon), delta=float(entry.delta), neighbours=entry.neighbours
                    ),
                    state=State.RESERVED,
                    entry_hash=entry.hash,
                    attempt=entry.attempt,
                    booked_at=entry.at,
                    detail=entry.detail,
                )
            case Event.COMMIT:
                held[entry.key] = replace(
                    held[entry.key], state=State.COMMITTED, model_sha256=entry.detail["model_sha256"]
                )
            case Event.CANCEL:
                held[entry.key] = replace(held[entry.key], state=State.CANCELLED)
    return held


def standings(limits: Iterable[Limit], bookings: Iterable[Booking], now: datetime) -> tuple[Standing, ...]:
    """What of each limit is spent at a time.

    Args:
        limits: of one data set.
        bookings: of the same; cancelled ones do not count.
        now: aware, UTC.

    Raises:
        ValueError: if `now` has no time zone.
    """
    _check_aware(now)
    held = list(bookings)
    return tuple(_standing(limit, held, now) for limit in limits)


def _standing(limit: Limit, bookings: Sequence[Booking], now: datetime) -> Standing:
    counted = _counted(limit.period, bookings, now)
    return Standing(
        limit=limit,
        spent=_sum(b.loss.epsilon for b in counted),
        spent_delta=_sum(b.loss.delta for b in counted),
        reserved=_sum(b.loss.epsilon for b in counted if b.state is State.RESERVED),
    )


def _counted(period: Period, bookings: Sequence[Booking], now: datetime) -> list[Booking]:
    """The bookings that a limit of that period bounds together with a further one."""
    if period.name == "release":
        return []
    live = [booking for booking in bookings if booking.state is not State.CANCELLED]
    return [b for b in live if period.window is None or now < b.booked_at + period.window]


def refuse_overspending(
    dataset: str, loss: PrivacyLoss, limits: Sequence[Limit], bookings: Sequence[Booking], now: datetime
) -> None:
    """Decide whether a further booking keeps every limit; without a limit nothing does.

    Raises:
        BudgetExceededError: if it does not, naming data set, limit, what was asked and is left, and when.
        ValueError: if `now` has no time zone.
    """
    if not limits:
        raise BudgetExceededError(
            f"data set {dataset} must have a privacy budget before anything is released from it, it has "
            f"none; {remedy(dataset)}"
        )
    others = [limit for limit in limits if limit.neighbours is not loss.neighbours]
    if others:
        raise BudgetExceededError(
            f"data set {dataset} has a privacy budget for the neighbour relation {others[0].neighbours}, the "
            f"release asks for {loss.neighbours}, and these do not add; release by a method for "
            f"{others[0].neighbours}, or convert the loss"
        )
    short = [standing for standing in standings(limits, bookings, now) if not standing.covers(loss)]
    if short:
        raise BudgetExceededError(
            f"data set {dataset} cannot pay {_amount(exact(loss.epsilon), exact(loss.delta))}: "
            + "; ".join(_shortage(standing, loss, bookings, now) for standing in short)
            + f"; ask for less, or {remedy(dataset)}"
        )


def remedy(dataset: str) -> str:
    """The command that gives a data set more budget."""
    quoted = "'" + dataset.replace("'", "'\"'\"'") + "'" if not _plain(dataset) else dataset
    return (
        f"whoever owns the budget grants it: privacy-release budget grant {quoted} --epsilon E --reason TEXT"
    )


def _plain(name: str) -> bool:
    return all((c.isascii() and c.isalnum()) or c in "_-./:@%+=" for c in name) and not name.startswith("-")


def _shortage(standing: Standing, loss: PrivacyLoss, bookings: Sequence[Booking], now: datetime) -> str:
    limit = standing.limit
    left = _amount(standing.left, standing.left_delta)
    told = f"{left} is left of {_amount(exact(limit.epsilon), exact(limit.delta))} ({_words(limit.period)})"
    again = free_again(limit, loss, bookings, now)
    return told if again is None else f"{told}, enough is free again at {again:%Y-%m-%d %H:%M:%S} UTC"


def _words(period: Period) -> str:
    names = {"total": "in total", "release": "for each release"}
    return names.get(period.name, f"in {period.name[:-1]} days")


def _amount(epsilon: Fraction, delta: Fraction) -> str:
    told = f"epsilon {decimal_text(epsilon)}"
    return f"{told} and delta {decimal_text(delta)}" if delta else told


def free_again(
    limit: Limit, loss: PrivacyLoss, bookings: Sequence[Booking], now: datetime
) -> datetime | None:
    """When a rolling limit covers the loss if nothing else is booked; None if waiting does not help."""
    window = limit.period.window
    if window is None:
        return None
    ends = sorted({b.booked_at + window for b in _counted(limit.period, bookings, now)})
    return next((end for end in ends if _standing(limit, bookings, end).covers(loss)), None)


def _sum(values: Iterable[float]) -> Fraction:
    return sum(map(exact, values), Fraction(0))


def _check_aware(now: datetime) -> None:
    if now.tzinfo is None:
        raise ValueError("the time must have a time zone, got one without; take UTC")
