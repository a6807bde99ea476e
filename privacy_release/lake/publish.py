"""Release tables: one Delta table per name, and one atomic commit per publication, with all it supersedes.

A release is a partition `release` of its table, in every mode: the column shows readers which release a row
belongs to, a retraction finds rows without reading any, and files of two releases never share a folder.

Readers may rely on three things. They see the table before or after a commit, never in between. A commit's
metadata contains the proof: figures, and the hashes of data, manifest and report, which are stored before the
commit. A retry of a run finds the commit of its first attempt. The hash `sha256` is that of the verified
staged file: the Delta writer writes the same rows into new files, without the staged file's metadata.
They are written as a stream that is never in memory as a whole. The rows of a large release have no
particular order: the writer distributes batches over its threads and writes them as they finish.

A release that is staged as a set of files is not written again: its files are copied and hashed, and all are
added in one commit, whose note names each with its hash; `sha256` is that of the set. Before that commit no
reader knows about them. Files that a crash leaves are removed by `retract.clean_orphans`, like those of other
crashed writers. If the table does not have the columns of the release yet, the rows are streamed instead.

Column statistics are switched off in these tables: the log outlives a retracted release, and minima and
maxima are cell values. The log is never shortened, because it contains the proofs; `commits` explains how it
is read without reading all of it.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from privacy_engine.errors import IntegrityError, PublishError
from privacy_engine.vocabulary import PARTITION, PublishMode
from privacy_release.lake.commits import LOG_KEY, check_tail, next_mark
from privacy_release.lake.describe import Words, describe
from privacy_release.lake.layout import (
    TableRules,
    folder_name,
    own_rules,
    release_lock,
    require_mode,
    write_rules,
)
from privacy_release.lake.log import (
    ATTEMPTS,
    Publication,
    ReleaseRun,
    State,
    check_text,
    existing_table,
    newest,
    newest_such,
    open_table,
    predicate,
)
from privacy_release.lake.rows import (
    DataFile,
    VerifiedRows,
    refuse_other_form,
    refuse_other_types,
    verified_rows,
)
from privacy_release.lake.signing import Signer, chained, linked
from privacy_release.lake.store import Lake, ReleaseTable, put, reaching, takes_table
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.parquet import ROWS

# Parts of a manifest that the commit itself contains, readable for every Delta client without the proof
# folder.
_FIGURES = ("method", "parameters", "guarantees", "measured", "loss", "policy", "approval", "membership")
TABLE_OPTIONS = {
    "delta.dataSkippingNumIndexedCols": "0",
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
}
_LONGEST_KEY = 2000
_SNAPSHOT = "snapshot"


@dataclass(frozen=True, kw_only=True)
class CommittedRelease:
    """The location of a published release and its proofs.

    Attributes:
        uri: Address of the release table. The release is one of its partitions `release=...`.
        version: Table version that this publication made.
        sha256: SHA-256 of the staged file that was verified and published.
        already: Whether an earlier attempt of the same run had published it, so that no rows changed.
        completed: Whether that attempt had published other bytes and ended before it signed its files. This
            call signed them, and the release is what that attempt published.
        statement_sha256: SHA-256 of the signed statement. None if it is not signed.
        proofs: Addresses of further proofs, by name.
    """

    uri: str
    name: str
    release_id: str
    version: int
    rows: int
    sha256: str
    manifest_uri: str
    manifest_sha256: str
    report_uri: str
    report_sha256: str
    already: bool
    completed: bool = False
    statement_sha256: str | None = None
    proofs: Mapping[str, str] = field(default_factory=dict)


@takes_table
def publish(
    table: ReleaseTable,
    release_id: str,
    staged: Path,
    manifest: Mapping[str, Any],
    report_html: Path | bytes,
    *,
    expected_sha256: str,
    run_key: str | None = None,
    signer: Signer | None = None,
    rules: TableRules | None = None,
    proofs: Mapping[str, bytes] | None = None,
    words: Words | None = None,
) -> CommittedRelease:
    """Publish a verified staged file as a release, in one commit. A retry of the run changes nothing.

    A later run that publishes the same release replaces its rows. Other releases are only changed by a
    snapshot, which replaces them all. A column that is new to the table is added to it (other releases show
    null there). A column must keep its type. `privacy_release.lake.superseded.settle` erases or moves what
    was replaced.

    Args:
        table: The release table.
        release_id: Partition key of the run if it has one, otherwise its run ID.
        staged: Parquet file, or the list of a set of them, read batch by batch. Each is hashed before and
            after, and never changed.
        manifest: Manifest as plain JSON: what was done and what is guaranteed, without cell values.
        report_html: Report as one file, or as its bytes.
        expected_sha256: SHA-256 of the file that verification read.
        run_key: Name of the run that is the same in retries, for example DAG ID and run ID. Default: the
            release ID, which makes a release final: it can be retracted, but not replaced.
        signer: Signer of the publication. None: it is not signed.
        rules: Rules on which releases the table keeps. Default: those of the table; a new table holds one
            release per release ID and drops what is replaced.
        proofs: Further files that prove or explain the release, by name and kind: `dictionary.json`.
        words: New description of the table and comments on its columns. None: nothing changes.

    Raises:
        ValueError: If name, release ID or run key is not well-formed, or the manifest has NaN or infinity.
        TypeError: If the manifest is not plain JSON.
        IntegrityError: If the staged file is not the verified one or is incomplete, the report cannot be
            read, or the table's log is damaged.
        SchemaError: If the lake cannot hold a column, a column changed its type, or intervals would be in
            two forms in one table.
        PublishError: If the lake cannot be reached, the run published and signed other bytes, its release
            was retracted, or the table is kept in another mode.
    """
    run = ReleaseRun(release_id, release_id if run_key is None else run_key)
    if rules is not None and rules.history is not None and rules.history.root == table.lake.root:
        raise ValueError(
            "the history lake must have another address, because everyone who reads the lake would see it"
        )
    check_text("release id", release_id)
    check_text("run key", run.run_key, _LONGEST_KEY)
    manifest_bytes = json.dumps(manifest, sort_keys=True, indent=2, allow_nan=False).encode()
    staged_bytes = _StagedBytes(expected_sha256, signer)
    delta = open_table(table)
    if delta is not None:
        check_tail(table, delta.version())  # nothing is added to a damaged log
    done = None if delta is None else _committed(table, delta, run, staged_bytes)
    if done is not None:
        return _again(table, done, staged_bytes)
    rules, words = rules or own_rules(table.lake, delta), words or Words()
    rows = verified_rows(staged, expected_sha256)
    note: dict[str, Any] = {
        "action": "publish",
        "release": release_id,
        "run_key": run.run_key,
        "rows": rows.num_rows,
        "columns": rows.column_names,
        "sha256": expected_sha256,
        "manifest": _store_proof(table, manifest_bytes, "json"),
        "report": _store_proof(table, _report_bytes(report_html), "html"),
        "figures": _figures(manifest),
        "partition": folder_name(release_id),
        "mode": rules.mode.value,
    }
    if proofs:
        note["proofs"] = {
            proof: _store_proof(table, data, proof.rpartition(".")[2]) for proof, data in proofs.items()
        }
    if signer is not None:
        note["rows_digest"] = signer.rows_digest([*files_of(staged, expected_sha256)], rows.column_names)
    for _ in range(ATTEMPTS):
        delta = _up_to_date(table, delta) or _create(table, words.of(rows.schema), rules, words)
        try:
            describe(
                table.lake, delta, words
            )  # first, because it may find commits that came before, including one of this run
        except CommitFailedError:
            delta = None
            continue
        done = _committed(table, delta, run, staged_bytes)
        if done is not None:  # the same run was executed twice at once, and the other one came first
            return _again(table, done, staged_bytes)
        try:
            if not require_mode(table.name, delta, rules):
                write_rules(table.lake, delta, rules.properties())
            added: list[DataFile] = []
            if rows.fit(_held(table.lake, delta), whole=rules.mode is PublishMode.SNAPSHOT):
                # Copied again in each attempt: a retraction that came first erases what is older than itself.
                added = rows.copied(table, str(note["partition"]))
            mark = next_mark(table, delta.version())
            attempt_note = note | ({"files": [file.to_dict() for file in added]} if added else {})
            attempt_note |= linked(signer, table, delta.version(), attempt_note)
            attempt_note |= {"index": asdict(mark)} if mark else {}
            version = _commit(table, delta, (rows, added), words, attempt_note)
        except CommitFailedError:
            delta = None  # another commit came first: read the table again
            continue
        if signer is not None:
            signer.files(table, str(note["partition"]), version, attempt_note["statement"]["sha256"])
        return _published(table, version, attempt_note, already=False)
    raise PublishError(
        f"table {table.name} changed under each of {ATTEMPTS} attempts; nothing was published, "
        "retry when fewer runs publish"
    )


@dataclass(frozen=True)
class _StagedBytes:
    """The hash of the rows that an attempt staged, and its signer."""

    sha256: str
    signer: Signer | None

    def completes(self, table: ReleaseTable, done: Publication) -> bool:
        """Return whether the attempt that committed a release ended before it signed the release's files.

        Random choices without a seed differ in each attempt, so a retry has other bytes. It signs the
        committed files, because without that statement the release would never pass its check.
        """
        signer, statement = self.signer, done.statement
        if signer is None or statement is None or done.state is not State.CURRENT:
            return False
        return signer.lacks_files(table, statement)


def _again(table: ReleaseTable, done: Publication, staged: _StagedBytes) -> CommittedRelease:
    """Return what an earlier attempt published. Sign its files now if that attempt did not."""
    if staged.signer is not None and done.statement is not None and done.state is State.CURRENT:
        staged.signer.files(table, done.partition, done.version, done.statement)
    found = _published(table, done.version, _proof(done), already=True)
    return replace(found, completed=done.sha256 != staged.sha256)


def committed(table: ReleaseTable, run: ReleaseRun) -> CommittedRelease | None:
    """Return what a run published, according to its commit. None if it published nothing.

    Raises:
        PublishError: If the lake cannot be reached, or the run's release was retracted.
    """
    delta = open_table(table)
    done = None if delta is None else _committed(table, delta, run, None)
    return None if done is None else _published(table, done.version, _proof(done), already=True)


def _committed(
    table: ReleaseTable, delta: "DeltaTable", run: ReleaseRun, staged: _StagedBytes | None
) -> Publication | None:
    """Return the commit by which this run published this release, if the table's snapshot has one."""
    with reaching(table.lake, "read the table"):
        if delta.transaction_version(_app_id(run)) is None:
            return None
    mine = newest_such(
        table,
        delta.version(),
        lambda entry: entry.run == run,
    )
    if mine is None:
        raise PublishError(
            "the table knows this run, but its log was shortened by another tool; retract and start a new run"
        )
    if mine.tombstone is not None:
        raise PublishError(
            "the release of this run was retracted, and a retry must not publish it again; start a new run"
        )
    if staged is not None and mine.sha256 != staged.sha256 and not staged.completes(table, mine):
        raise PublishError(
            "this run has already published other bytes, and a retry must not replace them; "
            "start a new run to publish these, or retract the release"
        )
    return mine


