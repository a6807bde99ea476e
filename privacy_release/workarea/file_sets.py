"""One table of the work area in several Parquet files, and the list that tells of them.

The list stands for the table: its address is the table's, and its sha256, the hash of the set, is the
table's. It is canonical: the files in the order of their names, which is that of the records, each with its
sha256 and how many records it has, as JSON without anything that could be written in two ways. So two sets
have one hash exactly where they have the same files, and a file that is changed, missing or added is noticed.

The files lie in a folder beside the list: `staged.files.json` tells of those in `staged.files`.
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
    """Where the list is that tells of the files of a table, which would else be one file at this path."""
    return path.with_name(path.stem + _SUFFIX)


def folder_of_list(path: Path) -> Path:
    """Where the files are that a list tells of."""
    return path.with_suffix("")


def new_folder(path: Path) -> Path:
    """An empty private folder for the files of a list; whatever an earlier attempt left there is removed."""
    folder = folder_of_list(path)
    path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def part_name(number: int) -> str:
    """The name of the file that has this place in a set."""
    return f"part-{number:05d}.parquet"


def list_bytes(parts: Iterable[Part]) -> bytes:
    """The list of a set; its sha256 is the hash of the set.

    >>> list_bytes([Part(name="part-00000.parquet", rows=2, sha256="ab")])
    b'{"files":[{"name":"part-00000.parquet","rows":2,"sha256":"ab"}]}'
    """
    told = {"files": [asdict(part) for part in sorted(parts)]}
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def is_list(path: str | Path) -> bool:
    """Whether an address is that of a list, and not of a Parquet file."""
    return str(path).endswith(_SUFFIX)


def listed(path: Path, sha256: str) -> list[Part]:
    """The files of a set, if its list is the recorded one.

    Raises:
        IntegrityError: if the list is missing or changed, or a file was added to the set.
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
            f"{path.name} must tell of every file of its set, {len(added)} more are there; "
            "run from ingest again"
        )
    return parts


def parts_of(data: bytes, sha256: str, name: str) -> list[Part]:
    """The files that a list tells of, if it is the recorded one.

    Raises:
        IntegrityError: if it is not.
    """
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise IntegrityError(
            f"{name} must have the recorded sha256 {sha256}, got {found}: it changed between two steps; run "
            "from ingest again"
        )
    parts = [Part(**told) for told in json.loads(data)["files"]]
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
    """The Parquet files of a table of the work area, in the order of its records, and the sha256 of each.

    They are not looked at. Most tables are one file, and that is `path`.

    Raises:
        IntegrityError: as `listed`.
    """
    path = Path(path)
    if not is_list(path):
        return {path: sha256}
    return {folder_of_list(path) / part.name: part.sha256 for part in listed(path, sha256)}


def paths_of(path: str | Path, sha256: str) -> list[str]:
    """The same files, for an engine to read."""
    return [str(file) for file in files_of(path, sha256)]
