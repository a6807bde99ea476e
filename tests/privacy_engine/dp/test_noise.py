"""The noise budget of a release: books what it draws, refuses more than the whole, in epsilon and in rho."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine import DataSchema, PrivacyLoss
from privacy_engine.dp.accounting import check_bookkeeping
from privacy_engine.dp.loss import Neighbours
from privacy_engine.dp.mechanisms import gaussian_scale, laplace_scale, split
from privacy_engine.dp.noise import Change, GaussianNoise, NoiseBudget, PureNoise

SCHEMA = DataSchema.from_dict({"age": {"kind": "numeric", "bounds": [0, 100]}})
LOSSES = {
    "pure": PrivacyLoss(epsilon=1.0, neighbours=Neighbours.REPLACE_PERSON),
    "zcdp": PrivacyLoss.within(1.0, 1e-9, Neighbours.REPLACE_PERSON),
}
COUNTS = np.array([5, 0, 9], dtype=np.int64)


@pytest.fixture(params=LOSSES)
def loss(request: pytest.FixtureRequest) -> PrivacyLoss:
    return LOSSES[request.param]


@settings(max_examples=30)
@given(st.integers(1, 50), st.integers(0, 10**6))
def test_no_rows_of_a_person_change_a_table_by_more_than_its_change(each: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lost, gained = (np.bincount(rng.integers(0, 6, size=each), minlength=6) for _ in range(2))
    moved, change = gained - lost, Change.of_table(each)
    assert np.abs(moved).sum() <= change.summed
    assert (moved**2).sum() <= change.squared
    assert abs(moved[0]) <= Change.of_count(each).summed
    assert moved[0] ** 2 <= Change.of_count(each).squared


def test_the_worst_change_of_a_table_is_reached() -> None:
    moved = np.array([3, -3, 0])
    assert np.abs(moved).sum() == Change.of_table(3).summed
    assert (moved**2).sum() == Change.of_table(3).squared


def test_what_was_drawn_is_booked_with_enough_noise_and_fills_the_claim(loss: PrivacyLoss) -> None:
    noise = NoiseBudget.of(loss)
    first, second = split(noise.whole, [1, 3])
    noisy = noise.add(COUNTS, first, Change.of_table(4), target="age")
    chosen = noise.choose(COUNTS, second, by=8, targets=["a", "b", "c"])
    assert noisy.shape == COUNTS.shape
    assert [s.target for s in noise.spends] == ["age", "abc"[chosen]]
    of_table = Change.of_table(4).summed if loss.rho is None else Change.of_table(4).squared
    assert [s.sensitivity for s in noise.spends] == [of_table, 8]
    assert noise.left == pytest.approx(0, abs=1e-15)
    findings = check_bookkeeping(loss, noise.spends, SCHEMA, loss)
    assert all(finding.passed for finding in findings), findings


def test_more_than_the_whole_is_refused_before_anything_is_drawn(loss: PrivacyLoss) -> None:
    noise = NoiseBudget.of(loss)
    noise.add(COUNTS, noise.whole, Change.of_count(1), target="age")
    asks: list[Callable[[], object]] = [
        lambda: noise.add(COUNTS, noise.whole / 1e9, Change.of_count(1), target="age"),
        lambda: noise.choose(COUNTS, noise.whole / 1e9, by=1, targets=["a", "b", "c"]),
    ]
    for ask in asks:
        with pytest.raises(ValueError, match="must not spend more than the whole"):
            ask()
    assert len(noise.spends) == 1


def test_parts_add_exactly_and_not_in_floats(loss: PrivacyLoss) -> None:
    noise = NoiseBudget.of(loss)
    parts = split(noise.whole, [1] * 10)
    for part in parts:
        noise.add(COUNTS, part, Change.of_table(1), target="age")
    assert Fraction(noise.left) <= Fraction(noise.whole) - sum(map(Fraction, parts))


def test_scale_follows_the_power_of_the_part(loss: PrivacyLoss) -> None:
    noise = NoiseBudget.of(loss)
    one, quarter = (noise.scale(part, Change.of_table(2)) for part in (noise.whole, noise.whole / 4))
    assert quarter / one == pytest.approx(4 ** (1 / noise.power), rel=1e-12)


def test_scales_are_those_of_the_mechanisms() -> None:
    change = Change.of_table(3)
    assert PureNoise(1.0).scale(0.5, change) == laplace_scale(epsilon=0.5, sensitivity=6)
    assert GaussianNoise(1.0).scale(0.5, change) == gaussian_scale(rho=0.5, squared_sensitivity=18)


def test_imitated_noise_has_the_deviation_of_the_real_one(loss: PrivacyLoss) -> None:
    # 20,000 draws each; a kurtosis of 6 gives the deviation a standard error below 0.8 %. 8 % are ten of them
    # for the real noise, which alone is not seeded.
    # A person of three records: only then do the summed and the squared change differ.
    noise = NoiseBudget.of(loss)
    change = Change.of_table(3)
    expected = noise.deviation(noise.whole, change)
    imitated = noise.imitated(np.random.default_rng(7), expected, (20_000,))
    drawn = noise.add(np.zeros(20_000, dtype=np.int64), noise.whole, change, target="age")
    assert imitated.std() == pytest.approx(expected, rel=0.08)
    assert drawn.std() == pytest.approx(expected, rel=0.08)
    assert np.abs(drawn).mean() == pytest.approx(noise.mean_error(noise.whole, change), rel=0.08)


def test_a_loss_with_a_delta_and_no_rho_buys_no_noise() -> None:
    with pytest.raises(ValueError, match="must have a rho"):
        NoiseBudget.of(PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours="replace_one"))


def test_floats_are_refused(loss: PrivacyLoss) -> None:
    with pytest.raises(ValueError, match="must be signed whole numbers"):
        NoiseBudget.of(loss).add(COUNTS / 2, math.ulp(1), Change.of_table(1), target="age")  # type: ignore[arg-type]
