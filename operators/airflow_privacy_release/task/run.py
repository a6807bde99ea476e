"""What operators take from their run: work area, journal, names; and the progress that they report."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_privacy_release.compat import AirflowSkipException
from airflow_privacy_release.hooks.work import work_store
from airflow_privacy_release.task.chain import require_inside, taken
from airflow_privacy_release.task.rendering import chosen_engine
from privacy_engine.errors import WorkAreaError
from privacy_engine.progress import reporting_to
from privacy_release.config.durations import PROGRESS, SKIPPED, Pace, how_far, percent
from privacy_release.config.settings import scratch_folder
from privacy_release.spec.placeholders import ReleaseName, moment_of
from privacy_release.workarea.area import WorkArea, work_area_root
from privacy_release.workarea.engines import require_sealed
from privacy_release.workarea.journal import AreaFiles, Journal
from privacy_release.workarea.presence import Mark, Owner, Presence
from privacy_release.workarea.references import plain, read_as
from privacy_release.workarea.remote.scratch import CURRENT, Scratch
from privacy_release.workarea.sweep import SweepRules, sweep

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from privacy_release.lake.log import ReleaseRun

# `dag.test()` runs all tasks in this process: the work areas that the process keeps alive.
_PRESENT: dict[Path, Presence] = {}
_ANY = WorkArea(Path("/"), "the work area of an operator that Python calls without a DAG")


def run_key(context: Mapping[str, Any]) -> str:
    """Return the key of the run, the same across retries: DAG id and run id."""
    return f"{context['ti'].dag_id}/{context['ti'].run_id}"


def release_run(context: Mapping[str, Any]) -> "ReleaseRun":
    """Return the run as release tables name it."""
    from privacy_release.lake.log import ReleaseRun

    return ReleaseRun(release_id(context), run_key(context))


def run_work_area(context: Mapping[str, Any]) -> WorkArea:
    """Return the private folder that the tasks of this run share, or the task's own if they share none.

    It lives as long as Airflow considers the run alive. Airflow considers a killed `dag.test()` run alive for
    ever, so there the folder lives as long as the process, which also keeps it alive between two tasks.
    """
    if (scratch := CURRENT.get()) is not None:
        return scratch
    area = _area_of(context)
    if area.owner is Owner.PROCESS and area.folder not in _PRESENT:
        _PRESENT[area.folder] = area.enter()
    return area


def _area_of(context: Mapping[str, Any]) -> WorkArea:
    """Return the folder that the tasks of this run share. It need not exist."""
    owner = Owner.PROCESS if _in_one_process() else Owner.RUN
    return WorkArea(work_area_root(), run_key(context), owner)


def run_journal(context: Mapping[str, Any]) -> Journal:
    """Return the journal of what the tasks of this run have handed on so far.

    Raises:
        SecretError, SpecError: If the work area is on a store whose connection is invalid.
    """
    store = work_store()
    if store is not None:
        return Journal(store.of(run_key(context)))
    return Journal(AreaFiles(_area_of(context).folder, lambda: run_work_area(context)))


@contextmanager
def local_files(
    operator: "BaseOperator", context: Mapping[str, Any], journal: Journal | None
) -> Iterator[WorkArea]:
    """Restore an operator's references from the journal of earlier tasks until the block ends.

    If workers share no folder, each reference among the operator's template fields then names files in the
    task's own folder. The folder is removed at the end; if the task was killed, by the next task on this
    machine.

    Without a DAG in the context, when Python calls the operator, there is no other task, and the values are
    the caller's.

    Raises:
        IntegrityError: If a value differs from what its task recorded, or a file is missing, differs from the
            stored one, or lies outside of the work area.
        WorkAreaError: If the store cannot be reached.
        SpecError: If the operator uses an engine that must not see the files.
    """
    given = {name: getattr(operator, name) for name in operator.template_fields}
    kinds: Mapping[str, Any] = getattr(operator, "references", {})
    found = plain(given) if journal is None or "dag" not in context else taken(operator, context, journal)
    try:
        with _fetched(context, found) as (area, here):
            for name, value in here.items():
                setattr(operator, name, value)
            if "dag" in context:
                require_inside(operator, area.folder)
            for name, kind in kinds.items():
                setattr(operator, name, read_as(kind, here[name]))
            yield area
    finally:
        for name, value in given.items():
            setattr(operator, name, value)


@contextmanager
def _fetched(context: Mapping[str, Any], values: dict[str, Any]) -> Iterator[tuple[WorkArea, dict[str, Any]]]:
    """Yield the work area that the task uses, and the values with paths of local files."""
    store = work_store()
    if store is None:
        yield (_area_of(context) if "dag" in context else _ANY), values
        return
    sweep(scratch_folder(), SweepRules(idle=timedelta(days=1)))
    key, ti = run_key(context), context["ti"]
    owner = Owner.PROCESS if _in_one_process() else Owner.RUN
    attempt = f"{key}/{file_label(context)}/{getattr(ti, 'try_number', 0)}/{getattr(ti, 'id', '')}"
    scratch = Scratch(scratch_folder(), attempt, run=store.of(key), mark=Mark(key=key, owner=owner))
    if (engine := chosen_engine(values.get("engine"))) is not None:
        require_sealed(engine)
    presence, token = scratch.enter(), CURRENT.set(scratch)
    try:
        yield scratch, {name: scratch.fetch(value) for name, value in values.items()}
    finally:
        CURRENT.reset(token)
        presence.end()
        scratch.remove()


@contextmanager
def progressing(operator: "BaseOperator", context: Any) -> Iterator[None]:
    """Report the progress of the work in the block every ten seconds; shorter tasks report nothing.

    The percentage and the remaining seconds are reported, nothing of a record. A failed report fails no task.
    """

    # Work reports from its own threads, too, one at a time. Meanwhile the task's own thread waits, so the
    # channel to Airflow is never used twice at once, which some versions do not guard against.
    def say(share: float, left: float | None) -> None:
        state = {"percent": percent(share), "text": how_far(share, left)}
        try:
            context["ti"].xcom_push(PROGRESS, state)
        except Exception as error:  # noqa: BLE001  a progress report must not fail a release
            operator.log.warning("progress is not shown", error=type(error).__name__)
        seconds = {} if left is None else {"seconds_left": round(left)}
        operator.log.info("progress", percent=state["percent"], **seconds)

    with reporting_to(Pace(say)):
        yield


def skip(operator: "BaseOperator", context: Mapping[str, Any], reason: str) -> NoReturn:
    """End the task as skipped and keep the reason for the page of the run. It quotes no value of a record.

    Raises:
        AirflowSkipException: Always.
    """
    try:
        context["ti"].xcom_push(SKIPPED, {"reason": reason})
    except Exception as error:  # noqa: BLE001  the task must still skip, and Airflow's log has the reason
        operator.log.warning("the reason is not shown on the page of the run", error=type(error).__name__)
    raise AirflowSkipException(reason) from None


def remove_run_work_area(context: Mapping[str, Any]) -> str:
    """Remove the private folder of this run, or its encrypted files and their keys. Return where they were.

    Calling it twice is safe.

    Raises:
        WorkAreaError: If a file or key is still there: personal data would stay behind unnoticed.
    """
    if (store := work_store()) is not None:
        run = store.of(run_key(context))
        run.remove()
        if run in store.all():
            raise WorkAreaError(
                f"the work area {run.address} could not be removed. Clear this task to try again"
            )
        return run.address
    area = WorkArea(work_area_root(), run_key(context))
    if (present := _PRESENT.pop(area.folder, None)) is not None:
        present.end()
    area.remove()
    return str(area.folder)


def _in_one_process() -> bool:
    """Return whether `dag.test()`, or `airflow dags test`, runs all tasks in this process."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return type(getattr(runner, "SUPERVISOR_COMMS", None)).__name__ == "InProcessSupervisorComms"


def file_label(context: Mapping[str, Any]) -> str:
    """Return text for file names, unique within the run: the task's id and, if it is mapped, its index."""
    task = context["ti"]
    index = getattr(task, "map_index", -1)
    label = re.sub(r"[^A-Za-z0-9_-]+", "-", task.task_id)
    return label if index is None or index < 0 else f"{label}-{index}"


def partition_key(context: Mapping[str, Any]) -> str | None:
    """Return the partition of a run; None if it has none."""
    key = context.get("partition_key") or getattr(context.get("dag_run"), "partition_key", None)
    return str(key) if key else None


def release_id(context: Mapping[str, Any]) -> str:
    """Return the id of the release: the run's partition key, else its run id.

    A logical date cannot be used: asset-triggered, partitioned and many manual runs have none.
    """
    return str(partition_key(context) or context["ti"].run_id)


def release_name(context: Mapping[str, Any]) -> ReleaseName:
    """Return the release's name and date: from the partition key, else from the logical date."""
    key = partition_key(context)
    moment = moment_of(key) if key else context.get("logical_date")
    return ReleaseName(id=release_id(context), moment=moment)
