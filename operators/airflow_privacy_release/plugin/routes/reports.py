"""Pages with the report of a published release, a DAG run or a task; and data dictionaries."""

import re
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, status

from airflow_privacy_release.plugin.auth import Rights, require
from airflow_privacy_release.plugin.connections import lakes
from airflow_privacy_release.plugin.responses import data, page, report
from airflow_privacy_release.plugin.routes.releases import find
from airflow_privacy_release.plugin.views import approvals, run_reports
from airflow_privacy_release.plugin.views import releases as published
from airflow_privacy_release.plugin.views.releases import Listed
from airflow_privacy_release.plugin.views.skips import skips
from privacy_release.evidence.kept import kept_evidence
from privacy_release.lake.store import Lake

router = APIRouter()

_ENDED = ("success", "failed")
Show = Annotated[int, Query(ge=0, le=10_000)]


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A report that can be chosen; `address` is that of its frame, empty if it cannot be shown."""

    label: str
    status: str
    note: str
    address: str
    row: Listed | None = None
    kind: str = "Release report"


@router.get("/report/published")
def published_report(user: GetUserDep, lake: str, table: str, version: int, theme: str = "") -> Response:
    """Serve the report of a published release, for a frame."""
    place, row = _standing(user, lake, table, version, "report")
    return report(published.report_of(place, row), theme)


@router.get("/dictionary/published")
def published_dictionary(user: GetUserDep, lake: str, table: str, version: int, theme: str = "") -> Response:
    """Serve the data dictionary of a published release, for a frame."""
    place, row = _standing(user, lake, table, version, "data dictionary")
    found = published.dictionary_of(place, row)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "The release was published without a data dictionary.")
    return report(found, theme)


@router.get("/evidence")
def evidence(user: GetUserDep, lake: str, table: str, version: int) -> Response:
    """Serve the signed evidence of a published release, if its signature is valid."""
    place, row = _standing(user, lake, table, version, "evidence")
    require(Rights(user).reads_evidence(row.dag_id, lake), "download the evidence of this release")
    found = kept_evidence(place.table(table), row.entry)
    if found is None:
        raise HTTPException(
            status.HTTP_404_NOT_FOUND, "There is no evidence of this release that this server can read."
        )
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{table}-{row.entry.release_id}-evidence.zip")
    return data(found, "application/zip", headers={"Content-Disposition": f'attachment; filename="{name}"'})


@router.get("/report/staged", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
def staged_report(dag_id: str, run_id: str, task_id: str, map_index: str = "-1", theme: str = "") -> Response:
    """Serve the report that a task of a run has staged, for a frame."""
    found = run_reports.staged_report(dag_id, run_id, task_id, _index(map_index))
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "The report is not in the work area (any more).")
    return report(found, theme)


@router.get("/report/comparison", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
def comparison_report(dag_id: str, run_id: str, theme: str = "") -> Response:
    """Serve the page on which a run compared several releases, for a frame."""
    found = run_reports.comparison(lakes(), dag_id, run_id)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "This run has made no comparison.")
    return report(found, theme)


@router.get("/report/release")
def release_report(request: Request, user: GetUserDep, lake: str, table: str, version: int) -> Response:
    """Show the report of a published release, with a link back to it."""
    _, row = find(Rights(user), lake, table, version)
    return _alone(request, user, _of_published(row))


@router.get("/dictionary")
def release_dictionary(request: Request, user: GetUserDep, lake: str, table: str, version: int) -> Response:
    """Show the data dictionary of a published release, with a link back to it."""
    _, row = find(Rights(user), lake, table, version)
    shown = _of_published(row)
    address = f"dictionary/published?{_where(row)}" if row.has_dictionary else ""
    note = shown.note or "The release was published without a data dictionary."
    return _alone(request, user, replace(shown, address=address, note=note, kind="Data dictionary"))


@router.get("/report", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
def run_report(
    request: Request,
    user: GetUserDep,
    dag_id: str,
    run_id: str,
    task_id: str | None = None,
    map_index: str = "-1",
    show: Show = 0,
) -> Response:
    """Show what a run has published or staged, or why there is nothing to show."""
    state = run_reports.state_of(dag_id, run_id)
    if state is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such run.")
    tabs, problems = _tabs(dag_id, run_id, task_id, _index(map_index))
    with create_session() as session:
        skipped = skips(session, dag_id, run_id)
    chosen = tabs[min(show, len(tabs) - 1)] if tabs else None
    here = {"dag_id": dag_id, "run_id": run_id, "map_index": map_index}
    if task_id is not None:
        here["task_id"] = task_id
    return page(
        request,
        "run_report.html.j2",
        {
            "about": f"Run {state}" if chosen and run_id in chosen.label else f"Run {run_id}: {state}",
            "tabs": [(tab, urlencode(here | {"show": i})) for i, tab in enumerate(tabs)],
            "chosen": chosen,
            "nothing": _nothing(state, bool(skipped)),
            "skips": skipped,
            "problems": problems,
            "asks": approvals.open_in(dag_id, run_id),
            "suites": run_reports.expectations(dag_id, run_id),
            "alerts": run_reports.alerts(dag_id, run_id),
            "progress": run_reports.progress(dag_id, run_id),
            "unverified": bool(tabs) and tabs[0].row is None and not run_reports.is_confirmed(dag_id, run_id),
        },
        user=user,
    )


def _standing(user: Any, lake: str, table: str, version: int, what: str) -> tuple[Lake, Listed]:
    """Return a publication that the user may see and that is not retracted.

    Raises:
        HTTPException: 404 if there is none, 403 if the user may not see it.
    """
    place, row = find(Rights(user), lake, table, version)
    if row.entry.tombstone is not None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"The release was retracted, and its {what} with it.")
    return place, row


def _alone(request: Request, user: Any, shown: Tab) -> Response:
    """Show a page about one release, outside of its run."""
    empty: dict[str, Any] = {"nothing": "", "about": "", "unverified": False}
    empty |= {name: [] for name in ("problems", "skips", "asks", "suites", "alerts", "progress")}
    context = {"tabs": [(shown, "")], "chosen": shown} | empty
    return page(request, "run_report.html.j2", context, user=user)


def _tabs(dag_id: str, run_id: str, task_id: str | None, map_index: int) -> tuple[list[Tab], list[str]]:
    """Return the reports of a run, the task's first; a published report replaces the staged one."""
    places = lakes()
    rows, problems = published.of_run(places, dag_id, run_id)
    if rows:
        return [_of_published(row) for row in rows], problems
    own = [] if task_id is None else run_reports.staged_reports(dag_id, run_id, task_id, map_index)
    staged = own or run_reports.staged_reports(dag_id, run_id)
    tabs = [_of_staged(dag_id, run_id, found) for found in staged]
    if run_reports.comparison(places, dag_id, run_id) is not None:
        address = f"report/comparison?{urlencode({'dag_id': dag_id, 'run_id': run_id})}"
        tabs.insert(len(own), Tab(label="Comparison", status="published", note="", address=address))
    return tabs, problems


