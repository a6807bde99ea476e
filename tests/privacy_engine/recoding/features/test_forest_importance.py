"""Out-of-bag permutation importance: equal to a plain loop over trees, and what the formula promises."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from privacy_engine.recoding.features.forest_importance import (
    flattened,
    forest_importance,
    lost_votes,
    permuted,
)


def table(n: int = 90, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Binary columns, the feature of each (the last three are one feature), and three classes."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 2, (n, 7)).astype(np.uint8)
    y = np.where(rng.random(n) < 0.1, rng.integers(0, 3, n), columns[:, 0] + columns[:, 5])
    return columns, np.array([0, 1, 2, 3, 4, 4, 4], dtype=np.int32), y.astype(np.int64)


def test_lost_votes_equal_a_loop_over_trees_and_features_with_the_same_permutations() -> None:
    columns, feature_of, y = table()
    forest = RandomForestClassifier(25, random_state=3).fit(columns.astype(np.float32), y)
    found = lost_votes(columns, feature_of, y, flattened(forest, len(y)), 11)
    expected = np.zeros((25, 5), dtype=np.int64)
    for t, tree in enumerate(forest.estimators_):
        oob = np.setdiff1d(np.arange(len(y)), forest.estimators_samples_[t]).astype(np.int32)
        right = (tree.predict(columns[oob].astype(np.float32)) == y[oob]).sum()
        for a in range(5):
            shuffled = columns[oob].copy()
            shuffled[:, feature_of == a] = columns[permuted(oob, 11, t, a)][:, feature_of == a]
            expected[t, a] = right - (tree.predict(shuffled.astype(np.float32)) == y[oob]).sum()
    assert np.array_equal(found, expected)
    assert expected.any()


def test_out_of_bag_records_are_those_that_no_bootstrap_drew() -> None:
    columns, _, y = table()
    forest = RandomForestClassifier(5, random_state=3).fit(columns.astype(np.float32), y)
    trees = flattened(forest, len(y))
    for t in range(5):
        oob = trees.oob[trees.oob_start[t] : trees.oob_start[t + 1]]
        assert not set(oob) & set(forest.estimators_samples_[t])
        assert set(oob) | set(forest.estimators_samples_[t]) == set(range(len(y)))


def test_features_that_make_the_label_matter_most_and_a_constant_not_at_all() -> None:
    columns, feature_of, y = table()
    columns[:, 3] = 1
    worth = forest_importance(columns, feature_of, y, 200, np.random.default_rng(1))
    assert set(np.argsort(-worth)[:2]) == {0, 4}
    assert worth[3] == 0.0


def test_equal_seeds_give_equal_importance_and_other_seeds_another() -> None:
    columns, feature_of, y = table()
    first, again, other = (
        forest_importance(columns, feature_of, y, 40, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_permuted_records_are_the_same_records(n: int) -> None:
    rows = np.arange(n, dtype=np.int32) * 3
    assert np.array_equal(np.sort(permuted(rows, 5, 2, 1)), rows)


def test_every_order_of_three_records_is_equally_frequent() -> None:
    rows = np.arange(3, dtype=np.int32)
    orders = [tuple(permuted(rows, 9, tree, feature)) for tree in range(300) for feature in range(20)]
    counts = np.array([orders.count(order) for order in sorted(set(orders))])
    # chi-square of 5 degrees of freedom; exceeds 20.5 once in a thousand seeds, and the seed is fixed
    assert len(counts) == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5
