"""The work of the steps of a release, without Airflow: each is a module, which the run or a task calls."""
