"""Read from a table's commit log which releases were published, replaced and retracted."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from privacy_engine.errors import IntegrityError, PublishError
from privacy_engine.vocabulary import PARTITION
from privacy_release.lake.commits import Commit, newest_first, newest_version, read_commit, whole_log
from privacy_release.lake.log_faults import log_entry, refuse_damaged_log, refuse_lost_log, touched
from privacy_release.lake.notes import Mode, PublishNote, RetractNote, read_note
from privacy_release.lake.store import ReleaseTable, reaching

# Each failed attempt means that another writer succeeded, so the writers as a whole always make progress.
ATTEMPTS = 20
_LONGEST_ID = 240  # a folder `release=<id>` is a file name of at most 255 bytes


class State(StrEnum):
    """The current state of a publication."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    RETRACTED = "retracted"
    DAMAGED = "damaged"


class ReleaseRun(NamedTuple):
    """A run that publishes a release. All attempts of the run have the same ID and key.

    Attributes:
        release_id: Partition key of the run if it has one, otherwise its run ID.
        run_key: Name of the run, for example DAG ID and run ID.
    """

    release_id: str
    run_key: str


@dataclass(frozen=True, kw_only=True)
class Tombstone:
    """A retraction: its commit, its time (UTC, ISO 8601), its reason, and the tombstone manifest's hash.

    `statement` is the hash of the signed statement about it, if there is one.
    """

    version: int
    committed: str
    reason: str
    sha256: str
    statement: str | None = None


@dataclass(frozen=True, kw_only=True)
class Publication:
    """One publish commit of a release. A release that a later run replaced has several.

    Attributes:
        committed: Time of the commit, UTC, ISO 8601.
        commit_sha256: SHA-256 of the commit's file in the log.
        columns: Columns of this release, without those that only other releases have.
        sha256: SHA-256 of the verified staged file.
        partition: Value of the partition column in its rows, which names its folder.
        superseded_by: Version of the commit that replaced it, if there is one.
        figures: Summary of the manifest: method, guarantees, measured figures, privacy loss, approval.
        statement: Hash of the signed statement about it. None if it is not signed.
        problem: Problem with the note in the commit, of which only release and version are known then. None
            if there is no problem.
        further: SHA-256 of further proofs, by name and kind, such as `dictionary.json`.
    """

    release_id: str
    run_key: str
    version: int
    committed: str
    commit_sha256: str
    state: State
    rows: int
    columns: tuple[str, ...]
    sha256: str
    manifest_sha256: str
    report_sha256: str
    figures: Mapping[str, Any]
    partition: str
    superseded_by: int | None = None
    tombstone: Tombstone | None = None
    statement: str | None = None
    problem: str | None = None
    further: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> ReleaseRun:
        """The run that published it."""
        return ReleaseRun(self.release_id, self.run_key)

    @property
    def proofs(self) -> frozenset[str]:
        """File names of its manifest, report and further proofs in the proof folder."""
        if self.problem is not None:
            return frozenset()
        further = {f"{digest}.{name.rpartition('.')[2]}" for name, digest in self.further.items()}
        return frozenset({f"{self.manifest_sha256}.json", f"{self.report_sha256}.html"} | further)

    @property
    def statements(self) -> frozenset[str]:
        """File names of the signed statements about it and its retraction, which are never removed."""
        signed = (self.statement, self.tombstone and self.tombstone.statement)
        return frozenset(file for sha256 in signed if sha256 for file in statement_files(sha256))

    def require_readable(self, name: str) -> None:
        """Raise if the publication's note is damaged, so that nothing is proven about its rows.

        Raises:
            IntegrityError: Naming table, release, version and problem.
        """
        if self.problem is not None:
            raise IntegrityError(
                f"the note of release {self.release_id} in version {self.version} of table {name} must be as "
                f"it was written, but is damaged ({self.problem}): restore {log_entry(name, self.version)} "
                "from a backup, or retract the release and publish it again"
            )


