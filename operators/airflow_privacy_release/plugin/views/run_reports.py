"""The reports of one DAG run: what it published, and what it staged in its work area.

What a run staged is found through its XComs. Anyone who may write XComs could name any file there. So a path
counts only if it is a report directly in the work area of this run, and it is opened without following
links.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_privacy_release.hooks.work import work_store
from airflow_privacy_release.plugin.connections import Places
from airflow_privacy_release.plugin.views.xcoms import reported, task_label, tasks_in
from privacy_engine.errors import PrivacyEngineError
from privacy_release.config.durations import PROGRESS
from privacy_release.config.settings import work_area_address
from privacy_release.lake.store import Lake, get
from privacy_release.steps.validate import EXPECTATIONS
from privacy_release.workarea.area import WorkArea, work_area_root
from privacy_release.workarea.journal import AreaFiles, EntryFiles, Journal, canonical
from privacy_release.workarea.remote.store import RunFiles

_SUFFIX = ".report.html"
_LARGEST = 32 * 2**20  # most bytes of a report


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A report that a task of the run wrote, before anything is published.

    Attributes:
        map_index: Map index; -1 for a task that is not mapped.
        label: Name to show.
        is_there: Whether the report can be read; the clean-up removes it with the work area.
    """

    task_id: str
    map_index: int
    label: str
    is_there: bool


def state_of(dag_id: str, run_id: str) -> str | None:
    """Return the state of a run; None if there is no such run."""
    with create_session() as session:
        return session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))


def staged_reports(dag_id: str, run_id: str, task_id: str | None = None, map_index: int = -1) -> list[Staged]:
    """Return the reports that the run's tasks, or one of them, staged, in the order they were written."""
    return [
        Staged(
            task_id=row.task_id,
            map_index=row.map_index,
            label=_label(row.task_id, row.map_index, fields),
            is_there=_is_there(dag_id, run_id, fields),
        )
        for row, fields in _mappings(dag_id, run_id, task_id, map_index)
        if _is_staged(fields)
    ]


def staged_report(dag_id: str, run_id: str, task_id: str, map_index: int) -> bytes | None:
    """Return the report that one task staged; None if it staged none or it is gone."""
    for _, fields in _mappings(dag_id, run_id, task_id, map_index):
        if not _is_staged(fields):
            continue
        with suppress(PrivacyEngineError):
            if (remote := _remote(dag_id, run_id, fields)) is not None:
                return remote[0].read(remote[1], _LARGEST)
        path = _file(dag_id, run_id, fields)
        if path is not None:
            return _read(path)
    return None


def reporter_of(dag_id: str, run_id: str, sha256: str) -> tuple[str, int] | None:
    """Return task and map index of the report on these bytes that can be read; None if there is none."""
    for row, fields in _mappings(dag_id, run_id, None, -1):
        if _is_staged(fields) and fields["sha256"] == sha256 and _is_there(dag_id, run_id, fields):
            return row.task_id, row.map_index
    return None


def comparison(places: Places, dag_id: str, run_id: str) -> bytes | None:
    """Return the page on which the run compared releases; None if it made none or it cannot be read."""
    for _, fields in _mappings(dag_id, run_id, None, -1):
        uri = fields.get("report")
        if "releases" not in fields or not isinstance(uri, str):
            continue
        for lake in places.lakes.values():
            with suppress(PrivacyEngineError):
                if (page := _page_of(lake, dag_id, uri)) is not None:
                    return page
    return None


