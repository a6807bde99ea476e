"""A structure file by hand: the columns of a release of loans, with invented records.

Analysts write their code with it before they have access to the release. No source is read, because the
schema has all that is needed. The file is published only if its records can be made again from the schema,
the parameters and the seed.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_privacy_release import (
    InventOperator,
    PublishOperator,
    StructureOperator,
    VerifyOperator,
    clean_up_after,
)

SCHEMA = {
    "applicant": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [18, 99]},
    "district": {
        "role": "quasi_identifier",
        "kind": "categorical",
        "categories": ["centre", "harbour", "hills", "north"],
    },
    "amount": {"role": "sensitive", "kind": "numeric", "bounds": [500, 50000], "nullable": True},
    "approved": {"role": "insensitive", "kind": "categorical", "categories": ["no", "yes"]},
}

with DAG(
    dag_id="structure_by_hand",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example"],
    doc_md=__doc__,
) as dag:
    table = InventOperator(task_id="invent", schema=SCHEMA)
    staged = StructureOperator(
        task_id="release", table=table.output, rows=500, like={"method": "mondrian", "k": 10}
    )
    report = VerifyOperator(task_id="verify", table=staged.output, policy={"kinds": ["structure"]})
    published = PublishOperator(
        task_id="publish", table=staged.output, report=report.output, name="loans_structure"
    )
    clean_up_after(published)
