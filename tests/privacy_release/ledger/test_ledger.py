"""The ledger on SQLite and on PostgreSQL: who may spend, once for a key, also when fifty ask at once."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from privacy_engine.dp.ledger import Booking, Event, State
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours
from privacy_engine.errors import BudgetExceededError, LedgerError
from privacy_release.ledger.book import TOLERANCE
from privacy_release.ledger.database import reading, time_of
from privacy_release.ledger.ledger import BudgetLedger
from tests.children.processes import Child, at_once
from tests.children.work import spend_at_once
from tests.privacy_release.ledger.clocks import DATASET, DAY, NOW, Clock, grant, ledger_with, loss

CALLERS = 50


def events(ledger: BudgetLedger) -> list[Event]:
    return [entry.event for entry in ledger.check(DATASET)]


def spent(ledger: BudgetLedger) -> float:
    (standing,) = ledger.standing(DATASET)
    return float(standing.spent)


# Many at once


@pytest.mark.slow  # only processes with connections that wait for each other meet the lock of the database
def test_fifty_spends_at_once_stop_exactly_at_the_budget(ledger: BudgetLedger) -> None:
    grant(ledger, 1.0)
    keys = [f"key {i}" for i in range(CALLERS)]
    children = [Child(spend_at_once, ledger.url, DATASET, keys[i::5], 0.03) for i in range(5)]
    outcomes = [outcome for outcomes in at_once(*children) for outcome in outcomes]
    booked = [outcome for outcome in outcomes if outcome != "refused"]
    assert len(outcomes) == CALLERS
    assert len(booked) == len(set(booked)) == 33  # 33 x 0.03 = 0.99, and a 34th would make 1.02
    assert events(ledger) == [Event.GRANT] + [Event.RESERVE] * 33
    (standing,) = ledger.standing(DATASET)
    assert (str(standing.spent), str(standing.left)) == ("99/100", "1/100")


@pytest.mark.slow  # as above, where all wait to make one booking
def test_fifty_calls_with_one_key_are_one_booking(ledger: BudgetLedger) -> None:
    grant(ledger, 1.0)
    keys = ["one key"] * (CALLERS // 2)
    children = [Child(spend_at_once, ledger.url, DATASET, keys, 0.4) for _ in range(2)]
    outcomes = [outcome for outcomes in at_once(*children) for outcome in outcomes]
    booking = ledger.booking(DATASET, "one key")
    assert booking is not None
    assert outcomes == [booking.entry_hash] * CALLERS
    assert events(ledger) == [Event.GRANT, Event.RESERVE]
    assert spent(ledger) == 0.4


@pytest.mark.parametrize(
    "callers", [4, pytest.param(CALLERS, marks=pytest.mark.slow)]
)  # more than a pool has
def test_commits_of_one_booking_at_once_keep_one_model_that_all_get(
    ledger: BudgetLedger, callers: int
) -> None:
    grant(ledger)
    token = ledger.reserve(DATASET, "key", loss(0.4)).token

    def commit(i: int) -> str | None:
        return ledger.commit(DATASET, "key", f"model {i}", token=token).model

    with ThreadPoolExecutor(callers) as pool:
        kept = set(pool.map(commit, range(callers)))
    booking = ledger.booking(DATASET, "key")
    assert booking is not None
    assert kept == {booking.model}
    assert events(ledger) == [Event.GRANT, Event.RESERVE, Event.COMMIT]


def test_first_grants_at_once_make_one_data_set_with_all_of_them(ledger: BudgetLedger) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda days: grant(ledger, 1.0, f"{days}d"), range(1, 9)))
    assert {s.limit.period.name for s in ledger.standing(DATASET)} == {f"{days}d" for days in range(1, 9)}
    assert len(ledger.check(DATASET)) == 8


def test_readers_see_a_whole_ledger_while_others_write(ledger: BudgetLedger) -> None:
    grant(ledger, 1.0)
    with ThreadPoolExecutor(4) as pool:
        writes = [pool.submit(ledger.reserve, DATASET, f"key {i}", loss(0.02)) for i in range(8)]
        reads = [pool.submit(ledger.check, DATASET) for _ in range(8)]
    assert all(write.result() for write in writes)
    assert all(read.result() for read in reads)


def test_data_sets_do_not_spend_from_each_other(ledger: BudgetLedger) -> None:
    grant(ledger, 0.5)
    grant(ledger, 0.5, dataset="nltcs")
    ledger.reserve(DATASET, "key", loss(0.5))
    assert ledger.reserve("nltcs", "key", loss(0.5)).dataset == "nltcs"
    assert ledger.datasets() == (DATASET, "nltcs")


def test_an_entry_of_another_data_set_is_lacking(ledger: BudgetLedger) -> None:
    grant(ledger, 0.5)
    grant(ledger, 0.5, dataset="nltcs")
    (entry,) = ledger.history("nltcs")
    assert ledger.lacking("nltcs", [entry.hash]) == set()
    assert ledger.lacking(DATASET, [entry.hash]) == {entry.hash}


# One booking


def test_ten_tenths_fit_a_budget_of_one_and_an_eleventh_does_not(ledger: BudgetLedger) -> None:
    grant(ledger, 1.0)
    for i in range(10):
        ledger.reserve(DATASET, f"key {i}", loss(0.1))
    with pytest.raises(BudgetExceededError, match="epsilon 0 is left of epsilon 1"):
        ledger.reserve(DATASET, "key 10", loss(0.1))
    assert events(ledger) == [Event.GRANT] + [Event.RESERVE] * 10


def test_the_same_key_gets_the_same_booking_and_spends_nothing(ledger: BudgetLedger) -> None:
    grant(ledger, 0.5)
    first = ledger.reserve(DATASET, "key", loss(0.5), detail={"run": "1"})
    assert ledger.reserve(DATASET, "key", loss(0.5), detail={"run": "2"}) == first
    ledger.commit(DATASET, "key", "the model", token=first.token)
    again = ledger.reserve(DATASET, "key", loss(0.5))
    assert again == replace(first, state=State.COMMITTED, model="the model", model_sha256=again.model_sha256)
    assert spent(ledger) == 0.5


def test_a_booking_is_found_again_by_a_ledger_opened_again(ledger: BudgetLedger) -> None:
    grant(ledger)
    booked = ledger.reserve(DATASET, "key", loss(0.25), detail={"run": "dag/run 1"})
    other = BudgetLedger(ledger.url)
    assert other.booking(DATASET, "key") == booked
    assert booked == Booking(
        dataset=DATASET,
        key="key",
        loss=loss(0.25),
        state=State.RESERVED,
        entry_hash=other.history(DATASET)[1].hash,
        attempt=1,
        booked_at=other.history(DATASET)[1].at,
        detail={"run": "dag/run 1"},
    )
    assert other.booking(DATASET, "another") is None
    assert other.booking("another", "key") is None


def test_a_key_that_is_booked_with_another_loss_is_refused(ledger: BudgetLedger) -> None:
    grant(ledger)
    ledger.reserve(DATASET, "key", loss(0.25))
    with pytest.raises(ValueError, match="a booking key must name one loss"):
        ledger.reserve(DATASET, "key", loss(0.5))
    assert spent(ledger) == 0.25


def test_require_refuses_what_reserve_would_and_books_nothing(ledger: BudgetLedger) -> None:
    grant(ledger, 0.5)
    ledger.require(DATASET, loss(0.5))
    with pytest.raises(BudgetExceededError, match=r"cannot pay epsilon 0\.6"):
        ledger.require(DATASET, loss(0.6))
    assert events(ledger) == [Event.GRANT]


def test_a_run_is_known_by_its_booking_until_that_is_cancelled(ledger: BudgetLedger) -> None:
    grant(ledger)
    held = ledger.reserve(DATASET, "key", loss(0.25), detail={"run": "dag/run 1"})
    assert ledger.booked_by(DATASET, "dag/run 1")
    assert not ledger.booked_by(DATASET, "dag/run 2")
    assert not ledger.booked_by("another", "dag/run 1")
    ledger.cancel(DATASET, "key", token=held.token)
    assert not ledger.booked_by(DATASET, "dag/run 1")


# Commit and cancel


def test_the_first_commit_wins_and_later_ones_get_its_model(ledger: BudgetLedger) -> None:
    grant(ledger)
    token = ledger.reserve(DATASET, "key", loss(0.25)).token
    assert ledger.commit(DATASET, "key", "first", token=token).model == "first"
    assert ledger.commit(DATASET, "key", "second", token=token).model == "first"
    assert events(ledger) == [Event.GRANT, Event.RESERVE, Event.COMMIT]


@pytest.mark.parametrize(
    "model", ["x" * 20_000_000, '{"ü": "\\u0000 Ω \'); DROP TABLE"}', ""], ids=["20 MB", "marks", "empty"]
)
def test_a_model_is_kept_as_it_is(ledger: BudgetLedger, model: str) -> None:
    grant(ledger)
    token = ledger.reserve(DATASET, "key", loss(0.25)).token
    assert ledger.commit(DATASET, "key", model, token=token).model == model
    assert len(ledger.check(DATASET)) == 3


def test_a_cancelled_reservation_gives_its_loss_back_and_can_be_made_again(ledger: BudgetLedger) -> None:
    grant(ledger, 0.5)
    for attempt in (1, 2, 3):
        held = ledger.reserve(DATASET, "key", loss(0.5))
        assert held.attempt == attempt
        assert spent(ledger) == 0.5
        ledger.cancel(DATASET, "key", token=held.token)
        ledger.cancel(DATASET, "key", token=held.token)
        assert spent(ledger) == 0
    assert events(ledger) == [Event.GRANT] + [Event.RESERVE, Event.CANCEL] * 3
    kept = ledger.booking(DATASET, "key")
    assert kept is not None
    assert kept.state is State.CANCELLED
    ledger.reserve(DATASET, "another key", loss(0.5))


def test_a_committed_booking_cannot_be_cancelled(ledger: BudgetLedger) -> None:
    grant(ledger)
    token = ledger.reserve(DATASET, "key", loss(0.25)).token
    ledger.commit(DATASET, "key", "model", token=token)
    with pytest.raises(ValueError, match=r"only a reservation can be cancelled.*committed"):
        ledger.cancel(DATASET, "key", token=token)
    assert spent(ledger) == 0.25


def test_nothing_is_committed_or_cancelled_that_was_not_reserved(ledger: BudgetLedger) -> None:
    grant(ledger)
    for dataset in (DATASET, "another"):
        with pytest.raises(ValueError, match="must be reserved before it is committed"):
            ledger.commit(dataset, "key", "model", token="x")
        with pytest.raises(ValueError, match="unknown"):
            ledger.cancel(dataset, "key", token="x")
    assert events(ledger) == [Event.GRANT]


def test_what_was_measured_for_a_booking_that_another_task_cancelled_is_not_kept(
    ledger: BudgetLedger,
) -> None:
    grant(ledger)
    token = ledger.reserve(DATASET, "key", loss(0.25)).token
    ledger.cancel(DATASET, "key", token=token)
    with pytest.raises(LedgerError, match=r"cancelled by another task.*discarded"):
        ledger.commit(DATASET, "key", "model", token=token)
    assert events(ledger) == [Event.GRANT, Event.RESERVE, Event.CANCEL]


# Limits


def test_a_data_set_without_a_grant_is_refused_with_the_command_that_grants(ledger: BudgetLedger) -> None:
    for act in (
        lambda: ledger.reserve(DATASET, "key", loss(0.1)),
        lambda: ledger.require(DATASET, loss(0.1)),
    ):
        with pytest.raises(BudgetExceededError, match="privacy-release budget grant adult --epsilon E"):
            act()
    assert ledger.datasets() == ()
    assert ledger.standing(DATASET) == ledger.history(DATASET) == ()


def test_a_rolling_limit_is_free_again_when_its_window_has_passed(ledger_url: str) -> None:
    clock = Clock()
    ledger = ledger_with(ledger_url, clock)
    grant(ledger, 1.0, "30d")
    ledger.reserve(DATASET, "a", loss(0.7))
    clock.now += 10 * DAY
    ledger.reserve(DATASET, "b", loss(0.3))
    clock.now = NOW + 30 * DAY - timedelta(microseconds=1)
    with pytest.raises(BudgetExceededError, match="free again at 2024-03-31 12:00:00 UTC"):
        ledger.reserve(DATASET, "c", loss(0.7))
    clock.now = NOW + 30 * DAY
    ledger.reserve(DATASET, "c", loss(0.7))
    (standing,) = ledger.standing(DATASET)
    assert standing.left == 0


def test_entries_are_dated_by_the_databases_clock(ledger: BudgetLedger) -> None:
    grant(ledger)
    times = []
    for turn in range(3):
        with reading(ledger._engine) as connection:
            times.append(time_of(connection))
        times.append(ledger.reserve(DATASET, f"key {turn}", loss(0.1)).booked_at)
    assert times == sorted(times)
    assert all(time.utcoffset() == timedelta(0) for time in times)


def test_a_clock_that_is_a_little_behind_does_not_unsort_the_entries(ledger_url: str) -> None:
    clock = Clock()
    ledger = ledger_with(ledger_url, clock)
    grant(ledger, 1.0, "30d")
    clock.now = NOW - TOLERANCE
    ledger.reserve(DATASET, "a", loss(1.0))
    assert [entry.at for entry in ledger.history(DATASET)] == [NOW, NOW]


def test_limits_of_several_periods_hold_together(ledger: BudgetLedger) -> None:
    for epsilon, period in ((1.0, "total"), (0.6, "365d"), (0.4, "release")):
        grant(ledger, epsilon, period)
    with pytest.raises(BudgetExceededError, match="for each release"):
        ledger.reserve(DATASET, "a", loss(0.5))
    ledger.reserve(DATASET, "a", loss(0.4))
    with pytest.raises(BudgetExceededError, match=r"0\.2 is left of epsilon 0\.6 \(in 365 days\)"):
        ledger.reserve(DATASET, "b", loss(0.3))
    grant(ledger, 5.0, "365d")
    ledger.reserve(DATASET, "b", loss(0.3))
    with pytest.raises(BudgetExceededError, match=r"0\.3 is left of epsilon 1 \(in total\)"):
        ledger.reserve(DATASET, "c", loss(0.4))


def test_every_grant_stays_in_the_history_with_reason_and_author(ledger: BudgetLedger) -> None:
    grant(ledger, 1.0)
    ledger.grant(DATASET, Limit(epsilon=2.0), reason="the board agreed", by="steward")
    reported = [(e.epsilon, e.detail) for e in ledger.history(DATASET)]
    assert reported == [
        ("1", {"period": "total", "reason": "a year", "by": "officer"}),
        ("2", {"period": "total", "reason": "the board agreed", "by": "steward"}),
    ]
    (standing,) = ledger.standing(DATASET)
    assert standing.limit.epsilon == 2.0


def test_one_data_set_keeps_one_neighbour_relation(ledger: BudgetLedger) -> None:
    grant(ledger)
    other = Limit(epsilon=1.0, neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(BudgetExceededError, match="neighbour relation replace_one"):
        ledger.reserve(DATASET, "key", loss(0.1, Neighbours.ADD_REMOVE))
    with pytest.raises(ValueError, match="is for replace_one"):
        ledger.grant(DATASET, replace(other, period=Period.parse("30d")), reason="x", by="y")
    ledger.grant(DATASET, other, reason="the first one named the wrong relation", by="y")
    ledger.reserve(DATASET, "key", loss(0.1, Neighbours.ADD_REMOVE))
    with pytest.raises(ValueError, match="is for add_remove"):
        grant(ledger)


@pytest.mark.parametrize("text", ["", " adult", "two\nlines", "x" * 251])
def test_a_name_that_no_line_of_the_history_can_hold_is_refused(ledger: BudgetLedger, text: str) -> None:
    with pytest.raises(ValueError, match="data set must be 1 to 250 printable characters"):
        grant(ledger, dataset=text)
    with pytest.raises(ValueError, match="reason must be"):
        ledger.grant(DATASET, Limit(epsilon=1.0), reason=text, by="y")
    grant(ledger)
    with pytest.raises(ValueError, match="booking key must be"):
        ledger.reserve(DATASET, text, loss(0.1))


def test_a_budget_that_is_short_names_the_ledger_that_was_asked(tmp_path: Path) -> None:
    ledger = BudgetLedger(str(tmp_path / "ledger.db"))
    ledger.migrate()
    with pytest.raises(BudgetExceededError, match=re.escape(f"(by the ledger {tmp_path / 'ledger.db'})")):
        ledger.reserve(DATASET, "a" * 64, loss(1.0))
