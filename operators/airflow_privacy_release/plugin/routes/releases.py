"""Pages on releases: the list, one release, two releases compared, and the trend of a table."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Query, Request, Response, status

from airflow_privacy_release.plugin.auth import Rights, require
from airflow_privacy_release.plugin.connections import lakes
from airflow_privacy_release.plugin.responses import page
from airflow_privacy_release.plugin.views import releases as published
from airflow_privacy_release.plugin.views import trends
from airflow_privacy_release.plugin.views.comparison import compare
from airflow_privacy_release.plugin.views.leftovers import leftovers
from airflow_privacy_release.plugin.views.releases import Listed
from airflow_privacy_release.plugin.views.selection import FILTERS, ORDERS, Selection
from privacy_engine.errors import PublishError
from privacy_engine.verification.republication.notes import notes_on_earlier
from privacy_release.evidence.kept import has_evidence
from privacy_release.lake.store import Lake
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.attacks import plotted
from privacy_release.reports.text import COUNTED, FIGURES, RISKS, claim, shown

router = APIRouter()

# Columns of the list; the second group has numbers.
_COLUMNS = {
    "table": "Table",
    "release": "Release",
    "version": "Version",
    "method": "Method",
    "k": "k",
    "l": "l",
    "t": "t",
    "epsilon": "Epsilon",
    "rows": "Rows",
    "published": "Published",
    "approved": "Approved by",
    "status": "Status",
}
_MISSING = "There is no such release."


@router.get("/releases")
@router.get("/")
def list_releases(request: Request, user: GetUserDep) -> Response:
    """Show all releases that the user may see, filtered, sorted and paged by the query."""
    rights = Rights(user)
    rows, problems = published.all_listed(lakes(), rights)
    selection = Selection.of_query(request.query_params)
    chosen = selection.select(rows)
    return page(
        request,
        "releases.html.j2",
        {
            "rows": selection.paged(chosen),
            "count": len(chosen),
            "all": len(rows),
            "problems": problems,
            "leftovers": leftovers(rights),
            "selection": selection,
            "pages": selection.pages(len(chosen)),
            "columns": _COLUMNS,
            "orders": ORDERS,
            "address_of": address_of,
            "choices": {name: published.distinct(rows, name) for name in FILTERS},
        },
        user=user,
    )


@router.get("/release")
def one_release(request: Request, user: GetUserDep, lake: str, table: str, version: int) -> Response:
    """Show one release: its figures, its proof, and its status."""
    rights = Rights(user)
    place, row = find(rights, lake, table, version)
    stored = {} if row.entry.problem else published.manifest_of(place, row)
    manifest = Manifest.from_dict({} if row.entry.tombstone else stored)
    figures = {} if manifest.loss else manifest.figures
    return page(
        request,
        "release.html.j2",
        {
            "row": row,
            "manifest": manifest,
            "attacks": plotted(published.attacks_in(manifest)),
            "manifest_text": json.dumps(stored, indent=2, sort_keys=True, ensure_ascii=False),
            "claims": [claim(fields) for fields in row.entry.figures.get("guarantees") or []],
            "findings": row.entry.figures.get("measured") or [],
            "over_time": notes_on_earlier(
                row.entry.figures.get("measured") or [], followed=manifest.history is not None
            ),
            "loss": row.entry.figures.get("loss"),
            "meanings": {symbol: meaning or "spent" for symbol, (_, _, meaning) in COUNTED.items()},
            "figures": [
                (label, shown(figures[name], unit), meaning)
                for name, (label, unit, meaning) in {**FIGURES, **RISKS}.items()
                if name in figures
            ],
            "may_retract": may_retract(rights, place, row),
            "has_evidence": row.entry.tombstone is None
            and rights.reads_evidence(row.dag_id, lake)
            and has_evidence(table, row.entry),
        },
        user=user,
    )


@router.get("/compare")
def compare_two(request: Request, user: GetUserDep, pick: Annotated[Sequence[str], Query()] = ()) -> Response:
    """Show two releases side by side; `pick` has two results of `address_of`."""
    if len(pick) != 2:
        raise HTTPException(
            status.HTTP_422_UNPROCESSABLE_CONTENT,
            f"Choose exactly two releases to compare; {len(pick)} were chosen. Go back and choose two.",
        )
    rights = Rights(user)
    both = [published.with_manifest(*find(rights, *address)) for address in map(_read_address, pick)]
    left, right = sorted(both, key=lambda release: release.row.entry.committed)
    return page(
        request,
        "compare.html.j2",
        {"left": left.row, "right": right.row, "groups": compare(left, right)},
        user=user,
    )


@router.get("/trend")
def trend(request: Request, user: GetUserDep, table: str, lake: str = "lake_default") -> Response:
    """Show utility and risk over the published releases of one table."""
    place = _lake(lake)
    try:
        rows = published.of_table(lake, place, table, Rights(user))
    except ValueError:
        rows = []
    if not rows:
        raise HTTPException(
            status.HTTP_404_NOT_FOUND, "There is no such table, or you may see none of its releases."
        )
    standing = published.standing(rows)
    shown = standing[-trends.LONGEST :]
    releases = [published.with_manifest(place, row) for row in shown]
    return page(
        request,
        "trend.html.j2",
        {
            "table": table,
            "lake": lake,
            "rows": shown,
            "groups": [("Utility", trends.utility(releases)), ("Risk", trends.risk(releases))],
            "left_out": len(standing) - len(shown),
        },
        user=user,
    )


def find(rights: Rights, lake: str, table: str, version: int) -> tuple[Lake, Listed]:
    """Return a publication that the user may see, and its lake.

    Raises:
        HTTPException: 404 if there is none, 403 if the user may not see it.
    """
    place = _lake(lake)
    try:
        row = published.one(lake, place, table, version)
    except (ValueError, PublishError) as error:
        raise HTTPException(status.HTTP_404_NOT_FOUND, _MISSING) from error
    if row is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, _MISSING)
    require(rights.reads_release(row.dag_id, lake), "see this release")
    return place, row


def may_retract(rights: Rights, place: Lake, row: Listed) -> bool:
    """Return whether the user may retract a release, including its publications by other runs."""
    return all(rights.retracts_release(r.dag_id, r.lake) for r in published.same_release(place, row))


def _lake(name: str) -> Lake:
    found = lakes().lakes.get(name)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such lake.")
    return found


def _read_address(text: str) -> tuple[str, str, int]:
    """Parse an address that `address_of` returned.

    Raises:
        HTTPException: 422 if it is malformed.
    """
    try:
        lake, table, version = json.loads(text)
    except (ValueError, TypeError):
        lake = table = version = None
    if not (isinstance(lake, str) and isinstance(table, str) and type(version) is int):
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, "Choose two releases from the list.")
    return lake, table, version


def address_of(row: Listed) -> str:
    """Return the text that identifies a release in the list's form."""
    parts: list[Any] = [row.lake, row.table, row.entry.version]
    return json.dumps(parts)