def _up_to_date(table: ReleaseTable, delta: "DeltaTable | None") -> "DeltaTable | None":
    """Return a table that was opened before at its newest version. None if there is no table."""
    if delta is None:
        return open_table(table)
    with reaching(table.lake, f"open table {table.name}"):
        delta.update_incremental()
    return delta


def _app_id(run: ReleaseRun) -> str:
    """Return the Delta application ID of a publication. One run may publish several releases."""
    return json.dumps(run)


def _create(table: ReleaseTable, schema: "pa.Schema", rules: TableRules, words: Words) -> "DeltaTable":
    """Create the table without rows, or open the one that another writer has created."""
    with reaching(table.lake, f"create table {table.name}"):
        try:
            return DeltaTable.create(
                table.address,
                schema.append(pa.field(PARTITION, pa.string())),
                mode="error",
                partition_by=[PARTITION],
                description=words.description or None,
                configuration=TABLE_OPTIONS | rules.properties(),
                raise_if_key_not_exists=False,  # the rules are this package's, not Delta's
                storage_options=table.lake.options,
            )
        except Exception:
            delta = open_table(table)
            if delta is None:
                raise
            return delta


def _commit(
    table: ReleaseTable,
    delta: "DeltaTable",
    data: tuple[VerifiedRows, Sequence[DataFile]],
    words: Words,
    note: Mapping[str, Any],
) -> int:
    """Replace the release, or in a snapshot all releases, in one commit on the table. Return the version.

    The opened snapshot matters: with an address, the writer would load a newer one, and a commit of the same
    run between `_committed` and here would go unnoticed. On the snapshot it is a conflict.

    Raises:
        CommitFailedError: If a conflicting commit came first.
        IntegrityError: If the file is not the verified one, or changed in transit. Nothing was committed.
    """
    rows, added = data
    held = _held(table.lake, delta)
    refuse_other_types(rows.schema, held)
    run, partition = ReleaseRun(str(note["release"]), str(note["run_key"])), str(note["partition"])
    everything = note["mode"] == PublishMode.SNAPSHOT
    if not everything:
        refuse_other_form(rows.schema, held)
        # Only new columns bring a comment, because the writer cannot merge comments that differ.
        new = {name: said for name, said in words.comments.items() if name not in held.names}
        words = Words(comments=new)
    # Two snapshots must not both find the table empty, and no publication may miss its own retraction.
    locks = [release_lock(run.release_id), *([_SNAPSHOT] if everything else [])]
    partitions = None if everything else sorted(_partitions(table, delta, note))
    commit = CommitProperties(
        custom_metadata={LOG_KEY: dict(note)},
        app_transactions=[
            *(Transaction(app_id=app_id, version=1) for app_id in (_app_id(run), *locks)),
            *chained(note),
        ],
    )
    try:
        with reaching(table.lake, "commit the release"):
            if added:
                _add(delta, added, partition, partitions, commit)
            else:
                write_deltalake(
                    delta,
                    rows.stream(partition, words.of(rows.schema)),
                    mode="overwrite",
                    predicate=None if partitions is None else predicate(partitions),
                    schema_mode="overwrite" if everything else "merge",
                    writer_properties=writer_properties(),
                    commit_properties=commit,
                )
                return delta.version()
    except PublishError:
        if rows.problems:
            raise rows.problems[0] from None
        raise
    mine = _StagedBytes(rows.sha256, None)
    found = _committed(table, existing_table(table), run, mine)
    assert found is not None  # the commit that was just made
    return found.version


