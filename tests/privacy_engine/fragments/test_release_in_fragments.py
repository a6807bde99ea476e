"""What holds of each fragment holds of the join, and no record comes or goes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from privacy_engine import DataSchema, InfeasibleError, IntegrityError, ReleasePolicy, load_method, verify
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.engine import Engine
from privacy_engine.engines.frames import to_arrow
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.fragments.plan import FragmentPlan, fragmentable
from privacy_engine.fragments.work import FragmentRelease, release_fragment
from privacy_engine.measures.utility import gcp
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.verification.models import TCloseness
from tests.contract.tables import family
from tests.privacy_engine.fragments.tables import (
    DISEASES,
    SCHEMA,
    Fragmented,
    people,
    planned,
    released,
    stored,
)

TOGETHER = [name for name in family(Anonymizer) if load_method(name).fragmentable]
T = {"model": "t_closeness", "t": 0.25, "attribute": "disease"}
PARAMETERS: dict[str, object] = {"k": 5, "l": 3, "require": (T,)}

methods = pytest.mark.parametrize("name", TOGETHER)


@pytest.fixture(scope="module", params=TOGETHER)
def fragmented(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Fragmented:
    method, table = load_method(request.param, **PARAMETERS), people(800)
    plan = planned(engine, tmp_path_factory.mktemp("table"), table, method, SCHEMA, 250)
    return released(plan, table, method)


@pytest.mark.quick("mondrian")  # hundreds of records each
def test_the_join_keeps_k_l_and_t_as_measured_on_its_records(fragmented: Fragmented) -> None:
    assert fragmented.plan.fragments > 3
    release = fragmented.parts[0].release
    report = verify(fragmented.joined, release.schema, ReleasePolicy(require=release.guarantees))
    assert {model.name for model in release.guarantees} == {
        "k_anonymity",
        "distinct_l_diversity",
        "t_closeness",
    }
    assert report.passed, report.findings


def test_no_record_is_lost_doubled_or_changed(fragmented: Fragmented) -> None:
    table, joined = people(800), fragmented.joined
    assert sorted(joined["record"]) == list(range(len(table)))
    assert (joined.set_index("record")["disease"].sort_index() == table["disease"]).all()


def test_identifiers_are_gone(fragmented: Fragmented) -> None:
    assert "name" not in fragmented.joined.columns


def test_all_fragments_have_the_columns_that_the_whole_table_would_have(fragmented: Fragmented) -> None:
    name = fragmented.parts[0].release.method
    whole = load_method(name, **PARAMETERS).release(people(300), SCHEMA, np.random.default_rng(0))
    for part in fragmented.parts:
        assert part.release.schema == whole.schema
        assert part.release.table.dtypes.to_dict() == whole.table.dtypes.to_dict()


def test_a_plan_that_was_written_and_read_gives_equal_records(fragmented: Fragmented) -> None:
    table = people(800)
    again = FragmentPlan.from_dict(json.loads(json.dumps(fragmented.plan.to_dict())))
    assert (again.tree.assign(table) == fragmented.fragment_of).all()
    method = load_method(fragmented.parts[0].release.method, **PARAMETERS)
    for fragment in (0, again.fragments - 1):
        part = table[fragmented.fragment_of == fragment].sample(frac=1.0, random_state=1)
        repeated = release_fragment(again, fragment, part, method)
        pd.testing.assert_frame_equal(repeated.release.table, fragmented.parts[fragment].release.table)
        assert repeated.figures == fragmented.parts[fragment].figures


def test_closeness_is_to_the_whole_table_not_to_the_fragment(engine: Engine, tmp_path: Path) -> None:
    """With its own distribution as prior, each fragment would be close to itself, and the join to nothing."""
    rng, n = np.random.default_rng(1), 4000
    young = np.repeat([True, False], n // 2)
    ill = rng.random(n) < np.where(young, 0.6, 0.4)
    table = pd.DataFrame(
        {
            "age": np.where(young, rng.integers(18, 40, n), rng.integers(60, 82, n)),
            "disease": np.where(ill, "flu", "none"),
        }
    )
    schema = SCHEMA.select(["age", "disease"])
    method = load_method("mondrian", k=5, require=({"model": "t_closeness", "t": 0.15},))
    plan = planned(engine, tmp_path, table, method, schema, 2000)
    together = released(plan, table, method)
    assert plan.fragments == 2
    kept = ReleasePolicy(require=(TCloseness(t=0.15),))
    assert verify(together.joined, together.parts[0].release.schema, kept).passed
    apart = [
        method.release(table[together.fragment_of == fragment], plan.whole.schema, np.random.default_rng(0))
        for fragment in range(2)
    ]
    mixed = pd.concat([release.table for release in apart], ignore_index=True)
    assert not verify(mixed, apart[0].schema, kept).passed


def loss_of(parts: list[FragmentRelease]) -> float:
    """GCP of the join."""
    sizes = np.array([len(part.release.table) for part in parts])
    return float(np.average([gcp(part.release.recoding) for part in parts], weights=sizes))


@pytest.mark.slow  # a quality, of thousands of records
@pytest.mark.parametrize("name", ["bottom_up", "mondrian"])
def test_a_close_release_in_fragments_loses_little_more_than_the_whole(
    name: str, engine: Engine, tmp_path: Path
) -> None:
    """Classes are composed for the whole table's distribution, and counted on the bytes of the join."""
    method, table = load_method(name, k=5, require=({**T, "t": 0.2},)), people(3000)
    plan = planned(engine, tmp_path, table, method, SCHEMA, 1000)
    assert plan.fragments >= 3
    together = released(plan, table, method)
    release = together.parts[0].release
    path = tmp_path / "joined.parquet"
    pq.write_table(to_arrow(together.joined), path)
    policy = ReleasePolicy(require=release.guarantees)
    assert verify_files(engine, [str(path)], release.schema, policy).passed
    whole = method.release(table, plan.whole.schema, np.random.default_rng(1))
    assert loss_of(together.parts) <= 1.2 * gcp(whole.recoding)


