"""What every registered synthesizer must keep beyond the contract of release methods."""

import dataclasses
import inspect
import itertools
import json
import math
from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, InfeasibleError, PrivacyLoss, SchemaError, load_method
from privacy_engine.dp.accounting import check_bookkeeping, total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.registry import method_class
from privacy_engine.release import parameters_of
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.synthesizer import Synthesizer
from tests.contract.tables import PUBLIC_SCHEMA, SCHEMA, family, people, quick, released

methods = pytest.mark.parametrize("name", family(Synthesizer))
PEOPLE = people(1000)
PAIR = DataSchema.from_dict({"sex": {"categories": ["f", "m"]}, "smokes": {"categories": ["no", "yes"]}})


def measured(name: str, table: pd.DataFrame = PEOPLE, schema: DataSchema = PUBLIC_SCHEMA, **parameters):
    return quick(name, **parameters).measure(table, schema)


@cache
def model_of_people(name: str) -> SynthesizerModel:
    """The model of `PEOPLE` by the method of that name, measured once."""
    return measured(name)


def drawn(name: str, model: SynthesizerModel, seed: int, schema: DataSchema = PUBLIC_SCHEMA, **parameters):
    return quick(name, **parameters).release_of(model, schema, np.random.default_rng(seed))


def smokers(n: int) -> pd.DataFrame:
    """Two attributes that depend on each other: 30 % of the women and 80 % of the men smoke."""
    man = np.arange(n) % 2 == 1
    smokes = np.arange(n) % 20 < np.where(man, 16, 6)
    return pd.DataFrame({"sex": np.where(man, "m", "f"), "smokes": np.where(smokes, "yes", "no")})


# --- what is claimed


@pytest.mark.quick("3.5")  # books of other claims are checked below
@methods
@pytest.mark.parametrize("epsilon", [0.05, 1, 3.5])
def test_the_loss_is_epsilon_for_one_replaced_record(name: str, epsilon: float) -> None:
    claimed = PrivacyLoss(epsilon=epsilon, delta=0.0, neighbours=Neighbours.REPLACE_ONE)
    assert load_method(name, epsilon=epsilon).privacy_loss(PUBLIC_SCHEMA) == claimed
    assert load_method(name, epsilon=epsilon).guarantees(PUBLIC_SCHEMA) == ()
    assert released(name, {"epsilon": epsilon}, PEOPLE).loss == claimed


@pytest.mark.quick("0.1", "0.3", "7.0")  # sums of parts that round differently
@methods
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3, 1, 1.6, 7.0])
@pytest.mark.parametrize("columns", [("age",), ("age", "grade"), tuple(PUBLIC_SCHEMA.names)], ids=len)
def test_the_books_balance(name: str, epsilon: float, columns: tuple[str, ...]) -> None:
    schema = PUBLIC_SCHEMA.select(columns)
    model = measured(name, PEOPLE[list(columns)], schema, epsilon=epsilon)
    assert total(model.spends, Neighbours.REPLACE_ONE).epsilon <= epsilon
    assert all(f.passed for f in check_bookkeeping(model.loss, model.spends, schema, model.loss))


@methods
def test_the_budget_is_spent_and_not_left_over(name: str) -> None:
    assert total(model_of_people(name).spends, Neighbours.REPLACE_ONE).epsilon == pytest.approx(1, rel=1e-6)


@methods
def test_spends_name_attributes_and_nothing_else(name: str) -> None:
    texts = json.dumps([spend.target for spend in model_of_people(name).spends])
    values = {*PEOPLE["city"], *PEOPLE["colour"], *PEOPLE["disease"], *PEOPLE["grade"]}
    assert not [value for value in values if value in texts]


# --- where randomness comes from


@methods
def test_the_noise_cannot_be_seeded(name: str) -> None:
    """Two measurements alike by chance: far below 1e-9, some hundred noisy counts would have to agree."""
    assert list(inspect.signature(method_class(name).measure).parameters) == ["self", "table", "schema"]
    one, other = (released(name, {}, PEOPLE, seed=7).model, model_of_people(name))
    assert one.to_json() != other.to_json()


