"""A classifier that is trained on transformed numbers.

It follows the release `bank_customers_transformed` (TRR): naive Bayes (PPNB) is trained only on the published
bytes and their manifest, by the plain estimator of the paper (`shrinkage=False`). It is not tested: the
release holds the customers that `train_on_randomized` uses for its test.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, Asset

from airflow_privacy_release import TrainNaiveBayesOperator

RELEASE = "bank_customers_transformed"

with DAG(
    dag_id="train_on_transformed",
    doc_md=__doc__,
    schedule=[Asset.ref(name=RELEASE)],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example"],
):
    TrainNaiveBayesOperator(task_id="train", name=RELEASE, target="value", shrinkage=False)
