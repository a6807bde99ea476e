"""Publish the verified bytes of a release with their proof.

The steps of a release exchange small dictionaries (`privacy_release.workarea.references`), never records. A
step that reads a file of an earlier step first checks its bytes against the recorded hash.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from deltalake import Schema

from privacy_engine.errors import IntegrityError, PublishError, SpecError, VerificationError
from privacy_engine.verification.republication.notes import notes_on_earlier
from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.budget.secrets import require_same_secret
from privacy_release.config.durations import parse_duration
from privacy_release.lake import publish as store
from privacy_release.lake.describe import Words
from privacy_release.lake.layout import TableRules
from privacy_release.lake.log import ReleaseRun
from privacy_release.lake.publish import committed
from privacy_release.lake.replicates import REPLICATES, replicates_file
from privacy_release.lake.rows import plain_schema
from privacy_release.lake.store import as_readable_as_the_lake, takes_table
from privacy_release.lake.superseded import settle
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.attacks import with_attacks
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.dictionary import (
    DICTIONARY,
    column_comments,
    dictionary,
    dictionary_html,
    table_description,
)
from privacy_release.reports.release import with_notes_on_earlier
from privacy_release.spec.classification import require_classified
from privacy_release.spec.floor import require_floor
from privacy_release.steps.approval import ApprovalRef, public_approval
from privacy_release.steps.attacks.tries import published_attacks, require_attacked
from privacy_release.steps.memberships.recording import (
    forget_unpublished,
    is_recorded,
    one_at_a_time,
    record,
    refuse_unseen,
)
from privacy_release.steps.verify import raise_if_failed
from privacy_release.workarea.journal import sha256_of
from privacy_release.workarea.references import Published, ReportRef, StagedRelease
from privacy_release.workarea.references.files import read_json
from privacy_release.workarea.staged import json_bytes

COMPLETED = (
    "an earlier attempt of this run published other rows and was interrupted before it signed its files; "
    "they are signed now, and this attempt published nothing: its figures describe its own rows, so read "
    "the published report"
)

if TYPE_CHECKING:
    from privacy_release.lake.publish import CommittedRelease
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import Lake, ReleaseTable


@takes_table
def publish_staged(
    staged: StagedRelease,
    report: ReportRef,
    table: "ReleaseTable",
    release_id: str,
    *,
    run_key: str | None = None,
    approved: ApprovalRef | None = None,
    signer: "Signer | None" = None,
    rules: "TableRules | None" = None,
) -> Published:
    """Publish the verified bytes with manifest and report. A retry of the same run changes nothing.

    Args:
        staged: Staged release from `make_release`.
        report: Report from `verify_staged`.
        table: The release table.
        release_id: Partition key of the run if it has one, otherwise its run ID.
        run_key: Name of the run that is the same in retries, for example DAG ID and run ID.
        approved: Approval of these bytes. None if no approval is required.
        signer: Signer of the release. None: it is not signed.
        rules: Rules on which releases the table keeps. Default: it keeps only this one, and others are
            dropped.

    Raises:
        VerificationError: If the report does not pass, a bounded attack was not tried, or another release of
            the table was published after this one was verified against the earlier ones; if it was not
            verified under the floor policy, or lacks an approval or a signature that the floor policy
            requires; or if it is to be appended to releases whose people are not known.
        IntegrityError: If the report or the approval is about other bytes than the staged file's.
        SecretError: If its answers do not repeat those of the table's earlier releases.
        PublishError: If the lake cannot be reached or refuses, or a replaced release could not be removed.
    """
    raise_if_failed(report)
    require_attacked(report)
    approval = None if approved is None else public_approval(approved, report)
    by_person = approval is not None and not approval["automatic"]
    require_floor(report.floor_policy, approved=by_person, signed=signer is not None)
    require_classified(source.classification for source in staged.source.of_tables)
    if report.sha256 != staged.sha256:
        raise IntegrityError(
            f"the verified bytes (sha256 {report.sha256}) must be the staged bytes, got "
            f"{staged.sha256}; run the release and verify it again"
        )
    manifest = staged.read_manifest()
    if manifest.sha256 != report.sha256:
        raise IntegrityError(
            "the manifest must be that of the staged release; run the release and verify it again"
        )
    rules = rules or TableRules(mode=PublishMode.SNAPSHOT)
    followed = report.was_compared or staged.follows_people
    if rules.mode is PublishMode.APPEND and not followed:
        raise VerificationError(
            f"a release must not be appended to table {table.name} unless the people in its earlier releases "
            "are known: declare `history` in the specification, or publish in the mode snapshot"
        )
    require_same_secret(table, manifest)
    described = _described(staged, report, manifest, table.name, release_id)
    found = {
        "policy": report.policy,
        "measured": report.findings,
        "verification": _verified(report),
        "floor_policy": report.floor_policy,
        "attacks": published_attacks(report) or None,
        "approval": approval,
        # Anyone who checks a signed release measures it again, which requires the schema.
        "schema": staged.read_schema().to_dict() if signer is not None else None,
        "left_out": described.left_out or None,
        "membership": None,  # set once the file is written
    }
    if early := sorted(manifest.stored.keys() & found.keys() - {"left_out"}):
        raise IntegrityError(
            f"the manifest of a staged release must not have {', '.join(early)}, which only publishing adds; "
            "run the release and verify it again"
        )
    with one_at_a_time(table.name) if followed else nullcontext():
        run = ReleaseRun(release_id, run_key or release_id)
        refuse_unseen(table, run, report)
        # Written before the commit, which states its hash: a file that an earlier attempt committed is kept.
        if staged.follows_people and not (
            is_recorded(table.name, release_id, report.sha256) and store.committed(table, run)
        ):
            found["membership"] = {"sha256": record(staged, table.name, release_id, report.register)}
        manifest = manifest.extended(found)
        with as_readable_as_the_lake(table.lake):
            done = store.publish(
                table,
                release_id,
                Path(staged.uri),
                manifest.stored,
                described.report,
                expected_sha256=report.sha256,
                run_key=run_key,
                proofs=described.proofs,
                words=described.words,
                signer=None if signer is None else signer.about(manifest, approved=by_person),
                rules=rules,
            )
        if staged.follows_people and done.completed:
            forget_unpublished(table.name, release_id, report.sha256)
        published = _published_as(table.lake, done)
        if not done.completed:
            published = replace(published, left_out=described.left_out, alerts=report.alerts)
    with as_readable_as_the_lake(table.lake):
        _settle(table, published, rules)
    return published


def published_by(table: "ReleaseTable", run: ReleaseRun) -> Published | None:
    """Return what a run published, according to the commit in the lake. None if it published nothing.

    Raises:
        PublishError: If the lake cannot be reached, or the run's release was retracted.
    """
    done = committed(table, run)
    return None if done is None else _published_as(table.lake, done)


def require_published_by(table: "ReleaseTable", run: ReleaseRun) -> None:
    """Raise unless this run published the release.

    Raises:
        IntegrityError: If this run has not published it.
        PublishError: As `published_by`.
    """
    if published_by(table, run) is None:
        raise IntegrityError(
            f"release {run.release_id} of table {table.name} must be published by this run, but it is not: "
            "the result of the publishing task was changed outside of the run; clear that task"
        )


def _published_as(lake: "Lake", done: "CommittedRelease") -> Published:
    return Published(
        release=done.release_id,
        table=done.name,
        lake=lake.root,
        version=done.version,
        already=done.already,
        manifest=done.manifest_uri,
        report=done.report_uri,
        rows=done.rows,
        statement=done.statement_sha256,
        completed=done.completed,
    )


def _verified(report: ReportRef) -> dict[str, str]:
    """Return the hashes of the verification report and of its policies."""
    floor = {"floor_policy_sha256": report.floor_policy["sha256"]} if report.floor_policy else {}
    return {"report_sha256": sha256_of(report), "policy_sha256": sha256_of(report.policy), **floor}


@dataclass(frozen=True, kw_only=True)
class _Described:
    """The description of a release that is stored with its manifest. Parts that failed are missing.

    Attributes:
        report: Page of the release.
        proofs: Further files by name: the dictionary, and replicates of a model.
        words: Description of the table and comments on its columns.
        left_out: Entries of the manifest about figures that failed in this step or an earlier one.
    """

    report: Path | bytes
    proofs: Mapping[str, bytes]
    words: "Words"
    left_out: list[dict[str, str]]


def _described(
    staged: StagedRelease, report: ReportRef, manifest: Manifest, name: str, release_id: str
) -> _Described:
    """Describe a release. A part that cannot be made is omitted and listed."""
    attempts = Attempts()
    proofs: dict[str, bytes] = {}
    words = Words()
    dictionary = attempts.make("the dictionary", partial(_dictionary, staged, manifest, name, release_id))
    if dictionary is not None:
        proofs[f"{DICTIONARY}.json"] = json_bytes(dictionary)
        page = attempts.make("the page of the dictionary", partial(dictionary_html, dictionary))
        if page is not None:
            proofs[f"{DICTIONARY}.html"] = page.encode()
        words = attempts.make("the comments of the table", partial(_words, dictionary)) or words
    proofs |= attempts.make("the replicates for intervals", partial(_replicates, staged)) or {}
    path = Path(staged.report)
    notes = notes_on_earlier(report.findings, followed=staged.follows_people)
    found = attempts.make("what was found after the release was made", partial(_page, path, report, notes))
    return _Described(
        report=path if found is None else found,  # if it cannot be read, publishing raises
        proofs=proofs,
        words=words,
        left_out=[*map(dict, manifest.left_out), *(figure.to_dict() for figure in attempts.left_out)],
    )


def _words(dictionary: Mapping[str, Any]) -> "Words":
    """Return the description of the table and the comments on its columns."""
    return Words(description=table_description(dictionary), comments=column_comments(dictionary))


def _page(path: Path, report: ReportRef, notes: Sequence[str]) -> bytes | None:
    """Return the staged report with the results of the attacks and the notes. None if there are neither."""
    if not report.trials and not notes:
        return None
    page = with_notes_on_earlier(path.read_text("utf-8"), notes)
    return (with_attacks(page, report.trials) if report.trials else page).encode()


def _replicates(staged: StagedRelease) -> dict[str, bytes]:
    """Return the file from which answers get intervals, if the release's model has replicates."""
    if not staged.is_synthetic:
        return {}
    data = replicates_file(staged.read_model(), staged.read_schema())
    return {} if data is None else {REPLICATES: data}


