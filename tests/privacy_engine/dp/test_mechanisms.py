"""Mechanisms: the noise is what the claim needs, nothing is rounded on the way, nothing can be seeded."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.dp.mechanisms import laplace_counts, laplace_scale, noisy_max, noisy_max_scale, split
from tests.import_graph import imports_at_once, modules, top

epsilons = st.floats(1e-6, 1e3)
sensitivities = st.integers(1, 10**9)


@given(epsilons, sensitivities)
def test_a_scale_never_claims_less_than_it_spends(epsilon: float, sensitivity: int) -> None:
    laplace = Fraction(laplace_scale(epsilon=epsilon, sensitivity=sensitivity))
    chosen = Fraction(noisy_max_scale(epsilon=epsilon, sensitivity=sensitivity))
    assert sensitivity / laplace <= Fraction(epsilon)
    assert 2 * sensitivity / chosen <= Fraction(epsilon)


@given(epsilons, sensitivities)
def test_a_scale_wastes_no_more_than_rounding(epsilon: float, sensitivity: int) -> None:
    assert laplace_scale(epsilon=epsilon, sensitivity=sensitivity) == pytest.approx(
        sensitivity / epsilon, rel=1e-14
    )
    assert noisy_max_scale(epsilon=epsilon, sensitivity=sensitivity) == pytest.approx(
        2 * sensitivity / epsilon, rel=1e-14
    )


@given(st.floats(1e-6, 1e3), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30))
def test_the_exact_sum_of_the_parts_never_exceeds_the_whole(epsilon: float, weights: list[float]) -> None:
    parts = split(epsilon, weights)
    assert sum(map(Fraction, parts)) <= Fraction(epsilon)
    expected = [epsilon * weight / math.fsum(weights) for weight in weights]
    assert list(parts) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("weights", [[], [1, 0], [1, -1], [1, math.nan], [1, math.inf]])
def test_a_split_by_no_or_impossible_weights_is_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights must be positive"):
        split(1.0, weights)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be > 0 and finite"):
        laplace_counts(np.zeros(3, dtype=np.int64), epsilon=epsilon)
    with pytest.raises(ValueError, match="epsilon must be > 0 and finite"):
        noisy_max(np.zeros(3, dtype=np.int64), epsilon=epsilon, sensitivity=1)
    with pytest.raises(ValueError, match="epsilon must be > 0 and finite"):
        split(epsilon, [1])


@pytest.mark.parametrize("sensitivity", [0, -1, 1.5])
def test_a_sensitivity_that_is_no_positive_whole_number_is_refused(sensitivity: int) -> None:
    with pytest.raises(ValueError, match="sensitivity must be a whole number >= 1"):
        laplace_counts(np.zeros(3, dtype=np.int64), epsilon=1, sensitivity=sensitivity)
    with pytest.raises(ValueError, match="sensitivity must be a whole number >= 1"):
        noisy_max(np.zeros(3, dtype=np.int64), epsilon=1, sensitivity=sensitivity)


def test_noise_that_64_bit_counts_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon must be larger for a sensitivity of 2"):
        laplace_counts(np.zeros(3, dtype=np.int64), epsilon=1e-300)


@pytest.mark.parametrize("dtype", [np.float64, np.uint64, bool])
def test_inputs_that_are_no_signed_integers_are_refused(dtype: type) -> None:
    with pytest.raises(ValueError, match="must be signed whole numbers"):
        laplace_counts(np.zeros(3, dtype=dtype), epsilon=1)
    with pytest.raises(ValueError, match="must be signed whole numbers"):
        noisy_max(np.zeros(3, dtype=dtype), epsilon=1, sensitivity=1)


def test_a_choice_among_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one score"):
        noisy_max(np.zeros(0, dtype=np.int64), epsilon=1, sensitivity=1)


@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (2, 3), (2, 3, 4)])
def test_noisy_counts_keep_the_shape_and_leave_the_counts_alone(shape: tuple[int, ...]) -> None:
    counts = np.full(shape, 7, dtype=np.int64)
    noisy = laplace_counts(counts, epsilon=1)
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert (counts == 7).all()


def test_counts_are_64_bits_wide() -> None:
    # Noise of scale 2: farther than 100 from the truth once in 1e21 draws.
    counts = np.array([2**40, -(2**40), 2**62], dtype=np.int64)
    assert np.abs(laplace_counts(counts, epsilon=1) - counts).max() < 100


def test_counts_that_are_not_contiguous_keep_their_places() -> None:
    # Noise of scale 0.02: any at all once in 1e21 draws.
    counts = np.arange(12, dtype=np.int64).reshape(3, 4).T
    assert np.array_equal(laplace_counts(counts, epsilon=100), counts)


def test_the_noise_is_the_discrete_laplace_distribution() -> None:
    # 40,000 draws of variance 2a / (1 - a)^2, a = e^(-1/scale). At a kurtosis of 6 the standard error of the
    # variance is 1.1 %: 9 of them, and 8 for the mean, leave heavy tails room; a false alarm is below 1e-12.
    scale, draws = laplace_scale(epsilon=0.5, sensitivity=2), 40_000
    noise = laplace_counts(np.zeros(draws, dtype=np.int64), epsilon=0.5)
    a = math.exp(-1 / scale)
    variance = 2 * a / (1 - a) ** 2
    assert abs(noise.mean()) < 8 * math.sqrt(variance / draws)
    assert noise.var() == pytest.approx(variance, rel=0.1)


def test_a_choice_follows_permute_and_flip() -> None:
    # Two candidates 4 apart at scale 4: the lower one is chosen with probability e^-1 / 2 = .184. Of 4,000
    # choices, 7 standard errors on each side: by Chernoff's bound a false alarm below 1e-9.
    scores = np.array([10, 6], dtype=np.int64)
    assert noisy_max_scale(epsilon=1.0, sensitivity=2) == 4
    low = np.mean([noisy_max(scores, epsilon=1.0, sensitivity=2) for _ in range(4000)])
    p = math.exp(-1) / 2
    assert abs(low - p) < 7 * math.sqrt(p * (1 - p) / 4000)


def test_far_ahead_wins_among_many() -> None:
    # Every other candidate is e^-100 as likely.
    scores = np.zeros(50_000, dtype=np.int64)
    scores[31_415] = 200
    assert noisy_max(scores, epsilon=1.0, sensitivity=1) == 31_415


def test_noise_comes_from_the_operating_system_and_not_from_numpy() -> None:
    # 50 draws of scale 20 alike by chance: below 1e-60.
    counts = np.zeros(50, dtype=np.int64)
    before = np.random.get_state()  # noqa: NPY002  the very thing that must not move
    first = laplace_counts(counts, epsilon=0.1)
    after = np.random.get_state()  # noqa: NPY002
    np.random.set_state(before)  # noqa: NPY002  must have no effect
    assert not np.array_equal(first, laplace_counts(counts, epsilon=0.1))
    assert np.array_equal(before[1], after[1])


def test_the_engine_is_imported_without_opendp() -> None:
    imported = set[str]()
    left = ["privacy_engine", "privacy_engine.dp.mechanisms", "privacy_engine.dp.accounting"]
    while left:
        names = imports_at_once(left.pop()) - imported
        imported |= names
        left += names & modules().keys()
    assert "privacy_engine.dp.zcdp" in imported
    assert "opendp" not in {top(name) for name in imported}
