"""Remove work areas that are no longer used. A killed process cannot clean up after itself.

An area is only removed while the sweeper holds its lock exclusively. In addition, an area of a process must
belong to a process that has ended, and an area of an Airflow run to a run that Airflow reports as over: a
run that waits for an approval has no process at all. If the lock is not visible, the area must have been
without a heartbeat for a while.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from privacy_release.config.durations import parse_duration
from privacy_release.config.settings import VARIABLES, setting
from privacy_release.workarea.area import empty
from privacy_release.workarea.presence import (
    LOCK,
    Mark,
    Owner,
    alone,
    idle_seconds,
    is_there,
    open_lock,
    reach_of,
    read_mark,
)

IDLE = "6 hours"  # hundreds of heartbeats; a busy or suspended host resumes earlier

# Whether the run of a key is over. None: Airflow does not know the run (any more).
IsOver = Callable[[str], bool | None]


class AreaState(StrEnum):
    """The state that a sweeper found, in the words of its output."""

    REMOVED = "removed"
    ABANDONED = "abandoned"
    IN_USE = "in use"
    UNFINISHED = "run not over"
    OF_A_RUN = "of an Airflow run"
    UNKNOWN_RUN = "run unknown"
    KEPT = "kept"
    UNMARKED = "no mark"
    STUCK = "not removed"


@dataclass(frozen=True, kw_only=True)
class SweepRules:
    """The rules of a sweeper.

    Attributes:
        idle: Time without a heartbeat after which an area without a visible lock may be removed.
        is_over: Function that asks Airflow whether a run is over. None: areas of runs stay.
        kept: Whether areas that a user wanted to keep are removed, too.
        unknown_runs: Whether areas of runs that Airflow does not know are removed, too. Do not use this if
            another Airflow shares the folder.
        dry: Whether nothing is removed.
    """

    idle: timedelta
    is_over: IsOver | None = None
    kept: bool = False
    unknown_runs: bool = False
    dry: bool = False


@dataclass(frozen=True, kw_only=True)
class Looked:
    """The state of an area, and the result of its removal.

    Attributes:
        folder: Path of the area, or only its name if it is not on this machine.
        mark: Owner of the area. None if the area does not state it.
        idle: Time since the last heartbeat.
        problem: Reason why it could not be removed, in the words of the operating system.
    """

    folder: Path | str
    state: AreaState
    mark: Mark | None = None
    idle: timedelta = timedelta()
    problem: str = ""

    @property
    def name(self) -> str:
        """The displayed name of the area."""
        return Path(self.folder).name if self.mark is None else self.mark.key


def idle_limit() -> timedelta:
    """Return the option `work_area_idle`, or else `IDLE`.

    Raises:
        ValueError: If it is not a duration.
    """
    try:
        return parse_duration(setting("work_area_idle") or IDLE)
    except ValueError as error:
        raise ValueError(f"{VARIABLES['work_area_idle']} (the option work_area_idle) {error}") from None


def sweep(root: Path, rules: SweepRules) -> list[Looked]:
    """Inspect all work areas below a root, and remove those that are no longer used.

    Several sweepers may run at the same time, also while areas are made and used.
    """
    return [found for folder in _folders(root) if (found := _swept(folder, rules)) is not None]


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of this user below a root, by name."""
    try:
        inside = sorted(root.iterdir())
    except FileNotFoundError:
        return
    for folder in inside:
        with suppress(FileNotFoundError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                yield folder


def _swept(folder: Path, rules: SweepRules) -> Looked | None:
    """Return the result for an area. None if it disappeared in the meantime."""
    try:
        handle = open_lock(folder)
    except FileNotFoundError:
        return _without_lock(folder, rules)
    except OSError as error:
        return Looked(folder=folder, state=AreaState.STUCK, problem=_words(error))
    try:
        found = _judged(folder, handle, rules)
        if found is None or found.state is not AreaState.ABANDONED or rules.dry:
            return found
        removed = _attempt(found, lambda: empty(folder))
    finally:
        os.close(handle)
    with suppress(OSError):  # a task of the run may have made the area again
        # After the handle is closed: on NFS an open file stays in its folder under another name.
        folder.rmdir()
    return removed


def _judged(folder: Path, handle: int, rules: SweepRules) -> Looked | None:
    locked = alone(handle)
    if not is_there(handle, folder):
        return None
    mark, idle = read_mark(handle), timedelta(seconds=max(0.0, idle_seconds(handle)))
    if locked is False:
        state = AreaState.IN_USE
    elif mark is None:
        state = _of_unmarked(folder, idle, rules)
    else:
        seen = locked is True and mark.reach is not None and mark.reach == reach_of(handle)
        state = state_of_marked(mark, rested=idle >= rules.idle, seen=seen, rules=rules)
    return Looked(folder=folder, state=state, mark=mark, idle=idle)


def state_of_marked(mark: Mark, *, rested: bool, seen: bool, rules: SweepRules) -> AreaState:
    """Return the state of an area whose lock no process of this machine holds.

    Args:
        mark: Owner of the area.
        rested: Whether it has had no heartbeat for long enough.
        seen: Whether its owner's lock would have been visible.
        rules: Rules of the sweeper.
    """
    if mark.kept and not rules.kept:
        return AreaState.KEPT
    if mark.owner is Owner.PROCESS:
        return AreaState.ABANDONED if seen or rested else AreaState.IN_USE
    if rules.is_over is None:
        return AreaState.OF_A_RUN
    if not rested:
        return AreaState.IN_USE
    over = rules.is_over(mark.key)
    if over is None and not rules.unknown_runs:
        return AreaState.UNKNOWN_RUN
    return AreaState.UNFINISHED if over is False else AreaState.ABANDONED


def _of_unmarked(folder: Path, idle: timedelta, rules: SweepRules) -> AreaState:
    """Judge an area without a mark. If its process died before writing it, the area has no other content."""
    if any(entry.name != LOCK for entry in folder.iterdir()):
        return AreaState.UNMARKED
    return AreaState.ABANDONED if idle >= rules.idle else AreaState.IN_USE


def _without_lock(folder: Path, rules: SweepRules) -> Looked | None:
    """Judge an area of an earlier version, or an empty one that is about to get its lock or be removed."""
    try:
        if any(folder.iterdir()):
            return Looked(folder=folder, state=AreaState.UNMARKED)
        if not rules.dry:
            folder.rmdir()
    except OSError:  # another process was faster, or is working in it
        pass
    return None


def _attempt(found: Looked, action: Callable[[], object]) -> Looked:
    """Remove an area, or part of one. Another sweeper may have been faster."""
    try:
        with suppress(FileNotFoundError):
            action()
    except OSError as error:
        return Looked(
            folder=found.folder,
            state=AreaState.STUCK,
            mark=found.mark,
            idle=found.idle,
            problem=_words(error),
        )
    return Looked(folder=found.folder, state=AreaState.REMOVED, mark=found.mark, idle=found.idle)


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__
