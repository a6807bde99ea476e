"""Where a lake is, and the few file operations on it that Delta does not offer: proofs beside the tables.

Files are reached with the Delta writer's own storage options, so a lake is configured once.
"""

import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

from deltalake.exceptions import CommitFailedError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from privacy_engine.errors import PrivacyEngineError, PublishError
from privacy_engine.foreign import is_panic, translated

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.dataset import Dataset
    from pyarrow.fs import FileSystem

    PartitionFilter = tuple[str, str, str | list[str]]

F = TypeVar("F", bound=Callable[..., Any])
_AT_ONCE = 8  # files that are read from an object store at a time
_CHUNK = 1 << 22  # bytes of a file that are held where it is streamed


@dataclass(frozen=True, kw_only=True)
class Lake:
    """The root of a lake: an absolute local folder or an object-store address.

    Args:
        root: `file:///...`, an absolute path, `s3://bucket/prefix`, `abfss://...`, `gs://...`.
        storage_options: pairs for the object store (keys, endpoint), as `deltalake` names them. They are
            secrets: they come from an Airflow connection and are not shown by `repr`.

    >>> Lake(root="s3://releases/open/", storage_options=(("AWS_SECRET_ACCESS_KEY", "x"),))
    Lake(root='s3://releases/open')
    """

    root: str
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", self.root.rstrip("/"))
        address = urlsplit(self.root)
        if address.password is not None or address.query:
            raise ValueError("the lake's address must not carry a secret; put it in the connection's options")
        if not address.path.startswith("/") and not address.netloc:
            raise ValueError(
                "the lake's root must be an absolute path or an address such as s3://bucket/folder"
            )

    @property
    def options(self) -> dict[str, str]:
        """A fresh dictionary of the storage options."""
        return dict(self.storage_options)

    @property
    def folder(self) -> Path | None:
        """The local folder, or None for an object store."""
        address = urlsplit(self.root)
        if address.scheme == "file":
            return Path(unquote(address.path))
        return None if address.scheme else Path(self.root)

    def table(self, name: str) -> "ReleaseTable":
        """A release table of the lake, whether or not it exists.

        Raises:
            ValueError: if the name could leave the lake's root or hide in it.
        """
        return ReleaseTable(self, name)


@dataclass(frozen=True)
class ReleaseTable:
    """A release table: the lake that holds it, and its name there.

    Args:
        lake: The lake.
        name: Name of the table: 1 to 100 letters, digits, `_` or `-`, first a letter or a digit.

    Raises:
        ValueError: if the name could leave the lake's root or hide in it.

    >>> str(ReleaseTable(Lake(root="s3://releases/open"), "people"))
    's3://releases/open/people'
    """

    lake: Lake
    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", self.name):
            raise ValueError(
                "a table name must be 1 to 100 letters, digits, '_' or '-' and begin with a letter or digit; "
                "rename the table"
            )

    def __str__(self) -> str:
        return self.address

    def __fspath__(self) -> str:
        return self.address

    @property
    def address(self) -> str:
        """The table's address as the Delta library takes it: a path in a local lake, else a URL."""
        folder = self.lake.folder
        return f"{self.lake.root}/{self.name}" if folder is None else str(folder / self.name)

    @property
    def proofs(self) -> str:
        """Folder of its manifests, reports, statements and tombstones, below the lake's root."""
        return f"_proof/{self.name}"

    def proof(self, file: str) -> str:
        """Path of one of these files, below the lake's root."""
        return f"{self.proofs}/{file}"


