"""The forward pass, the privacy test and the recoding by features, each beside brute force."""

import itertools
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.feature_selection import (
    class_label,
    forward_pass,
    gain_order,
    label_entropy,
    privacy_test,
    refined,
)
from privacy_engine.anonymizers.greedy_hamdist import GreedyHamdist
from privacy_engine.errors import SchemaError
from privacy_engine.measures.utility import gcp, ncp
from privacy_engine.recoding.features.features import (
    FeatureRecoding,
    attribute_features,
    attribute_levels,
    equal_width_bins,
    one_hot,
    value_features,
)
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    TCloseness,
    holds,
)
from privacy_engine.vocabulary import released_as

CITIES = Hierarchy(
    (("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*"), ("Zug", "north", "*"))
)
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "city": {"role": "quasi_identifier", "hierarchy": "cities"},
        "colour": {"role": "quasi_identifier"},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
        "disease": {"role": "sensitive"},
        "outcome": {},
    },
    {"cities": CITIES},
)


def people(n: int = 200, seed: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.integers(0, 101, n),
        "city": rng.choice(CITIES.values, n, p=[0.5, 0.3, 0.15, 0.05]),
        "colour": rng.choice(["red", "green", "blue"], n, p=[0.6, 0.3, 0.1]),
        "grade": rng.choice(["low", "mid", "high"], n),
        "disease": rng.choice(["flu", "cold", "gout"], n, p=[0.5, 0.3, 0.2]),
    }
    return pd.DataFrame(columns | {"outcome": np.where(columns["age"] > 50, "bad", "good")})


def encode(table: pd.DataFrame) -> EncodedTable:
    return EncodedTable.encode(table, SCHEMA)


def brute_force_pass(encoded: EncodedTable, features, order, allowed) -> list[int]:
    """Levels by counting the tuples of every subset again; ``allowed`` judges the diseases of a class."""
    levels, cells = [-1] * len(features), [() for _ in range(len(encoded))]
    for number in order:
        for level in range(len(features[number].levels)):
            groups = features[number].groups(encoded.codes, level)
            trial = [(*cell, int(group)) for cell, group in zip(cells, groups, strict=True)]
            diseases = defaultdict(list)
            for cell, disease in zip(trial, encoded.table["disease"], strict=True):
                diseases[cell].append(disease)
            if all(map(allowed, diseases.values())):
                levels[number], cells = level, trial
                break
    return levels


@pytest.mark.parametrize("make", [value_features, attribute_features])
@pytest.mark.parametrize("generalize", [True, False])
@pytest.mark.parametrize(
    ("models", "allowed"),
    [
        ([KAnonymity(k=7)], lambda d: len(d) >= 7),
        ([KAnonymity(k=2), DistinctLDiversity(l=3)], lambda d: len(set(d)) >= 3),
        (
            [KAnonymity(k=2), EntropyLDiversity(l=2)],
            lambda d: -sum(c / len(d) * np.log(c / len(d)) for c in Counter(d).values()) >= np.log(2) - 1e-9,
        ),
    ],
    ids=["k", "distinct l", "entropy l"],
)
def test_the_forward_pass_equals_counting_every_subset_again(make, generalize, models, allowed) -> None:
    encoded = encode(people())
    features = make(encoded, 5, generalize=generalize)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(features))
        found = forward_pass(encoded, features, order, models)
        assert list(found.levels) == brute_force_pass(encoded, features, order, allowed)
        assert max(found.levels) >= 0


def test_no_dropped_feature_could_have_stayed() -> None:
    encoded = encode(people())
    features = value_features(encoded, 5, generalize=False)
    models = [KAnonymity(k=5), TCloseness(t=0.3)]
    selection = forward_pass(encoded, features, np.arange(len(features)), models)
    dropped = [f for f, level in zip(features, selection.levels, strict=True) if level < 0]
    assert dropped
    for feature in dropped:
        assert privacy_test(encoded, refined(selection.labels, feature.groups(encoded.codes)), models) is None


def test_a_feature_is_generalized_before_it_is_dropped() -> None:
    table = people().assign(age=1, colour="red", grade="low")
    k = int((table["city"] == "Zug").sum()) + 1  # one record too few for a separate class
    kept, dropped = (
        GreedyHamdist(k=k, target="disease", one_hot=False, generalize=generalize).release(
            table, SCHEMA, np.random.default_rng(1)
        )
        for generalize in (True, False)
    )
    assert set(kept.table["city"]) == {"north", "south"}
    assert kept.notes["generalized features"] == 1
    assert "city" not in dropped.table.columns


def test_a_suppression_limit_keeps_more_and_suppresses_no_more_than_it_allows() -> None:
    encoded = encode(people())
    city_and_colour = attribute_features(encoded, 5, generalize=False)[1:3]
    order, models = np.arange(2), [KAnonymity(k=5)]
    strict, loose = (forward_pass(encoded, city_and_colour, order, models, limit) for limit in (0.0, 0.15))
    assert (strict.levels, loose.levels) == ((0, -1), (0, 0))
    assert (strict.labels >= 0).all()
    assert 0 < (loose.labels < 0).mean() <= 0.15
    assert holds(models[0], encoded.classes_of(loose.labels))


