"""One Airflow DAG per file in `include/releases`.

A file that cannot be read has no DAG here; `release_errors.py` shows its errors.
"""

from airflow_privacy_release import release_dags

globals().update(release_dags())
