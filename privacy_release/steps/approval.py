"""The answers of a reviewer, and the approval of a release that results."""

from dataclasses import dataclass
from typing import Any, TypedDict

from privacy_engine.errors import IntegrityError
from privacy_release.workarea.journal import sha256_of
from privacy_release.workarea.references import Reference, ReportRef

APPROVE = "Approve"
REJECT = "Reject"
SEND_BACK = "Send back"
COMMENT = "comment"
LONGEST_COMMENT = 500
_PUBLIC = frozenset({"by", "at", "comment", "automatic", "report_sha256", "question_sha256", "first"})


@dataclass(frozen=True, kw_only=True)
class ApprovalRef(Reference):
    """An approval of exactly the bytes that were verified.

    Attributes:
        by: ID and name of the user. Only a name if the approval was given on the command line. None if no
            approval was required.
        at: Time of the answer, ISO 8601.
        comment: Comment of the user, which is published.
        automatic: Whether the run needs no approval, so that no one had to answer.
        sha256: SHA-256 of the approved bytes.
        report_sha256: SHA-256 of the verification report that was shown.
        question_sha256: SHA-256 of the question as it was shown. None if no question was shown.
        first: Earlier approval of the same bytes by another person, if two people must approve.
    """

    by: dict[str, str] | str | None
    at: str
    comment: str
    automatic: bool
    sha256: str
    report_sha256: str
    question_sha256: str | None
    first: "ReviewerAnswer | None" = None


class ReviewerAnswer(TypedDict):
    """The answer of one of two reviewers: ID and name, time in ISO 8601, comment."""

    by: dict[str, str]
    at: str
    comment: str


def approval_of(report: ReportRef, by: str | None, at: str) -> ApprovalRef:
    """Return an approval that was given on the command line, without a question.

    Args:
        report: Verification report of the release.
        by: Name of the person who approves. None if the release needs no approval.
        at: Time in ISO 8601.
    """
    return ApprovalRef(
        by=by,
        at=at,
        comment="",
        automatic=by is None,
        sha256=report.sha256,
        report_sha256=sha256_of(report),
        question_sha256=None,
    )


def public_approval(approval: ApprovalRef, report: ReportRef) -> dict[str, Any]:
    """Return the section of the manifest about an approval.

    Raises:
        IntegrityError: If the approval is about other bytes or another report than the verified ones.
    """
    if approval.sha256 != report.sha256:
        raise IntegrityError(
            f"the approved bytes must be the verified bytes (sha256 {report.sha256}), but the approval is of "
            "other bytes; request the approval again"
        )
    if approval.report_sha256 != sha256_of(report):
        raise IntegrityError(
            "the approval must be based on the current verification report, but the release was verified "
            "again since; request the approval again"
        )
    return {name: value for name, value in approval.to_ref().items() if name in _PUBLIC}


def plain_comment(given: object) -> str:
    """Return a comment as one line of at most `LONGEST_COMMENT` characters, empty if there is none."""
    text = (
        " ".join("".join(c if c.isprintable() else " " for c in given).split())
        if isinstance(given, str)
        else ""
    )
    return text if len(text) <= LONGEST_COMMENT else text[: LONGEST_COMMENT - 1] + "…"
