"""Rules for released columns: each is broken by what must fail, and merged with a floor."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine import ReleasePolicy, verify
from privacy_engine.errors import SpecError, VerificationError
from privacy_engine.registry import load_method
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.column_checks import broken_by_schema
from privacy_engine.verification.column_rules import ColumnRules
from privacy_engine.verification.verify import CountedRecords, verify_tallies

YEAR = 2025


def findings(
    rules: Mapping[str, Any], fields: Mapping[str, Any], values: list[Any], **kind: Any
) -> list[str]:
    """The rules that a column `x` beside a harmless one breaks, each with the number of its records."""
    other = {"role": "insensitive", "kind": "categorical", "categories": ["o"], "meaning": "other"}
    schema = DataSchema.from_dict({"x": fields, "other": other})
    table = pd.DataFrame({"x": pd.Series(values, **kind), "other": "o"})
    report = verify(table, schema, ReleasePolicy.from_dict({"columns": rules}), year=YEAR)
    assert report.passed is all(f.passed for f in report.findings)
    broken = [f for f in report.findings if not f.passed]
    assert all(f.remedy and f.rule.endswith(" in x") for f in broken)
    return [f"{f.rule.removeprefix('columns: ').removesuffix(' in x')}: {f.measured:.0f}" for f in broken]


def column(meaning: str | None = None, kind: str = "categorical", **more: Any) -> dict[str, Any]:
    fields = {"role": "insensitive", "kind": kind, **more}
    return fields if meaning is None else {**fields, "meaning": meaning}


AGES = {"age_group_from": 90}
YEARS = {"date_precision": "year"}
FREE = {"no_free_text": True}
SIGNED = {"signed_by": "Jo Sample", "reason": "terms of a list"}
CODES = {"postcode_characters": 3, "rare_postcodes": "us_zip3_census_2000"}


@pytest.mark.parametrize(
    ("rules", "fields", "values", "broken"),
    [
        (AGES, column("age", "numeric"), [90, 3], []),
        (AGES, column("age", "numeric"), [93, 90, 91], ["age_group_from(90): 2"]),
        (AGES, column("age"), ["[85, 90]", "7 or null", "*", None, ">89"], []),
        (AGES, column("age"), ["[85, 91]", "[90, 90.5]", "80-120"], ["age_group_from(90): 3"]),
        (AGES, column("date", "numeric"), [1935, 1934], ["age_group_from(90): 1"]),
        (AGES, column("date"), ["[1935, 1960]", "1930s", "*", "1920s"], ["age_group_from(90): 1"]),
        (AGES, column("date"), ["[1934, 1960] or null"], ["age_group_from(90): 1"]),
        (YEARS, column("date"), ["[1935, 1960] or null", "1935", "1930s", "*", None], []),
        (
            YEARS,
            column("date"),
            ["2020-01", "2020-Q1", "2020-03-14", "May 2020"],
            ["date_precision(year): 4"],
        ),
        (YEARS, column("date", "numeric"), [2020, 1999], []),
        (YEARS, column("date", "numeric"), [20200314, 43900.5], ["date_precision(year): 2"]),
        (
            {"date_precision": "decade"},
            column("date", "numeric"),
            [2020, 1999],
            ["date_precision(decade): 1"],
        ),
        (
            {"date_precision": "month"},
            column("date"),
            ["2020-01", "2020", "2020-W01"],
            ["date_precision(month): 1"],
        ),
        (CODES, column("postcode"), ["021", "{021, 022, null}", "*", "02*", "000", None, "[021, 024]"], []),
        (CODES, column("postcode"), ["02138", "021 38", "{021, 0213}"], ["postcode_characters(3): 3"]),
        ({"postcode_characters": 3}, column("postcode", "numeric"), [21], ["postcode_characters(3): 1"]),
        ({"rare_postcodes": ["036"]}, column("postcode", "numeric"), [3601], ["rare_postcodes(036): 1"]),
        (
            {"rare_postcodes": ["036", "9"]},
            column("postcode"),
            ["90210", "03"],
            ["rare_postcodes(036, 9): 1"],
        ),
        (
            CODES,
            column("postcode"),
            ["036", "{021, 036}", "021"],
            ["rare_postcodes(us_zip3_census_2000): 2"],
        ),
        ({"declared": True}, column(), ["a"], ["declared: 1"]),
        ({"declared": True}, column("other"), ["a"], []),
        ({"forbid": ["name", "place"]}, column("place"), ["a", "b"], ["forbid(name, place): 2"]),
        ({"roles": ["insensitive"]}, column("other", role="sensitive"), ["a"], ["roles(insensitive): 1"]),
        ({"clean_text": True}, column(text={"allow": "wards"}), ["a"], ["clean_text: 1"]),
        ({"clean_text": True}, column(text="redact"), ["a"], []),
        (FREE, column(), ["a"], ["no_free_text: 1"]),
        (FREE, column(role="sensitive"), ["a"], ["no_free_text: 1"]),
        (FREE, column(free_text=SIGNED), ["a"], []),
        (FREE, column(categories=["a"]), ["a"], []),
        (FREE, column(kind="numeric"), [1.5], []),
        (FREE, column("postcode"), ["021"], ["no_free_text: 1"]),
        ({**FREE, **CODES}, column("postcode"), ["021"], []),
        ({**FREE, **YEARS}, column("date"), ["1935"], []),
        (FREE, column(role="quasi_identifier"), ["{a, b}"], []),
        (FREE, column(role="quasi_identifier", unlisted=True), ["{a, b}"], ["no_free_text: 1"]),
        (FREE, column(role="quasi_identifier", unlisted=True, free_text=SIGNED), ["{a, b}"], []),
        ({"no_unique_columns": True}, column(unique={"allow": "drawn"}), ["a"], ["no_unique_columns: 1"]),
    ],
)
def test_what_breaks_a_rule(
    rules: dict[str, Any], fields: dict[str, Any], values: list[Any], broken: list[str]
) -> None:
    assert findings(rules, fields, values) == broken


@pytest.mark.parametrize(
    ("kind", "values", "broken"),
    [
        ("date", [date(2020, 1, 1), date(2020, 12, 31), None], []),
        ("date", [date(2020, 1, 1), date(2020, 3, 14)], ["date_precision(year): 1"]),
        ("timestamp", [datetime(2020, 1, 1), datetime(2020, 12, 31, 23, 59, 59)], []),
        ("timestamp", [datetime(2020, 1, 1, 0, 0, 1), datetime(2020, 1, 1)], ["date_precision(year): 1"]),
        ("timestamp", [datetime(2020, 1, 1, 0, 0, 0, 7)], ["date_precision(year): 1"]),
        ("date", [date(1934, 1, 1), date(1935, 1, 1)], ["age_group_from(90): 1"]),
    ],
)
def test_typed_dates_are_measured_whatever_the_schema_says(
    kind: str, values: list[Any], broken: list[str]
) -> None:
    fields = column(kind=kind, precision="year")
    assert findings({"declared": True, **YEARS, **AGES}, fields, values) == broken


def test_pseudonyms_and_identifiers_are_of_other_rules() -> None:
    rules = ColumnRules(declared=True, forbid=())
    schema = DataSchema.from_dict(
        {
            "id": {"role": "identifier", "meaning": "number"},
            "p": {"role": "insensitive", "pseudonym": {"scope": "release", "key": "k"}},
        }
    )
    assert broken_by_schema(rules, schema) == []


def test_a_rule_that_is_not_measured_is_never_passed_over() -> None:
    schema = DataSchema.from_dict({"x": column("age", "numeric")})
    policy = ReleasePolicy.from_dict({"columns": AGES})
    with pytest.raises(VerificationError, match="year of the release"):
        verify(pd.DataFrame({"x": [3]}), schema, policy)
    with pytest.raises(VerificationError, match="their values"):
        verify_tallies(CountedRecords(columns=["x"]), schema, policy, year=YEAR)


def test_an_empty_release_keeps_no_rule() -> None:
    schema = DataSchema.from_dict({"x": column("age", "numeric")})
    policy = ReleasePolicy.from_dict({"columns": AGES})
    assert not verify(pd.DataFrame({"x": [1]}).head(0), schema, policy, year=YEAR).passed


def test_an_error_names_column_rule_count_and_remedy() -> None:
    schema = DataSchema.from_dict({"x": column("age", "numeric")})
    policy = ReleasePolicy.from_dict({"columns": AGES})
    report = verify(pd.DataFrame({"x": [93, 1, 95]}), schema, policy, year=YEAR)
    with pytest.raises(VerificationError) as caught:
        report.raise_if_failed()
    assert "columns: age_group_from(90) in x measured 2 rows: state `top_code: 90`" in str(caught.value)
    assert "93" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "at least one rule"),
        ({"declared": False}, "at least one rule"),
        ([], "must be a mapping"),
        ({"declare": True}, "must be a mapping with some of"),
        ({"declared": "yes"}, "declared must be true or false"),
        ({"forbid": "name"}, "forbid must be a list"),
        ({"forbid": ["nom"]}, "forbid must be one of"),
        ({"roles": ["public"]}, "roles must be one of"),
        ({"date_precision": "hour"}, "date_precision must be one of"),
        ({"date_precision": "fortnight"}, "date_precision must be one of"),
        ({"age_group_from": 0}, "positive whole number"),
        ({"postcode_characters": True}, "positive whole number"),
        ({"rare_postcodes": [36]}, "list of texts, in quotes"),
    ],
)
def test_wrong_rules_are_refused(given: Any, expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        ReleasePolicy.from_dict({"columns": given, "max_epsilon": 1})


STRICT = {
    "declared": True,
    "roles": ["quasi_identifier"],
    "forbid": ["name", "place"],
    "date_precision": "year",
    "age_group_from": 90,
    "postcode_characters": 3,
    "rare_postcodes": ["036", "021"],
    "clean_text": True,
    "no_unique_columns": True,
}
LOOSE = {
    "roles": ["quasi_identifier", "sensitive"],
    "forbid": ["name", "contact"],
    "date_precision": "month",
    "age_group_from": 100,
    "postcode_characters": 4,
    "rare_postcodes": ["036"],
}


def policy(columns: Mapping[str, Any]) -> ReleasePolicy:
    return ReleasePolicy.from_dict({"columns": columns})


def test_with_a_floor_the_stricter_of_two_rules_holds() -> None:
    both = [policy(LOOSE).with_floor(policy(STRICT)), policy(STRICT).with_floor(policy(LOOSE))]
    wanted = {**STRICT, "forbid": ["place", "name", "contact"]}
    for merged in both:
        fields = merged.to_dict()["columns"]
        assert {**fields, "rare_postcodes": sorted(fields["rare_postcodes"])} == {
            **wanted,
            "rare_postcodes": ["021", "036"],
        }
    silent = ReleasePolicy.from_dict({"max_epsilon": 1})
    assert silent.with_floor(policy(STRICT)).columns == policy(STRICT).columns
    assert policy(STRICT).with_floor(silent).columns == policy(STRICT).columns
    with pytest.raises(SpecError, match="must share one with the floor policy"):
        policy({"roles": ["sensitive"]}).with_floor(policy(STRICT))


def test_a_policy_that_says_less_than_the_floor_is_reported() -> None:
    weaker = policy(LOOSE).weaker_than(policy(STRICT))
    assert [text.split()[0].removeprefix("columns.") for text in weaker] == [
        *("roles", "forbid", "date_precision", "age_group_from", "postcode_characters", "rare_postcodes")
    ]
    assert policy(STRICT).weaker_than(policy({**STRICT, "declared": True})) == []
    assert policy({"declared": True}).weaker_than(policy(STRICT)) == []  # silence is none


def test_rules_are_read_back_from_what_is_written() -> None:
    read = policy(STRICT)
    assert ReleasePolicy.from_dict(read.to_dict()) == read


@pytest.mark.parametrize("method", ["mondrian", "bottom_up"])
@pytest.mark.parametrize("more", [{}, {"categories": ["a", "b"]}, {"free_text": SIGNED}])
def test_a_released_quasi_identifier_tells_that_it_was_free_text(method: str, more: dict[str, Any]) -> None:
    fields = {"x": column(role="quasi_identifier", **more), "age": column("age", "numeric")}
    table = pd.DataFrame({"x": ["a", "a", "b", "b"], "age": [1, 2, 3, 4]})
    made = load_method(method, k=2).release(table, DataSchema.from_dict(fields), np.random.default_rng(1))
    schema = DataSchema.from_dict(made.schema.to_dict())
    broken = broken_by_schema(ColumnRules.from_dict(FREE), schema)
    assert [found.rule for found in broken] == ([] if more else ["no_free_text"])
    assert made.manifest()["columns"]["x"].get("free_text") == more.get("free_text")
