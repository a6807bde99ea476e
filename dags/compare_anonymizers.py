"""All anonymizers on one table, side by side.

The table is ingested once and anonymized by each method in a mapped task; the bytes of each result are
verified against the same policy. Only a report that compares the results is published, with a plot of risk
against loss. No release leaves the work area, because releases of the same people could be intersected.
Age, education, sex and work class can be linked to a person, the salary class is sensitive.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_privacy_release import (
    CompareOperator,
    IngestParquetOperator,
    ReleaseOperator,
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
    "salary-class": {"role": "sensitive", "kind": "categorical"},
}
POLICY = {
    "require": [
        {"model": "k_anonymity", "k": 10},
        {"model": "distinct_l_diversity", "l": 2, "attribute": "salary-class"},
    ],
    "max_suppressed": 0.02,
}
COMMON = {"k": 10, "l": 2}
METHODS: dict[str, dict[str, object]] = {
    "mondrian": {},
    "bottom_up": {},
    "ilp_l_diversity": {},
    "kacluk": {},
    "obpa": {},
    "dsaed": {},
    "rfka": {"trees": 200},
    "greedy_hamdist": {},
}

with DAG(
    dag_id="compare_anonymizers",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["example"],
):
    raw = IngestParquetOperator(
        task_id="ingest", uri=str(ADULT), schema=SCHEMA, columns=list(SCHEMA), nulls="drop"
    )
    valid = ValidateOperator(task_id="validate", table=raw.output, suite="expectations/adult_people.json")
    staged = ReleaseOperator.partial(
        task_id="anonymize",
        table=valid.output,
        seed=7,
        map_index_template="{{ task.method }}",
        # Each method uses all cores; methods side by side would slow each other down and distort the times.
        max_active_tis_per_dagrun=1,
    ).expand_kwargs([{"method": name, "parameters": COMMON | own} for name, own in METHODS.items()])
    reports = VerifyOperator.partial(task_id="verify", policy=POLICY).expand(table=staged.output)
    compared = CompareOperator(
        task_id="compare", tables=staged.output, reports=reports.output, title="Anonymizers on Adult"
    )
    clean_up_after(compared)
