"""The utility matrix of Zhu, Zhao and Wang (2010), its weights, and clusters of alike sensitive values."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.sensitive_utility import (
    Reading,
    attribute_weights,
    cluster_values,
    clusters_in_play,
    sensitive_row,
    utility_matrix,
    weight_matrix,
)
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "city": {"role": "quasi_identifier"},
        "disease": {"role": "sensitive", "categories": ["flu", "gout", "plague"]},
    }
)
Row = tuple[int, str, str]
rows = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from("ABC"), st.sampled_from(["flu", "gout", "plague"])),
    min_size=1,
    max_size=8,
)


def encode(records: list[Row]) -> EncodedTable:
    return EncodedTable.encode(pd.DataFrame(records, columns=list(SCHEMA.names)), SCHEMA)


def test_the_utility_of_a_hand_worked_table() -> None:
    records = [(20, "A", "flu"), (30, "B", "flu"), (60, "B", "gout"), (40, "C", "gout"), (60, "C", "gout")]
    # the table: ages 20 to 60, three cities; flu 20 to 30 in two, gout 40 to 60 in two, plague nowhere
    assert utility_matrix(encode(records), 0) == pytest.approx(
        np.array([[10 / 40, 2 / 3], [20 / 40, 2 / 3], [1, 1]])
    )


@given(rows)
def test_the_utility_is_the_share_of_the_tables_spread_that_each_value_has(records: list[Row]) -> None:
    matrix = utility_matrix(encode(records), 0)
    ages, cities = [age for age, _, _ in records], {city for _, city, _ in records}
    for i, disease in enumerate(("flu", "gout", "plague")):
        own = [(age, city) for age, city, d in records if d == disease]
        expected = [1.0, 1.0]
        if own:
            spread = max(a for a, _ in own) - min(a for a, _ in own)
            expected = [spread / ((max(ages) - min(ages)) or 1), len({c for _, c in own}) / len(cities)]
        assert matrix[i] == pytest.approx(expected)


UTILITY = np.array([[0.25, 1.0], [0.5, 0.0]])


@pytest.mark.parametrize(
    ("reading", "raw"),
    [
        (Reading.COMPLEMENT, [[0.751, 0.001], [0.501, 1.001]]),
        (Reading.LITERAL, [[0.25, 1.0], [0.5, 0.0]]),
        (Reading.EQUAL, [[1, 1], [1, 1]]),
    ],
)
def test_weights_are_the_reading_of_the_utility_and_sum_to_one(
    reading: Reading, raw: list[list[float]]
) -> None:
    weights = weight_matrix(UTILITY, reading)
    assert weights == pytest.approx(np.array(raw) / np.sum(raw), abs=1e-9)
    assert weights.sum() == pytest.approx(1)


def test_weights_of_an_attribute_are_its_share_among_the_values_in_play() -> None:
    weights = np.array([[0.1, 0.3], [0.4, 0.2]])
    assert attribute_weights(weights) == pytest.approx([0.5, 0.5])
    assert attribute_weights(weights, np.array([1])) == pytest.approx([2 / 3, 1 / 3])


def test_equal_weights_are_those_of_the_normalised_certainty_penalty() -> None:
    assert attribute_weights(weight_matrix(UTILITY, Reading.EQUAL)) == pytest.approx([0.5, 0.5])


def test_two_groups_of_alike_values_become_two_clusters() -> None:
    utility = np.array([[0.1, 0.1], [0.9, 0.8], [0.1, 0.2], [0.8, 0.9]])
    found = cluster_values(utility, 2, 2, np.random.default_rng(0)).of
    assert found[0] == found[2] != found[1] == found[3]


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 12), st.integers(0, 99))
def test_every_cluster_has_the_least_number_of_values(m: int, least: int, clusters: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    utility = rng.random((m, 3)).round(1)
    if m < least:
        with pytest.raises(InfeasibleError, match=f"has {m} values and {least} are needed: lower l"):
            cluster_values(utility, least, clusters, rng)
        return
    found = cluster_values(utility, least, clusters, rng)
    sizes = np.bincount(found.of)
    assert len(found.of) == m
    assert len(sizes) == found.count
    assert 0 <= found.absorbed <= m - found.count * least
    assert sizes.min() >= least
    assert len(sizes) <= clusters


def test_equal_seeds_give_equal_clusters() -> None:
    utility = np.random.default_rng(3).random((14, 8))
    one, other = (cluster_values(utility, 3, 4, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one.of, other.of)
    assert one.absorbed == other.absorbed


def test_values_too_rare_join_the_nearest_cluster_that_has_companions() -> None:
    utility = np.array([[0.0], [0.1], [0.2], [0.3], [2.0], [2.1], [2.2], [2.3], [70.0]])
    for seed in range(20):  # the last value is a cluster by itself in every start
        found = cluster_values(utility, 3, 3, np.random.default_rng(seed))
        assert found.of[:4].tolist() == [found.of[0]] * 4
        assert found.of[4:].tolist() == [1 - found.of[0]] * 5
        assert (found.count, found.absorbed) == (2, 1)


def test_where_no_start_has_two_clusters_there_is_one_and_nothing_is_absorbed() -> None:
    utility = np.array([[0.0], [0.0], [0.0], [0.0], [9.0], [9.0]])  # the nines never find a third
    found = cluster_values(utility, 3, 2, np.random.default_rng(0))
    assert found.of.tolist() == [0] * 6
    assert (found.count, found.absorbed) == (1, 0)


def test_the_sensitive_attribute_must_be_named_where_there_are_several() -> None:
    fields = {"q": {"role": "quasi_identifier"}, "s": {"role": "sensitive"}, "t": {"role": "sensitive"}}
    table = pd.DataFrame({"q": ["a"], "s": ["b"], "t": ["c"]})
    both = EncodedTable.encode(table, DataSchema.from_dict(fields))
    assert (sensitive_row(both, "s"), sensitive_row(both, "t")) == (0, 1)
    with pytest.raises(SchemaError, match=r"\['s', 't'\]: name one of them"):
        sensitive_row(both, None)
    with pytest.raises(
        SchemaError, match=r"'q' is no sensitive attribute of the schema; it has \['s', 't'\]"
    ):
        sensitive_row(both, "q")
    one = EncodedTable.encode(table[["q", "s"]], DataSchema.from_dict(fields).select(["q", "s"]))
    assert sensitive_row(one, None) == 0
    none = EncodedTable.encode(table[["q"]], DataSchema.from_dict(fields).select(["q"]))
    with pytest.raises(SchemaError, match="requires a sensitive attribute"):
        sensitive_row(none, None)


def test_only_values_in_play_are_clustered() -> None:
    utility = np.array([[0.0], [0.5], [0.1], [1.0]])
    codes = np.array([3, 0, 3, 2], dtype=np.int32)
    found = clusters_in_play(codes, utility, 1, 2, np.random.default_rng(0))
    assert found.of[1] == -1
    assert found.of[0] == found.of[2] != found.of[3]
    assert (found.count, found.absorbed) == (2, 0)
