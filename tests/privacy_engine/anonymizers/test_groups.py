"""Groups of records by the cluster of their sensitive value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.groups import Group, label_groups, sensitive_groups

UTILITY = np.array([[0.0], [0.1], [0.5], [0.9], [1.0]])  # five values on a line
codes_of_records = st.lists(st.integers(0, 4), min_size=1, max_size=8).map(
    lambda c: np.array(c, dtype=np.int32)
)


EACH_ALONE = np.arange(5)


@given(codes_of_records, st.data())
def test_groups_partition_the_records_by_whole_values(codes: np.ndarray, data: st.DataObject) -> None:
    least = data.draw(st.integers(1, len(codes)))
    names = np.array(data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5)))
    groups = sensitive_groups(codes, UTILITY, names, least)
    assert sorted(np.concatenate([g.rows for g in groups]).tolist()) == list(range(len(codes)))
    assert sorted(np.concatenate([g.values for g in groups]).tolist()) == sorted(set(codes.tolist()))
    for group in groups:
        assert set(codes[group.rows].tolist()) == set(group.values.tolist())
        assert len(group.rows) >= least
        assert (np.diff(group.rows) > 0).all()


def test_clusters_that_are_large_enough_stay_as_they_are() -> None:
    groups = sensitive_groups(
        np.array([0, 1, 1, 4, 3], dtype=np.int32), UTILITY, np.array([0, 0, -1, 1, 1]), 2
    )
    assert [(g.values.tolist(), g.rows.tolist()) for g in groups] == [([0, 1], [0, 1, 2]), ([3, 4], [3, 4])]


def test_a_group_that_is_too_small_joins_the_one_that_is_most_alike() -> None:
    codes = np.array([1, 1, 2, 3, 3], dtype=np.int32)  # one record at .5: .4 from either side, .1 first
    groups = sensitive_groups(np.array([*codes, 4, 4], dtype=np.int32), UTILITY, EACH_ALONE, 2)
    assert [g.values.tolist() for g in groups] in ([[1, 2], [3], [4]], [[1], [2, 3], [4]])
    groups = sensitive_groups(np.array([1, 1, 3, 4, 4], dtype=np.int32), UTILITY, EACH_ALONE, 2)
    assert [g.values.tolist() for g in groups] == [[1], [3, 4]]


def test_the_given_clusters_are_not_changed() -> None:
    clusters = EACH_ALONE.copy()
    sensitive_groups(np.array([1, 1, 3, 4, 4], dtype=np.int32), UTILITY, clusters, 2)
    assert clusters.tolist() == EACH_ALONE.tolist()


def test_too_few_records_end_in_one_group() -> None:
    (group,) = sensitive_groups(np.array([0, 2, 4], dtype=np.int32), UTILITY, EACH_ALONE, 3)
    assert group.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize("parts", [[[0, 2], [1, 3, 4]], [[0], [1], [2, 3, 4]]])
def test_no_class_spans_two_groups(parts: list[list[int]]) -> None:
    groups = [Group(values=np.array([i]), rows=np.array(rows)) for i, rows in enumerate(parts)]
    labels = label_groups(groups, lambda group: np.arange(len(group.rows), dtype=np.int64) % 2)
    for group in groups:
        others = np.setdiff1d(np.arange(5), group.rows)
        assert not set(labels[group.rows].tolist()) & set(labels[others].tolist())
    assert set(labels.tolist()) == set(range(labels.max() + 1))
