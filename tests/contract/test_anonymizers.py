"""What every registered anonymizer must keep beyond the contract of release methods."""

import json

import numpy as np
import pandas as pd
import pytest

from privacy_engine import (
    DistinctLDiversity,
    EquivalenceClasses,
    InfeasibleError,
    KAnonymity,
    Release,
    ReleasePolicy,
    TCloseness,
    load_method,
    verify,
)
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import SpecError
from privacy_engine.fragments.plan import fragmentable
from privacy_engine.measures.utility import gcp
from privacy_engine.release import parameters_of
from privacy_engine.tables.classes import SensitiveValues
from privacy_engine.verification.models import holds
from privacy_engine.vocabulary import Kind
from tests.contract import tables
from tests.contract.tables import SCHEMA, family, people, release_of_people

T_CLOSE = {"require": (TCloseness(t=0.4, attribute="disease"),)}
VARIANTS = [{}, {"k": 3, "l": 2}, {"k": 4, "l": 3, "suppression_limit": 0.1}]

methods = pytest.mark.parametrize("name", family(Anonymizer))
variants = pytest.mark.parametrize("parameters", VARIANTS, ids=lambda p: "-".join(p) or "defaults")


def released(name, parameters, table, schema=SCHEMA) -> Release:
    return tables.released(name, parameters, table, schema=schema)


def once(name: str, **parameters: object) -> Release:
    """The release of `people`, for reading only."""
    return release_of_people(name, public=False, **parameters)


