"""Signs of life of a work area: a lock that the kernel releases with its holder, and a heartbeat.

Both are one file in the area, which also names the owner of the area. If the lock is not visible, from
another host or on a file system without locks, a sweeper can only use the age of the heartbeat.
"""

import errno
import fcntl
import json
import os
import platform
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

LOCK = ".lock"
BEAT_SECONDS = 60.0
_LONGEST = 1 << 16  # largest size of a mark in bytes
_WITHOUT_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})


class Owner(StrEnum):
    """The kind of owner of a work area, which lives as long as its owner."""

    PROCESS = "process"
    RUN = "run"  # of Airflow: many processes, and none while a person has to approve


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The owner of a work area, as its lock file states it.

    Attributes:
        key: Key of the area. For a run, its DAG ID, a slash and its run ID.
        owner: Kind of owner.
        reach: Scope in which the lock is visible, see `reach_of`. None: nowhere for certain.
        kept: Whether a user wants to keep the area.
    """

    key: str
    owner: Owner
    reach: str | None = None
    kept: bool = False


class Presence:
    """A use of a work area by this process, until `end`: holds the lock and renews the heartbeat."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="work area heartbeat", daemon=True)
        self._heart.start()

    def end(self) -> None:
        """Release the lock."""
        self._over.set()
        try:
            self._heart.join()
            touch(self._handle)
        finally:
            os.close(self._handle)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            touch(self._handle)


def enter(folder: Path, mark: Mark, make: Callable[[], object]) -> Presence:
    """Hold the lock of an area, shared with other tasks. Waits for a sweeper that is removing the area.

    Args:
        folder: Path of the area.
        mark: Owner of the area. Its `reach` is filled in.
        make: Function that makes the folder if it does not exist.
    """
    while True:
        make()
        try:
            handle = _opened(folder, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # it was swept in the meantime
            continue
        try:
            locked = _locked(handle, fcntl.LOCK_SH)
            if is_there(handle, folder):
                # The tasks of a run are on several hosts, one after the other: no host's lock covers all.
                seen = locked and mark.owner is Owner.PROCESS
                _write(handle, replace(mark, reach=reach_of(handle) if seen else None))
                touch(handle)
                return Presence(handle)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def open_lock(folder: Path) -> int:
    """Return a handle on the lock of an area, even if nothing can be written.

    Raises:
        FileNotFoundError: If the area has no lock.
        OSError: If the lock cannot be opened.
    """
    try:
        return _opened(folder, os.O_RDWR)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return _opened(folder, os.O_RDONLY)


def alone(handle: int) -> bool | None:
    """Try to lock exclusively. Return whether that worked, or None if the file system has no locks."""
    try:
        return True if _locked(handle, fcntl.LOCK_EX | fcntl.LOCK_NB) else None
    except BlockingIOError:
        return False


def is_there(handle: int, folder: Path) -> bool:
    """Return whether the handle is on the area's current lock. A sweeper may have removed it."""
    try:
        return os.path.samestat(os.fstat(handle), (folder / LOCK).lstat())
    except FileNotFoundError:
        return False


def read_mark(handle: int) -> Mark | None:
    """Read the owner of an area. None if its lock does not state it."""
    try:
        fields = json.loads(os.pread(handle, _LONGEST, 0))
        return Mark(**fields | {"owner": Owner(fields["owner"])})
    except (ValueError, TypeError, KeyError):
        return None


def keep_mark(folder: Path) -> None:
    """Record in the lock of an area in use that a user wants to keep the area."""
    handle = _opened(folder, os.O_RDWR)
    try:
        if (mark := read_mark(handle)) is not None:
            _write(handle, replace(mark, kept=True))
    finally:
        os.close(handle)


def idle_seconds(handle: int) -> float:
    """Return the seconds since the last heartbeat."""
    return time.time() - os.fstat(handle).st_mtime


def reach_of(handle: int) -> str | None:
    """Return the scope in which a lock is visible: this kernel and this mount of the file system.

    Containers on one machine share both, even if their host names differ.
    """
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    return f"{platform.system()} {kernel} {os.fstat(handle).st_dev}" if kernel else None


def touch(handle: int) -> None:
    """A heartbeat."""
    with suppress(OSError):  # a full or broken disk: the work itself will report it
        os.utime(handle)


def _opened(folder: Path, flags: int) -> int:
    return os.open(folder / LOCK, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _locked(handle: int, operation: int) -> bool:
    """Lock a file, and return whether the file system has locks.

    Raises:
        BlockingIOError: If another process holds the lock and waiting is not requested.
    """
    try:
        fcntl.flock(handle, operation)
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        return False
    return True


def _write(handle: int, mark: Mark) -> None:
    data = json.dumps(asdict(mark)).encode()
    if os.pread(handle, _LONGEST, 0) != data:
        os.pwrite(handle, data, 0)
        os.ftruncate(handle, len(data))
