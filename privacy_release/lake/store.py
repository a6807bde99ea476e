"""The address of a lake, and file operations that Delta does not offer: proofs next to the tables.

Files are accessed with the Delta writer's own storage options, so a lake is configured only once.
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
_AT_ONCE = 8  # files that are read from an object store at the same time
_CHUNK = 1 << 22  # bytes of a streamed file that are held in memory


@dataclass(frozen=True, kw_only=True)
class Lake:
    """The root of a lake: an absolute local folder or an object-store address.

    Args:
        root: `file:///...`, an absolute path, `s3://bucket/prefix`, `abfss://...`, `gs://...`.
        storage_options: Pairs for the object store (keys, endpoint), as `deltalake` names them. They come
            from an Airflow connection and are secret, so `repr` does not show them.

    >>> Lake(root="s3://releases/open/", storage_options=(("AWS_SECRET_ACCESS_KEY", "x"),))
    Lake(root='s3://releases/open')
    """

    root: str
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", self.root.rstrip("/"))
        address = urlsplit(self.root)
        if address.password is not None or address.query:
            raise ValueError(
                "the lake's address must not contain a secret; put it in the connection's options"
            )
        if not address.path.startswith("/") and not address.netloc:
            raise ValueError(
                "the lake's root must be an absolute path or an address such as s3://bucket/folder"
            )

    @property
    def options(self) -> dict[str, str]:
        """A new dictionary of the storage options."""
        return dict(self.storage_options)

    @property
    def folder(self) -> Path | None:
        """The local folder, or None for an object store."""
        address = urlsplit(self.root)
        if address.scheme == "file":
            return Path(unquote(address.path))
        return None if address.scheme else Path(self.root)

    def table(self, name: str) -> "ReleaseTable":
        """Return a release table of the lake, whether it exists or not.

        Raises:
            ValueError: If the name could leave the lake's root or hide in it.
        """
        return ReleaseTable(self, name)


@dataclass(frozen=True)
class ReleaseTable:
    """A release table: its lake and its name.

    Args:
        lake: Lake that holds the table.
        name: Name of the table: 1 to 100 letters, digits, `_` or `-`, beginning with a letter or digit.

    Raises:
        ValueError: If the name could leave the lake's root or hide in it.

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
        """The table's address for the Delta library: a path in a local lake, otherwise a URL."""
        folder = self.lake.folder
        return f"{self.lake.root}/{self.name}" if folder is None else str(folder / self.name)

    @property
    def proofs(self) -> str:
        """Folder of its manifests, reports, statements and tombstones, below the lake's root."""
        return f"_proof/{self.name}"

    def proof(self, file: str) -> str:
        """Return the path of one of these files, below the lake's root."""
        return f"{self.proofs}/{file}"


def takes_table(function: F) -> F:
    """Allow a function of a `ReleaseTable` to be called with a lake and a name, as in 0.1, with a warning."""
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
    """A file of the lake: path below the root, and time of the last change according to the store (UTC)."""

    path: str
    modified: datetime


@contextmanager
def as_readable_as_the_lake(lake: Lake) -> Iterator[None]:
    """Give files made in the block the permissions of the lake's folder, independent of the process's umask.

    A work area is written under a umask of 077, but the lake must be readable for its readers. The umask
    belongs to the process, so another thread's files get these permissions, too. In a work area that is
    harmless, because only the owner can enter its folder.
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
    """Store bytes at a path atomically. They are durable when this returns."""
    with reaching(lake, "store a proof"):
        if lake.folder is None:
            _put_object(lake, path, data)
        else:
            _put_file(lake.folder / path, [data])


def _put_file(target: Path, parts: Iterable[bytes]) -> None:
    """Write a temporary file, flush it, then rename it: a crash leaves either the old file or the new one."""
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
        os.fsync(parent)  # the rename itself must survive a power failure before a commit refers to it
    finally:
        os.close(parent)


def put_new(lake: Lake, path: str, parts: Iterable[bytes]) -> None:
    """Store bytes that arrive in pieces, like `put`, at a path that no other writer uses."""
    with reaching(lake, "store a data file"):
        if lake.folder is None:
            store = _handler(lake)._handler.open_output_stream(path, None)
            for part in parts:
                store.write(part)
            store.close()  # type: ignore[attr-defined]  # missing in its stub
            return
        _put_file(lake.folder / path, parts)


def _put_object(lake: Lake, path: str, data: bytes) -> None:
    """Upload an object, which is visible when complete."""
    # The handler's own open_output_stream passes pyarrow buffers to a writer that only accepts bytes.
    stream = _handler(lake)._handler.open_output_stream(path, None)
    try:
        stream.write(data)
        stream.close()  # type: ignore[attr-defined]  # missing in its stub
    except Exception:  # the Delta library raises this very class, too
        # Two attempts of one run may upload the same file: on Azure, the first removes the second's parts.
        if not _has(lake, path, data):
            raise


def _has(lake: Lake, path: str, data: bytes) -> bool:
    """Return whether another upload of the same bytes exists."""
    with suppress(OSError), _filesystem(lake).open_input_file(path) as stream:
        return bytes(stream.read()) == data
    return False


def get(lake: Lake, path: str) -> bytes:
    """Return the bytes at a path.

    Raises:
        PublishError: If there is no such file, or the lake cannot be reached.
    """
    with reaching(lake, "read a proof"), _filesystem(lake).open_input_file(path) as stream:
        return bytes(stream.read())


def read_all(lake: Lake, paths: Sequence[str]) -> list[bytes | None]:
    """Return the bytes at each path, None if there is no file.

    Raises:
        PublishError: If the lake cannot be reached.
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
        with ThreadPoolExecutor(_AT_ONCE) as threads:  # each answer of a store takes a while
            return list(threads.map(read, paths))


