"""Out-of-bag permutation importance of a random forest's features, over all trees at once.

Breiman, Random forests, Machine Learning 45 (2001), section 10; formula (3) of Huang and Zhu (RFKA):
``imp(a) = (1 / K) sum_t (R_t - R_t^a)``, with R_t the out-of-bag records that tree t of K classifies right,
and R_t^a the same after the values of feature a were permuted among them. It is neither the Gini importance
nor a permutation over the training set.
"""

from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier

from privacy_engine.compiled import kernel
from privacy_engine.progress import advance, portion

AT_ONCE = 100  # trees that are grown between two progress reports
GOLDEN, MIX_1, MIX_2 = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Trees(NamedTuple):
    """All trees of a forest over binary columns, one after another; tree t owns ``start[t] : start[t + 1]``.

    column: (nodes,) int32 column that is tested, -1 = a leaf.
    zero, one: (nodes,) int32 the node that follows, as a number within the tree.
    vote: (nodes,) int32 class of most records in the node, the lowest of equals.
    oob: int32 records that a tree did not see, ascending; tree t owns ``oob_start[t] : oob_start[t + 1]``.
    """

    start: npt.NDArray[np.int64]
    column: npt.NDArray[np.int32]
    zero: npt.NDArray[np.int32]
    one: npt.NDArray[np.int32]
    vote: npt.NDArray[np.int32]
    oob: npt.NDArray[np.int32]
    oob_start: npt.NDArray[np.int64]


