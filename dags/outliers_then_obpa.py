"""OKPLOF, then OBPA, as in the paper of both (Yang 2018).

Whoever stands apart from all others makes the class that takes them in wide. So OKPLOF looks for them first,
the highest scores are set aside, and OBPA makes classes of the others; the policy is held against what is
released, and the last task tells how many records went which way. Only counts leave the work area: the
outliers are removed with it.

Only for anonymizers: which records are outliers depends on all the others, and no epsilon would cover that.
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
def tell(looked_at: dict[str, Any], published: dict[str, Any]) -> dict[str, int]:
    """How many records were looked at, set aside and released."""
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
    told = tell(others.output, published.output)
    clean_up_after(told)
