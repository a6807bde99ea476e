"""Amplification by sampling: the formula, its inverse on the safe side, and a uniform sample."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.dp import amplification
from privacy_engine.dp.amplification import amplified, inner_epsilon, secure_sample

epsilons = st.floats(1e-9, 50)
rates = st.fractions(Fraction(1, 10**6), 1)


@given(epsilons, rates)
def test_amplification_is_the_formula(epsilon: float, rate: Fraction) -> None:
    assert amplified(epsilon, rate) == pytest.approx(math.log1p(float(rate) * math.expm1(epsilon)), rel=1e-13)


@given(epsilons, rates)
def test_what_may_be_spent_inside_costs_no_more_outside(epsilon: float, rate: Fraction) -> None:
    inner = inner_epsilon(epsilon, rate)
    assert amplified(inner, rate) <= epsilon
    assert amplified(inner, rate) == pytest.approx(epsilon, rel=1e-12)


@given(epsilons, rates)
def test_a_sample_never_costs_more_than_the_table(epsilon: float, rate: Fraction) -> None:
    assert amplified(epsilon, rate) <= epsilon <= inner_epsilon(epsilon, rate)


@given(st.floats(1e-300, 1e-12))
def test_a_tiny_epsilon_is_scaled_by_the_rate(epsilon: float) -> None:
    assert amplified(epsilon, 0.25) == pytest.approx(epsilon / 4, rel=1e-11)
    assert inner_epsilon(epsilon, 0.25) == pytest.approx(epsilon * 4, rel=1e-11)


@given(epsilons)
def test_the_whole_table_as_sample_changes_nothing(epsilon: float) -> None:
    assert amplified(epsilon, 1) == inner_epsilon(epsilon, 1) == epsilon


def test_the_bound_holds_and_is_met_by_a_mechanism_written_out() -> None:
    """Randomized response on the sum of a sample of 2 of 4 bits, every sample and answer enumerated."""
    inner, n, m = 1.2, 4, 2
    truth = math.exp(inner) / (1 + math.exp(inner))

    def answers_one(table: tuple[int, ...]) -> float:
        # "did the sample hold a 1", answered truly with probability `truth`: epsilon = inner on the sample.
        samples = list(itertools.combinations(range(n), m))
        return sum(truth if any(table[i] for i in s) else 1 - truth for s in samples) / len(samples)

    with_one, without = answers_one((1, 0, 0, 0)), answers_one((0, 0, 0, 0))
    assert math.log(with_one / without) == pytest.approx(amplified(inner, Fraction(m, n)), rel=1e-12)


@pytest.mark.parametrize("function", [amplified, inner_epsilon])
@pytest.mark.parametrize(
    ("epsilon", "rate", "message"),
    [
        (0, 0.5, "epsilon must be > 0"),
        (-1, 0.5, "epsilon must be > 0"),
        (math.inf, 0.5, "finite"),
        (math.nan, 0.5, "epsilon must be > 0"),
        (1, 0, "rate must be in"),
        (1, 1.01, "rate must be in"),
        (1, -0.5, "rate must be in"),
    ],
)
def test_epsilons_and_rates_out_of_range_are_refused(function, epsilon, rate, message) -> None:
    with pytest.raises(ValueError, match=message):
        function(epsilon, rate)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (10, 10), (10, 3), (5000, 100)])
def test_a_sample_has_its_size_no_repetition_and_ascending_rows(n: int, m: int) -> None:
    rows = secure_sample(n, m)
    assert rows.dtype == np.int64
    assert rows.shape == (m,)
    assert (np.diff(rows) > 0).all()
    assert 0 <= rows[0] <= rows[-1] < n


@pytest.mark.parametrize(("n", "m"), [(5, 0), (5, 6), (0, 0), (5, -1)])
def test_a_sample_of_none_or_too_many_rows_is_refused(n: int, m: int) -> None:
    with pytest.raises(ValueError, match="a sample must have between 1 and all"):
        secure_sample(n, m)


@pytest.mark.parametrize("m", [2, 3])  # fewer and more than half, whose complement is drawn
def test_every_set_of_rows_is_equally_likely(m: int) -> None:
    # 10,000 samples of 5: each of the 10 sets 1,000 times, standard error 30. By Chernoff's bound one of
    # them is 225 off once in 1e10 runs.
    seen = Counter(tuple(secure_sample(5, m).tolist()) for _ in range(10_000))
    assert set(seen) == set(itertools.combinations(range(5), m))
    assert max(abs(count - 1000) for count in seen.values()) < 225


@pytest.mark.quick("1300000")  # the complement of fewer is drawn for more, as above
@pytest.mark.parametrize("m", [1_300_000, 1_700_000])
def test_a_sample_of_millions_is_drawn_in_several_turns_and_spread_evenly(m: int) -> None:
    n = 3_000_000
    rows = secure_sample(n, m)
    assert rows.shape == (m,)
    assert (np.diff(rows) > 0).all()
    # Rows in a tenth: hypergeometric, standard deviation 258; one of ten is 7 of them off once in 4e10 runs.
    assert np.abs(np.histogram(rows, bins=10, range=(0, n))[0] - m / 10).max() < 7 * 260


def test_a_number_that_would_favour_the_first_rows_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2^64 numbers, one is left over for three rows."""
    numbers = np.array([2**64 - 1, 2**64 - 2, 4], dtype=np.uint64)
    monkeypatch.setattr(amplification.secrets, "token_bytes", lambda size: numbers.tobytes())
    assert amplification._secure_rows(3, 3).tolist() == [2, 1]
    assert amplification._secure_rows(4, 3).tolist() == [3, 2, 0]
