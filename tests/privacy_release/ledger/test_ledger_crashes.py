"""Processes that are killed between reserve, measure and commit, on SQLite and on PostgreSQL."""

from pathlib import Path

import pytest

from privacy_engine.dp.ledger import Event, State
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import BudgetExceededError
from privacy_release.ledger.ledger import BudgetLedger
from tests.privacy_release.ledger.ledger_processes import Child

pytestmark = pytest.mark.slow

DATASET, KEY = "adult", "key"
RESERVED = [Event.GRANT, Event.RESERVE]
COMMITTED = [*RESERVED, Event.COMMIT]

# What is in the ledger after the process was killed at that point.
POINTS = {
    "end_of_reserve": [Event.GRANT],
    "after_reserve": RESERVED,
    "after_measure": RESERVED,
    "between_commit_and_its_model": RESERVED,
    "end_of_commit": RESERVED,
    "after_commit": COMMITTED,
}


@pytest.fixture(autouse=True)
def granted(ledger: BudgetLedger) -> None:
    ledger.grant(DATASET, Limit(epsilon=1.0), reason="a year", by="officer")


def child(ledger: BudgetLedger, folder: Path, point: str = "", epsilon: float = 0.6) -> Child:
    return Child(folder, url=ledger.url, dataset=DATASET, key=KEY, epsilon=epsilon, point=point)


def events(ledger: BudgetLedger) -> list[Event]:
    return [entry.event for entry in ledger.check(DATASET)]


def told(lines: list[str], what: str) -> str:
    (value,) = [line.removeprefix(f"{what} ") for line in lines if line.startswith(f"{what} ")]
    return value


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_spend_loses_no_entry_and_its_retry_spends_nothing_more(
    ledger: BudgetLedger, tmp_path: Path, point: str
) -> None:
    first = child(ledger, tmp_path, point).killed()
    assert events(ledger) == POINTS[point]

    retry = child(ledger, tmp_path).done()
    assert events(ledger) == COMMITTED
    (standing,) = ledger.standing(DATASET)
    assert (float(standing.spent), float(standing.reserved)) == (0.6, 0.0)
    booking = ledger.booking(DATASET, KEY)
    assert booking is not None
    assert told(retry, "kept") == booking.model
    # Only what was committed is ever given back: the first answer if it was, the retry's if it was not.
    assert booking.model == told(first if point == "after_commit" else retry, "measured")
    assert told(child(ledger, tmp_path).done(), "kept") == booking.model
    with pytest.raises(BudgetExceededError):
        ledger.reserve(DATASET, "other", PrivacyLoss(epsilon=0.6, neighbours=Neighbours.REPLACE_ONE))


def test_a_spend_that_was_killed_before_it_committed_stays_spent(
    ledger: BudgetLedger, tmp_path: Path
) -> None:
    child(ledger, tmp_path, "after_measure").killed()
    booking = ledger.booking(DATASET, KEY)
    assert booking is not None
    assert (booking.state, booking.model) == (State.RESERVED, None)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(DATASET, "other", PrivacyLoss(epsilon=0.6, neighbours=Neighbours.REPLACE_ONE))


def test_two_processes_that_measured_for_one_booking_both_keep_the_same_answer(
    ledger: BudgetLedger, tmp_path: Path
) -> None:
    racers = [child(ledger, tmp_path, "meet_before_commit") for _ in range(2)]
    measured = [told(racer.ready(), "measured") for racer in racers]
    for racer in racers:
        racer.go()
    kept = [told(racer.done(), "kept") for racer in racers]
    assert len(set(measured)) == 2
    assert len(set(kept)) == 1
    assert kept[0] in measured
    assert events(ledger) == COMMITTED
