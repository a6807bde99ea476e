"""The journal of a run: the result of each of its tasks, kept in the run's private work area.

Many users of an Airflow deployment may write its XComs. Only the service user, or a holder of the secret that
wraps the keys of runs, can write the journal. So a task uses the journal's copy of an earlier task's result.

Entries are only added. A task that begins takes the next number of its key, a hash of task ID and map index,
and creates `<key>-<number>.begin`; its result becomes `<key>-<number>.value`. Both are created exclusively,
and nothing is changed or deleted before the whole work area is removed. Only the value of the newest `begin`
counts: if a question is repeated, the earlier answer is void, and an abandoned attempt cannot overwrite a
later one. (Airflow's attempt numbers restart when a run is created again under the same ID.)
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from privacy_engine.errors import IntegrityError
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import Reference

FOLDER = "journal"
_ENTRY = re.compile(r"([0-9a-f]{64})-(\d{1,9})\.(begin|value)")
_AGAIN = "clear the run and start again"


class EntryFiles(Protocol):
    """Storage of the entries: a folder, or an encrypted work area in an object store."""

    def names(self, folder: str) -> list[str]:
        """Return the names of all files of a folder in the work area. Empty if it does not exist."""

    def create(self, name: str, data: bytes) -> None:
        """Write a new file. Raises `FileExistsError` if it exists."""

    def get_bytes(self, name: str) -> bytes:
        """Return the bytes of a file. Raises `IntegrityError` if it is missing or was changed."""


@dataclass(frozen=True)
class AreaFiles:
    """Entries in a work area that all workers share.

    Args:
        folder: Path of the area, which may not exist yet.
        area: Function that makes the area, for the first entry.
    """

    folder: Path
    area: Callable[[], WorkArea]

    def names(self, folder: str) -> list[str]:
        """As `EntryFiles`."""
        try:
            return [entry.name for entry in (self.folder / folder).iterdir()]
        except FileNotFoundError:
            return []

    def create(self, name: str, data: bytes) -> None:
        """As `EntryFiles`."""
        with self.area():  # a sweeper sees that the area is in use
            path = self.folder / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(handle)

    def get_bytes(self, name: str) -> bytes:
        """As `EntryFiles`."""
        path = self.folder / name
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
                return stream.read()
        except OSError as error:
            raise IntegrityError(
                f"an entry of the run's journal cannot be read ({type(error).__name__}); {_AGAIN}"
            ) from None


@dataclass(frozen=True)
class Journal:
    """The entries of one run when a task begins. Entries that the task adds are not included."""

    files: EntryFiles
    _read: dict[tuple[str, int], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _entries(self) -> Mapping[str, tuple[int, frozenset[int]]]:
        """The newest number that began, and all numbers with a value, by key."""
        began: dict[str, int] = {}
        values: dict[str, set[int]] = {}
        for name in self.files.names(FOLDER):
            if found := _ENTRY.fullmatch(name):
                key, number = found[1], int(found[2])
                if found[3] == "begin":
                    began[key] = max(began.get(key, 0), number)
                else:
                    values.setdefault(key, set()).add(number)
        return {key: (number, frozenset(values.get(key, ()))) for key, number in began.items()}

    @property
    def is_empty(self) -> bool:
        """Return whether no task of the run has begun here: its work area was never made, or is gone."""
        return not self._entries

    def begun(self, task: str, index: int) -> bool:
        """Return whether an attempt of a task has begun."""
        return _key(task, index) in self._entries

    def has(self, task: str, index: int) -> bool:
        """Return whether the newest attempt of a task has a value."""
        number, values = self._entries.get(_key(task, index), (0, frozenset()))
        return number in values

    def value(self, task: str, index: int) -> Any:
        """Return the value of a task's newest attempt.

        Raises:
            IntegrityError: If it has no value, or the entry is damaged.
            WorkAreaError: If the store cannot be reached.
        """
        if (task, index) not in self._read:
            self._read[task, index] = self._value(task, index)
        return self._read[task, index]

    def _value(self, task: str, index: int) -> Any:
        number, values = self._entries.get(_key(task, index), (0, frozenset()))
        if number not in values:
            why = "its newest attempt did not succeed" if number else "it has not run, or its files are gone"
            raise IntegrityError(
                f"task `{named(task, index)}` has no value in the run's journal: {why}; setting a state "
                f"by hand does not create a value: clear the task, or {_AGAIN}"
            )
        data = self.files.get_bytes(f"{FOLDER}/{_key(task, index)}-{number}.value")
        try:
            entry = json.loads(data)
            if (entry["task"], entry["map_index"], entry["number"]) == (task, index, number):
                return entry["value"]
        except (ValueError, TypeError, KeyError):
            pass
        raise IntegrityError(
            f"the entry of task `{named(task, index)}` in the run's journal is damaged; clear the task, or "
            f"{_AGAIN}"
        )

    def begin(self, task: str, index: int) -> int:
        """Begin an attempt of a task, which voids values of earlier attempts, and return its number.

        Raises:
            WorkAreaError: If the store cannot be reached.
        """
        number = self._entries.get(_key(task, index), (0, frozenset()))[0]
        while True:
            number += 1
            with suppress(FileExistsError):  # another attempt of the task began in the meantime
                self.files.create(f"{FOLDER}/{_key(task, index)}-{number}.begin", b"")
                return number

    def record(self, task: str, index: int, number: int, value: Any) -> None:
        """Record the value of a task's attempt.

        Raises:
            IntegrityError: If that attempt already has a value.
            WorkAreaError: If the store cannot be reached.
        """
        entry = {"task": task, "map_index": index, "number": number, "value": value}
        try:
            self.files.create(f"{FOLDER}/{_key(task, index)}-{number}.value", canonical(entry))
        except FileExistsError:
            raise IntegrityError(
                f"attempt {number} of task `{named(task, index)}` already has an entry in the run's journal; "
                "clear the task"
            ) from None


def canonical(value: Any) -> bytes:
    """Return a plain value as JSON, equal for equal values.

    >>> canonical({"b": (1, 2), "a": None})
    b'{"a":null,"b":[1,2]}'

    Raises:
        TypeError, ValueError: If the value is not plain JSON.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":")).encode()


def sha256_of(value: Any) -> str:
    """Return the hexadecimal SHA-256 of a plain value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def named(task: str, index: int) -> str:
    """Return the name of a task as Airflow shows it: with its map index, if it is mapped."""
    return task if index < 0 else f"{task}[{index}]"


def _plain(value: Any) -> Any:
    """Convert sequences and mappings to lists and dictionaries: Airflow passes lazy sequences."""
    if isinstance(value, Reference):
        return value.to_ref()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value


def _key(task: str, index: int) -> str:
    """Return the name of a task's entries, a hash, because readable names of two tasks could be equal."""
    return hashlib.sha256(json.dumps([task, index]).encode()).hexdigest()
