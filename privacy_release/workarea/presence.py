"""Signs of life of a work area: a lock that the kernel drops with its holder, and a heartbeat.

Both are one file in the area, which also says whose the area is. Where the lock does not reach, on another
host or a file system without locks, the age of the heartbeat is all that a sweeper can go by.
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
_LONGEST = 1 << 16  # bytes of a mark
_WITHOUT_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})


class Owner(StrEnum):
    """What a work area lives as long as."""

    PROCESS = "process"
    RUN = "run"  # of Airflow: many processes, and none at all while a person is asked


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Whose a work area is, as its lock file says.

    Attributes:
        key: of the area; of a run its DAG id, a slash and its run id.
        owner: what it lives as long as.
        reach: where the lock can be seen, see `reach_of`; None: nowhere for certain.
        kept: whether somebody wants the area kept.
    """

    key: str
    owner: Owner
    reach: str | None = None
    kept: bool = False


class Presence:
    """A use of a work area by this process, until `end`: holds the lock, and touches it now and then."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="work area heartbeat", daemon=True)
        self._heart.start()

    def end(self) -> None:
        """Let go of the lock."""
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
    """Hold the lock of an area together with others of its tasks; waits for a sweeper that is removing it.

    Args:
        folder: of the area.
        mark: whose it is; `reach` is filled in.
        make: makes the folder, if it is not there.
    """
    while True:
        make()
        try:
            handle = _opened(folder, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # swept meanwhile
            continue
        try:
            locked = _locked(handle, fcntl.LOCK_SH)
            if is_there(handle, folder):
                # Of a run each host has tasks, one after the other: no lock of one host tells of all.
                seen = locked and mark.owner is Owner.PROCESS
                _write(handle, replace(mark, reach=reach_of(handle) if seen else None))
                touch(handle)
                return Presence(handle)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def open_lock(folder: Path) -> int:
    """A handle on the lock of an area, also where nothing can be written.

    Raises:
        FileNotFoundError: if the area has none.
        OSError: if it cannot be opened.
    """
    try:
        return _opened(folder, os.O_RDWR)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return _opened(folder, os.O_RDONLY)


def alone(handle: int) -> bool | None:
    """Take the lock for this handle alone: whether that worked; None where the file system has no locks."""
    try:
        return True if _locked(handle, fcntl.LOCK_EX | fcntl.LOCK_NB) else None
    except BlockingIOError:
        return False


def is_there(handle: int, folder: Path) -> bool:
    """Whether the handle is on the area's present lock: a sweeper may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), (folder / LOCK).lstat())
    except FileNotFoundError:
        return False


def read_mark(handle: int) -> Mark | None:
    """Whose an area is; None if its lock does not say."""
    try:
        fields = json.loads(os.pread(handle, _LONGEST, 0))
        return Mark(**fields | {"owner": Owner(fields["owner"])})
    except (ValueError, TypeError, KeyError):
        return None


def keep_mark(folder: Path) -> None:
    """Write into the lock of an area that is in use that somebody wants the area kept."""
    handle = _opened(folder, os.O_RDWR)
    try:
        if (mark := read_mark(handle)) is not None:
            _write(handle, replace(mark, kept=True))
    finally:
        os.close(handle)


def idle_seconds(handle: int) -> float:
    """Seconds since the last heartbeat."""
    return time.time() - os.fstat(handle).st_mtime


def reach_of(handle: int) -> str | None:
    """Names what a lock can be seen from: this kernel and this mount of the file system.

    Containers of one machine share both, whatever they are called.
    """
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    return f"{platform.system()} {kernel} {os.fstat(handle).st_dev}" if kernel else None


def touch(handle: int) -> None:
    """A heartbeat."""
    with suppress(OSError):  # a full or broken disk: the work itself will say so
        os.utime(handle)


def _opened(folder: Path, flags: int) -> int:
    return os.open(folder / LOCK, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _locked(handle: int, operation: int) -> bool:
    """Whether the file system has locks.

    Raises:
        BlockingIOError: if another one has the lock, and is not to be waited for.
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
