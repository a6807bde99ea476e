"""The private work area of one run, the only place for raw and staged personal data, until teardown."""

import hashlib
import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from privacy_engine.errors import IntegrityError
from privacy_release.config.settings import folder_of
from privacy_release.workarea.presence import LOCK, Mark, Owner, Presence, enter, keep_mark

_SLUG_LENGTH = 60
_HASH_LENGTH = 16

Value = TypeVar("Value")


def work_area_root() -> Path:
    """Return the folder of all work areas: the option `work_area`, or else the one under `$AIRFLOW_HOME`.

    Raises:
        ValueError: As `folder_of`.
    """
    return folder_of("work_area", "work_area")


def sha256_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes, read in blocks.

    Raises:
        OSError: If the file cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class WorkArea:
    """A folder of one run that only the service user can enter.

    As a context manager it creates the folder, shows sweepers that it is in use (see `work.presence`), and
    keeps new files of this process at mode 0600 inside the block. It does not remove the folder, because
    the tasks of a run share it. A teardown task calls `remove`; otherwise a sweeper does, see `work.sweep`.

    Do not write to the lake inside the block: published files must be readable by others.

    Args:
        root: Absolute path of the folder that contains all work areas, see `work_area_root`.
        key: Name of the run, for example its DAG ID and run ID. It must not be blank. Two keys never share a
            folder.
        owner: Process or Airflow run that the area belongs to. When it has ended, a sweeper may remove it.

    >>> area = WorkArea(Path("/srv/work"), "adult/scheduled 1")
    >>> area.folder.name
    'adult_scheduled_1-1daec53cc30bd7e5'
    """

    root: Path
    key: str
    owner: Owner = Owner.PROCESS
    _entered: list[tuple[int, Presence]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.key.strip():
            raise ValueError("the key of a work area must not be blank; give the DAG id and run id")
        if not self.root.is_absolute():
            raise ValueError("the root of a work area must be an absolute path")

    @property
    def folder(self) -> Path:
        """The path of the run's folder."""
        return self.root / folder_name(self.key)

    def create(self) -> Self:
        """Make the folder with mode 0700, or reuse the one that this run made before. Idempotent.

        Raises:
            IntegrityError: If the folder is a link or belongs to another user, who could read or swap its
                files.
            OSError: If the folder cannot be made.
        """
        while True:
            with suppress(FileNotFoundError):  # a sweeper may remove the folder while it is empty
                return self._made()

    def _made(self) -> Self:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise IntegrityError(
                f"the work area {self.folder} must be a folder of the service user; remove the existing file"
            )
        self.folder.chmod(0o700)  # an odd umask or an older run may have left other bits
        return self

    def path(self, name: str) -> Path:
        """Return the path of a file of this run. Makes the folder if it does not exist.

        Args:
            name: Bare file name, without separators.

        Raises:
            ValueError: If the name could point outside of the folder.
        """
        if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise ValueError("a name in the work area must be a bare file name, without separators")
        return self.create().folder / name

    def fetch(self, value: Value) -> Value:
        """Return the input of a task. Its files are already in this folder; see `remote.scratch`."""
        return value

    def send(self, value: Value) -> Value:
        """Return the output of a task. All tasks of the run share this folder; see `remote.scratch`."""
        return value

    def recall(self, name: str) -> Path:
        """Return the path of a file that an earlier attempt may have kept. Arguments are as for `path`."""
        return self.path(name)

    def remove(self) -> None:
        """Remove the folder and its content. It is no error if it does not exist.

        Raises:
            IntegrityError: If the folder is a link, which is not followed.
            OSError: If something could not be removed, because personal data would stay behind unnoticed.
        """
        if self.folder.is_symlink():
            raise IntegrityError(
                f"the work area {self.folder} is a link; remove it by hand and check its target"
            )
        erase(self.folder)

    def keep(self) -> None:
        """Tell sweepers to keep the folder for inspection. Only while it is in use."""
        keep_mark(self.folder)

    def enter(self) -> Presence:
        """Make the folder and show sweepers that it is in use, until the presence ends."""
        return enter(self.folder, Mark(key=self.key, owner=self.owner), self.create)

    def __enter__(self) -> Self:
        presence = self.enter()
        self._entered.append((os.umask(0o077), presence))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        umask, presence = self._entered.pop()
        os.umask(umask)
        presence.end()


def folder_name(key: str) -> str:
    """Return the folder name of a key: a readable slug, and a hash because two slugs may be equal."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", key)[:_SLUG_LENGTH]
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug}-{digest[:_HASH_LENGTH]}"


def erase(folder: Path) -> None:
    """Remove the folder of a work area and its content.

    Raises:
        OSError: If something could not be removed.
    """
    while folder.exists():  # another task of the run, or a sweeper, may remove it at the same time
        with suppress(FileNotFoundError):
            empty(folder)
            folder.rmdir()


def empty(folder: Path) -> None:
    """Remove the content of a work area, its lock last, so that after a kill the owner is still known.

    Raises:
        OSError: If something could not be removed.
    """
    while entries := [entry for entry in folder.iterdir() if entry.name != LOCK]:
        for entry in entries:
            with suppress(FileNotFoundError):  # another process may remove at the same time
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
    (folder / LOCK).unlink(missing_ok=True)