def takes_table(function: F) -> F:
    """Let a function of a `ReleaseTable` be called with a lake and a name, as in 0.1, with a warning."""
    parameters = signature(function).parameters
    own = "release_table" if "release_table" in parameters else "table"

    @wraps(function)
    def taking(*args: Any, **kwargs: Any) -> Any:
        place = next((at for at, value in enumerate(args) if isinstance(value, Lake)), None)
        if place is None and "lake" not in kwargs:
            return function(*args, **kwargs)
        warnings.warn(
            f"{function.__name__} takes {own}=lake.table(name) instead of lake and name, which end in 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
        if place is None:
            lake, name = kwargs.pop("lake"), kwargs.pop("name", None)
            given = None if lake is None or name is None else lake.table(name)
            return function(*args, **{own: given}, **kwargs)
        name = args[place + 1] if len(args) > place + 1 else kwargs.pop("name")
        return function(*args[:place], args[place].table(name), *args[place + 2 :], **kwargs)

    return cast(F, taking)


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file of the lake: path below the root, and when the store last saw it change (UTC)."""

    path: str
    modified: datetime


@contextmanager
def as_readable_as_the_lake(lake: Lake) -> Iterator[None]:
    """Files made meanwhile get the rights of the lake's folder, whatever the umask of the process is.

    A work area is written under a umask of 077, and whoever may read the lake must not depend on that. The
    umask is the process's: another thread's files get these rights, too, and in a work area nobody reaches
    them, for its folder is its owner's alone.
    """
    if lake.folder is None or not lake.folder.is_dir():
        yield
        return
    before = os.umask(0o777 & ~lake.folder.stat().st_mode)
    try:
        yield
    finally:
        os.umask(before)


def put(lake: Lake, path: str, data: bytes) -> None:
    """Store bytes under a path, whole or not at all; the bytes are durable when this returns."""
    with reaching(lake, "store a proof"):
        if lake.folder is None:
            _put_object(lake, path, data)
        else:
            _put_file(lake.folder / path, [data])


def _put_file(target: Path, parts: Iterable[bytes]) -> None:
    """Write beside the target, flush to the disk, then rename: a crash leaves the old file or the new one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with partial.open("xb") as stream:
            for part in parts:
                stream.write(part)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    parent = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(parent)  # the rename itself must survive a power cut before a commit refers to it
    finally:
        os.close(parent)


def put_new(lake: Lake, path: str, parts: Iterable[bytes]) -> None:
    """Store bytes that come piece by piece, as `put` does, under a path that no other writer has."""
    with reaching(lake, "store a data file"):
        if lake.folder is None:
            store = _handler(lake)._handler.open_output_stream(path, None)
            for part in parts:
                store.write(part)
            store.close()  # type: ignore[attr-defined]  # its stub forgets it
            return
        _put_file(lake.folder / path, parts)


def _put_object(lake: Lake, path: str, data: bytes) -> None:
    """One upload, visible when complete."""
    # The handler's own open_output_stream hands pyarrow buffers to a writer that takes bytes only.
    stream = _handler(lake)._handler.open_output_stream(path, None)
    try:
        stream.write(data)
        stream.close()  # type: ignore[attr-defined]  # its stub forgets it
    except Exception:  # the Delta library raises this very class, too
        # Two attempts of one run upload the same file: on Azure the first takes away the parts of the other.
        if not _has(lake, path, data):
            raise


def _has(lake: Lake, path: str, data: bytes) -> bool:
    """Whether another upload of the same bytes is there."""
    with suppress(OSError), _filesystem(lake).open_input_file(path) as stream:
        return bytes(stream.read()) == data
    return False


def get(lake: Lake, path: str) -> bytes:
    """The bytes under a path.

    Raises:
        PublishError: if there is no such file, or the lake cannot be reached.
    """
    with reaching(lake, "read a proof"), _filesystem(lake).open_input_file(path) as stream:
        return bytes(stream.read())


def read_all(lake: Lake, paths: Sequence[str]) -> list[bytes | None]:
    """The bytes under each path, None where there is no file.

    Raises:
        PublishError: if the lake cannot be reached.
    """
    files = _filesystem(lake)

    def read(path: str) -> bytes | None:
        try:
            with files.open_input_file(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    with reaching(lake, "read files"):
        if lake.folder is not None or len(paths) == 1:
            return list(map(read, paths))
        with ThreadPoolExecutor(_AT_ONCE) as threads:  # a store answers each after a while
            return list(threads.map(read, paths))


def chunks(lake: Lake, path: str) -> Iterator[bytes]:
    """The bytes under a path, some at a time.

    Raises:
        PublishError: if there is no such file, or the lake cannot be reached.
    """
    with reaching(lake, "read a file"), _filesystem(lake).open_input_file(path) as stream:
        while chunk := bytes(stream.read(_CHUNK)):
            yield chunk


def remove(lake: Lake, path: str) -> bool:
    """Remove a file; False if it was not there (another task may have removed it)."""
    with reaching(lake, "remove a file"):
        files = _filesystem(lake)
        try:
            if files.get_file_info(path).type == FileType.NotFound:
                return False
            files.delete_file(path)
        except FileNotFoundError:
            return False
        return True


def modified(lake: Lake, path: str) -> datetime | None:
    """When the store last saw a file change (UTC), or None if there is no such file."""
    with reaching(lake, "look at a file"):
        found = _filesystem(lake).get_file_info(path)
        return found.mtime if found.type == FileType.File else None


def listing(lake: Lake, folder: str) -> list[StoredFile]:
    """All files below a folder of the lake, at any depth; empty if there is no such folder."""
    with reaching(lake, "list files"):
        found = _filesystem(lake).get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
        return [
            StoredFile(path=info.path, modified=info.mtime) for info in found if info.type == FileType.File
        ]


def dataset_of(table: ReleaseTable, delta: "DeltaTable", wanted: "PartitionFilter") -> "Dataset":
    """The rows in some partitions of a table.

    A local table is read without Delta's file system, which is written in Python: a thread of Arrow that
    still calls it while the interpreter ends aborts the process.

    Args:
        table: The release table.
        delta: the same, opened.
        wanted: column, comparison and value of the partitions to read.
    """
    local = None if table.lake.folder is None else _below(table.lake.folder / table.name)
    return delta.to_pyarrow_dataset(file_pruning_predicate=[wanted], filesystem=local)


def _filesystem(lake: Lake) -> "FileSystem":
    """A pyarrow file system whose paths are relative to the lake's root."""
    return PyFileSystem(_handler(lake)) if lake.folder is None else _below(lake.folder)


@lru_cache(maxsize=8)
def _handler(lake: Lake) -> "DeltaStorageHandler":
    """The Delta library's client of a lake's object store: to make one takes longer than a call does."""
    return DeltaStorageHandler(lake.root, lake.options)


def _below(folder: Path) -> "FileSystem":
    return SubTreeFileSystem(str(folder), LocalFileSystem())


@contextmanager
def reaching(lake: Lake, purpose: str) -> Iterator[None]:
    """Turn whatever the storage libraries raise into a PublishError that shows no cell value and no secret.

    The cause is cut off on purpose: cast errors of the Delta writer quote cells, and addresses in the errors
    of object stores can carry signatures. A CommitFailedError passes through: the caller runs again.
    """
    try:
        yield
    except (PrivacyEngineError, CommitFailedError):
        raise
    except (
        BaseException
    ) as error:  # the Delta library raises plain Exception, too, and Rust's panics are none
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise translated(error, f"the attempt to {purpose} in the lake at {lake.root}") or PublishError(
            f"could not {purpose} in the lake at {lake.root}: {_reason(error)}; check the "
            "lake's address, the rights of the service user and the connection's options, then retry"
        ) from None


def _reason(error: BaseException) -> str:
    """What an error may tell: its class, and of failures of the store what it answered.

    Not the whole answer: stores quote the request in it, with its signature and the id of its key.
    """
    kind = type(error).__name__
    if not isinstance(error, OSError) and kind != "TableNotFoundError":
        return kind
    plain = re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error))
    status = re.search(r"\b[45]\d\d [A-Z][A-Za-z ]+\b", plain)
    if status is not None:
        code = re.search(r"<Code>(\w+)</Code>", plain)
        return f"the store answered {status[0]}{f', {code[1]}' if code else ''}"
    if "error sending request" in plain:
        return "the store gave no answer"
    words = " ".join(re.sub(r"\?\S+", "?...", plain).split())
    return f"{kind} ({words[:300]})"


def table_names(lake: "Lake") -> list[str]:
    """Names of the tables that have, or had, a release; sorted.

    A table is known by its folder of proofs, which outlives its releases.

    Raises:
        PublishError: if the lake cannot be reached.
    """
    with reaching(lake, "list its tables"):
        found = _filesystem(lake).get_file_info(FileSelector("_proof", allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == FileType.Directory)


def data_listing(table: ReleaseTable) -> list[StoredFile]:
    """The data files of a table, whoever left them there; not its log, which grows with every commit."""
    with reaching(table.lake, "list files"):
        found = _filesystem(table.lake).get_file_info(FileSelector(table.name, allow_not_found=True))
        folders = [info.path for info in found if info.type == FileType.Directory]
    return [file for folder in folders if not _inner(folder) for file in listing(table.lake, folder)]


def _inner(folder: str) -> bool:
    """Whether a folder of a table is Delta's log or ours."""
    return folder.rstrip("/").rpartition("/")[2].startswith("_")
