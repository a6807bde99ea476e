"""What every registered release method must keep, whatever its algorithm: one test a line of the contract."""

import dataclasses
import inspect
import json

import numpy as np
import pandas as pd
import pytest

from privacy_engine import EquivalenceClasses, SchemaError, load_method, method_names
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.registry import method_class, reads_records
from privacy_engine.release import parameters_of
from privacy_engine.structure.structure import Structure
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.verification.models import holds
from privacy_engine.vocabulary import bounds_of
from tests.contract.tables import PUBLIC_SCHEMA, family, people, release_of_people, released

methods = pytest.mark.parametrize("name", method_names())


def test_every_method_belongs_to_a_family_with_its_own_contract() -> None:
    families = family(Anonymizer) + family(Synthesizer) + family(Randomizer) + family(Structure)
    assert sorted(families) == sorted(method_names())


@methods
def test_parameters_are_a_frozen_keyword_only_dataclass_with_defaults(name: str) -> None:
    cls = method_class(name)
    method = cls()
    assert method.key == name
    assert all(f.kw_only for f in dataclasses.fields(cls))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(method, dataclasses.fields(cls)[0].name, 7)


@methods
def test_an_unknown_parameter_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown parameters \['kk'\]; known are"):
        load_method(name, kk=3)


@methods
def test_default_parameters_survive_a_round_trip_through_json(name: str) -> None:
    method = load_method(name)
    assert load_method(name, **json.loads(json.dumps(parameters_of(method)))) == method


@methods
def test_what_is_claimed_is_what_was_announced_and_every_guarantee_holds_on_the_released_table(
    name: str,
) -> None:
    release = release_of_people(name)
    assert release.guarantees == load_method(name).guarantees(PUBLIC_SCHEMA)
    assert release.loss == load_method(name).privacy_loss(PUBLIC_SCHEMA)
    # A randomizer claims nothing here: `visits` is released as it is.
    assert release.guarantees or release.loss or name in family(Randomizer)
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert all(holds(model, classes) for model in release.guarantees)


@methods
def test_a_release_has_the_columns_of_its_schema_and_an_index_that_says_nothing(name: str) -> None:
    release = release_of_people(name)
    assert list(release.table.columns) == list(release.schema.names)
    known = {column for name in PUBLIC_SCHEMA.names for column in (name, *bounds_of(name)[:2])}
    assert set(release.schema.names) <= known - {"name"}
    pd.testing.assert_index_equal(release.table.index, pd.RangeIndex(len(release.table)), exact=False)


@methods
def test_identifiers_never_appear_in_the_release(name: str) -> None:
    table, release = people(), release_of_people(name)
    text = release.table.to_csv() + json.dumps(release.manifest())
    assert "name" not in release.table.columns
    assert not any(person in text for person in table["name"])


@methods
def test_neither_inputs_nor_the_global_random_state_are_changed(name: str) -> None:
    table = people()
    before = table.copy(deep=True)
    state = np.random.get_state()  # noqa: NPY002  the very thing that must not move
    released(name, {}, table)
    pd.testing.assert_frame_equal(table, before)
    assert str(np.random.get_state()) == str(state)  # noqa: NPY002


@methods
def test_the_privacy_loss_never_sees_data(name: str) -> None:
    assert list(inspect.signature(method_class(name).privacy_loss).parameters) == ["self", "schema"]
    load_method(name).privacy_loss(PUBLIC_SCHEMA)


@methods
def test_a_manifest_holds_plain_values_and_no_record(name: str) -> None:
    release = release_of_people(name)
    manifest = json.loads(json.dumps(release.manifest()))
    assert manifest["method"] == name
    assert manifest["rows"] == len(release.table)
    assert manifest["loss"] == (release.loss.to_dict() if release.loss else None)
    assert len(manifest["guarantees"]) == len(release.guarantees)
    # The public domains through which values were randomized are no record: they never see one.
    if (randomization := manifest.pop("randomization", None)) is not None:
        assert randomization == json.loads(
            json.dumps(load_method(name).randomization(PUBLIC_SCHEMA).to_dict())
        )
    assert not any(f'"{value}"' in json.dumps(manifest) for value in people()["colour"].unique())


BAD_TABLES = {
    "missing column": (lambda t: t.drop(columns="age"), r"columns \['age'\] are missing"),
    "extra column": (lambda t: t.assign(shoe=1), r"columns \['shoe'\] are not in the schema"),
    "repeated column": (lambda t: pd.concat([t, t["age"]], axis=1), "distinct"),
    "wrong type": (lambda t: t.assign(age=t["age"].astype(str)), "age: must be a number"),
    "null in a quasi-identifier": (
        lambda t: t.assign(city=t["city"].where(t["age"] > 30)),
        r"city: \d+ values are null",
    ),
    "unseen category": (
        lambda t: t.assign(grade="secret"),
        r"grade: the categories miss 1 distinct value in 120 rows",
    ),
    "hierarchy misses a value": (
        lambda t: t.assign(city="secret"),
        "city: the hierarchy misses 1 distinct value",
    ),
    "out of bounds": (lambda t: t.assign(age=t["age"] + 60), r"age: \d+ values are out of the bounds"),
    "infinite": (
        lambda t: t.assign(age=t["age"].astype(float).replace(t["age"].iloc[0], np.inf)),
        "infinite",
    ),
    "empty": (lambda t: t.iloc[:0], "empty"),
}


@pytest.mark.parametrize("name", [name for name in method_names() if reads_records(name)])
@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_by_column_rule_and_count_without_a_value(name: str, case: str) -> None:
    spoil, message = BAD_TABLES[case]
    with pytest.raises(SchemaError, match=message) as caught:
        released(name, {}, spoil(people()))
    assert "secret" not in str(caught.value)
