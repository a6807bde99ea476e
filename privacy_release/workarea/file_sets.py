"""A table of the work area in several Parquet files, and the list of these files.

The list represents the table: its address is the table's address, and its SHA-256, the hash of the set, is
the table's hash. It is canonical: the files are sorted by name, which is the order of the records, each with
its SHA-256 and number of records, as JSON that can only be written in one way. So two sets have the same hash
if and only if they have the same files, and a changed, missing or additional file is noticed.

The files are in a folder next to the list: `staged.files.json` lists the files in `staged.files`.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from privacy_engine.errors import IntegrityError

_SUFFIX = ".files.json"
_NAME = re.compile(r"part-\d{5}\.parquet")


@dataclass(frozen=True, kw_only=True, order=True)
class Part:
    """A file of a set."""

    name: str
    rows: int
    sha256: str


def list_of(path: Path) -> Path:
    """Return the path of the list of a table's files, for the path that a single file would have."""
    return path.with_name(path.stem + _SUFFIX)


def folder_of_list(path: Path) -> Path:
    """Return the folder of the files of a list."""
    return path.with_suffix("")


def new_folder(path: Path) -> Path:
    """Make an empty private folder for the files of a list. Files of an earlier attempt are removed."""
    folder = folder_of_list(path)
    path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def part_name(number: int) -> str:
    """Return the name of the file at a position of a set."""
    return f"part-{number:05d}.parquet"


def list_bytes(parts: Iterable[Part]) -> bytes:
    """Return the list of a set. Its SHA-256 is the hash of the set.

    >>> list_bytes([Part(name="part-00000.parquet", rows=2, sha256="ab")])
    b'{"files":[{"name":"part-00000.parquet","rows":2,"sha256":"ab"}]}'
    """
    content = {"files": [asdict(part) for part in sorted(parts)]}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def is_list(path: str | Path) -> bool:
    """Return whether an address is that of a list rather than a Parquet file."""
    return str(path).endswith(_SUFFIX)


def listed(path: Path, sha256: str) -> list[Part]:
    """Return the files of a set, if its list is the recorded one.

    Raises:
        IntegrityError: If the list is missing or changed, or a file was added to the set.
    """
    try:
        data = path.read_bytes()
        there = {file.name for file in folder_of_list(path).iterdir() if file.suffix == ".parquet"}
    except OSError as error:
        raise IntegrityError(
            f"{path.name} and its files must be in the work area, got {type(error).__name__}; "
            "run from ingest again"
        ) from None
    parts = parts_of(data, sha256, path.name)
    if added := there - {part.name for part in parts}:
        raise IntegrityError(
            f"{path.name} must list every file of its set, but {len(added)} more are there; "
            "run from ingest again"
        )
    return parts


def parts_of(data: bytes, sha256: str, name: str) -> list[Part]:
    """Return the files in a list, if it is the recorded one.

    Raises:
        IntegrityError: If it is not.
    """
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise IntegrityError(
            f"{name} must have the recorded sha256 {sha256}, got {found}: it changed between two steps; run "
            "from ingest again"
        )
    parts = [Part(**entry) for entry in json.loads(data)["files"]]
    names = [part.name for part in parts]
    if (
        not names
        or list_bytes(parts) != data
        or len({*names}) < len(names)
        or not all(map(_NAME.fullmatch, names))
    ):
        raise IntegrityError(f"{name} must be a list of files as a release writes it; run from ingest again")
    return parts


def files_of(path: str | Path, sha256: str) -> dict[Path, str]:
    """Return the Parquet files of a table with their SHA-256, in the order of its records.

    The files are not read. Most tables are one file, which is `path`.

    Raises:
        IntegrityError: As `listed`.
    """
    path = Path(path)
    if not is_list(path):
        return {path: sha256}
    return {folder_of_list(path) / part.name: part.sha256 for part in listed(path, sha256)}


def paths_of(path: str | Path, sha256: str) -> list[str]:
    """Return the paths of these files, for an engine."""
    return [str(file) for file in files_of(path, sha256)]
