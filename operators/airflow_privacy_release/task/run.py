"""What an operator takes from its run: the private folder and the names."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privacy_release.spec.placeholders import ReleaseName, moment_of
from privacy_release.work.area import WorkArea, work_area_root
from privacy_release.work.presence import Owner, Presence

# What `dag.test()` runs is of this process, from the first task to the last: the areas that it is present in.
_PRESENT: dict[Path, Presence] = {}


def run_key(context: Mapping[str, Any]) -> str:
    """Names the run across its retries: DAG id and run id."""
    return f"{context['ti'].dag_id}/{context['ti'].run_id}"


def run_work_area(context: Mapping[str, Any]) -> WorkArea:
    """The private folder that the tasks of this run share.

    It lives as long as the run does for Airflow. Of a killed `dag.test()` Airflow believes for ever that it
    goes on; there it lives as long as the process, which is present also between two tasks.
    """
    alone = _in_one_process()
    area = WorkArea(work_area_root(), run_key(context), Owner.PROCESS if alone else Owner.RUN)
    if alone and area.folder not in _PRESENT:
        _PRESENT[area.folder] = area.enter()
    return area


def remove_run_work_area(context: Mapping[str, Any]) -> WorkArea:
    """The private folder of this run, removed; doing it twice is fine."""
    area = WorkArea(work_area_root(), run_key(context))
    if (present := _PRESENT.pop(area.folder, None)) is not None:
        present.end()
    area.remove()
    return area


def _in_one_process() -> bool:
    """Whether `dag.test()`, or `airflow dags test`, runs all tasks in this process."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return type(getattr(runner, "SUPERVISOR_COMMS", None)).__name__ == "InProcessSupervisorComms"


def file_label(context: Mapping[str, Any]) -> str:
    """Text for file names that no other task of the run has: its id and, if it is mapped, its index."""
    task = context["ti"]
    index = getattr(task, "map_index", -1)
    label = re.sub(r"[^A-Za-z0-9_-]+", "-", task.task_id)
    return label if index is None or index < 0 else f"{label}-{index}"


def release_id(context: Mapping[str, Any]) -> str:
    """Names the release: the run's partition key, else its run id.

    A logical date will not do: asset-triggered, partitioned and many manual runs have none.
    """
    key = context.get("partition_key") or getattr(context.get("dag_run"), "partition_key", None)
    return str(key or context["ti"].run_id)


def release_name(context: Mapping[str, Any]) -> ReleaseName:
    """What names the release, and its date: of the partition key if it has one, else the logical date."""
    key = context.get("partition_key") or getattr(context.get("dag_run"), "partition_key", None)
    moment = moment_of(str(key)) if key else context.get("logical_date")
    return ReleaseName(id=release_id(context), moment=moment)