def expectations(dag_id: str, run_id: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the suite results of a run, by the task that ran each suite; see `ValidateOperator`."""
    return [(row.task_id, fields) for row, fields in _mappings(dag_id, run_id, None, -1, EXPECTATIONS)]


def alerts(dag_id: str, run_id: str) -> list[str]:
    """Return the alerts of the run's verifications; see `VerifyOperator`."""
    fields = (fields for _, fields in _mappings(dag_id, run_id, None, -1) if "findings" in fields)
    return [str(alert["text"]) for report in fields for alert in report.get("alerts", ())]


def is_confirmed(dag_id: str, run_id: str) -> bool:
    """Return whether the tasks' reports match the run's journal, as far as this server can read it."""
    key = f"{dag_id}/{run_id}"
    with suppress(PrivacyEngineError, OSError):
        journal = Journal(_entries(key))
        return all(
            canonical(journal.value(row.task_id, row.map_index)) == canonical(fields)
            for row, fields in _mappings(dag_id, run_id, None, -1)
            if "sha256" in fields  # a reference or a report
        ) and all(
            _passed(journal.value(row.task_id, row.map_index)) >= fields["passed"]
            for row, fields in _mappings(dag_id, run_id, None, -1, EXPECTATIONS)
        )
    return False


def _entries(key: str) -> EntryFiles:
    """Return the files of a run's journal, for reading."""
    if (store := work_store()) is not None:
        return store.of(key)
    area = WorkArea(work_area_root(), key)
    return AreaFiles(area.folder, lambda: area)


def _passed(table: Any) -> int:
    return int(table["source"].get("expectations", {}).get("passed", 0))


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress that a running task has reported."""

    label: str
    percent: int
    text: str


def progress(dag_id: str, run_id: str) -> list[Progress]:
    """Return the progress of the tasks that are running; none for tasks younger than ten seconds."""
    with create_session() as session:
        now = tasks_in(session, dag_id, run_id, "running")
    return [
        Progress(
            label=task_label(row.task_id, row.map_index), percent=fields["percent"], text=str(fields["text"])
        )
        for row, fields in _mappings(dag_id, run_id, None, -1, PROGRESS)
        if (row.task_id, row.map_index) in now and {"percent", "text"} <= set(fields)
        if type(fields["percent"]) is int and 0 <= fields["percent"] <= 100
    ]


def _page_of(lake: Lake, dag_id: str, uri: str) -> bytes | None:
    """Return a comparison in the lake's folder for this DAG."""
    folder = f"_comparisons/{quote(dag_id, safe='')}"
    name = uri.removeprefix(f"{lake.root}/{folder}/")
    return None if "/" in name or not name.endswith(".html") else get(lake, f"{folder}/{name}")


def _mappings(
    dag_id: str, run_id: str, task_id: str | None, map_index: int, key: str = "return_value"
) -> list[tuple[XComModel, Mapping[str, Any]]]:
    """Yield the mappings that the run's tasks reported, by default the references between the steps."""
    with create_session() as session:
        found = reported(session, dag_id, run_id, key, None if task_id is None else (task_id, map_index))
        session.expunge_all()
    return found


def _is_staged(fields: Mapping[str, Any]) -> bool:
    return {"uri", "sha256", "manifest", "report", "method"} <= set(fields)


def _label(task_id: str, map_index: int, fields: Mapping[str, Any]) -> str:
    return f"{task_label(task_id, map_index)}: {fields['method']}"


def _is_there(dag_id: str, run_id: str, fields: Mapping[str, Any]) -> bool:
    with suppress(PrivacyEngineError):  # this process may have no access to the store; the tasks report it
        if (remote := _remote(dag_id, run_id, fields)) is not None:
            return remote[0].has(remote[1])
    return _file(dag_id, run_id, fields) is not None


def _remote(dag_id: str, run_id: str, fields: Mapping[str, Any]) -> tuple[RunFiles, str] | None:
    """Return the encrypted files of the run and the name of a report in them; None if there are none."""
    store = work_store()
    if store is None:
        return None
    run = store.of(f"{dag_id}/{run_id}")
    folder, _, name = str(fields["report"]).rpartition("/")
    return (run, name) if folder == run.address and name.endswith(_SUFFIX) else None


def _file(dag_id: str, run_id: str, fields: Mapping[str, Any]) -> Path | None:
    """Return the path of a staged report; None unless it is directly in the run's own work area."""
    if work_area_address() is not None:
        return None
    folder = WorkArea(work_area_root(), f"{dag_id}/{run_id}").folder
    path = Path(str(fields["report"]))
    if path.parent != folder or not path.name.endswith(_SUFFIX) or folder.is_symlink():
        return None
    # Gone, no path, or not readable: the web server may be another user or machine.
    with suppress(OSError, ValueError):
        if stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.R_OK):
            return path
    return None


def _read(path: Path) -> bytes | None:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError:
        return None
    return data if len(data) <= _LARGEST else None
