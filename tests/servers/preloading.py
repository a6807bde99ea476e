"""Airflow's executor of local tasks, with what tasks import loaded before its workers are forked.

A task is a fork of its worker. Each would load the provider and the engine again, which takes longer than to
release a few records.
"""

from importlib import import_module

from airflow.executors.local_executor import LocalExecutor

MODULES = (
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "airflow_privacy_release",
    "privacy_engine.anonymizers.mondrian",
    "privacy_release.expectations.table_expectations",
    "privacy_release.lake.publish",
    "privacy_release.reports.release",
    "privacy_release.running.run",
)


class PreloadingExecutor(LocalExecutor):
    """Runs tasks in processes of this machine that have loaded what releases import."""

    def start(self) -> None:
        for name in MODULES:
            import_module(name)
        super().start()
