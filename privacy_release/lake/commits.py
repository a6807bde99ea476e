"""The commits of a release table, newest first, and the index that spares reading old ones one by one.

Delta's checkpoints keep what a table holds, but not the notes in its commits, which prove the releases. So an
index beside the log repeats them: block `i` tells of the `BLOCK` commits from version `i * BLOCK` on. What it
tells follows from the log alone. Whoever writes a block writes the same bytes, so that neither a race nor a
crash can spoil one, and a block that is missing or damaged is made anew by whoever reads the table next.

The index is never believed by itself: the note of each commit names the newest block and its hash (a `Mark`),
and each block the hash of the one before. A block that differs is made anew from the log; where even then it
is not the one that was named, the log was changed, and what the log says now is told.
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
BLOCK = 100  # commits; the newest ones, fewer than two blocks of them, are read from the log
_AT_ONCE = 20  # of these, after the very newest one


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit as its file in the log tells it.

    Attributes:
        timestamp: milliseconds since 1970, UTC; 0 where another tool told none.
        sha256: of the file.
        noted: whether this package wrote a note into it; a commit of another tool has none.
        note: as it stands there now: it may be damaged.
    """

    version: int
    timestamp: int
    sha256: str
    noted: bool
    note: Any


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How many blocks there were when a commit was made, and the hash of the last one."""

    blocks: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Commits by version, and the hash of the block before (empty for the first)."""

    commits: tuple[Commit, ...]
    before: str

    def to_bytes(self) -> bytes:
        """A line for the hash and one for each commit: the same bytes for the same log."""
        lines = [{"before": self.before}, *map(vars, self.commits)]
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()

    @property
    def sha256(self) -> str:
        return _sha256(self.to_bytes())


def index_folder(name: str) -> str:
    """Where the index of a table is, below the lake's root; Delta's own tools pass over such a folder."""
    return f"{name}/_releases"


def read_commit(table: ReleaseTable, version: int) -> Commit | None:
    """A commit as the log has it now; None where the log has it no more.

    Raises:
        PublishError: if the lake cannot be reached.
    """
    return next(iter(_from_log(table, version, version + 1)), None)


def newest_version(table: ReleaseTable) -> int | None:
    """The newest version of a table, without opening it; None if its log does not begin as this looks for it.

    Versions follow each other without a gap, so that a few looks find the last one after a checkpoint.

    Raises:
        PublishError: if the lake cannot be reached.
        IntegrityError: if there is a gap where it ends.
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
    if _is_there(table, known + 2):  # the one between is missing
        refuse_damaged_log(table)
    return known


def _is_there(table: ReleaseTable, version: int) -> bool:
    return modified(table.lake, log_entry(table.name, version)) is not None


def newest_first(table: ReleaseTable, version: int) -> Iterator[Commit]:
    """The commits of a table down from a version. Only as much is read as is asked for.

    Raises:
        PublishError: if the lake cannot be reached.
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
    """As `newest_first`, but all of it from the log."""
    yield from reversed(_from_log(table, 0, version + 1))


def check_tail(table: ReleaseTable, version: int) -> None:
    """Refuse a table of whose newest commits one is missing or cannot be read.

    Raises:
        PublishError: if the lake cannot be reached.
        IntegrityError: see above.
    """
    deque(islice(newest_first(table, version), 1 + _AT_ONCE), 0)


def next_mark(table: ReleaseTable, version: int) -> Mark | None:
    """What the commit after a version notes of the index, whose blocks are all there then; None without any.

    Raises:
        PublishError: if the lake cannot be reached.
    """
    blocks = (version + 1) // BLOCK
    if not blocks:
        return None
    known = (_mark(commit) for commit in newest_first(table, version))
    mark = next((mark for mark in known if mark), None)
    return mark if mark and mark.blocks == blocks else _extend(table, mark, blocks)


def _mark(commit: Commit) -> Mark | None:
    """What a commit notes of the index; None for one of another tool, or from before there was a block."""
    told = commit.note.get("index") if isinstance(commit.note, Mapping) else None
    mark = None
    with suppress(TypeError):  # a damaged note marks nothing
        mark = Mark(**told) if told else None
    return mark if mark and mark.blocks * BLOCK <= commit.version else None


def _indexed(table: ReleaseTable, mark: Mark) -> Iterator[Commit]:
    """The commits that the blocks up to a mark tell of, newest first."""
    sha256 = mark.sha256
    for number in reversed(range(mark.blocks)):
        block = _read(table, number, sha256) or _renewed(table, number, sha256)
        if block is None:
            yield from reversed(_from_log(table, 0, (number + 1) * BLOCK))
            return
        yield from reversed(block.commits)
        sha256 = block.before


def _read(table: ReleaseTable, number: int, sha256: str) -> _Block | None:
    """A block as it is stored, if it is the one with this hash."""
    data = _stored(table, number)
    if _sha256(data) != sha256:
        return None
    head, *lines = map(json.loads, data.splitlines())
    return _Block(commits=tuple(Commit(**line) for line in lines), before=head["before"])


def _renewed(table: ReleaseTable, number: int, sha256: str) -> _Block | None:
    """A block made anew from the log, and stored where this process may; None if the log tells otherwise."""
    for first in (number, 0):  # the blocks before it are mostly whole
        before = _sha256(_stored(table, first - 1)) if first else ""
        blocks: dict[int, _Block] = {}
        for each in range(first, number + 1):
            blocks[each] = _made(table, each, before)
            before = blocks[each].sha256
        if before == sha256:
            with suppress(PublishError):  # a reader without the right to write goes without
                _store(table, blocks)
            return blocks[number]
    return None


def _extend(table: ReleaseTable, mark: Mark | None, blocks: int) -> Mark:
    """Store the blocks that are due after a mark; the mark of the last one."""
    mark = mark if mark and mark.blocks < blocks else Mark(blocks=0, sha256="")
    for number in range(mark.blocks, blocks):
        block = _made(table, number, mark.sha256)
        _store(table, {number: block})
        mark = Mark(blocks=number + 1, sha256=block.sha256)
    return mark


def _made(table: ReleaseTable, number: int, before: str) -> _Block:
    commits = _from_log(table, number * BLOCK, (number + 1) * BLOCK)
    return _Block(commits=tuple(commits), before=before)


def _store(table: ReleaseTable, blocks: Mapping[int, _Block]) -> None:
    for number, block in blocks.items():
        put(table.lake, _path(table.name, number), gzip.compress(block.to_bytes(), mtime=0))


def _stored(table: ReleaseTable, number: int) -> bytes:
    """What is stored as a block; nothing if there is none, or it cannot be unpacked."""
    (packed,) = read_all(table.lake, [_path(table.name, number)])
    try:
        return gzip.decompress(packed or b"")
    except (OSError, EOFError, zlib.error):
        return b""


def _path(name: str, number: int) -> str:
    return f"{index_folder(name)}/{number:020d}.jsonl.gz"


def _from_log(table: ReleaseTable, first: int, below: int) -> list[Commit]:
    """The commits of these versions, oldest first, without the first ones that the log no longer has."""
    files = read_all(table.lake, [log_entry(table.name, version) for version in range(first, below)])
    found = [None if data is None else _commit(version, data) for version, data in enumerate(files, first)]
    if None in found:  # also where old commits were cleared away behind a checkpoint, which is no damage
        refuse_damaged_log(table)
    return [commit for commit in found if commit is not None]


def _commit(version: int, data: bytes) -> Commit | None:
    """A commit by its file; None if it cannot be read, or does not say what it was."""
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