def publications(table: ReleaseTable) -> list[Publication]:
    """Return all publications in a table, oldest first. Empty if there is no such table.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    version = current_version(table)
    return [] if version is None else list(newest(table, version))[::-1]


def newest(table: ReleaseTable, version: int) -> Iterator[Publication]:
    """Yield the publications up to a version of a table, newest first.

    Only as much of the history as you consume is read.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    return _publications(table, newest_first(table, version))


def newest_such(
    table: ReleaseTable, version: int, wanted: Callable[[Publication], bool]
) -> Publication | None:
    """Return the newest publication that meets a condition, as its own commit states it. None if none does.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    found = next(filter(wanted, newest(table, version)), None)
    if found is None:
        return None
    commit = read_commit(table, found.version)
    if commit is None or commit.sha256 == found.commit_sha256:
        return found
    # The log was changed after it was indexed: its current content counts.
    return next(filter(wanted, _publications(table, whole_log(table, version))), None)


def current_version(table: ReleaseTable) -> int | None:
    """Return the newest version of a release table, or None if there is no table.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    with suppress(PublishError):  # if something is wrong, opening the table reports more about it
        found = newest_version(table)
        if found is not None:
            return found
    delta = open_table(table)
    return None if delta is None else int(delta.version())


def existing_version(table: ReleaseTable) -> int:
    """Like `current_version`, but raise PublishError if there is no table."""
    version = current_version(table)
    if version is None:
        raise _missing(table)
    return version


def _publications(table: ReleaseTable, commits: Iterable[Commit]) -> Iterator[Publication]:
    """Yield the publications among commits, newest first. The state of one follows from later commits."""
    # By release ID, and by partition, the only fact about a publication whose note is damaged.
    stones: dict[tuple[str, str], Tombstone] = {}
    replaced: dict[tuple[str, str], int] = {}  # -> version of the next publication
    snapshot: int | None = None  # version of the next publication that replaced everything
    for commit in commits:
        if not commit.noted:  # a commit of another tool: maintenance, or the table's creation
            continue
        note = read_note(commit.note)
        if isinstance(note, RetractNote):
            stone = Tombstone(
                version=commit.version,
                committed=_moment(commit),
                reason=note.reason,
                sha256=note.tombstone,
                statement=None if note.statement is None else note.statement.sha256,
            )
            names = [("release", note.release), *(("partition", name) for name in note.partitions)]
            stones |= dict.fromkeys(names, stone)
            continue
        if isinstance(note, PublishNote):
            made, mode = _publication(commit, note), note.mode
        else:
            made, mode = _damaged(commit, note, *touched(table, commit.version))
        names = [("release", made.release_id), ("partition", made.partition)]
        by = min((v for v in (snapshot, *map(replaced.get, names)) if v is not None), default=None)
        if by is not None:
            made = replace(made, state=State.SUPERSEDED, superseded_by=by)
        if found := next(filter(None, map(stones.get, names)), None):
            made = replace(made, state=State.RETRACTED, tombstone=found)
        if mode == "snapshot":
            snapshot = commit.version
        if mode != "history":  # in a history table, every publication stays
            replaced |= dict.fromkeys(names, commit.version)
        yield made


def _publication(commit: Commit, note: PublishNote) -> Publication:
    return Publication(
        release_id=note.release,
        run_key=note.run_key,
        version=commit.version,
        committed=_moment(commit),
        commit_sha256=commit.sha256,
        state=State.CURRENT,
        rows=note.rows,
        columns=tuple(note.columns),
        sha256=note.sha256,
        manifest_sha256=note.manifest,
        report_sha256=note.report,
        figures=commit.note["figures"],
        statement=None if note.statement is None else note.statement.sha256,
        partition=note.partition or note.release,
        further=note.proofs,
    )


