"""The tree finds the same neighbours as a search through all pairs."""

import numpy as np
import pytest

from privacy_engine.outliers.neighbours import NeighbourTree
from tests.privacy_engine.outliers.tables import squared_distances


def points(
    n: int, seed: int, *, numbers: int, categories: int, values: int, grid: int
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.round(rng.random((n, numbers)) * grid) / grid
    c = (rng.random((n, categories)) ** 3 * values).astype(np.int32)
    return x, c


@pytest.mark.parametrize(
    ("numbers", "categories", "values", "grid"),
    [(3, 2, 4, 1000), (3, 2, 4, 3), (2, 0, 1, 50), (0, 3, 6, 1), (1, 1, 200, 5)],
    ids=["mixed", "many ties", "numbers alone", "categories alone", "more categories than bits"],
)
def test_the_nearest_points_are_those_of_a_full_search(
    numbers: int, categories: int, values: int, grid: int
) -> None:
    x, c = points(150, 3, numbers=numbers, categories=categories, values=values, grid=grid)
    far = squared_distances(x, c, 0.7)
    np.fill_diagonal(far, np.inf)
    expected = np.argsort(far, axis=1, kind="stable")[:, :9]  # of equally far points the lower number
    found, distances = NeighbourTree.plant(x, c, 0.7).nearest(x, c, 9, np.arange(150))
    # Sums of the same terms in another order may differ in the last digit: compare distances, then sets.
    np.testing.assert_allclose(
        np.sort(distances), np.take_along_axis(far, expected, 1), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(np.take_along_axis(far, found, 1), distances, rtol=1e-12, atol=1e-15)
    assert all(len(set(row)) == 9 and i not in row for i, row in enumerate(found.tolist()))


def test_of_equally_near_points_the_lower_number_is_nearer() -> None:
    c = np.arange(100, dtype=np.int32).reshape(-1, 1)
    found, _ = NeighbourTree.plant(np.zeros((100, 0)), c, 1.0).nearest(
        np.zeros((100, 0)), c, 3, np.arange(100)
    )
    assert sorted(found[50].tolist()) == [0, 1, 2]
    assert sorted(found[1].tolist()) == [0, 2, 3]


def test_a_guess_changes_nothing_but_the_way() -> None:
    x, c = points(300, 5, numbers=3, categories=2, values=5, grid=100)
    tree = NeighbourTree.plant(x[:40], c[:40], 1.0)
    blind = tree.nearest_one(x, c, np.zeros(300, dtype=np.int64), np.full(300, np.inf))
    far = squared_distances(x, c, 1.0, (x[:40], c[:40]))
    guess = np.random.default_rng(1).integers(0, 40, 300)
    led = tree.nearest_one(x, c, guess, far[np.arange(300), guess])
    np.testing.assert_allclose(blind[1], far.min(axis=1), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(blind[0], led[0])