def test_a_fragment_whose_mix_is_too_far_from_the_table_is_released_with_its_neighbour(
    engine: Engine, tmp_path: Path
) -> None:
    """All who are over 60 have one disease: no part of them alone is within t of the table."""
    table = people(1200)
    table.loc[table["age"] >= 60, "disease"] = "gout"
    method = load_method("bottom_up", k=5, require=({**T, "t": 0.2},))
    plan = planned(engine, tmp_path, table, method, SCHEMA, 200)
    shares = table["disease"].value_counts(normalize=True)
    fragment_of = plan.tree.assign(table)
    for _, own in table.groupby(fragment_of)["disease"]:
        far = own.value_counts(normalize=True).reindex(shares.index, fill_value=0) - shares
        assert far.abs().sum() / 2 <= 0.2 + 1e-9
    assert any(size > 200 for size in plan.sizes)
    together = released(plan, table, method)
    assert sorted(together.joined["record"]) == list(range(len(table)))
    release = together.parts[0].release
    assert verify(together.joined, release.schema, ReleasePolicy(require=release.guarantees)).passed


def test_records_too_far_from_the_table_are_refused_rather_than_released_with_less(
    engine: Engine, tmp_path: Path
) -> None:
    """No one hands such a part over: its release compares with the whole table and finds no class."""
    table = people()
    method = load_method("bottom_up", k=5, require=({**T, "t": 0.05},))
    whole = planned(engine, tmp_path, table, method, SCHEMA, 4000).whole
    alike = table[table["disease"] == "gout"]
    with pytest.raises(InfeasibleError, match="close"):
        method.release(alike, whole.schema, np.random.default_rng(1), whole=whole.sensitive)


def test_a_sensitive_number_is_ranked_among_those_of_the_whole_table(engine: Engine, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 3000
    age = rng.integers(18, 90, n)
    table = pd.DataFrame({"age": age, "wage": np.round(age / 10 + rng.integers(0, 40, n)).astype("int64")})
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "wage": {"role": "sensitive", "kind": "numeric"},
        }
    )
    ordered = {"model": "t_closeness", "t": 0.15, "distance": "ordered"}
    method = load_method("mondrian", k=10, require=(ordered,))
    plan = planned(engine, tmp_path, table, method, schema, 500)
    together = released(FragmentPlan.from_dict(json.loads(json.dumps(plan.to_dict()))), table, method)
    assert plan.fragments > 3
    release = together.parts[0].release
    assert verify(together.joined, release.schema, ReleasePolicy(require=release.guarantees)).passed
    sizes = {part.release.recoding.encoded.sensitive_sizes for part in together.parts}
    assert sizes == {(table["wage"].nunique(),)}


