"""Tokens: who may commit a booking, and who may give it back."""

from pathlib import Path

import pytest

from privacy_engine.dp.ledger import Event, State
from privacy_engine.errors import LedgerError
from privacy_release.ledger.ledger import BudgetLedger
from tests.privacy_release.ledger.clocks import DATASET, Clock, grant, ledger_with, loss


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    made = ledger_with(str(tmp_path / "ledger.db"), Clock())
    grant(made, 1.0)
    return made


def test_a_token_of_another_booking_neither_commits_nor_gives_back(ledger: BudgetLedger) -> None:
    one, other = (ledger.reserve(DATASET, key, loss(0.2)) for key in ("one", "other"))
    assert one.token != other.token
    for token in (other.token, "", one.token[:-1], one.token.upper()):
        with pytest.raises(LedgerError, match="cancelled by another task"):
            ledger.commit(DATASET, "one", "model", token=token)
        with pytest.raises(LedgerError, match="must be cancelled by the task that made it"):
            ledger.cancel(DATASET, "one", token=token)
    assert [entry.event for entry in ledger.check(DATASET)][1:] == [Event.RESERVE, Event.RESERVE]
    assert ledger.commit(DATASET, "one", "model", token=one.token).model == "model"


def test_a_token_of_an_earlier_attempt_commits_nothing(ledger: BudgetLedger) -> None:
    first = ledger.reserve(DATASET, "one", loss(0.2))
    ledger.cancel(DATASET, "one", token=first.token)
    second = ledger.reserve(DATASET, "one", loss(0.2))
    with pytest.raises(LedgerError, match="cancelled by another task"):
        ledger.commit(DATASET, "one", "model", token=first.token)
    assert ledger.commit(DATASET, "one", "model", token=second.token).state is State.COMMITTED


def test_who_took_a_booking_that_another_task_made_may_commit_and_not_give_back(ledger: BudgetLedger) -> None:
    made, taken = (ledger.reserve(DATASET, "one", loss(0.2)) for _ in range(2))
    assert (made.owned, taken.owned) == (True, False)
    with pytest.raises(LedgerError, match="must be cancelled by the task that made it"):
        ledger.cancel(DATASET, "one", token=taken.token)
    assert ledger.commit(DATASET, "one", "model", token=taken.token).model == "model"
