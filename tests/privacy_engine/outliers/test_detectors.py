"""LOF and OKPLOF: against brute force and scikit-learn, against each other, and on injected outliers."""

import warnings

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, InfeasibleError
from privacy_engine.outliers.detector import OutlierDetector
from privacy_engine.outliers.lof import LOF
from privacy_engine.outliers.mixed_space import MixedSpace
from privacy_engine.outliers.okplof import OKPLOF
from tests.privacy_engine.outliers.tables import SCHEMA, clustered, people, squared_distances

DETECTORS = (
    LOF(neighbours=6, top=9),
    OKPLOF(neighbours=6, average_cluster_size=25, top=9),
    OKPLOF(neighbours=6, average_cluster_size=25, top=9, reference="survivors"),
)
each_detector = pytest.mark.parametrize("detector", DETECTORS, ids=["lof", "okplof", "okplof-survivors"])


def naive_lof(distance: np.ndarray, k: int) -> np.ndarray:
    """Breunig et al. (2000), definitions 3 to 7, for k neighbours each."""
    n = len(distance)
    others = [sorted((distance[i, j], j) for j in range(n) if j != i)[:k] for i in range(n)]
    k_distance = [neighbours[-1][0] for neighbours in others]
    lrd = [1 / np.mean([max(k_distance[j], d) for d, j in neighbours]) for neighbours in others]
    return np.array([np.mean([lrd[j] for _, j in others[i]]) / lrd[i] for i in range(n)])


@pytest.mark.parametrize("k", [1, 4, 30])
def test_lof_is_that_of_a_loop_over_all_pairs(k: int) -> None:
    table = people(70, 1)
    space = MixedSpace.of_table(table, SCHEMA, None, 0.5)
    expected = naive_lof(np.sqrt(squared_distances(space.numbers, space.categories, 0.5)), k)
    found = LOF(neighbours=k, penalty=0.5).detect(table, SCHEMA)
    np.testing.assert_allclose(found.scores, expected[space.point_of], rtol=1e-6)


@pytest.mark.parametrize("k", [5, 20])
def test_lof_is_scikit_learns_on_the_distinct_records(k: int) -> None:
    from sklearn.neighbors import LocalOutlierFactor

    table = people(400, 2)
    space = MixedSpace.of_table(pd.concat([table, table.head(150)]), SCHEMA, None, 1.0)
    one_hot = np.hstack([np.sqrt(0.5) * np.eye(int(c.max()) + 1)[c] for c in space.categories.T])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # scikit-learn warns of equal records
        peer = LocalOutlierFactor(n_neighbors=k).fit(np.hstack([space.numbers, one_hot]))
    found = LOF(neighbours=k).detect(pd.concat([table, table.head(150)]), SCHEMA)
    np.testing.assert_allclose(found.scores, -peer.negative_outlier_factor_[space.point_of], rtol=1e-6)


def test_equal_records_change_no_score() -> None:
    table = people(100, 3)
    often = pd.concat([table, *[table.head(40)] * 5])
    np.testing.assert_array_equal(
        LOF().detect(table, SCHEMA).scores, LOF().detect(often, SCHEMA).scores[:100]
    )


@pytest.mark.parametrize("reference", ["survivors", "all"])
def test_okplof_without_pruning_is_lof(reference: str) -> None:
    table = people(200, 4, grid=8)
    unpruned = OKPLOF(neighbours=7, smallest_pruned=201, reference=reference).detect(table, SCHEMA)
    assert not unpruned.pruned.any()
    np.testing.assert_array_equal(unpruned.scores, LOF(neighbours=7).detect(table, SCHEMA).scores)


def test_with_all_records_as_reference_the_survivors_have_lofs_scores() -> None:
    table = people(300, 5)
    found = OKPLOF(neighbours=7, average_cluster_size=30).detect(table, SCHEMA)
    assert 0.3 < found.pruned_share < 0.9
    kept = ~found.pruned
    np.testing.assert_array_equal(found.scores[kept], LOF(neighbours=7).detect(table, SCHEMA).scores[kept])
    assert (found.scores[found.pruned] == 1).all()
    assert not found.flags[found.pruned].any()


def test_among_survivors_the_scores_are_lofs_of_the_survivors_alone() -> None:
    table = people(300, 6)
    found = OKPLOF(neighbours=7, average_cluster_size=30, reference="survivors").detect(table, SCHEMA)
    bounds = {a: [float(table[a].min()), float(table[a].max())] for a in ("height", "weight")}
    fields = SCHEMA.to_dict()
    for name, ends in bounds.items():
        fields[name]["bounds"] = ends  # the survivors alone would be scaled by their own ends
    alone = LOF(neighbours=7).detect(table[~found.pruned], DataSchema.from_dict(fields))
    np.testing.assert_allclose(found.scores[~found.pruned], alone.scores, rtol=1e-9)


