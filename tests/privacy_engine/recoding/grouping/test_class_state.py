"""The partition that refinement changes: prices that are the true losses, and trials that leave no trace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.recoding.grouping.boxes import Space, tabulate
from privacy_engine.recoding.grouping.class_state import (
    ClassState,
    exit_gain,
    largest_gain,
    may_swap,
    move,
    open_state,
    people_without,
    records_of_persons,
    single_records,
    total_loss,
)
from privacy_engine.recoding.grouping.constraints import Rule, RuleKind, pack_rules
from tests.privacy_engine.recoding.grouping.conftest import geometry_of, table_loss

GEOMETRY = geometry_of([0.0, 0.1, 0.3, 0.6, 1.0], {0: 4, 1: 4, 2: 5, 3: 5, 4: 6, 5: 6}, weight=0.5)
ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=3, max_size=20)


def opened(codes: np.ndarray, labels: np.ndarray, room: int = 4) -> tuple[Space, ClassState]:
    space = tabulate(GEOMETRY)
    return space, open_state(
        space, single_records(codes, np.zeros((0, len(codes)), np.int32)), 0, labels, room
    )


def moved(space: Space, state: ClassState, r: int, target: int) -> float:
    q = state.codes.shape[1]
    return move(space, state, r, target, np.empty(q, np.int32), np.empty(q, np.int32))


def without(labels: np.ndarray, r: int) -> np.ndarray:
    return np.where(np.arange(len(labels)) == r, -1, labels)


@given(rows=ROWS, seed=st.integers(0, 9))
def test_exit_gain_is_what_the_table_loses_less_without_the_record(
    rows: list[tuple[int, int]], seed: int
) -> None:
    codes = np.array(rows, np.int32)
    labels = np.random.default_rng(seed).integers(0, 3, len(codes))
    space, state = opened(codes, labels)
    loss = table_loss(codes, labels, GEOMETRY)
    fall = [loss - table_loss(codes, without(labels, r), GEOMETRY) for r in range(len(codes))]
    assert [exit_gain(space, state, r) for r in range(len(codes))] == pytest.approx(fall)
    for c in set(labels):
        expected = max(fall[r] for r in np.flatnonzero(labels == c))
        assert largest_gain(space, state, c) == pytest.approx(expected)


@given(rows=ROWS, seed=st.integers(0, 9))
def test_prices_and_losses_stay_true_through_a_chain_of_moves(rows: list[tuple[int, int]], seed: int) -> None:
    codes, rng = np.array(rows, np.int32), np.random.default_rng(seed)
    labels = rng.integers(0, 3, len(codes))
    space, state = opened(codes, labels)
    for _ in range(12):
        r = int(rng.integers(len(codes)))
        target = int((labels[r] + rng.integers(1, 4)) % 4)  # class 3 is empty at first
        before = table_loss(codes, labels, GEOMETRY)
        gain = exit_gain(space, state, r)  # priced before the move: the move must let it go stale
        assert gain == pytest.approx(before - table_loss(codes, without(labels, r), GEOMETRY))
        labels[r] = target
        after = table_loss(codes, labels, GEOMETRY)
        assert moved(space, state, r, target) == pytest.approx(after - before, abs=1e-9)
        assert total_loss(state.boxes) == pytest.approx(after, abs=1e-9)
        np.testing.assert_array_equal(state.labels, labels)


def test_asking_whether_a_swap_is_allowed_changes_no_count() -> None:
    codes, sensitive = np.zeros((4, 2), np.int32), np.array([[0, 0, 1, 2]], np.int32)
    rules = pack_rules([Rule(kind=RuleKind.DISTINCT, limit=2)], [np.array([2, 1, 1])], [None])
    records = single_records(codes, sensitive)
    state = open_state(tabulate(GEOMETRY), records, 3, np.array([0, 0, 0, 1]), 2)
    assert not may_swap(state, 0, 2, -1, rules)  # 0, 0
    assert may_swap(state, 0, 2, 3, rules)  # 0, 0, 2
    assert may_swap(state, 0, 0, -1, rules)  # 0, 1
    np.testing.assert_array_equal(state.counts, [[2, 1, 0], [0, 0, 1]])


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=20
    ),
    seed=st.integers(0, 9),
)
def test_joined_records_keep_loss_persons_and_counts_through_moves(
    rows: list[tuple[int, int, int]], seed: int
) -> None:
    codes, persons = np.array(rows, np.int32)[:, :2].copy(), np.array(rows)[:, 2]
    rng, secret = np.random.default_rng(seed), np.arange(len(rows), dtype=np.int32)[None] % 3
    labels = rng.integers(0, 3, len(rows))
    tuple_of = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    records, joined = records_of_persons(codes, secret, labels, tuple_of, persons)
    own = np.array([labels[joined == r][0] for r in range(len(records.codes))])
    space = tabulate(GEOMETRY)
    state = open_state(space, records, 3, own, 4)
    for _ in range(12):
        r = int(rng.integers(len(own)))
        target = int((own[r] + rng.integers(1, 4)) % 4)
        before = table_loss(codes, own[joined], GEOMETRY)
        gain = before - table_loss(codes, np.where(joined == r, -1, own[joined]), GEOMETRY)
        assert exit_gain(space, state, r) == pytest.approx(gain)
        assert largest_gain(space, state, own[r]) >= gain - 1e-9
        left = set(persons[(own[joined] == own[r]) & (joined != r)])
        assert people_without(state, r) == len(left)
        own[r] = target
        after = table_loss(codes, own[joined], GEOMETRY)
        assert moved(space, state, r, target) == pytest.approx(after - before, abs=1e-9)
        for c in range(4):
            inside = own[joined] == c
            assert state.people[c] == len(set(persons[inside]))
            assert state.boxes.size[c] == inside.sum()
            assert state.counts[c].tolist() == np.bincount(secret[0, inside], minlength=3).tolist()
