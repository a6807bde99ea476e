"""Codes of a table: what they become, that they cover the truth, and what is refused."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import ReleasePolicy, load_method, verify
from privacy_engine.errors import SchemaError
from privacy_engine.tables.domains import BinnedDomain, Storage, public_domain
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import RARE_PREFIXES

AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "top_code": 90}
BORN = {"role": "quasi_identifier", "kind": "date", "precision": "year"}
ZIP = {
    "role": "quasi_identifier",
    "kind": "categorical",
    "prefix": 3,
    "width": 5,
    "rare": "us_zip3_census_2000",
}


def coded(fields: dict[str, Any], values: list[Any], **column: Any) -> list[Any]:
    schema = DataSchema.from_dict({"x": fields})
    table = pd.DataFrame({"x": pd.Series(values, **column)})
    schema.check(table)
    normal = schema.normalized(table)
    pd.testing.assert_frame_equal(schema.normalized(normal), normal)
    pd.testing.assert_frame_equal(schema.coded().normalized(normal), normal)
    schema.coded().check(normal)
    return [None if pd.isna(value) else value for value in normal["x"]]


def test_what_is_beyond_a_code_becomes_it_and_keeps_its_type() -> None:
    assert coded(AGE, [93, 90, 89, 0], dtype="int64") == [90, 90, 89, 0]
    assert coded({**AGE, "bottom_code": 18, "nullable": True}, [93.5, None, 17.9, 20.5]) == [
        90,
        None,
        18,
        20.5,
    ]
    whole = DataSchema.from_dict({"x": AGE}).normalized(pd.DataFrame({"x": [93, 4]}))
    assert whole["x"].dtype == np.int64


def test_birth_years_are_grouped_at_a_date_or_by_the_year_of_the_release() -> None:
    days = [date(1920, 5, 1), date(1935, 12, 31), date(1936, 1, 1)]
    fixed = coded({**BORN, "bottom_code": "1935-07-01"}, days)
    assert fixed == [date(1935, 1, 1), date(1935, 1, 1), date(1936, 1, 1)]
    relative = DataSchema.from_dict({"x": {**BORN, "bottom_code": {"years_before_release": 90}}})
    table = pd.DataFrame({"x": days})
    with pytest.raises(SchemaError, match="year of the release, which is not known here"):
        relative.normalized(table)
    known = relative.as_of(date(2025, 11, 22))
    assert known.normalized(table)["x"].tolist() == fixed
    assert known.to_dict()["x"]["bottom_code"] == "1935-01-01"
    assert known.as_of(date(2030, 1, 1)) == known  # the schema that travels stays


def test_the_year_of_a_release_groups_all_who_may_be_of_the_age_by_then() -> None:
    """Anyone distinguished by birth year is at most 89 on the last day of the release's year."""
    schema = DataSchema.from_dict({"x": {**BORN, "bottom_code": {"years_before_release": 90}}})
    years = list(range(1900, 2026))
    table = pd.DataFrame({"x": [date(year, 1, 1) for year in years]})
    for released in (2024, 2025):
        reported = schema.as_of(date(released, 6, 1)).normalized(table)["x"]
        alone = [year for year, code in zip(years, reported, strict=True) if list(reported).count(code) == 1]
        assert released - min(alone) == 89


def test_codes_keep_their_first_characters_and_rare_ones_become_zeros() -> None:
    assert coded(ZIP, ["02138", "03601", "02138-1234", "00000"]) == ["021", "000", "021", "000"]
    assert coded(ZIP, [2138, 3601, 99999]) == ["021", "000", "999"]  # numbers lost their leading zeros
    assert coded({**ZIP, "nullable": True}, [2138.0, None]) == ["021", None]
    own = {**ZIP, "rare": ["021"]}
    assert coded(own, ["02138", "03601"]) == ["000", "036"]


def test_the_list_of_rare_prefixes_is_that_of_the_guidance() -> None:
    listed = "036 692 878 059 790 879 063 821 884 102 823 890 203 830 893 556 831"  # HHS 2012, Census 2000
    assert set(RARE_PREFIXES["us_zip3_census_2000"]) == set(listed.split())


@pytest.mark.parametrize(
    ("fields", "values", "expected"),
    [
        ({**ZIP, "width": None}, [2138], "lost leading zeros. State the width"),
        (ZIP, [213811], "1 value is shorter than a code, or of more digits"),
        (ZIP, [-213], "1 value is shorter than a code"),
        (ZIP, ["2138", "02138"], "1 value is shorter than a code"),
        (AGE, [121], "1 value is out of the bounds"),
        ({**AGE, "top_code": 89.5}, [3], "top_code and bottom_code must be whole"),
        ({**ZIP, "categories": ["021"]}, ["02138", "10001"], "categories miss 1 distinct value"),
    ],
)
def test_a_value_that_no_true_code_can_be_made_of_is_refused(
    fields: dict[str, Any], values: list[Any], expected: str
) -> None:
    fields = {name: value for name, value in fields.items() if value is not None}
    with pytest.raises(SchemaError, match=expected) as caught:
        DataSchema.from_dict({"x": fields}).check(pd.DataFrame({"x": values}))
    assert not [value for value in values if f" {value} " in f" {caught.value} "]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({**AGE, "top_code": 0}, "leave more than one value"),
        ({**AGE, "bottom_code": 91}, "bottom_code must be below top_code"),
        ({**AGE, "top_code": "ninety"}, "top_code must be a finite number"),
        ({**AGE, "role": "identifier"}, "codes apply only to released attributes"),
        ({"role": "sensitive", "kind": "categorical", "top_code": 3}, "apply to numbers and dates"),
        ({**AGE, "prefix": 2, "top_code": None}, "prefix applies only to text"),
        ({**ZIP, "prefix": None}, "width and rare require a prefix"),
        ({**ZIP, "width": 2}, "width must be at least as large"),
        ({**ZIP, "rare": ["02138"]}, "rare must be a list of texts of 3 characters"),
        ({**ZIP, "rare": [36]}, "must be a list of texts, in quotes"),
        ({**ZIP, "rare": "us_zip3_census_1790"}, "one of the lists"),
        ({**ZIP, "prefix": True}, "prefix must be a positive whole number"),
        ({**BORN, "bottom_code": 1935}, "must be an ISO date"),
        ({**BORN, "bottom_code": {"years": 90}}, "years_before_release"),
        ({**BORN, "meaning": "age"}, "meaning must be date"),
        ({**ZIP, "meaning": "zip"}, "meaning must be one of"),
        (
            {"role": "insensitive", "kind": "date", "as_is": True, "bottom_code": "1935-01-01"},
            "as_is releases values unchanged",
        ),
    ],
)
def test_codes_that_contradict_the_attribute_are_refused(fields: dict[str, Any], expected: str) -> None:
    fields = {name: value for name, value in fields.items() if value is not None}
    with pytest.raises(SchemaError, match=expected):
        DataSchema.from_dict({"x": fields})


