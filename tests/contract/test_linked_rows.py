"""Every anonymizer on tables whose rows stay linked: classes of whole trajectories, counted again by hand."""

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.registry import load_method, method_names, reads_records
from privacy_engine.release import Release
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.persons import Person
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    EntropyLDiversity,
    KAnonymity,
    TCloseness,
)
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_engine.vocabulary import Intervals, Role, released_as
from tests.contract.tables import QUICK
from tests.contract.test_persons import ANONYMIZERS, POLICY, TABLES
from tests.contract.test_persons import CONSTANT as CONSTANT_ROWS
from tests.contract.test_persons import SCHEMA as INDEPENDENT

LINKED = Person(column="patient", rows="linked")
SCHEMA = DataSchema((*INDEPENDENT.attributes, Attribute(name="note", role=Role.INSENSITIVE)), LINKED)
CONSTANT = DataSchema(CONSTANT_ROWS.attributes, LINKED)
QUASI = ("age", "district", "month")


def with_notes(table: pd.DataFrame) -> pd.DataFrame:
    """Each record can be found again by its note."""
    return table.assign(note=[f"note {i}" for i in range(len(table))])


@cache
def released(method: str, name: str, schema: DataSchema = SCHEMA, **parameters: Any) -> Release:
    """The release of a table of `TABLES`, made once, for reading only."""
    table = with_notes(TABLES[name])[list(schema.names)]
    releaser = load_method(method, k=4, l=2, **QUICK.get(method, {}), **parameters)
    return releaser.release(table, schema, np.random.default_rng(3))


def recounted(table: pd.DataFrame) -> list[tuple[int, int]]:
    """Of each class of equal trajectories the persons, and what tells their illnesses apart."""
    ways: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    had: dict[str, set[str]] = defaultdict(set)
    quasi = [end for name in QUASI for end in released_as(name, table.columns)]
    for row in table.to_dict("records"):
        ways[row["patient"]][tuple(str(row[name]) for name in quasi)] += 1
        had[row["patient"]].add(row["illness"])
    classes = defaultdict(list)
    for patient, way in ways.items():
        classes[frozenset(way.items())].append(patient)
    return [
        (
            len(people),
            min(len(set().union(*(had[p] for p in people))), len({frozenset(had[p]) for p in people})),
        )
        for people in classes.values()
    ]


# Each method with few rows a person or many, and with both; constant attributes are those of `test_persons`.
@pytest.mark.quick(
    *(f"{method}-one to 800 rows-varying" for method in ANONYMIZERS),
    *(f"{method}-twenty rows each-varying" for method in ANONYMIZERS[::2]),
    *(f"{method}-one row each-varying" for method in ANONYMIZERS[1::2]),
)
@pytest.mark.parametrize("schema", [CONSTANT, SCHEMA], ids=["constant", "varying"])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("method", ANONYMIZERS)
def test_every_class_has_k_trajectories_and_l_sets_of_values(
    method: str, name: str, schema: DataSchema
) -> None:
    release = released(method, name, schema)
    found = recounted(release.table)
    assert min(k for k, _ in found) >= 4
    assert min(values for _, values in found) >= 2
    report = verify(release.table, release.schema, POLICY, persons=release.persons)
    assert report.passed
    assert report.classes == len(found) == release.manifest()["classes"]
    assert report.findings[0].measured == min(k for k, _ in found)
    assert report.findings[1].measured == min(values for _, values in found)


@pytest.mark.parametrize("method", ANONYMIZERS)
def test_each_released_row_is_one_of_its_person_and_covers_it(method: str) -> None:
    release = released(method, "one to 800 rows")
    source = with_notes(TABLES["one to 800 rows"])
    assert release.rows is not None
    assert release.persons is not None
    origin = source.iloc[release.rows].reset_index(drop=True)
    table = release.table
    assert (table["note"] == origin["note"]).all()
    assert (release.persons == origin["patient"]).all()
    assert origin.groupby(table["patient"])["patient"].nunique().eq(1).all()
    assert table.groupby(origin["patient"])["patient"].nunique().eq(1).all()
    for name in ("age", "month"):
        assert (table[f"{name}_from"] <= origin[name]).all()
        assert (table[f"{name}_to"] >= origin[name]).all()
    assert all(d in reported for d, reported in zip(origin["district"], table["district"], strict=True))
    assert len(table) + release.manifest()["suppressed"] == len(source)


@pytest.mark.parametrize("name", TABLES)
def test_what_is_constant_for_a_person_is_generalized_once(name: str) -> None:
    table = released("bottom_up", name).table
    for column in ("age_from", "age_to", "district"):
        assert table.groupby("patient")[column].nunique().eq(1).all()


def test_with_one_row_each_no_one_is_lost() -> None:
    release = released("mondrian", "one row each")
    assert release.manifest()["suppressed"] == 0
    assert release.table["patient"].is_unique


@pytest.mark.parametrize("method", ["mondrian", "bottom_up", "obpa"])
@pytest.mark.parametrize(
    "model",
    [TCloseness(t=0.3), EntropyLDiversity(l=2), AlphaKAnonymity(alpha=0.9, k=4)],
    ids=lambda model: model.name,
)
def test_models_are_of_all_values_of_the_persons(method: str, model: Any) -> None:
    table = TABLES["one to 800 rows"]
    few = table[table.groupby("patient").cumcount() < 3][list(INDEPENDENT.names)]
    schema = DataSchema(INDEPENDENT.attributes, LINKED)
    release = load_method(method, k=4, require=(model,)).release(few, schema, np.random.default_rng(3))
    assert verify(release.table, release.schema, ReleasePolicy(require=(KAnonymity(k=4), model))).passed


