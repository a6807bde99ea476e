"""The likely distribution behind noisy counts: what it keeps, what it shares out, and that it is a mode."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.synthesizers.postprocess import likely_values, project_to_simplex

noisy_counts = st.lists(st.integers(-500, 5000), min_size=1, max_size=30).map(
    lambda counts: np.array(counts, dtype=np.int64)
)


@given(noisy_counts, st.integers(1, 10_000), st.floats(1e-6, 1e6), st.booleans())
def test_it_is_a_distribution_of_positive_probabilities(
    noisy: np.ndarray, total: int, scale: float, ordered: bool
) -> None:
    likely = likely_values(noisy, total, scale=scale, on_scale=len(noisy) if ordered else 0)
    assert likely.shape == noisy.shape
    assert likely.sum() == pytest.approx(1)
    assert (likely > 0).all()


@pytest.mark.parametrize("on_scale", [0, 4, 5])
def test_without_noise_the_counts_come_out(on_scale: int) -> None:
    counts = np.array([700, 0, 250, 49, 1])
    likely = likely_values(counts, 1000, scale=1e-3, on_scale=on_scale)
    assert likely == pytest.approx(counts / 1000, abs=1e-4)


def test_noise_that_drowns_everything_leaves_equal_probabilities() -> None:
    likely = likely_values(np.array([-300, 900, 50]), 100, scale=1e6, on_scale=3)
    assert likely == pytest.approx(np.full(3, 1 / 3), abs=1e-3)


def test_only_neighbours_on_the_scale_share_what_noise_gave_to_one_of_them() -> None:
    """The fourth value beside a spike, and null behind it, which is on no scale."""
    noisy = np.array([0, 0, 0, 2000, 0])
    likely = likely_values(noisy, 2000, scale=400, on_scale=4)
    assert likely[2] > likely[1] > likely[0]
    assert likely[2] > 1.5 * likely[4]
    alone = likely_values(noisy, 2000, scale=400, on_scale=0)
    assert alone[[0, 1, 2]] == pytest.approx(alone[4], rel=1e-2)


def distances(truth: np.ndarray, on_scale: int, scale: float) -> tuple[float, float]:
    """Mean total variation distance of the estimate and of the projection, over 50 noisy tables."""
    rng = np.random.default_rng(7)
    n = truth.sum()
    found = []
    for _ in range(50):
        noisy = np.rint(truth + rng.laplace(0, scale, len(truth))).astype(np.int64)
        ours = likely_values(noisy, n, scale=scale, on_scale=on_scale)
        found.append([np.abs(p - truth / n).sum() / 2 for p in (ours, project_to_simplex(noisy, n))])
    ours, nearest = np.mean(found, axis=0)
    return float(ours), float(nearest)


def test_many_rare_values_come_nearer_than_by_projection() -> None:
    """One value of nine tenths and forty of the rest: noise from a seed, so the test is no game of chance."""
    ours, nearest = distances(np.array([9000] + [25] * 40), 0, 80.0)
    assert ours < 0.7 * nearest


def test_a_smooth_scale_with_a_spike_comes_nearer_than_by_projection() -> None:
    steps = np.round(1000 * np.exp(-((np.arange(16) - 6) ** 2) / 18)).astype(np.int64)
    steps[8] += 4000
    ours, nearest = distances(steps, 16, 150.0)
    assert ours < 0.9 * nearest
