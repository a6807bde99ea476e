"""Retract a release: remove it from the table, from older versions, and remove its report and manifest.

Rows of it that the history table keeps are removed, too.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError

from privacy_engine.errors import PublishError
from privacy_engine.vocabulary import PARTITION
from privacy_release.lake.commits import LOG_KEY, index_folder, newest_first, next_mark
from privacy_release.lake.layout import recorded, release_lock
from privacy_release.lake.log import (
    ATTEMPTS,
    Publication,
    State,
    check_text,
    data_files,
    existing_table,
    newest,
    predicate,
    publications,
)
from privacy_release.lake.log_faults import log_entry
from privacy_release.lake.signing import Signer, chained, linked
from privacy_release.lake.store import (
    Lake,
    ReleaseTable,
    listing,
    modified,
    put,
    reaching,
    remove,
    takes_table,
)

_LONGEST_REASON = 1500


@dataclass(frozen=True, kw_only=True)
class Retraction:
    """The result of a retraction.

    Attributes:
        version: Table version that no longer has the release.
        tombstone_sha256: SHA-256 of the tombstone manifest that replaces the release's manifest.
        files_removed: Number of files removed now: data, manifest and report.
        already: Whether the release had been retracted before. Files that remained are removed now.
    """

    name: str
    release_id: str
    version: int
    tombstone_sha256: str
    files_removed: int
    already: bool


@takes_table
def retract(
    table: ReleaseTable,
    release_id: str,
    reason: str,
    *,
    history: Lake | None = None,
    signer: Signer | None = None,
) -> Retraction:
    """Delete a release in one commit, then erase its files, so that no table version has its rows any more.

    All publications of the release are deleted, including those that a later run had replaced. Other releases
    stay readable in all versions: only this release's data files are erased, while a vacuum without retention
    would remove every replaced file of the table. What remains are the commit's proof figures, the tombstone
    manifest with the reason, and copies that readers made before. If a crash interrupts it, call it again.

    Args:
        table: The release table.
        release_id: Partition key or run ID of the release.
        reason: Reason for the retraction. It stays in the log forever, so it must not mention a person.
        history: Lake of superseded releases, if the credentials of the table's lake do not reach it.
        signer: Signer of the retraction. None: it is not signed, and checks of the table report that.

    Raises:
        ValueError: If name, release ID or reason is not well-formed.
        PublishError: If there is no such release, or a lake cannot be reached.
    """
    done = _retract(table, release_id, reason, signer)
    kept = recorded(existing_table(table)).history_table(table, history)
    # A process that moves releases there checks afterwards whether one was retracted in the meantime.
    if kept is not None and any(entry.release_id == release_id for entry in publications(kept)):
        also = _retract(kept, release_id, reason)
        done = replace(done, files_removed=done.files_removed + also.files_removed)
    return done


def _retract(table: ReleaseTable, release_id: str, reason: str, signer: Signer | None = None) -> Retraction:
    """Retract a release from one table."""
    check_text("release id", release_id)
    check_text("reason", reason, _LONGEST_REASON)
    for _ in range(ATTEMPTS):
        delta = existing_table(table)
        entries = reversed(list(newest(table, delta.version())))
        mine = [entry for entry in entries if entry.release_id == release_id]
        if not mine:
            raise PublishError(
                f"table {table.name} never had this release; nothing was retracted, check the release id"
            )
        if mine[-1].state is State.RETRACTED:
            return _erase(table, release_id, already=True)
        mark = next_mark(table, delta.version())
        note: dict[str, Any] = {
            "action": "retract",
            "release": release_id,
            "reason": reason,
            "tombstone": _store_tombstone(table, release_id, reason, mine),
            "partitions": sorted({entry.partition for entry in mine}),
        }
        note |= linked(signer, table, delta.version(), note)
        note |= {"index": asdict(mark)} if mark else {}
        commit = CommitProperties(
            custom_metadata={LOG_KEY: note},
            app_transactions=[Transaction(app_id=release_lock(release_id), version=1), *chained(note)],
        )
        try:
            with reaching(table.lake, "retract a release"):
                if mine[-1].state is State.SUPERSEDED:  # the table no longer has it: only the log knows it
                    delta.create_write_transaction(
                        [], "append", delta.schema(), PARTITION, commit_properties=commit
                    )
                    done = True
                else:
                    removed = delta.delete(predicate(note["partitions"]), commit_properties=commit)
                    done = bool(removed["num_removed_files"])
        except CommitFailedError:
            continue  # another commit came first: read the table again
        if done:
            return _erase(table, release_id, already=False)
    raise PublishError(
        f"the release could not be retracted from table {table.name} in {ATTEMPTS} attempts: it changes "
        "under each of them, or another tool removed its rows; stop other writers and retry"
    )


def clean_orphans(table: ReleaseTable, *, older_than: timedelta = timedelta(days=1)) -> int:
    """Remove files of a table that no commit refers to, left by crashed or overtaken publications.

    Args:
        table: The release table.
        older_than: Smallest age of removed files. It must exceed the duration of the longest publication,
            whose files no commit refers to yet.

    Returns:
        Number of removed files.

    Raises:
        PublishError: If there is no such table, or the lake cannot be reached.
    """
    delta = existing_table(table)
    entries = publications(table)
    versions = [commit.version for commit in newest_first(table, delta.version())]
    kept = {table.proof(proof) for proof in _kept_proofs(entries)}
    # The proofs named by a damaged note are unknown, so all proofs are kept.
    folders = [table.name] if any(entry.problem for entry in entries) else [table.proofs, table.name]
    for version in versions:
        kept |= data_files(table, None, version)
    limit = datetime.now(UTC) - older_than
    candidates = [file for folder in folders for file in listing(table.lake, folder)]
    return sum(
        remove(table.lake, file.path)
        for file in candidates
        if file.modified <= limit
        and file.path not in kept
        and not file.path.startswith((f"{table.name}/_delta_log/", f"{index_folder(table.name)}/"))
    )


def _erase(table: ReleaseTable, release_id: str, *, already: bool) -> Retraction:
    """Remove what a retracted release left: data of all versions, crash leftovers, manifests, reports."""
    entries = publications(table)
    gone = [entry for entry in entries if entry.release_id == release_id and entry.tombstone is not None]
    stone = gone[-1].tombstone
    assert stone is not None
    files: set[str] = set()
    for entry in gone:
        files |= data_files(table, [entry.partition], entry.version)
    # Files that a crashed publication left in the release's folder are in no version. Publications that began
    # before the retraction cannot commit any more (conflict). Younger files may belong to a run that
    # publishes the release again. Only the store's own clock distinguishes them, and on S3 it counts whole
    # seconds.
    retracted = modified(table.lake, log_entry(table.name, stone.version))
    for folder in {path.rsplit("/", 1)[0] for path in files}:
        files |= {
            file.path for file in listing(table.lake, folder) if retracted and file.modified < retracted
        }
    files -= data_files(table, {entry.partition for entry in gone})
    kept = _kept_proofs(entries)
    files |= {table.proof(proof) for entry in gone for proof in entry.proofs - kept}
    return Retraction(
        name=table.name,
        release_id=release_id,
        version=stone.version,
        tombstone_sha256=stone.sha256,
        files_removed=sum(remove(table.lake, path) for path in sorted(files)),
        already=already,
    )


def _kept_proofs(entries: Iterable[Publication]) -> set[str]:
    """Return the file names of proofs to keep: of releases not retracted, tombstones, and statements."""
    kept: set[str] = set()
    for entry in entries:
        kept |= entry.proofs if entry.tombstone is None else {f"{entry.tombstone.sha256}.json"}
        kept |= entry.statements
    return kept


def _store_tombstone(table: ReleaseTable, release_id: str, reason: str, mine: Iterable[Publication]) -> str:
    """Store the manifest that replaces the retracted ones, and return its SHA-256."""
    publications_gone = [
        {
            "version": entry.version,
            "committed": entry.committed,
            "rows": entry.rows,
            "sha256": entry.sha256,
            "manifest_sha256": entry.manifest_sha256,
            "report_sha256": entry.report_sha256,
            "figures": dict(entry.figures),
        }
        for entry in mine
        if entry.tombstone is None
    ]
    stone = {
        "retracted": True,
        "table": table.name,
        "release": release_id,
        "reason": reason,
        "publications": publications_gone,
    }
    data = json.dumps(stone, sort_keys=True, indent=2).encode()
    digest = hashlib.sha256(data).hexdigest()
    put(table.lake, table.proof(f"{digest}.json"), data)
    return digest
