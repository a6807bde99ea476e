"""The work of a release, step by step, without Airflow: ingest, validate, outliers, release, verify, publish.

Between the steps travel small dictionaries, see `references`, never records. Each step that reads a file of
an earlier one first holds its bytes against the recorded hash.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operators.outlier_step import detect_outliers
from operators.parquet_files import parquet_bytes, read_private, write_private
from operators.references import Published, ReportRef, SourceRef, StagedRef, TableRef
from operators.sources import find_source, without_secret
from operators.staging import make_release, read_manifest, read_schema, write_schema
from operators.tables import Nulls, check_source, read_source
from operators.work_area import WorkArea, sha256_file
from privacy_engine.errors import IntegrityError, SpecError, VerificationError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from operators.expectations import SuiteResult
    from operators.lake import Lake
    from privacy_engine.policy import ReleasePolicy
    from privacy_engine.schema import DataSchema

SAMPLE = "sample://adult"

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


def ingest(
    uri: str,
    schema: "DataSchema",
    work: WorkArea,
    *,
    columns: Sequence[str] | None = None,
    nulls: Nulls = "fail",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: "AbstractFileSystem | None" = None,
    label: str = "ingest",
) -> TableRef:
    """Read a table about people into the work area, without its identifiers.

    Args:
        uri: Parquet file, folder or glob, as a path or address, or `sample://adult`.
        schema: what the columns must be.
        work: where the copy is kept until teardown.
        columns: to read; None reads all, and each must be in the schema then.
        nulls: `fail` on a null in a quasi-identifier or sensitive attribute, or `drop` its record.
        storage_options: for fsspec, where the address is of an object store.
        filesystem: an fsspec file system to use instead, such as that of an `ObjectStoragePath`.
        label: begins the names of the files; tasks that share a work area need different ones.

    Raises:
        SchemaError: if the files cannot be read or do not fit the schema, by column, rule and remedy.
    """
    note = None
    address = uri
    if uri.startswith("sample://"):
        address, note = _sample(uri, work, label)
    source = find_source(address, storage_options, filesystem)
    check_source(source, schema, columns)
    read = read_source(source, schema, columns, nulls)
    sha256 = write_private(work.path(f"{label}.parquet"), parquet_bytes(read.table))
    origin = SourceRef(
        uri=without_secret(uri),
        files=len(source.files),
        fingerprint=read.fingerprint,
        rows=read.rows,
        dropped=read.dropped,
        identifiers=[a.name for a in schema.identifiers],
    )
    if note is not None:
        origin["note"] = note
    return TableRef(
        uri=str(work.path(f"{label}.parquet")),
        rows=len(read.table),
        sha256=sha256,
        schema=write_schema(work, label, schema.without_identifiers()),
        source=origin,
    )


def validate(table: TableRef, suite: Mapping[str, Any]) -> "SuiteResult":
    """Run a Great Expectations suite on an ingested table; counts and names, no values.

    Raises:
        SchemaError: if an expectation that gates is not met, by type, column and count.
        SpecError: if the suite is wrong, such as by a misspelt expectation.
        IntegrityError: if the table changed since it was ingested.
    """
    from operators import expectations

    result = expectations.run_suite(read_private(table["uri"], table["sha256"]), suite)
    expectations.raise_if_failed(result)
    return result


def verify_staged(staged: StagedRef, policy: "ReleasePolicy") -> ReportRef:
    """Hold the staged bytes against a policy; a rule that fails is in the report, not raised.

    Raises:
        IntegrityError: if the staged file is not the one that the method made.
        VerificationError: if its columns are not those of the released schema.
    """
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.verification import verify

    frame = read_private(staged["uri"], staged["sha256"])
    loss = PrivacyLoss(**staged["loss"]) if staged["loss"] else None
    report = verify(frame, read_schema(staged["schema"]), policy, loss=loss, figures=staged["figures"])
    found = report.to_dict()
    return ReportRef(
        passed=found["passed"],
        sha256=staged["sha256"],
        rows=found["rows"],
        classes=found["classes"],
        findings=found["findings"],
        policy=policy.to_dict(),
    )


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
    approved: Mapping[str, Any] | None = None,
) -> Published:
    """Publish the verified bytes with manifest and report; a retry of the same run changes nothing.

    Args:
        staged: what `make_release` gave.
        report: what `verify_staged` found on it.
        lake: where.
        name: of the release table.
        release_id: partition key of the run, else its run id.
        run_key: names the run across its retries, e.g. DAG id and run id.
        approved: who approved it and when, where somebody was asked.

    Raises:
        VerificationError: if the report does not pass.
        IntegrityError: if the report is about other bytes than the staged file's.
        PublishError: if the lake cannot be reached or refuses.
    """
    from operators import lake as store

    raise_if_failed(report)
    path = Path(staged["uri"])
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
    manifest |= {"policy": report["policy"], "measured": report["findings"]}
    if approved is not None:
        manifest["approval"] = dict(approved)
    done = store.publish(
        lake,
        name,
        release_id,
        path,
        manifest,
        Path(staged["report"]),
        expected_sha256=report["sha256"],
        run_key=run_key,
    )
    return Published(
        release=done.release_id,
        table=done.name,
        lake=lake.root,
        version=done.version,
        already=done.already,
        manifest=done.manifest_uri,
        report=done.report_uri,
        rows=done.rows,
    )


def _sample(uri: str, work: WorkArea, label: str) -> tuple[str, str]:
    """The sample table as a file of the work area, and where it came from."""
    from operators.sample_data import write_sample

    if uri != SAMPLE:
        raise SpecError(
            f"source.uri must be {SAMPLE} or the address of Parquet files, got another sample; correct it"
        )
    path = work.path(f"{label}.sample.parquet")
    return str(path), write_sample(path)
