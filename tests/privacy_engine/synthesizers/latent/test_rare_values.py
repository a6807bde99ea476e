"""Groups of rare values: a partition, taken apart and put together again without loss of mass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.synthesizers.latent.rare_values import ValueGroups, coarse_groups
from privacy_engine.synthesizers.postprocess import project_to_simplex

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


@given(noisy_counts, st.floats(0.001, 0.9), st.data())
def test_values_on_a_scale_are_joined_with_their_neighbours(
    noisy: np.ndarray, least: float, data: st.DataObject
) -> None:
    shares = likely(noisy)
    on_scale = data.draw(st.integers(1, len(shares)))
    groups = ValueGroups.joining_neighbours(shares, least, on_scale)
    steps = np.diff(groups.group_of)
    assert groups.group_of[0] == 0
    assert set(steps.tolist()) <= {0, 1}
    assert (steps[on_scale - 1 :] == 1).all()  # what is not on the scale stands alone
    mass = np.bincount(groups.group_of[:on_scale], shares[:on_scale])
    assert (mass >= least).sum() >= len(mass) - (shares[:on_scale] >= least).sum() - 1
    assert np.bincount(groups.group_of, groups.shares) == pytest.approx(1)


@given(noisy_counts, st.integers(1, 12), st.data())
def test_coarse_groups_are_few_and_keep_a_scale_in_order(
    noisy: np.ndarray, most: int, data: st.DataObject
) -> None:
    shares = likely(noisy) + 1e-6
    on_scale = data.draw(st.integers(0, len(shares)))
    group_of = coarse_groups(shares, most, on_scale)
    assert set(group_of.tolist()) == set(range(group_of.max() + 1))
    assert group_of.max() < most
    if on_scale and most > len(shares) - on_scale:
        assert (np.diff(group_of) >= 0).all()
    else:
        largest = np.argsort(-shares, kind="stable")[: most - 1]
        assert len(set(group_of[largest].tolist())) == len(largest)
