"""DAGs to start from; Airflow shows them with the option `load_examples`."""
