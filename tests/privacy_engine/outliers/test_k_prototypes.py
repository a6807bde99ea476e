"""k-prototypes against a loop over records, and its initial centres against their definition."""

import numpy as np
import pytest

from privacy_engine import InfeasibleError
from privacy_engine.outliers.k_prototypes import initial_points
from privacy_engine.outliers.mixed_space import MixedSpace
from tests.privacy_engine.outliers.tables import SCHEMA, clustered, people, squared_distances


def mean_and_mode(x: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(axis=0), np.array([np.bincount(column).argmax() for column in c.T])


def naive(x: np.ndarray, c: np.ndarray, centres: tuple[np.ndarray, np.ndarray], penalty: float, rounds: int):
    """Records (n,) in rounds: assign all, move all; labels and distances of the last assignment."""
    at, of = centres[0].copy(), centres[1].copy()
    labels = np.full(len(x), -1)
    for turn in range(rounds):
        if turn:
            for k in set(labels.tolist()):
                at[k], of[k] = mean_and_mode(x[labels == k], c[labels == k])
        far = squared_distances(x, c, penalty, (at, of))
        if turn and (far.argmin(axis=1) == labels).all():
            break
        labels = far.argmin(axis=1)
    return labels, far.min(axis=1)


@pytest.mark.parametrize("grid", [None, 2])
@pytest.mark.parametrize("clusters", [1, 2, 7])
@pytest.mark.parametrize("rounds", [1, 3, 50])
def test_labels_and_distances_are_those_of_a_loop_over_records(
    grid: int | None, clusters: int, rounds: int
) -> None:
    table = people(80, 4, grid=grid)
    space = MixedSpace.of_table(table, SCHEMA, None, 0.8)
    first = initial_points(space, clusters)
    x, c = space.numbers[space.point_of], space.categories[space.point_of]
    labels, distances = naive(x, c, (space.numbers[first], space.categories[first]), 0.8, rounds)
    found = clustered(table, clusters, 0.8, rounds)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.distances, distances, atol=1e-12)
    assert found.cost == pytest.approx(distances.sum())


@pytest.mark.parametrize("clusters", [1, 2, 9, 40])
def test_initial_centres_are_the_papers(clusters: int) -> None:
    table = people(90, 6, grid=4)
    space = MixedSpace.of_table(table, SCHEMA, None, 1.0)
    chosen = initial_points(space, clusters)
    x, c = space.numbers, space.categories
    centre = mean_and_mode(x[space.point_of], c[space.point_of])
    from_centre = squared_distances(x, c, 1.0, (centre[0][None], centre[1][None]))[:, 0]
    assert from_centre[chosen[0]] == pytest.approx(from_centre.max())
    from_first = squared_distances(x, c, 1.0)[chosen[0]]
    remaining = set(range(len(space))) - {int(chosen[0])}
    for i in range(1, clusters):  # the paper's A_2 .. A_k
        gap = np.abs(from_first - i * from_centre.max() / (clusters - 1))
        assert chosen[i] in remaining
        assert gap[chosen[i]] == pytest.approx(min(gap[list(remaining)]), abs=1e-12)
        remaining.remove(int(chosen[i]))


def test_every_distinct_record_may_be_its_own_cluster_and_no_more() -> None:
    table = people(60, 7, grid=1)
    distinct = len(table.drop(columns="illness").drop_duplicates())
    found = clustered(table, distinct)
    assert len(set(found.labels.tolist())) == distinct
    assert found.cost == pytest.approx(0.0)
    with pytest.raises(InfeasibleError, match=f"{distinct} distinct records cannot found {distinct + 1}"):
        clustered(table, distinct + 1)


def test_more_rounds_never_cost_more() -> None:
    table = people(300, 8)
    costs = [clustered(table, 12, rounds=r).cost for r in (1, 2, 4, 8, 60)]
    assert costs == sorted(costs, reverse=True)
    assert clustered(table, 12, rounds=60).converged