def forest_importance(
    columns: npt.NDArray[np.uint8],
    feature_of: npt.NDArray[np.int32],
    y: npt.NDArray[np.int64],
    trees: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """(f,) importance of each feature, in records a tree; it can be slightly negative.

    The forest is scikit-learn's with its default settings: fully grown trees, sqrt(p) columns a split.

    Args:
        columns: 0 or 1, shape (n, p).
        feature_of: Feature of each column, shape (p,); the columns of a feature are permuted together.
        y: Class 0, 1, ..., all of which occur, shape (n,).
        trees: Number of trees.
        rng: Seeds the forest and the permutations.
    """
    seed_of_forest, seed = (int(s) for s in rng.integers(2**31, size=2))
    forest = RandomForestClassifier(random_state=seed_of_forest, n_jobs=nb.get_num_threads(), warm_start=True)
    table = columns.astype(np.float32)
    with portion(0.8):
        for grown in range(0, trees, AT_ONCE):  # the same trees as in one go
            forest.set_params(n_estimators=min(grown + AT_ONCE, trees)).fit(table, y)
            advance(forest.n_estimators / trees)
    lost = lost_votes(columns, feature_of, y, flattened(forest, len(y)), seed)
    return np.asarray(lost.sum(axis=0) / trees, dtype=np.float64)


def flattened(forest: RandomForestClassifier, n: int) -> Trees:
    """The trees of a forest that was fitted to n records of binary columns."""
    parts = [estimator.tree_ for estimator in forest.estimators_]
    unseen = []
    for seen in forest.estimators_samples_:
        out_of_bag = np.ones(n, dtype=np.bool_)
        out_of_bag[seen] = False
        unseen.append(np.flatnonzero(out_of_bag).astype(np.int32))
    return Trees(
        start=_starts([part.node_count for part in parts]),
        column=np.concatenate([np.maximum(part.feature, -1) for part in parts]).astype(np.int32),
        zero=np.concatenate([part.children_left for part in parts]).astype(np.int32),
        one=np.concatenate([part.children_right for part in parts]).astype(np.int32),
        vote=np.concatenate([part.value[:, 0, :].argmax(axis=1) for part in parts]).astype(np.int32),
        oob=np.concatenate(unseen),
        oob_start=_starts([len(rows) for rows in unseen]),
    )


def _starts(sizes: list[int]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def lost_votes(
    columns: npt.NDArray[np.uint8],
    feature_of: npt.NDArray[np.int32],
    y: npt.NDArray[np.int64],
    trees: Trees,
    seed: int,
) -> npt.NDArray[np.int64]:
    """(trees, features) int64 ``R_t - R_t^a``.

    A feature that a tree never tests loses nothing there, and a record whose values do not change keeps its
    vote: only the others go down the tree again.
    """
    count = len(trees.start) - 1
    lost = np.zeros((count, int(feature_of.max()) + 1), dtype=np.int64)
    for first in range(0, count, AT_ONCE):
        last = min(first + AT_ONCE, count)
        _count_lost_votes(columns, feature_of, y, trees, seed, first, last, lost)
        advance(last / count)
    return lost


@kernel(parallel=True)
def _count_lost_votes(
    columns: npt.NDArray[np.uint8],
    feature_of: npt.NDArray[np.int32],
    y: npt.NDArray[np.int64],
    trees: Trees,
    seed: int,
    first: int,
    last: int,
    lost: npt.NDArray[np.int64],
) -> None:
    """Fill in the rows of the trees from `first` to before `last`."""
    start, column, zero, one, vote = trees.start, trees.column, trees.zero, trees.one, trees.vote
    oob, oob_start = trees.oob, trees.oob_start
    features = lost.shape[1]
    for t in nb.prange(first, last):
        at, end = start[t], start[t + 1]
        rows = oob[oob_start[t] : oob_start[t + 1]]
        used = np.zeros(features, dtype=np.bool_)
        for node in range(at, end):
            if column[node] >= 0:
                used[feature_of[column[node]]] = True
        right = np.empty(len(rows), dtype=np.bool_)
        for i in range(len(rows)):
            right[i] = (
                _vote(columns, feature_of, rows[i], rows[i], -1, at, column, zero, one, vote) == y[rows[i]]
            )
        for a in range(features):
            if not used[a]:
                continue
            donors = permuted(rows, seed, t, a)
            for i in range(len(rows)):
                if _differ(columns, feature_of, rows[i], donors[i], a):
                    voted = _vote(columns, feature_of, rows[i], donors[i], a, at, column, zero, one, vote)
                    lost[t, a] += int(right[i]) - int(voted == y[rows[i]])


@kernel()
def permuted(rows: npt.NDArray[np.int32], seed: int, tree: int, feature: int) -> npt.NDArray[np.int32]:
    """Shuffle the records: Fisher-Yates, with a separate random stream for each tree and feature.

    SplitMix64 (Steele, Lea, Flood 2014), so that threads can work on the trees in any order.
    """
    state = _mixed(_mixed(np.uint64(seed) + GOLDEN * np.uint64(tree + 1)) + GOLDEN * np.uint64(feature + 1))
    found = rows.copy()
    for i in range(len(found) - 1, 0, -1):
        state += GOLDEN
        j = np.int64(_mixed(state) % np.uint64(i + 1))
        found[i], found[j] = found[j], found[i]
    return found


@kernel(inline="always")
def _mixed(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@kernel(inner=True)
def _differ(
    columns: npt.NDArray[np.uint8], feature_of: npt.NDArray[np.int32], row: int, donor: int, feature: int
) -> bool:
    first = np.searchsorted(feature_of, feature)
    for p in range(first, len(feature_of)):
        if feature_of[p] != feature:
            return False
        if columns[row, p] != columns[donor, p]:
            return True
    return False


@kernel(inner=True)
def _vote(
    columns: npt.NDArray[np.uint8],
    feature_of: npt.NDArray[np.int32],
    row: int,
    donor: int,
    feature: int,
    at: int,
    column: npt.NDArray[np.int32],
    zero: npt.NDArray[np.int32],
    one: npt.NDArray[np.int32],
    vote: npt.NDArray[np.int32],
) -> int:
    """Class of a record by the tree that begins at ``at``, with one feature's values of another record."""
    node = at
    while column[node] >= 0:
        p = column[node]
        value = columns[donor if feature_of[p] == feature else row, p]
        node = at + (one[node] if value else zero[node])
    return int(vote[node])
