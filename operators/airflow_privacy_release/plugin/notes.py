"""The note of a run that released nothing: why, so that the list of runs says it, too.

Airflow calls this in the scheduler when a run has succeeded, and imports it in every process.
"""

from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

_LONGEST = 1_000  # characters of a note


@hookimpl
def on_dag_run_success(dag_run: "DagRun", msg: str) -> None:
    """Note which tasks skipped the rest of the run and why; a note that a person wrote stays."""
    from sqlalchemy.orm import object_session

    from airflow_privacy_release.plugin.views.skips import skips

    session = object_session(dag_run)
    if session is None or dag_run.note:
        return
    with session.no_autoflush:
        found = skips(session, dag_run.dag_id, dag_run.run_id)
    if found:
        dag_run.note = "\n".join(f"{task}: {reason}" for task, reason in found)[:_LONGEST]