def _where(row: Listed) -> str:
    return urlencode({"lake": row.lake, "table": row.table, "version": row.entry.version})


def _of_published(row: Listed) -> Tab:
    stone = row.entry.tombstone
    return Tab(
        label=f"{row.table}, {row.entry.release_id}",
        status=row.status,
        note="" if stone is None else f"Retracted: {stone.reason}",
        address="" if stone else f"report/published?{_where(row)}",
        row=row,
    )


def _of_staged(dag_id: str, run_id: str, found: run_reports.Staged) -> Tab:
    where = {
        "dag_id": dag_id,
        "run_id": run_id,
        "task_id": found.task_id,
        "map_index": found.map_index,
    }
    return Tab(
        label=found.label,
        status="not published",
        note=""
        if found.is_there
        else "The run made this release but did not publish it. Its work area, with the report, is gone "
        "or cannot be read by this server.",
        address=f"report/staged?{urlencode(where)}" if found.is_there else "",
    )


def _nothing(state: str, skipped: bool) -> str:
    """Explain why a run has nothing to show."""
    if skipped and state in _ENDED:
        return "Nothing was released: a task skipped the rest of the run, for the reason above."
    if state in _ENDED:
        return "This run ended without a release: it failed or was stopped, or its DAG makes none."
    return "This run has not made a release yet. Come back when the release task has ended."


def _index(text: str) -> int:
    """Parse a map index from Airflow's UI, which passes a placeholder for tasks that are not mapped."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