def test_bounds_are_given_of_the_source_and_become_those_of_the_codes() -> None:
    schema = DataSchema.from_dict({"x": {**AGE, "bottom_code": 18}})
    assert schema["x"].bounds == (18, 90)
    assert schema.to_dict()["x"]["bounds"] == [0, 120]
    assert DataSchema.from_json(schema.to_json()) == schema
    assert schema.keeping_nulls()["x"].bounds == (18, 90)
    domain = public_domain(schema["x"], Storage.WHOLE)
    assert isinstance(domain, BinnedDomain)
    assert (domain.edges[0], domain.edges[-1]) == (18, 91)  # no record is drawn beyond a code


@given(st.lists(st.integers(0, 120), min_size=4, max_size=30), st.sampled_from(["text", "bounds"]))
def test_every_interval_covers_what_it_stands_for(ages: list[int], intervals: str) -> None:
    """A label that reaches the code stands for all above, as the manifest tells."""
    schema = DataSchema.from_dict({"age": AGE, "d": {"role": "insensitive", "kind": "numeric"}})
    table = pd.DataFrame({"age": ages, "d": range(len(ages))})
    release = load_method("mondrian", k=2, intervals=intervals).release(
        table, schema, np.random.default_rng(1)
    )
    manifest = release.manifest()["columns"]
    for _, row in release.table.iterrows():
        if intervals == "bounds":
            low, high = row["age_from"], row["age_to"]
        else:
            ends = [float(end) for end in row["age"].strip("[]").split(", ")]
            low, high = ends[0], ends[-1]
        top = np.inf if high == 90 else high  # what the manifest says of 90
        assert low <= ages[int(row["d"])] <= top
    for name in set(manifest) - {"d"}:
        assert manifest[name]["codes"] == "90 stands for 90 and what is above it"


def test_the_manifest_tells_what_codes_stand_for() -> None:
    schema = DataSchema.from_dict(
        {
            "zip": ZIP,
            "age": {**AGE, "role": "insensitive"},
            "born": {"role": "sensitive", "kind": "date", "precision": "year", "bottom_code": "1935-01-01"},
        }
    )
    table = pd.DataFrame(
        {
            "zip": ["02138", "03601"] * 2,
            "age": [93, 4, 5, 6],
            "born": [date(1930 + i, 1, 1) for i in range(4)],
        }
    )
    release = load_method("mondrian", k=2).release(table, schema, np.random.default_rng(1))
    fields = {name: column["codes"] for name, column in release.manifest()["columns"].items()}
    assert fields == {
        "zip": "a code covers all that begin with these 3 characters; 000 stands for 17 rare prefixes "
        "(us_zip3_census_2000)",
        "age": "90 stands for 90 and what is above it",
        "born": "1935 stands for 1935 and what is before it",
    }
    assert release.table["age"].max() == 90
    assert set(release.table["born"]) == {date(1935, 1, 1)}


def test_a_synthesizer_draws_nothing_beyond_a_code() -> None:
    """Of the table in memory, too, whose schema was not coded at ingest."""
    age = {**AGE, "bins": 10, "meaning": "age"}
    zip_code = {**ZIP, "categories": ["021", "018", "000"], "meaning": "postcode"}
    born = {**BORN, "bounds": ["1900-01-01", "2025-12-31"], "bottom_code": "1935-01-01", "bins": 5}
    schema = DataSchema.from_dict({"age": age, "zip": zip_code, "born": born})
    rng, n = np.random.default_rng(1), 500
    table = pd.DataFrame(
        {
            "age": rng.integers(0, 120, n),
            "zip": rng.choice([2138, 1850, 3601], n),
            "born": pd.to_datetime([f"{year}-03-05" for year in rng.integers(1900, 2026, n)]),
        }
    )
    release = load_method("latent_class", epsilon=1.0, classes=4, fits=1, replicates=0).release(
        table, schema, np.random.default_rng(2)
    )
    release.schema.check(release.table)
    rules = {"declared": True, "age_group_from": 90, "date_precision": "year", "postcode_characters": 3}
    policy = ReleasePolicy.from_dict({"columns": {**rules, "rare_postcodes": "us_zip3_census_2000"}})
    assert verify(release.table, release.schema, policy, year=2025).passed
    assert "codes" in release.manifest()["columns"]["zip"]
