"""Operators composed by hand.

The table is ingested and validated once and anonymized with three values of *k* side by side. The bytes of
each result are verified, and the strictest one whose loss is small enough is published. Age, education and
work class can be linked to a person, and the salary class is sensitive.

For a release that needs only the usual steps, write a file in `include/releases` instead.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, Asset, Param, task

from airflow_privacy_release import (
    ILPLDiversityOperator,
    IngestParquetOperator,
    PublishOperator,
    ValidateOperator,
    VerifyOperator,
    clean_up_after,
)

ADULT = Path(__file__).parents[1] / "data" / "samples" / "adult.parquet"
SCHEMA = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [17, 90]},
    "education": {
        "role": "quasi_identifier",
        "kind": "categorical",
        "hierarchy": "hierarchies/adult/education.csv",
    },
    "workclass": {
        "role": "quasi_identifier",
        "kind": "categorical",
        "hierarchy": "hierarchies/adult/workclass.csv",
    },
    "salary-class": {"role": "sensitive", "kind": "categorical"},
}
SUITE = {
    "name": "salary",
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1000}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}},
    ],
}
POLICY = {
    "require": [
        {"model": "k_anonymity", "k": 5},
        {"model": "distinct_l_diversity", "l": 2, "attribute": "salary-class"},
    ],
    "max_suppressed": 0.02,
}


@task(multiple_outputs=True)
def choose(staged: Sequence[dict], reports: Sequence[dict], largest_gcp: str) -> dict[str, dict]:
    """Choose the strictest release of small enough loss, and its report; both lists are in the order of k."""
    pairs = list(zip(staged[:], reports[:], strict=True))
    small = [pair for pair in pairs if pair[0]["figures"]["gcp"] <= float(largest_gcp)]
    table, report = (small or pairs[:1])[-1]
    return {"table": table, "report": report}


with DAG(
    dag_id="compose_by_hand",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["example"],
    params={"largest_gcp": Param(0.05, type="number", minimum=0, maximum=1)},
):
    raw = IngestParquetOperator(
        task_id="ingest", uri=str(ADULT), schema=SCHEMA, columns=list(SCHEMA), nulls="drop"
    )
    valid = ValidateOperator(task_id="validate", table=raw.output, suite=SUITE)
    staged = ILPLDiversityOperator.partial(
        task_id="anonymize", table=valid.output, l=2, seed=7, map_index_template="k = {{ task.k }}"
    ).expand(k=[5, 10, 20])
    reports = VerifyOperator.partial(task_id="verify", policy=POLICY).expand(table=staged.output)
    chosen = choose(staged.output, reports.output, "{{ params.largest_gcp }}")
    published = PublishOperator(
        task_id="publish",
        table=chosen["table"],
        report=chosen["report"],
        name="adult_salary",
        outlets=[Asset(name="adult_salary", uri="lake://lake_default/adult_salary", group="releases")],
    )
    clean_up_after(published)
