"""No Airflow DAG, but an import error as long as a file in `include/releases` is broken.

It has a line for each, which names file, field and remedy. Airflow switches off every DAG of a file that has
an import error, so the error comes from a file without any.
"""

from airflow_privacy_release import raise_if_broken

raise_if_broken()
