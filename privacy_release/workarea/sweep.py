"""Removing work areas that nobody uses any more: a killed process cannot clean up after itself.

An area goes only while the sweeper alone holds its lock. Beyond that, one of a process goes when the process
has ended, and one of an Airflow run when Airflow says that the run is over: a run that waits for a person's
approval has no process at all. Where the lock does not reach, the area must have been without a heartbeat for
a while.
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

IDLE = "6 hours"  # hundreds of heartbeats: a busy or suspended host comes back earlier

# Whether the run of a key is over; None: Airflow does not know the run (any more).
IsOver = Callable[[str], bool | None]


class State(StrEnum):
    """What a sweeper found, in the words that people are shown."""

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
class Rules:
    """What a sweeper removes.

    Attributes:
        idle: for how long an area must have had no heartbeat where its lock cannot be relied on.
        is_over: asks Airflow; None: nobody can ask, and areas of runs stay.
        kept: whether also what somebody wanted kept.
        unknown_runs: whether also areas of runs that Airflow does not know; not where another Airflow shares
            the folder.
        dry: whether nothing is removed.
    """

    idle: timedelta
    is_over: IsOver | None = None
    kept: bool = False
    unknown_runs: bool = False
    dry: bool = False


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a sweeper found of an area, and did with it.

    Attributes:
        folder: of the area; its name alone where it is in no folder of this machine.
        mark: whose it is; None where it does not say.
        idle: since the last heartbeat.
        problem: why it could not be removed, in the words of the system.
    """

    folder: Path | str
    state: State
    mark: Mark | None = None
    idle: timedelta = timedelta()
    problem: str = ""

    @property
    def name(self) -> str:
        """What people call the area."""
        return Path(self.folder).name if self.mark is None else self.mark.key


def idle_limit() -> timedelta:
    """The option `work_area_idle`, else `IDLE`.

    Raises:
        ValueError: if it is no span of time.
    """
    try:
        return parse_duration(setting("work_area_idle") or IDLE)
    except ValueError as error:
        raise ValueError(f"{VARIABLES['work_area_idle']} (the option work_area_idle) {error}") from None


def sweep(root: Path, rules: Rules) -> list[Looked]:
    """Look at all work areas below a root, and remove those that nobody uses any more.

    Several may sweep at a time, also while areas are made and used.
    """
    return [found for folder in _folders(root) if (found := _swept(folder, rules)) is not None]


def _folders(root: Path) -> Iterator[Path]:
    """The folders of this user below a root, by name."""
    try:
        inside = sorted(root.iterdir())
    except FileNotFoundError:
        return
    for folder in inside:
        with suppress(FileNotFoundError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                yield folder


def _swept(folder: Path, rules: Rules) -> Looked | None:
    """What became of an area; None if it went meanwhile."""
    try:
        handle = open_lock(folder)
    except FileNotFoundError:
        return _without_lock(folder, rules)
    except OSError as error:
        return Looked(folder=folder, state=State.STUCK, problem=_words(error))
    try:
        found = _judged(folder, handle, rules)
        if found is None or found.state is not State.ABANDONED or rules.dry:
            return found
        removed = _attempt(found, lambda: empty(folder))
    finally:
        os.close(handle)
    with suppress(OSError):  # a task of the run may have made the area anew
        # After the handle is closed: on NFS an open file stays in its folder under another name.
        folder.rmdir()
    return removed


def _judged(folder: Path, handle: int, rules: Rules) -> Looked | None:
    locked = alone(handle)
    if not is_there(handle, folder):
        return None
    mark, idle = read_mark(handle), timedelta(seconds=max(0.0, idle_seconds(handle)))
    if locked is False:
        state = State.IN_USE
    elif mark is None:
        state = _of_unmarked(folder, idle, rules)
    else:
        seen = locked is True and mark.reach is not None and mark.reach == reach_of(handle)
        state = state_of_marked(mark, rested=idle >= rules.idle, seen=seen, rules=rules)
    return Looked(folder=folder, state=state, mark=mark, idle=idle)


def state_of_marked(mark: Mark, *, rested: bool, seen: bool, rules: Rules) -> State:
    """The state of an area whose lock nobody here holds.

    Args:
        mark: whose it is.
        rested: whether it has had no heartbeat for long enough.
        seen: whether its owner's lock would have been seen.
        rules: of the sweeper.
    """
    if mark.kept and not rules.kept:
        return State.KEPT
    if mark.owner is Owner.PROCESS:
        return State.ABANDONED if seen or rested else State.IN_USE
    if rules.is_over is None:
        return State.OF_A_RUN
    if not rested:
        return State.IN_USE
    over = rules.is_over(mark.key)
    if over is None and not rules.unknown_runs:
        return State.UNKNOWN_RUN
    return State.UNFINISHED if over is False else State.ABANDONED


def _of_unmarked(folder: Path, idle: timedelta, rules: Rules) -> State:
    """A process may have died before it wrote whose the area is; then it wrote nothing else into it."""
    if any(entry.name != LOCK for entry in folder.iterdir()):
        return State.UNMARKED
    return State.ABANDONED if idle >= rules.idle else State.IN_USE


def _without_lock(folder: Path, rules: Rules) -> Looked | None:
    """An area of an earlier version; or one that is about to get its lock, or go, and is empty."""
    try:
        if any(folder.iterdir()):
            return Looked(folder=folder, state=State.UNMARKED)
        if not rules.dry:
            folder.rmdir()
    except OSError:  # somebody else was faster, or is at work in it
        pass
    return None


def _attempt(found: Looked, action: Callable[[], object]) -> Looked:
    """Remove an area, or a part of one; somebody else may have been faster."""
    try:
        with suppress(FileNotFoundError):
            action()
    except OSError as error:
        return Looked(
            folder=found.folder, state=State.STUCK, mark=found.mark, idle=found.idle, problem=_words(error)
        )
    return Looked(folder=found.folder, state=State.REMOVED, mark=found.mark, idle=found.idle)


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__
