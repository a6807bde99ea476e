"""Example DAGs; Airflow shows them with the option `load_examples`."""
