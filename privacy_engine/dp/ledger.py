"""The privacy budget of a data set: bookings against its limits, and the decision whether one more fits.

Pure: no clock and no storage. The entries of a data set's ledger, oldest first, are the whole truth; limits,
bookings and what is left derive from them (`privacy_engine.dp.totals`). An entry is never changed: what is
taken back is a further entry.

All losses of a data set are for one neighbour relation and compose sequentially: epsilons and deltas add
(Dwork and Roth 2014, Theorem 3.16), or the rho's of zCDP do, by the accounting of the limit; exactly
(`privacy_engine.dp.limits`). What is booked next may depend on all that was released before. A limit stops
the first booking that would break it, which is a privacy filter: of pure epsilons (Rogers, Roth, Ullman,
Vadhan 2016), of rho's (Feldman, Zrnic 2021; Whitehouse, Ramdas, Rogers, Wu 2023). Bookings under
a promise count together, as what it promises (`privacy_engine.dp.promises`).
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
        detail: of a grant its period, reason and author, and its accounting where it is not by sum; of a
            reservation what its caller told; of a commit the sha256 of the stored model; of a loss that
            carries a rho, `rho`, decimal text; of a booking under a promise, in each of its entries, the
            promise.
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
        booked_at: when it was reserved, UTC; from then on it counts; in a rolling limit, from its commit.
        detail: what the caller told when it reserved.
        promise: that it is under; None: it counts by itself.
        model_sha256: of the stored model, once committed.
        model: the stored model itself, where the ledger was asked for it.
        token: what the ledger gave to whom it let take the booking; a commit needs it.
        owned: whether the token is that of the call that reserved it, which alone can give it back.
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
    """What of a limit is spent at some time.

    Attributes:
        limit: that bounds it.
        spent: epsilon; of a limit accounted as zcdp what its rho is at the limit's delta.
        spent_delta: the sum of deltas; 0 of a limit accounted as zcdp, whose delta is never used up.
        reserved: the part of `spent` that is not committed yet.
        rho: the sum of rho's, of a limit accounted as zcdp.
        unlike: bookings of which no rho follows, of a limit accounted as zcdp: it covers nothing more then.
        promises: that are part of `spent`: a further booking under one of them asks nothing more; none of a
            limit accounted as zcdp, in which each booking counts by itself.
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
        """Rho that a further booking may spend, of a limit accounted as zcdp."""
        return max(Fraction(0), self.limit.rho - self.rho)

    @property
    def room(self) -> Fraction:
        """Epsilon of the limit that no promise holds: its bookings never use up what a promise holds."""
        return exact(self.limit.epsilon) - self._held(0)

    @property
    def left_share(self) -> Fraction:
        """What is left of the part that no promise holds, 0 to 1, of the resource that is scarcest.

        Of a closed limit nothing is left, and nothing is missing where promises hold all of one.
        """
        return min(self._shares_left.values())

    @property
    def scarcest(self) -> str:
        """The resource of which the smallest share is left: `epsilon`, `delta`, or `rho` where rho's add."""
        shares = self._shares_left
        return min(shares, key=lambda name: shares[name])

    @property
    def _shares_left(self) -> dict[str, Fraction]:
        """What is left of each resource of the limit; a delta of 0 is none of its resources."""
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
        """Epsilon (place 0) or delta (place 1) that the promises hold together."""
        held = (promise.asks(self.limit.period) for promise in self.promises)
        return sum((amounts[place] for amounts in held if amounts), start=Fraction(0))

    def asked(self, loss: PrivacyLoss, promise: Promise | None = None) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that a further booking of that loss, under a promise or none, takes of it."""
        own = (exact(loss.epsilon), exact(loss.delta))
        if promise is None or self.limit.period.name == "release":
            return own
        if promise in self.promises:
            return Fraction(0), Fraction(0)
        return promise.asks(self.limit.period) or own

    def covers(self, loss: PrivacyLoss, promise: Promise | None = None) -> bool:
        """Whether a further booking of that loss, under a promise or none, keeps the limit."""
        return not self.lacks(loss, promise)

    def lacks(self, loss: PrivacyLoss, promise: Promise | None = None) -> tuple[str, ...]:
        """The resources of which too little is left for a further booking: `epsilon`, `delta`, `rho`."""
        if self.limit.is_zcdp:
            rho = rho_of(loss)
            is_covered = rho is not None and not self.unlike and rho <= self.left_rho
            return () if is_covered else ("rho",)
        asked = zip(
            ("epsilon", "delta"), self.asked(loss, promise), (self.left, self.left_delta), strict=True
        )
        return tuple(name for name, amount, left in asked if amount > left)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for reports; decide with `covers`, which compares exactly."""
        told = {
            **self.limit.to_dict(),
            "spent": float(self.spent),
            "spent_delta": float(self.spent_delta),
            "reserved": float(self.reserved),
            "left": float(self.left),
            "left_delta": float(self.left_delta),
        }
        if self.limit.is_zcdp:
            told |= {"spent_rho": float(self.rho), "left_rho": float(self.left_rho)}
        return told