def chunks(lake: Lake, path: str) -> Iterator[bytes]:
    """Yield the bytes at a path in pieces.

    Raises:
        PublishError: If there is no such file, or the lake cannot be reached.
    """
    with reaching(lake, "read a file"), _filesystem(lake).open_input_file(path) as stream:
        while chunk := bytes(stream.read(_CHUNK)):
            yield chunk


def remove(lake: Lake, path: str) -> bool:
    """Remove a file. Return False if it did not exist (another task may have removed it)."""
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
    """Return the time of a file's last change according to the store (UTC). None if there is no such file."""
    with reaching(lake, "look at a file"):
        found = _filesystem(lake).get_file_info(path)
        return found.mtime if found.type == FileType.File else None


def listing(lake: Lake, folder: str) -> list[StoredFile]:
    """Return all files below a folder of the lake, at any depth. Empty if there is no such folder."""
    with reaching(lake, "list files"):
        found = _filesystem(lake).get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
        return [
            StoredFile(path=info.path, modified=info.mtime) for info in found if info.type == FileType.File
        ]


def dataset_of(table: ReleaseTable, delta: "DeltaTable", wanted: "PartitionFilter") -> "Dataset":
    """Return the rows in some partitions of a table.

    A local table is read without Delta's file system, which is written in Python: if a thread of Arrow calls
    it while the interpreter ends, the process aborts.

    Args:
        table: The release table.
        delta: The same table, opened with Delta Lake.
        wanted: Column, comparison and value of the partitions to read.
    """
    local = None if table.lake.folder is None else _below(table.lake.folder / table.name)
    return delta.to_pyarrow_dataset(file_pruning_predicate=[wanted], filesystem=local)


def _filesystem(lake: Lake) -> "FileSystem":
    """Return a pyarrow file system whose paths are relative to the lake's root."""
    return PyFileSystem(_handler(lake)) if lake.folder is None else _below(lake.folder)


@lru_cache(maxsize=8)
def _handler(lake: Lake) -> "DeltaStorageHandler":
    """Return the cached Delta client of a lake's object store. Making one takes longer than a call."""
    return DeltaStorageHandler(lake.root, lake.options)


def _below(folder: Path) -> "FileSystem":
    return SubTreeFileSystem(str(folder), LocalFileSystem())


@contextmanager
def reaching(lake: Lake, purpose: str) -> Iterator[None]:
    """Turn all errors of the storage libraries into a PublishError without cell values and secrets.

    The cause is removed on purpose: cast errors of the Delta writer quote cells, and addresses in the errors
    of object stores can contain signatures. A CommitFailedError passes through, and the caller tries again.
    """
    try:
        yield
    except (PrivacyEngineError, CommitFailedError):
        raise
    except (
        BaseException
    ) as error:  # the Delta library also raises plain Exception, and Rust's panics are not an Exception
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise translated(error, f"the attempt to {purpose} in the lake at {lake.root}") or PublishError(
            f"could not {purpose} in the lake at {lake.root}: {_reason(error)}; check the "
            "lake's address, the permissions of the service user and the connection's options, then retry"
        ) from None


def _reason(error: BaseException) -> str:
    """Return the part of an error that may be shown: its class, and for a failed store the status.

    Stores quote the request in their full answer, with its signature and the ID of its key.
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
    """Return the sorted names of all tables that have, or had, a release.

    A table is recognised by its folder of proofs, which outlives its releases.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    with reaching(lake, "list its tables"):
        found = _filesystem(lake).get_file_info(FileSelector("_proof", allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == FileType.Directory)


def data_listing(table: ReleaseTable) -> list[StoredFile]:
    """Return the data files of a table from any writer, without its log, which grows with every commit."""
    with reaching(table.lake, "list files"):
        found = _filesystem(table.lake).get_file_info(FileSelector(table.name, allow_not_found=True))
        folders = [info.path for info in found if info.type == FileType.Directory]
    return [file for folder in folders if not _inner(folder) for file in listing(table.lake, folder)]


def _inner(folder: str) -> bool:
    """Return whether a folder of a table is Delta's log or this package's."""
    return folder.rstrip("/").rpartition("/")[2].startswith("_")
