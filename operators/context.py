"""What an operator takes from its run: the private folder, the names, and where the lake is."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from operators.work_area import WorkArea, work_area_root
from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from operators.lake import Lake
    from operators.ledger import BudgetLedger
    from operators.membership import Identification

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


def lake_of(connection_id: str) -> "Lake":
    """The lake of an Airflow connection, see `LakeHook`.

    Raises:
        SpecError: if there is no such connection, or it names no place.
    """
    from operators.lake_hook import LakeHook

    return LakeHook(connection_id).get_conn()


def ledger_of(connection_id: str) -> "BudgetLedger":
    """The privacy budget ledger of an Airflow connection, see `LedgerHook`.

    Raises:
        SpecError: if there is no such connection, or it does not name a ledger.
        LedgerError: if the default file cannot be made.
    """
    from operators.ledger_hook import LedgerHook

    return LedgerHook(connection_id).get_conn()


def identification_of(connection_id: str, column: str) -> "Identification":
    """How persons are told apart by a column, with the key that is an Airflow connection's password.

    Raises:
        SpecError: if there is no such connection, or its password is too short to be a key.
    """
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    from operators.membership import Identification

    try:
        secret = Connection.get(connection_id).password
    except AirflowNotFoundException:
        raise SpecError(
            f"the Airflow connection {connection_id} must exist and hold the membership key as its "
            "password; add it, with a secret such as `openssl rand -hex 32` prints"
        ) from None
    return Identification(column=column, key=secret or "")


def source_access(uri: str, connection_id: str | None) -> dict[str, Any]:
    """How `steps.ingest` reaches a source: keyword arguments for it.

    An Airflow connection whose extra holds `storage_options` needs no Airflow provider: fsspec takes them.
    Any other connection goes to `ObjectStoragePath`, which asks the provider of the address's scheme.

    Raises:
        SpecError: if there is no such connection, or no provider for the scheme is installed.
    """
    if connection_id is None:
        return {}
    from operators.lake_hook import extra_of
    from operators.storage_options import source_options

    extra = extra_of(connection_id)
    if extra is None:
        raise SpecError(f"the Airflow connection {connection_id} of the source must exist; add it")
    if extra.get("storage_options"):
        try:
            return {"storage_options": source_options(extra)}
        except SpecError as error:
            raise SpecError(f"connection {connection_id}: {error}") from None
    from airflow.sdk import ObjectStoragePath

    try:
        return {"filesystem": ObjectStoragePath(uri, conn_id=connection_id).fs}
    except (ValueError, ImportError):
        raise SpecError(
            f"connection {connection_id} must hold `storage_options` in its extra, or the Airflow provider "
            "for the scheme of the source must be installed"
        ) from None
