"""All synthesizers on one table, at several epsilons, side by side.

The table is ingested and validated once and synthesized by the operator of each method, in a mapped task for
each epsilon; each result is verified against the same policy and the ledger. Only a report is published, with
plots of risk (epsilon and an attack) against loss (distance of the marginals) and use (accuracy of a
classifier): no release leaves the work area.

The customers are simulated, so the report, which holds exact figures of them, may be public. A report about
real people would have to stay with the curator: leave out `public_source`. Looking at all tables costs the
sum of their losses, epsilon 42 here. The ledger books it even for simulated people; the same bytes cost
nothing again.
Before the first run:

    privacy-release budget grant simulated_customers --epsilon 100 --reason "comparison of synthesizers"
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, chain

from airflow_privacy_release import (
    BudgetGuardOperator,
    CompareSynthesizersOperator,
    DPSMBayesOperator,
    IngestParquetOperator,
    LatentClassOperator,
    PrivBayesOperator,
    PrivBayesROperator,
    ValidateOperator,
    VerifyOperator,
    clean_up_after,
)

CUSTOMERS = Path(__file__).parents[1] / "data" / "samples" / "bank_customers_test.parquet"
BUDGET = "simulated_customers"
NUMBERS = {
    "age": (18, 90),
    "cards": (0, 20),
    "swipes": (0, 100),
    "amount": (0, 40),
    "deposit": (0, 200),
    "loan": (0, 150),
}
LISTED = {  # every domain is public: a differentially private method does not take one from the records
    "education": ["primary", "secondary", "bachelor", "master", "doctor"],
    "occupation": ["farmer", "worker", "clerk", "teacher", "manager", "self-employed", "retired"],
    "marital-status": ["single", "married", "divorced"],
    "income-level": ["lowest", "low", "middle", "high", "highest"],
}
SCHEMA = {
    "customer": {"role": "identifier", "kind": "categorical"},
    **{
        name: {"role": "quasi_identifier", "kind": "numeric", "bounds": bounds, "bins": 8}
        for name, bounds in NUMBERS.items()
    },
    **{
        name: {"role": "quasi_identifier", "kind": "categorical", "categories": categories}
        for name, categories in LISTED.items()
    },
    "value": {"role": "sensitive", "kind": "categorical", "categories": ["high", "medium", "low"]},
}
METHODS = (PrivBayesOperator, DPSMBayesOperator, PrivBayesROperator, LatentClassOperator)
EPSILONS = (0.5, 2.0, 8.0)
POLICY = {"max_epsilon": max(EPSILONS), "max_delta": 0}

with DAG(
    dag_id="compare_synthesizers",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    tags=["example"],
):
    guard = BudgetGuardOperator(
        task_id="budget", dataset=BUDGET, epsilon=len(METHODS) * sum(EPSILONS), policy=POLICY
    )
    raw = IngestParquetOperator(task_id="ingest", uri=str(CUSTOMERS), schema=SCHEMA)
    guard >> raw
    valid = ValidateOperator(task_id="validate", table=raw.output, suite="expectations/bank_customers.json")
    made = [
        operator.partial(
            task_id=operator.method,
            table=valid.output,
            budget=BUDGET,
            policy=POLICY,
            map_index_template="epsilon {{ task.epsilon }}",
            max_active_tis_per_dagrun=1,
        ).expand(epsilon=EPSILONS)
        for operator in METHODS
    ]
    chain(*made)  # each method uses all cores; methods in parallel would slow each other down
    first, *others = [task.output for task in made]
    staged = first.concat(*others)
    reports = VerifyOperator.partial(task_id="verify", policy=POLICY).expand(table=staged)
    compared = CompareSynthesizersOperator(
        task_id="compare",
        source=valid.output,
        tables=staged,
        reports=reports.output,
        public_source=True,
        title="Synthesizers on simulated bank-card customers",
    )
    clean_up_after(compared)
