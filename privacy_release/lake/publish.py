"""Release tables: one Delta table a name, one atomic commit a publish, which replaces what it supersedes.

A release is a partition `release` of its table, in every mode: the column tells a reader which one they have,
a retraction finds its rows without reading any, and files of two releases never share a folder.

What a reader may rely on: it sees the table before a commit or after it, never half of one; a commit's
metadata carries the proof (figures, and the hashes of data, manifest and report, which are stored before the
commit); a retry of a run finds the commit of its first attempt. The hash `sha256` is that of the verified
staged file: the Delta writer puts the same rows into files of its own, without the staged file's metadata.
They are written as a stream, which no process holds. Those of a large release stand in no particular order:
the writer deals batches out to its threads and writes them as they come back.

A release that is staged as a set of files is not written again: its files are copied, each hashed on its
way, and all are added in one commit, whose note names each with its hash; `sha256` is that of the set. Before
that commit no reader knows of them; what a crash leaves of them is removed by `retract.clean_orphans`, as
whatever crashed writers leave. Where the table has not the columns of the release yet, the rows are streamed
after all.

Column statistics are switched off in these tables: the log outlives a retracted release, and minima and
maxima are cell values. The log is never shortened, because it holds the proofs; `commits` says how it is read
without reading all of it.
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

# What of a manifest stands in the commit itself, readable for every Delta client without the proof folder.
_FIGURES = ("method", "parameters", "guarantees", "measured", "loss", "policy", "approval", "membership")
TABLE_OPTIONS = {
    "delta.dataSkippingNumIndexedCols": "0",
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
}
_LONGEST_KEY = 2000
_SNAPSHOT = "snapshot"


@dataclass(frozen=True, kw_only=True)
class Published:
    """Where a published release and its proofs are.

    Attributes:
        uri: address of the release table; the release is one of its partitions `release=...`.
        version: the table version that this publication made.
        sha256: of the staged file that was verified and published.
        already: an earlier attempt of the same run had published it; this call changed no rows.
        completed: that attempt had published other bytes than these and ended before it signed its files;
            this call signed them, and the release is what that attempt published.
        statement_sha256: of what was signed about it; None where nothing was.
        proofs: addresses of further proofs, by name.
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
) -> Published:
    """Publish a verified staged file as a release, in one commit; a retry of the same run changes nothing.

    A later run that publishes the same release replaces its rows; other releases are not touched, but by a
    snapshot, which replaces them all. A column that is new to the table is added to it (other releases show
    null there); a column must keep its type. `privacy_release.lake.superseded.settle` erases, or moves, what
    was replaced.

    Args:
        table: The release table.
        release_id: the run's partition key, else its run id.
        staged: Parquet file, or the list of a set of them, read batch by batch; each is hashed before and
            after, and never changed.
        manifest: plain JSON: what was done and what is guaranteed, no cell values.
        report_html: the report for people, one file, or its bytes.
        expected_sha256: of the file that verification read.
        run_key: names the run across its retries, e.g. DAG id and run id; default: the release id, which
            makes a release final: it can be retracted, but not replaced.
        signer: signs what is published; None: nobody does.
        rules: what the table holds; default: as it is kept, and a new one holds one release a release id and
            drops what is replaced.
        proofs: further files that prove or explain the release, by name and kind: `dictionary.json`.
        words: what the table says of itself from now on; None: nothing changes.

    Raises:
        ValueError: if name, release id or run key is not well-formed, or the manifest has NaN or infinity.
        TypeError: if the manifest is not plain JSON.
        IntegrityError: if the staged file is not the verified one or not whole, the report cannot be
            read, or the table's log is damaged.
        SchemaError: if the lake cannot hold a column, a column changed its type, or intervals would stand in
            two forms side by side.
        PublishError: if the lake cannot be reached, the run published and signed other bytes, or its release
            was retracted, or the table is kept in another mode.
    """
    run_key = release_id if run_key is None else run_key
    if rules is not None and rules.history is not None and rules.history.root == table.lake.root:
        raise ValueError(
            "the history lake must have an address of its own, for everybody who reads the lake would see it"
        )
    check_text("release id", release_id)
    check_text("run key", run_key, _LONGEST_KEY)
    manifest_bytes = json.dumps(manifest, sort_keys=True, indent=2, allow_nan=False).encode()
    staged_bytes = _StagedBytes(expected_sha256, signer)
    delta = open_table(table)
    if delta is not None:
        check_tail(table, delta.version())  # nothing is added to a damaged log
    done = None if delta is None else _committed(table, delta, release_id, run_key, staged_bytes)
    if done is not None:
        return _again(table, done, staged_bytes)
    rules, words = rules or own_rules(table.lake, delta), words or Words()
    rows = verified_rows(staged, expected_sha256)
    note: dict[str, Any] = {
        "action": "publish",
        "release": release_id,
        "run_key": run_key,
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
            told: _store_proof(table, data, told.rpartition(".")[2]) for told, data in proofs.items()
        }
    if signer is not None:
        note["rows_digest"] = signer.rows_digest([*files_of(staged, expected_sha256)], rows.column_names)
    for _ in range(ATTEMPTS):
        delta = _up_to_date(table, delta) or _create(table, words.of(rows.schema), rules, words)
        try:
            describe(
                table.lake, delta, words
            )  # first: it may take up commits that got ahead, of this run, too
        except CommitFailedError:
            delta = None
            continue
        done = _committed(table, delta, release_id, run_key, staged_bytes)
        if done is not None:  # the same run, twice at once: the other one won
            return _again(table, done, staged_bytes)
        try:
            if not require_mode(table.name, delta, rules):
                write_rules(table.lake, delta, rules.properties())
            added: list[DataFile] = []
            if rows.fit(_held(table.lake, delta), whole=rules.mode is PublishMode.SNAPSHOT):
                # Anew in each attempt: a retraction that got ahead erases what is older than itself.
                added = rows.copied(table, str(note["partition"]))
            mark = next_mark(table, delta.version())
            told = note | ({"files": [file.to_dict() for file in added]} if added else {})
            told |= linked(signer, table, delta.version(), told)
            told |= {"index": asdict(mark)} if mark else {}
            version = _commit(table, delta, (rows, added), words, told)
        except CommitFailedError:
            delta = None  # another commit got ahead: look at the table again
            continue
        if signer is not None:
            signer.files(table, str(note["partition"]), version, told["statement"]["sha256"])
        return _published(table, version, told, already=False)
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
        """Whether the attempt that committed a release ended before it signed the release's files.

        Random choices without a seed differ in each attempt, so a retry has other bytes. It signs the
        committed files: without that statement the release would never pass its check.
        """
        signer, statement = self.signer, done.statement
        if signer is None or statement is None or done.state is not State.CURRENT:
            return False
        return signer.lacks_files(table, statement)


