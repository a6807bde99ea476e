"""The current table from noisy rows: exact without noise, of least variance, nearer where little moves."""

import math

import numpy as np
import pytest

from privacy_engine.synthesizers.repeated.estimates import estimate, likely_drift


@pytest.mark.parametrize("weeks", range(1, 14))
def test_without_noise_the_current_table_comes_out(weeks: int) -> None:
    mixed = np.vstack([np.eye(weeks), np.random.default_rng(weeks).normal(size=(3, weeks))])
    for rows in (np.eye(weeks), mixed):
        found = estimate(rows, np.ones(len(rows)))
        assert np.allclose(found.weights @ rows, np.eye(weeks)[-1], atol=1e-9)
        assert math.isclose(found.variance, float((found.weights**2).sum()), rel_tol=1e-9)


def test_a_week_that_no_row_tells_of_is_noticed() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        estimate(np.eye(4)[:3], np.ones(3))


def test_two_weeks_by_hand() -> None:
    # x2 = x1 + step of variance 1, both seen with a variance of 1: Kalman's gain is 2 / 3, its variance too.
    found = estimate(np.eye(2), np.ones(2), drift=1.0)
    assert np.allclose(found.weights, [1 / 3, 2 / 3])
    assert math.isclose(found.variance, 2 / 3)


def test_an_earlier_measurement_counts_by_its_variance() -> None:
    rows = np.vstack([np.eye(1, 1), np.eye(1)])
    found = estimate(rows, np.array([1.0, 3.0]))
    assert np.allclose(found.weights, [0.75, 0.25])
    assert math.isclose(found.variance, 0.75)


@pytest.mark.parametrize(("drift", "low", "high"), [(0.0, 0.0, 0.01), (100.0, 30.0, 317.0)])
def test_how_fast_a_table_moves_is_read_off_its_noise(drift: float, low: float, high: float) -> None:
    # 400 cells over 30 weeks: the likelihood tells factors of 3 apart by far; a fixed seed of the noise.
    rng = np.random.default_rng(5)
    walk = rng.normal(scale=math.sqrt(drift), size=(30, 400)).cumsum(axis=0) + 1000
    noisy = walk + rng.normal(size=walk.shape)
    assert low <= likely_drift(np.eye(30), np.ones(30), noisy) <= high


def test_of_one_week_nothing_is_known() -> None:
    assert likely_drift(np.eye(1), np.ones(1), np.ones((1, 4))) == math.inf
