"""OPTICS: a hand-worked line of points, scikit-learn on small tables, and the distance by its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN, OPTICS

from privacy_engine.recoding.grouping.optics import (
    MixedDistance,
    core_distances,
    density_clusters,
    distances_to,
    mixed_distance,
    optics,
    optics_of_records,
)
from privacy_engine.tables.encoding import OrderedDomain
from privacy_engine.tables.hierarchy import Hierarchy

CITIES = Hierarchy(
    (
        ("Bern", "plateau", "west", "*"),
        ("Biel", "plateau", "west", "*"),
        ("Sion", "valais", "west", "*"),
        ("Chur", "alps", "east", "*"),
    )
)


def numbers(*values: float) -> OrderedDomain:
    return OrderedDomain(np.array(values), tuple(map(str, values)), min(values), max(values))


def all_distances(points: np.ndarray, distance: MixedDistance) -> np.ndarray:
    columns, m = np.ascontiguousarray(points.T), len(points)
    out = np.empty((m, m))
    for i in range(m):
        distances_to(columns, i, m, distance, np.empty(distance.start[-1]), out[i])
    return out


def test_an_ordered_difference_is_scaled_to_the_domain() -> None:
    distance = mixed_distance([numbers(10, 15, 30)], np.ones(1))
    found = all_distances(np.array([[0], [1], [2]], np.int32), distance)
    assert found == pytest.approx(np.array([[0, 0.25, 1], [0.25, 0, 0.75], [1, 0.75, 0]]))


def test_leaves_are_apart_by_the_weighted_level_of_their_ancestor() -> None:
    # W(i, i + 1) = i over three steps: 1/6 to meet one level up, 3/6 two, 6/6 at the root
    distance = mixed_distance([CITIES], np.ones(1))
    found = all_distances(np.arange(4, dtype=np.int32)[:, None], distance)
    assert found[0] == pytest.approx([0, 1 / 6, 3 / 6, 1])


def test_hierarchies_of_different_height_and_weights_add_up() -> None:
    distance = mixed_distance(
        [Hierarchy.flat(["a", "b"]), CITIES, numbers(0, 1, 4)], np.array([2.0, 3.0, 0.5])
    )
    found = all_distances(np.array([[0, 0, 0], [1, 2, 1]], np.int32), distance)
    assert found[0, 1] == pytest.approx(2 * 1 + 3 * 0.5 + 0.5 * 0.25)


def test_a_hand_worked_line_of_points() -> None:
    # at 0 1 2 10 11 of 0 .. 11, min_samples 2: core distances are those to the nearest other, all 1 apart
    distance = mixed_distance([numbers(0, 1, 2, 10, 11)], np.full(1, 11.0))
    found = optics(np.arange(5, dtype=np.int32)[:, None], np.ones(5, np.int64), distance, 2)
    assert found.order.tolist() == [0, 1, 2, 3, 4]
    assert found.core == pytest.approx([1, 1, 1, 1, 1])
    assert found.reach == pytest.approx([np.inf, 1, 1, 8, 1])
    assert density_clusters(found, 1.0).tolist() == [0, 0, 0, 1, 1]
    assert density_clusters(found, 0.5).tolist() == [-1] * 5


@pytest.mark.parametrize("min_samples", [2, 5, 12])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_order_and_reachability_are_those_of_scikit_learn(seed: int, min_samples: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((60, 2))  # all distances differ, so no tie is broken one way here, another there
    domains = [numbers(*np.sort(column)) for column in values.T]
    points = np.argsort(np.argsort(values, axis=0), axis=0).astype(np.int32)
    scaled = (values - values.min(axis=0)) / (values.max(axis=0) - values.min(axis=0))
    theirs = OPTICS(min_samples=min_samples, metric="manhattan", algorithm="brute").fit(scaled)
    ours = optics(points, np.ones(60, np.int64), mixed_distance(domains, np.ones(2)), min_samples)
    assert ours.order.tolist() == theirs.ordering_.tolist()
    assert ours.core == pytest.approx(theirs.core_distances_)
    assert ours.reach == pytest.approx(theirs.reachability_)


def test_density_clusters_of_two_dense_places_are_those_of_dbscan() -> None:
    rng = np.random.default_rng(4)
    values = np.sort(np.concatenate([rng.normal(0, 1, 40), rng.normal(20, 1, 40), [10.0]]))
    points = np.arange(81, dtype=np.int32)[:, None]
    distance = mixed_distance([numbers(*values)], np.array([values[-1] - values[0]]))
    ours = density_clusters(optics(points, np.ones(81, np.int64), distance, 4), 2.0)
    theirs = DBSCAN(eps=2.0, min_samples=4).fit(values[:, None]).labels_
    assert ours.tolist() == theirs.tolist()


@given(
    records=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=20),
    least=st.integers(1, 8),
)
def test_identical_records_count_one_by_one_and_stand_together(
    records: list[tuple[int, int]], least: int
) -> None:
    codes = np.array(records, np.int32)
    distance = mixed_distance([numbers(0, 1, 4), CITIES], np.array([1.0, 2.0]))
    found = optics_of_records(codes, distance, least)
    pairs = np.sort(all_distances(codes, distance), axis=1)
    assert found.core == pytest.approx(pairs[:, min(least, len(codes)) - 1])
    assert sorted(found.order.tolist()) == list(range(len(codes)))
    steps = (codes[found.order][1:] != codes[found.order][:-1]).any(axis=1).sum()
    assert steps == len(np.unique(codes, axis=0)) - 1
    for place, record in enumerate(found.order[1:], start=1):  # reachability by its definition
        before = found.order[:place]
        distances = all_distances(codes, distance)[record, before]
        assert found.reach[record] == pytest.approx(np.maximum(found.core[before], distances).min())


def test_core_distances_do_not_depend_on_the_number_of_threads() -> None:
    import numba

    rng = np.random.default_rng(6)
    columns = rng.integers(0, 50, (2, 500)).astype(np.int32)
    distance = mixed_distance([numbers(*range(50))] * 2, np.ones(2))
    counts = rng.integers(1, 4, 500)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = core_distances(columns, counts, distance, 9)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(alone, core_distances(columns, counts, distance, 9))
