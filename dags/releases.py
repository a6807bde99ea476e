"""One Airflow DAG per file in `include/releases`.

A file that cannot be read has no DAG here; `release_errors.py` shows what is wrong with it.
"""

from airflow_privacy_release.pipeline import release_dag
from privacy_release.spec.catalogue import partitioned_releases, readable_specs

specs = readable_specs()
partitioned = partitioned_releases(specs)
for spec in specs:
    globals()[spec.name] = release_dag(spec, partitioned)
