"""Operator that waits for a reviewer to approve a verified release."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param

from airflow_privacy_release.compat import WAITING, AirflowFailException
from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.rendering import read_field
from airflow_privacy_release.task.run import release_id, skip
from privacy_engine.errors import IntegrityError, SpecError
from privacy_release.config.durations import parse_duration
from privacy_release.steps.approval import (
    APPROVE,
    COMMENT,
    LONGEST_COMMENT,
    REJECT,
    SEND_BACK,
    ApprovalRef,
    ReviewerAnswer,
    approval_of,
    plain_comment,
)
from privacy_release.steps.approval_question import ApprovalQuestion, question
from privacy_release.steps.approval_text import body, subject
from privacy_release.workarea.journal import sha256_of
from privacy_release.workarea.references import ReportRef, StagedRelease

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


_NOTHING = (
    "nothing was published, and the staged records are removed. Start a new run to request approval again"
)


class ApproveReleaseOperator(HITLOperator):
    """Defer until a reviewer approves the verified release. If no one approves in time, fail without retries.

    The form shows the measured guarantees, loss, utility and risk, and the difference from the last release.
    The approval names the sha256 of what was shown, and `PublishOperator` publishes only those bytes. If a
    reviewer sends the release back for a change, the task and the publishing tasks after it are skipped.

    Args:
        table: Reference to the staged release.
        report: Findings of `VerifyOperator`.
        name: Name of the release table in the lake.
        lake: Airflow connection id of the lake.
        required: Whether a reviewer must approve the release. A template that renders to `"true"` or
            `"false"` is accepted. If false, the release proceeds, and its manifest says that no approval was
            required.
        assigned_users: Ids of the Airflow users who may answer; none: every user who may answer in this DAG.
            An id is what the auth manager uses: the name for the simple one, a number for FAB's.
        timeout: How long to wait, such as `2 days`. After that, the release counts as rejected.
        approvers: Number of different users who must approve, 1 or 2. Both must approve the same bytes before
            the timeout.
    """

    references: ClassVar = {"table": StagedRelease, "report": ReportRef}
    template_fields = (
        "table",
        "report",
        "name",
        "lake",
        "required",
        "assigned_users",
        "timeout",
        "approvers",
    )
    template_fields_renderers = {"table": "json", "report": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#fff2cc"

    def __init__(
        self,
        *,
        table: "StagedRelease | XComArg",
        report: "ReportRef | XComArg",
        name: str,
        lake: str = DEFAULT_LAKE,
        required: bool | str = True,
        assigned_users: Sequence[str] = (),
        timeout: str = "2 days",
        approvers: int | str = 1,
        **kwargs: Any,
    ) -> None:
        kwargs["params"] = {COMMENT: _comment()}  # Airflow puts those of the DAG there
        super().__init__(
            subject="Publish?",  # the actual subject needs the run
            # No default: Airflow's form would preselect its button. No answer in time is an error.
            options=[APPROVE, SEND_BACK, REJECT],
            **kwargs,
        )
        self.table: Any = table  # references by the time of execute
        self.report: Any = report
        self.name = name
        self.lake = lake
        self.required = required
        self.assigned_users: Any = assigned_users
        self.timeout = timeout
        self.approvers: Any = approvers

    @recorded
    def execute(self, context: "Context") -> ApprovalRef:
        """Request an approval, unless this run requires none."""
        from privacy_release.steps.attacks.tries import require_attacked
        from privacy_release.steps.verify import raise_if_failed

        raise_if_failed(self.report)
        require_attacked(self.report)
        sha256 = self.report.sha256
        if sha256 != self.table.sha256:
            raise IntegrityError("the report is not about the staged release. Verify the release again")
        if not self._is_required():
            self.log.info("approval not required", sha256=sha256)
            return approval_of(self.report, None, _now())
        users = _users(self.assigned_users)
        patience = self._patience()
        ti = context["ti"]
        pending = question(
            self.table,
            self.report,
            lake_of(self.lake).table(self.name),
            release_id(context),
            approvers=self._people(),
            assigned=users,
            until=(datetime.now(UTC) + patience).isoformat(timespec="seconds"),
        )
        self.body = body(
            pending, ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index
        )
        self.log.info("waiting for approval", sha256=sha256, assigned=users, timeout=self.timeout)
        return self._ask(context, pending, patience)

    @recorded
    def execute_complete(self, context: "Context", event: dict[str, Any], question: str = "") -> ApprovalRef:
        """Return the approval.

        Raises:
            AirflowFailException: If the release was rejected, or no one answered in time.
            AirflowSkipException: If it was sent back for a change.
        """
        pending: ApprovalQuestion = json.loads(question)
        sha256 = pending["sha256"]
        if event.get("error_type") == "timeout":
            raise AirflowFailException(
                f"no one answered by {_now()}, so the release counts as rejected: {_NOTHING}"
            )
        if "error" in event:
            raise AirflowFailException(
                f"the release was not approved ({event.get('error_type')}): {_NOTHING}"
            )
        at = event["responded_at"]
        when = at.isoformat(timespec="seconds")
        if event.get("timedout") or event["responded_by_user"] is None:
            raise AirflowFailException(
                f"no one answered by {when}, so the release counts as rejected: {_NOTHING}"
            )
        by = {key: str(event["responded_by_user"].get(key) or "") for key in ("id", "name")}
        comment = plain_comment((event["params_input"] or {}).get(COMMENT))
        super().execute_complete(context, {**event, "params_input": {COMMENT: comment or None}})
        who = by["name"] or by["id"]
        if event["chosen_options"] == [SEND_BACK]:
            self.log.info("sent back for a change", by=who, at=when, sha256=sha256)
            skip(self, context, f"sent back for a change by {who} at {when}: {_NOTHING}")
        if event["chosen_options"] != [APPROVE]:
            raise AirflowFailException(f"rejected by {who} at {when}: {_NOTHING}")
        self.log.info("approved", by=who, at=when, sha256=sha256)
        approval = ApprovalRef(
            by=by,
            at=when,
            comment=comment,
            automatic=False,
            sha256=sha256,
            report_sha256=pending["report_sha256"],
            question_sha256=sha256_of(pending),
        )
        if pending["approvers"] < 2:
            return approval
        first = pending["first"]
        if first is None or not by["id"] or first["by"]["id"] == by["id"]:
            # The same user cannot be the second approver: the first answer is kept and the question stays
            # open.
            pending["first"] = first or ReviewerAnswer(by=by, at=when, comment=comment)
            left = datetime.fromisoformat(pending["until"]) - datetime.now(UTC)
            if left <= timedelta(0):
                raise AirflowFailException(f"no second person approved by {pending['until']}: {_NOTHING}")
            self._ask(context, pending, left)
        return replace(approval, first=first)

    def _ask(self, context: "Context", pending: ApprovalQuestion, patience: timedelta) -> NoReturn:
        """Wait for an answer to exactly this question, even if a task or the DAG changes meanwhile."""
        self.assigned_users = [{"id": user, "name": user} for user in pending["assigned"]] or None
        self.subject = subject(pending["table"], pending["release"])
        self.response_timeout = patience
        try:
            super().execute(context)
        except WAITING as waiting:
            waiting.kwargs = {"question": json.dumps(pending)}
            raise
        raise AssertionError("HITLOperator.execute always defers")

    @property
    def serialized_params(self) -> dict[str, dict[str, Any]]:
        """The form's only field: Airflow 3.1 would also show the parameters of the DAG."""
        return {COMMENT: super().serialized_params[COMMENT]}

    def _is_required(self) -> bool:
        required = read_field("approve.required", self.required, bool)
        if not isinstance(required, bool):
            raise SpecError("approve.required must be true or false. Correct the value")
        return required

    def _people(self) -> int:
        approvers = read_field("approve.approvers", self.approvers, int)
        if isinstance(approvers, bool) or approvers not in (1, 2):
            raise SpecError("approve.approvers must be 1 or 2. Correct the value")
        return int(approvers)

    def _patience(self) -> timedelta:
        try:
            return parse_duration(str(self.timeout))
        except ValueError as error:
            raise SpecError(f"approve.timeout {error}. Correct the value") from None


def _comment() -> Param:
    """Define an optional text field: with text as its only type, the form would require it."""
    return Param(
        None,
        type=["null", "string"],
        maxLength=LONGEST_COMMENT,
        title="Comment",
        description="Published with the release for all of its readers. Do not mention any person.",
    )


def _users(given: Any) -> list[str]:
    users = read_field("approve.assigned_users", given, list)
    if isinstance(users, str | Mapping) or not all(isinstance(user, str | int) for user in users):
        raise SpecError("approve.assigned_users must be a list of user ids. Correct the value")
    return [str(user) for user in users]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
