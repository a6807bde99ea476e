"""Where a table is: the Parquet files behind a path or address, and errors that name them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from privacy_engine.errors import MissingSourceError, PrivacyEngineError, SchemaError
from privacy_engine.foreign import translated
from privacy_release.work.parquet import how_to_convert
from privacy_release.work.places import require_allowed

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_GLOB = frozenset("*?[")
_AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The files behind an address.

    Attributes:
        uri: as given, without user and password.
        files: their paths in the file system, sorted.
        names: the same, relative to the folder of the address.
    """

    uri: str
    filesystem: "AbstractFileSystem"
    files: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def is_local(self) -> bool:
        """Whether the files are in the file system of this machine."""
        return self._is("file")

    @property
    def is_of_process(self) -> bool:
        """Whether the files are in the memory of this process."""
        return self._is("memory")

    def _is(self, protocol: str) -> bool:
        known = self.filesystem.protocol
        return protocol in ([known] if isinstance(known, str) else known)


def find_source(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: "AbstractFileSystem | None" = None,
) -> Source:
    """The Parquet files behind a path or address: one file, all of a folder, or a glob.

    Hidden files and those whose name begins with `_` are no data, as everywhere in the Parquet world. Folders
    named `column=value` below a folder or glob are a text column of the records in them.

    Raises:
        SpecError: if no release of this deployment may read the address, see `privacy_release.work.places`.
        MissingSourceError: if nothing is there.
        SchemaError: if it cannot be reached, the folder is a Delta table, or the name of a file is not UTF-8.
    """
    require_allowed(uri)
    shown = without_secret(uri)
    hidden: tuple[str, ...]
    with reading(shown):
        filesystem, path = _opened(uri, storage_options, filesystem)
        filesystem.invalidate_cache()  # a process that lives long would be told the files of yesterday
        if _GLOB & set(path) and not filesystem.exists(path):
            files = [f for f in filesystem.glob(path) if not filesystem.isdir(f)]
            hidden = (".", "_")
            base = path[: min(path.find(c) for c in _GLOB if c in path)].rpartition("/")[0]
        elif filesystem.isdir(path):
            if filesystem.exists(f"{path.rstrip('/')}/_delta_log"):
                raise SchemaError(
                    f"{shown} is a Delta table, whose folder holds replaced files, too: say `format: delta`"
                )
            base = path.rstrip("/")
            files = [f for f in filesystem.find(path) if f.endswith((".parquet", ".parq", ".pq"))]
            hidden = (".", "_")
        else:
            base, files = path.rpartition("/")[0], [path] if filesystem.isfile(path) else []
            hidden = ()
    names = {f: f.removeprefix(base).lstrip("/") for f in files}
    kept = sorted(f for f in files if not any(part.startswith(hidden) for part in names[f].split("/")))
    if not kept:
        raise MissingSourceError(
            f"{shown} must be a Parquet file, or a folder or glob with at least one; found none: correct the "
            "address, or wait for the data"
        )
    if strange := sum(not _is_utf8(names[f]) for f in kept):
        raise SchemaError(f"{shown} has {strange} files whose names are not UTF-8; rename them")
    source = Source(uri=shown, filesystem=filesystem, files=tuple(kept), names=tuple(names[f] for f in kept))
    if source.is_local:  # a link in an allowed folder may lead out of it
        for file in kept:
            require_allowed(file)
    return source


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def partition_values(name: str) -> dict[str, str | None]:
    """Columns and values that the folders of a file are named by, in Hive's way; its null is a null.

    >>> partition_values("country=DE/name=a%20b/part-0.parquet")
    {'country': 'DE', 'name': 'a b'}
    """
    pairs = [folder.partition("=") for folder in name.split("/")[:-1] if "=" in folder.strip("=")]
    return {unquote(key): None if value == _HIVE_NULL else unquote(value) for key, _, value in pairs}


def without_values(name: str) -> str:
    """A file name for people, without the values that stand in its folders' names.

    >>> without_values("name=Bob/part-0.parquet")
    'name=.../part-0.parquet'
    """
    return re.sub(r"=[^/]*/", "=.../", name)


def without_secret(uri: str) -> str:
    """An address without user, password, query and fragment, which may carry keys; a path as it is.

    On Azure the container stands where others have the user.

    >>> without_secret("s3://key:secret@bucket/people?signature=x")
    's3://bucket/people'
    >>> without_secret("abfss://container@account.dfs.core.windows.net/people")
    'abfss://container@account.dfs.core.windows.net/people'
    """
    if "://" not in uri:
        return uri
    parts = urlsplit(uri)
    if not parts.netloc:
        return uri
    user, _, host = parts.netloc.rpartition("@")
    place = parts.netloc if parts.scheme in _AZURE and ":" not in user else host
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


def _opened(
    uri: str, storage_options: Mapping[str, Any] | None, filesystem: "AbstractFileSystem | None"
) -> tuple["AbstractFileSystem", str]:
    from fsspec.core import url_to_fs

    if filesystem is not None:
        return filesystem, filesystem._strip_protocol(uri)
    opened, path = url_to_fs(uri, **(storage_options or {}))
    return opened, path


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what storage and Parquet libraries raise into an error that names the file and shows no value."""
    import pyarrow as pa

    from privacy_engine.engines.parquet import unreadable

    name = without_values(name)
    try:
        yield
    except PrivacyEngineError:
        raise
    except FileNotFoundError:
        raise MissingSourceError(f"{name} must exist; correct the address of the source") from None
    except PermissionError:
        raise SchemaError(
            f"{name} must be readable by the service user; give it the right to read, or correct the keys of "
            "its connection"
        ) from None
    except Exception as error:  # noqa: BLE001 -- the libraries of object stores have exceptions of their own
        # Of pyarrow's errors some are an OSError, but none that the system raised.
        damaged = isinstance(error, pa.ArrowException | UnicodeDecodeError)
        if damaged or (isinstance(error, OSError) and error.errno is None):
            if how := how_to_convert(name):
                raise SchemaError(f"{name} must be a Parquet file, got CSV; {how}") from None
            raise unreadable(error, name) from None
        raise translated(error, f"reading {name}") or SchemaError(
            f"{name} could not be read ({type(error).__name__}); check the address, the access keys and "
            "that the extra for this kind of store is installed"
        ) from None
