"""Erase the rows of superseded releases, or move them to a history table.

This happens after the commit that superseded them, at the next publication of the table or an explicit
clean-up. Every step can be repeated: a crash between two steps neither loses nor duplicates anything. The
proof of a superseded release stays in the log.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from privacy_engine.errors import IntegrityError, PublishError
from privacy_engine.vocabulary import PARTITION, Superseded
from privacy_release.lake.commits import LOG_KEY, next_mark, read_commit
from privacy_release.lake.layout import HISTORY_OF, recorded, require_history
from privacy_release.lake.log import (
    ATTEMPTS,
    Publication,
    State,
    data_files,
    existing_table,
    newest,
    open_table,
    publications,
)
from privacy_release.lake.log_faults import log_entry
from privacy_release.lake.publish import TABLE_OPTIONS, writer_properties
from privacy_release.lake.retract import retract
from privacy_release.lake.rows import refuse_other_types
from privacy_release.lake.store import (
    Lake,
    ReleaseTable,
    StoredFile,
    data_listing,
    dataset_of,
    get,
    put,
    reaching,
    read_all,
    remove,
)

_AT_ONCE = 20  # number of commits that are read together
_CLOCKS = timedelta(days=1)  # largest difference between the clocks of writers and of the store


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The result of a clean-up.

    Attributes:
        moved: Number of releases that were moved to the history.
        erased: Number of erased data files of superseded releases.
        waiting: Number of data files whose grace is not over, or that no commit removed (`clean_orphans`
            removes those).
    """

    moved: int = 0
    erased: int = 0
    waiting: int = 0

    def __add__(self, other: "Settled") -> "Settled":
        return Settled(
            moved=self.moved + other.moved,
            erased=self.erased + other.erased,
            waiting=self.waiting + other.waiting,
        )


def settle(
    table: ReleaseTable,
    *,
    history: Lake | None = None,
    grace: timedelta | None = None,
    now: datetime | None = None,
) -> Settled:
    """Move superseded releases to the history, if there is one, and erase their files after the grace.

    Tables of earlier versions, which have no rules, are not changed.

    Args:
        table: The release table.
        history: Lake of its history, if the credentials of the table's lake do not reach it.
        grace: Time before files are erased. Default: the table's grace.
        now: Current time. Default: the clock's.

    Raises:
        PublishError: If there is no such table, or a lake cannot be reached.
        IntegrityError: If a release to be moved does not have the rows that were published.
    """
    delta = existing_table(table)
    rules = recorded(delta)
    kept = rules.history_table(table, history)
    if rules.mode is None:
        return Settled()
    moved = 0
    files = _replaced_files(table)
    held_back: set[str] = set()  # folders
    if kept is not None:
        _retract_moved(table, kept)
    if kept is not None and rules.superseded is Superseded.HISTORY:
        for entry in _to_move(table, kept, delta, {file.path for file in files}):
            if entry.problem is None:
                moved += _move(table, entry, kept)
            else:  # nothing is proven about its rows: they wait until its note is restored or it is retracted
                held_back.add(_folder(f"{table.name}/{PARTITION}={entry.partition}/"))
    if kept is not None:
        _retract_moved(table, kept)
    limit = (now or datetime.now(UTC)) - (rules.grace if grace is None else grace)
    removed = _removed(table, delta.version(), files)
    due = [
        file
        for file in files
        if _name(file.path) in removed
        and removed[_name(file.path)] <= limit
        and _folder(file.path) not in held_back
    ]
    erased = sum(remove(table.lake, file.path) for file in due)
    return Settled(moved=moved, erased=erased, waiting=len(files) - len(due))


def _replaced_files(table: ReleaseTable) -> list[StoredFile]:
    """Return the existing data files that the newest version of the table does not contain."""
    there = data_listing(table)  # before reading the version, so that later commits are not affected
    held = {_name(path) for path in data_files(table, None)}
    return [file for file in there if _name(file.path) not in held]


def _removed(table: ReleaseTable, version: int, files: list[StoredFile]) -> dict[str, datetime]:
    """Return the time when each file was removed from the table. Files of crashed writers are missing."""
    looked = {_name(file.path): file.modified for file in files}
    found: dict[str, datetime] = {}
    below = version + 1
    while below > 0 and looked:
        first = max(0, below - _AT_ONCE)
        commits = read_all(table.lake, [log_entry(table.name, at) for at in range(first, below)])
        for data in reversed(commits):
            if data is None:
                return found  # the older log is behind a checkpoint
            actions = [json.loads(line) for line in data.splitlines()]
            at = _moment(actions)
            for action in actions:
                if "remove" in action and (file := _name(action["remove"]["path"])) in looked:
                    found.setdefault(file, at)
                    looked.pop(file)
            if looked and at + _CLOCKS < min(looked.values()):
                return found
        below = first
    return found


def _moment(actions: list[Any]) -> datetime:
    timestamp = next((a["commitInfo"].get("timestamp", 0) for a in actions if "commitInfo" in a), 0)
    return datetime.fromtimestamp(int(timestamp) / 1000, UTC)


