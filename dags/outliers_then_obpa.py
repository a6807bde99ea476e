"""OKPLOF, then OBPA, as in the paper of both (Yang 2018).

A record far from all others widens the class that contains it. So OKPLOF scores all records first, those with
the highest scores are set aside, and OBPA makes classes of the others. The released records are verified
against the policy, and the last task reports how many records were set aside and released. Only counts leave
the work area: the outliers are removed with it.

Use this only with anonymizers: which records are outliers depends on all others, and no epsilon covers that.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, task

from airflow_privacy_release import (
    DetectOutliersOperator,
    IngestParquetOperator,
    OBPAOperator,
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
    "sex": {"role": "quasi_identifier", "kind": "categorical", "hierarchy": "hierarchies/adult/sex.csv"},
    "workclass": {
        "role": "quasi_identifier",
        "kind": "categorical",
        "hierarchy": "hierarchies/adult/workclass.csv",
    },
}


@task
def count_records(looked_at: dict[str, Any], published: dict[str, Any]) -> dict[str, int]:
    """Report the number of records that were examined, set aside and released."""
    found = looked_at["outliers"][-1]
    return {
        "records": found["records"],
        "outliers": found["flagged"],
        "set_aside": found["removed"],
        "released": published["rows"],
    }


with DAG(
    dag_id="outliers_then_obpa",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["example"],
):
    raw = IngestParquetOperator(
        task_id="ingest", uri=str(ADULT), schema=SCHEMA, columns=list(SCHEMA), nulls="drop"
    )
    valid = ValidateOperator(task_id="validate", table=raw.output, suite="expectations/adult_people.json")
    others = DetectOutliersOperator(
        task_id="detect_outliers",
        table=valid.output,
        method="okplof",
        parameters={"top": 50},
        action="set_aside",
    )
    staged = OBPAOperator(task_id="anonymize", table=others.output, k=10, seed=7)
    report = VerifyOperator(task_id="verify", table=staged.output, policy="policies/linkage.yaml")
    published = PublishOperator(
        task_id="publish",
        table=staged.output,
        report=report.output,
        name="adult_without_outliers",
        outlets=[
            Asset(
                name="adult_without_outliers",
                uri="lake://lake_default/adult_without_outliers",
                group="releases",
            )
        ],
    )
    counts = count_records(others.output, published.output)
    clean_up_after(counts)
