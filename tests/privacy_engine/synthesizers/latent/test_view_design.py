"""Sets of attributes to measure: small enough, as large as they fit, none left out."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.synthesizers.latent.view_design import Coverage, Members, candidate_views, partition


def cells_of(sizes: list[int], members: Members) -> int:
    return math.prod(sizes[member] for member in members)


sizes_lists = st.lists(st.integers(1, 20), min_size=1, max_size=8)


@given(sizes_lists, st.floats(1, 500), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_candidates_fit_and_no_attribute_is_left_out(
    sizes: list[int], cells: float, width: int, seed: int
) -> None:
    found = candidate_views(sizes, cells=cells, width=width, rng=np.random.default_rng(seed))
    assert set(itertools.chain.from_iterable(found)) == set(range(len(sizes)))
    assert len(set(found)) == len(found)
    for members in found:
        assert list(members) == sorted(set(members))
        assert len(members) <= width
        assert len(members) == 1 or cells_of(sizes, members) <= cells


@given(sizes_lists, st.floats(1, 500), st.integers(3, 5))
def test_a_set_of_three_or_more_cannot_be_enlarged(sizes: list[int], cells: float, width: int) -> None:
    for members in candidate_views(sizes, cells=cells, width=width, rng=np.random.default_rng(0)):
        if 2 < len(members) < width:
            rest = [sizes[a] for a in range(len(sizes)) if a not in members]
            assert not rest or cells_of(sizes, members) * min(rest) > cells


def test_the_same_draws_give_the_same_candidates() -> None:
    first, second = (
        candidate_views([2] * 9, cells=32, width=5, rng=np.random.default_rng(4)) for _ in range(2)
    )
    assert first == second


def test_a_set_that_brings_few_new_pairs_waits() -> None:
    seen = Coverage()
    seen.add((0, 1, 2))
    candidates = [(0, 1, 2), (0, 3), (3, 4, 5), (0, 1, 4)]
    assert seen.freshest(candidates, left=9) == [(3, 4, 5), (0, 1, 4)]


def test_where_all_pairs_are_known_every_set_may_be_measured_again() -> None:
    seen = Coverage()
    seen.add((0, 1, 2))
    assert seen.freshest([(0, 1), (1, 2)], left=9) == [(0, 1), (1, 2)]


def test_the_last_set_brings_what_was_never_seen() -> None:
    seen = Coverage()
    seen.add((0, 1, 2, 3, 4))
    seen.add((5,))
    candidates = [(0, 5), (1, 6), (1, 2, 3, 5)]
    assert seen.freshest([(0, 5), (1, 2, 3, 5)], left=1) == [(1, 2, 3, 5)]
    assert seen.freshest(candidates, left=1) == [(1, 6)]


@pytest.mark.parametrize("d", [1, 2, 7])
def test_enough_sets_of_two_cover_every_attribute(d: int) -> None:
    candidates = candidate_views([2] * d, cells=4, width=2, rng=np.random.default_rng(0))
    seen, rounds = Coverage(), math.ceil(3 * d / 4)
    for left in range(rounds, 0, -1):
        seen.add(seen.freshest(candidates, left)[-1])
    assert seen.attributes == set(range(d))


@given(sizes_lists, st.floats(1, 500), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_a_partition_holds_each_attribute_once(sizes: list[int], cells: float, width: int, seed: int) -> None:
    placed = range(1, len(sizes))
    found = partition(sizes, placed, cells=cells, width=width, rng=np.random.default_rng(seed))
    assert sorted(itertools.chain.from_iterable(found)) == list(placed)
    for members in found:
        assert len(members) <= width
        assert len(members) == 1 or cells_of(sizes, members) <= cells * (1 + 1e-9)


def test_a_partition_places_together_what_fits() -> None:
    found = partition([2] * 12, range(12), cells=64, width=6, rng=np.random.default_rng(1))
    assert [len(members) for members in found] == [6, 6]


def test_the_missing_sets_are_as_many_as_bring_all_pairs() -> None:
    seen = Coverage()
    assert seen.missing([(0, 1), (0, 2), (1, 2), (0, 1, 2)]) == 1
    assert seen.missing([(0, 1), (0, 2), (1, 2)]) == 3
    seen.add((0, 1, 2))
    assert seen.missing([(0, 1), (0, 2), (0, 3)]) == 1
    assert seen.pairs == {(0, 1), (0, 2), (1, 2)}  # counting is no measuring


@given(st.integers(2, 9), st.integers(2, 5))
def test_missing_sets_of_all_are_enough_and_no_more_than_pairs(d: int, width: int) -> None:
    candidates = candidate_views([2] * d, cells=2**width, width=width, rng=np.random.default_rng(0))
    pairs = d * (d - 1) // 2
    most = min(width, d)
    assert pairs / (most * (most - 1) // 2) <= Coverage().missing(candidates) <= pairs


def test_pairs_count_by_what_their_narrower_attribute_can_tell() -> None:
    """One pair of wide attributes is worth as much as several of narrow ones."""
    seen = Coverage(sizes=[50, 50, 2, 2, 2])
    assert (0, 1) in seen.freshest([(0, 1), (2, 3, 4)], left=9)
    assert (0, 1) not in Coverage().freshest([(0, 1), (2, 3, 4)], left=9)
