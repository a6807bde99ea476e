"""The page on which a reviewer decides whether a release is published, through Airflow's own interface.

Only users who may answer see it, because it shows released records before they are published. An answer is
stored exactly as from Airflow's own form, and only for the question that the page has shown: the attempt of
the task, the sha256 of the staged bytes and, if two people must approve, who was first.
"""

from inspect import signature
from typing import Annotated
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dagbag import DBDagBag
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, Form, HTTPException, Query, Request, Response, status
from fastapi.responses import RedirectResponse
from pydantic import BaseModel

from airflow_privacy_release.plugin.auth import Rights, holds, logged, require, token_for
from airflow_privacy_release.plugin.responses import page
from airflow_privacy_release.plugin.views import approvals, run_reports
from airflow_privacy_release.plugin.views.approvals import ApprovalTask, Bytes, Records
from airflow_privacy_release.plugin.views.trends import excess_trends
from privacy_release.steps.approval import APPROVE, COMMENT, LONGEST_COMMENT, REJECT, SEND_BACK, plain_comment
from privacy_release.steps.approval_question import ApprovalQuestion
from privacy_release.steps.approval_text import ATTACKED, changes_of, expectations_in_words

_MAY_ANSWER = requires_access_dag("PUT", DagAccessEntity.HITL_DETAIL)
router = APIRouter(dependencies=[Depends(_MAY_ANSWER)])

Text = Annotated[str, Form()]
_TWO = "You have approved this release already. A second person must approve it, too."


class Place(BaseModel):
    """The task that waits for the approval."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


Where = Annotated[Place, Query()]


@router.get("/approval")
def ask(request: Request, user: GetUserDep, where: Where) -> Response:
    """Show what would be published, and the forms to decide on it."""
    with create_session() as session:
        found = _found(approvals.approval_of(session, *_parts(where)), where, user)
    return _page(request, user, where, found)


@router.post("/approval")
def answer(
    request: Request,
    user: GetUserDep,
    where: Where,
    token: Text,
    option: Text,
    comment: Text = "",
    sure: Text = "",
) -> Response:
    """Pass the answer to Airflow, if the form was issued to this user and still matches the staged bytes."""
    comment = plain_comment(comment)
    with create_session() as session:
        found = _found(approvals.approval_of(session, *_parts(where), lock=True), where, user)
        question = found.question
        if question is None:
            raise HTTPException(
                status.HTTP_409_CONFLICT, "This approval was answered already, or is no longer waiting."
            )
        if not holds(token, user, _about(found, question)):
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                "This form was not made for you, is older than an hour, or belongs to an earlier question. "
                "Nothing was answered. Open the page again.",
            )
        if option == APPROVE and _was_first(question, user):
            raise HTTPException(status.HTTP_403_FORBIDDEN, _TWO)
        if complaint := _complaint(option, comment, sure):
            return _page(request, user, where, found, comment, complaint)
        if option == APPROVE:
            _require_same_bytes(where, question)
        details = {"answer": option, "sha256": question["sha256"]}
        session.add(logged(user, "approval", details, **where.model_dump()))
        update_hitl_detail(
            dag_id=where.dag_id,
            dag_run_id=where.run_id,
            task_id=where.task_id,
            update_hitl_detail_payload=UpdateHITLDetailPayload(
                chosen_options=[option], params_input={COMMENT: comment or None}
            ),
            user=user,
            session=session,
            map_index=where.map_index,
            **_dag_bag(),
        )
    address = f"{request.scope.get('root_path', '')}/approval?{urlencode(where.model_dump())}"
    return RedirectResponse(address, status.HTTP_303_SEE_OTHER)


def _dag_bag() -> dict[str, DBDagBag]:
    """Return the argument that Airflow 3.4 requires and earlier versions do not have."""
    return {"dag_bag": DBDagBag()} if "dag_bag" in signature(update_hitl_detail).parameters else {}


def _parts(where: Place) -> tuple[str, str, str, int]:
    return where.dag_id, where.run_id, where.task_id, where.map_index


def _found(found: ApprovalTask | None, where: Place, user: BaseUser) -> ApprovalTask:
    """Return an approval that the user may answer.

    Raises:
        HTTPException: 404 if there is none, 403 if the user may not answer it.
    """
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such approval.")
    require(Rights(user).answers_approval(where.dag_id, found.assigned), "answer this approval")
    return found


def _require_same_bytes(where: Place, question: ApprovalQuestion) -> None:
    """Raise if the staged bytes are no longer those of the question.

    Raises:
        HTTPException: 409.
    """
    if approvals.some_records(where.dag_id, where.run_id, question).bytes is Bytes.OTHERS:
        raise HTTPException(
            status.HTTP_409_CONFLICT,
            "The staged file is no longer the one that this page has shown. Nothing was approved; run the "
            "release again.",
        )


def _was_first(question: ApprovalQuestion, user: BaseUser) -> bool:
    return question["first"] is not None and question["first"]["by"]["id"] == str(user.get_id())


def _complaint(option: str, comment: str, sure: str) -> str:
    if option not in (APPROVE, REJECT, SEND_BACK):
        return "Choose one of the answers."
    if option == REJECT and not comment:
        return "Say why you reject it."
    if option == REJECT and not sure:
        return "Confirm that you reject it."
    if option == SEND_BACK and not comment:
        return "Say what should change."
    return ""


def _about(found: ApprovalTask, question: ApprovalQuestion) -> list[str]:
    first = question["first"]
    return ["approval", found.ti_id, question["sha256"], first["by"]["id"] if first else ""]


def _page(
    request: Request,
    user: BaseUser,
    where: Place,
    found: ApprovalTask,
    comment: str = "",
    complaint: str = "",
) -> Response:
    question = found.question
    records = Records(bytes=Bytes.UNREAD)
    report = None
    if question is not None:
        records = approvals.some_records(where.dag_id, where.run_id, question)
        report = run_reports.reporter_of(where.dag_id, where.run_id, question["sha256"])
    run = {"dag_id": where.dag_id, "run_id": where.run_id}
    return page(
        request,
        "approval.html.j2",
        {
            "run": run,
            "query": urlencode(where.model_dump()),
            "question": question,
            "given": found.given,
            "records": records,
            "verdict": approvals.verdict(question, records) if question else "",
            "checks": [(f, approvals.check_in_words(f)) for f in question["findings"]] if question else [],
            "changes": changes_of(question["difference"]) if question and question["difference"] else None,
            "unchanged": approvals.unchanged(question),
            "meanings": approvals.MEANINGS,
            "expected": expectations_in_words(question) if question else "",
            "attacked": ATTACKED,
            "attacks": question.get("attacks", []) if question else [],
            "attack_trends": excess_trends(question.get("excess", [])) if question else [],
            "alerts": question.get("alerts", []) if question else [],
            "report": urlencode(run | {"task_id": report[0], "map_index": report[1]}) if report else "",
            "again": question is not None and _was_first(question, user),
            "token": token_for(user, _about(found, question)) if question else "",
            "comment": comment,
            "complaint": complaint,
            "longest": LONGEST_COMMENT,
            "roles": approvals.ROLES,
            "terms": approvals.TERMS,
            "options": {"approve": APPROVE, "reject": REJECT, "back": SEND_BACK},
        },
        status.HTTP_422_UNPROCESSABLE_CONTENT if complaint else status.HTTP_200_OK,
        user=user,
    )
