"""A task's folder on its machine, and the transfer of files from and to the run's encrypted work area."""

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from privacy_engine.errors import IntegrityError, PrivacyEngineError
from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.file_sets import folder_of_list, is_list, listed, parts_of
from privacy_release.workarea.presence import BEAT_SECONDS, Mark
from privacy_release.workarea.references import Reference
from privacy_release.workarea.remote.store import RunFiles

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)?")

Value = TypeVar("Value")

# The folder of the task that is running here, if workers share no disk.
CURRENT: ContextVar["Scratch | None"] = ContextVar("scratch", default=None)


@dataclass(frozen=True)
class Scratch(WorkArea):
    """The private folder of one task, in front of the files of its run.

    It is a work area of this process on this machine, so the sweeper removes what a killed task leaves, as
    for any process. Steps use it like a shared folder; `fetch` and `send` transfer files at both ends.

    Args:
        root: Folder of this machine that contains such folders.
        key: Name of the task and its attempt.
        run: Files of the run.
        mark: Mark of the run's work area.
    """

    run: RunFiles = field(kw_only=True)
    mark: Mark = field(kw_only=True)
    _alike: dict[str, "_Stat"] = field(default_factory=dict, init=False, repr=False, compare=False)
    _over: list[threading.Event] = field(default_factory=list, init=False, repr=False, compare=False)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.run.mark(self.mark)
        except BaseException:
            super().__exit__(None, None, None)
            raise
        self._over.append(over := threading.Event())
        threading.Thread(target=self._beat, args=(over,), name="work area heartbeat", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.pop().set()
        super().__exit__(kind, error, trace)

    def fetch(self, value: Value) -> Value:
        """Return the input of a task, with addresses of the run's files replaced by paths of local copies.

        Raises:
            IntegrityError: If a file is missing, or not the one that was stored.
            WorkAreaError: If the store cannot be reached.
        """
        if isinstance(value, Reference):
            return type(value).from_ref(self.fetch(value.to_ref()))
        return self._fetched(value, None)  # type: ignore[no-any-return]  # of the same form

    def send(self, value: Value) -> Value:
        """Return the output of a task, with paths of local files replaced by addresses that all can reach.

        Raises:
            WorkAreaError: If the store cannot be reached.
        """
        if isinstance(value, Reference):
            return type(value).from_ref(self.send(value.to_ref()))
        return self._sent(value)  # type: ignore[no-any-return]  # of the same form

    def stored(self, path: Path) -> str | None:
        """Return the name of a local file among the run's files, in its current form. None if it has none."""
        if not path.is_relative_to(self.folder):
            return None
        name = path.relative_to(self.folder).as_posix()
        return name if self._alike.get(name) == _stat(path) else None

    def recall(self, name: str) -> Path:
        """Return the path of a file that an earlier attempt may have sent."""
        path = self.path(name)
        if not path.exists() and self.run.has(name):
            self.fetch(f"{self.run.address}/{name}")
        return path

    def _fetched(self, given: Any, sha256: str | None) -> Any:
        match given:
            case str():
                prefix = f"{self.run.address}/"
                return (
                    str(self._copy(given.removeprefix(prefix), sha256)) if given.startswith(prefix) else given
                )
            case Mapping():
                hashes = {"uri": given.get("sha256")}
                return {name: self._fetched(value, hashes.get(name)) for name, value in given.items()}
            case tuple():
                return tuple(self._fetched(value, None) for value in given)
            case Sequence() if not isinstance(given, bytes | bytearray):
                return [self._fetched(value, None) for value in given]
        return given

    def _copy(self, name: str, sha256: str | None) -> Path:
        if not _NAME.fullmatch(name):
            raise IntegrityError("an address in the work area must end in the name of one of its files")
        path = self.create().folder / name
        if name not in self._alike or self._alike[name] != _stat(path):
            self.run.get(name, path, sha256)
            self._alike[name] = _stat(path)
        if is_list(path) and sha256 is not None:
            for part in parts_of(path.read_bytes(), sha256, path.name):
                self._copy(f"{folder_of_list(path).name}/{part.name}", part.sha256)
        return path

    def _sent(self, given: Any) -> Any:
        match given:
            case str():
                prefix = f"{self.folder}/"
                return self._stored(given.removeprefix(prefix)) if given.startswith(prefix) else given
            case Mapping():
                return {name: self._sent(value) for name, value in given.items()}
            case tuple():
                return tuple(self._sent(value) for value in given)
            case list():
                return [self._sent(value) for value in given]
        return given

    def _stored(self, name: str) -> str:
        path = self.folder / name
        if not _NAME.fullmatch(name) or not path.is_file():
            raise IntegrityError("a task may only pass on files that it wrote to the work area")
        if is_list(path):  # its files first, so that they exist when the list is found
            for part in listed(path, sha256_file(path)):
                self._stored(f"{folder_of_list(path).name}/{part.name}")
        if self._alike.get(name) != (now := _stat(path)):
            self.run.put(path, name)
            self._alike[name] = now
        return f"{self.run.address}/{name}"

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(BEAT_SECONDS):
            with suppress(PrivacyEngineError):  # the work itself will report it
                self.run.mark(self.mark)


_Stat = tuple[int, int, int] | None


def _stat(path: Path) -> _Stat:
    """Return attributes that change when a file is replaced. Files are never written to."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
