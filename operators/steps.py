"""The work of a release, step by step, without Airflow: ingest, validate, outliers, release, verify, publish.

Between the steps travel small dictionaries, see `references`, never records. Each step that reads a file of
an earlier one first holds its bytes against the recorded hash.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operators.approval import ApprovalRef, public_approval
from operators.ingest_step import ingest
from operators.membership import record, refuse_unseen
from operators.outlier_step import detect_outliers
from operators.parquet_files import read_private
from operators.references import Published, ReportRef, SourceRef, StagedRef, TableRef
from operators.staged_files import read_manifest
from operators.staging import make_release
from operators.verify_step import require_one_claim, verify_staged
from operators.work_area import sha256_file
from privacy_engine.errors import IntegrityError, VerificationError

if TYPE_CHECKING:
    from operators.expectations import SuiteResult
    from operators.lake import Lake

__all__ = [
    "Published",
    "ReportRef",
    "SourceRef",
    "StagedRef",
    "TableRef",
    "detect_outliers",
    "ingest",
    "make_release",
    "publish_staged",
    "raise_if_failed",
    "validate",
    "verify_staged",
]


def validate(table: TableRef, suite: Mapping[str, Any]) -> "SuiteResult":
    """Run a Great Expectations suite on an ingested table; counts and names, no values.

    A table that an engine works on is read part by part, see `operators.expectation_parts`.

    Raises:
        SchemaError: if an expectation that gates is not met, by type, column and count.
        SpecError: if the suite is wrong, such as by a misspelt expectation, or needs the whole table in
            memory and an engine works on it.
        IntegrityError: if the table changed since it was ingested.
    """
    from operators import expectations
    from operators.expectation_parts import run_suite_in_parts

    if "engine" in table:
        result = run_suite_in_parts(table["uri"], table["sha256"], suite)
    else:
        result = expectations.run_suite(read_private(table["uri"], table["sha256"]), suite)
    expectations.raise_if_failed(result)
    return result


def raise_if_failed(report: ReportRef) -> None:
    """Refuse a release whose report does not pass.

    Raises:
        VerificationError: naming each rule that fails, the measured number and the counts.
    """
    from privacy_engine.verification import Finding, Report

    findings = tuple(Finding(**finding) for finding in report["findings"])
    Report(rows=report["rows"], classes=report["classes"], findings=findings).raise_if_failed()
    if not report["passed"]:
        raise VerificationError(
            "the report says that the release does not pass, but no finding does; verify it again"
        )


def publish_staged(
    staged: StagedRef,
    report: ReportRef,
    lake: "Lake",
    name: str,
    release_id: str,
    *,
    run_key: str | None = None,
    approved: ApprovalRef | None = None,
) -> Published:
    """Publish the verified bytes with manifest and report; a retry of the same run changes nothing.

    Args:
        staged: what `make_release` gave.
        report: what `verify_staged` found on it.
        lake: where.
        name: of the release table.
        release_id: partition key of the run, else its run id.
        run_key: names the run across its retries, e.g. DAG id and run id.
        approved: who approved these bytes and when, where somebody was to be asked.

    Raises:
        VerificationError: if the report does not pass, or another release of the table was published after
            the release was verified together with the earlier ones.
        IntegrityError: if the report or the approval is about other bytes than the staged file's.
        SecretError: if its answers do not repeat those of the table's earlier releases.
        PublishError: if the lake cannot be reached or refuses.
    """
    from operators import lake as store
    from operators.memoised import require_same_secret

    raise_if_failed(report)
    path, streamed = Path(staged["uri"]), "engine" in staged
    found = staged["sha256"]
    if not streamed:  # else the stream is hashed, which takes long enough
        found = sha256_file(path) if path.is_file() else "no file"
    if not report["sha256"] == staged["sha256"] == found:
        raise IntegrityError(
            f"the verified bytes (sha256 {report['sha256']}) must be the staged ones, got {found}; "
            "run the release and verify it again"
        )
    manifest = read_manifest(staged["manifest"])
    if manifest["sha256"] != report["sha256"]:
        raise IntegrityError(
            "the manifest must be of the staged release; run the release and verify it again"
        )
    require_one_claim(staged, manifest)
    require_same_secret(lake, name, manifest)
    manifest |= {"policy": report["policy"], "measured": report["findings"]}
    refuse_unseen(lake, name, release_id, report)
    if approved is not None:
        manifest["approval"] = public_approval(approved, report)
    done = store.publish(
        lake,
        name,
        release_id,
        path,
        manifest,
        Path(staged["report"]),
        expected_sha256=report["sha256"],
        run_key=run_key,
        streamed=streamed,
    )
    published = Published(
        release=done.release_id,
        table=done.name,
        lake=lake.root,
        version=done.version,
        already=done.already,
        manifest=done.manifest_uri,
        report=done.report_uri,
        rows=done.rows,
    )
    if "persons" in staged:  # a retry does it again, so a crash before it loses nothing
        record(staged, published)
    return published
