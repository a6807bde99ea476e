"""The standard facets of OpenLineage: what its schemas ask for, and what masks what."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from airflow_privacy_release.operators.publish import PublishOperator
from airflow_privacy_release.task.facets import SCHEMAS, standard_facets
from privacy_release.lake.read import dictionary_of
from privacy_release.lake.store import Lake
from tests.airflow_privacy_release.operators.test_operators import context, people, staged, verified

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}


def record(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """A JSON schema of an object with these fields and no others."""
    fields = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": fields, "additionalProperties": False}


def several(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


# What OpenLineage's schemas of these versions require and know, as far as it is used here.
INPUT = record(
    {"namespace": TEXT, "name": TEXT, "field": TEXT},
    {
        "transformations": several(
            record(
                {"type": {"enum": ["DIRECT", "INDIRECT"]}},
                {"subtype": TEXT, "description": TEXT, "masking": FLAG},
            )
        )
    },
)
RULES = {
    "schema": record({}, {"fields": several(record({"name": TEXT}, {"type": TEXT, "description": TEXT}))}),
    "columnLineage": record(
        {
            "fields": {
                "type": "object",
                "additionalProperties": record({"inputFields": several(INPUT)}),
            }
        },
        {"dataset": several(INPUT)},
    ),
    "dataQualityAssertions": record(
        {"assertions": several(record({"assertion": TEXT, "success": FLAG}, {"column": TEXT}))}
    ),
    "ownership": record({}, {"owners": several(record({"name": TEXT}, {"type": TEXT}))}),
}
FILE = ("file", "/data/people")


def column(name: str, **fields: Any) -> dict[str, Any]:
    common = {"name": name, "type": "string", "role": "quasi_identifier", "meaning_of_form": "words"}
    return common | {"source": name, "form": "value"} | fields


def lineage(*columns: dict[str, Any], **source: Any) -> Any:
    fields = {"columns": list(columns)}
    facets = standard_facets(fields, [], source, {"": FILE}, "team:data")
    return facets["columnLineage"]


@pytest.fixture
def facets(tmp_path: Path, airflow_lake: Lake, work_root: Path) -> dict[str, Any]:
    """Those of a publication that is done."""
    people().to_parquet(tmp_path / "people.parquet", index=False)
    table = staged(tmp_path / "people.parquet", intervals="bounds")
    report = verified(table)
    done = PublishOperator(task_id="publish", table=table, report=report, name="people").execute(
        context("publish")
    )
    described = dictionary_of(airflow_lake.table(done["table"]), done["release"])
    assert described is not None
    return standard_facets(described, report["findings"], table["source"], {"": FILE}, "team:data")


def test_each_facet_keeps_to_its_schema(facets: dict[str, Any]) -> None:
    assert set(facets) == set(SCHEMAS) == set(RULES)
    for name, facet in facets.items():
        Draft202012Validator(RULES[name]).validate(json.loads(json.dumps(facet)))


def test_they_say_what_was_released_from_what(facets: dict[str, Any]) -> None:
    names = [field["name"] for field in facets["schema"]["fields"]]
    bounds = [name for name in names if name.startswith("age")]
    assert len(bounds) == 2
    fields = facets["columnLineage"]["fields"]
    assert list(fields) == names
    for name in bounds:
        (origin,) = fields[name]["inputFields"]
        assert (origin["namespace"], origin["name"], origin["field"]) == (*FILE, "age")
        assert origin["transformations"][0]["masking"] is True
    (disease,) = fields["disease"]["inputFields"]
    assert disease["transformations"][0]["subtype"] == "IDENTITY"
    assert disease["transformations"][0]["masking"] is False
    assert {origin["field"] for origin in facets["columnLineage"]["dataset"]} == {"age", "town"}
    rules = {entry["assertion"]: entry["success"] for entry in facets["dataQualityAssertions"]["assertions"]}
    assert rules["k_anonymity(k=5)"] is True
    assert facets["ownership"]["owners"] == [{"name": "team:data", "type": "MAINTAINER"}]


def test_they_hold_no_value_of_a_record(facets: dict[str, Any]) -> None:
    text = json.dumps(facets)
    values = {str(value) for name in ("name", "town", "disease") for value in people()[name]}
    assert not [value for value in values if value in text]


def test_distorted_values_and_drawn_ones_are_masked() -> None:
    fields = lineage(
        column("illness", role="sensitive", changed=0.2),
        column("note", role="insensitive", changed=0.0),
        column("wage", form="drawn"),
    )["fields"]
    found = {name: own["inputFields"][0]["transformations"][0] for name, own in fields.items()}
    assert (found["illness"]["subtype"], found["illness"]["masking"]) == ("TRANSFORMATION", True)
    assert (found["note"]["subtype"], found["note"]["masking"]) == ("IDENTITY", False)
    assert (found["wage"]["subtype"], found["wage"]["masking"]) == ("AGGREGATION", True)


def test_a_derived_column_comes_from_the_columns_it_was_derived_from() -> None:
    derived = {"age": {"years_between": ["born", "2026-01-01"]}, "day": {"days_since_first": "visit"}}
    fields = lineage(column("age"), column("day"), derived=derived)["fields"]
    assert [origin["field"] for origin in fields["age"]["inputFields"]] == ["born"]
    assert [origin["field"] for origin in fields["day"]["inputFields"]] == ["visit"]


def test_of_several_tables_a_column_comes_from_those_that_have_it() -> None:
    reported = {
        "columns": [column("age"), column("ward")],
        "tables": {"patients": ["age"], "visits": ["age", "ward"]},
    }
    source = {"tables": {"patients": {}, "visits": {}}}
    datasets = {name: ("file", f"/{name}") for name in ("patients", "visits")}
    fields = standard_facets(reported, [], source, datasets, "x")["columnLineage"]["fields"]
    assert [origin["name"] for origin in fields["age"]["inputFields"]] == ["/patients", "/visits"]
    assert [origin["name"] for origin in fields["ward"]["inputFields"]] == ["/visits"]


def test_behind_a_step_of_the_users_own_no_column_is_followed() -> None:
    fields = {"columns": [column("age")]}
    facets = standard_facets(fields, [], {"transforms": [{"name": "sql"}]}, {"": FILE}, "x")
    assert set(facets) == set(SCHEMAS) - {"columnLineage"}
