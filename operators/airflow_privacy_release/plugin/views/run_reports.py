"""The reports of one DAG run: what it published, and what it has staged in its work area.

What a run staged is found through its XComs. Whoever may write XComs could name any file there, so a path
counts only if it is a report directly in the work area of this very run; it is opened without following
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
_LARGEST = 32 * 2**20  # bytes of a report


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A report that a task of the run wrote, before anything is published.

    Attributes:
        map_index: -1 for a task that is not mapped.
        label: for people.
        is_there: whether it can be read: the clean-up removes it with the work area.
    """

    task_id: str
    map_index: int
    label: str
    is_there: bool


def state_of(dag_id: str, run_id: str) -> str | None:
    """State of a run; None if there is no such run."""
    with create_session() as session:
        return session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))


def staged_reports(dag_id: str, run_id: str, task_id: str | None = None, map_index: int = -1) -> list[Staged]:
    """The reports that the run's tasks have told of, or those of one task, in the order they were written."""
    return [
        Staged(
            task_id=row.task_id,
            map_index=row.map_index,
            label=_label(row.task_id, row.map_index, told),
            is_there=_is_there(dag_id, run_id, told),
        )
        for row, told in _told(dag_id, run_id, task_id, map_index)
        if _is_staged(told)
    ]


def staged_report(dag_id: str, run_id: str, task_id: str, map_index: int) -> bytes | None:
    """The report that one task staged; None if it told of none, or it is not there (any more)."""
    for _, told in _told(dag_id, run_id, task_id, map_index):
        if not _is_staged(told):
            continue
        with suppress(PrivacyEngineError):
            if (remote := _remote(dag_id, run_id, told)) is not None:
                return remote[0].read(remote[1], _LARGEST)
        path = _file(dag_id, run_id, told)
        if path is not None:
            return _read(path)
    return None


def reporter_of(dag_id: str, run_id: str, sha256: str) -> tuple[str, int] | None:
    """Task and map index that staged these bytes with a report that can be read; None where none did."""
    for row, told in _told(dag_id, run_id, None, -1):
        if _is_staged(told) and told["sha256"] == sha256 and _is_there(dag_id, run_id, told):
            return row.task_id, row.map_index
    return None


def comparison(places: Places, dag_id: str, run_id: str) -> bytes | None:
    """The page by which the run compared several releases; None if it made none or it cannot be read."""
    for _, told in _told(dag_id, run_id, None, -1):
        uri = told.get("report")
        if "releases" not in told or not isinstance(uri, str):
            continue
        for lake in places.lakes.values():
            with suppress(PrivacyEngineError):
                if (page := _page_of(lake, dag_id, uri)) is not None:
                    return page
    return None


def expectations(dag_id: str, run_id: str) -> list[tuple[str, Mapping[str, Any]]]:
    """What the suites of a run found, by the task that ran each; see `ValidateOperator`."""
    return [(row.task_id, told) for row, told in _told(dag_id, run_id, None, -1, EXPECTATIONS)]


def alerts(dag_id: str, run_id: str) -> list[str]:
    """What the run's verifications warned of; see `VerifyOperator`."""
    told = (told for _, told in _told(dag_id, run_id, None, -1) if "findings" in told)
    return [str(alert["text"]) for report in told for alert in report.get("alerts", ())]


def is_confirmed(dag_id: str, run_id: str) -> bool:
    """Whether what the run's tasks reported is what its journal has, as far as this server can read that."""
    key = f"{dag_id}/{run_id}"
    with suppress(PrivacyEngineError, OSError):
        journal = Journal(_entries(key))
        return all(
            canonical(journal.value(row.task_id, row.map_index)) == canonical(told)
            for row, told in _told(dag_id, run_id, None, -1)
            if "sha256" in told  # a reference or a report
        ) and all(
            _passed(journal.value(row.task_id, row.map_index)) >= told["passed"]
            for row, told in _told(dag_id, run_id, None, -1, EXPECTATIONS)
        )
    return False


def _entries(key: str) -> EntryFiles:
    """The files of a run's journal, for reading."""
    if (store := work_store()) is not None:
        return store.of(key)
    area = WorkArea(work_area_root(), key)
    return AreaFiles(area.folder, lambda: area)


def _passed(table: Any) -> int:
    return int(table["source"].get("expectations", {}).get("passed", 0))


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a running task has told that it is."""

    label: str
    percent: int
    text: str


def progress(dag_id: str, run_id: str) -> list[Progress]:
    """How far the tasks of a run are that run now; one that has not lasted ten seconds has told nothing."""
    with create_session() as session:
        now = tasks_in(session, dag_id, run_id, "running")
    return [
        Progress(
            label=task_label(row.task_id, row.map_index), percent=told["percent"], text=str(told["text"])
        )
        for row, told in _told(dag_id, run_id, None, -1, PROGRESS)
        if (row.task_id, row.map_index) in now and {"percent", "text"} <= set(told)
        if type(told["percent"]) is int and 0 <= told["percent"] <= 100
    ]


def _page_of(lake: Lake, dag_id: str, uri: str) -> bytes | None:
    """A comparison in the folder that the lake keeps for this DAG."""
    folder = f"_comparisons/{quote(dag_id, safe='')}"
    name = uri.removeprefix(f"{lake.root}/{folder}/")
    return None if "/" in name or not name.endswith(".html") else get(lake, f"{folder}/{name}")


def _told(
    dag_id: str, run_id: str, task_id: str | None, map_index: int, key: str = "return_value"
) -> list[tuple[XComModel, Mapping[str, Any]]]:
    """What the run's tasks reported, where it is a mapping: the references between the steps, by default."""
    with create_session() as session:
        found = reported(session, dag_id, run_id, key, None if task_id is None else (task_id, map_index))
        session.expunge_all()
    return found


def _is_staged(told: Mapping[str, Any]) -> bool:
    return {"uri", "sha256", "manifest", "report", "method"} <= set(told)


def _label(task_id: str, map_index: int, told: Mapping[str, Any]) -> str:
    return f"{task_label(task_id, map_index)}: {told['method']}"


def _is_there(dag_id: str, run_id: str, told: Mapping[str, Any]) -> bool:
    with suppress(PrivacyEngineError):  # this process may have no way to the store: the tasks will say so
        if (remote := _remote(dag_id, run_id, told)) is not None:
            return remote[0].has(remote[1])
    return _file(dag_id, run_id, told) is not None


def _remote(dag_id: str, run_id: str, told: Mapping[str, Any]) -> tuple[RunFiles, str] | None:
    """The encrypted files of the run and the name of a report in them; None where there are none."""
    store = work_store()
    if store is None:
        return None
    run = store.of(f"{dag_id}/{run_id}")
    folder, _, name = str(told["report"]).rpartition("/")
    return (run, name) if folder == run.address and name.endswith(_SUFFIX) else None


def _file(dag_id: str, run_id: str, told: Mapping[str, Any]) -> Path | None:
    """Where a staged report is; None unless it lies directly in the run's own work area."""
    if work_area_address() is not None:
        return None
    folder = WorkArea(work_area_root(), f"{dag_id}/{run_id}").folder
    path = Path(str(told["report"]))
    if path.parent != folder or not path.name.endswith(_SUFFIX) or folder.is_symlink():
        return None
    # Gone, no path, or this process may not look: the web server may be another user or machine.
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