def _add(
    table: "DeltaTable",
    files: Sequence[DataFile],
    partition: str,
    replaced: Sequence[str] | None,
    commit: "CommitProperties",
) -> None:
    """Add existing files to a table, in place of those of some partitions, or of all, in one commit."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    table.create_write_transaction(
        [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values={PARTITION: partition},
                modification_time=now,
                data_change=True,
                stats=json.dumps({"numRecords": file.rows}),  # and no statistics of cells
            )
            for file in files
        ],
        mode="overwrite",
        schema=table.schema(),  # unchanged
        partition_by=[PARTITION],
        partition_filters=None if replaced is None else [(PARTITION, "in", list(replaced))],
        commit_properties=commit,
    )


def _held(lake: Lake, table: "DeltaTable") -> "pa.Schema":
    """Return the columns of a table, including its partition column."""
    with reaching(lake, "read the table's schema"):
        return pa.schema(table.schema())


def _partitions(table: ReleaseTable, delta: "DeltaTable", note: Mapping[str, Any]) -> set[str]:
    """Return the partitions that a release has, or will have. Earlier versions named them differently."""
    release_id, partition = note["release"], note["partition"]
    if release_id == partition:
        return {partition}
    mine = (e for e in newest(table, delta.version()) if e.release_id == release_id)
    return {partition, *(entry.partition for entry in mine)}


def writer_properties() -> "WriterProperties":
    """Return the settings of the single writer. A row group is held in memory until it is full."""
    # The Delta library distributes rows over its writers by partition, and pauses a source only while all of
    # them are busy. A release is one partition, so a second writer would be idle, and a stream would fill the
    # memory. The library reads this variable once per process, at its first write.
    os.environ.setdefault("DELTARS_MAX_CONCURRENT_WRITERS", "1")
    return WriterProperties(compression="ZSTD", max_row_group_size=ROWS)


def _figures(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures for the commit, including the fingerprint of the secret of memoised answers."""
    secret = manifest.get("randomization", {}).get("secret")
    figures = {key: manifest[key] for key in _FIGURES if key in manifest}
    return figures | ({"secret": secret} if secret else {})