def table_rules(
    mode: PublishMode | str, superseded: Superseded | str, grace: str, history: "Lake | None"
) -> "TableRules":
    """Return the rules on which releases a table keeps, from the words of a specification or a task.

    Raises:
        SpecError: If a word is unknown, or a history lake is missing or not needed.
    """
    try:
        return TableRules(
            mode=PublishMode(mode),
            superseded=Superseded(superseded),
            grace=parse_duration(grace),
            history=history,
        )
    except ValueError as error:
        raise SpecError(f"publish: {error}; correct it") from None


def _settle(table: "ReleaseTable", published: Published, rules: "TableRules") -> None:
    """Remove or move superseded releases. A retry of the run repeats it."""
    try:
        settle(table, history=rules.history)
    except PublishError as error:
        raise PublishError(
            f"the release is published, as version {published.version} of table {table.name}, but releases "
            f"that were replaced could not be removed: {error}; retry the run, or remove them with "
            "`privacy-release table LAKE/TABLE --clear`"
        ) from None


def _dictionary(staged: StagedRelease, manifest: Manifest, name: str, release_id: str) -> dict[str, Any]:
    """Return the data dictionary, with the types of the columns in the table."""
    file = staged.first_path()
    kept = Schema.from_arrow(plain_schema(pq.read_schema(file)))
    types = {field.name: str(field.type.type) for field in kept.fields}
    # A release that was staged before an upgrade has fewer facts about its columns.
    known = {name: column.stored for name, column in manifest.columns.items()}
    columns = read_json(staged.columns) if staged.columns is not None else known
    return dictionary(manifest, columns, table=name, release=release_id, types=types)
