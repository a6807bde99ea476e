"""zCDP: conversions are never below the exact loss, and its mechanisms are what they claim."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine import PrivacyLoss
from privacy_engine.dp.accounting import Spend, check_bookkeeping, total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.dp.mechanisms import (
    gaussian_counts,
    gaussian_scale,
    gumbel_max,
    gumbel_max_scale,
    split,
)
from privacy_engine.dp.zcdp import pure_rho, zcdp_epsilon, zcdp_rho
from privacy_engine.tables.schema import DataSchema

SCHEMA = DataSchema.from_dict({"age": {"kind": "numeric", "bounds": [0, 100]}})
ONE = Neighbours.REPLACE_ONE
rhos = st.floats(1e-6, 100)
deltas = st.floats(1e-15, 0.1)


def discrete_gaussian(scale: float, reach: int) -> np.ndarray:
    z = np.arange(-reach, reach + 1)
    mass = np.exp(-(z**2) / (2 * scale**2))
    return mass / mass.sum()


def exact_delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The least delta at which two distributions are indistinguishable, by its definition."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("scale", [0.7, 2.0, 10.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_a_conversion_is_never_below_the_exact_loss_of_gaussian_noise(scale: float, shift: int) -> None:
    reach = int(40 * scale) + shift  # beyond which there is a mass of e^-800
    noise = discrete_gaussian(scale, reach + shift)
    p, q = noise[shift:], noise[: len(noise) - shift]
    rho = shift**2 / (2 * scale**2)
    for delta in (1e-2, 1e-4, 1e-6, 1e-9):
        epsilon = zcdp_epsilon(rho, delta)
        assert exact_delta(p, q, epsilon) <= delta
        # and it is a good bound: at two thirds of it the exact delta is larger than what was asked for.
        assert exact_delta(p, q, epsilon / 1.5) > delta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_pure_epsilon_has_the_renyi_divergence_that_its_rho_allows(epsilon: float) -> None:
    # Randomized response is the dearest epsilon-DP mechanism there is.
    p = np.array([math.exp(epsilon), 1]) / (1 + math.exp(epsilon))
    for alpha in np.linspace(1.01, 30, 200):
        divergence = math.log(float((p**alpha * p[::-1] ** (1 - alpha)).sum())) / (alpha - 1)
        assert divergence <= alpha * float(pure_rho(epsilon)) * (1 + 1e-12)


@pytest.mark.parametrize("gap", [0, 1, 5])
def test_a_choice_by_gumbel_noise_has_the_renyi_divergence_that_its_rho_allows(gap: int) -> None:
    # Neighbours: one candidate falls by the sensitivity, all others rise by it.
    scale, sensitivity = 4.0, 2
    here, there = np.array([gap, 0, 0]), np.array([gap - sensitivity, sensitivity, sensitivity])
    p, q = (np.exp(s / scale) / np.exp(s / scale).sum() for s in (here, there))
    rho = sensitivity**2 / (2 * scale**2)
    for alpha in np.linspace(1.01, 30, 200):
        for a, b in ((p, q), (q, p)):
            divergence = math.log(float((a**alpha * b ** (1 - alpha)).sum())) / (alpha - 1)
            assert divergence <= alpha * rho


def test_conversions_are_those_of_opendp() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, 1.0))
    for rho in (1e-3, 0.015, 0.5, 8.0):
        profile = measurement.map(math.sqrt(2 * rho))
        for delta in (1e-2, 1e-6, 1e-9, 1e-20):
            assert zcdp_epsilon(rho, delta) == pytest.approx(profile.epsilon(delta), rel=1e-12)


@given(rhos, deltas)
def test_the_largest_rho_of_a_claim_is_the_one_that_the_claim_is_of(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    try:
        back = zcdp_rho(epsilon, delta)
    except ValueError:
        assert epsilon < 1e-9  # delta alone covers it
        return
    assert zcdp_epsilon(back, delta) <= epsilon
    if epsilon > 1e-6:
        assert back == pytest.approx(rho, rel=1e-7)


@given(rhos, rhos, deltas)
def test_composition_of_rhos_is_monotone(first: float, second: float, delta: float) -> None:
    a, b = (PrivacyLoss.of_zcdp(rho, delta, ONE) for rho in (first, second))
    both = a + b
    assert both.rho is not None
    assert Fraction(both.rho) >= Fraction(first) + Fraction(second)
    assert both.epsilon >= max(a.epsilon, b.epsilon) * (1 - 1e-12)
    assert both == b + a
    assert both.delta == delta


@given(st.floats(1e-3, 50), deltas)
def test_a_claim_keeps_a_slack_for_the_last_bits_of_other_machines(epsilon: float, delta: float) -> None:
    try:
        claim = PrivacyLoss.within(epsilon, delta, ONE)
    except ValueError:
        return  # delta alone covers it
    assert claim.rho is not None
    assert zcdp_epsilon(claim.rho, delta) <= epsilon * (1 - 1e-13)
    spent = PrivacyLoss.of_zcdp(claim.rho, delta, ONE)
    assert zcdp_epsilon(claim.rho, delta) * (1 + 5e-14) <= spent.epsilon <= epsilon


@pytest.mark.parametrize("rho", [0, -1.0, math.nan, math.inf])
def test_a_rho_that_is_not_positive_and_finite_is_refused(rho: float) -> None:
    for ask in (
        lambda: zcdp_epsilon(rho, 1e-6),
        lambda: gaussian_counts(np.zeros(2, dtype=np.int64), rho=rho),
        lambda: gumbel_max(np.zeros(2, dtype=np.int64), rho=rho, sensitivity=1),
        lambda: PrivacyLoss(epsilon=1, delta=1e-6, neighbours=ONE, rho=rho),
    ):
        with pytest.raises(ValueError, match="rho must be > 0 and finite"):
            ask()


@pytest.mark.parametrize("delta", [0, 1, -1e-9, math.nan])
def test_a_rho_has_no_epsilon_without_a_delta(delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        zcdp_epsilon(0.1, delta)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        zcdp_rho(0.1, delta)


@pytest.mark.parametrize("squared", [0, -2, 1.5])
def test_a_squared_sensitivity_that_is_no_positive_whole_number_is_refused(squared: int) -> None:
    with pytest.raises(ValueError, match="squared_sensitivity must be a whole number >= 1"):
        gaussian_counts(np.zeros(2, dtype=np.int64), rho=1, squared_sensitivity=squared)


def test_noise_that_64_bit_counts_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="rho must be larger"):
        gaussian_counts(np.zeros(2, dtype=np.int64), rho=1e-300)


@pytest.mark.parametrize("dtype", [np.float64, np.uint64, bool])
def test_inputs_that_are_no_signed_integers_are_refused(dtype: type) -> None:
    with pytest.raises(ValueError, match="must be signed whole numbers"):
        gaussian_counts(np.zeros(3, dtype=dtype), rho=1)
    with pytest.raises(ValueError, match="must be signed whole numbers"):
        gumbel_max(np.zeros(3, dtype=dtype), rho=1, sensitivity=1)


@settings(max_examples=30)
@given(st.floats(1e-9, 1e3), st.integers(1, 10**6))
def test_a_scale_never_claims_less_than_it_spends_and_wastes_only_rounding(rho: float, m: int) -> None:
    scale = gaussian_scale(rho=rho, squared_sensitivity=2 * m**2)
    chosen = gumbel_max_scale(rho=rho, sensitivity=m)
    assert Fraction(2 * m**2) / (2 * Fraction(scale) ** 2) <= Fraction(rho)
    assert Fraction(m**2) / (2 * Fraction(chosen) ** 2) <= Fraction(rho)
    assert scale == pytest.approx(m / math.sqrt(rho), rel=1e-14)
    assert chosen == pytest.approx(m / math.sqrt(2 * rho), rel=1e-14)


def test_the_noise_is_the_discrete_gaussian_distribution() -> None:
    # 40,000 draws, each value's frequency within 6.5 standard errors (and 10 draws, where few are expected):
    # a false alarm below 1e-8 a value by Bernstein's inequality, and there are about 20 values.
    scale, draws = 1.5, 40_000
    rho = 1 / scale**2
    assert gaussian_scale(rho=rho, squared_sensitivity=2) == pytest.approx(scale, rel=1e-12)
    noise = gaussian_counts(np.zeros((draws // 4, 4), dtype=np.int64), rho=rho)
    assert noise.shape == (draws // 4, 4)
    reach = 12
    expected = draws * discrete_gaussian(scale, reach)
    seen = np.bincount(noise.ravel() + reach, minlength=2 * reach + 1)
    assert len(seen) == len(expected)
    assert (np.abs(seen - expected) < 6.5 * np.sqrt(expected) + 20).all()


def test_a_choice_follows_the_exponential_mechanism() -> None:
    # Two candidates 4 apart at scale 4: the lower one has 1 / (1 + e) = .269 of 4,000 choices; 7 standard
    # errors on each side, by Chernoff's bound a false alarm below 1e-9.
    scores = np.array([10, 6], dtype=np.int64)
    assert gumbel_max_scale(rho=0.125, sensitivity=2) == 4
    low = np.mean([gumbel_max(scores, rho=0.125, sensitivity=2) for _ in range(4000)])
    p = 1 / (1 + math.e)
    assert abs(low - p) < 7 * math.sqrt(p * (1 - p) / 4000)


def test_a_claim_that_its_rho_does_not_imply_is_refused() -> None:
    with pytest.raises(ValueError, match="must imply epsilon 1"):
        PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours=ONE, rho=0.0151)
    with pytest.raises(ValueError, match="delta must be in"):
        PrivacyLoss(epsilon=1.0, neighbours=ONE, rho=0.01)


def test_a_rho_and_a_pure_epsilon_add_as_rhos() -> None:
    gaussian = PrivacyLoss.within(1.0, 1e-9, ONE)
    both = gaussian + PrivacyLoss(epsilon=0.5, neighbours=ONE)
    assert both.rho == pytest.approx(gaussian.rho + 0.125, rel=1e-15)
    assert both.epsilon == pytest.approx(zcdp_epsilon(both.rho, 1e-9), rel=1e-12)


@pytest.mark.parametrize(
    "other",
    [
        PrivacyLoss(epsilon=0.5, delta=1e-9, neighbours=ONE),  # of which no rho follows
        PrivacyLoss.of_zcdp(0.01, 1e-6, ONE),  # at another delta
    ],
)
def test_unlike_losses_are_refused_and_never_added(other: PrivacyLoss) -> None:
    with pytest.raises(ValueError, match="add as zCDP only at the same delta"):
        PrivacyLoss.within(1.0, 1e-9, ONE) + other


def test_parallel_parts_carry_a_rho_where_all_do() -> None:
    parts = [PrivacyLoss.of_zcdp(rho, 1e-9, ONE) for rho in (0.02, 0.01)]
    assert PrivacyLoss.parallel(parts) == parts[0]
    assert PrivacyLoss.parallel([*parts, PrivacyLoss(epsilon=0.1, neighbours=ONE)]).rho is None


def test_a_loss_tells_a_rho_only_where_it_has_one() -> None:
    loss = PrivacyLoss.within(1.0, 1e-9, ONE)
    assert PrivacyLoss(**loss.to_dict()) == loss
    assert list(PrivacyLoss(epsilon=1, neighbours=ONE).to_dict()) == ["epsilon", "delta", "neighbours"]


CLAIM = PrivacyLoss.within(1.0, 1e-9, ONE)


def books() -> list[Spend]:
    """Two choices and two tables, together the rho of epsilon 1 at delta 1e-9."""
    choice, table = split(CLAIM.rho, [0.1, 0.4, 0.1, 0.4])[:2]
    chosen = Spend(
        mechanism="noisy_max",
        target="age",
        rho=choice,
        sensitivity=4,
        scale=gumbel_max_scale(rho=choice, sensitivity=4),
    )
    return [chosen, gaussian(table)] * 2


def gaussian(rho: float) -> Spend:
    scale = gaussian_scale(rho=rho, squared_sensitivity=8)
    return Spend(mechanism="discrete_gaussian", target="age", rho=rho, sensitivity=8, scale=scale)


def test_the_rhos_of_a_release_are_added_and_converted_once() -> None:
    loss = total(books(), ONE, 1e-9)
    assert loss.rho == pytest.approx(CLAIM.rho, rel=1e-14)
    assert loss.epsilon == pytest.approx(1.0, rel=1e-10)
    assert loss.epsilon <= 1.0
    laplace = Spend(mechanism="discrete_laplace", target="age", epsilon=0.2, sensitivity=2, scale=10.0)
    assert total([gaussian(0.01), laplace], ONE, 1e-9).rho == pytest.approx(0.03, rel=1e-14)
    with pytest.raises(ValueError, match="delta must be in"):
        total(books(), ONE)


def test_the_rho_of_several_runs_is_the_sum_of_theirs() -> None:
    for spend in books():
        twice = replace(spend, rho=2 * spend.rho, runs=2)
        assert not twice.is_too_quiet
        assert replace(twice, rho=spend.rho).is_too_quiet


def test_right_books_pass_and_survive_json() -> None:
    findings = check_bookkeeping(CLAIM, books(), SCHEMA, CLAIM)
    assert all(finding.passed for finding in findings)
    assert any(finding.rule.startswith("rho of all mechanisms") for finding in findings)
    for spend in books():
        assert Spend.from_dict(spend.to_dict()) == spend
        assert "epsilon" not in spend.to_dict()


WRONG = {
    "one more table": ({"spends": [*books(), gaussian(1e-9)]}, "rho of all mechanisms"),
    "half the noise": (
        {"spends": [Spend.from_dict(s.to_dict() | {"scale": s.scale / 2}) for s in books()]},
        "too little noise for their rho",
    ),
    "an epsilon that its rho's exceed": (
        {"loss": PrivacyLoss(epsilon=0.99, delta=1e-9, neighbours=ONE)},
        "epsilon of all mechanisms",
    ),
    "a pure claim": ({"loss": PrivacyLoss(epsilon=9.0, neighbours=ONE)}, "epsilon of all mechanisms"),
    "a booking without rho": (
        {"booked": PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours=ONE)},
        "rho booked in the ledger",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_books_fail_by_the_rule_they_break(case: str) -> None:
    change, rule = WRONG[case]
    given_books = {"loss": CLAIM, "spends": books(), "schema": SCHEMA, "booked": CLAIM} | change
    failed = [finding.rule for finding in check_bookkeeping(**given_books) if not finding.passed]
    assert any(rule in text for text in failed), failed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 1.0}, "epsilon or rho, not both"),
        ({"mechanism": "discrete_laplace"}, "mechanism must be one of"),
        ({"rho": 0}, "rho must be > 0"),
        ({"sample": (1, 2)}, "no sample, group or delta"),
        ({"group": 2}, "no sample, group or delta"),
        ({"delta": 1e-9}, "no sample, group or delta"),
    ],
)
def test_an_impossible_spend_of_rho_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spend(**gaussian(0.1).to_dict() | change)
