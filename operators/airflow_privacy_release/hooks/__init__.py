"""What opens an Airflow connection: the lake, the ledger, Spark, secrets and the stores of sources."""
