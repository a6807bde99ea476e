"""Why a run released nothing: the tasks that skipped the rest of the run, with their reasons."""

from sqlalchemy.orm import Session

from airflow_privacy_release.plugin.views.xcoms import reported, task_label, tasks_in
from privacy_release.config.durations import SKIPPED

_LONGEST = 2_000  # most characters of a reason


def skips(session: Session, dag_id: str, run_id: str) -> list[tuple[str, str]]:
    """Return task and reason of the skipped tasks of a run that reported a reason.

    Anyone who may write XComs could write another reason, so pages only show it as text.
    """
    skipped = tasks_in(session, dag_id, run_id, "skipped")
    return [
        (task_label(row.task_id, row.map_index), str(words["reason"])[:_LONGEST])
        for row, words in reported(session, dag_id, run_id, SKIPPED)
        if (row.task_id, row.map_index) in skipped and "reason" in words
    ]