def _proof(entry: Publication) -> dict[str, Any]:
    """Return the hashes of a publication's files, as the note of its commit states them."""
    return {
        "release": entry.release_id,
        "rows": entry.rows,
        "sha256": entry.sha256,
        "manifest": entry.manifest_sha256,
        "report": entry.report_sha256,
        **({"statement": {"sha256": entry.statement}} if entry.statement else {}),
        "proofs": dict(entry.further),
    }


def _published(
    table: ReleaseTable, version: int, note: Mapping[str, Any], *, already: bool
) -> CommittedRelease:
    folder = f"{table.lake.root}/{table.proofs}"
    return CommittedRelease(
        uri=f"{table.lake.root}/{table.name}",
        name=table.name,
        release_id=note["release"],
        version=version,
        rows=note["rows"],
        sha256=note["sha256"],
        manifest_uri=f"{folder}/{note['manifest']}.json",
        manifest_sha256=note["manifest"],
        report_uri=f"{folder}/{note['report']}.html",
        report_sha256=note["report"],
        already=already,
        statement_sha256=note["statement"]["sha256"] if "statement" in note else None,
        proofs={
            proof: f"{folder}/{digest}.{proof.rpartition('.')[2]}"
            for proof, digest in note.get("proofs", {}).items()
        },
    )


def _store_proof(table: ReleaseTable, data: bytes, kind: str) -> str:
    """Store a proof under the hash of its bytes, so that it never changes. Return its SHA-256."""
    digest = hashlib.sha256(data).hexdigest()
    put(table.lake, table.proof(f"{digest}.{kind}"), data)
    return digest


def _report_bytes(report_html: Path | bytes) -> bytes:
    if isinstance(report_html, bytes):
        return report_html
    try:
        return report_html.read_bytes()
    except OSError as error:
        raise IntegrityError(
            f"the report must be readable, got {type(error).__name__}; run the verification again"
        ) from None
