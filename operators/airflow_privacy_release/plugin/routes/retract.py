"""Retracting a release: a page that explains what it means, and the action itself."""

from typing import Annotated
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.utils.session import create_session
from fastapi import APIRouter, Form, HTTPException, Request, Response, status
from fastapi.responses import RedirectResponse

from airflow_privacy_release.hooks.signing import signer_of
from airflow_privacy_release.plugin.auth import Rights, holds, logged, require, token_for
from airflow_privacy_release.plugin.responses import page
from airflow_privacy_release.plugin.routes.releases import find, may_retract
from airflow_privacy_release.plugin.views.releases import Listed
from privacy_release.lake.log import State, check_text
from privacy_release.lake.store import Lake
from privacy_release.steps.retraction import retract_release

router = APIRouter()

Text = Annotated[str, Form()]
LONGEST_REASON = 400


@router.get("/retract")
def ask(request: Request, user: GetUserDep, lake: str, table: str, version: int) -> Response:
    """Show what a retraction means, with the form that does it."""
    _, row = _retractable(user, lake, table, version)
    return _form(request, user, row, "", "")


@router.post("/retract")
def do(
    request: Request,
    user: GetUserDep,
    lake: Text,
    table: Text,
    version: Annotated[int, Form()],
    token: Text,
    reason: Text = "",
    sure: Text = "",
) -> Response:
    """Retract the release, if the form was issued to this user, is confirmed and has a reason."""
    place, row = _retractable(user, lake, table, version)
    if not holds(token, user, _about(row)):
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            "This form was not made for you, or is older than an hour. Nothing was retracted. Open the page "
            "again.",
        )
    reason = " ".join(reason.split())
    complaint = _complaint(reason, sure)
    if complaint:
        return _form(request, user, row, reason, complaint)
    _record(user, row, reason)
    retract_release(place.table(table), row.entry.release_id, reason, signer=signer_of())
    where = urlencode({"lake": lake, "table": table, "version": version})
    return RedirectResponse(
        f"{request.scope.get('root_path', '')}/release?{where}", status.HTTP_303_SEE_OTHER
    )


def _retractable(user: BaseUser, lake: str, table: str, version: int) -> tuple[Lake, Listed]:
    """Return a release that exists and that the user may retract.

    Raises:
        HTTPException: 403, 404, or 409 if it was retracted before.
    """
    rights = Rights(user)
    place, row = find(rights, lake, table, version)
    require(
        may_retract(rights, place, row),
        "retract this release: this requires the right to edit its DAG, or its lake's connection if no DAG "
        "published it",
    )
    if row.entry.state is State.RETRACTED:
        raise HTTPException(status.HTTP_409_CONFLICT, "This release is retracted already.")
    return place, row


def _complaint(reason: str, sure: str) -> str:
    if not reason:
        return "Enter a reason. It is kept in the table's log."
    if len(reason) > LONGEST_REASON:
        return f"The reason may have at most {LONGEST_REASON} characters, got {len(reason)}."
    try:
        check_text("reason", reason, 1500)
    except ValueError as error:
        return str(error)
    return "" if sure else "Confirm that you want to retract it."


def _form(request: Request, user: BaseUser, row: Listed, reason: str, complaint: str) -> Response:
    return page(
        request,
        "retract.html.j2",
        {
            "row": row,
            "reason": reason,
            "complaint": complaint,
            "longest": LONGEST_REASON,
            "token": token_for(user, _about(row)),
        },
        status.HTTP_422_UNPROCESSABLE_CONTENT if complaint else status.HTTP_200_OK,
        user=user,
    )


def _about(row: Listed) -> list[str]:
    return ["retract", row.lake, row.table, row.entry.release_id]


def _record(user: BaseUser, row: Listed, reason: str) -> None:
    """Write who retracts what into Airflow's audit log, before it is done: the table's log names no user."""
    details = {"lake": row.lake, "table": row.table, "release": row.entry.release_id, "reason": reason}
    with create_session() as session:
        session.add(logged(user, "retract", details, dag_id=row.dag_id, run_id=row.run_id))