def committed_with(entries: Sequence[Entry], field: str, value: str) -> list[Entry]:
    """The entries that commit a booking and whose detail has this value in a field, in their order."""
    return [entry for entry in entries if entry.event is Event.COMMIT and entry.detail.get(field) == value]


def promise_of(entry: Entry) -> Promise | None:
    """The promise that a booking's entry is under; None: none."""
    return Promise.of_detail(entry.detail, entry.neighbours)


def booking_of(reserve: Entry, closed: Entry | None) -> Booking:
    """The booking that an entry reserved, and another one committed or cancelled."""
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
    """Whether a reservation is in the sum that a limit of that period bounds at a time.

    Raises:
        ValueError: if `now` has no time zone.
    """
    if now.tzinfo is None:
        raise ValueError("the time must have a time zone, got one without; take UTC")
    if period.name == "release":
        return False
    return period.window is None or now < booking.booked_at + period.window


def fits(loss: PrivacyLoss, standings: Sequence[Standing], promise: Promise | None = None) -> bool:
    """Whether a further booking keeps every limit; without a limit nothing does."""
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
    """Decide whether a further booking keeps every limit; without a limit nothing does.

    Args:
        dataset: whose budget.
        loss: of the further booking.
        standings: of each limit of the data set, without that booking.
        free_again: tells when a limit that is short covers the loss if nothing else is booked.
        promise: that the booking is under; None: it counts by itself.

    Raises:
        BudgetExceededError: if it does not, naming data set, limit, what was asked and is left, and when.
    """
    if not standings:
        raise BudgetExceededError(
            f"data set {dataset} must have a privacy budget before anything is released from it, it has "
            f"none; {remedy(dataset, loss.neighbours)}"
        )
    others = [s.limit for s in standings if s.limit.neighbours is not loss.neighbours]
    if others:
        raise BudgetExceededError(
            f"data set {dataset} has a privacy budget for the neighbour relation {others[0].neighbours}, the "
            f"release asks for {loss.neighbours}, and these do not add; release by a method for "
            f"{others[0].neighbours}, or convert the loss"
        )
    short = [standing for standing in standings if not standing.covers(loss, promise)]
    if short:
        asked = _amount(exact(loss.epsilon), exact(loss.delta), loss.rho)
        if rho_of(loss) is None and any(standing.limit.is_zcdp for standing in short):
            raise BudgetExceededError(
                f"data set {dataset} has a privacy budget accounted as zcdp, and no rho follows from "
                f"{asked}; release by a method of pure epsilon, or by one that tells its noise's rho, or "
                "grant a limit accounted by sum"
            )
        if promise is not None:
            most = _amount(exact(promise.loss.epsilon), exact(promise.loss.delta))
            asked += f" under the promise {promise.name} of {most} ({_words(promise.period)})"
        raise BudgetExceededError(
            f"data set {dataset} cannot pay {asked}: "
            + "; ".join(_shortage(s, s.lacks(loss, promise), free_again(s)) for s in short)
            + f"; ask for less, or {_remedies(dataset, short, loss, promise)}"
        )


def no_part_left(dataset: str, loss: PrivacyLoss, promise: Promise) -> str:
    """Why a promise of equal parts refuses a further booking."""
    most = _amount(exact(promise.loss.epsilon), exact(promise.loss.delta))
    releases = promise.parts.releases if promise.parts else 0
    named = f"the promise {promise.name} of {most} ({_words(promise.period)})"
    if not promise.is_part(loss):
        asked = _amount(exact(loss.epsilon), exact(loss.delta))
        return f"data set {dataset}: {named} is kept in equal parts, and {asked} is none; take its part"
    wait = "wait until the first of them is older than that, or " if promise.period.window else ""
    return (
        f"data set {dataset}: {named} is for {releases} releases, and all of them were made; {wait}make a "
        "new promise under another name, which the budget must cover beside it"
    )


def remedy(dataset: str, neighbours: Neighbours = Neighbours.REPLACE_ONE) -> str:
    """The command that gives a data set its first budget, for a neighbour relation."""
    return f"the owner of the budget grants it: {_command(dataset, neighbours, 'E')}"


def _remedies(dataset: str, short: Sequence[Standing], loss: PrivacyLoss, promise: Promise | None) -> str:
    """The command for each limit that is short: what is short as a letter, all else as it is granted now."""
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
    told = f"epsilon {decimal_text(epsilon)}"
    told = f"{told} and delta {decimal_text(delta)}" if delta or with_delta else told
    return told if rho is None else f"{told} (rho {rho:.6g})"
