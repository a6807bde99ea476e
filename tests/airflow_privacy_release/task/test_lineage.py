"""What OpenLineage hears of a publication; needs its provider, and is skipped without it."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_privacy_release.operators.publish import PublishOperator
from airflow_privacy_release.task.facets import SCHEMAS
from privacy_release.lake.store import Lake
from tests.airflow_privacy_release.operators.test_operators import context, people, staged, verified

extractors = pytest.importorskip(
    "airflow.providers.openlineage.extractors.base", reason="the OpenLineage provider is not installed"
)


@pytest.fixture
def published(tmp_path: Path, airflow_lake: Lake, work_root: Path) -> PublishOperator:
    """A publication that is done."""
    people().to_parquet(tmp_path / "people.parquet", index=False)
    table = staged(tmp_path / "people.parquet")
    operator = PublishOperator(task_id="publish", table=table, report=verified(table), name="people")
    operator.execute(context("publish"))
    return operator


def lineage(operator: PublishOperator) -> Any:
    return extractors.DefaultExtractor(operator).extract_on_complete(None)


def test_a_publication_names_source_table_and_guarantees(
    published: PublishOperator, tmp_path: Path, airflow_lake: Lake
) -> None:
    from openlineage.client.serde import Serde

    reported = lineage(published)
    assert [(d.namespace, d.name) for d in reported.inputs] == [("file", str(tmp_path / "people.parquet"))]
    (output,) = reported.outputs
    assert (output.namespace, output.name) == ("file", f"{airflow_lake.root}/people")
    facet = json.loads(Serde.to_json(output))["facets"]["privacyRelease"]
    assert (facet["release"], facet["version"], facet["rows"]) == ("run 1", 1, 120)
    assert facet["method"] == "mondrian"
    assert facet["guarantees"][0]["rule"] == "k_anonymity(k=5)"
    assert facet["guarantees"][0]["measured"] >= 5


def test_the_standard_facets_stand_beside_it(published: PublishOperator, tmp_path: Path) -> None:
    from openlineage.client.serde import Serde

    (output,) = lineage(published).outputs
    facets = json.loads(Serde.to_json(output))["facets"]
    assert set(facets) == {"privacyRelease", *SCHEMAS}
    for name, schema in SCHEMAS.items():
        assert facets[name]["_schemaURL"] == schema
        assert facets[name]["_producer"]
    (town,) = facets["columnLineage"]["fields"]["town"]["inputFields"]
    assert (town["name"], town["field"]) == (str(tmp_path / "people.parquet"), "town")
    assert town["transformations"][0]["masking"] is True


def test_lineage_holds_no_value_of_a_record(published: PublishOperator) -> None:
    from openlineage.client.serde import Serde

    reported = lineage(published)
    text = "".join(map(Serde.to_json, [*reported.inputs, *reported.outputs]))
    values = {str(value) for column in ("name", "town", "disease") for value in people()[column]}
    assert not [value for value in values if value in text]


def test_a_publication_that_failed_tells_nothing(published: PublishOperator) -> None:
    failed = PublishOperator(task_id="publish", table=published.table, report={}, name="people")
    assert extractors.DefaultExtractor(failed).extract_on_failure(None) is None
