"""Find the Parquet files at a path or address, and translate errors about them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from privacy_engine.errors import MissingSourceError, PrivacyEngineError, SchemaError
from privacy_engine.foreign import translated
from privacy_engine.vocabulary import counted
from privacy_release.config.places import require_allowed
from privacy_release.sources.listing import Listing, of_folder, of_glob, without_values
from privacy_release.workarea.parquet import how_to_convert

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_GLOB = frozenset("*?[")
_AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The files at an address.

    Attributes:
        uri: Address as given, without user and password.
        files: Sorted paths of the files in the file system.
        names: Paths of the files relative to the folder of the address.
        left_out: Names of files that are not read: hidden and empty ones, except markers such as `_SUCCESS`.
    """

    uri: str
    filesystem: "AbstractFileSystem"
    files: tuple[str, ...]
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()

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
    """Find the Parquet files at a path or address: one file, all files of a folder, or a glob.

    Hidden files and those whose name begins with `_` are not data, by the convention of Parquet tools. All of
    them except markers such as `_SUCCESS` are listed as left out. Folders named `column=value` below a folder
    or glob are a text column of their records.

    Raises:
        SpecError: If no release of this deployment may read the address, see `privacy_release.config.places`.
        MissingSourceError: If there are no files.
        SchemaError: If the address cannot be reached, the folder is a Delta table or has files that would be
            skipped, or a file name is not UTF-8.
    """
    require_allowed(uri)
    shown = without_secret(uri)
    with reading(shown):
        filesystem, path = _opened(uri, storage_options, filesystem)
        filesystem.invalidate_cache()  # a process that runs for long would get yesterday's listing
        if _GLOB & set(path) and not filesystem.exists(path):
            base = path[: min(path.find(c) for c in _GLOB if c in path)].rpartition("/")[0]
            listing = of_glob(filesystem, path, base, shown)
        elif filesystem.isdir(path):
            listing = of_folder(filesystem, path, shown)
        else:
            files = (path,) if filesystem.isfile(path) else ()
            listing = Listing(base=path.rpartition("/")[0], files=files)
    kept = listing.files
    names = {f: f.removeprefix(listing.base).lstrip("/") for f in kept}
    if not kept:
        hidden = f" but {len(listing.left_out)} hidden or empty files" if listing.left_out else ""
        raise MissingSourceError(
            f"{shown} must be a Parquet file, or a folder or glob with at least one; found none{hidden}: "
            "correct the address, or wait for the data"
        )
    if strange := sum(not _is_utf8(names[f]) for f in kept):
        raise SchemaError(
            f"{shown} has {counted(strange, 'file')} with a name that is not UTF-8; rename them"
        )
    source = Source(
        uri=shown,
        filesystem=filesystem,
        files=kept,
        names=tuple(names[f] for f in kept),
        left_out=listing.left_out,
    )
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
    """Return columns and values from the names of a file's folders, in Hive's format; its null is a null.

    >>> partition_values("country=DE/name=a%20b/part-0.parquet")
    {'country': 'DE', 'name': 'a b'}
    """
    pairs = [folder.partition("=") for folder in name.split("/")[:-1] if "=" in folder.strip("=")]
    return {unquote(key): None if value == _HIVE_NULL else unquote(value) for key, _, value in pairs}


def without_secret(uri: str) -> str:
    """Return an address without user, password, query and fragment, which may contain keys.

    On Azure, the container is in the place of the user.

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
    """Turn errors of storage and Parquet libraries into an error that names the file and shows no value."""
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
            f"{name} must be readable by the service user; give it read permission, or correct the keys of "
            "its connection"
        ) from None
    except Exception as error:  # noqa: BLE001 -- the libraries of object stores have their own exceptions
        # Some of pyarrow's errors are an OSError, although the operating system did not raise them.
        damaged = isinstance(error, pa.ArrowException | UnicodeDecodeError)
        if damaged or (isinstance(error, OSError) and error.errno is None):
            if how := how_to_convert(name):
                raise SchemaError(f"{name} must be a Parquet file, got CSV; {how}") from None
            raise unreadable(error, name) from None
        raise translated(error, f"reading {name}") or SchemaError(
            f"{name} could not be read ({type(error).__name__}); check the address, the access keys and "
            "that the extra for this kind of store is installed"
        ) from None
