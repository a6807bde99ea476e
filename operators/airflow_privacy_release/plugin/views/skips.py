"""Why a run released nothing: the tasks that skipped what follows them, each with its reason."""

from collections.abc import Mapping

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from privacy_release.work.durations import SKIPPED

_LONGEST = 2_000  # characters of a reason


def skips(session: Session, dag_id: str, run_id: str) -> list[tuple[str, str]]:
    """The skipped tasks of a run that reported a reason: task and reason.

    Anyone who may write XComs could write another reason: pages show it as text, and decide nothing by it.
    """
    tasks = select(TaskInstance.task_id, TaskInstance.map_index).where(
        TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.state == "skipped"
    )
    skipped = {tuple(row) for row in session.execute(tasks)}
    reported = select(XComModel).where(
        XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.key == SKIPPED
    )
    found = []
    for row in session.scalars(reported.order_by(XComModel.timestamp, XComModel.map_index)):
        words = XComModel.deserialize_value(row)
        if (row.task_id, row.map_index) in skipped and isinstance(words, Mapping) and "reason" in words:
            found.append((task_label(row.task_id, row.map_index), str(words["reason"])[:_LONGEST]))
    return found


def task_label(task_id: str, map_index: int) -> str:
    """A task and its map index, for people.

    >>> task_label("release", -1), task_label("release", 2)
    ('release', 'release [2]')
    """
    return task_id if map_index < 0 else f"{task_id} [{map_index}]"
