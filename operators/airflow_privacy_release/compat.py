"""The only module that knows Airflow versions: what 3.1, 3.2 and 3.3 name differently, or lack.

Each part says from which version on it can be removed. Nothing else in this package checks the version.
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

try:  # from 3.3 on, a human-in-the-loop task waits by itself; before, the triggerer waits for it
    from airflow.sdk.exceptions import TaskAwaitingInput
except ImportError:
    WAITING: Any = (TaskDeferred,)
else:
    WAITING = (TaskAwaitingInput, TaskDeferred)
"""Exception that defers a task until a user answers; `kwargs` go to the method that resumes."""

try:  # from 3.2 on
    from airflow.sdk import CronPartitionTimetable, PartitionedAssetTimetable
except ImportError:
    _PARTITIONS = False
else:
    _PARTITIONS = True


def partitions_by(cron: str) -> Any:
    """Build the schedule that creates a run for each partition of a cron expression, in UTC.

    Raises:
        SpecError: If this version of Airflow has no partitions.
    """
    _require_partitions("schedule.partitions")
    return CronPartitionTimetable(cron, timezone="UTC")


def partitions_of(assets: "BaseAsset") -> Any:
    """Build the schedule that creates a run for each partition of the given assets.

    Raises:
        SpecError: If this version of Airflow has no partitions.
    """
    _require_partitions("a schedule after a release that is published by partition")
    return PartitionedAssetTimetable(assets=assets)


# Backends of Airflow itself that no API writes to. Airflow's other backends read its database, directly or by
# API.
_FIXED = frozenset({"EnvironmentVariablesBackend", "LocalFilesystemBackend"})


def fixed_connection(connection_id: str) -> "Connection | None":
    """Return a connection that an environment variable or a secrets backend defines, or None."""
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
    """Return whether the auth manager counts a user among the assigned ones, if it can."""
    asks = getattr(manager, "is_authorized_hitl_task", None)
    if asks is None:
        return str(user.get_id()) in assigned
    return bool(asks(assigned_users=assigned, user=user))


def _require_partitions(what: str) -> None:
    if not _PARTITIONS:
        from airflow import __version__

        raise SpecError(
            f"{what} needs Airflow 3.2 or newer, which has partitions. This is {__version__}. Upgrade it, "
            "or use a cron schedule"
        )