def test_nulls_of_a_sensitive_attribute_are_a_value_in_every_fragment(engine: Engine, tmp_path: Path) -> None:
    table = people()
    table["disease"] = table["disease"].where(table["disease"] != "none", None)
    fields = SCHEMA.to_dict()
    fields["disease"]["nullable"] = True
    schema = DataSchema.from_dict(fields)
    method = load_method("mondrian", k=5, l=4)
    together = released(planned(engine, tmp_path, table, method, schema, 500), table, method)
    release = together.parts[0].release
    assert verify(together.joined, release.schema, ReleasePolicy(require=release.guarantees)).passed
    assert together.joined["disease"].isna().sum() == table["disease"].isna().sum()


def test_suppression_keeps_the_other_guarantees(engine: Engine, tmp_path: Path) -> None:
    table = people()
    method = load_method("mondrian", k=5, l=4, suppression_limit=0.05)
    together = released(planned(engine, tmp_path, table, method, SCHEMA, 500), table, method)
    release = together.parts[0].release
    assert verify(together.joined, release.schema, ReleasePolicy(require=release.guarantees)).passed
    figures = together.parts[0].figures.total(part.figures for part in together.parts)
    assert figures.suppressed == len(table) - len(together.joined) > 0
    assert figures.suppressed <= 0.05 * len(table)


def test_values_that_no_model_is_about_are_not_held_in_memory(engine: Engine, tmp_path: Path) -> None:
    table = people().assign(disease=[f"disease {i}" for i in range(1600)])
    method = load_method("bottom_up", k=5)
    plan = planned(engine, tmp_path, table, method, SCHEMA, 500)
    assert not plan.whole.sensitive
    assert sorted(released(plan, table, method).joined["disease"]) == sorted(table["disease"])


def test_a_model_about_an_attribute_that_is_not_sensitive_is_refused(engine: Engine, tmp_path: Path) -> None:
    method = load_method(
        "mondrian", k=5, require=({"model": "distinct_l_diversity", "l": 2, "attribute": "age"},)
    )
    with pytest.raises(SchemaError, match=r"it has \['disease'\]"):
        planned(engine, tmp_path, people(600), method, SCHEMA, 500)


def test_equal_seeds_give_equal_plans(engine: Engine, tmp_path: Path) -> None:
    method = load_method("mondrian", k=5)
    one, other = (planned(engine, tmp_path, people(), method, SCHEMA, 500) for _ in range(2))
    assert one.to_dict()["tree"] == other.to_dict()["tree"]
    assert one.sizes == other.sizes


def test_a_table_that_fits_is_one_fragment(engine: Engine, tmp_path: Path) -> None:
    plan = planned(engine, tmp_path, people(400), load_method("mondrian", k=5), SCHEMA, 500)
    assert (plan.fragments, plan.sizes) == (1, (400,))


@methods
def test_too_few_sensitive_values_are_infeasible_before_anything_is_cut(
    name: str, engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(InfeasibleError, match="4 distinct values"):
        planned(engine, tmp_path, people(), load_method(name, k=5, l=5), SCHEMA, 500)


def test_fewer_records_than_k_are_infeasible(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="4 rows cannot be 5-anonymous"):
        planned(engine, tmp_path, people(4), load_method("mondrian", k=5), SCHEMA, 500)


def test_an_empty_table_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="empty"):
        planned(engine, tmp_path, people(5).iloc[:0], load_method("mondrian", k=5), SCHEMA, 500)


