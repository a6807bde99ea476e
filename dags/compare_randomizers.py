"""All randomizers on one table, side by side.

The operator of each method randomizes the customers' values, and the bytes of each result are verified
against the same policy. Only a report that compares the results is published. No answer leaves the work
area, because answers of two methods about the same people could be combined. They are drawn from a seed, so
they claim no epsilon and need no budget. Never publish seeded answers.

PPNB is compared with its baseline DTPD on two-valued columns of the same customers. They are simulated, so
the accuracies may be public.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_privacy_release import (
    CompareLearnersOperator,
    CompareOperator,
    ERRPHOperator,
    IngestParquetOperator,
    LocalLaplaceOperator,
    TransformOperator,
    TRROperator,
    ValidateOperator,
    VerifyOperator,
    clean_up_after,
)

CUSTOMERS = Path(__file__).parents[1] / "data" / "samples" / "bank_customers_test.parquet"
COLUMNS = ["age", "deposit", "income-level", "value"]
SCHEMA = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [18, 90], "bins": 8},
    "deposit": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 200], "bins": 8},
    "income-level": {
        "role": "quasi_identifier",
        "kind": "ordinal",
        "categories": ["lowest", "low", "middle", "high", "highest"],
    },
    "value": {"role": "sensitive", "kind": "categorical", "categories": ["high", "medium", "low"]},
}
SUITE = {
    "name": "customers",
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1000}},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "age", "min_value": 18, "max_value": 90},
        },
    ],
}
POLICY = {"max_breach": 0.8}
HALVES = """
SELECT _record, CASE WHEN age < 45 THEN 'young' ELSE 'old' END AS age, value,
       CASE WHEN deposit < 50 THEN 'small' ELSE 'large' END AS deposit,
       CASE WHEN "income-level" IN ('lowest', 'low') THEN 'low' ELSE 'high' END AS income
FROM records
"""
TWO_VALUED = {
    **{name: {"role": "quasi_identifier", "kind": "categorical"} for name in ("age", "deposit", "income")},
    "value": {"role": "sensitive", "kind": "categorical"},
}

with DAG(
    dag_id="compare_randomizers",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["example"],
):
    raw = IngestParquetOperator(task_id="ingest", uri=str(CUSTOMERS), schema=SCHEMA, columns=COLUMNS)
    valid = ValidateOperator(task_id="validate", table=raw.output, suite=SUITE)
    seeded = {"table": valid.output, "randomness": "seeded", "seed": 7}
    made = [
        ERRPHOperator(task_id="errph", p_0=0.5, **seeded),
        LocalLaplaceOperator(task_id="local_laplace", epsilon=10, **seeded),
        TRROperator(task_id="trr", p_0=0.5, **seeded),
    ]
    staged = [task.output for task in made]
    reports = VerifyOperator.partial(task_id="verify", policy=POLICY).expand(table=staged)
    compared = CompareOperator(
        task_id="compare", tables=staged, reports=reports.output, title="Randomizers on bank-card customers"
    )
    halves = TransformOperator(task_id="halve", table=valid.output, sql=HALVES, schema=TWO_VALUED)
    learners = CompareLearnersOperator(
        task_id="compare_learners",
        table=halves.output,
        target="value",
        features=["age", "deposit", "income"],
        public=True,
    )
    clean_up_after([compared, learners])