def _again(table: ReleaseTable, done: Publication, staged: _StagedBytes) -> Published:
    """What an earlier attempt published; its files are signed now if that attempt did not sign them."""
    if staged.signer is not None and done.statement is not None and done.state is State.CURRENT:
        staged.signer.files(table, done.partition, done.version, done.statement)
    found = _published(table, done.version, _proof(done), already=True)
    return replace(found, completed=done.sha256 != staged.sha256)


def committed(table: ReleaseTable, release_id: str, run_key: str) -> Published | None:
    """What a run published as a release, which its commit says; None if it did not.

    Raises:
        PublishError: if the lake cannot be reached, or what the run published was retracted.
    """
    delta = open_table(table)
    done = None if delta is None else _committed(table, delta, release_id, run_key, None)
    return None if done is None else _published(table, done.version, _proof(done), already=True)


def _committed(
    table: ReleaseTable, delta: "DeltaTable", release_id: str, run_key: str, staged: _StagedBytes | None
) -> Publication | None:
    """The commit by which this run published this release, if there is one in the table's snapshot."""
    with reaching(table.lake, "read the table"):
        if delta.transaction_version(_app_id(release_id, run_key)) is None:
            return None
    mine = newest_such(
        table,
        delta.version(),
        lambda entry: (entry.release_id, entry.run_key) == (release_id, run_key),
    )
    if mine is None:
        raise PublishError(
            "the table knows this run, but its log was shortened by another tool; retract and start a new run"
        )
    if mine.tombstone is not None:
        raise PublishError(
            "what this run published was retracted, and a retry must not bring it back; start a new run"
        )
    if staged is not None and mine.sha256 != staged.sha256 and not staged.completes(table, mine):
        raise PublishError(
            "this run has published other bytes already, and a retry must not replace them; "
            "start a new run to publish these, or retract the release"
        )
    return mine


def _up_to_date(table: ReleaseTable, delta: "DeltaTable | None") -> "DeltaTable | None":
    """A table that was opened before, at its newest version; None if there is none."""
    if delta is None:
        return open_table(table)
    with reaching(table.lake, f"open table {table.name}"):
        delta.update_incremental()
    return delta


def _app_id(release_id: str, run_key: str) -> str:
    """Delta application id of a publication: one run may publish several releases."""
    return json.dumps([release_id, run_key])


