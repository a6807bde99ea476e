"""The commits of a release table, newest first, and the index that avoids reading old ones individually.

Delta's checkpoints keep the content of a table, but not the notes in its commits, which prove the releases.
So an index next to the log repeats them: block `i` contains the `BLOCK` commits from version `i * BLOCK` on.
Its content depends only on the log. All writers of a block write the same bytes, so neither a race nor a
crash can spoil it. A missing or damaged block is rebuilt by the next reader of the table.

The index is never trusted by itself: the note of each commit names the newest block and its hash (an
`IndexMark`), and each block contains the hash of the one before. A block that differs is rebuilt from the
log. If even the rebuilt block does not have the named hash, the log was changed, and its current content is
returned.
"""

import gzip
import hashlib
import json
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from privacy_engine.errors import PublishError
from privacy_release.lake.log_faults import log_entry, refuse_damaged_log
from privacy_release.lake.store import ReleaseTable, modified, put, read_all

LOG_KEY = "privacy_release"
BLOCK = 100  # commits in a block; fewer than two blocks of the newest commits are read from the log
_AT_ONCE = 20  # number of these commits that are read together, after the newest one


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit as read from its file in the log.

    Attributes:
        timestamp: Milliseconds since 1970, UTC. 0 if another tool wrote no timestamp.
        sha256: SHA-256 of the file.
        noted: Whether this package wrote a note into the commit. Commits of other tools have none.
        note: Current content of the note, which may be damaged.
    """

    version: int
    timestamp: int
    sha256: str
    noted: bool
    note: Any


@dataclass(frozen=True, kw_only=True)
class IndexMark:
    """The number of blocks when a commit was made, and the hash of the last one."""

    blocks: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Commits by version, and the hash of the block before (empty for the first)."""

    commits: tuple[Commit, ...]
    before: str

    def to_bytes(self) -> bytes:
        """Serialize as one line for the hash and one per commit: the same bytes for the same log."""
        lines = [{"before": self.before}, *map(vars, self.commits)]
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()

    @property
    def sha256(self) -> str:
        return _sha256(self.to_bytes())


def index_folder(name: str) -> str:
    """Return the folder of a table's index, below the lake's root. Delta's own tools ignore such a folder."""
    return f"{name}/_releases"


def read_commit(table: ReleaseTable, version: int) -> Commit | None:
    """Read a commit from the log. None if the log no longer has it.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    return next(iter(_from_log(table, version, version + 1)), None)


def newest_version(table: ReleaseTable) -> int | None:
    """Return a table's newest version without opening it. None if its log has an unexpected beginning.

    Versions follow each other without a gap, so a few requests find the last one after a checkpoint.

    Raises:
        PublishError: If the lake cannot be reached.
        IntegrityError: If there is a gap at the end.
    """
    (hint,) = read_all(table.lake, [f"{table.name}/_delta_log/_last_checkpoint"])
    known = int(json.loads(hint)["version"]) if hint else 0
    if not _is_there(table, known):
        return None
    step = 1
    while _is_there(table, known + step):
        known, step = known + step, step * 2
    while step > 1:
        step //= 2
        known += step if _is_there(table, known + step) else 0
    if _is_there(table, known + 2):  # the version in between is missing
        refuse_damaged_log(table)
    return known


def _is_there(table: ReleaseTable, version: int) -> bool:
    return modified(table.lake, log_entry(table.name, version)) is not None


def newest_first(table: ReleaseTable, version: int) -> Iterator[Commit]:
    """Yield the commits of a table down from a version. Only as many as you consume are read.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    below, mark = version + 1, None
    while below > (covered := mark.blocks * BLOCK if mark else 0):
        first = max(below - _AT_ONCE if below <= version else version, covered)
        for commit in reversed(_from_log(table, first, below)):
            mark = mark or _mark(commit)
            yield commit
        below = first
    if mark:
        yield from (commit for commit in _indexed(table, mark) if commit.version < below)


def whole_log(table: ReleaseTable, version: int) -> Iterator[Commit]:
    """Like `newest_first`, but read everything from the log."""
    yield from reversed(_from_log(table, 0, version + 1))


def check_tail(table: ReleaseTable, version: int) -> None:
    """Raise if one of the newest commits of a table is missing or cannot be read.

    Raises:
        PublishError: If the lake cannot be reached.
        IntegrityError: See above.
    """
    deque(islice(newest_first(table, version), 1 + _AT_ONCE), 0)