def _damaged(
    commit: Commit, problem: str, release_id: str | None, replaced_others: bool
) -> tuple[Publication, Mode]:
    """Return what is known about a commit with a damaged note: the release whose data it changed, and how."""
    made = Publication(
        release_id=release_id or "unknown",
        run_key="",
        version=commit.version,
        committed=_moment(commit),
        commit_sha256=commit.sha256,
        state=State.DAMAGED,
        rows=0,
        columns=(),
        sha256="",
        manifest_sha256="",
        report_sha256="",
        figures={},
        partition=release_id or "unknown",
        problem=problem,
    )
    return made, "snapshot" if replaced_others else "partitions"


def _moment(commit: Commit) -> str:
    return datetime.fromtimestamp(commit.timestamp / 1000, UTC).isoformat(timespec="milliseconds")


def open_table(table: ReleaseTable, version: int | None = None) -> "DeltaTable | None":
    """Open the release table at a version (default: the newest). None if there is none.

    Raises:
        PublishError: If the lake cannot be reached or has no such version.
        IntegrityError: If its log is damaged, or missing although there are data.
    """
    with reaching(table.lake, f"open table {table.name}"):
        try:
            return DeltaTable(
                table.lake.table(table.name), version=version, storage_options=table.lake.options
            )
        except TableNotFoundError:
            refuse_lost_log(table)
            return None
        except DeltaError:
            refuse_damaged_log(table)
            raise


def existing_table(table: ReleaseTable, version: int | None = None) -> "DeltaTable":
    """Like `open_table`, but raise PublishError if there is no table."""
    delta = open_table(table, version)
    if delta is None:
        raise _missing(table)
    return delta


def _missing(table: ReleaseTable) -> PublishError:
    return PublishError(
        f"table {table.name} must exist in the lake at {table.lake.root}; publish a first release, "
        "or check name and address"
    )


def data_files(table: ReleaseTable, partitions: Iterable[str] | None, version: int | None = None) -> set[str]:
    """Return paths, below the lake's root, of the data files of some or all partitions at a version."""
    return data_files_in(existing_table(table, version), table, partitions)


def data_files_in(delta: "DeltaTable", table: ReleaseTable, partitions: Iterable[str] | None) -> set[str]:
    """Like `data_files`, at the version at which the table is open: opening reads the log."""
    with reaching(table.lake, "list the files of a release"):
        wanted = None if partitions is None else [(PARTITION, "in", list(partitions))]
        uris = delta.file_uris(file_pruning_predicate=wanted)
    # The library spells the table's address differently (az:// for abfss://), so only the tail is used.
    # '/' and '=' inside a partition value are percent-encoded there.
    return {f"{table.name}/{PARTITION}={uri.rsplit(f'/{PARTITION}=', 1)[1]}" for uri in uris}


def predicate(partitions: Iterable[str]) -> str:
    """Return an SQL predicate that selects partitions. Quotes are doubled; there are no other escapes."""
    quoted = ("'" + value.replace("'", "''") + "'" for value in sorted(set(partitions)))
    return " OR ".join(f"{PARTITION} = {value}" for value in quoted)


def statement_files(sha256: str) -> tuple[str, str]:
    """Return the file names, in the proof folder, of a signed statement and of the one about data files."""
    return f"{sha256}.dsse.json", f"{sha256}.files.dsse.json"


def check_text(what: str, text: str, longest: int = _LONGEST_ID) -> None:
    """Raise if a text that becomes part of the log or of a path is blank, padded, unprintable or too long.

    Args:
        what: Name of the text, for the message.
        text: Release ID, run key or reason.
        longest: Largest number of bytes when percent-encoded.

    Raises:
        ValueError: See above.
    """
    if not text.isprintable() or not text.strip() or text != text.strip() or text.startswith("__HIVE_"):
        raise ValueError(
            f"the {what} must be printable text without blanks around it and without a Hive marker, "
            f"got {len(text)} characters; use the partition key or the run id"
        )
    if len(quote(text, safe="")) > longest:
        raise ValueError(
            f"the {what} must have at most {longest} bytes when percent-encoded, "
            f"got {len(quote(text, safe=''))}; shorten it"
        )
