"""What the tasks of a run reported, and which of them are in a state, from Airflow's database."""

from collections.abc import Mapping
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

Task = tuple[str, int]  # its id and map index


def reported(
    session: Session, dag_id: str, run_id: str, key: str, task: Task | None = None
) -> list[tuple[XComModel, Mapping[str, Any]]]:
    """Return the mappings that the run's tasks, or one of them, reported under a key, oldest first."""
    query = select(XComModel).where(
        XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.key == key
    )
    if task is not None:
        query = query.where(XComModel.task_id == task[0], XComModel.map_index == task[1])
    rows = session.scalars(query.order_by(XComModel.timestamp, XComModel.map_index)).all()
    values = ((row, XComModel.deserialize_value(row)) for row in rows)
    return [(row, value) for row, value in values if isinstance(value, Mapping)]


def tasks_in(session: Session, dag_id: str, run_id: str, state: str) -> set[Task]:
    """Return the tasks of a run that are in a state."""
    query = select(TaskInstance.task_id, TaskInstance.map_index).where(
        TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.state == state
    )
    return {(task, index) for task, index in session.execute(query)}


def task_label(task_id: str, map_index: int) -> str:
    """Return the name of a task with its map index.

    >>> task_label("release", -1), task_label("release", 2)
    ('release', 'release [2]')
    """
    return task_id if map_index < 0 else f"{task_id} [{map_index}]"
