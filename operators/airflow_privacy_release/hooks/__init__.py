"""Open Airflow connections: the lake, the ledger, Spark, secrets and the stores of sources."""
