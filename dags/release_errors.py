"""Raise an import error while a file in `include/releases` is broken; this file has no Airflow DAG.

The error has a line for each broken file, with file, field and remedy. Airflow switches off all DAGs of a
file with an import error, so the error comes from a file without DAGs.
"""

from airflow_privacy_release import raise_if_broken

raise_if_broken()