def _name(path: str) -> str:
    """Return the name of a data file, which is unique and not encoded."""
    return PurePosixPath(path).name


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _to_move(
    table: ReleaseTable, history: ReleaseTable, delta: "DeltaTable", there: set[str]
) -> Iterator[Publication]:
    """Return the superseded publications that have files and are not in the history, oldest first."""
    apart = open_table(history)
    found: list[Publication] = []
    for entry in newest(table, delta.version()) if there else ():
        if entry.state is not State.SUPERSEDED:
            continue
        # They are moved oldest first, so all publications before a moved one were moved, too.
        if apart is not None and apart.transaction_version(_app_id(table.name, entry)) is not None:
            break
        if entry.problem is not None or _files(table, entry) & there:
            found.append(entry)
    yield from reversed(found)


def _files(table: ReleaseTable, entry: Publication) -> set[str]:
    """Return its files just before it was superseded. Another tool may have rewritten them until then."""
    return data_files(table, [entry.partition], _last(entry))


def _last(entry: Publication) -> int:
    assert entry.superseded_by is not None
    return entry.superseded_by - 1


def _app_id(name: str, entry: Publication) -> str:
    return json.dumps([name, entry.release_id, entry.version])


def _move(table: ReleaseTable, entry: Publication, history: ReleaseTable) -> bool:
    """Write a superseded release with its proofs into the history. Return False if it is already there."""
    for proof in sorted(entry.proofs):
        put(history.lake, history.proof(proof), get(table.lake, table.proof(proof)))
    commit = read_commit(table, entry.version)
    if commit is None:
        raise PublishError(f"version {entry.version} of table {table.name} must be in its log; restore it")
    partition = f"{entry.partition}-v{entry.version}"
    # its rows are in other files there
    note = {key: value for key, value in commit.note.items() if key not in ("index", "files")} | {
        "partition": partition,
        "mode": "history",
        "moved": {"table": table.name, "version": entry.version, "committed": entry.committed},
    }
    for _ in range(ATTEMPTS):
        rows = _rows(table, entry, partition)
        apart = open_table(history) or _create(history, rows.schema, table.name)
        require_history(apart, history.name, table.name)
        if apart.transaction_version(_app_id(table.name, entry)) is not None:
            return False
        refuse_other_types(rows.schema, _schema(apart))
        mark = next_mark(history, apart.version())
        try:
            with reaching(history.lake, "keep a superseded release"):
                write_deltalake(
                    apart,
                    rows,
                    mode="append",
                    schema_mode="merge",
                    writer_properties=writer_properties(),
                    commit_properties=CommitProperties(
                        custom_metadata={LOG_KEY: note | ({"index": asdict(mark)} if mark else {})},
                        app_transactions=[Transaction(app_id=_app_id(table.name, entry), version=1)],
                    ),
                )
            return True
        except CommitFailedError:
            continue
    raise PublishError(f"table {history.name} changed under each of {ATTEMPTS} attempts; try again later")


def _rows(table: ReleaseTable, entry: Publication, partition: str) -> "pa.RecordBatchReader":
    """Return the rows of a superseded release in the form of the history.

    Raises:
        IntegrityError: If their number is not the published one.
    """
    delta = existing_table(table, _last(entry))
    with reaching(table.lake, "read a superseded release"):
        files = dataset_of(table, delta, (PARTITION, "=", entry.partition))
        mine = ds.field(PARTITION) == entry.partition
        count = files.count_rows(filter=mine)
        if count != entry.rows:
            raise IntegrityError(
                f"version {_last(entry)} of table {table.name} must hold {entry.rows} rows of the release "
                f"that version {entry.superseded_by} replaced, got {count}: another tool changed it; restore "
                "its files, or retract that release"
            )
        scanned = files.scanner(columns=list(entry.columns), filter=mine).to_reader()
    schema = scanned.schema.append(pa.field(PARTITION, pa.string()))
    return pa.RecordBatchReader.from_batches(
        schema, (batch.append_column(PARTITION, pa.repeat(partition, len(batch))) for batch in scanned)
    )


def _schema(table: "DeltaTable") -> "pa.Schema":
    return pa.schema(table.schema())


def _create(history: ReleaseTable, schema: "pa.Schema", of: str) -> "DeltaTable":
    """Create the history without rows, or open the one that another writer has created."""
    with reaching(history.lake, f"create table {history.name}"):
        try:
            return DeltaTable.create(
                history.address,
                schema,
                partition_by=[PARTITION],
                configuration=TABLE_OPTIONS | {HISTORY_OF: of},
                raise_if_key_not_exists=False,
                storage_options=history.lake.options,
            )
        except Exception:
            table = open_table(history)
            if table is None:
                raise
            return table


def _retract_moved(table: ReleaseTable, history: ReleaseTable) -> None:
    """Retract releases from the history that were retracted while they were moved."""
    moved = publications(history)
    held = {entry.run for entry in moved if entry.tombstone is None}
    for entry in publications(table) if held else ():
        if entry.run in held and entry.tombstone is not None:
            retract(history, entry.release_id, entry.tombstone.reason)
