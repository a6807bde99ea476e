"""The store of encrypted work areas: an address of fsspec, with a folder of objects for each run.

A run's folder contains its mark, in plain text, the wrapped keys of the run, and the encrypted files.
"""

import io
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, PrivacyEngineError, SpecError, WorkAreaError
from privacy_engine.foreign import translated
from privacy_release.workarea.area import folder_name
from privacy_release.workarea.parquet import new_private
from privacy_release.workarea.presence import Mark, Owner
from privacy_release.workarea.remote.keys import Wrapping, new_key
from privacy_release.workarea.remote.sealing import key_id_of, seal, unseal

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_MARK = ".mark"
_KEY = ".key-"


@dataclass(frozen=True, kw_only=True)
class Store:
    """The address below which runs have their work areas.

    Args:
        root: Address such as `s3://bucket/work`, without secrets.
        options: Options for fsspec, which are not shown.
        wrapping: Secret that wraps the keys of runs. None: files can be listed and removed, but not read.
    """

    root: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    wrapping: Wrapping | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", self.root.rstrip("/"))

    @cached_property
    def files(self) -> "AbstractFileSystem":
        """The file system. Listings are not cached, because other workers write, too.

        Raises:
            SpecError: If the library for such addresses is not installed, or refuses the options.
        """
        import fsspec

        try:
            return fsspec.filesystem(
                self.root.partition("://")[0],
                **self._from_address,
                **{"use_listings_cache": False, "skip_instance_cache": True} | dict(self.options),
            )
        except (ImportError, ValueError, TypeError) as error:
            raise SpecError(
                f"the work area {self.root} must be an address that fsspec reaches with the storage_options "
                f"of its connection, got {type(error).__name__}; install the extra s3, azure or gcs, or "
                "correct the options"
            ) from None

    @property
    def _from_address(self) -> dict[str, Any]:
        """Return the options that follow from the address: for `abfss://` the account."""
        import fsspec

        options = fsspec.get_filesystem_class(self.root.partition("://")[0])._get_kwargs_from_urls(self.root)
        return {name: value for name, value in options.items() if name not in self.options}

    def of(self, key: str) -> "RunFiles":
        """Return the work area of a run, by its key: DAG ID, slash, run ID."""
        return RunFiles(store=self, folder=folder_name(key))

    def all(self) -> list["RunFiles"]:
        """Return all existing work areas, by name.

        Raises:
            WorkAreaError: If the store cannot be reached.
        """
        with reaching(self.root, "listed"):
            try:
                found = self.files.ls(self.path(), detail=True)
            except FileNotFoundError:
                return []
            folders = sorted(entry["name"].rstrip("/") for entry in found if entry["type"] == "directory")
        return [RunFiles(store=self, folder=path.rpartition("/")[2]) for path in folders]

    def path(self, *parts: str) -> str:
        """Return a path below the root, in the form of the file system."""
        return "/".join([str(self.files._strip_protocol(self.root)), *parts])


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The encrypted files of one run."""

    store: Store
    folder: str
    _keys: dict[bytes, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def address(self) -> str:
        """The prefix of the addresses of its files, without a final slash."""
        return f"{self.store.root}/{self.folder}"

    def put(self, source: Path, name: str) -> None:
        """Encrypt a local file and store it atomically.

        Raises:
            WorkAreaError: If the store cannot be reached.
            SecretError: If the key of the run cannot be opened.
        """
        with source.open("rb") as plain:
            self._put(plain, name, source.parent)

    def put_bytes(self, data: bytes, name: str) -> None:
        """Encrypt a file in memory and store it, without writing plain text to a local disk.

        Raises:
            WorkAreaError, SecretError: As `put`.
        """
        self._put(io.BytesIO(data), name, None)

    def names(self, folder: str) -> list[str]:
        """Return the names of all files of a folder in the work area. Empty if it does not exist.

        Raises:
            WorkAreaError: If the store cannot be reached.
        """
        with reaching(self.address, "listed"):
            try:
                found = self.store.files.ls(self._path(folder), detail=False)
            except FileNotFoundError:
                return []
        return [path.rstrip("/").rpartition("/")[2] for path in found]

    def create(self, name: str, data: bytes) -> None:
        """Encrypt a small file and store it, unless a file of that name exists.

        Raises:
            FileExistsError: If it exists.
            WorkAreaError: If the store cannot be reached.
            SecretError: If the key of the run cannot be opened.
        """
        key_id, key = self._key_to_write()
        sealed = io.BytesIO()
        seal(io.BytesIO(data), sealed, key, key_id=key_id, name=self._bound(name))
        with reaching(self.address, "written"):
            self._make_folder(name)
            try:
                self.store.files.pipe_file(self._path(name), sealed.getvalue(), mode="create")
                return
            except FileExistsError:
                pass
        raise FileExistsError(name)

    def _put(self, plain: IO[bytes], name: str, folder: Path | None) -> None:
        key_id, key = self._key_to_write()
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".sealed-") as sealed:
            seal(plain, sealed, key, key_id=key_id, name=self._bound(name))
            sealed.flush()
            self._upload(sealed.name, name)

    def get(self, name: str, target: Path, sha256: str | None = None) -> None:
        """Fetch and decrypt a file to this machine, atomically.

        Args:
            name: Name of the file.
            target: Path to write, with mode 0600.
            sha256: Recorded SHA-256 of the file. None if none was recorded.

        Raises:
            IntegrityError: If the file is missing, is not what was stored, or its key is missing.
            WorkAreaError: If the store cannot be reached.
            SecretError: If the key of the run cannot be opened.
        """
        target.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".sealed-") as sealed:
            with reaching(self.address, "read", missing=name):
                self.store.files.get_file(self._path(name), sealed.name)
            with Path(sealed.name).open("rb") as stream, new_private(target) as plain:
                self._open(stream, plain, name, sha256)

    def get_bytes(self, name: str, sha256: str | None = None) -> bytes:
        """Fetch and decrypt a file into memory, without writing it to a local disk.

        Raises:
            IntegrityError, WorkAreaError, SecretError: As `get`.
        """
        with reaching(self.address, "read", missing=name):
            sealed = io.BytesIO(self.store.files.cat_file(self._path(name)))
        plain = io.BytesIO()
        self._open(sealed, plain, name, sha256)
        return plain.getvalue()

    def _open(self, sealed: IO[bytes], plain: IO[bytes], name: str, sha256: str | None) -> None:
        key = self._key(key_id_of(sealed, name))
        found = unseal(sealed, plain, key, name=self._bound(name))
        if sha256 is not None and found != sha256:
            raise IntegrityError(
                f"{name} must have the recorded sha256 {sha256}, got {found}: it changed between two steps; "
                "run from ingest again"
            )

    def read(self, name: str, largest: int) -> bytes | None:
        """Return the bytes of a small file. None if it is larger.

        Raises:
            IntegrityError, WorkAreaError, SecretError: As `get`.
        """
        with reaching(self.address, "read", missing=name):
            if int(self.store.files.size(self._path(name)) or 0) > 2 * largest:
                return None
        data = self.get_bytes(name)
        return data if len(data) <= largest else None

    def has(self, name: str) -> bool:
        """Return whether a file exists.

        Raises:
            WorkAreaError: If the store cannot be reached.
        """
        with reaching(self.address, "read"):
            return bool(self.store.files.exists(self._path(name)))

    def mark(self, mark: Mark) -> None:
        """Record the owner of the area, and that it is in use now.

        Raises:
            WorkAreaError: If the store cannot be reached.
        """
        with reaching(self.address, "written"):
            self._make_folder()
            self.store.files.pipe_file(self._path(_MARK), json.dumps(asdict(mark)).encode())

    def marked(self) -> tuple[Mark, datetime] | None:
        """Return the owner of the area and the time of its last mark. None if there is no mark.

        Raises:
            WorkAreaError: If the store cannot be reached.
        """
        with reaching(self.address, "read"):
            try:
                fields = json.loads(self.store.files.cat_file(self._path(_MARK)))
                when = self.store.files.modified(self._path(_MARK))
                mark = Mark(**fields | {"owner": Owner(fields["owner"])})
            except (FileNotFoundError, ValueError, TypeError, KeyError):
                return None
        return mark, when if when.tzinfo else when.replace(tzinfo=UTC)

    def lent(self) -> "RunFiles":
        """Return the same files for a process without the secret: it gets only the opened key of this run.

        Raises:
            WorkAreaError, SecretError: As `put`.
        """
        self._key_to_write()
        lent = RunFiles(store=replace(self.store, wrapping=None), folder=self.folder)
        lent._keys.update(self._keys)
        return lent

    def discard(self, names: Iterable[str]) -> None:
        """Remove some files before the whole area is removed.

        Raises:
            WorkAreaError: If a file could not be removed.
        """
        with reaching(self.address, "removed"):
            for name in names:
                with suppress(FileNotFoundError):
                    self.store.files.rm_file(self._path(name))

    def remove(self) -> None:
        """Remove the area, keys first and mark last. After a kill in between, no one can read the rest.

        Raises:
            WorkAreaError: If something could not be removed.
        """
        with reaching(self.address, "removed"):
            files, base = self.store.files, self.store.path(self.folder)
            with suppress(FileNotFoundError):  # another process may remove at the same time
                found = sorted(files.find(base), key=self._order)
                for path in found:
                    with suppress(FileNotFoundError):
                        files.rm_file(path)
                if _is_local(files):  # an object store has no folders
                    files.rm(base, recursive=True)
        self._keys.clear()

    def _order(self, path: str) -> int:
        name = path.rpartition("/")[2]
        return 0 if name.startswith(_KEY) else 2 if name == _MARK else 1

    def _key_to_write(self) -> tuple[bytes, bytes]:
        """Return a key of the run, which the first process makes."""
        if self._keys:
            return next(iter(self._keys.items()))
        with reaching(self.address, "read"):
            try:
                listed = self.store.files.ls(self.store.path(self.folder), detail=False)
            except FileNotFoundError:
                listed = []
        names = sorted(path.rstrip("/").rpartition("/")[2] for path in listed)
        if found := [name.removeprefix(_KEY) for name in names if name.startswith(_KEY)]:
            key_id = bytes.fromhex(found[0])
            return key_id, self._key(key_id)
        key_id, key = new_key()
        name = f"{_KEY}{key_id.hex()}"
        with reaching(self.address, "written"):
            self._make_folder()
            wrapped = self._wrapping.wrap(key, self._bound(name))
            self.store.files.pipe_file(self._path(name), wrapped)
        self._keys[key_id] = key
        return key_id, key

    def _key(self, key_id: bytes) -> bytes:
        if key_id not in self._keys:
            name = f"{_KEY}{key_id.hex()}"
            try:
                with reaching(self.address, "read"):
                    wrapped = self.store.files.cat_file(self._path(name))
            except IntegrityError:
                raise IntegrityError(
                    f"the key of the run's files in {self.address} was removed with its work area, so they "
                    "cannot be read any more; start a new run"
                ) from None
            self._keys[key_id] = self._wrapping.unwrap(wrapped, self._bound(name))
        return self._keys[key_id]

    @property
    def _wrapping(self) -> Wrapping:
        if self.store.wrapping is None:
            raise SpecError(f"the work area {self.store.root} needs the secret that wraps its keys")
        return self.store.wrapping

    def _upload(self, source: str, name: str) -> None:
        """Store one object atomically. In a folder, it is renamed when it is complete."""
        with reaching(self.address, "written"):
            if not _is_local(self.store.files):
                self.store.files.put_file(source, self._path(name))
                return
            self._make_folder(name)
            partial = self._path(f"{name}.{secrets.token_hex(4)}.tmp")
            try:
                self.store.files.put_file(source, partial)
                Path(partial).replace(self._path(name))
            finally:
                Path(partial).unlink(missing_ok=True)

    def _make_folder(self, name: str = "") -> None:
        if _is_local(self.store.files):
            Path(self._path(name or _MARK)).parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path(self, name: str) -> str:
        return self.store.path(self.folder, name)

    def _bound(self, name: str) -> str:
        """Return the data authenticated with a file: it belongs to this run and has this name."""
        return f"{self.folder}/{name}"


def _is_local(files: "AbstractFileSystem") -> bool:
    return "file" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol)


@contextmanager
def reaching(address: str, done: str, missing: str = "its file") -> Iterator[None]:
    """Translate errors of a store into this package's words, because its library's may contain keys.

    Raises:
        IntegrityError: If something does not exist.
        CapacityError: If this machine has too little space.
        WorkAreaError: If the store cannot be reached, or refuses.
    """
    try:
        yield
    except PrivacyEngineError:
        raise
    except FileNotFoundError:
        raise IntegrityError(
            f"{missing} must be in the work area {address}, but it is missing; run from ingest again"
        ) from None
    except Exception as error:  # noqa: BLE001  the errors of s3fs, adlfs and gcsfs share no base
        if ours := translated(error, f"using the work area {address}"):
            raise ours from None
        raise WorkAreaError(
            f"the work area {address} could not be {done} ({type(error).__name__}); check whether the store "
            "can be reached, and the permissions of its connection"
        ) from None
