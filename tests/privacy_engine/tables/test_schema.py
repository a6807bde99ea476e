"""Schemas: round trips, every rule of the check, and no value in a message."""

import json
import math
import pickle
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.dates import nests
from privacy_engine.tables.hierarchy import ROOT, Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import CalendarUnit, Kind, Role

CITIES = Hierarchy((("Bern", "south", "*"), ("Basel", "north", "*")))
CANARY = "canary-7f3a"
SCHEMA = DataSchema(
    (
        Attribute(name="name", role=Role.IDENTIFIER),
        Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 120), bins=12),
        Attribute(
            name="grade", role=Role.QUASI_IDENTIFIER, kind=Kind.ORDINAL, categories=("low", "mid", "high")
        ),
        Attribute(name="city", role=Role.QUASI_IDENTIFIER, hierarchy=CITIES),
        Attribute(name="disease", role=Role.SENSITIVE, nullable=True),
        Attribute(name="visits", kind=Kind.NUMERIC),
    )
)


def good() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": ["Ann", None],
            "age": [30.0, 40.0],
            "grade": ["low", "high"],
            "city": ["Bern", "Basel"],
            "disease": ["flu", None],
            "visits": [1.0, np.nan],
        }
    )


# PyYAML folds control characters such as U+0085 into spaces
names = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=8)


@st.composite
def dated_attributes(draw: st.DrawFn, kind: Kind, role: Role) -> Attribute:
    finest = CalendarUnit.SECOND if kind is Kind.TIMESTAMP else CalendarUnit.DAY
    chain = [p for p in CalendarUnit if p is not CalendarUnit.WEEK and nests(finest, p)]
    first = draw(st.integers(0, len(chain) - 1))
    exact = role is Role.INSENSITIVE and draw(st.booleans())
    fields: dict[str, object] = {"as_is": True} if exact else {"precision": chain[first].value}
    if role is Role.QUASI_IDENTIFIER and draw(st.booleans()):
        fields["calendar"] = [p.value for p in chain[first:]]
    if draw(st.booleans()):
        fields["bounds"] = draw(
            st.sampled_from([["1901-01-01", "2026-12-31"], [date(1, 1, 1), "9999-12-31"]])
        )
        if not exact and draw(st.booleans()):
            fields["bin"] = draw(st.sampled_from(chain[first:])).value
    if draw(st.booleans()):
        fields["format"] = draw(st.sampled_from(["%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S"]))
    if draw(st.booleans()):
        fields["zone"] = "Europe/Zurich"
    return Attribute.from_dict(draw(names), {"role": role.value, "kind": kind.value} | fields)


@st.composite
def attributes(draw: st.DrawFn) -> Attribute:
    kind = draw(st.sampled_from(Kind))
    role = draw(st.sampled_from(Role))
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        return draw(dated_attributes(kind, role))
    domain = draw(st.sampled_from(["none", "categories", "bounds", "hierarchy"]))
    values = tuple(draw(st.lists(names, min_size=1, max_size=4, unique=True)))
    leaves = [value for value in values if value != ROOT] or ["a"]  # above others it would be untrue of them
    low, high = sorted(draw(st.lists(st.integers(-999, 999), min_size=2, max_size=2, unique=True)))
    return Attribute(
        name=draw(names),
        role=role,
        kind=kind,
        categories=values if domain == "categories" and kind is not Kind.NUMERIC else None,
        bounds=(low / 4, high / 4) if domain == "bounds" and kind is not Kind.CATEGORICAL else None,
        hierarchy=Hierarchy.flat(leaves) if domain == "hierarchy" else None,
        nullable=draw(st.booleans()),
    )


schemas = st.lists(attributes(), min_size=1, max_size=4, unique_by=lambda a: a.name).map(
    lambda found: DataSchema(tuple(found))
)


@given(schemas)
def test_a_schema_survives_round_trips_through_yaml_and_json(schema: DataSchema) -> None:
    assert DataSchema.from_yaml(schema.to_yaml()) == schema
    assert DataSchema.from_json(schema.to_json()) == schema


