"""Scores by hand, and their sensitivities against every pair of neighbouring small tables."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.synthesizers.bayes.scores import (
    BITS,
    dependence,
    dependence_sensitivity,
    integer_mutual_information,
    integer_sensitivity,
    mutual_information,
    mutual_information_sensitivity,
    once,
    rounding_error,
    two_valued,
)
from privacy_engine.synthesizers.bayes.structure import Candidates
from privacy_engine.tables.marginals import WeightedRecords

Score = Callable[[WeightedRecords, Candidates], np.ndarray]


def pairs(*families: tuple[int, tuple[int, ...]]) -> Candidates:
    """Candidates (child, parents)."""
    width = max((len(parents) for _, parents in families), default=0)
    return Candidates(
        ids=np.arange(len(families)),
        children=np.array([child for child, _ in families], dtype=np.int64),
        parents=np.array(
            [parents + (-1,) * (width - len(parents)) for _, parents in families], dtype=np.int64
        ).reshape(len(families), width),
    )


CHILD_0_OF_1 = pairs((0, (1,)))


def records_of(joint: np.ndarray) -> WeightedRecords:
    """Records with these joint counts, one attribute an axis."""
    cells = np.argwhere(joint > 0)
    return WeightedRecords(
        codes=np.ascontiguousarray(cells.T.astype(np.uint8)),
        weights=joint[joint > 0].astype(np.int64),
        sizes=np.array(joint.shape, dtype=np.int64),
    )


def score_of(score: Score, joint: np.ndarray) -> float:
    return score(records_of(joint), CHILD_0_OF_1)[0]


def test_equal_attributes_share_all_their_entropy() -> None:
    assert score_of(mutual_information, np.array([[2, 0], [0, 2]])) == 1.0
    assert score_of(mutual_information, np.diag([3, 3, 3, 3])) == pytest.approx(2.0, abs=1e-12)


def test_independent_attributes_share_nothing() -> None:
    assert score_of(mutual_information, np.array([[2, 4], [3, 6]])) == pytest.approx(0, abs=1e-12)
    assert score_of(dependence, np.array([[2, 4], [3, 6]])) == 0


def test_mutual_information_of_a_table_worked_by_hand() -> None:
    """Pr = (1/2, 0; 1/4, 1/4): I = 1/2 log2(4/3) + 1/4 log2(2/3) + 1/4 log2 2 = .3113 bits."""
    expected = 0.5 * math.log2(4 / 3) + 0.25 * math.log2(2 / 3) + 0.25
    assert score_of(mutual_information, np.array([[2, 0], [1, 1]])) == pytest.approx(expected, abs=1e-12)


def test_dependence_of_a_table_worked_by_hand() -> None:
    """n = 4: |4*2 - 2*3| + |0 - 2*1| + |4*1 - 2*3| + |4*1 - 2*1| = 8."""
    assert score_of(dependence, np.array([[2, 0], [1, 1]])) == 8


def test_dependence_is_r_times_two_n_squared() -> None:
    """R is half the L1 distance from independence; for equal binary attributes 1/2, so 2 * 16 * 1/2."""
    assert score_of(dependence, np.array([[2, 0], [0, 2]])) == 16


@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
def test_scores_of_many_families_are_those_of_their_tables(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (2, 3, 4, 2)
    codes = np.stack([rng.integers(0, size, n) for size in sizes])
    joint = np.zeros(sizes, dtype=np.int64)
    np.add.at(joint, tuple(codes), 1)
    families = [(3, ()), (0, (1,)), (2, (1,)), (0, (1, 2)), (3, (0, 1, 2)), (1, (0, 3))]
    information = mutual_information(records_of(joint), pairs(*families))
    gaps = dependence(records_of(joint), pairs(*families))
    for i, (child, parents) in enumerate(families):
        rest = tuple(a for a in range(4) if a != child and a not in parents)
        table = np.moveaxis(joint.sum(axis=rest, keepdims=True), child, -1)
        table = table.reshape(-1, sizes[child])
        product = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
        some = table > 0
        plain = float((table[some] / n * np.log2(table[some] * n / product[some])).sum())
        assert information[i] == pytest.approx(plain, abs=1e-9)
        assert gaps[i] == int(np.abs(n * table - product).sum())


def tables(shape: tuple[int, int], n: int) -> Iterator[np.ndarray]:
    """All contingency tables of n records."""
    cells = math.prod(shape)
    for bars in itertools.combinations(range(n + cells - 1), cells - 1):
        counts = np.diff([-1, *bars, n + cells - 1]) - 1
        yield counts.reshape(shape)


def largest_change(score: Score, shape: tuple[int, int], n: int) -> float:
    """Over all tables of n records and all ways to replace one of them, through the compiled code."""
    known = {tuple(t.ravel().tolist()): score_of(score, t) for t in tables(shape, n)}
    changes = []
    for cells, value in known.items():
        for a, b in itertools.permutations(range(len(cells)), 2):
            if cells[a]:
                other = list(cells)
                other[a] -= 1
                other[b] += 1
                changes.append(abs(known[tuple(other)] - value))
    return max(changes)


@pytest.mark.parametrize(
    ("shape", "n"), [((2, 2), n) for n in range(2, 9)] + [((2, 3), 5), ((3, 2), 5), ((2, 4), 4)], ids=str
)
def test_the_binary_sensitivity_is_exact_where_one_side_has_two_values(
    shape: tuple[int, int], n: int
) -> None:
    """It is reached, too: n - 1 equal records and one that differs in both attributes."""
    bound = mutual_information_sensitivity(n, binary=True)
    assert largest_change(mutual_information, shape, n) == pytest.approx(bound, abs=1e-12)


@pytest.mark.parametrize(("shape", "n"), [((3, 3), n) for n in range(2, 6)] + [((3, 4), 3)], ids=str)
def test_the_general_sensitivity_is_never_exceeded(shape: tuple[int, int], n: int) -> None:
    bound = mutual_information_sensitivity(n, binary=False)
    assert largest_change(mutual_information, shape, n) <= bound + 1e-12


def test_the_binary_sensitivity_fails_for_three_by_three() -> None:
    bound = mutual_information_sensitivity(5, binary=True)
    assert largest_change(mutual_information, (3, 3), 5) > bound + 0.1


@pytest.mark.parametrize(("shape", "n"), [((2, 2), 9), ((2, 3), 6), ((3, 3), 5)], ids=str)
def test_the_integers_that_are_selected_from_keep_their_sensitivity(shape: tuple[int, int], n: int) -> None:
    bound = integer_sensitivity(n, math.prod(shape), binary=two_valued(shape) or 2 in shape)
    assert largest_change(integer_mutual_information, shape, n) <= bound


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 3)], ids=str)
@pytest.mark.parametrize("n", [2, 4])
def test_dependence_keeps_its_sensitivity(shape: tuple[int, int], n: int) -> None:
    assert largest_change(dependence, shape, n) <= dependence_sensitivity(n)


def test_dependence_comes_close_to_its_sensitivity_in_large_tables() -> None:
    """n = s^2; one row and one column of s records each, apart from one large cell, and one record in both.

    When that record moves to a separate row and column, it takes n - 1 from independence, and the row and
    the column, which were nearly independent of the rest, s (s + 1) each.
    """
    s = 100
    before = np.zeros((3, 3), dtype=np.int64)
    before[0, 0], before[0, 1], before[1, 0], before[1, 1] = s * s - 2 * s - 1, s, s, 1
    after = before.copy()
    after[1, 1], after[2, 2] = 0, 1
    n = s * s
    change = score_of(dependence, after) - score_of(dependence, before)
    assert 5.9 * n < change <= dependence_sensitivity(n)


def test_integers_hold_forty_bits_of_mutual_information() -> None:
    assert score_of(integer_mutual_information, np.array([[2, 0], [0, 2]])) == 2**BITS


@given(st.integers(0, 2**32 - 1))
def test_the_rounding_error_stays_below_its_bound(seed: int) -> None:
    """Against sums without rounding (math.fsum), on a table of many cells and large counts."""
    rng = np.random.default_rng(seed)
    joint = rng.integers(0, 10 ** rng.integers(1, 6), (16, 16))
    joint[0, 0] += 1
    n = int(joint.sum())

    def entropy(counts: np.ndarray) -> float:
        return math.fsum(int(c) * math.log2(int(c)) for c in counts.ravel() if c)

    parts = (entropy(joint), -entropy(joint.sum(axis=0)), -entropy(joint.sum(axis=1)), n * math.log2(n))
    exact = math.fsum(parts) / n
    assert abs(score_of(mutual_information, joint) - exact) <= rounding_error(n, joint.size)


def test_the_rounding_error_is_nothing_beside_the_sensitivity() -> None:
    n = 10_000_000
    assert rounding_error(n, 2**18) < 0.02 * mutual_information_sensitivity(n, binary=True)


def test_a_candidate_is_scored_once_and_remembered_by_its_number() -> None:
    requested: list[list[int]] = []

    def score(candidates: Candidates) -> np.ndarray:
        requested.append(candidates.ids.tolist())
        return candidates.children * 10

    remembered = once(score)
    every = pairs((1, (0,)), (2, (0,)), (3, (0,)), (4, (0,)))
    assert remembered(every.take(np.array([True, True, True, False]))).tolist() == [10, 20, 30]
    assert remembered(every.take(np.array([True, False, True, True]))).tolist() == [10, 30, 40]
    assert remembered(every.take(np.array([False, True, False, False]))).tolist() == [20]
    assert [ids for ids in requested if ids] == [[0, 1, 2], [3]]


def test_no_candidates_have_no_scores() -> None:
    joint = records_of(np.array([[1, 1], [1, 1]]))
    assert len(mutual_information(joint, pairs())) == len(dependence(joint, pairs())) == 0
