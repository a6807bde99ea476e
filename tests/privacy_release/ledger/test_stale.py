"""Reservations that are taken late: decided on again, so that no window ever holds more than its limit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from privacy_engine.dp.ledger import Booking, Entry, Event, State
from privacy_engine.dp.limits import Period, exact
from privacy_engine.errors import BudgetExceededError, LedgerError
from privacy_release.ledger.ledger import BudgetLedger
from tests.privacy_release.ledger.clocks import DATASET, DAY, NOW, Clock, grant, ledger_with, loss

STEPS = 16
LIMITS = {"30d": 1.0, "90d": 2.0, "total": 6.0, "release": 0.7}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(ledger_url: str, clock: Clock) -> BudgetLedger:
    return ledger_with(ledger_url, clock)


def overspent(entries: tuple[Entry, ...]) -> Fraction:
    """The most that the commits of any window, of all together or of one have spent above their limit."""
    commits = [(entry.at, Fraction(entry.epsilon)) for entry in entries if entry.event is Event.COMMIT]
    most = Fraction(0)
    for name, epsilon in LIMITS.items():
        spans = [sum(e for at, e in commits if _together(name, begin, at)) for begin, _ in commits]
        singles = [e for _, e in commits]
        most = max([most, *(spent - exact(epsilon) for spent in (singles if name == "release" else spans))])
    return most


def _together(period: str, begin: datetime, at: datetime) -> bool:
    window = Period.parse(period).window
    return window is None or begin <= at < begin + window


def interleave(ledger: BudgetLedger, clock: Clock, dataset: str, seed: int) -> int:
    """Several tasks reserve, wait, take up again and commit; how many commits were refused."""
    rng = np.random.default_rng(seed)
    clock.now = NOW
    for period, epsilon in LIMITS.items():
        grant(ledger, epsilon, period, dataset)
    taken: list[tuple[Booking, float]] = []
    refused = 0
    for step in range(STEPS):
        clock.now += timedelta(days=int(rng.choice([0, 1, 12, 31])), seconds=int(rng.integers(1000)))
        act = rng.choice(["reserve", "reserve", "take", "commit", "commit", "commit"])
        if act == "reserve" or len(taken) < 2:
            epsilon = float(rng.choice([0.3, 0.5, 0.7]))
            try:
                taken.append((ledger.reserve(dataset, f"key {step}", loss(epsilon)), epsilon))
            except BudgetExceededError:
                continue
        held, epsilon = taken[rng.integers(len(taken))]
        try:
            if act == "take":
                taken.append((ledger.reserve(dataset, held.key, loss(epsilon)), epsilon))
            elif act == "commit":
                ledger.commit(dataset, held.key, "model", token=held.token)
                taken = [(one, e) for one, e in taken if one.key != held.key]
                if rng.random() < 0.2:
                    ledger.cancel(dataset, held.key, token=held.token)  # of what is committed: refused
        except BudgetExceededError:
            refused += act == "commit"
        except (LedgerError, ValueError):
            continue  # cancelled, committed or booked again by another one meanwhile
    return refused


# Many interleavings find an order of steps of which no test has thought. In two of them, a commit is refused.
@pytest.mark.parametrize(
    "seeds",
    [pytest.param((5, 9), id="two"), pytest.param(range(60), marks=pytest.mark.slow, id="many")],
)
def test_no_interleaving_of_stale_reservations_overspends_a_limit(
    tmp_path: Path, clock: Clock, seeds: Sequence[int]
) -> None:
    ledger = ledger_with(str(tmp_path / "ledger.db"), clock)
    refused = sum(interleave(ledger, clock, f"data set {i}", seed=i) for i in seeds)
    spent = {i: overspent(ledger.check(f"data set {i}")) for i in seeds}
    assert {i: float(most) for i, most in spent.items() if most > 0} == {}
    assert refused >= max(2, len(seeds) // 10)  # else the interleavings would show nothing


def test_a_stale_reservation_is_not_committed_where_its_place_was_taken(
    ledger: BudgetLedger, clock: Clock
) -> None:
    grant(ledger, 1.0, "30d")
    late = ledger.reserve(DATASET, "late", loss(1.0))
    clock.now += 30 * DAY
    other = ledger.reserve(DATASET, "other", loss(1.0))
    ledger.commit(DATASET, "other", "model", token=other.token)
    clock.now += DAY
    with pytest.raises(BudgetExceededError, match=r"free again at 2024-04-30"):
        ledger.commit(DATASET, "late", "model", token=late.token)
    held = ledger.booking(DATASET, "late")
    assert held is not None
    assert held.state is State.RESERVED
    clock.now += 29 * DAY
    assert ledger.commit(DATASET, "late", "model", token=late.token).state is State.COMMITTED


@pytest.mark.parametrize("further", [(), ("90d",)], ids=["one limit", "and a longer one"])
def test_a_reservation_that_is_taken_late_is_booked_again_or_refused(
    ledger: BudgetLedger, clock: Clock, further: tuple[str, ...]
) -> None:
    grant(ledger, 1.0, "30d")
    for period in further:  # in it, the reservation still counts
        grant(ledger, 9.0, period)
    first = ledger.reserve(DATASET, "late", loss(0.6))
    clock.now += 30 * DAY
    second = ledger.reserve(DATASET, "late", loss(0.6))
    assert (second.attempt, second.booked_at, second.owned) == (2, clock.now, True)
    with pytest.raises(LedgerError, match="booked again"):
        ledger.commit(DATASET, "late", "model", token=first.token)
    with pytest.raises(BudgetExceededError):  # it counts again
        ledger.reserve(DATASET, "other", loss(0.5))
    clock.now += 30 * DAY
    ledger.reserve(DATASET, "other", loss(0.5))
    with pytest.raises(BudgetExceededError, match=r"cannot pay epsilon 0\.6"):
        ledger.reserve(DATASET, "late", loss(0.6))


def test_a_rolling_limit_counts_from_the_commit(ledger: BudgetLedger, clock: Clock) -> None:
    grant(ledger, 1.0, "30d")
    held = ledger.reserve(DATASET, "slow", loss(1.0))
    clock.now += 20 * DAY
    ledger.commit(DATASET, "slow", "model", token=held.token)
    clock.now = NOW + 50 * DAY - timedelta(microseconds=1)
    with pytest.raises(BudgetExceededError, match=r"free again at 2024-04-20 12:00:00"):
        ledger.reserve(DATASET, "next", loss(1.0))
    clock.now = NOW + 50 * DAY
    ledger.reserve(DATASET, "next", loss(1.0))


def test_a_reservation_is_not_committed_after_the_data_set_was_closed(
    ledger: BudgetLedger, clock: Clock
) -> None:
    grant(ledger, 1.0)
    held = ledger.reserve(DATASET, "key", loss(0.5))
    grant(ledger, 0.0)
    with pytest.raises(BudgetExceededError):
        ledger.commit(DATASET, "key", "model", token=held.token)
    grant(ledger, 0.5)
    assert ledger.commit(DATASET, "key", "model", token=held.token).model == "model"


def test_a_run_whose_reservation_is_stale_and_not_paid_for_holds_no_booking(
    ledger: BudgetLedger, clock: Clock
) -> None:
    grant(ledger, 1.0, "30d")
    ledger.reserve(DATASET, "late", loss(1.0), detail={"run": "dag/late"})
    assert ledger.booked_by(DATASET, "dag/late")
    clock.now += 30 * DAY
    ledger.reserve(DATASET, "other", loss(0.4))
    assert not ledger.booked_by(DATASET, "dag/late")


# Whose reservation it is


def test_no_one_cancels_the_reservation_of_another(ledger: BudgetLedger, clock: Clock) -> None:
    grant(ledger, 1.0)
    mine = ledger.reserve(DATASET, "key", loss(0.5))
    theirs = ledger.reserve(DATASET, "key", loss(0.5))
    assert (mine.owned, theirs.owned) == (True, False)
    for token in (theirs.token, "", "x" * 64, mine.entry_hash):
        with pytest.raises(LedgerError, match="cancelled by the task that made it"):
            ledger.cancel(DATASET, "key", token=token)
    ledger.cancel(DATASET, "key", token=mine.token)
    again = ledger.reserve(DATASET, "key", loss(0.5))
    with pytest.raises(LedgerError, match="cancelled by the task that made it"):
        ledger.cancel(DATASET, "key", token=mine.token)  # that was another reservation of the key
    assert ledger.commit(DATASET, "key", "model", token=again.token).model == "model"


def test_only_who_took_a_reservation_commits_it(ledger: BudgetLedger, clock: Clock) -> None:
    grant(ledger, 1.0)
    mine = ledger.reserve(DATASET, "key", loss(0.5))
    for token in ("", "x" * 64, mine.entry_hash, ledger.reserve(DATASET, "other", loss(0.1)).token):
        with pytest.raises(LedgerError, match="discarded"):
            ledger.commit(DATASET, "key", "model", token=token)
    looked_up = ledger.booking(DATASET, "key")
    assert looked_up is not None
    assert looked_up.token == ""


def test_a_retry_that_asks_the_same_goes_on_with_the_reservation(ledger: BudgetLedger, clock: Clock) -> None:
    grant(ledger, 1.0)
    first = ledger.reserve(DATASET, "key", loss(0.5), detail={"run": "dag/run"})
    retry = BudgetLedger(ledger.url, clock=clock).reserve(
        DATASET, "key", loss(0.5), detail={"run": "dag/run"}
    )
    assert retry == replace(first, token="")
    assert ledger.commit(DATASET, "key", "model", token=retry.token).model == "model"
    assert first.token not in repr(first)
