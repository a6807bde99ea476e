"""The Airflow DAG that removes the work areas of runs which ended without cleaning up."""

from airflow_privacy_release import sweep_dag

sweeper = sweep_dag()