@methods
def test_equal_models_and_seeds_give_equal_records(name: str) -> None:
    model = model_of_people(name)
    one, other = (drawn(name, model, seed=5).table for _ in range(2))
    pd.testing.assert_frame_equal(one, other)
    assert not one.equals(drawn(name, model, seed=6).table)


@methods
def test_a_model_survives_json_and_gives_the_same_records(name: str) -> None:
    model = model_of_people(name)
    again = SynthesizerModel.from_json(model.to_json())
    assert again == model
    assert again.to_json() == model.to_json()
    pd.testing.assert_frame_equal(drawn(name, again, seed=5).table, drawn(name, model, seed=5).table)


@methods
def test_a_model_of_another_schema_is_refused(name: str) -> None:
    model = measured(name, smokers(100), PAIR)
    other = DataSchema.from_dict(PAIR.to_dict() | {"sex": {"categories": ["f", "m", "x"]}})
    with pytest.raises(ValueError, match="schema must be the one"):
        drawn(name, model, seed=5, schema=other)


# --- domains


@methods
@pytest.mark.parametrize("column", ["colour", "disease", "visits"])
def test_a_domain_that_the_schema_does_not_state_is_refused_with_the_remedy(name: str, column: str) -> None:
    fields = PUBLIC_SCHEMA.to_dict() | {column: SCHEMA.to_dict()[column]}
    with pytest.raises(SchemaError, match=f"'{column}'.*categories, bounds .* or a hierarchy"):
        measured(name, PEOPLE, DataSchema.from_dict(fields))


@methods
def test_released_values_are_of_the_domain_and_the_type_of_their_column(name: str) -> None:
    release = released(name, {"epsilon": 0.1}, PEOPLE)
    release.schema.check(release.table)
    assert list(release.table.columns) == [column for column in PUBLIC_SCHEMA.names if column != "name"]
    assert dict(release.table.dtypes) == dict(PEOPLE.drop(columns="name").dtypes)


@methods
def test_a_value_that_no_one_has_is_released_as_well(name: str) -> None:
    """Or its absence would tell.

    The noise is far above 100 records, so that a model has the value in more than a third of all cases: 60
    models miss it less than once in 1e10 runs.
    """
    table = smokers(100).assign(sex="f")
    assert any(joint(measured(name, table, PAIR, epsilon=0.02))[1].sum() > 0 for _ in range(60))


@methods
@pytest.mark.parametrize("levels", [{"city": 1}, {"city": 2}])
def test_a_level_of_a_hierarchy_still_gives_its_leaves(name: str, levels: Mapping[str, int]) -> None:
    release = released(name, {"levels": levels}, PEOPLE)
    assert set(release.table["city"]) == {"Bern", "Basel", "Chur", "Zug"}