def _create(table: ReleaseTable, schema: "pa.Schema", rules: TableRules, words: Words) -> "DeltaTable":
    """Create the table without rows, or open the one that another writer created meanwhile."""
    with reaching(table.lake, f"create table {table.name}"):
        try:
            return DeltaTable.create(
                table.address,
                schema.append(pa.field(PARTITION, pa.string())),
                mode="error",
                partition_by=[PARTITION],
                description=words.description or None,
                configuration=TABLE_OPTIONS | rules.properties(),
                raise_if_key_not_exists=False,  # the rules are ours, not Delta's
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
    """Replace the release, in a snapshot all of them, in one commit on top of the table's; the new version.

    The snapshot matters: given an address, the writer would load a newer one, and a commit of the same run
    between `_committed` and here would go unnoticed. On the snapshot it is a conflict.

    Raises:
        CommitFailedError: if a conflicting commit got ahead.
        IntegrityError: if the file is not the verified one, or changed on the way; nothing was committed.
    """
    rows, added = data
    held = _held(table.lake, delta)
    refuse_other_types(rows.schema, held)
    release_id, partition = str(note["release"]), str(note["partition"])
    everything = note["mode"] == PublishMode.SNAPSHOT
    if not everything:
        refuse_other_form(rows.schema, held)
        # Only columns that are new bring a comment: the writer merges no two that differ.
        new = {name: said for name, said in words.comments.items() if name not in held.names}
        words = Words(comments=new)
    # Two snapshots must not both find the table empty, nor a publication miss the retraction of its release.
    locks = [release_lock(release_id), *([_SNAPSHOT] if everything else [])]
    partitions = None if everything else sorted(_partitions(table, delta, note))
    commit = CommitProperties(
        custom_metadata={LOG_KEY: dict(note)},
        app_transactions=[
            *(
                Transaction(app_id=app_id, version=1)
                for app_id in (_app_id(release_id, str(note["run_key"])), *locks)
            ),
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
    found = _committed(table, existing_table(table), release_id, str(note["run_key"]), mine)
    assert found is not None  # this very commit
    return found.version


def _add(
    table: "DeltaTable",
    files: Sequence[DataFile],
    partition: str,
    replaced: Sequence[str] | None,
    commit: "CommitProperties",
) -> None:
    """Add files that are there to a table, in place of those of some partitions, or of all; one commit."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    table.create_write_transaction(
        [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values={PARTITION: partition},
                modification_time=now,
                data_change=True,
                stats=json.dumps({"numRecords": file.rows}),  # and nothing of any cell
            )
            for file in files
        ],
        mode="overwrite",
        schema=table.schema(),  # it stays as it is
        partition_by=[PARTITION],
        partition_filters=None if replaced is None else [(PARTITION, "in", list(replaced))],
        commit_properties=commit,
    )


def _held(lake: Lake, table: "DeltaTable") -> "pa.Schema":
    """The columns of a table, its partition among them."""
    with reaching(lake, "read the table's schema"):
        return pa.schema(table.schema())


def _partitions(table: ReleaseTable, delta: "DeltaTable", note: Mapping[str, Any]) -> set[str]:
    """The partitions that a release has, or is given: an earlier version named them as the release."""
    release_id, partition = note["release"], note["partition"]
    if release_id == partition:
        return {partition}
    mine = (e for e in newest(table, delta.version()) if e.release_id == release_id)
    return {partition, *(entry.partition for entry in mine)}


def writer_properties() -> "WriterProperties":
    """How the rows are written, by one writer; a row group is held in memory until it is full."""
    # The Delta library spreads rows over its writers by partition and stops a source only while all of them
    # have work. A release is one partition: a second writer never has, and a stream would pile up in memory.
    # The library looks at this once in a process, at its first write.
    os.environ.setdefault("DELTARS_MAX_CONCURRENT_WRITERS", "1")
    return WriterProperties(compression="ZSTD", max_row_group_size=ROWS)


def _figures(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in the commit itself; of memoised answers the fingerprint of their secret, too."""
    secret = manifest.get("randomization", {}).get("secret")
    told = {key: manifest[key] for key in _FIGURES if key in manifest}
    return told | ({"secret": secret} if secret else {})


def _proof(entry: Publication) -> dict[str, Any]:
    """What the note of a publication's commit says of its files."""
    return {
        "release": entry.release_id,
        "rows": entry.rows,
        "sha256": entry.sha256,
        "manifest": entry.manifest_sha256,
        "report": entry.report_sha256,
        **({"statement": {"sha256": entry.statement}} if entry.statement else {}),
        "proofs": dict(entry.further),
    }


def _published(table: ReleaseTable, version: int, note: Mapping[str, Any], *, already: bool) -> Published:
    folder = f"{table.lake.root}/{table.proofs}"
    return Published(
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
            told: f"{folder}/{digest}.{told.rpartition('.')[2]}"
            for told, digest in note.get("proofs", {}).items()
        },
    )


def _store_proof(table: ReleaseTable, data: bytes, kind: str) -> str:
    """Store a proof under the hash of its bytes, so that it never changes; its sha256."""
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
