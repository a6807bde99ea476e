"""A task's own folder on its machine, and how files get there from the run's encrypted work area and back."""

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

Told = TypeVar("Told")

# The folder of the task that is running here, where workers share none.
CURRENT: ContextVar["Scratch | None"] = ContextVar("scratch", default=None)


@dataclass(frozen=True)
class Scratch(WorkArea):
    """The folder of one task, which nobody else uses, in front of the files of its run.

    It is a work area of this process on this machine, so whatever a killed task leaves is swept as that of
    any process is. Steps work in it as in a folder that all share; `fetch` and `send` stand at both ends.

    Args:
        root: folder of this machine that holds such folders.
        key: names the task and its attempt.
        run: whose files it fetches and sends.
        mark: of the run's work area.
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

    def fetch(self, told: Told) -> Told:
        """What a task was told, with each address of the run's files as the path of its copy here.

        Raises:
            IntegrityError: if a file is gone, or not the one that was stored.
            WorkAreaError: if the store cannot be reached.
        """
        if isinstance(told, Reference):
            return type(told).from_ref(self.fetch(told.to_ref()))
        return self._fetched(told, None)  # type: ignore[no-any-return]  # of the same form

    def send(self, told: Told) -> Told:
        """What a task tells, with each path of a file of this folder as the address where all find it.

        Raises:
            WorkAreaError: if the store cannot be reached.
        """
        if isinstance(told, Reference):
            return type(told).from_ref(self.send(told.to_ref()))
        return self._sent(told)  # type: ignore[no-any-return]  # of the same form

    def stored(self, path: Path) -> str | None:
        """By what name a file of this folder is among the run's files, as it is here; None if it is not."""
        if not path.is_relative_to(self.folder):
            return None
        name = path.relative_to(self.folder).as_posix()
        return name if self._alike.get(name) == _stat(path) else None

    def recall(self, name: str) -> Path:
        """Where a file is that an earlier attempt of the task may have sent."""
        path = self.path(name)
        if not path.exists() and self.run.has(name):
            self.fetch(f"{self.run.address}/{name}")
        return path

    def _fetched(self, told: Any, sha256: str | None) -> Any:
        match told:
            case str():
                prefix = f"{self.run.address}/"
                return str(self._copy(told.removeprefix(prefix), sha256)) if told.startswith(prefix) else told
            case Mapping():
                hashes = {"uri": told.get("sha256")}
                return {name: self._fetched(value, hashes.get(name)) for name, value in told.items()}
            case tuple():
                return tuple(self._fetched(value, None) for value in told)
            case Sequence() if not isinstance(told, bytes | bytearray):
                return [self._fetched(value, None) for value in told]
        return told

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

    def _sent(self, told: Any) -> Any:
        match told:
            case str():
                prefix = f"{self.folder}/"
                return self._stored(told.removeprefix(prefix)) if told.startswith(prefix) else told
            case Mapping():
                return {name: self._sent(value) for name, value in told.items()}
            case tuple():
                return tuple(self._sent(value) for value in told)
            case list():
                return [self._sent(value) for value in told]
        return told

    def _stored(self, name: str) -> str:
        path = self.folder / name
        if not _NAME.fullmatch(name) or not path.is_file():
            raise IntegrityError("a task must tell of files that it wrote to the work area")
        if is_list(path):  # its files first: whoever finds the list finds them
            for part in listed(path, sha256_file(path)):
                self._stored(f"{folder_of_list(path).name}/{part.name}")
        if self._alike.get(name) != (now := _stat(path)):
            self.run.put(path, name)
            self._alike[name] = now
        return f"{self.run.address}/{name}"

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(BEAT_SECONDS):
            with suppress(PrivacyEngineError):  # the work itself will say so
                self.run.mark(self.mark)


_Stat = tuple[int, int, int] | None


def _stat(path: Path) -> _Stat:
    """Tells whether a file is still the same; one is replaced, not written to."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
