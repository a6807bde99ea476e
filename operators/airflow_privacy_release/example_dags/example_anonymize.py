"""Anonymize a table of invented visits with Mondrian, verify the staged bytes and publish them.

The first task writes the source. In your own DAG, replace it with whatever delivers your Parquet file. The
lake is the one of the connection `lake_default`, else the folder `lake` under `$AIRFLOW_HOME`.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, task

from airflow_privacy_release import (
    IngestParquetOperator,
    MondrianOperator,
    PublishOperator,
    VerifyOperator,
    clean_up_after,
)

SCHEMA = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "district": {"role": "quasi_identifier", "kind": "categorical", "categories": ["east", "north", "west"]},
    "diagnosis": {"role": "sensitive", "kind": "categorical"},
}
POLICY = {
    "require": [
        {"model": "k_anonymity", "k": 10},
        {"model": "distinct_l_diversity", "l": 2, "attribute": "diagnosis"},
    ]
}


@task
def write_visits() -> str:
    """Write a Parquet file of 1,000 invented visits, readable only by the service user. Return its path."""
    import os
    import tempfile

    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(1)
    visits = pd.DataFrame(
        {
            "age": rng.integers(0, 100, 1_000),
            "district": rng.choice(["east", "north", "west"], 1_000),
            "diagnosis": rng.choice(["cold", "flu", "gout"], 1_000),
        }
    )
    handle, path = tempfile.mkstemp(suffix=".parquet")
    with os.fdopen(handle, "wb") as file:
        visits.to_parquet(file, index=False)
    return path


with DAG(
    "example_privacy_release_anonymize",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example", "release"],
    doc_md=__doc__,
):
    raw = IngestParquetOperator(task_id="ingest", uri=write_visits(), schema=SCHEMA)
    staged = MondrianOperator(task_id="anonymize", table=raw.output, k=10, l=2)
    report = VerifyOperator(task_id="verify", table=staged.output, policy=POLICY)
    published = PublishOperator(
        task_id="publish", table=staged.output, report=report.output, name="example_visits"
    )
    clean_up_after(published)
