"""What every synthesizer must keep on a table of many rows a person."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, InfeasibleError, PrivacyLoss, SchemaError, load_method
from privacy_engine.dp.accounting import Spend, check_bookkeeping, total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.release import Release
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.tables.domains import CodedTable
from tests.contract.tables import PUBLIC_SCHEMA, family, people, quick

PERSONS, ROWS = 300, 2000
SCHEMA = DataSchema.from_dict(
    PUBLIC_SCHEMA.to_dict() | {"person": "name"}, {"cities": PUBLIC_SCHEMA["city"].hierarchy}
)
BOUNDS = {"max_rows": {"max_rows": 4}, "one row": {"max_rows": 1}, "weight": {"weight": "person"}}

methods = pytest.mark.parametrize("name", family(Synthesizer))
bounds = pytest.mark.parametrize("bound", BOUNDS)


def visits(seed: int = 5) -> pd.DataFrame:
    """Persons with 1 to some 40 rows; the more they have, the older they are."""
    rng = np.random.default_rng(seed)
    who = np.concatenate([np.arange(PERSONS), rng.zipf(1.5, ROWS - PERSONS) % PERSONS])
    table = people(ROWS, seed).reset_index(drop=True)
    rows = np.bincount(who)[who]
    return table.assign(name=[f"person {i}" for i in who], age=np.minimum(20 + rows, 90))


VISITS = visits()


def method(name: str, bound: str, **parameters: object) -> Synthesizer:
    return quick(name, **BOUNDS[bound] | parameters)


@cache
def once(name: str, bound: str) -> Release:
    """A release of a claim of 0.3, for reading only."""
    return released(name, bound, epsilon=0.3)


def released(name: str, bound: str, **parameters: object) -> Release:
    return method(name, bound, **parameters).release(VISITS, SCHEMA, np.random.default_rng(3))


@methods
@bounds
def test_the_loss_is_epsilon_for_all_rows_of_one_person(name: str, bound: str) -> None:
    claimed = PrivacyLoss(epsilon=0.3, neighbours=Neighbours.REPLACE_PERSON)
    assert method(name, bound, epsilon=0.3).privacy_loss(SCHEMA) == claimed
    assert once(name, bound).loss == claimed


@pytest.mark.quick("0.3")  # `test_synthesizers` has sums of other parts
@methods
@bounds
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1, 7.0])
def test_the_books_balance(name: str, bound: str, epsilon: float) -> None:
    made = once(name, bound) if epsilon == 0.3 else released(name, bound, epsilon=epsilon)
    model = made.model
    spent = total(model.spends, Neighbours.REPLACE_PERSON)
    assert epsilon * (1 - 1e-6) < spent.epsilon <= epsilon
    findings = check_bookkeeping(model.loss, model.spends, SCHEMA, model.loss)
    assert all(f.passed for f in findings)
    assert len(findings) == 7
    fields = [spend.to_dict() for spend in model.spends]
    assert [Spend.from_dict(t) for t in json.loads(json.dumps(fields))] == list(model.spends)


@methods
@bounds
def test_every_table_has_the_noise_of_all_units_of_a_person(name: str, bound: str) -> None:
    model = once(name, bound).model
    each = {"max_rows": 4, "one row": 1, "weight": 840}[bound]
    tables = [s for s in model.spends if s.mechanism == "discrete_laplace" and s.target != "number of rows"]
    assert {s.sensitivity for s in tables} == {2 * each}
    counted = [s.sensitivity for s in model.spends if s.target == "number of rows"]
    assert counted == ([3] if bound == "max_rows" else [])  # of 1 .. 4 rows; else it follows from persons


@methods
def test_a_claim_about_rows_is_found_where_the_schema_names_persons(name: str) -> None:
    of_rows = DataSchema(SCHEMA.attributes)
    model = quick(name).measure(VISITS, of_rows)
    assert all(f.passed for f in check_bookkeeping(model.loss, model.spends, of_rows, model.loss))
    failed = [f for f in check_bookkeeping(model.loss, model.spends, SCHEMA, model.loss) if not f.passed]
    assert ["one row" in f.rule for f in failed] == [True]


@pytest.mark.parametrize(("bound", "each"), [("max_rows", 4), ("weight", 840)])
def test_a_sample_of_records_is_paid_for_each_of_a_person(bound: str, each: int) -> None:
    model = method("dpsm_bayes", bound, degree=1).measure(VISITS, SCHEMA)
    (spend,) = (s for s in model.spends if s.sample)
    assert spend.group == each
    assert spend.epsilon * (1 - 1e-6) < spend.epsilon_of_noise <= spend.epsilon
    larger = Spend.from_dict(spend.to_dict() | {"group": each + 1})
    assert larger.epsilon_of_noise > spend.epsilon


# Where a person counts once, no method has a number of rows.
@pytest.mark.quick("max_rows", "one row-dpsm_bayes", "weight-latent_class")
@methods
@bounds
def test_the_number_of_rows_is_reported_nowhere(name: str, bound: str) -> None:
    """As a separate number.

    A noisy figure has these digits less than once in 1,000 releases, and in four at once less than once in
    1e12.
    """
    release, *others = [released(name, bound) for _ in range(4)]
    manifest, *_ = texts = [json.dumps([r.manifest(), r.model.to_json()]) for r in (release, *others)]
    assert f'"source_persons": {PERSONS}' in manifest
    assert "source_rows" not in manifest
    assert not all(f" {ROWS}," in text for text in texts)
    assert release.model.persons == PERSONS
    rows = len(release.table)
    assert rows == PERSONS if bound != "max_rows" else PERSONS <= rows <= 4 * PERSONS


@methods
@bounds
def test_a_model_survives_json(name: str, bound: str) -> None:
    model = once(name, bound).model
    assert SynthesizerModel.from_json(model.to_json()) == model


@methods
def test_without_a_bound_a_table_of_persons_is_refused_with_the_remedies(name: str) -> None:
    unbounded = load_method(name)
    for ask in (unbounded.privacy_loss, lambda s: unbounded.measure(VISITS, s)):
        with pytest.raises(SchemaError, match=r"`max_rows: m` or `weight: person`"):
            ask(SCHEMA)


@methods
@bounds
def test_a_bound_without_persons_is_refused(name: str, bound: str) -> None:
    requested, of_rows = method(name, bound), DataSchema(SCHEMA.attributes)
    for ask in (requested.privacy_loss, lambda s: requested.measure(VISITS, s)):
        with pytest.raises(SchemaError, match="names no person"):
            ask(of_rows)
    with pytest.raises(ValueError, match="encoded by the method"):
        requested.measure_coded(CodedTable.encode(VISITS, of_rows))


@methods
def test_both_bounds_are_refused_together(name: str) -> None:
    with pytest.raises(ValueError, match="not both"):
        load_method(name, max_rows=2, weight="person")


@methods
@bounds
def test_a_table_of_one_person_is_refused(name: str, bound: str) -> None:
    with pytest.raises(InfeasibleError, match="at least 2 persons, got 1"):
        method(name, bound).measure(VISITS.assign(name="p"), SCHEMA)


@methods
def test_records_of_no_one_are_refused(name: str) -> None:
    nameless = VISITS.assign(name=VISITS["name"].where(VISITS.index > 4))
    with pytest.raises(SchemaError, match="name: 5 records are without a person"):
        method(name, "weight").measure(nameless, SCHEMA)


@methods
@bounds
def test_neither_the_order_of_rows_nor_the_index_matters(name: str, bound: str) -> None:
    one = method(name, bound).coded(VISITS, SCHEMA)
    other = method(name, bound).coded(VISITS.sample(frac=1, random_state=1), SCHEMA)
    assert (one.codes == other.codes).all()
    assert (one.weights == other.weights).all()


@pytest.mark.parametrize("name", ["latent_class", "privbayes_r"])
def test_weights_give_the_ages_of_persons_and_rows_those_of_rows(name: str) -> None:
    """At an epsilon that adds no noise worth the name. Who has most rows is oldest."""
    by_person = VISITS.groupby("name")["age"].first().mean()
    few = VISITS.groupby("name").head(4)["age"].mean()  # ages are constant for a person
    few_classes = {"classes": 2} if name == "latent_class" else {}
    drawn = {
        bound: released(name, bound, epsilon=1000.0, rows=20_000, **few_classes).table["age"].mean()
        for bound in ("weight", "max_rows")
    }
    assert drawn["weight"] == pytest.approx(by_person, abs=2.5)  # bins of 6 years
    assert drawn["max_rows"] == pytest.approx(few, abs=2.5)
    assert drawn["max_rows"] > drawn["weight"]


@methods
def test_a_measurement_without_persons_is_what_it_was(name: str) -> None:
    """Noise and names in the books; the first three from a run before there were persons."""
    counts, choices = "discrete_laplace", "noisy_max"
    known = {
        "privbayes": {(counts, 2, 14.285714285714288), (choices, 22888487579, 762949585966.6667)},
        "privbayes_r": {(counts, 2, 11.111111111111114), (choices, 6000, 600000.0000000001)},
        "dpsm_bayes": {(counts, 2, 17.142857142857146), (choices, 23475925909, 762921374660.6445)},
        "latent_class": {
            (counts, 2, 8.750000000000002),
            (counts, 2, 11.111111111111114),
            (counts, 2, 11.666666666666668),
            (choices, 2, 66.66666666666667),
        },
    }
    requested = quick(name, **{} if name == "latent_class" else {"degree": 1})
    model = requested.measure(people(1000), PUBLIC_SCHEMA)
    assert {(s.mechanism, s.sensitivity, s.scale) for s in model.spends} == known[name]
    assert not {"max_rows", "weight"} & set(requested.measurement_parameters())
    text = json.loads(model.to_json())
    assert "persons" not in text
    assert all("group" not in spend for spend in text["spends"])
