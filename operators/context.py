"""What an operator takes from its run: the private folder, the names, and where the lake is."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operators.work_area import WorkArea, work_area_root
from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from operators.lake import Lake

DEFAULT_LAKE = "lake_default"


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


def default_lake_root() -> str:
    """`$PRIVACY_LAKE`, else `lake` under `$AIRFLOW_HOME`: where releases go without a connection."""
    home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
    return str(Path(os.environ.get("PRIVACY_LAKE") or Path(home) / "lake").expanduser().absolute())


def lake_of(connection_id: str) -> "Lake":
    """The lake of an Airflow connection, whose extra holds `path` and, for object stores, `storage_options`.

    Raises:
        SpecError: if there is no such connection, or it names no place. Without a connection `lake_default`
            is a folder, see `default_lake_root`.
    """
    from operators.lake import Lake

    extra = _extra(connection_id)
    if extra is None and connection_id == DEFAULT_LAKE:
        return Lake(root=default_lake_root())
    if not extra or not isinstance(extra.get("path"), str):
        raise SpecError(
            f"the Airflow connection {connection_id} must exist and name the lake as `path` in its extra; "
            'add it, for example with --conn-type fs --conn-extra \'{"path": "/data/lake"}\''
        )
    try:
        return Lake(root=extra["path"], storage_options=tuple(storage_options_of(extra).items()))
    except ValueError as error:
        raise SpecError(f"connection {connection_id}: {error}") from None


def source_access(uri: str, connection_id: str | None) -> dict[str, Any]:
    """How `steps.ingest` reaches a source: keyword arguments for it.

    An Airflow connection whose extra holds `storage_options` needs no Airflow provider: fsspec takes them.
    Any other connection goes to `ObjectStoragePath`, which asks the provider of the address's scheme.

    Raises:
        SpecError: if there is no such connection, or no provider for the scheme is installed.
    """
    if connection_id is None:
        return {}
    extra = _extra(connection_id)
    if extra is None:
        raise SpecError(f"the Airflow connection {connection_id} of the source must exist; add it")
    if extra.get("storage_options"):
        return {"storage_options": storage_options_of(extra)}
    from airflow.sdk import ObjectStoragePath

    try:
        return {"filesystem": ObjectStoragePath(uri, conn_id=connection_id).fs}
    except (ValueError, ImportError):
        raise SpecError(
            f"connection {connection_id} must hold `storage_options` in its extra, or the Airflow provider "
            "for the scheme of the source must be installed"
        ) from None


def storage_options_of(extra: Mapping[str, Any]) -> dict[str, str]:
    """The `storage_options` of a connection's extra as text pairs."""
    return {str(key): str(value) for key, value in (extra.get("storage_options") or {}).items()}


def _extra(connection_id: str) -> dict[str, Any] | None:
    """The extra of a connection; None if there is no such connection."""
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        extra: dict[str, Any] = Connection.get(connection_id).extra_dejson
    except AirflowNotFoundException:
        return None
    return extra
