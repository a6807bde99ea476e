"""Utility of synthetic tables: values worked out by hand, brute force by the definitions, and edge cases."""

import itertools
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from privacy_engine.errors import SchemaError
from privacy_engine.measures.synthetic_learning import accuracy, train_on_synthetic
from privacy_engine.measures.synthetic_utility import (
    coded,
    coded_marginal_tvd,
    correlation_difference,
    marginal_tvd,
    wasserstein,
)
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role
from tests.synthetic_tables import SCHEMA, people

ABC = DataSchema(
    (
        Attribute(name="a", categories=("x", "y")),
        Attribute(name="b", categories=("u", "v", "w"), nullable=True),
        Attribute(name="c", kind=Kind.NUMERIC, bounds=(0, 3)),
    )
)
ROW = st.tuples(
    st.sampled_from(["x", "y"]), st.sampled_from(["u", "v", "w", None]), st.integers(min_value=0, max_value=3)
)


def abc(rows: list[tuple[str, str | None, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["a", "b", "c"])


def test_distances_of_a_hand_worked_table() -> None:
    real = abc([("x", "u", 0), ("x", "u", 0), ("y", "v", 1), ("y", "v", 1)])
    drawn = abc([("x", "v", 0), ("y", "u", 0)])
    one, two = marginal_tvd(real, drawn, ABC, 1), marginal_tvd(real, drawn, ABC, 2)
    assert dict(zip(one.subsets, one.tvd, strict=True)) == {("a",): 0.0, ("b",): 0.0, ("c",): 0.5}
    assert dict(zip(two.subsets, two.tvd, strict=True)) == {("a", "b"): 1.0, ("a", "c"): 0.5, ("b", "c"): 0.5}
    assert two.mean == pytest.approx(2 / 3)
    assert two.worst(2) == [(("a", "b"), 1.0), (("a", "c"), 0.5)]


@given(st.lists(ROW, min_size=1, max_size=8), st.lists(ROW, min_size=1, max_size=8), st.integers(1, 3))
def test_distances_are_those_of_the_definition(
    real: list[tuple[str, str | None, int]], drawn: list[tuple[str, str | None, int]], ways: int
) -> None:
    found = marginal_tvd(abc(real), abc(drawn), ABC, ways)
    for subset, distance in zip(found.subsets, found.tvd, strict=True):
        places = ["abc".index(name) for name in subset]
        ours, theirs = (Counter(tuple(row[p] for p in places) for row in rows) for rows in (real, drawn))
        by_hand = sum(abs(ours[k] / len(real) - theirs[k] / len(drawn)) for k in ours.keys() | theirs.keys())
        assert distance == pytest.approx(by_hand / 2)


def test_every_subset_of_attributes_is_measured_once() -> None:
    rng = np.random.default_rng(1)
    found = marginal_tvd(people(50, rng), people(50, rng), SCHEMA, 3)
    assert found.subsets == tuple(itertools.combinations(SCHEMA.without_identifiers().names, 3))


def test_marginals_of_very_many_cells_are_measured_by_those_that_occur() -> None:
    texts = tuple(str(i) for i in range(2500))  # 6.25 million cells, above what is held whole
    schema = DataSchema(tuple(Attribute(name=name, categories=texts) for name in "ab"))
    rng = np.random.default_rng(3)
    real, drawn = (pd.DataFrame({name: rng.choice(texts[:9], rows) for name in "ab"}) for rows in (70, 110))
    ours, theirs = (Counter(zip(t["a"], t["b"], strict=True)) for t in (real, drawn))
    by_hand = sum(abs(ours[k] / 70 - theirs[k] / 110) for k in ours.keys() | theirs.keys()) / 2
    assert marginal_tvd(real, drawn, schema, 2).mean == pytest.approx(by_hand)


def test_equal_tables_are_at_no_distance_whatever_the_order_and_number_of_their_records() -> None:
    table = people(80, np.random.default_rng(4))
    twice = pd.concat([table, table]).sample(frac=1, random_state=0)
    assert marginal_tvd(table, twice, SCHEMA, 3).mean == pytest.approx(0, abs=1e-12)
    assert correlation_difference(table, table.iloc[::-1], SCHEMA).mean == pytest.approx(0, abs=1e-12)
    assert max(wasserstein(table, twice, SCHEMA).values()) == pytest.approx(0, abs=1e-12)


def test_a_domain_that_is_not_public_is_refused() -> None:
    table = pd.DataFrame({"a": ["x", "y"]})
    with pytest.raises(SchemaError, match="no public domain"):
        marginal_tvd(table, table, DataSchema((Attribute(name="a"),)), 1)


@pytest.mark.parametrize("ways", [0, 4])
def test_marginals_of_more_attributes_than_there_are_are_refused(ways: int) -> None:
    table = abc([("x", "u", 0)])
    with pytest.raises(ValueError, match=r"ways must be in 1 \.\. 3"):
        marginal_tvd(table, table, ABC, ways)


def test_tables_over_other_domains_are_refused() -> None:
    table = abc([("x", "u", 0)])
    wider = DataSchema((*ABC.attributes[:2], Attribute(name="c", kind=Kind.NUMERIC, bounds=(0, 9))))
    with pytest.raises(ValueError, match="same attributes and domains"):
        coded_marginal_tvd(coded(table, ABC), coded(table, wider), 1)


def test_identifiers_are_no_attributes() -> None:
    rng = np.random.default_rng(5)
    real, drawn = people(40, rng), people(40, rng)
    without = marginal_tvd(real, drawn.drop(columns="name").assign(name="no one"), SCHEMA, 1)
    assert without.mean == marginal_tvd(real, drawn, SCHEMA, 1).mean
    assert ("name",) not in without.subsets


@pytest.mark.needs_data
def test_independent_columns_of_nltcs_are_as_far_off_as_published() -> None:
    folder = os.environ.get("PRIVACY_DATA")
    if not folder:
        pytest.skip("PRIVACY_DATA names no folder with nltcs.parquet")
    table = pd.read_parquet(Path(folder) / "nltcs.parquet")
    schema = DataSchema(tuple(Attribute(name=name, categories=("0", "1")) for name in table.columns))
    real = table.sample(frac=0.8, random_state=1)
    rng = np.random.default_rng(2)
    shuffled = pd.DataFrame({name: rng.permutation(real[name].to_numpy()) for name in real.columns})
    assert marginal_tvd(real, shuffled, schema, 3).mean == pytest.approx(0.253, abs=0.003)


def test_wasserstein_of_a_hand_worked_table() -> None:
    schema = DataSchema(
        (
            Attribute(name="age", kind=Kind.NUMERIC, bounds=(0, 20)),
            Attribute(name="grade", kind=Kind.ORDINAL, categories=("low", "middle", "high"), nullable=True),
            Attribute(name="town", categories=("A", "B")),
        )
    )
    real = pd.DataFrame({"age": [0, 0, 10, 10], "grade": ["low", "low", None, None], "town": list("AABB")})
    drawn = pd.DataFrame(
        {"age": [0, 0, 0, 10], "grade": ["low", "high", "low", "high"], "town": list("AAAA")}
    )
    # age: a quarter of the records moves by 10 of 20; grade: half of those known moves from end to end
    assert wasserstein(real, drawn, schema) == pytest.approx({"age": 0.125, "grade": 0.5})


def test_correlations_of_a_copy_are_one_and_of_independent_attributes_none() -> None:
    schema = DataSchema(
        (
            Attribute(name="x", kind=Kind.NUMERIC, bounds=(0, 9)),
            Attribute(name="minus_x", kind=Kind.NUMERIC, bounds=(-9, 0)),
            Attribute(name="a", categories=tuple("012")),
            Attribute(name="copy", categories=tuple("012")),
            Attribute(name="constant", categories=("k",)),
        )
    )
    values = pd.DataFrame(list(itertools.product(range(10), "012", range(2))), columns=["x", "a", "i"])
    table = values.assign(minus_x=-values["x"], copy=values["a"], constant="k")[list(schema.names)]
    found = correlation_difference(table, table, schema).real
    by_pair = {
        (schema.names[i], schema.names[j]): found[i, j] for i, j in itertools.combinations(range(5), 2)
    }
    assert by_pair["x", "minus_x"] == pytest.approx(-1)
    assert by_pair["a", "copy"] == pytest.approx(1, abs=0.02)  # Bergsma's correction keeps just below
    assert [by_pair["x", "a"], by_pair["x", "constant"], by_pair["a", "constant"]] == [0, 0, 0]
    assert (found == found.T).all()


def test_cramers_v_is_bergsmas_of_a_hand_worked_table() -> None:
    schema = DataSchema(tuple(Attribute(name=name, categories=("0", "1")) for name in "ab"))
    table = pd.DataFrame({"a": list("0000011111"), "b": list("0000101111")})
    # counts 4 1 / 1 4: phi^2 = 0.36, less 1/9; the number of rows and columns 2 - 1/9 each
    expected = np.sqrt((0.36 - 1 / 9) / (1 - 1 / 9))
    assert correlation_difference(table, table, schema).real[0, 1] == pytest.approx(expected)


def test_what_is_lost_shows_in_the_difference_of_its_pair() -> None:
    rng = np.random.default_rng(6)
    real = people(2000, rng)
    drawn = real.assign(wage=rng.permutation(real["wage"].to_numpy()))
    found = correlation_difference(real, drawn, SCHEMA)
    grade, wage = found.names.index("grade"), found.names.index("wage")
    # Pearson's r of grade and wage is about 0.94; of shuffled ones its standard error is below 0.025
    assert found.difference[grade, wage] > 0.7
    assert np.unravel_index(found.difference.argmax(), found.difference.shape) in (
        (grade, wage),
        (wage, grade),
    )


def test_a_classifier_learns_from_synthetic_records_what_they_hold() -> None:
    rng = np.random.default_rng(7)
    real, other = people(1500, rng), people(1500, rng)
    flipped = other.assign(ill=other["ill"].map({"yes": "no", "no": "yes"}))
    good = train_on_synthetic(real, other, people(1500, rng), SCHEMA, ["ill"], rng)["ill"]
    bad = train_on_synthetic(real, flipped, people(1500, rng), SCHEMA, ["ill"], rng)["ill"]
    # The standard error of an accuracy on 1,500 records is below 0.013: the margins are six and more of them.
    assert good.real > good.majority + 0.08
    assert good.synthetic == pytest.approx(good.real, abs=0.08)
    assert bad.synthetic < 0.35


def test_weighted_distinct_records_train_the_machine_that_all_records_train() -> None:
    rng = np.random.default_rng(8)
    names = ["job", "grade", "ill"]  # 5 x 4 x 2 values: 400 records repeat themselves
    schema = SCHEMA.select(names)
    train, test = coded(people(400, rng)[names], schema), coded(people(300, rng)[names], schema)
    features = [np.hstack([np.eye(5)[t.codes[0]], np.eye(4)[t.codes[1]]]) for t in (train, test)]
    machine = SVC().fit(features[0], train.codes[2])
    by_hand = np.mean(machine.predict(features[1]) == test.codes[2])
    assert accuracy(train, test, "ill") == pytest.approx(by_hand, abs=1e-12)


def test_records_with_one_value_of_the_target_teach_to_name_it() -> None:
    rng = np.random.default_rng(9)
    real, test = people(200, rng), people(200, rng)
    score = train_on_synthetic(real, real.assign(ill="yes"), test, SCHEMA, ["ill"], rng)["ill"]
    assert score.synthetic == pytest.approx((test["ill"] == "yes").mean())


def test_attributes_of_one_value_teach_no_more_than_the_majority() -> None:
    schema = DataSchema(
        (Attribute(name="a", categories=("x", "y")), *(Attribute(name=n, categories=("k",)) for n in "bc"))
    )
    table = pd.DataFrame({"a": list("xxxyx"), "b": "k", "c": "k"})
    score = train_on_synthetic(table, table, table, schema, ["a"], np.random.default_rng(0))["a"]
    assert score.real == score.synthetic == score.majority == 0.8


def test_an_unknown_target_is_refused() -> None:
    rng = np.random.default_rng(10)
    table = people(30, rng)
    with pytest.raises(SchemaError, match="no attribute 'weight'"):
        train_on_synthetic(table, table, table, SCHEMA, ["weight"], rng)


def test_a_target_alone_cannot_be_predicted() -> None:
    schema = DataSchema((Attribute(name="a", categories=("x", "y"), role=Role.SENSITIVE),))
    table = pd.DataFrame({"a": ["x", "y"]})
    with pytest.raises(ValueError, match="another attribute"):
        train_on_synthetic(table, table, table, schema, ["a"], np.random.default_rng(0))
