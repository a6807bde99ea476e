"""A promise counts once in every window in which a booking under it does, and in no other."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from privacy_engine.dp.ledger import State
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import Parts, Promise, equal_part
from privacy_engine.dp.totals import Totals
from privacy_engine.errors import BudgetExceededError
from privacy_release.alerts.budgets import low_budgets
from privacy_release.ledger.ledger import BudgetLedger
from tests.privacy_release.ledger.clocks import DAY, Clock, ledger_with

PERSON = Neighbours.REPLACE_PERSON
YEAR = Period.parse("365d")


def loss(epsilon: float) -> PrivacyLoss:
    return PrivacyLoss(epsilon=epsilon, neighbours=PERSON)


VISITS = Promise(name="visits", loss=loss(2.0), period=YEAR)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> BudgetLedger:
    made = ledger_with(str(tmp_path / "ledger.db"), clock)
    made.grant("clinic", Limit(epsilon=2.5, neighbours=PERSON, period=YEAR), reason="a test", by="officer")
    return made


def book(ledger: BudgetLedger, key: str, epsilon: float = 0.5, promise: Promise | None = VISITS) -> None:
    booking = ledger.reserve("clinic", key, loss(epsilon), promise=promise)
    ledger.commit("clinic", key, "{}", token=booking.token)


def spent(ledger: BudgetLedger) -> float:
    return float(ledger.standing("clinic")[0].spent)


def test_many_bookings_under_a_promise_count_as_the_promise_once(ledger: BudgetLedger, clock: Clock) -> None:
    for week in range(6):
        book(ledger, f"week {week}")
        assert spent(ledger) == 2.0
        clock.now += timedelta(days=7)
    ledger.check("clinic")


def test_a_promise_counts_until_a_whole_window_after_its_last_booking(
    ledger: BudgetLedger, clock: Clock
) -> None:
    book(ledger, "first")
    clock.now += timedelta(days=300)
    book(ledger, "last")
    clock.now += timedelta(days=364)  # the first is long out of the window
    assert spent(ledger) == 2.0
    with pytest.raises(BudgetExceededError, match=r"epsilon 0\.5 is left of epsilon 2\.5"):
        book(ledger, "other", 0.6, None)
    clock.now += DAY
    assert spent(ledger) == 0


def test_the_first_booking_needs_room_for_the_whole_promise(ledger: BudgetLedger) -> None:
    book(ledger, "other", 0.6, None)
    with pytest.raises(
        BudgetExceededError,
        match=r"cannot pay epsilon 0.5 under the promise visits of epsilon 2 \(in 365 days\): epsilon 1.9 is",
    ):
        book(ledger, "week 1")


def test_what_is_booked_beside_a_promise_cannot_spend_what_it_holds(ledger: BudgetLedger) -> None:
    book(ledger, "week 1", 0.1)
    book(ledger, "other", 0.5, None)
    with pytest.raises(BudgetExceededError, match="epsilon 0 is left"):
        book(ledger, "another", 0.1, None)
    book(ledger, "week 2", 0.1)
    assert spent(ledger) == 2.5


def test_another_loss_is_another_promise_and_counts_beside(ledger: BudgetLedger) -> None:
    book(ledger, "week 1")
    with pytest.raises(BudgetExceededError, match="cannot pay"):
        book(ledger, "week 2", promise=Promise(name="visits", loss=loss(1.0), period=YEAR))


def test_a_key_cannot_change_its_promise(ledger: BudgetLedger) -> None:
    book(ledger, "week 1")
    with pytest.raises(ValueError, match="or another promise"):
        ledger.reserve("clinic", "week 1", loss(0.5))


def test_a_reservation_under_a_promise_holds_it_and_gives_it_back(ledger: BudgetLedger) -> None:
    booking = ledger.reserve("clinic", "week 1", loss(0.5), promise=VISITS)
    assert booking.state is State.RESERVED
    (standing,) = ledger.standing("clinic")
    assert (float(standing.spent), float(standing.reserved)) == (2.0, 2.0)
    ledger.cancel("clinic", "week 1", token=booking.token)
    assert spent(ledger) == 0
    ledger.check("clinic")


def test_without_a_reservation_the_totals_are_those_before_it(ledger: BudgetLedger) -> None:
    booking = ledger.reserve("clinic", "week 1", loss(0.5), promise=VISITS)
    grant, reserve = ledger.history("clinic")
    before = Totals().after(grant)
    assert before.after(reserve).spent != before.spent
    assert before.after(reserve).without(booking).spent == before.spent


def test_a_longer_window_holds_it_as_often_as_it_has_periods_and_a_release_its_own_loss(
    tmp_path: Path, clock: Clock
) -> None:
    ledger = ledger_with(str(tmp_path / "other.db"), clock)
    for period, epsilon in (("400d", 4.0), ("total", 1.0), ("release", 0.5)):
        limit = Limit(epsilon=epsilon, neighbours=PERSON, period=Period.parse(period))
        ledger.grant("clinic", limit, reason="a test", by="officer")
    book(ledger, "week 1")
    two_years, in_all, _ = ledger.standing("clinic")
    assert float(two_years.spent) == 4.0
    assert float(in_all.spent) == 0.5  # no promise for a year bounds all years: each counts by itself
    book(ledger, "week 2")
    with pytest.raises(BudgetExceededError, match="epsilon 0 is left of epsilon 1 "):
        book(ledger, "week 3")


def test_what_a_promise_holds_is_not_used_up_and_so_not_low(ledger: BudgetLedger) -> None:
    book(ledger, "week 1")
    assert low_budgets("clinic", ledger.standing("clinic"), below=0.5) == ()  # .5 of .5 beside it is left
    book(ledger, "other", 0.4, None)
    assert [low.left for low in low_budgets("clinic", ledger.standing("clinic"), below=0.5)] == [0.1]


def test_totals_with_promises_are_read_back_as_they_were_written(ledger: BudgetLedger) -> None:
    book(ledger, "week 1")
    ledger.reserve("clinic", "week 2", loss(0.5), promise=VISITS)
    totals = Totals()
    for entry in ledger.history("clinic"):
        totals = totals.after(entry)
        assert Totals.from_text(totals.to_text()) == totals


def test_a_promise_for_each_release_is_none() -> None:
    with pytest.raises(ValueError, match="must be for a rolling period"):
        Promise(name="visits", loss=loss(1.0), period=Period.parse("release"))


def test_the_delta_of_a_promise_is_held_as_often_as_its_epsilon(tmp_path: Path, clock: Clock) -> None:
    each = PrivacyLoss(epsilon=0.5, delta=1e-7, neighbours=PERSON)
    whole = PrivacyLoss(epsilon=2.0, delta=4e-7, neighbours=PERSON)
    promise = Promise(name="visits", loss=whole, period=Period.parse("365d"))
    ledger = ledger_with(str(tmp_path / "other.db"), clock)

    def grant(delta: float) -> None:
        limit = Limit(epsilon=4.0, delta=delta, neighbours=PERSON, period=Period.parse("400d"))
        ledger.grant("clinic", limit, reason="a test", by="officer")

    grant(7e-7)
    with pytest.raises(BudgetExceededError, match=r"delta 0\.0000007 is left"):
        ledger.reserve("clinic", "week 1", each, promise=promise)
    grant(8e-7)
    ledger.reserve("clinic", "week 1", each, promise=promise)
    (standing,) = ledger.standing("clinic")
    assert (float(standing.spent), float(standing.spent_delta)) == (4.0, 8e-7)
    booking = ledger.booking("clinic", "week 1")
    assert booking is not None
    assert (booking.loss, booking.promise) == (each, promise)
    with pytest.raises(BudgetExceededError, match="delta"):
        ledger.reserve("clinic", "beside", each)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (Limit(epsilon=1.0, delta=1e-9, period=Period.parse("365d")), ""),
        (Limit(epsilon=0.1, period=Period.parse("release")), ""),  # of each release, whatever is promised
        (Limit(epsilon=0.0), ""),  # closed
        (Limit(epsilon=5.0, delta=1e-6), "grant it with --period 365d"),
        (
            Limit(epsilon=1.0, period=Period.parse("365d")),
            "takes delta 0.000000001, the limit has 0. Grant at least that",
        ),
        (
            Limit(epsilon=1.5, delta=2e-9, period=Period.parse("730d")),
            "takes epsilon 2, the limit has 1.5. Grant at least that",
        ),
    ],
)
def test_a_limit_says_why_it_does_not_suit_a_promise(limit: Limit, reason: str) -> None:
    loss = PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours=Neighbours.REPLACE_ONE)
    found = Promise(name="visits", loss=loss, period=Period.parse("365d")).unsuited(limit)
    assert (reason in found) if reason else not found


def test_a_part_of_a_promise_to_persons_is_no_loss_of_one_row() -> None:
    parts = Parts(releases=2, epsilon=0.5)
    promise = Promise(name="visits", loss=loss(1.0), period=YEAR, parts=parts)
    assert promise.is_part(loss(0.5))
    assert not promise.is_part(PrivacyLoss(epsilon=0.5, neighbours=Neighbours.REPLACE_ONE))


def test_a_part_with_a_delta_has_a_rho_of_at_most_its_share() -> None:
    whole = PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours=PERSON)
    each = equal_part(whole, 2, gaussian=True)
    parts = Parts(releases=2, epsilon=each.epsilon, delta=each.delta)
    promise = Promise(name="visits", loss=whole, period=YEAR, parts=parts)
    assert promise.is_part(each)
    assert not promise.is_part(replace(each, rho=None))  # two of them may lose more than the promise
