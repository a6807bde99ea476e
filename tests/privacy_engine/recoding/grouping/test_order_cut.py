"""Cuts of an order: exact against brute force, peaks by hand, and the promises about sizes."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import InfeasibleError
from privacy_engine.recoding.grouping.order_cut import (
    cut_at_least_loss,
    cut_at_peaks,
    cut_to_size,
    entropies,
    lexicographic_order,
)
from tests.privacy_engine.recoding.grouping.conftest import geometry_of, table_loss

GEOMETRY = geometry_of([0.0, 0.13, 0.29, 0.58, 1.0], {0: 4, 1: 4, 2: 5, 3: 5, 4: 6, 5: 6})
RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=8)


def all_cuts(n: int, k: int) -> Iterator[list[int]]:
    """Every way to write n as sizes of at least k."""
    if n == 0:
        yield []
    for size in range(k, n + 1):
        for rest in all_cuts(n - size, k):
            yield [size, *rest]


@given(records=RECORDS, k=st.integers(1, 4))
def test_no_cut_into_runs_of_k_or_more_loses_less(records: list[tuple[int, int]], k: int) -> None:
    codes = np.array(records, np.int32)
    if len(codes) < k:
        return
    labels = cut_at_least_loss(codes, GEOMETRY, k)
    best = min(
        table_loss(codes, np.repeat(np.arange(len(sizes)), sizes), GEOMETRY)
        for sizes in all_cuts(len(codes), k)
    )
    assert table_loss(codes, labels, GEOMETRY) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(("n", "k"), [(2, 2), (7, 2), (100, 7), (999, 10), (1000, 10), (53, 27)])
def test_runs_have_k_to_2k_minus_1_records_and_follow_each_other(n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    codes = np.stack([rng.integers(0, 5, n), rng.integers(0, 4, n)], axis=1).astype(np.int32)
    for labels in (cut_at_least_loss(codes, GEOMETRY, k), cut_at_peaks(rng.random(n), k), cut_to_size(n, k)):
        sizes = np.bincount(labels)
        assert (np.diff(labels) >= 0).all()
        assert sizes.min() >= k
        assert sizes.max() <= 2 * k - 1


def test_the_exact_cut_of_a_hand_worked_order() -> None:
    # positions 0 0 .13 | 1 1: three and two records; any other cut puts 1 beside a lower position
    codes = np.array([[0, 0], [0, 0], [1, 0], [4, 0], [4, 0]], np.int32)
    assert cut_at_least_loss(codes, GEOMETRY, 2).tolist() == [0, 0, 0, 1, 1]


def test_peaks_are_cut_the_highest_first_where_both_sides_keep_k() -> None:
    # 9 at place 1 would leave one record; 5 at place 4 is the highest allowed, then nothing is long enough
    reach = np.array([np.inf, 9.0, 1.0, 1.0, 5.0, 2.0, 3.0])
    assert cut_at_peaks(reach, 2).tolist() == [0, 0, 1, 1, 2, 2, 2]  # the first four are cut in two again
    assert cut_at_peaks(reach, 3).tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_what_is_left_over_joins_the_last_run() -> None:
    assert cut_to_size(7, 3).tolist() == [0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "cut",
    [
        lambda: cut_at_least_loss(np.zeros((2, 2), np.int32), GEOMETRY, 3),
        lambda: cut_at_peaks(np.zeros(2), 3),
        lambda: cut_to_size(2, 3),
    ],
    ids=["least loss", "peaks", "size"],
)
def test_fewer_records_than_k_are_infeasible(cut: object) -> None:
    with pytest.raises(InfeasibleError, match="2 rows cannot be 3-anonymous"):
        cut()


def test_entropy_of_a_constant_is_0_and_of_m_equal_shares_log_m() -> None:
    codes = np.array([[3, 0], [3, 1], [3, 2], [3, 3]], np.int32)
    assert entropies(codes) == pytest.approx([0.0, np.log(4)])


def test_the_least_diverse_attribute_is_sorted_by_first() -> None:
    codes = np.array([[0, 1], [1, 0], [2, 1], [3, 0]], np.int32)
    assert lexicographic_order(codes, np.ones(2)).tolist() == [1, 3, 0, 2]


def test_a_large_weight_makes_an_attribute_come_first_and_weight_0_last() -> None:
    codes = np.array([[0, 1], [1, 0], [2, 1], [3, 0]], np.int32)
    assert lexicographic_order(codes, np.array([4.0, 1.0])).tolist() == [0, 1, 2, 3]
    assert lexicographic_order(codes, np.array([1.0, 0.0])).tolist() == [0, 1, 2, 3]
