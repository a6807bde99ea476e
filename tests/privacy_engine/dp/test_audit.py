"""Do the mechanisms spend what they say? Observed on many runs on two neighbouring inputs, worst case.

Each test reads one set of runs twice. As an audit: the loss that the runs show must not exceed epsilon; by
construction a false alarm is below 1e-10. As a positive control: the same runs, taken as those of a mechanism
that claims epsilon / 2 and so has half the noise it should have, must be caught. The inputs are such that the
true loss is epsilon; the numbers of runs leave the control more than 6 standard errors, so that it misses
less than once in 1e9.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.auditing import loss_shown, rho_shown
from privacy_engine.dp.amplification import inner_epsilon, secure_sample
from privacy_engine.dp.mechanisms import gaussian_counts, gumbel_max, laplace_counts, noisy_max


@pytest.mark.parametrize(
    ("epsilon", "runs"),
    [
        (2.0, 10_000),
        pytest.param(0.5, 40_000, marks=pytest.mark.slow),  # noise as large as that of most releases
    ],
)
def test_noisy_counts_show_no_more_than_epsilon_and_half_the_noise_is_caught(
    epsilon: float, runs: int
) -> None:
    def moved(table: list[int]) -> np.ndarray:
        # Copies of one contingency table of two cells, each with the noise for itself, in one call.
        noisy = laplace_counts(np.tile(np.array(table, dtype=np.int64), (runs, 1)), epsilon=epsilon)
        return (noisy[:, 0] >= 5) & (noisy[:, 1] <= 3)

    shown = loss_shown(moved([5, 3]), moved([4, 4]))  # one record replaced
    assert epsilon / 2 < shown <= epsilon


def test_gaussian_counts_show_no_more_than_rho_and_half_the_noise_is_caught() -> None:
    """Noise of half the standard deviation has four times the rho; one event shows about .75 of 2."""
    rho, runs = 2.0, 6_000

    def moved(table: list[int]) -> npt.NDArray[np.bool_]:
        noisy = gaussian_counts(np.tile(np.array(table, dtype=np.int64), (runs, 1)), rho=rho)
        return noisy[:, 0] > noisy[:, 1]

    shown = rho_shown(moved([5, 3]), moved([4, 4]))
    assert rho / 4 < shown <= rho


@pytest.mark.slow  # `test_mechanisms` compares the frequencies of both candidates
def test_a_choice_shows_no_more_than_epsilon_and_half_the_noise_is_caught() -> None:
    epsilon, runs = 2.0, 2500

    def second(scores: list[int]) -> np.ndarray:
        given = np.array(scores, dtype=np.int64)
        return np.array([noisy_max(given, epsilon=epsilon, sensitivity=3) == 1 for _ in range(runs)])

    shown = loss_shown(
        second([10, 10]), second([13, 7])
    )  # each score by its sensitivity, in opposite directions
    assert epsilon / 2 < shown <= epsilon


@pytest.mark.slow  # `test_zcdp` compares the frequencies of both
def test_a_choice_by_gumbel_noise_shows_no_more_than_rho_and_half_the_noise_is_caught() -> None:
    """As above, the control with 5.7 standard errors: it misses less than once in 1e8."""
    rho, runs = 1.0, 2000

    def second(scores: list[int]) -> npt.NDArray[np.bool_]:
        given = np.array(scores, dtype=np.int64)
        return np.array([gumbel_max(given, rho=rho, sensitivity=3) == 1 for _ in range(runs)])

    assert rho / 4 < rho_shown(second([10, 10]), second([13, 7])) <= rho


def test_a_choice_on_a_secret_sample_shows_no_more_than_epsilon() -> None:
    """And the same choice on all records, which the sample was to protect, is caught."""
    epsilon, runs, n, m = 1.0, 1800, 20, 5
    inner = inner_epsilon(epsilon, Fraction(m, n))

    def second(table: np.ndarray, rows: int) -> np.ndarray:
        chosen = []
        for _ in range(runs):
            ones = int(table[secure_sample(n, rows)].sum())
            scores = np.array([1 - ones, ones - 1], dtype=np.int64)
            chosen.append(noisy_max(scores, epsilon=inner, sensitivity=1))
        return np.array(chosen) == 1

    zeros, one = np.zeros(n, dtype=np.int64), np.eye(n, dtype=np.int64)[7]
    rare = second(zeros, m)
    assert loss_shown(second(one, m), rare) <= epsilon
    assert loss_shown(second(one, n), rare) > epsilon
