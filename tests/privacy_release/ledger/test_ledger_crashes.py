"""Work that ends between reserve, measure and commit, and two that meet there."""

from collections.abc import Callable

import pytest

from privacy_engine.dp.ledger import Event, State
from privacy_engine.errors import BudgetExceededError
from privacy_release.ledger.ledger import BudgetLedger
from tests.children.fault_points import arm, crashed
from tests.children.processes import KILL, MEET, Child, at_once
from tests.children.work import spend
from tests.privacy_release.ledger.clocks import DATASET, grant, loss

KEY = "key"
RESERVED = [Event.GRANT, Event.RESERVE]
COMMITTED = [*RESERVED, Event.COMMIT]

# What is in the ledger after the work ended at that point.
POINTS = {
    "end_of_reserve": [Event.GRANT],
    "after_reserve": RESERVED,
    "before_spend": RESERVED,
    "before_model": RESERVED,
    "end_of_spend": RESERVED,
    "after_spend": COMMITTED,
}


@pytest.fixture(autouse=True)
def granted(ledger: BudgetLedger) -> None:
    grant(ledger, 1.0)


def task(ledger: BudgetLedger, model: str) -> tuple[str, str, str, float, str]:
    return ledger.url, DATASET, KEY, 0.6, model


def events(ledger: BudgetLedger) -> list[Event]:
    return [entry.event for entry in ledger.check(DATASET)]


@pytest.fixture(params=["crash", pytest.param("kill", marks=pytest.mark.slow)])
def end_at(
    request: pytest.FixtureRequest, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """A spend that ends at a point.

    Only the kill shows what the database makes of a connection that nothing closes any more.
    """
    if request.param == "crash":
        return lambda point: crashed(monkeypatch, point, spend, *task(ledger, "first"))
    return lambda point: Child(spend, *task(ledger, "first"), at={point: KILL}).killed()


@pytest.mark.parametrize("point", POINTS)
def test_a_spend_that_ended_early_loses_no_entry_and_its_retry_spends_nothing_more(
    ledger: BudgetLedger, end_at: Callable[[str], None], point: str
) -> None:
    end_at(point)
    assert events(ledger) == POINTS[point]
    if POINTS[point] == RESERVED:  # it is spent, although nothing was measured with it
        booking = ledger.booking(DATASET, KEY)
        assert booking is not None
        assert (booking.state, booking.model) == (State.RESERVED, None)
        with pytest.raises(BudgetExceededError):
            ledger.reserve(DATASET, "other", loss(0.6))

    kept = spend(*task(ledger, "retry"))
    # Only what was committed is ever returned: the first answer if it was, the retry's if it was not.
    assert kept == ("first" if POINTS[point] == COMMITTED else "retry")
    assert events(ledger) == COMMITTED
    (standing,) = ledger.standing(DATASET)
    assert (float(standing.spent), float(standing.reserved)) == (0.6, 0.0)
    assert spend(*task(ledger, "another")) == kept
    with pytest.raises(BudgetExceededError):
        ledger.reserve(DATASET, "other", loss(0.6))


def test_of_two_that_measured_for_one_booking_both_keep_the_answer_of_the_first(
    ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[str | None] = []
    arm("before_spend", lambda: first.append(spend(*task(ledger, "first"))), monkeypatch.setattr)
    assert spend(*task(ledger, "second")) == "first"
    assert first == ["first"]
    assert events(ledger) == COMMITTED


@pytest.mark.slow
def test_two_processes_that_commit_one_booking_at_once_both_keep_the_same_answer(
    ledger: BudgetLedger,
) -> None:
    """Only two connections that commit at the same moment meet the lock of the database."""
    racers = [Child(spend, *task(ledger, model), at={"before_spend": MEET}) for model in ("one", "other")]
    kept = at_once(*racers)
    assert len(set(kept)) == 1
    assert kept[0] in ("one", "other")
    assert events(ledger) == COMMITTED