def test_the_entropy_of_the_label_within_classes_is_that_of_its_definition() -> None:
    labels, y = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1])
    expected = -(4 / 6) * (0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert label_entropy(labels, y) == pytest.approx(expected)


def test_each_feature_in_the_order_of_gain_is_the_allowed_one_that_tells_most_beside_those_before() -> None:
    encoded = encode(people())
    y, k = class_label(encoded, "disease"), 9
    features = value_features(encoded, 5, generalize=False)
    given = np.random.default_rng(3).permutation(len(features))
    order = gain_order(encoded, features, given, [KAnonymity(k=k)], y)
    assert sorted(order) == list(range(len(features)))
    kept: list[int] = []

    def remains(numbers: list[int]) -> float:  # entropy by counting, infinite where k is missed
        cells = list(zip(*(features[a].groups(encoded.codes).tolist() for a in numbers), strict=True))
        sizes, pairs = Counter(cells), Counter(zip(cells, y.tolist(), strict=True))
        if min(sizes.values()) < k:
            return np.inf
        return -sum(c * np.log(c / sizes[cell]) for (cell, _), c in pairs.items()) / len(y)

    for number in order:
        trials = {a: remains([*kept, a]) for a in range(len(features)) if a not in kept}
        if kept and min(trials.values()) >= remains(kept) - 1e-9:
            break
        assert trials[int(number)] == pytest.approx(min(trials.values()), abs=1e-9)
        kept.append(int(number))
    assert len(kept) >= 3
    rest = [number for number in order if number not in kept]
    assert rest == [number for number in given if number not in kept]


@pytest.mark.parametrize("limit", [0.0, 0.1])
def test_a_release_in_the_order_of_gain_keeps_its_guarantees(limit: float) -> None:
    release = released(order="gain", l=3, suppression_limit=limit)
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert all(holds(model, classes) for model in release.guarantees)
    assert release.notes["kept features"] > 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30),
    st.sampled_from([1, 10_000]),
)
def test_refined_classes_are_those_of_the_pairs(pairs: list[tuple[int, int]], stretch: int) -> None:
    labels, groups = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    labels = np.unique(labels, return_inverse=True)[1]
    found = refined(labels, groups * stretch)
    assert sorted(set(found)) == list(range(len(set(zip(labels, groups, strict=True)))))
    for i in range(len(pairs)):
        same = (labels == labels[i]) & (groups == groups[i])
        assert np.array_equal(found == found[i], same)


def test_bins_hold_the_upper_end_as_in_the_paper() -> None:
    ages = np.array([0.0, 1, 20, 21, 40, 41, 60, 61, 80, 81, 100, np.nan])
    assert equal_width_bins(ages, 0, 100, 5).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


def test_levels_nest_and_end_before_they_tell_nothing() -> None:
    encoded = encode(people())
    for j in range(4):
        levels = attribute_levels(encoded, j, 5)
        assert all(level.max() > 0 for level in levels)
        for fine, coarse in itertools.pairwise(levels):
            assert len(set(zip(fine, coarse, strict=True))) == len(set(fine))
    assert [len(attribute_levels(encoded, j, 5)) for j in range(4)] == [3, 2, 1, 2]


def test_one_hot_columns_are_the_indicators_of_what_occurs() -> None:
    table = people()
    encoded = encode(table)
    columns, owner = one_hot(encoded, value_features(encoded, 5, generalize=False))
    assert columns.shape == (200, 5 + 4 + 3 + 3)
    assert owner.tolist() == list(range(15))
    assert sorted(columns.sum(axis=0)[9:12]) == sorted(table["colour"].value_counts())
    together, owners = one_hot(encoded, attribute_features(encoded, 5, generalize=False))
    assert np.array_equal(together, columns)
    assert owners.tolist() == [0] * 5 + [1] * 4 + [2] * 3 + [3] * 3


def released(**parameters):
    return GreedyHamdist(**({"k": 8, "target": "disease"} | parameters)).release(
        people(), SCHEMA, np.random.default_rng(1)
    )


@pytest.mark.parametrize("one_hot", [True, False])
def test_every_released_cell_covers_the_value_it_stands_for(one_hot: bool) -> None:
    recoding = released(one_hot=one_hot).recoding
    assert isinstance(recoding, FeatureRecoding)
    encoded = recoding.encoded
    lo, hi = recoding.spans
    for j, domain in enumerate(encoded.domains):
        codes = encoded.codes[:, j]
        if isinstance(domain, Hierarchy):
            assert (domain.nodes[codes] == lo[recoding.labels, j][:, None]).any(axis=1).all()
        else:
            assert ((lo[recoding.labels, j] <= codes) & (codes <= hi[recoding.labels, j])).all()
        classes, members = recoding.members(j)
        held = set(zip(classes.tolist(), members.tolist(), strict=True))
        assert set(zip(recoding.labels.tolist(), codes.tolist(), strict=True)) <= held
        expected = {
            (int(c), int(x)) for c, v in zip(recoding.labels, codes, strict=True)
            for x in np.flatnonzero(recoding.groups[j] == recoding.groups[j][v])
        }  # fmt: skip
        assert held == expected
        assert list(zip(classes, members, strict=True)) == sorted(held)


