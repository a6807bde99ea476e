"""Limits accounted as zcdp: rho's add exactly, unlike losses are refused, and the rest stays as it was."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, select
from sqlalchemy.pool import NullPool

from privacy_engine.dp.ledger import Standing
from privacy_engine.dp.limits import Accounting, Limit, Period, rho_of
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.zcdp import zcdp_epsilon, zcdp_rho
from privacy_engine.errors import BudgetExceededError, IntegrityError
from privacy_release.alerts.budgets import low_budgets
from privacy_release.ledger import database
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.ledger.tables import ENTRIES, TOTALS
from tests.privacy_release.ledger.clocks import DATASET, DAY, Clock, grant, ledger_with, loss

DELTA = 1e-9
UNLIKE = PrivacyLoss(epsilon=0.1, delta=1e-12, neighbours="replace_one")


def zcdp(epsilon: float, period: str = "total", delta: float = DELTA) -> Limit:
    return Limit(epsilon=epsilon, delta=delta, period=Period.parse(period), accounting="zcdp")


def gaussian(rho: float, delta: float = DELTA) -> PrivacyLoss:
    return PrivacyLoss.of_zcdp(rho, delta, Neighbours.REPLACE_ONE)


def put(ledger: BudgetLedger, limit: Limit) -> None:
    ledger.grant(DATASET, limit, reason="a year", by="officer")


def book(ledger: BudgetLedger, key: str, amount: PrivacyLoss) -> None:
    token = ledger.reserve(DATASET, key, amount).token
    ledger.commit(DATASET, key, "model", token=token)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> BudgetLedger:
    return ledger_with(str(tmp_path / "ledger.db"), clock)


def only(ledger: BudgetLedger) -> Standing:
    (standing,) = ledger.standing(DATASET)
    return standing


# What fits


def test_small_pure_releases_cost_less_than_their_sum(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    # rho .01497 of the limit over .0003125 each: 47 of them, of which only 40 would have fitted by sum.
    fits = math.floor(zcdp_rho(1.0, DELTA) / (0.025**2 / 2))
    assert fits == 47
    for week in range(fits):
        ledger.reserve(DATASET, f"week {week}", loss(0.025))
    with pytest.raises(BudgetExceededError, match="as zcdp"):
        ledger.reserve(DATASET, "one more", loss(0.025))
    assert only(ledger).rho == fits * Fraction(1, 3200)
    assert float(only(ledger).spent) == zcdp_epsilon(fits / 3200, DELTA)
    ledger.check(DATASET)


def test_a_release_that_claims_the_limit_itself_fits_once(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    whole = PrivacyLoss.within(1.0, DELTA, Neighbours.REPLACE_ONE)
    book(ledger, "all", whole)
    assert only(ledger).left_rho == 0
    assert ledger.booking(DATASET, "all").loss == whole
    with pytest.raises(BudgetExceededError):
        ledger.reserve(DATASET, "crumb", gaussian(1e-20))


def test_pure_and_gaussian_releases_add_by_rho(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    book(ledger, "pure", loss(0.1))  # rho .005
    book(ledger, "gaussian", gaussian(0.009, 1e-6))  # whatever its own delta
    assert only(ledger).rho == Fraction(14, 1000)
    with pytest.raises(BudgetExceededError, match=r"rho 0\.00097"):
        ledger.reserve(DATASET, "pure again", loss(0.05))
    ledger.reserve(DATASET, "less", gaussian(0.0009))


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.floats(1e-3, 0.1)), min_size=1, max_size=8))
def test_what_fits_composes_to_no_more_than_the_limit(requested: list[tuple[bool, float]]) -> None:
    limit = zcdp(1.0)
    standing = Standing(limit=limit, spent=Fraction(0), spent_delta=Fraction(0), reserved=Fraction(0))
    taken = 0.0
    for pure, size in requested:
        one = loss(size) if pure else gaussian(size / 10)
        if standing.covers(one):
            counted = rho_of(one)
            assert counted is not None
            standing = replace(standing, rho=standing.rho + counted)
            taken += size**2 / 2 if pure else size / 10
    assert not taken or zcdp_epsilon(taken * (1 - 1e-12), DELTA) <= 1.0


def test_a_limit_for_each_release_converts_each_by_itself(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0, "release"))
    for key in "abc":
        ledger.reserve(DATASET, key, PrivacyLoss.within(1.0, DELTA, Neighbours.REPLACE_ONE))
    with pytest.raises(BudgetExceededError, match="for each release"):
        ledger.reserve(DATASET, "d", PrivacyLoss.within(1.01, DELTA, Neighbours.REPLACE_ONE))


def test_a_rolling_limit_gets_free_again_and_says_when(ledger: BudgetLedger, clock: Clock) -> None:
    put(ledger, zcdp(1.0, "30d"))
    begin = clock.now
    book(ledger, "a", gaussian(0.01))
    clock.now = begin + 10 * DAY
    book(ledger, "b", gaussian(0.004))
    with pytest.raises(BudgetExceededError, match=f"free again at {begin + 30 * DAY:%Y-%m-%d}"):
        ledger.reserve(DATASET, "c", gaussian(0.01))
    clock.now = begin + 30 * DAY
    assert only(ledger).rho == Fraction(4, 1000)
    ledger.reserve(DATASET, "c", gaussian(0.01))
    ledger.check(DATASET)


def test_a_reservation_that_is_given_back_frees_its_rho(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    token = ledger.reserve(DATASET, "a", gaussian(0.014)).token
    assert only(ledger).reserved == only(ledger).spent > 0
    ledger.cancel(DATASET, "a", token=token)
    assert (only(ledger).rho, only(ledger).spent, only(ledger).reserved) == (0, 0, 0)
    book(ledger, "b", gaussian(0.014))
    assert only(ledger).reserved == 0
    ledger.check(DATASET)


# What does not


def test_a_delta_without_a_rho_is_refused_with_the_remedy(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    with pytest.raises(BudgetExceededError, match=r"no rho follows from .*grant a limit accounted by sum"):
        ledger.reserve(DATASET, "a", UNLIKE)
    assert only(ledger).rho == 0


def test_a_zcdp_limit_over_bookings_without_rho_is_refused(ledger: BudgetLedger, clock: Clock) -> None:
    put(ledger, Limit(epsilon=1.0, delta=1e-6))
    book(ledger, "a", UNLIKE)
    with pytest.raises(ValueError, match="1 bookings of adult have a delta and no rho"):
        put(ledger, zcdp(1.0))
    assert not only(ledger).limit.is_zcdp
    ledger.check(DATASET)  # the refused grant left all totals as they were
    clock.now += 31 * DAY
    put(ledger, zcdp(1.0, "30d"))  # out of whose window it is
    ledger.check(DATASET)


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_a_zcdp_limit_needs_a_delta(delta: float) -> None:
    with pytest.raises(ValueError, match="delta of a limit"):
        zcdp(1.0, delta=delta)


def test_a_booking_may_not_bring_its_own_rho(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    with pytest.raises(ValueError, match="must not have a rho"):
        ledger.reserve(DATASET, "a", loss(0.1), detail={"rho": "0.000001"})


def test_a_key_is_of_one_rho(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    one = gaussian(0.01)
    ledger.reserve(DATASET, "a", one)
    with pytest.raises(ValueError, match="must name one loss"):
        ledger.reserve(DATASET, "a", PrivacyLoss(epsilon=one.epsilon, delta=DELTA, neighbours=one.neighbours))


# A changed accounting


def test_a_later_grant_counts_all_bookings_by_the_new_rule(ledger: BudgetLedger, clock: Clock) -> None:
    put(ledger, Limit(epsilon=2.0))
    begin = clock.now
    for month in range(10):
        clock.now = begin + 30 * month * DAY
        book(ledger, f"month {month}", loss(0.1))
    by_sum = [entry.hash for entry in ledger.check(DATASET)]
    put(ledger, zcdp(2.0))
    put(ledger, zcdp(1.0, "90d"))  # its window begins before rho's were summed
    total, window = ledger.standing(DATASET)
    assert (total.rho, window.rho) == (Fraction(5, 100), Fraction(15, 1000))
    assert [entry.hash for entry in ledger.check(DATASET)][: len(by_sum)] == by_sum
    with pytest.raises(BudgetExceededError):
        ledger.reserve(DATASET, "more", loss(0.1))  # rho .02 in 90 days
    put(ledger, Limit(epsilon=2.0, period=Period.parse("90d")))
    put(ledger, Limit(epsilon=2.0))
    assert [float(standing.spent) for standing in ledger.standing(DATASET)] == [1.0, 0.3]
    ledger.reserve(DATASET, "more", loss(0.1))
    ledger.check(DATASET)


def test_a_ledger_that_is_kept_by_sum_is_written_as_before(ledger: BudgetLedger) -> None:
    grant(ledger, 1.0)
    book(ledger, "a", loss(0.1))
    with create_engine(database.database_url(ledger.url), poolclass=NullPool).begin() as connection:
        texts = list(connection.execute(select(TOTALS.c.totals).order_by(TOTALS.c.number)).scalars())
        details = list(connection.execute(select(ENTRIES.c.detail).order_by(ENTRIES.c.number)).scalars())
    assert texts[-1] == (
        '{"limits":[["total","1","0","replace_one"]],"spent":[["0.1","0"],["0","0"]],"bookings":1,'
        '"neighbours":"replace_one"}'
    )
    assert set(json.loads(details[0])) == {"period", "reason", "by"}
    assert json.loads(details[1]) == {}


@pytest.mark.parametrize("later", ["zcdp", "sum"])
def test_totals_that_an_earlier_version_did_not_make_are_made_with_their_rhos(
    ledger: BudgetLedger, later: str
) -> None:
    put(ledger, zcdp(1.0))
    book(ledger, "a", gaussian(0.01))
    if later == "sum":
        put(ledger, Limit(epsilon=9.0, delta=1e-6))
    before = only(ledger)
    with create_engine(database.database_url(ledger.url), poolclass=NullPool).begin() as connection:
        connection.execute(TOTALS.delete())
    assert only(ledger) == before
    ledger.check(DATASET)


def test_little_is_left_by_the_share_of_rho(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    ledger.reserve(DATASET, "a", gaussian(0.0115))  # of .01497: epsilon .87, but a fifth of rho is left
    assert float(only(ledger).left) < 0.2
    assert low_budgets(DATASET, [only(ledger)]) == ()
    ledger.reserve(DATASET, "b", gaussian(0.001))
    assert len(low_budgets(DATASET, [only(ledger)])) == 1


# Other hands, and many at once


@pytest.mark.parametrize(
    ("number", "detail"),
    [
        (1, {"period": "total", "reason": "a year", "by": "officer", "accounting": "sum"}),
        (1, {"period": "total", "reason": "a year", "by": "officer"}),
        (2, {"rho": "0.000001"}),
        (2, {}),
    ],
)
def test_a_rho_or_an_accounting_that_other_hands_changed_shows(
    ledger: BudgetLedger, number: int, detail: dict[str, str]
) -> None:
    put(ledger, zcdp(1.0))
    ledger.reserve(DATASET, "a", gaussian(0.014))
    with create_engine(database.database_url(ledger.url), poolclass=NullPool).begin() as connection:
        edit = ENTRIES.update().where(ENTRIES.c.number == number).values(detail=json.dumps(detail))
        connection.execute(edit)
    with pytest.raises(IntegrityError, match=f"entry {number} was edited"):
        ledger.check(DATASET)
    with pytest.raises(IntegrityError, match=f"entry {number} was edited"):
        ledger.reserve(DATASET, "b", gaussian(0.014))


def test_sums_of_rhos_that_other_hands_changed_show(ledger: BudgetLedger) -> None:
    put(ledger, zcdp(1.0))
    book(ledger, "a", gaussian(0.014))
    with create_engine(database.database_url(ledger.url), poolclass=NullPool).begin() as connection:
        text = connection.execute(select(TOTALS.c.totals).where(TOTALS.c.number == 3)).scalar_one()
        assert "0.014" in text
        edit = TOTALS.update().where(TOTALS.c.number == 3).values(totals=text.replace("0.014", "0.001"))
        connection.execute(edit)
    with pytest.raises(IntegrityError, match="running totals of entry 3 were edited"):
        ledger.standing(DATASET)


@pytest.mark.slow
def test_twenty_at_once_stop_exactly_at_the_rho(ledger_url: str) -> None:
    ledger = BudgetLedger(ledger_url)
    ledger.migrate()
    put(ledger, Limit(epsilon=1.0))
    put(ledger, zcdp(1.0))

    def ask(i: int) -> bool:
        try:
            BudgetLedger(ledger_url).reserve(DATASET, f"key {i}", gaussian(0.002))
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        booked = list(pool.map(ask, range(20)))
    assert sum(booked) == 7  # 7 x .002 = .014 of .01497
    assert only(ledger).rho == Fraction(14, 1000)
    ledger.check(DATASET)


def test_a_standing_tells_its_rho_only_where_it_has_one() -> None:
    nothing = {"spent": Fraction(0), "spent_delta": Fraction(0), "reserved": Fraction(0)}
    fields = Standing(limit=zcdp(1.0), **nothing).to_dict()
    assert fields["accounting"] == Accounting.ZCDP
    assert fields["left_rho"] == zcdp_rho(1.0, DELTA)
    assert not {"accounting", "left_rho"} & set(Standing(limit=Limit(epsilon=1.0), **nothing).to_dict())


def test_a_limit_that_adds_rhos_covers_nothing_beside_a_booking_without_one() -> None:
    fields = {"spent": Fraction(0), "spent_delta": Fraction(0), "reserved": Fraction(0)}
    covered = [Standing(limit=zcdp(1.0), unlike=unlike, **fields).covers(loss(0.1)) for unlike in (0, 1)]
    assert covered == [True, False]