def test_a_demand_that_no_grouping_meets_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="alpha"):
        released("mondrian", "twenty rows each", require=(AlphaKAnonymity(alpha=0.2, k=4),))


def test_pseudonyms_say_nothing_of_identifiers_order_or_choices() -> None:
    table = TABLES["twenty rows each"][list(INDEPENDENT.names)]
    schema = DataSchema(INDEPENDENT.attributes, LINKED)
    method = load_method("mondrian", k=4)
    first = method.release(table, schema, np.random.default_rng(3)).table
    renamed = table.assign(patient=table["patient"].map(lambda p: f"other {p[::-1]}"))
    again = method.release(renamed.sample(frac=1, random_state=5), schema, np.random.default_rng(3)).table
    pd.testing.assert_frame_equal(first, again)
    other = method.release(table, schema, np.random.default_rng(4)).table
    assert not set(first["patient"]) & set(other["patient"])
    assert first["patient"].str.fullmatch("[a-z2-7]{8}").all()
    assert first["patient"].is_monotonic_increasing
    assert not first["patient"].isin(table["patient"]).any()


def test_very_long_trajectories_are_matched_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = released("mondrian", "one to 800 rows")
    monkeypatch.setattr("privacy_engine.anonymizers.trajectories.MOST_PAIRS", 50)
    release = released.__wrapped__("mondrian", "one to 800 rows")
    assert len(release.table) == len(whole.table)
    assert verify(release.table, release.schema, POLICY).passed


def test_distorted_values_are_refused() -> None:
    table = TABLES["twenty rows each"][list(INDEPENDENT.names)].assign(illness="a")
    table.loc[table["patient"].isin(["p1", "p2"]), "illness"] = "b"
    method = load_method("ilp_l_diversity", k=4, l=2, repair="distort")
    with pytest.raises(SchemaError, match="repair: merge"):
        method.release(table, DataSchema(INDEPENDENT.attributes, LINKED), np.random.default_rng(3))


def test_a_release_is_not_released_again_with_its_pseudonyms() -> None:
    release = released("mondrian", "one row each")
    with pytest.raises(SchemaError, match="its role must be identifier"):
        load_method("mondrian", k=4).release(release.table, release.schema, np.random.default_rng(3))


def test_parts_of_a_table_are_refused() -> None:
    table = TABLES["one row each"][list(INDEPENDENT.names)]
    schema = replace(INDEPENDENT, person=LINKED)
    with pytest.raises(SchemaError, match="in one piece"):
        load_method("mondrian", k=4).release(table, schema, np.random.default_rng(3), whole={})


@pytest.mark.parametrize("method", [n for n in method_names() if n not in ANONYMIZERS and reads_records(n)])
def test_methods_without_classes_refuse_linked_rows(method: str) -> None:
    with pytest.raises(SchemaError, match="patient"):
        load_method(method).release(
            TABLES["one row each"], SCHEMA.select(INDEPENDENT.names), np.random.default_rng(3)
        )


@pytest.mark.parametrize(("allowed", "passes"), [("forbid", False), ("release", True), ("any", True)])
def test_pseudonyms_that_link_rows_are_what_a_policy_may_forbid(allowed: str, passes: bool) -> None:
    release = released("mondrian", "twenty rows each")
    policy = replace(POLICY, pseudonyms=allowed)
    assert verify(release.table, release.schema, policy).passed is passes


@pytest.mark.parametrize("intervals", [Intervals.TEXT, Intervals.BOUNDS])
@pytest.mark.parametrize("method", ["mondrian", "bottom_up"])
def test_dates_and_missing_values_are_parts_of_trajectories(method: str, intervals: Intervals) -> None:
    rng = np.random.default_rng(2)
    table = TABLES["twenty rows each"][["patient", "age", "illness"]].copy()
    table["age"] = table["age"].where(table["patient"].str[-1] != "7").astype("float64")
    table["day"] = np.datetime64("2024-01-01") + rng.integers(0, 700, len(table)).astype("timedelta64[D]")
    table["ward"] = rng.choice(np.array(["a", "b", None], dtype=object), len(table))
    schema = DataSchema.from_dict(
        {
            "patient": {"role": "identifier"},
            "age": {"role": "quasi_identifier", "kind": "numeric", "nullable": True},
            "day": {"role": "quasi_identifier", "kind": "date"},
            "ward": {"role": "quasi_identifier", "categories": ["a", "b"], "nullable": True},
            "illness": {"role": "sensitive"},
            "person": {"column": "patient", "rows": "linked"},
        }
    )
    release = load_method(method, k=4, l=2, intervals=intervals).release(
        table[list(schema.names)], schema, np.random.default_rng(3)
    )
    assert verify(release.table, release.schema, POLICY, persons=release.persons).passed
    quasi = [a.name for a in release.schema.quasi_identifiers]
    ways: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for row in release.table.to_dict("records"):
        ways[row["patient"]][tuple(str(row[name]) for name in quasi)] += 1
    assert min(Counter(frozenset(way.items()) for way in ways.values()).values()) >= 4