def test_the_release_has_the_classes_of_the_features_and_no_more() -> None:
    release = released()
    shown = EquivalenceClasses.of_table(release.table, release.schema)
    assert sorted(shown.sizes) == sorted(release.recoding.sizes)


def test_a_dropped_attribute_has_no_column_and_is_charged_as_a_whole() -> None:
    release = released(k=60, one_hot=False, generalize=False)
    dropped = [a.name for a in SCHEMA.quasi_identifiers if a.name not in release.table.columns]
    assert dropped
    assert list(release.schema.names) == list(release.table.columns)
    loss = dict(zip(release.recoding.encoded.quasi_identifiers, ncp(release.recoding), strict=True))
    assert all(loss[name] == 1.0 for name in dropped)


def test_where_nothing_can_be_kept_the_table_is_released_without_quasi_identifiers() -> None:
    release = released(k=150)
    assert set(release.table.columns) == {"disease", "outcome"}
    assert len(release.table) == 200
    assert gcp(release.recoding) == 1.0
    assert holds(KAnonymity(k=150), EquivalenceClasses.of_table(release.table, release.schema))


def test_notes_count_what_was_kept_and_name_no_value() -> None:
    notes = released().notes
    assert notes["kept quasi-identifiers"] + notes["dropped quasi-identifiers"] == 4
    assert notes["kept features"] + notes["dropped features"] == 15
    names = {key.removeprefix("importance of ") for key in notes if key.startswith("importance of ")}
    assert names == {"age", "city", "colour", "grade"}


def test_an_insensitive_attribute_may_be_the_target() -> None:
    notes = released(target="outcome").notes
    importance = {name: notes[f"importance of {name}"] for name in ("age", "city", "colour", "grade")}
    assert max(importance, key=importance.__getitem__) == "age"


def test_the_codes_of_a_target_do_not_depend_on_the_order_of_the_records() -> None:
    table = people().assign(outcome=lambda t: t["outcome"].where(t["age"] > 10))
    one, other = encode(table), encode(table.iloc[::-1])
    for value in ("bad", "good"):
        first, second = (
            set(class_label(e, "outcome")[(e.table["outcome"] == value).to_numpy()]) for e in (one, other)
        )
        assert first == second
    assert len(set(class_label(one, "outcome"))) == 3  # a null is a label


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("age", "target 'age' is a quasi-identifier; it must be sensitive or insensitive"),
        ("shoe", "no attribute 'shoe' in the schema"),
    ],
)
def test_a_target_that_cannot_be_one_is_refused(target: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        released(target=target)


def test_a_schema_without_one_sensitive_attribute_needs_a_target() -> None:
    schema = SCHEMA.select(["age", "city", "outcome"])
    table = people()[["age", "city", "outcome"]]
    with pytest.raises(SchemaError, match="0 sensitive attributes, so target must name the class label"):
        GreedyHamdist().release(table, schema, np.random.default_rng(1))
    release = GreedyHamdist(target="outcome").release(table, schema, np.random.default_rng(1))
    assert holds(KAnonymity(k=5), EquivalenceClasses.of_table(release.table, release.schema))


@pytest.mark.parametrize("bad", [{"bins": 1}, {"bins": 2.5}, {"target": ""}, {"order": "random"}], ids=str)
def test_a_bad_parameter_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        GreedyHamdist(**bad)


def test_a_quasi_identifier_of_too_many_values_is_refused_by_name_and_count() -> None:
    n = 25_000
    table = pd.DataFrame({"colour": np.arange(n).astype(str), "disease": np.resize(["flu", "cold"], n)})
    schema = SCHEMA.select(["colour", "disease"])
    with pytest.raises(SchemaError, match=r"25000 values or bins.*Most belong to 'colour' \(25000\)"):
        GreedyHamdist().release(table, schema, np.random.default_rng(1))


def test_a_constant_table_keeps_all_its_columns() -> None:
    table = people().assign(age=40, city="Bern", colour="red", grade="low")
    release = GreedyHamdist(k=5, target="disease").release(table, SCHEMA, np.random.default_rng(1))
    assert release.notes["dropped features"] == 0
    assert release.recoding.classes == 1
    kept = [column for name in table.columns for column in released_as(name, release.table.columns)]
    assert list(release.table.columns) == kept
    assert {"age_from", "age_to", *table.columns} == {"age", *kept}