BAD_FIELDS = {
    "an unknown field": ({"rolle": "sensitive"}, r"unknown fields \['rolle'\]; known are"),
    "an unknown role": ({"role": "secret"}, "role must be one of"),
    "an unknown kind": ({"kind": "text"}, "kind must be one of"),
    "one bound": ({"kind": "numeric", "bounds": [1]}, "two numbers"),
    "bounds that are text": ({"kind": "numeric", "bounds": "17"}, "two numbers"),
    "bounds of text": ({"kind": "numeric", "bounds": ["1", "2"]}, "two numbers"),
    "no category": ({"categories": []}, "at least one"),
    "categories that are a text": ({"categories": "abc"}, "must be a list"),
    "a null category": ({"categories": ["a", None]}, "none of them null"),
    "bins of half a bin": ({"kind": "numeric", "bounds": [0, 1], "bins": 2.5}, "whole number"),
    "no bin": ({"kind": "numeric", "bounds": [0, 1], "bins": 0}, "positive"),
    "bins that are text": ({"kind": "numeric", "bounds": [0, 1], "bins": "4"}, "whole number"),
    "nullable in words": ({"nullable": "no"}, "nullable must be true or false"),
    "a number for a hierarchy": ({"hierarchy": 5}, "hierarchy must be a name, or a list of rows"),
    "texts for rows of a hierarchy": ({"hierarchy": ["ab", "cb"]}, "a list of rows"),
}


@pytest.mark.parametrize("case", BAD_FIELDS)
def test_a_bad_field_is_refused_by_attribute_and_field(case: str) -> None:
    fields, message = BAD_FIELDS[case]
    with pytest.raises(SchemaError, match=message) as caught:
        DataSchema.from_dict({"age": fields})
    assert "'age'" in str(caught.value)


def test_a_schema_of_dates_is_the_same_in_another_process() -> None:
    fields = {
        "role": "quasi_identifier",
        "kind": "date",
        "calendar": ["month"],
        "bounds": ["2019-01-01", "2020-12-31"],
    }
    attribute = pickle.loads(pickle.dumps(Attribute.from_dict("d", fields)))
    assert replace(attribute, nullable=True).type_problem(pd.Series([date(2020, 1, 1)])) is None
    pd.testing.assert_frame_equal(
        DataSchema((attribute,)).normalized(pd.DataFrame({"d": [date(2020, 5, 7)]})),
        pd.DataFrame({"d": pd.Series([date(2020, 5, 1)]).astype("date32[pyarrow]")}),
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"name": ""}, "non-empty"),
        ({"bounds": (0, 1)}, "bounds must be"),  # categorical
        ({"kind": Kind.NUMERIC, "bounds": (2, 2)}, "the lower first"),
        ({"kind": Kind.NUMERIC, "bounds": (0, math.inf)}, "finite"),
        ({"kind": Kind.NUMERIC, "bounds": (math.nan, 1)}, "finite"),
        ({"kind": Kind.NUMERIC, "categories": ("a",)}, "categories must be"),
        ({"categories": ("a", "a")}, "distinct"),
        ({"kind": Kind.ORDINAL, "categories": ("a",), "bounds": (0, 1)}, "not both"),
        ({"bins": 3}, "require bounds"),
        ({"hierarchy": CITIES, "categories": ("Bern", CANARY)}, "misses 1 of the categories"),
        ({"hierarchy": Hierarchy((("20", "0-19", "*"), ("19", "0-19", "*")))}, "1 row of the hierarchy"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        Attribute(**{"name": "a", **parts})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("fields", [None, [], "age", {"age": None}, {"age": "numeric"}, {}])
def test_what_is_no_mapping_of_columns_is_refused(fields: object) -> None:
    with pytest.raises(SchemaError, match=r"mapping|at least one attribute"):
        DataSchema.from_dict(fields)


@pytest.mark.parametrize("read", [DataSchema.from_yaml, DataSchema.from_json])
def test_text_that_cannot_be_parsed_is_a_schema_error(read: object) -> None:
    with pytest.raises(SchemaError, match="not valid"):
        read("age: [")


def test_two_attributes_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="distinct names"):
        DataSchema((Attribute(name="a"), Attribute(name="a")))


def test_a_hierarchy_is_found_by_its_key_or_read_in_full() -> None:
    by_key = DataSchema.from_dict({"city": {"hierarchy": "cities"}}, {"cities": CITIES})
    in_full = DataSchema.from_dict({"city": {"hierarchy": [list(row) for row in CITIES.rows]}})
    assert by_key == in_full
    with pytest.raises(SchemaError, match=r"no hierarchy 'towns' was given; given are \['cities'\]"):
        DataSchema.from_dict({"city": {"hierarchy": "towns"}}, {"cities": CITIES})


def test_numbers_among_categories_read_as_the_values_of_a_column_do() -> None:
    schema = DataSchema.from_yaml("size: {categories: [1, 2.0, 2.5]}")
    assert schema["size"].categories == ("1", "2", "2.5")
    schema.check(pd.DataFrame({"size": [1.0, 2.0, 2.5]}))


def test_a_table_that_fits_passes() -> None:
    SCHEMA.check(good())


