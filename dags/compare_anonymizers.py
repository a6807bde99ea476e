"""All anonymizers on one table, side by side.

The table is ingested once and anonymized by the operator of each method; the bytes of each result are
verified against the same policy. Only a report that compares the results is published, with a plot of risk
against loss. No release leaves the work area, because releases of the same people could be intersected.
Age, education, sex and work class can be linked to a person, the salary class is sensitive.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, chain

from airflow_privacy_release import (
    BottomUpOperator,
    CompareOperator,
    DSAEDOperator,
    GreedyHamdistOperator,
    ILPLDiversityOperator,
    IngestParquetOperator,
    KACLUKOperator,
    MondrianOperator,
    OBPAOperator,
    RFKAOperator,
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
METHODS = (
    MondrianOperator,
    BottomUpOperator,
    ILPLDiversityOperator,
    KACLUKOperator,
    OBPAOperator,
    DSAEDOperator,
    RFKAOperator,
    GreedyHamdistOperator,
)

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
    made = [
        operator(task_id=operator.method, table=valid.output, k=10, l=2, seed=7)  #
        for operator in METHODS
    ]
    chain(*made)  # each method uses all cores; methods in parallel would slow each other down
    staged = [task.output for task in made]
    reports = VerifyOperator.partial(task_id="verify", policy=POLICY).expand(table=staged)
    compared = CompareOperator(
        task_id="compare", tables=staged, reports=reports.output, title="Anonymizers on Adult"
    )
    clean_up_after(compared)
