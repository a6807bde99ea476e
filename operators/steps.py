"""The work of a release, step by step, without Airflow: ingest, validate, outliers, release, verify, publish.

Between the steps travel small dictionaries, see `references`, never records. Each step that reads a file of
an earlier one first holds its bytes against the recorded hash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operators.approval import ApprovalRef, public_approval
from operators.membership import (
    Identification,
    earlier_releases,
    read_persons,
    record,
    refuse_unseen,
    write_persons,
)
from operators.outlier_step import detect_outliers
from operators.parquet_files import parquet_bytes, read_private, write_private
from operators.references import Published, ReportRef, SourceRef, StagedRef, TableRef
from operators.sources import find_source, without_secret
from operators.staging import make_release, read_manifest, read_schema, write_schema
from operators.tables import Nulls, check_source, kept_schema, read_source
from operators.work_area import WorkArea, sha256_file
from privacy_engine.errors import IntegrityError, SpecError, VerificationError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from operators.expectations import SuiteResult
    from operators.lake import Lake
    from operators.ledger import BudgetLedger
    from privacy_engine.cross_release import Membership
    from privacy_engine.policy import ReleasePolicy
    from privacy_engine.schema import DataSchema

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
    individual: str | None = None,
    people: Identification | None = None,
    label: str = "ingest",
) -> TableRef:
    """Read a table about people into the work area, without its identifiers.

    Args:
        uri: Parquet file, folder or glob, as a path or address, or a sample, see `operators.sample_data`.
        schema: what the columns must be.
        work: where the copy is kept until teardown.
        columns: to read; None reads all, and each must be in the schema then.
        nulls: `fail` on a null in a quasi-identifier or sensitive attribute, or `drop` its record.
        storage_options: for fsspec, where the address is of an object store.
        filesystem: an fsspec file system to use instead, such as that of an `ObjectStoragePath`.
        people: by which identifier the records are known as a person's, for models across releases: keyed
            hashes are kept beside the table, in a file of their own.
        individual: the one identifier that is kept, in the work area alone, for answers that are memoised by
            it.
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
    if people is not None and individual is not None:
        raise SpecError("history is about classes, which random answers have none of; leave history out")
    read = read_source(source, schema, columns, nulls, people.column if people else individual)
    persons = None if people is None else people.persons(read.table.pop(people.column))
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
    table = TableRef(
        uri=str(work.path(f"{label}.parquet")),
        rows=len(read.table),
        sha256=sha256,
        schema=write_schema(work, label, kept_schema(schema, individual)),
        source=origin,
    )
    if people is not None and persons is not None:
        table["persons"] = write_persons(persons, work.path(f"{label}.persons.parquet"), people.key_id)
    return table


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


def verify_staged(
    staged: StagedRef,
    policy: "ReleasePolicy",
    ledger: "BudgetLedger | None" = None,
    *,
    lake: "Lake | None" = None,
    name: str | None = None,
) -> ReportRef:
    """Hold the staged bytes against a policy; a rule that fails is in the report, not raised.

    A differentially private release is held against its budget ledger, too; and one that a policy demands
    models across releases of, against the earlier releases of its table.

    Args:
        staged: what `make_release` gave.
        policy: what must hold.
        ledger: that booked the loss of a differentially private release; without one it is refused.
        lake: of the release table, whose earlier releases are looked at where the policy demands that.
        name: of the release table.

    Raises:
        IntegrityError: if the staged file is not the one that the method made, or the ledger was edited.
        VerificationError: if its columns are not those of the released schema.
        SpecError: if the release is differentially private and there is no ledger.
        LedgerError: if the ledger cannot be reached.
    """
    from operators.bookkeeping import bookkeeping_findings
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.verification import verify

    frame, schema = read_private(staged["uri"], staged["sha256"]), read_schema(staged["schema"])
    manifest = read_manifest(staged["manifest"])
    _require_one_claim(staged, manifest)
    loss = PrivacyLoss(**staged["loss"]) if staged["loss"] else None
    earlier, persons = _earlier(staged, policy, lake, name), None
    if "persons" in staged:
        persons = read_persons(staged["persons"])
    report = verify(
        frame,
        schema,
        policy,
        loss=loss,
        figures=staged["figures"],
        persons=persons,
        earlier=tuple(earlier.values()),
    )
    if loss is not None:
        books = bookkeeping_findings(staged, manifest, loss, frame, schema, ledger)
        report = replace(report, findings=(*report.findings, *books))
    found = report.to_dict()
    told = ReportRef(
        passed=found["passed"],
        sha256=staged["sha256"],
        rows=found["rows"],
        classes=found["classes"],
        findings=found["findings"],
        policy=policy.to_dict(),
    )
    if policy.across:
        told["compared"] = list(earlier)
    return told


def _earlier(
    staged: StagedRef, policy: "ReleasePolicy", lake: "Lake | None", name: str | None
) -> "dict[int, Membership]":
    """Who is in the earlier releases of the table, by version, where the policy asks for it."""
    if not policy.across or "persons" not in staged:  # without persons the verification says what to do
        return {}
    if lake is None or name is None:
        raise SpecError(
            "the policy is about the earlier releases of the table, too; verify needs the name of the "
            "table and its lake"
        )
    return earlier_releases(lake, name, staged["persons"]["key"])


def _require_one_claim(staged: StagedRef, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest that claims another loss than the release that is verified and published with it."""
    if manifest.get("loss") != staged["loss"]:
        raise IntegrityError(
            "the manifest must claim the privacy loss of the staged release; run the release again"
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
    _require_one_claim(staged, manifest)
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


def _sample(uri: str, work: WorkArea, label: str) -> tuple[str, str]:
    """A sample table as a file of the work area, and where it came from."""
    from operators.sample_data import write_named_sample

    path = work.path(f"{label}.sample.parquet")
    return str(path), write_named_sample(uri, path)
