"""The decision whether one more booking fits: exact, for every kind of period, and never above a limit."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.dp.ledger import (
    Booking,
    Entry,
    Event,
    Standing,
    State,
    booking_of,
    counts,
    refuse_overspending,
)
from privacy_engine.dp.limits import Limit, Period, decimal_text, exact, rounded_text
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.totals import Spent, Sums, Totals, standings
from privacy_engine.errors import BudgetExceededError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
REPLACE = Neighbours.REPLACE_ONE
EPSILONS = st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.7, 1 / 3, 1e-9, 0.1 + 0.2]) | st.floats(1e-6, 2)


def loss(epsilon: float, delta: float = 0.0, neighbours: Neighbours = REPLACE) -> PrivacyLoss:
    return PrivacyLoss(epsilon=epsilon, delta=delta, neighbours=neighbours)


def booking(
    epsilon: float, at: datetime = NOW, state: State = State.COMMITTED, delta: float = 0.0
) -> Booking:
    return Booking(
        dataset="adult",
        key=f"{at} {epsilon}",
        loss=loss(epsilon, delta),
        state=state,
        entry_hash="",
        attempt=1,
        booked_at=at,
        detail={},
    )


def limit(epsilon: float, period: str = "total", delta: float = 0.0) -> Limit:
    return Limit(epsilon=epsilon, delta=delta, period=Period.parse(period))


def standings_of(limits: list[Limit], bookings: list[Booking], now: datetime = NOW) -> tuple[Standing, ...]:
    """From running totals, as a ledger decides; `booked_at` is when a rolling limit counts a booking from."""
    live = [b for b in bookings if b.state is not State.CANCELLED]

    def spent(counted: list[Booking]) -> Spent:
        committed, reserved = (
            sum((Sums.of(b.loss) for b in counted if b.state is state), start=Sums())
            for state in (State.COMMITTED, State.RESERVED)
        )
        return Spent(committed=committed, reserved=reserved)

    rolling = [held.period for held in limits if held.period.window]
    outside = {p.name: spent([b for b in live if not counts(p, b, now)]) for p in rolling}
    return standings(Totals(limits=tuple(limits), spent=spent(live), bookings=len(live)), outside)


def fits(requested: PrivacyLoss, limits: list[Limit], bookings: list[Booking], now: datetime = NOW) -> bool:
    try:
        refuse_overspending("adult", requested, standings_of(limits, bookings, now))
    except BudgetExceededError:
        return False
    return True


def refusal(requested: PrivacyLoss, limits: list[Limit], bookings: list[Booking]) -> str:
    with pytest.raises(BudgetExceededError) as caught:
        refuse_overspending("adult", requested, standings_of(limits, bookings))
    return str(caught.value)


# Exactness


def test_ten_spends_of_a_tenth_fill_a_budget_of_one_and_an_eleventh_does_not_fit() -> None:
    spent = [booking(0.1) for _ in range(9)]
    assert fits(loss(0.1), [limit(1.0)], spent)
    spent.append(booking(0.1))
    assert not fits(loss(0.1), [limit(1.0)], spent)
    assert not fits(loss(5e-324), [limit(1.0)], spent)
    (standing,) = standings_of([limit(1.0)], spent)
    assert (standing.spent, standing.left) == (1, 0)


def test_deltas_add_as_exactly_as_epsilons() -> None:
    spent = [booking(0.01, delta=1e-6) for _ in range(9)]
    assert fits(loss(0.01, 1e-6), [limit(1.0, delta=1e-5)], spent)
    spent.append(booking(0.01, delta=1e-6))
    assert not fits(loss(0.01, 1e-6), [limit(1.0, delta=1e-5)], spent)
    assert fits(loss(0.01), [limit(1.0, delta=1e-5)], spent)


def test_a_pure_budget_pays_for_no_delta() -> None:
    assert "epsilon 0.1 and delta 0.000000001" in refusal(loss(0.1, 1e-9), [limit(1.0)], [])


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_decimal_text_is_the_number_exactly(value: float) -> None:
    assert Fraction(decimal_text(value)) == exact(value)
    assert float(decimal_text(value)) == value


@given(st.fractions(min_value=0))
def test_a_rounded_number_is_never_on_the_wrong_side(value: Fraction) -> None:
    low, high = (Fraction(rounded_text(value, up=up)) for up in (False, True))
    assert low <= value <= high <= low + value / 10**5
    assert len(rounded_text(value, up=True).strip("0").replace(".", "").strip("0")) <= 6


@given(st.lists(EPSILONS, min_size=1, max_size=60), st.floats(0.01, 5))
def test_spends_decided_one_by_one_stop_at_the_budget_and_not_before(
    requested: list[float], budget: float
) -> None:
    spent: list[Booking] = []
    total = Fraction(0)
    for epsilon in requested:
        fitted = fits(loss(epsilon), [limit(budget)], spent)
        assert fitted == (total + exact(epsilon) <= exact(budget))
        if fitted:
            spent.append(booking(epsilon))
            total += exact(epsilon)
    assert total <= exact(budget)


# Periods


@given(
    st.lists(st.tuples(EPSILONS, st.integers(0, 40)), max_size=40),
    st.floats(0.3, 3),
    st.integers(1, 30),
)
def test_no_window_of_a_rolling_limit_ever_holds_more_than_it(
    requested: list[tuple[float, int]], budget: float, days: int
) -> None:
    rolling = limit(budget, f"{days}d")
    spent: list[Booking] = []
    now = NOW
    for epsilon, hours in requested:
        now += timedelta(hours=8 * hours)
        if fits(loss(epsilon), [rolling], spent, now):
            spent.append(booking(epsilon, now))
    for start in [b.booked_at for b in spent]:
        inside = [b for b in spent if start <= b.booked_at < start + days * DAY]
        assert sum(exact(b.loss.epsilon) for b in inside) <= exact(budget)


def test_a_rolling_limit_is_free_again_when_an_entry_leaves_its_window() -> None:
    spent = [booking(0.4, NOW - 20 * DAY), booking(0.4, NOW - 10 * DAY), booking(0.2, NOW - 5 * DAY)]
    rolling = limit(1.0, "30d")
    again = NOW + 20 * DAY - timedelta(days=10)
    assert fits(loss(0.4), [rolling], spent, again)
    assert not fits(loss(0.4), [rolling], spent, again - timedelta(microseconds=1))


def test_a_refusal_tells_when_enough_is_free_again_where_that_is_known() -> None:
    held = standings_of([limit(1.0, "30d"), limit(1.0)], [booking(0.8)])
    with pytest.raises(BudgetExceededError) as caught:
        refuse_overspending(
            "adult", loss(0.5), held, lambda s: NOW + 20 * DAY if s.limit.period.window else None
        )
    assert str(caught.value).count("enough is free again at 2026-03-21 12:00:00 UTC") == 1


def test_a_limit_for_each_release_bounds_one_booking_and_not_their_sum() -> None:
    spent = [booking(0.5) for _ in range(100)]
    assert fits(loss(0.5), [limit(0.5, "release")], spent)
    assert not fits(loss(0.500001), [limit(0.5, "release")], spent)


def test_several_limits_hold_together_and_each_that_is_short_is_named() -> None:
    limits = [limit(2.0), limit(1.0, "365d"), limit(0.3, "release")]
    spent = [booking(0.9)]
    assert fits(loss(0.1), limits, spent)
    assert not fits(loss(0.2), limits, spent)
    reported = refusal(loss(1.2), limits, spent)
    assert "epsilon 1.1 is left of epsilon 2 (in total)" in reported
    assert "epsilon 0.1 is left of epsilon 1 (in 365 days)" in reported
    assert "epsilon 0.3 is left of epsilon 0.3 (for each release)" in reported


def test_a_refusal_names_data_set_request_and_remedy() -> None:
    reported = refusal(loss(0.25), [limit(1.0)], [booking(0.9)])
    assert reported.startswith(
        "data set adult cannot pay epsilon 0.25: epsilon 0.1 is left of epsilon 1 (in total)"
    )
    assert "privacy-release budget grant adult --epsilon E --reason TEXT" in reported


def test_a_refusal_names_the_resource_that_is_short_and_grants_that() -> None:
    granted, spent = limit(1.5, "365d", delta=1e-9), booking(0.6286, delta=1e-9)
    found = refusal(loss(0.1286, 1e-9), [granted], [spent])
    assert "epsilon 0.8714 and delta 0 is left of epsilon 1.5 and delta 0.000000001 (in 365 days)" in found
    assert ", too little delta" in found
    command = "privacy-release budget grant adult --epsilon 1.5 --delta D --period 365d --reason TEXT"
    assert command in found


def test_the_scarcest_resource_is_the_one_of_which_the_smallest_share_is_left() -> None:
    granted = Limit(epsilon=1.0, delta=1e-9)
    standing = Standing(limit=granted, spent=Fraction(1, 2), spent_delta=exact(9e-10), reserved=Fraction(0))
    assert (standing.scarcest, standing.left_share) == ("delta", Fraction(1, 10))
    assert replace(standing, limit=Limit(epsilon=1.0)).scarcest == "epsilon"


# What counts


def test_without_a_limit_nothing_fits_and_the_command_that_grants_one_is_named() -> None:
    reported = refusal(loss(1e-9), [], [])
    assert "but has none" in reported
    assert "privacy-release budget grant adult --epsilon E --reason TEXT" in reported


def test_the_command_in_a_refusal_is_quoted_for_a_shell() -> None:
    with pytest.raises(BudgetExceededError, match="grant 'my data' --epsilon"):
        refuse_overspending("my data", loss(1.0), [])


def test_another_neighbour_relation_than_the_limits_is_refused() -> None:
    reported = refusal(loss(0.1, neighbours=Neighbours.ADD_REMOVE), [limit(1.0)], [])
    assert "for the neighbour relation replace_one, but the release needs add_remove" in reported


def test_a_reservation_counts_and_a_cancelled_one_does_not() -> None:
    assert not fits(loss(0.5), [limit(1.0)], [booking(0.6, state=State.RESERVED)])
    assert fits(loss(0.5), [limit(1.0)], [booking(0.6, state=State.CANCELLED)])
    (standing,) = standings_of([limit(1.0)], [booking(0.25, state=State.RESERVED), booking(0.5)])
    assert (standing.spent, standing.reserved, standing.left) == (
        Fraction(3, 4),
        Fraction(1, 4),
        Fraction(1, 4),
    )


def test_a_limit_of_zero_closes_the_data_set() -> None:
    assert not fits(loss(1e-9), [limit(10.0), limit(0.0, "365d")], [])


def test_a_limit_lowered_below_what_is_spent_leaves_nothing_rather_than_less() -> None:
    (standing,) = standings_of([limit(0.5)], [booking(0.8)])
    assert standing.left == 0
    assert standing.to_dict()["spent"] == 0.8


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="must have a time zone"):
        counts(Period.parse("30d"), booking(0.1), datetime(2026, 1, 1))


@pytest.mark.parametrize(
    "text", ["", "day", "d", "0d", "-1d", "1.5d", "07d", "36501d", "365", "365 d", "Total", "٣d"]
)
def test_a_period_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a period must be total, release or a number of days"):
        Period.parse(text)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-0.1, 0.0), (math.inf, 0.0), (math.nan, 0.0), (1.0, 1.0), (1.0, -1e-9)]
)
def test_a_limit_that_bounds_nothing_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="of a limit must be"):
        Limit(epsilon=epsilon, delta=delta)


# From entries


def entry(
    number: int, event: Event, key: str, epsilon: str = "0.1", attempt: int = 1, **detail: str
) -> Entry:
    return Entry(
        dataset="adult",
        number=number,
        event=event,
        key=key,
        attempt=attempt,
        at=NOW + number * DAY,
        epsilon=epsilon,
        delta="0",
        neighbours=REPLACE,
        detail=detail,
        salt="",
        previous="",
        hash=f"hash {number}",
    )


def replayed(entries: list[Entry]) -> Totals:
    totals = Totals()
    for one in entries:
        totals = totals.after(one)
        assert Totals.from_text(totals.to_text()) == totals
    return totals


def test_a_grant_replaces_the_limit_of_its_period_and_no_other() -> None:
    entries = [
        entry(1, Event.GRANT, "1", "1", period="total"),
        entry(2, Event.GRANT, "2", "0.5", period="30d"),
        entry(3, Event.GRANT, "3", "0.7", period="365d"),
        entry(4, Event.GRANT, "4", "3", period="total"),
    ]
    assert replayed(entries).limits == (limit(3.0), limit(0.5, "30d"), limit(0.7, "365d"))


def test_totals_follow_their_entries() -> None:
    entries = [
        entry(1, Event.RESERVE, "a", "0.1"),
        entry(2, Event.RESERVE, "b", "0.2"),
        entry(3, Event.RESERVE, "c", "0.4"),
        entry(4, Event.COMMIT, "a", "0.1", model_sha256="m"),
        entry(5, Event.CANCEL, "b", "0.2"),
    ]
    totals = replayed(entries)
    assert (totals.spent.committed.epsilon, totals.spent.reserved.epsilon) == (exact(0.1), exact(0.4))
    assert (totals.bookings, totals.neighbours) == (2, REPLACE)
    none = replayed([entries[1], entries[4]])
    assert (none.bookings, none.neighbours, none.spent) == (0, None, Spent())


@given(st.lists(st.tuples(EPSILONS, st.floats(0, 0.01)), max_size=20))
def test_totals_are_read_back_exactly(amounts: list[tuple[float, float]]) -> None:
    totals = Totals()
    for number, (epsilon, delta) in enumerate(amounts, start=1):
        one = entry(number, Event.RESERVE, str(number), decimal_text(epsilon))
        totals = totals.after(replace(one, delta=decimal_text(delta)))
    assert Totals.from_text(totals.to_text()) == totals
    assert totals.spent.reserved.epsilon == sum((exact(e) for e, _ in amounts), Fraction(0))


def test_a_booking_follows_its_entries() -> None:
    reserve = entry(7, Event.RESERVE, "c", attempt=2)
    held = booking_of(reserve, None)
    assert (held.state, held.attempt, held.entry_hash) == (State.RESERVED, 2, "hash 7")
    assert held.booked_at == NOW + 7 * DAY
    committed = booking_of(reserve, entry(8, Event.COMMIT, "c", attempt=2, model_sha256="m"))
    assert (committed.state, committed.model_sha256) == (State.COMMITTED, "m")
    assert booking_of(reserve, entry(8, Event.CANCEL, "c", attempt=2)).state is State.CANCELLED