@methods
@pytest.mark.parametrize(
    "bad",
    [
        {"k": 1},
        {"k": 2.5},
        {"l": 1},
        {"suppression_limit": 1.5},
        {"intervals": "roman"},
        {"require": ({"model": "x"},)},
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_a_bad_parameter_is_refused_at_construction(name: str, bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must|unknown"):
        load_method(name, **bad)


@methods
def test_parameters_survive_a_round_trip_through_json(name: str) -> None:
    method = load_method(name, k=4, require=(TCloseness(t=0.4, attribute="disease"),))
    assert load_method(name, **json.loads(json.dumps(parameters_of(method)))) == method


@methods
def test_a_released_quasi_identifier_is_unlisted_only_where_the_schema_lists_no_values(name: str) -> None:
    schema = once(name).schema
    columns = [a for a in schema.quasi_identifiers if a.kind is Kind.CATEGORICAL]
    assert {a.name for a in columns if a.unlisted} == {a.name for a in columns} & {"colour"}


@methods
@variants
def test_every_claimed_guarantee_holds_on_the_released_table(
    name: str, parameters: dict[str, object]
) -> None:
    release = once(name, **parameters)
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert KAnonymity(k=load_method(name, **parameters).k) in release.guarantees
    assert all(holds(model, classes) for model in release.guarantees)
    assert verify(release.table, release.schema, ReleasePolicy(require=release.guarantees)).passed


# Of the other models, each is required of two methods, and each method keeps some.
@pytest.mark.quick(
    "t_closeness",
    *("entropy_l_diversity-mondrian", "entropy_l_diversity-kacluk", "recursive_cl_diversity-bottom_up"),
    *("recursive_cl_diversity-rfka", "alpha_k_anonymity-obpa", "alpha_k_anonymity-greedy_hamdist"),
    *("beta_likeness-mondrian", "beta_likeness-ilp_l_diversity", "beta_likeness-enhanced-bottom_up"),
    *("beta_likeness-enhanced-dsaed", "delta_disclosure-kacluk", "delta_disclosure-obpa"),
)
@methods
@pytest.mark.parametrize(
    "model",
    [
        {"model": "t_closeness", "t": 0.25, "attribute": "disease"},
        {"model": "entropy_l_diversity", "l": 2.0},
        {"model": "recursive_cl_diversity", "c": 2.0, "l": 2},
        {"model": "alpha_k_anonymity", "alpha": 0.6, "k": 8},
        {"model": "beta_likeness", "beta": 1.0},
        {"model": "beta_likeness", "beta": 2.0, "enhanced": True},
        {"model": "delta_disclosure", "delta": 1.2},
    ],
    ids=lambda model: f"{model['model']}{'-enhanced' if model.get('enhanced') else ''}",
)
def test_a_required_model_is_met_on_the_released_table(name: str, model: dict[str, object]) -> None:
    release = released(name, {"k": 3, "require": (model,)}, people())
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert model["model"] in {m.name for m in release.guarantees}
    assert all(holds(m, classes) for m in release.guarantees)


@methods
@pytest.mark.parametrize("intervals", ["text", "bounds", "midpoint"])
def test_every_rendering_keeps_the_guarantees(name: str, intervals: str) -> None:
    release = once(name, k=4, l=2, intervals=intervals)
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert all(holds(model, classes) for model in release.guarantees)
    assert list(release.table.columns) == list(release.schema.names)


@methods
@variants
def test_no_record_is_lost_beyond_the_suppression_limit(name: str, parameters: dict[str, object]) -> None:
    release = once(name, **parameters)
    limit = load_method(name, **parameters).suppression_limit
    assert len(release.table) >= (1 - limit) * len(people())
    assert release.recoding.suppressed == len(people()) - len(release.table)


LIMITS = (0.0, 0.02, 0.1)
SUPPRESSING = {
    "k": {"k": 5},
    "l": {"k": 4, "l": 3},
    **{
        name: {"k": 3, "require": ({"model": model, "attribute": "disease", **limits},)}
        for name, model, limits in (
            ("t", "t_closeness", {"t": 0.25}),
            ("beta", "beta_likeness", {"beta": 1.0}),
            ("delta", "delta_disclosure", {"delta": 1.5}),
            ("entropy", "entropy_l_diversity", {"l": 3.0}),
            ("recursive", "recursive_cl_diversity", {"c": 1.0, "l": 2}),
        )
    },
}
CHOOSES = {"greedy_hamdist", "rfka"}  # features, and with them what is suppressed
RARE = {"beta", "delta"}  # models under which one record of a rare value makes classes large


# Of each kind of rule one shows the limit: k by every method, quotas by those that search under them.
@pytest.mark.quick("k", "l-bottom_up", "l-ilp_l_diversity", "t-mondrian", "t-obpa", "t-greedy_hamdist")
@methods
@pytest.mark.parametrize("model", SUPPRESSING)
def test_a_larger_suppression_limit_never_gives_a_larger_loss(name: str, model: str) -> None:
    table = people()
    table.iloc[:3, table.columns.get_loc("age")] = [0, 99, 100]  # far from all others
    table.iloc[3, table.columns.get_loc("disease")] = "ague"  # no one else's
    losses, gone = [], []
    for limit in LIMITS:
        parameters = SUPPRESSING[model] | {"suppression_limit": limit}
        if name == "ilp_l_diversity" and limit:
            parameters["repair"] = "suppress"
        release = released(name, parameters, table, SCHEMA)
        assert release.recoding is not None
        assert len(table) - len(release.table) == release.recoding.suppressed <= limit * len(table)
        classes = EquivalenceClasses.of_table(release.table, release.schema)
        assert all(holds(model, classes) for model in release.guarantees)
        losses.append(gcp(release.recoding))
        gone.append(release.recoding.suppressed)
    assert losses == sorted(losses, reverse=True)
    if model in RARE and name not in CHOOSES:
        assert gone[-1] > 0


@pytest.mark.quick("defaults")  # of other variants, in another order, below
@methods
@variants
def test_equal_inputs_and_seed_give_equal_output(name: str, parameters: dict[str, object]) -> None:
    again = released(name, parameters, people()).table
    pd.testing.assert_frame_equal(again, once(name, **parameters).table)


@methods
def test_the_row_index_is_ignored(name: str) -> None:
    table = people()
    again = table.set_axis(np.arange(len(table))[::-1], axis=0)
    pd.testing.assert_frame_equal(once(name).table, released(name, {}, again).table)


@pytest.mark.quick("defaults-mondrian", *(f"k-l-suppression_limit-{name}" for name in family(Anonymizer)))
@methods
@variants
def test_the_order_of_the_records_does_not_matter(name: str, parameters: dict[str, object]) -> None:
    table = people().drop(
        columns="visits"
    )  # an insensitive value may go to either of two records alike in all else
    schema = SCHEMA.select(table.columns)
    shuffled = table.sample(frac=1, random_state=5)
    one, other = (released(name, parameters, t, schema=schema).table for t in (table, shuffled))
    pd.testing.assert_frame_equal(one, other)


@methods
def test_the_order_of_released_rows_follows_from_their_values_alone(name: str) -> None:
    table = once(name).table
    pd.testing.assert_frame_equal(table, table.sort_values(list(table.columns), ignore_index=True))


@methods
def test_sensitive_and_insensitive_values_stay_true(name: str) -> None:
    table, release = people(), once(name)
    for column in ("disease", "visits"):
        assert sorted(release.table[column]) == sorted(table[column])


@methods
def test_fewer_records_than_k_are_infeasible(name: str) -> None:
    with pytest.raises(InfeasibleError, match="4 rows cannot be 5-anonymous"):
        released(name, {"k": 5}, people(4))


@methods
def test_a_sensitive_attribute_of_too_few_values_is_infeasible(name: str) -> None:
    with pytest.raises(InfeasibleError, match=r"4 (distinct )?values"):
        released(name, {"k": 5, "l": 5}, people())


@methods
def test_a_manifest_holds_plain_values_and_no_record(name: str) -> None:
    release = once(name, k=4, l=2, intervals="bounds")
    manifest = json.loads(json.dumps(release.manifest()))
    assert manifest["rows"] == len(release.table)
    assert manifest["guarantees"][0] == {"model": "k_anonymity", "k": 4}
    assert not any(f'"{value}"' in json.dumps(manifest) for value in people()["colour"].unique())


@methods
def test_it_works_in_fragments_or_says_why_not(name: str) -> None:
    method = load_method(name)
    if method.fragmentable:
        assert fragmentable(method) is method
    else:
        with pytest.raises(SpecError, match=name):
            fragmentable(method)


@pytest.mark.quick("suppression_limit")  # fewer parameters
@methods
@variants
def test_a_table_as_the_only_part_of_itself_is_released_alike(
    name: str, parameters: dict[str, object]
) -> None:
    counts = people()["disease"].value_counts()
    values = SensitiveValues.of(pd.Series(counts.index), counts.to_numpy(), SCHEMA["disease"])
    method = tables.quick(name, **parameters, **({} if "suppression_limit" in parameters else T_CLOSE))
    by_itself = method.release(people(), SCHEMA, np.random.default_rng(7))
    as_part = method.release(people(), SCHEMA, np.random.default_rng(7), whole={"disease": values})
    pd.testing.assert_frame_equal(by_itself.table, as_part.table)


AWKWARD = {
    "constant": people().assign(age=40, grade="low", city="Bern", colour="red"),
    "duplicates": pd.concat([people(10)] * 12),
    "one class of k": people(5),
}


@methods
@pytest.mark.parametrize("case", AWKWARD)
def test_an_awkward_table_is_released_whole(name: str, case: str) -> None:
    release = released(name, {"k": 5}, AWKWARD[case])
    assert len(release.table) == len(AWKWARD[case])
    assert holds(KAnonymity(k=5), EquivalenceClasses.of_table(release.table, release.schema))


@methods
def test_one_quasi_identifier_is_enough(name: str) -> None:
    schema = SCHEMA.select(["age", "disease"])
    release = released(name, {"k": 5, "l": 2}, people()[["age", "disease"]], schema=schema)
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert holds(KAnonymity(k=5), classes)
    assert holds(DistinctLDiversity(l=2), classes)
