"""A clock that jumps is noticed before anything is booked by it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.engine import URL

from privacy_engine.errors import BudgetExceededError, LedgerError
from privacy_release.ledger import database
from privacy_release.ledger.book import TOLERANCE
from privacy_release.ledger.ledger import BudgetLedger
from tests.privacy_release.ledger.clocks import DATASET, DAY, NOW, Clock, grant, ledger_with, loss
from tests.servers.postgres import new_schema


def acts(ledger: BudgetLedger, token: str) -> list[Callable[[], object]]:
    return [
        lambda: ledger.reserve(DATASET, "another", loss(0.1)),
        lambda: ledger.require(DATASET, loss(0.1)),
        lambda: ledger.commit(DATASET, "key", "model", token=token),
        lambda: ledger.cancel(DATASET, "key", token=token),
        lambda: grant(ledger, 2.0),
    ]


def test_nothing_is_booked_by_a_clock_that_went_back(ledger_url: str) -> None:
    clock = Clock()
    ledger = ledger_with(ledger_url, clock)
    grant(ledger, 1.0, "30d")
    held = ledger.reserve(DATASET, "key", loss(0.5))
    clock.now = NOW - TOLERANCE - timedelta(microseconds=1)
    for act in acts(ledger, held.token):
        with pytest.raises(LedgerError, match=r"last entry is of 2024-03-01 12:00:00 UTC.*Set the clock"):
            act()
    assert len(ledger.check(DATASET)) == 2
    assert len(ledger.standing(DATASET)) == 1  # to look is always allowed
    clock.now = NOW
    ledger.commit(DATASET, "key", "model", token=held.token)


def test_a_jump_ahead_is_noticed_when_the_clock_is_right_again(ledger_url: str) -> None:
    clock = Clock()
    ledger = ledger_with(ledger_url, clock)
    grant(ledger, 1.0, "30d")
    ledger.reserve(DATASET, "a", loss(1.0))
    clock.now = NOW + 31 * DAY
    ledger.reserve(DATASET, "b", loss(1.0))
    clock.now = NOW + DAY
    with pytest.raises(LedgerError, match="written by one that was ahead"):
        ledger.reserve(DATASET, "c", loss(0.1))


@pytest.mark.slow  # only a database server has another clock
def test_nothing_is_booked_by_a_clock_that_is_ahead_of_the_database_server(postgres_server: URL) -> None:
    clock = Clock(datetime.now(UTC) - DAY)
    ledger = ledger_with(new_schema(postgres_server), clock)
    grant(ledger, 1.0, "30d")
    held = ledger.reserve(DATASET, "key", loss(0.5))
    clock.now = datetime.now(UTC) + 40 * DAY
    for act in acts(ledger, held.token):
        with pytest.raises(LedgerError, match="the clock must not be ahead of the database server's by more"):
            act()
    assert len(ledger.check(DATASET)) == 2


@pytest.mark.slow  # only a database server has another clock
def test_nothing_is_booked_by_a_database_server_that_is_ahead_of_this_machine(
    postgres_server: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = BudgetLedger(new_schema(postgres_server))
    ledger.migrate()
    grant(ledger, 1.0, "30d")
    held = ledger.reserve(DATASET, "key", loss(0.5))
    monkeypatch.setattr(database, "_this_machine", lambda: datetime.now(UTC) - DAY)
    for act in acts(ledger, held.token):
        with pytest.raises(
            LedgerError, match="the database server's clock must not be ahead of this machine's"
        ):
            act()
    assert len(ledger.check(DATASET)) == 2


@pytest.mark.slow  # only a database server has another clock
def test_the_database_servers_time_counts_and_not_a_machine_that_is_ahead(
    postgres_server: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = BudgetLedger(new_schema(postgres_server))
    ledger.migrate()
    grant(ledger, 1.0, "30d")
    monkeypatch.setattr(database, "_this_machine", lambda: datetime.now(UTC) + 400 * DAY)
    held = ledger.reserve(DATASET, "key", loss(1.0))
    assert held.booked_at < datetime.now(UTC) + DAY
    with pytest.raises(BudgetExceededError):
        ledger.reserve(DATASET, "other", loss(1.0))
