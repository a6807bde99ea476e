"""OBPA: weights, models, cuts and outliers do what their names say."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, EncodedTable, Hierarchy, Recoding, SchemaError, load_method
from privacy_engine.anonymizers.cell_suppression import with_flat_domains
from privacy_engine.measures.utility import gcp, suppressed_cells
from privacy_release.spec.files import load_schema

TREES = ("native-country", "marital-status", "race", "workclass")
NUMBERS = ("age", "capital-gain", "education-num", "hours-per-week")
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric"},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
        "city": {"role": "quasi_identifier", "hierarchy": "cities"},
        "colour": {"role": "quasi_identifier"},
        "disease": {"role": "sensitive"},
    },
    {"cities": Hierarchy((("Bern", "west", "*"), ("Biel", "west", "*"), ("Chur", "east", "*")))},
)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    n = 400
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "grade": rng.choice(["low", "mid", "high"], n),
            "city": rng.choice(["Bern", "Biel", "Chur"], n),
            "colour": rng.choice(["red", "green", "blue"], n, p=[0.8, 0.1, 0.1]),
            "disease": rng.choice(["flu", "cold", "gout"], n),
        }
    )


@pytest.fixture(scope="module")
def encoded(table: pd.DataFrame) -> EncodedTable:
    return EncodedTable.encode(table, SCHEMA)


def recoded(encoded: EncodedTable, **parameters: object) -> Recoding:
    return load_method("obpa", **parameters).anonymize(encoded, np.random.default_rng(1))


def suppressed_of(recoding: Recoding, attribute: str) -> int:
    """Cells of one attribute that their class does not share, in a suppression model."""
    j = recoding.encoded.quasi_identifiers.index(attribute)
    return int(recoding.sizes[recoding.spans[0][:, j] >= len(recoding.encoded.domains[j].values)].sum())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"weights": {"age": -1.0}}, r"finite and >= 0; those of \['age'\]"),
        ({"weights": {"age": float("nan")}}, "weights must be a mapping from text to a finite number"),
        ({"weights": {"age": float("inf")}}, "weights must be a mapping from text to a finite number"),
        ({"weights": {"age": "heavy"}}, "weights must be a mapping from text to a finite number"),
        ({"weights": ["age"]}, "weights must be a mapping"),
        ({"order": "random"}, "order must be one of"),
        ({"cut": "blunt"}, "cut must be one of"),
        ({"distance": "far"}, "distance must be one of"),
        ({"model": "none"}, "model must be one of"),
        ({"outliers": "drop"}, "outliers must be one of"),
        ({"outlier_share": 1.0}, r"outlier_share must be in \[0, 1\)"),
        ({"min_samples": 0}, "min_samples must be >= 1"),
        ({"cut": "peaks", "order": "lexicographic"}, "must be used with order='optics'"),
        ({"outliers": "suppress", "outlier_share": 0.1, "suppression_limit": 0.05}, "must be <= suppression"),
    ],
)
def test_a_bad_parameter_is_refused_at_construction(bad: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_method("obpa", **bad)


def test_weights_of_unknown_attributes_are_refused_by_name(encoded: EncodedTable) -> None:
    with pytest.raises(SchemaError, match=r"\['disease', 'shoe'\] are none of"):
        recoded(encoded, weights={"shoe": 1.0, "age": 2.0, "disease": 1.0})


def test_weights_that_are_all_zero_are_refused(encoded: EncodedTable) -> None:
    with pytest.raises(SchemaError, match="must not be 0 for every"):
        recoded(encoded, weights=dict.fromkeys(encoded.quasi_identifiers, 0.0))


def test_weights_are_relative(encoded: EncodedTable) -> None:
    one, other = (
        recoded(encoded, weights=dict.fromkeys(encoded.quasi_identifiers, w), refine=False).labels
        for w in (1.0, 8.0)
    )
    assert np.array_equal(one, other)


@pytest.mark.parametrize("order", ["optics", "lexicographic"])
def test_an_attribute_of_overwhelming_weight_is_kept(encoded: EncodedTable, order: str) -> None:
    kept = recoded(encoded, k=4, weights={"city": 1e6}, order=order, model="suppression", refine=False)
    # three cities, so at most two classes straddle a boundary in the order
    assert suppressed_of(kept, "city") <= 2 * 7


def test_an_attribute_of_weight_0_is_given_up(encoded: EncodedTable) -> None:
    given = recoded(encoded, k=4, weights={"age": 0.0}, model="suppression")
    assert suppressed_of(given, "age") > suppressed_of(recoded(encoded, k=4, model="suppression"), "age")


@pytest.mark.parametrize("intervals", ["text", "bounds"])
def test_under_the_suppression_model_a_cell_is_its_value_or_nothing(
    table: pd.DataFrame, intervals: str
) -> None:
    method = load_method("obpa", k=4, model="suppression", intervals=intervals)
    release = method.release(table, SCHEMA, np.random.default_rng(1))
    for name in ("grade", "city", "colour"):
        assert set(release.table[name]) <= {*table[name].unique(), "*"}
    stars = int((release.table[["grade", "city", "colour"]] == "*").to_numpy().sum())
    if intervals == "text":
        assert set(release.table["age"]) <= {*map(str, table["age"].unique()), "*"}
        stars += int((release.table["age"] == "*").sum())
    else:
        low, high = release.table["age_from"], release.table["age_to"]
        assert low.dtype == high.dtype == "Int64"
        assert low.equals(high)
        own = table["age"].iloc[release.rows].reset_index(drop=True)
        assert (low.dropna() == own[low.notna()]).all()
        stars += int(low.isna().sum())
    assert stars > 0
    assert release.recoding is not None
    assert stars == suppressed_cells(release.recoding)
    assert gcp(release.recoding) == pytest.approx(stars / (4 * len(table)))


def test_flat_domains_keep_codes_and_values(encoded: EncodedTable) -> None:
    flat = with_flat_domains(encoded)
    alone = Recoding.of_labels(flat, np.arange(len(flat)))  # every record its own class: nothing is lost
    shown, _ = alone.render()
    assert sorted(shown["age_from"]) == sorted(shown["age_to"]) == sorted(encoded.table["age"])
    for name in encoded.quasi_identifiers[1:]:
        assert sorted(shown[name]) == sorted(encoded.table[name].astype(str))


@pytest.mark.parametrize("model", ["generalization", "suppression"])
def test_the_exact_cut_loses_no_more_than_the_peaks(encoded: EncodedTable, model: str) -> None:
    exact, peaks = (
        gcp(recoded(encoded, k=5, model=model, cut=cut, refine=False)) for cut in ("exact", "peaks")
    )
    assert exact <= peaks


@pytest.mark.parametrize("order", ["optics", "lexicographic"])
@pytest.mark.parametrize("model", ["generalization", "suppression"])
def test_refinement_never_loses_more(encoded: EncodedTable, model: str, order: str) -> None:
    plain, refined = (
        gcp(recoded(encoded, k=5, model=model, order=order, refine=refine)) for refine in (False, True)
    )
    assert refined <= plain


def far_away(table: pd.DataFrame) -> pd.DataFrame:
    """Eight more records, far from all others and from each other."""
    lone = table.head(8).assign(age=range(1000, 9000, 1000))
    return pd.concat([table, lone], ignore_index=True)


def with_outliers(table: pd.DataFrame, outliers: str, **parameters: object) -> Recoding:
    return recoded(
        EncodedTable.encode(far_away(table), SCHEMA),
        **{
            "k": 4,
            "outliers": outliers,
            "outlier_share": 0.02,
            "weights": {"age": 50.0},  # else another city is as far as the oldest
            "refine": False,
        }
        | parameters,
    )


def test_outliers_are_suppressed_where_asked(table: pd.DataFrame) -> None:
    recoding = with_outliers(table, "suppress", suppression_limit=0.02)
    assert recoding.suppressed == 8
    assert recoding.encoded.table["age"][recoding.labels < 0].min() >= 1000


@pytest.mark.parametrize("order", ["optics", "lexicographic"])
def test_grouped_outliers_share_no_class_with_others(table: pd.DataFrame, order: str) -> None:
    recoding = with_outliers(table, "group", order=order)
    lone = (recoding.encoded.table["age"] >= 1000).to_numpy()
    assert not set(recoding.labels[lone]) & set(recoding.labels[~lone])
    assert recoding.suppressed == 0


def test_assigned_outliers_join_the_classes_of_others(table: pd.DataFrame) -> None:
    recoding = with_outliers(table, "assign")
    lone = (recoding.encoded.table["age"] >= 1000).to_numpy()
    assert set(recoding.labels[lone]) <= set(recoding.labels[~lone])
    assert recoding.suppressed == 0


def test_fewer_outliers_than_k_are_assigned_instead_of_grouped(table: pd.DataFrame) -> None:
    recoding = with_outliers(table, "group", k=9)
    assert recoding.sizes.min() >= 9
    assert recoding.suppressed == 0


def test_the_whole_limit_is_shared_by_outliers_and_repair(table: pd.DataFrame) -> None:
    recoding = with_outliers(table, "suppress", suppression_limit=0.05, l=3)
    assert 8 <= recoding.suppressed <= 0.05 * len(recoding.encoded)


@pytest.mark.parametrize("order", ["optics", "lexicographic"])
def test_blocks_keep_k(encoded: EncodedTable, order: str) -> None:
    recoding = recoded(encoded, k=5, l=2, order=order, block_size=100)
    assert recoding.sizes.min() >= 5


@pytest.fixture(scope="module")
def adult() -> EncodedTable:
    folder = os.environ.get("PRIVACY_DATA")
    if folder is None:
        pytest.skip("set PRIVACY_DATA to the folder of adult.parquet")
    fields = {name: {"role": "quasi_identifier", "kind": "numeric"} for name in NUMBERS} | {
        name: {"role": "quasi_identifier", "hierarchy": f"hierarchies/adult/{name}.csv"} for name in TREES
    }
    complete = pd.read_parquet(Path(folder) / "adult.parquet").dropna()
    frame = complete[list(fields)].sample(6000, random_state=1).reset_index(drop=True)
    return EncodedTable.encode(frame, load_schema(fields))


def test_on_adult_the_entropy_distance_beats_the_papers_under_the_suppression_model(
    adult: EncodedTable,
) -> None:
    ours, papers = (
        suppressed_cells(recoded(adult, k=16, model="suppression", distance=d, refine=False))
        for d in ("entropy", "paper")
    )
    assert ours < papers


@pytest.mark.slow  # needs all of Adult
def test_on_adult_a_doubled_weight_lowers_the_attributes_suppressed_cells(adult: EncodedTable) -> None:
    equal = recoded(adult, k=16, model="suppression")
    for attribute in ("age", "race"):
        doubled = recoded(adult, k=16, model="suppression", weights={attribute: 2.0})
        assert suppressed_of(doubled, attribute) < suppressed_of(equal, attribute)