# case: how the good table is spoiled, and the problem that must be named with its count
PROBLEMS = {
    "a null quasi-identifier": (lambda t: t.assign(city=["Bern", None]), "city: 1 value is null"),
    "a null number": (lambda t: t.assign(age=[30, np.nan]), "age: 1 value is null"),
    "text for a number": (lambda t: t.assign(age=[CANARY, "1"]), "age: must be a number, got (str|object)"),
    "booleans for a number": (lambda t: t.assign(age=[True, False]), "age: must be a number, got bool"),
    "an infinite number": (lambda t: t.assign(visits=[np.inf, 1.0]), "visits: 1 value is infinite"),
    "above the bounds": (lambda t: t.assign(age=[30, 9107331]), "age: 1 value is out of the bounds"),
    "below the bounds": (lambda t: t.assign(age=[-9107331, -2]), "age: 2 values are out of the bounds"),
    "an unseen category": (
        lambda t: t.assign(grade=CANARY),
        "grade: the categories miss 1 distinct value in 2 rows",
    ),
    "a value beyond the hierarchy": (
        lambda t: t.assign(city=["Bern", CANARY]),
        "city: the hierarchy misses 1 distinct value in 1 row",
    ),
    "no record": (lambda t: t.iloc[:0], "the table is empty"),
    "a missing column": (lambda t: t.drop(columns="age"), r"columns \['age'\] are missing"),
    "an extra column": (lambda t: t.assign(shoe=CANARY), r"columns \['shoe'\] are not in the schema"),
    "a column twice": (lambda t: pd.concat([t, t[["age"]]], axis=1), "column names must be distinct"),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_table_that_does_not_fit_is_refused_by_column_rule_and_count_without_a_value(case: str) -> None:
    spoil, message = PROBLEMS[case]
    with pytest.raises(SchemaError, match=message) as caught:
        SCHEMA.check(spoil(good()))
    assert not any(planted in str(caught.value) for planted in (CANARY, "9107331"))


def test_all_problems_are_reported_at_once() -> None:
    table = good().assign(age=[np.nan, 999], grade="x", city="y", visits=[np.inf, 0])
    with pytest.raises(SchemaError) as caught:
        SCHEMA.check(table)
    for part in ("age: 1 value is null", "age: 1 value is out", "grade:", "city:", "visits:"):
        assert part in str(caught.value)


def test_all_problems_of_columns_are_reported_at_once() -> None:
    with pytest.raises(SchemaError, match=r"\['age'\] are missing.*\['shoe'\] are not in the schema"):
        SCHEMA.check_columns(["name", "shoe", "grade", "city", "disease", "visits"])


@pytest.mark.parametrize("column", ["name", "disease", "visits"])
def test_nulls_of_identifiers_nullable_and_insensitive_attributes_are_allowed(column: str) -> None:
    SCHEMA.check(good().assign(**{column: pd.Series([None, None], dtype=good()[column].dtype)}))


def test_nulls_of_a_sensitive_attribute_must_be_declared() -> None:
    schema = DataSchema((Attribute(name="disease", role=Role.SENSITIVE),))
    with pytest.raises(SchemaError, match="disease: 1 value is null"):
        schema.check(pd.DataFrame({"disease": ["flu", None]}))


@given(schemas)
def test_roles_part_the_attributes(schema: DataSchema) -> None:
    parts = [*schema.identifiers, *schema.quasi_identifiers, *schema.sensitive]
    rest = [a for a in schema.attributes if a.role is Role.INSENSITIVE]
    assert sorted(a.name for a in parts + rest) == sorted(schema.names)
    if len(schema.identifiers) < len(schema.attributes):
        assert not schema.without_identifiers().identifiers


def test_select_keeps_the_given_order_and_refuses_an_unknown_name() -> None:
    assert SCHEMA.select(["city", "age"]).names == ("city", "age")
    with pytest.raises(SchemaError, match="no attribute 'shoe' in the schema, which has"):
        SCHEMA.select(["shoe"])


@pytest.mark.parametrize(
    ("attribute", "ordered", "public"),
    [
        ("age", True, True),
        ("grade", True, True),
        ("city", False, True),
        ("disease", False, False),
        ("visits", True, False),
    ],
)
def test_what_is_recoded_by_intervals_and_what_has_a_public_domain(
    attribute: str, ordered: bool, public: bool
) -> None:
    assert (SCHEMA[attribute].ordered, SCHEMA[attribute].has_public_domain) == (ordered, public)


def test_the_dictionary_is_plain_json() -> None:
    assert json.loads(json.dumps(SCHEMA.to_dict())) == SCHEMA.to_dict()
