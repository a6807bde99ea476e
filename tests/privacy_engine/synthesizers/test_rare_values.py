"""Groups of rare values: a partition, taken apart and put together again without loss of mass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.synthesizers.postprocess import project_to_simplex
from privacy_engine.synthesizers.rare_values import ValueGroups

noisy_counts = st.lists(st.integers(-50, 1000), min_size=1, max_size=30).map(
    lambda counts: np.array(counts, dtype=np.int64)
)


def likely(noisy: np.ndarray) -> np.ndarray:
    """Some probabilities, zeros among them."""
    return project_to_simplex(noisy, 1000)


@given(noisy_counts, st.floats(-60, 1100))
def test_groups_part_the_values(noisy: np.ndarray, least: float) -> None:
    groups = ValueGroups.joining_rare(noisy, likely(noisy), least)
    assert set(groups.group_of.tolist()) == set(range(groups.size))
    assert np.bincount(groups.group_of, groups.shares) == pytest.approx(np.ones(groups.size))
    assert (groups.shares > 0).all()


@given(noisy_counts, st.floats(-60, 1100))
def test_only_rare_values_share_a_group_and_the_largest_is_never_rare(
    noisy: np.ndarray, least: float
) -> None:
    groups = ValueGroups.joining_rare(noisy, likely(noisy), least)
    together = np.bincount(groups.group_of)[groups.group_of] > 1
    assert (noisy[together] <= least).all()
    assert not together[np.argmax(noisy)]


@given(noisy_counts, st.floats(-60, 1100), st.integers(1, 4))
def test_sums_and_spreading_keep_the_mass(noisy: np.ndarray, least: float, other: int) -> None:
    groups = ValueGroups.joining_rare(noisy, likely(noisy), least)
    counts = np.arange(len(noisy) * other).reshape(other, -1)
    summed = groups.sums(counts, axis=1)
    assert summed.dtype == np.int64
    assert summed.shape == (other, groups.size)
    assert np.array_equal(summed.sum(axis=1), counts.sum(axis=1))
    assert groups.spread(summed.astype(float)).sum(axis=1) == pytest.approx(counts.sum(axis=1))


def test_single_values_stay_as_they_are() -> None:
    counts = np.array([3, 0, 7])
    groups = ValueGroups.single(3)
    assert np.array_equal(groups.sums(counts), counts)
    assert np.array_equal(groups.spread(counts.astype(float)), counts)
