"""A release step by step, without Airflow: each step is a module, and `run` has all of them."""