def next_mark(table: ReleaseTable, version: int) -> IndexMark | None:
    """Write all blocks that are due after a version, and return the mark for the next commit's note.

    Returns:
        None if there is no block yet.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    blocks = (version + 1) // BLOCK
    if not blocks:
        return None
    known = (_mark(commit) for commit in newest_first(table, version))
    mark = next((mark for mark in known if mark), None)
    return mark if mark and mark.blocks == blocks else _extend(table, mark, blocks)


def _mark(commit: Commit) -> IndexMark | None:
    """Read the mark in a commit's note. None if another tool wrote the commit, or there was no block yet."""
    stored = commit.note.get("index") if isinstance(commit.note, Mapping) else None
    mark = None
    with suppress(TypeError):  # a damaged note has no mark
        mark = IndexMark(**stored) if stored else None
    return mark if mark and mark.blocks * BLOCK <= commit.version else None


def _indexed(table: ReleaseTable, mark: IndexMark) -> Iterator[Commit]:
    """Yield the commits in the blocks up to a mark, newest first."""
    sha256 = mark.sha256
    for number in reversed(range(mark.blocks)):
        block = _read(table, number, sha256) or _renewed(table, number, sha256)
        if block is None:
            yield from reversed(_from_log(table, 0, (number + 1) * BLOCK))
            return
        yield from reversed(block.commits)
        sha256 = block.before


def _read(table: ReleaseTable, number: int, sha256: str) -> _Block | None:
    """Read a stored block, if it has this hash."""
    data = _stored(table, number)
    if _sha256(data) != sha256:
        return None
    head, *lines = map(json.loads, data.splitlines())
    return _Block(commits=tuple(Commit(**line) for line in lines), before=head["before"])


def _renewed(table: ReleaseTable, number: int, sha256: str) -> _Block | None:
    """Rebuild a block from the log, and store it if permitted. None if the log leads to another hash."""
    for first in (number, 0):  # the earlier blocks are usually intact
        before = _sha256(_stored(table, first - 1)) if first else ""
        blocks: dict[int, _Block] = {}
        for each in range(first, number + 1):
            blocks[each] = _made(table, each, before)
            before = blocks[each].sha256
        if before == sha256:
            with suppress(PublishError):  # a reader without write permission does not store it
                _store(table, blocks)
            return blocks[number]
    return None


def _extend(table: ReleaseTable, mark: IndexMark | None, blocks: int) -> IndexMark:
    """Store the blocks that are due after a mark, and return the mark of the last one."""
    mark = mark if mark and mark.blocks < blocks else IndexMark(blocks=0, sha256="")
    for number in range(mark.blocks, blocks):
        block = _made(table, number, mark.sha256)
        _store(table, {number: block})
        mark = IndexMark(blocks=number + 1, sha256=block.sha256)
    return mark


def _made(table: ReleaseTable, number: int, before: str) -> _Block:
    commits = _from_log(table, number * BLOCK, (number + 1) * BLOCK)
    return _Block(commits=tuple(commits), before=before)


def _store(table: ReleaseTable, blocks: Mapping[int, _Block]) -> None:
    for number, block in blocks.items():
        put(table.lake, _path(table.name, number), gzip.compress(block.to_bytes(), mtime=0))


def _stored(table: ReleaseTable, number: int) -> bytes:
    """Return the bytes stored as a block. Empty if there are none, or they cannot be decompressed."""
    (packed,) = read_all(table.lake, [_path(table.name, number)])
    try:
        return gzip.decompress(packed or b"")
    except (OSError, EOFError, zlib.error):
        return b""


def _path(name: str, number: int) -> str:
    return f"{index_folder(name)}/{number:020d}.jsonl.gz"


def _from_log(table: ReleaseTable, first: int, below: int) -> list[Commit]:
    """Read the commits of these versions, oldest first, without the first ones that the log no longer has."""
    files = read_all(table.lake, [log_entry(table.name, version) for version in range(first, below)])
    found = [None if data is None else _commit(version, data) for version, data in enumerate(files, first)]
    if None in found:  # old commits may have been removed behind a checkpoint, which is no damage
        refuse_damaged_log(table)
    return [commit for commit in found if commit is not None]


def _commit(version: int, data: bytes) -> Commit | None:
    """Parse a commit file. None if it cannot be read, or does not state its operation."""
    try:
        lines = [json.loads(line) for line in data.splitlines() if b'"commitInfo"' in line]
        info: Mapping[str, Any] = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        timestamp = int(info.get("timestamp", 0))
    except (ValueError, TypeError, AttributeError, StopIteration):
        return None
    return Commit(
        version=version,
        timestamp=timestamp,
        sha256=_sha256(data),
        noted=LOG_KEY in info,
        note=info.get(LOG_KEY),
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
