"""Records that are invented from a schema fit it, in the declared types."""

from typing import Any

import numpy as np
import pytest

from privacy_engine.errors import SchemaError
from privacy_engine.structure.invented import invented
from privacy_engine.tables.linked import schema_of_tables
from privacy_engine.tables.persons import TABLE
from privacy_engine.tables.schema import DataSchema
from tests.tables import ZIPS

FIELDS: dict[str, dict[str, Any]] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "nullable": True},
    "zip": {"role": "quasi_identifier", "hierarchy": ZIPS},
    "weight": {"role": "quasi_identifier", "kind": "numeric", "bounds": [2.5, 300]},
    "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
    "born": {"role": "quasi_identifier", "kind": "date", "bounds": ["1920-01-01", "2020-12-31"]},
    "illness": {"role": "sensitive", "categories": ["cold", "flu"]},
}
SCHEMA = DataSchema.from_dict(FIELDS)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_invented_records_fit_the_schema_and_have_its_values() -> None:
    records = invented(SCHEMA, 500, rng())
    SCHEMA.check(records)
    assert len(records) == 500
    assert set(records["illness"]) == {"cold", "flu"}
    assert set(records["zip"]) == {row[0] for row in ZIPS}
    assert records["age"].isna().any()
    assert records["age"].min() < 10
    assert records["age"].max() > 110


@pytest.mark.parametrize(("kind", "column"), [("int32", "age"), ("Int16", "age"), ("float32", "weight")])
def test_a_column_has_the_type_that_is_given(kind: str, column: str) -> None:
    fields = {column: FIELDS[column] | {"nullable": kind == "Int16"}}
    records = invented(DataSchema.from_dict(fields), 50, rng(), {column: kind})
    assert str(records[column].dtype) == kind


def test_types_follow_from_the_bounds_where_none_is_given() -> None:
    kinds = invented(SCHEMA, 5, rng()).dtypes.astype(str)
    assert (kinds["age"], kinds["weight"]) == ("Int64", "float64")


def test_a_column_whose_values_only_records_know_is_refused_by_name() -> None:
    schema = DataSchema.from_dict(FIELDS | {"note": {"role": "insensitive"}})
    with pytest.raises(SchemaError, match=r"does not list the values of \['note'\].*give each categories"):
        invented(schema, 5, rng())


def test_a_person_has_one_record_or_more() -> None:
    schema = DataSchema.from_dict(FIELDS | {"person": {"column": "name"}})
    counts = invented(schema, 90, rng())["name"].value_counts()
    assert len(counts) == 30
    assert counts.min() == 1
    assert counts.max() > 1


def test_tables_share_their_persons() -> None:
    patients = {"id": {"role": "identifier"}, "age": FIELDS["age"]}
    visits = {"id": {"role": "identifier"}, "grade": FIELDS["grade"], "illness": FIELDS["illness"]}
    schemas = {"patients": patients, "visits": visits}
    schema = schema_of_tables(
        {name: DataSchema.from_dict(own) for name, own in schemas.items()}, "id", {"visits": ["age"]}
    )
    records = invented(schema, 61, rng())
    assert records[TABLE].value_counts().to_dict() == {"patients": 15, "visits": 46}
    assert records.loc[records[TABLE] == "patients", "id"].is_unique  # its age is carried to the visits
    persons = {name: set(own["id"]) for name, own in records.groupby(TABLE)}
    assert persons["patients"] == persons["visits"]
    assert records.loc[records[TABLE] == "patients", "illness"].isna().all()
    with pytest.raises(SchemaError, match="at least 2, one for each table, got 1"):
        invented(schema, 1, rng())
