"""Refinement: never a higher loss, never a broken rule, and losses that only its steps can reach."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.recoding.grouping.agglomeration import agglomerate, merge_at_random
from privacy_engine.recoding.grouping.boxes import tabulate
from privacy_engine.recoding.grouping.constraints import Rule, RuleKind, no_constraints, pack_rules
from privacy_engine.recoding.grouping.refinement import ROUNDS, look_up_serially, refine, refine_in
from privacy_engine.tables.geometry import Geometry
from tests.privacy_engine.recoding.grouping.conftest import geometry_of, table_loss

LINE = geometry_of([i / 10 for i in range(11)])


def unconstrained(
    codes: np.ndarray, labels: np.ndarray, geometry: Geometry, k: int, seed: int = 0
) -> np.ndarray:
    nothing = np.zeros((0, len(codes)), np.int32)
    return refine(codes, labels, geometry, k, np.random.default_rng(seed), nothing, no_constraints())


def refined_by_person(
    codes: np.ndarray, labels: np.ndarray, geometry: Geometry, k: int, persons: np.ndarray
) -> np.ndarray:
    nothing, rng, space = np.zeros((0, len(codes)), np.int32), np.random.default_rng(0), tabulate(geometry)
    return refine_in(
        space, codes, labels, k, rng, nothing, no_constraints(), ROUNDS, look_up_serially, persons
    )


def line(*codes: int) -> np.ndarray:
    return np.array(codes, np.int32)[:, None]


def wide_codes(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, 40, n), rng.integers(0, 600, n)], axis=1).astype(np.int32)


def test_a_record_moves_to_its_cheaper_class() -> None:
    codes, labels = line(0, 1, 9, 8, 9), np.array([0, 0, 0, 1, 1])
    refined = unconstrained(codes, labels, LINE, 2)
    assert table_loss(codes, refined, LINE) == pytest.approx(2 * 0.1 + 3 * 0.1)


def test_records_of_classes_of_exactly_k_are_swapped() -> None:
    codes, labels = line(0, 9, 1, 10), np.array([0, 0, 1, 1])
    refined = unconstrained(codes, labels, LINE, 2)
    assert table_loss(codes, refined, LINE) == pytest.approx(4 * 0.1)


def test_a_class_is_founded_from_spare_records() -> None:
    # No single move pays: 0, 0, 5 and 5, 10, 10 can each spare one 5, and two make a class of their own.
    codes, labels = line(0, 0, 5, 5, 10, 10), np.array([0, 0, 0, 1, 1, 1])
    refined = unconstrained(codes, labels, LINE, 2)
    assert table_loss(codes, refined, LINE) == 0.0


def test_a_class_is_dissolved_where_its_records_cost_less_elsewhere() -> None:
    codes, labels = line(0, 0, 0, 10, 10, 10, 0, 10), np.array([0, 0, 0, 1, 1, 1, 2, 2])
    refined = unconstrained(codes, labels, LINE, 2)
    assert table_loss(codes, refined, LINE) == 0.0


@given(
    positions=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=4, max_size=40),
    k=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_loss_never_rises_and_k_is_kept(positions: list[tuple[int, int]], k: int, seed: int) -> None:
    geometry = geometry_of([0.0, 0.1, 0.3, 0.6, 1.0], {0: 4, 1: 4, 2: 5, 3: 5, 4: 6, 5: 6}, weight=0.5)
    codes = np.array(positions, np.int32)
    labels = merge_at_random(len(codes), k, np.random.default_rng(seed))
    refined = unconstrained(codes, labels, geometry, k, seed)
    assert table_loss(codes, refined, geometry) <= table_loss(codes, labels, geometry) + 1e-9
    sizes = np.bincount(refined)
    assert sizes.min() >= k
    assert sizes.sum() == len(codes)


@pytest.mark.parametrize("kind", [RuleKind.DISTINCT, RuleKind.ENTROPY])
def test_classes_stay_diverse(kind: RuleKind, wide_geometry: Geometry) -> None:
    rng = np.random.default_rng(1)
    codes, sensitive = wide_codes(400, 2), rng.integers(0, 5, (1, 400)).astype(np.int32)
    labels = np.arange(400) // 8
    sensitive[0, ::8], sensitive[0, 1::8], sensitive[0, 2::8] = 0, 1, 2  # three values in every class
    limit = 3.0 if kind == RuleKind.DISTINCT else 1.7
    rules = pack_rules([Rule(kind=kind, limit=limit)], [np.bincount(sensitive[0], minlength=5)], [None])
    refined = refine(codes, labels, wide_geometry, 4, np.random.default_rng(0), sensitive, rules)
    assert table_loss(codes, refined, wide_geometry) < 0.9 * table_loss(codes, labels, wide_geometry)
    for c in range(refined.max() + 1):
        shares = np.bincount(sensitive[0, refined == c]) / (refined == c).sum()
        shares = shares[shares > 0]
        held = len(shares) if kind == RuleKind.DISTINCT else np.exp(-(shares * np.log(shares)).sum())
        assert held >= limit - 1e-9
    free = unconstrained(codes, labels, wide_geometry, 4)
    assert min(len(set(sensitive[0, free == c])) for c in range(free.max() + 1)) < 3  # the rule did bind


def test_suppressed_records_stay_suppressed(wide_geometry: Geometry) -> None:
    codes, labels = wide_codes(120, 3), np.arange(120) // 6 - 1
    refined = unconstrained(codes, labels, wide_geometry, 3)
    np.testing.assert_array_equal(refined == -1, labels == -1)
    assert np.bincount(refined[refined >= 0]).min() >= 3


def test_equal_seeds_give_equal_labels_and_inputs_stay(wide_geometry: Geometry) -> None:
    codes, labels = wide_codes(300, 4), np.arange(300) // 6
    before = labels.copy()
    np.testing.assert_array_equal(
        unconstrained(codes, labels, wide_geometry, 5), unconstrained(codes, labels, wide_geometry, 5)
    )
    np.testing.assert_array_equal(labels, before)


def test_permuted_rows_lose_as_much_within_five_percent(wide_geometry: Geometry) -> None:
    # The random order of the sweeps then meets other records; only the local optimum may differ.
    codes, order = wide_codes(1000, 5), np.random.default_rng(1).permutation(1000)
    losses = []
    for rows in (codes, codes[order]):
        labels = agglomerate(rows, wide_geometry, 5, np.random.default_rng(0))
        losses.append(table_loss(rows, unconstrained(rows, labels, wide_geometry, 5), wide_geometry))
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 6)), min_size=4, max_size=40
    ),
    k=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_loss_never_rises_and_k_persons_are_kept(rows: list[tuple[int, int, int]], k: int, seed: int) -> None:
    geometry = geometry_of([0.0, 0.1, 0.3, 0.6, 1.0], {0: 4, 1: 4, 2: 5, 3: 5, 4: 6, 5: 6}, weight=0.5)
    codes, persons = np.array(rows, np.int32)[:, :2].copy(), np.array(rows)[:, 2]
    k = min(k, len(set(persons)))
    own = np.unique(persons, return_inverse=True)[1]
    labels = merge_at_random(own.max() + 1, k, np.random.default_rng(seed))[own]
    refined = refined_by_person(codes, labels, geometry, k, persons)
    assert table_loss(codes, refined, geometry) <= table_loss(codes, labels, geometry) + 1e-9
    assert min(len(set(persons[refined == c])) for c in range(refined.max() + 1)) >= k


def test_records_of_one_person_that_are_equal_move_together(wide_geometry: Geometry) -> None:
    codes, persons = np.repeat(wide_codes(60, 6), 5, axis=0), np.repeat(np.arange(60), 5)
    labels = np.repeat(np.arange(60) // 6, 5)
    refined = refined_by_person(codes, labels, wide_geometry, 4, persons)
    assert table_loss(codes, refined, wide_geometry) < 0.9 * table_loss(codes, labels, wide_geometry)
    assert (refined.reshape(60, 5) == refined[::5, None]).all()
    alone = refined_by_person(codes[::5].copy(), labels[::5], wide_geometry, 4, persons[::5])
    loss = table_loss(codes[::5], alone, wide_geometry)  # ties may be settled otherwise
    assert table_loss(codes[::5], refined[::5], wide_geometry) == pytest.approx(loss, rel=0.1)
    np.testing.assert_array_equal(alone, unconstrained(codes[::5].copy(), labels[::5], wide_geometry, 4))


@given(seed=st.integers(0, 99))
def test_one_sensitive_value_is_judged_as_several_are(seed: int) -> None:
    """With a second attribute without rules, whether a record may take a place is checked for each record."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 11, (60, 1)).astype(np.int32)
    values = rng.integers(0, 4, 60).astype(np.int32)
    labels = np.repeat(np.arange(6), 10)
    rule = Rule(kind=RuleKind.CLOSE_EQUAL, limit=0.5)
    counts = np.bincount(values, minlength=4)
    one = pack_rules([rule], [counts], [None])
    two = pack_rules([rule], [counts, np.array([60])], [None, None])
    both = np.stack([values, np.zeros(60, np.int32)])
    by_value = refine(codes, labels, LINE, 3, np.random.default_rng(1), values[None], one)
    by_record = refine(codes, labels, LINE, 3, np.random.default_rng(1), both, two)
    np.testing.assert_array_equal(by_value, by_record)
