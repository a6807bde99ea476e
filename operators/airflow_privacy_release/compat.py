"""The one place that knows versions of Airflow: what 3.1, 3.2 and 3.3 call differently, or lack.

Each part says from which version on it can go. Nothing else in this package asks for the version.
"""

from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from airflow.sdk.definitions.asset import BaseAsset

__all__ = [
    "WAITING",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "Stats",
    "conf",
    "fixed_connection",
    "is_assigned",
    "partitions_by",
    "partitions_of",
]

try:  # from 3.2 on
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        TaskDeferred,
    )
    from airflow.sdk.observability.stats import Stats
except ImportError:
    from airflow.configuration import conf
    from airflow.exceptions import (  # type: ignore[attr-defined, no-redef]
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        TaskDeferred,
    )
    from airflow.stats import Stats

try:  # from 3.3 on a task that asks a person waits by itself; before, the triggerer waits for it
    from airflow.sdk.exceptions import TaskAwaitingInput
except ImportError:
    WAITING: Any = (TaskDeferred,)
else:
    WAITING = (TaskAwaitingInput, TaskDeferred)
"""What a task raises that leaves its slot until somebody answers; `kwargs` go to the method that resumes."""

try:  # from 3.2 on
    from airflow.sdk import CronPartitionTimetable, PartitionedAssetTimetable
except ImportError:
    _PARTITIONS = False
else:
    _PARTITIONS = True


def partitions_by(cron: str) -> Any:
    """The schedule that makes a run for each partition of a cron expression, in UTC.

    Raises:
        SpecError: if this Airflow has no partitions.
    """
    _require_partitions("schedule.partitions")
    return CronPartitionTimetable(cron, timezone="UTC")


def partitions_of(assets: "BaseAsset") -> Any:
    """The schedule that follows the partitions of assets, a run for each.

    Raises:
        SpecError: if this Airflow has no partitions.
    """
    _require_partitions("a schedule after a release that is published by partition")
    return PartitionedAssetTimetable(assets=assets)


# Backends of Airflow itself that no API writes to. Its others read its database, if need be through its API.
_FIXED = frozenset({"EnvironmentVariablesBackend", "LocalFilesystemBackend"})


def fixed_connection(connection_id: str) -> "Connection | None":
    """A connection that an environment variable or a secrets backend defines; None where none does."""
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    for backend in ensure_secrets_backend_loaded():
        cls = type(backend)
        airflows_own = cls.__module__.startswith("airflow.") and ".providers." not in cls.__module__
        if not airflows_own or cls.__name__ in _FIXED:
            found: Connection | None = backend.get_connection(conn_id=connection_id)
            if found is not None:
                return found
    return None


def is_assigned(manager: Any, assigned: set[str], user: Any) -> bool:
    """Whether a user is among those whom a task asks, as the auth manager says; the first 3.1 has no say."""
    asks = getattr(manager, "is_authorized_hitl_task", None)
    if asks is None:
        return str(user.get_id()) in assigned
    return bool(asks(assigned_users=assigned, user=user))


def _require_partitions(what: str) -> None:
    if not _PARTITIONS:
        from airflow import __version__

        raise SpecError(
            f"{what} needs Airflow 3.2 or newer, which has partitions; this is {__version__}: upgrade it, "
            "or schedule by cron alone"
        )
