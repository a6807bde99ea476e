"""Your own steps between ingest and release.

A SQL query selects adults, with their age in decades, and a function leaves out pensioners. The result is
anonymized, verified and published. Each step keeps the column `_record`, which identifies the record of a
row, and the table that it makes is checked against its schema as a source is.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Asset

from airflow_privacy_release import (
    IngestParquetOperator,
    MondrianOperator,
    PublishOperator,
    TransformOperator,
    ValidateOperator,
    VerifyOperator,
    clean_up_after,
    release_transform,
)

if TYPE_CHECKING:
    import pandas as pd

ADULT = Path(__file__).parents[1] / "data" / "samples" / "adult.parquet"
EDUCATION = {
    "role": "quasi_identifier",
    "kind": "categorical",
    "hierarchy": "hierarchies/adult/education.csv",
}
SCHEMA = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [17, 90]},
    "education": EDUCATION,
    "salary-class": {"role": "sensitive", "kind": "categorical"},
}
DECADES = {
    "decade": {"role": "quasi_identifier", "kind": "numeric", "bounds": [2, 9]},
    "education": EDUCATION,
    "salary-class": {"role": "sensitive", "kind": "categorical"},
}
SUITE = {
    "name": "ages",
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1000}},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "age", "min_value": 17, "max_value": 90},
        },
    ],
}
POLICY = {"require": [{"model": "k_anonymity", "k": 5}], "max_suppressed": 0.02}


@release_transform
def without_pensioners(records: "pd.DataFrame") -> "pd.DataFrame":
    """Leave out people of 70 years or more, whose income is a pension."""
    return records[records["decade"] < 7]


with DAG(
    dag_id="own_steps",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["example"],
):
    raw = IngestParquetOperator(
        task_id="ingest", uri=str(ADULT), schema=SCHEMA, columns=list(SCHEMA), nulls="drop"
    )
    valid = ValidateOperator(task_id="validate", table=raw.output, suite=SUITE)
    adults = TransformOperator(
        task_id="adults",
        table=valid.output,
        sql='SELECT _record, age // 10 AS decade, education, "salary-class" FROM records WHERE age >= 20',
        schema=DECADES,
    )
    staged = MondrianOperator(task_id="anonymize", table=without_pensioners(adults.output), k=5, seed=7)
    report = VerifyOperator(task_id="verify", table=staged.output, policy=POLICY)
    published = PublishOperator(
        task_id="publish",
        table=staged.output,
        report=report.output,
        name="adult_decades",
        outlets=[Asset(name="adult_decades", uri="lake://lake_default/adult_decades", group="releases")],
    )
    clean_up_after(published)