def test_pruned_records_are_no_farther_from_their_prototype_than_others_on_average() -> None:
    table = people(500, 7, grid=6)
    found = OKPLOF(clusters=9, neighbours=5, smallest_pruned=30, rounds=7).detect(table, SCHEMA)
    clusters = clustered(table, 9, rounds=7)
    for label in range(9):
        members = clusters.labels == label
        far = clusters.distances[members]
        expected = (far <= far.mean() + 1e-12) if members.sum() >= 30 else np.zeros(members.sum(), dtype=bool)
        np.testing.assert_array_equal(found.pruned[members], expected)


def test_where_too_few_would_survive_nothing_is_pruned() -> None:
    table = people(30, 8)
    found = OKPLOF(clusters=1, neighbours=20, smallest_pruned=1).detect(table, SCHEMA)
    assert not found.pruned.any()
    np.testing.assert_array_equal(found.scores, LOF(neighbours=20).detect(table, SCHEMA).scores)


@each_detector
def test_permuted_rows_have_permuted_scores(detector: OutlierDetector) -> None:
    table = people(250, 9, grid=10)
    order = np.random.default_rng(3).permutation(250)
    one, two = detector.detect(table, SCHEMA), detector.detect(table.take(order), SCHEMA)
    np.testing.assert_array_equal(one.scores[order], two.scores)
    np.testing.assert_array_equal(one.pruned[order], two.pruned)
    assert one.count == two.count == 9


@each_detector
def test_equal_inputs_give_equal_output_and_stay_as_they_were(detector: OutlierDetector) -> None:
    table = people(250, 10, grid=10)
    before = table.copy(deep=True)
    one, two = detector.detect(table, SCHEMA), detector.detect(table, SCHEMA)
    np.testing.assert_array_equal(one.scores, two.scores)
    np.testing.assert_array_equal(one.positions, two.positions)
    pd.testing.assert_frame_equal(table, before)


@each_detector
def test_injected_outliers_are_the_highest(detector: OutlierDetector) -> None:
    table = people(1000, 11)
    rows = [3, 333, 500, 777, 999]
    table.loc[rows[:2], "height"] = [40.0, -30.0]
    table.loc[rows[2:4], "weight"] = [35.0, -50.0]
    table.loc[rows[4], "city"] = "elsewhere"
    assert set(rows) <= set(detector.detect(table, SCHEMA).positions.tolist())


@each_detector
def test_no_score_is_missing_where_neighbours_exceed_the_records(detector: OutlierDetector) -> None:
    scores = detector.detect(people(9, 12).assign(city="a"), SCHEMA).scores
    assert np.isfinite(scores).all()


def test_a_threshold_flags_what_is_above_it() -> None:
    table = people(200, 13)
    found = LOF(threshold=1.2).detect(table, SCHEMA)
    np.testing.assert_array_equal(found.flags, found.scores > 1.2)
    assert 0 < found.count == len(found.positions) < 200
    np.testing.assert_array_equal(LOF().detect(table, SCHEMA).flags, found.scores > 1.5)


def test_only_the_chosen_attributes_count() -> None:
    table = people(200, 14)
    table.loc[5, "city"] = "elsewhere"
    assert 5 in LOF(top=1, attributes=("city", "height")).detect(table, SCHEMA).positions
    assert 5 not in LOF(top=1, attributes=("weight", "height")).detect(table, SCHEMA).positions


def test_the_result_shows_no_record_when_printed() -> None:
    table = people(50, 15).assign(city="canary")
    assert repr(LOF(top=2).detect(table, SCHEMA)) == "Outliers(distinct=50)"


@each_detector
def test_a_constant_table_is_refused(detector: OutlierDetector) -> None:
    table = pd.concat([people(1, 1)] * 30)
    with pytest.raises(InfeasibleError, match="1 distinct records have no density"):
        detector.detect(table, SCHEMA)


def test_more_clusters_than_distinct_records_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="cannot found 51 clusters"):
        OKPLOF(clusters=51).detect(people(50, 1), SCHEMA)


def test_more_highest_than_records_are_refused() -> None:
    with pytest.raises(InfeasibleError, match="the 51 highest of 50 rows"):
        LOF(top=51).detect(people(50, 1), SCHEMA)


@pytest.mark.parametrize("detector", [LOF, OKPLOF])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"neighbours": 0}, "neighbours must be a whole number >= 1, got 0"),
        ({"neighbours": 2.5}, "neighbours must be"),
        ({"penalty": 0.0}, "penalty must be a finite number > 0"),
        ({"penalty": float("nan")}, "penalty must be"),
        ({"top": 0}, "top must be"),
        ({"threshold": -1.0}, "threshold must be"),
        ({"top": 3, "threshold": 2.0}, "top or threshold, not both"),
        ({"attributes": ()}, "attributes must be"),
        ({"attributes": ("a", "a")}, "attributes must be"),
        ({"attributes": "age"}, "attributes must be"),
    ],
)
def test_bad_parameters_are_refused(
    detector: type[LOF] | type[OKPLOF], wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        detector(**wrong)


@pytest.mark.parametrize("name", ["clusters", "average_cluster_size", "smallest_pruned", "rounds"])
def test_bad_parameters_of_the_clustering_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number >= 1"):
        OKPLOF(**{name: 0})


def test_an_unknown_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="reference must be one of"):
        OKPLOF(reference="unknown")
