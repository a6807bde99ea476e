"""Operator that asks a person whether a verified release may be published."""

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
    Answer,
    ApprovalRef,
    Question,
    approval_of,
    body,
    plain_comment,
    question,
    subject,
)
from privacy_release.workarea.journal import sha256_of
from privacy_release.workarea.references import ReportRef, StagedRelease

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


_NOTHING = "nothing was published, and the staged records are removed; start a new run to ask again"


class ApproveReleaseOperator(HITLOperator):
    """Wait, without a worker slot, until somebody approves a verified release; fail for good if nobody does.

    The form shows the measured guarantees, loss, utility, risk, and the difference from the last release.
    The approval names the sha256 of what was shown, and `PublishOperator` publishes nothing else. Where
    somebody sends the release back for a change, the task is skipped, and so is what publishes.

    Args:
        table: reference to the staged release.
        report: what `VerifyOperator` found.
        name: the release table in the lake.
        lake: Airflow connection id of the lake.
        required: whether to ask; rendered text such as `"{{ params.approval }}"` is read as a truth value.
            Where it is false the release goes on, and its manifest says that nobody was asked.
        assigned_users: ids of the Airflow users who may answer; none means everybody who may answer in this
            DAG. The id is what the auth manager says: the name for the simple one, a number for FAB's.
        timeout: how long to wait, such as `2 days`; after that it counts as rejected.
        approvers: 1, or 2 for two different users, who both approve the same bytes in that time.
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
            subject="Publish?",  # the real one needs the run
            # No default: Airflow's form would show it as the button to press. No answer in time is an error.
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
        """Ask, unless this run needs no approval."""
        from privacy_release.steps.attacks.tries import require_attacked
        from privacy_release.steps.verify import raise_if_failed

        raise_if_failed(self.report)
        require_attacked(self.report)
        sha256 = self.report.sha256
        if sha256 != self.table.sha256:
            raise IntegrityError("the report must be about the staged release; verify it again")
        if not self._asked():
            self.log.info("approval not asked for", sha256=sha256)
            return approval_of(self.report, None, _now())
        users = _users(self.assigned_users)
        patience = self._patience()
        ti = context["ti"]
        asked = question(
            self.table,
            self.report,
            lake_of(self.lake).table(self.name),
            release_id(context),
            approvers=self._people(),
            assigned=users,
            until=(datetime.now(UTC) + patience).isoformat(timespec="seconds"),
        )
        self.body = body(
            asked, ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index
        )
        self.log.info("asking for approval", sha256=sha256, assigned=users, timeout=self.timeout)
        return self._ask(context, asked, patience)

    @recorded
    def execute_complete(self, context: "Context", event: dict[str, Any], question: str = "") -> ApprovalRef:
        """The approval.

        Raises:
            AirflowFailException: if it was rejected, or nobody answered in time.
            AirflowSkipException: if it was sent back for a change.
        """
        asked: Question = json.loads(question)
        sha256 = asked["sha256"]
        if event.get("error_type") == "timeout":
            raise AirflowFailException(
                f"nobody answered until {_now()}, which counts as rejected: {_NOTHING}"
            )
        if "error" in event:
            raise AirflowFailException(
                f"the release was not approved ({event.get('error_type')}): {_NOTHING}"
            )
        at = event["responded_at"]
        when = at.isoformat(timespec="seconds")
        if event.get("timedout") or event["responded_by_user"] is None:
            raise AirflowFailException(f"nobody answered until {when}, which counts as rejected: {_NOTHING}")
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
            report_sha256=asked["report_sha256"],
            question_sha256=sha256_of(asked),
        )
        if asked["approvers"] < 2:
            return approval
        first = asked["first"]
        if first is None or not by["id"] or first["by"]["id"] == by["id"]:
            # The same user again is no second one: what was said first stands, and the question stays.
            asked["first"] = first or Answer(by=by, at=when, comment=comment)
            left = datetime.fromisoformat(asked["until"]) - datetime.now(UTC)
            if left <= timedelta(0):
                raise AirflowFailException(f"no second person approved until {asked['until']}: {_NOTHING}")
            self._ask(context, asked, left)
        return replace(approval, first=first)

    def _ask(self, context: "Context", asked: Question, patience: timedelta) -> NoReturn:
        """Wait for an answer to this very question, whatever an upstream task or the DAG may say by then."""
        self.assigned_users = [{"id": user, "name": user} for user in asked["assigned"]] or None
        self.subject = subject(asked["table"], asked["release"])
        self.response_timeout = patience
        try:
            super().execute(context)
        except WAITING as waiting:
            waiting.kwargs = {"question": json.dumps(asked)}
            raise
        raise AssertionError("asking for input ends in waiting for it")

    @property
    def serialized_params(self) -> dict[str, dict[str, Any]]:
        """The form's one field: Airflow 3.1 would ask for the parameters of the DAG, too."""
        return {COMMENT: super().serialized_params[COMMENT]}

    def _asked(self) -> bool:
        required = read_field("approve.required", self.required, bool)
        if not isinstance(required, bool):
            raise SpecError("approve.required must be true or false, got another value; correct it")
        return required

    def _people(self) -> int:
        approvers = read_field("approve.approvers", self.approvers, int)
        if isinstance(approvers, bool) or approvers not in (1, 2):
            raise SpecError("approve.approvers must be 1 or 2; correct it")
        return int(approvers)

    def _patience(self) -> timedelta:
        try:
            return parse_duration(str(self.timeout))
        except ValueError as error:
            raise SpecError(f"approve.timeout {error}; correct it") from None


def _comment() -> Param:
    """A field that may stay empty: with text as its only type the form would wait for it."""
    return Param(
        None,
        type=["null", "string"],
        maxLength=LONGEST_COMMENT,
        title="Comment",
        description="Published with the release, for all its readers: it must not speak of a person.",
    )


def _users(given: Any) -> list[str]:
    users = read_field("approve.assigned_users", given, list)
    if isinstance(users, str | Mapping) or not all(isinstance(user, str | int) for user in users):
        raise SpecError("approve.assigned_users must be a list of user ids; correct it")
    return [str(user) for user in users]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
