"""Find faults in the commit log of a table. A damaged log is refused, never restarted."""

import io
import json
import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.errors import IntegrityError
from privacy_engine.vocabulary import PARTITION
from privacy_release.lake.store import ReleaseTable, get, listing

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:(\d{10})\.(\d{10})\.)?parquet")
_HINT = "_last_checkpoint"


def log_entry(name: str, version: int) -> str:
    """Return the path of a commit, below the lake's root."""
    return f"{name}/_delta_log/{version:020d}.json"


def refuse_lost_log(table: ReleaseTable) -> None:
    """Raise if a table's folder has data but its log has no commit.

    Raises:
        IntegrityError: If there are such data. A new table would bury them, and forget earlier retractions.
    """
    data = sum(f"/{PARTITION}=" in file.path for file in listing(table.lake, table.name))
    # The first publication may have come between two listings; its log exists before its data.
    if data and not _versions(_log_files(table)):
        raise _damaged(table, f"has no commit, but the table has {data} data files")


def refuse_damaged_log(table: ReleaseTable) -> None:
    """Raise if a part of a log is missing or cannot be read.

    Raises:
        IntegrityError: Naming the problem and its location.
    """
    if problem := _problem(table):
        raise _damaged(table, problem)


def touched(table: ReleaseTable, version: int) -> tuple[str | None, bool]:
    """Return the partition whose data a commit added or else removed, and whether it removed others, too.

    The partition is None unless it is exactly one.
    """
    try:
        actions = [json.loads(line) for line in get(table.lake, log_entry(table.name, version)).splitlines()]
        added, removed = (
            {action[kind]["partitionValues"][PARTITION] for action in actions if kind in action}
            for kind in ("add", "remove")
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, False
    found = added or removed
    return (str(next(iter(found))) if len(found) == 1 else None), bool(added and removed - added)


def _problem(table: ReleaseTable) -> str | None:
    files = _log_files(table)
    versions, checkpoints = _versions(files), _whole_checkpoints(files)
    if not versions:
        return "has no commit" if files else None
    if missing := sorted(set(range(versions[0], versions[-1])) - set(versions)):
        return f"misses {len(missing)} commits, the first of which is version {missing[0]}"
    if versions[0] > 0 and not any(version + 1 >= versions[0] for version in checkpoints):
        return f"begins at version {versions[0]}, without a checkpoint of the state before"
    if _HINT in files and not checkpoints:
        return (
            f"names a checkpoint in {_HINT} that does not exist, or is incomplete (if the commits from "
            f"version 0 on are all there, removing {_HINT} is enough)"
        )
    for version in versions:
        if not _is_commit(get(table.lake, log_entry(table.name, version))):
            return f"has a commit that cannot be read, version {version}"
    for version, path in checkpoints.items():
        if not _is_parquet(get(table.lake, f"{table.name}/_delta_log/{path}")):
            return f"has a checkpoint that cannot be read, of version {version}"
    return None


def _log_files(table: ReleaseTable) -> set[str]:
    return {file.path.rpartition("/")[2] for file in listing(table.lake, f"{table.name}/_delta_log")}


def _versions(files: Iterable[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(_COMMIT.fullmatch, files) if match)


def _whole_checkpoints(files: Iterable[str]) -> dict[int, str]:
    """Return version and first file of each complete checkpoint."""
    parts: dict[tuple[int, int], list[str]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, sorted(files))):
        parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(match[0])
    return {version: found[0] for (version, count), found in parts.items() if len(found) == count}


def _is_commit(data: bytes) -> bool:
    """Return whether a commit is JSON lines and states its operation, by which the history is counted."""
    try:
        actions = [json.loads(line) for line in data.splitlines()]
    except ValueError:
        return False
    return any(isinstance(action, dict) and "commitInfo" in action for action in actions)


def _is_parquet(data: bytes) -> bool:
    try:
        pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return False
    return True


def _damaged(table: ReleaseTable, problem: str) -> IntegrityError:
    return IntegrityError(
        f"the log of table {table.name} in the lake at {table.lake.root} must be whole, and {problem}: "
        f"restore {table.name}/_delta_log from a backup, or move the whole table away and publish under a "
        "new name; nothing was changed"
    )