def test_records_that_the_plan_did_not_count_are_refused(engine: Engine, tmp_path: Path) -> None:
    table, method = people(), load_method("mondrian", k=5)
    plan = planned(engine, tmp_path, table, method, SCHEMA, 500)
    with pytest.raises(IntegrityError, match=r"fragment 0 must have the \d+ records that the plan counted"):
        release_fragment(plan, 0, table[plan.tree.assign(table) == 0].iloc[1:], method)


def test_a_sensitive_value_that_the_whole_table_did_not_have_is_refused(
    engine: Engine, tmp_path: Path
) -> None:
    table, method = people(), load_method("mondrian", k=5, l=2)
    plan = planned(engine, tmp_path, table, method, SCHEMA, 500)
    part = table[plan.tree.assign(table) == 0]
    part = part.assign(disease=np.where(part["record"] == part["record"].iloc[0], "new", part["disease"]))
    with pytest.raises(SchemaError, match="1 value is not among those of the whole table") as refused:
        release_fragment(plan, 0, part, method)
    assert "new" not in str(refused.value)


@pytest.mark.parametrize("name", ["rfka", "greedy_hamdist"])
def test_a_method_that_chooses_attributes_cannot_work_in_fragments(name: str) -> None:
    with pytest.raises(SpecError, match=name):
        fragmentable(load_method(name, k=5))


@pytest.mark.parametrize("name", ["privbayes", "errph"])
def test_only_anonymizers_work_in_fragments(name: str) -> None:
    with pytest.raises(SpecError, match="only anonymizers"):
        fragmentable(load_method(name))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mondrian", {"suppression_limit": 0.1}),
        ("ilp_l_diversity", {"repair": "distort", "k": 5, "l": 3}),
    ],
)
@pytest.mark.parametrize(
    "model",
    [T, {"model": "beta_likeness", "beta": 1.0}, {"model": "delta_disclosure", "delta": 1.0}],
    ids=lambda model: str(model["model"]),
)
def test_what_is_compared_with_the_table_must_not_change_in_other_fragments(
    name: str, parameters: dict[str, object], model: dict[str, object]
) -> None:
    fragmentable(load_method(name, **parameters))
    with pytest.raises(SpecError, match=str(model["model"])):
        fragmentable(load_method(name, **parameters, require=(model,)))


AWKWARD = {
    "constants": people(600).assign(age=40, salary=1.0, grade="low", city="Bern", colour="red"),
    "duplicates": pd.concat([people(30)] * 20, ignore_index=True).assign(record=range(600)),
    "one value in nearly all records": people(600).assign(
        age=[40] * 590 + [50] * 10, salary=1.0, grade="low", city="Bern", colour="red"
    ),
}


@methods
@pytest.mark.parametrize("case", AWKWARD)
def test_an_awkward_table_is_released_whole(name: str, case: str, engine: Engine, tmp_path: Path) -> None:
    table, method = AWKWARD[case], load_method(name, k=5, l=2)
    together = released(planned(engine, tmp_path, table, method, SCHEMA, 150), table, method)
    assert sorted(together.joined["record"]) == sorted(table["record"])
    release = together.parts[0].release
    assert verify(together.joined, release.schema, ReleasePolicy(require=release.guarantees)).passed


@methods
def test_one_quasi_identifier_is_enough(name: str, engine: Engine, tmp_path: Path) -> None:
    schema, method = SCHEMA.select(["salary", "disease"]), load_method(name, k=5, l=2)
    table = people(800)[list(schema.names)]
    together = released(planned(engine, tmp_path, table, method, schema, 250), table, method)
    assert together.plan.fragments > 3
    classes = EquivalenceClasses.of_table(together.joined, together.parts[0].release.schema)
    assert classes.sizes.min() >= 5


def test_several_files_are_one_table(engine: Engine, tmp_path: Path) -> None:
    from privacy_engine.fragments.plan import plan_fragments

    table, method = people(), load_method("mondrian", k=5, l=3)
    files = []
    for i, part in enumerate((table[:1000], table[1000:])):
        (tmp_path / str(i)).mkdir()
        files.append(stored(part, tmp_path / str(i)))
    plan = plan_fragments(engine, files, SCHEMA, method, rows=500, seed=11)
    assert sum(plan.sizes) == len(table)
    assert set(plan.whole.sensitive["disease"].column) == set(DISEASES)
