"""A scheduler that has imported what releases load: tasks are forks of it, so that none has to do it again.

Tasks that import everything themselves are run by tests/production.
"""

from pathlib import Path

SETTINGS = """
import sys

if "scheduler" in sys.argv:  # the other parts need none of it; no import starts a thread
    import deltalake
    import duckdb
    import great_expectations
    import pyarrow.parquet

    import privacy_release.expectations.table_expectations
    import privacy_release.lake.publish
    import privacy_release.reports.release
    import privacy_release.steps.run
    from privacy_engine.anonymizers import mondrian
"""


def preload(home: Path) -> None:
    """Have the scheduler with this `AIRFLOW_HOME` import it when it starts."""
    folder = home / "config"
    folder.mkdir(parents=True)
    (folder / "airflow_local_settings.py").write_text(SETTINGS)
