"""What an operator takes from its run: the private folder and the names."""

import re
from collections.abc import Mapping
from typing import Any

from privacy_release.work.area import WorkArea, work_area_root


def run_key(context: Mapping[str, Any]) -> str:
    """Names the run across its retries: DAG id and run id."""
    return f"{context['ti'].dag_id}/{context['ti'].run_id}"


def run_work_area(context: Mapping[str, Any]) -> WorkArea:
    """The private folder that the tasks of this run share."""
    return WorkArea(work_area_root(), run_key(context))


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