@methods
@pytest.mark.parametrize(
    ("levels", "message"),
    [({"city": 3}, "'city' must be a level"), ({"age": 1}, "'age' must be a level"), ({"town": 1}, "town")],
)
def test_a_level_that_is_not_there_is_refused(name: str, levels: Mapping[str, int], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        measured(name, levels=levels)


@methods
def test_a_domain_too_large_to_count_is_refused_with_the_remedy(name: str) -> None:
    schema = DataSchema.from_dict({"code": {"categories": [str(i) for i in range(70_000)]}})
    with pytest.raises(SchemaError, match=r"'code' has 70000 values.*hierarchy"):
        measured(name, pd.DataFrame({"code": ["1", "2"] * 50}), schema)


# --- parameters


@methods
@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": "1"},
        {"epsilon": True},
        {"rows": 0},
        {"rows": -5},
        {"rows": 1.5},
        {"levels": {"city": -1}},
        {"levels": {"city": 1.5}},
        {"levels": ["city"]},
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_at_construction(name: str, bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        load_method(name, **bad)


@pytest.mark.quick("None", "5000")
@methods
@pytest.mark.parametrize(("rows", "expected"), [(None, 1000), (1, 1), (7, 7), (5000, 5000)])
def test_the_number_of_records_is_the_sources_or_the_one_asked_for(name: str, rows, expected: int) -> None:
    release = released(name, {"rows": rows}, PEOPLE)
    assert len(release.table) == expected
    assert release.model.rows == len(PEOPLE)


@methods
def test_the_number_of_records_is_no_parameter_of_a_measurement(name: str) -> None:
    few, many = (load_method(name, rows=rows).measurement_parameters() for rows in (7, 5000))
    assert few == many
    # Without a delta, a bound of persons and a share for quantiles other than the default, a measurement has
    # the name that it always had.
    # Replicates are made of what was measured.
    given = set(parameters_of(load_method(name)))
    assert given - set(few) == given & {
        *("rows", "max_rows", "weight", "delta", "replicates", "quantile_share"),
    }


@methods
def test_parameters_survive_a_round_trip_through_json(name: str) -> None:
    method = load_method(name, epsilon=0.3, rows=9, levels={"city": 1})
    assert load_method(name, **json.loads(json.dumps(parameters_of(method)))) == method


# --- what is measured


def joint(model: SynthesizerModel) -> np.ndarray:
    return model.network.marginal(["sex", "smokes"])


@methods
def test_with_hardly_any_noise_two_attributes_come_back_as_they_were(name: str) -> None:
    truth = np.array([[0.35, 0.15], [0.1, 0.4]])
    assert np.abs(joint(measured(name, smokers(2000), PAIR, epsilon=1e4)) - truth).max() < 0.01


@methods
def test_neither_the_index_nor_the_order_of_the_records_or_columns_matters(name: str) -> None:
    table = smokers(2000)
    shuffled = table.sample(frac=1, random_state=5)[["smokes", "sex"]].set_axis(np.zeros(2000), axis=0)
    one, other = (measured(name, t, PAIR, epsilon=1e4) for t in (table, shuffled))
    assert np.abs(joint(one) - joint(other)).max() < 0.01
    assert [s.epsilon for s in one.spends] == [s.epsilon for s in other.spends]
    assert one.network.names == other.network.names


@methods
def test_a_manifest_shows_the_structure_and_the_mechanisms_but_no_probability(name: str) -> None:
    release = released(name, {}, PEOPLE)
    manifest = json.loads(json.dumps(release.manifest()))["model"]
    assert set(manifest["network"]) >= set(release.schema.names)
    assert manifest["mechanisms"] == [spend.to_dict() for spend in release.model.spends]
    assert manifest["domains"] == "schema"
    assert "probabilities" not in json.dumps(manifest)


# --- awkward tables


@methods
@pytest.mark.parametrize("n", [0, 1])
def test_a_table_too_small_for_any_sensitivity_is_refused(name: str, n: int) -> None:
    with pytest.raises((InfeasibleError, SchemaError), match=r"at least \d+ records|empty"):
        measured(name, smokers(n), PAIR)


AWKWARD = {
    "two records": (smokers(2), PAIR),
    "one binary attribute": (smokers(100)[["sex"]], PAIR.select(["sex"])),
    "two binary attributes": (smokers(100), PAIR),
    "a constant": (smokers(100).assign(sex="f"), PAIR),
    "a domain of one value": (
        smokers(100).assign(sex="f"),
        DataSchema.from_dict(PAIR.to_dict() | {"sex": {"categories": ["f"]}}),
    ),
    "duplicates": (pd.concat([people(5)] * 40), PUBLIC_SCHEMA),
    "an index that repeats": (people(100).set_axis([0] * 100, axis=0), PUBLIC_SCHEMA),
    "few records of many attributes": (people(3), PUBLIC_SCHEMA),
    "a hidden node's name": (
        smokers(100).rename(columns={"sex": "latent class"}),
        DataSchema.from_dict(
            {"latent class": {"categories": ["f", "m"]}, "smokes": PAIR.to_dict()["smokes"]}
        ),
    ),
    "an attribute of 2,000 values": (
        smokers(100).assign(code="17"),
        DataSchema.from_dict(PAIR.to_dict() | {"code": {"categories": [str(i) for i in range(2_000)]}}),
    ),
    "truths, numbers as categories, a time series of floats": (
        pd.DataFrame({"ill": [True, False] * 50, "grade": [1, 2] * 50, "mass": np.linspace(1, 9, 100)}),
        DataSchema.from_dict(
            {
                "ill": {"categories": ["True", "False"]},
                "grade": {"categories": ["1", "2", "3"]},
                "mass": {"kind": "numeric", "bounds": [0, 10], "bins": 4},
            }
        ),
    ),
}


# Of the least and the largest, each method and each table has both; between them nothing is out of bounds.
@pytest.mark.quick(
    *(
        f"{(0.01, 50.0)[(i + j) % 2]}-{case}-{name}"
        for (i, case), (j, name) in itertools.product(enumerate(AWKWARD), enumerate(family(Synthesizer)))
    )
)
@methods
@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_an_awkward_table_is_released_within_its_schema(name: str, case: str, epsilon: float) -> None:
    table, schema = AWKWARD[case]
    release = released(name, {"epsilon": epsilon}, table, schema=schema)
    release.schema.check(release.table)
    assert len(release.table) == len(table)
    assert dict(release.table.dtypes) == dict(table.drop(columns="name", errors="ignore").dtypes)


@pytest.mark.quick("privbayes")  # wide tables
@methods
def test_two_attributes_whose_table_fits_no_memory_are_not_counted_together(name: str) -> None:
    domain = {"categories": [str(i) for i in range(20_000)]}
    schema = DataSchema.from_dict({"from": domain, "to": domain})
    table = pd.DataFrame({"from": ["1", "2"] * 50, "to": ["3", "4"] * 50})
    structure = released(name, {}, table, schema=schema).manifest()["model"]["network"]
    assert not set(structure["from"]) & {"to"}
    assert not set(structure["to"]) & {"from"}


# --- nulls

NULLABLE = DataSchema.from_dict(
    {
        "colour": {"categories": ["red", "green"], "nullable": True},
        "visits": {"kind": "numeric", "bounds": [0, 8], "nullable": True},
    }
)


@methods
def test_nulls_of_a_nullable_column_are_values(name: str) -> None:
    # 40 % nulls in each of 1,000 records with hardly any noise: none among 1,000 drawn once in 1e221.
    table = pd.DataFrame(
        {"colour": ["red", None, "green", None, "red"] * 200, "visits": [1, 2, None, None, 8.0] * 200}
    )
    release = released(name, {"epsilon": 100.0}, table, schema=NULLABLE)
    NULLABLE.check(release.table)
    assert release.table.isna().sum().between(300, 500).all()


@methods
def test_the_type_of_a_nullable_column_does_not_tell_whether_it_has_nulls(name: str) -> None:
    without = pd.DataFrame({"colour": ["red", "green"] * 50, "visits": [1, 2] * 50})
    some = without.assign(colour=["red", None] * 50, visits=[1, None] * 50)
    one, other = (released(name, {}, t, schema=NULLABLE).table.dtypes for t in (without, some))
    assert dict(one) == dict(other)


@methods
def test_a_null_in_a_column_that_is_not_nullable_is_refused(name: str) -> None:
    table = PEOPLE.assign(visits=PEOPLE["visits"].where(PEOPLE["age"] > 30))
    with pytest.raises(SchemaError, match=r"visits: \d+ values are null"):
        measured(name, table)


@methods
def test_a_frozen_model_cannot_be_changed(name: str) -> None:
    model = measured(name, smokers(100), PAIR)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.rows = 7
    with pytest.raises(ValueError, match="read-only"):
        model.network.nodes[0].table[:] = 0.5
