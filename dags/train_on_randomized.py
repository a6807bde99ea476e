"""A classifier that is trained on randomized answers.

It follows the release `bank_customers_randomized`: naive Bayes (PPNB) is trained only on the published bytes
and their manifest, and tested on 5,000 other customers. They are simulated, so their exact figures may be
public; the results of a test on real people stay with the curator.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, Asset

from airflow_privacy_release import (
    IngestParquetOperator,
    TrainNaiveBayesOperator,
    ValidateOperator,
    clean_up_after,
)
from airflow_privacy_release.compat import partitions_of

CUSTOMERS = Path(__file__).parents[1] / "data" / "samples" / "bank_customers_test.parquet"
RELEASE = "bank_customers_randomized"
NUMBERS = {
    "age": (18, 90),
    "cards": (0, 20),
    "swipes": (0, 100),
    "amount": (0, 40),
    "deposit": (0, 200),
    "loan": (0, 150),
}
LISTED = ("education", "occupation", "marital-status", "income-level", "value")
SCHEMA = {
    "customer": {"role": "identifier", "kind": "categorical"},
    **{
        name: {"role": "quasi_identifier", "kind": "numeric", "bounds": bounds}
        for name, bounds in NUMBERS.items()
    },
    **{name: {"role": "quasi_identifier", "kind": "categorical"} for name in LISTED},
}

with DAG(
    dag_id="train_on_randomized",
    doc_md=__doc__,
    schedule=partitions_of(Asset.ref(name=RELEASE)),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example"],
):
    test = IngestParquetOperator(task_id="ingest_test", uri=str(CUSTOMERS), schema=SCHEMA)
    valid = ValidateOperator(
        task_id="validate_test", table=test.output, suite="expectations/bank_customers.json"
    )
    trained = TrainNaiveBayesOperator(
        task_id="train", name=RELEASE, target="value", test=valid.output, public_test=True
    )
    clean_up_after(trained)
