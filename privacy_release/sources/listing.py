"""List the files of a folder or glob: which are read as Parquet, and which are left out as no data.

A folder may contain files that are no data by convention, such as `_SUCCESS`. Every other file is read,
whatever its name, or the folder is refused: silently skipping part of a delivery is worse than failing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SchemaError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_ENDINGS = (".parquet", ".parq", ".pq")
_MAGIC = b"PAR1"  # at both ends of a Parquet file
_NAMED = 3  # number of files that an error names
# Files that writers leave next to the data and that contain no record.
_MARKERS = re.compile(
    r"_SUCCESS|_(common_)?metadata|_(started|committed)_\d+|.*_\$folder\$|\..*\.crc|\.DS_Store|\._.*"
    r"|\.git(keep|ignore)|\.keep"
)
# Folders of table formats, which state which files are current.
_LOGS = {
    "_delta_log": "a Delta table",
    ".hoodie": "a Hudi table",
    "_spark_metadata": "written by a Spark stream",
}


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The files at an address.

    Attributes:
        base: Folder that their names are relative to.
        files: Sorted paths of the files that are read.
        left_out: Names, relative to the base, of hidden and empty files that are no known markers.
    """

    base: str
    files: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def of_folder(filesystem: "AbstractFileSystem", folder: str, shown: str) -> Listing:
    """List the files of a folder and the folders below it.

    Args:
        filesystem: File system of the folder.
        folder: Path in the file system.
        shown: Address of the folder in errors.

    Raises:
        SchemaError: If a file is neither a Parquet file nor no data by convention, a folder is a link or
            cannot be listed, or the folder belongs to a table format.
    """
    base = folder.rstrip("/")
    if (form := next((log for log in _LOGS if filesystem.exists(f"{base}/{log}")), None)) is not None:
        raise _of_a_format(form, shown)
    found = {path: info for path, info in _below(filesystem, base).items() if path.rstrip("/") != base}
    names = {path: _relative(path, base) for path in found}
    for name in names.values():
        if form := next((part for part in name.split("/")[:-1] if part in _LOGS), None):
            raise _of_a_format(form, shown)
    seen = {path: name for path, name in names.items() if not _is_hidden(name)}
    empty = {p for p in seen if _is_empty(found[p]) and not p.lower().endswith(_ENDINGS)}
    files = sorted(path for path in seen if path not in empty)
    strange = [names[path] for path in files if not _is_parquet(filesystem, path, found[path])]
    if strange:
        raise SchemaError(
            f"each file of {shown} must be a Parquet file or no data by convention (such as _SUCCESS), got "
            f"{_some(strange)}: its records would be missing; remove it from the folder, write it as "
            "Parquet, or name the files that are read by a glob such as *.parquet"
        )
    left_out = {names[path] for path in found if path not in seen or path in empty}
    return Listing(base=base, files=tuple(files), left_out=_without_markers(left_out))


def of_glob(filesystem: "AbstractFileSystem", pattern: str, base: str, shown: str) -> Listing:
    """List the files that a glob matches. Hidden files are left out.

    Args:
        filesystem: File system of the files.
        pattern: Path with `*`, `?` or `[...]`.
        base: Folder before the first of them.
        shown: Address of the glob in errors.

    Raises:
        SchemaError: If it matches a folder with files that it does not match.
    """
    matched: Mapping[str, Any] = filesystem.glob(pattern, detail=True)
    folders = [p for p, info in matched.items() if info["type"] == "directory" or filesystem.isdir(p)]
    names = {path: _relative(path, base) for path in matched if path not in set(folders)}
    for folder in folders:
        inside = [p for p in _below(filesystem, folder) if p.rstrip("/") != folder.rstrip("/")]
        missed = [n for n in (_relative(p, base) for p in inside if p not in names) if not _is_hidden(n)]
        if missed and not _is_hidden(_relative(folder, base)):
            raise SchemaError(
                f"the glob {shown} must match files, and matches a folder with others, got {_some(missed)}: "
                "their records would be missing; end the glob in /*.parquet to read them, or write one that "
                "matches no folder"
            )
    files = tuple(sorted(path for path, name in names.items() if not _is_hidden(name)))
    return Listing(
        base=base, files=files, left_out=_without_markers({n for n in names.values() if _is_hidden(n)})
    )


def without_values(name: str) -> str:
    """Return a file name for messages, without the values in its folders' names.

    >>> without_values("name=Bob/part-0.parquet")
    'name=.../part-0.parquet'
    """
    return re.sub(r"=[^/]*/", "=.../", name)


def _of_a_format(log: str, shown: str) -> SchemaError:
    remedy = (
        "set `format: delta`"
        if log == "_delta_log"
        else "use an export of it, or a copy of its current files"
    )
    return SchemaError(
        f"{shown} is {_LOGS[log]}, whose folder holds replaced or unfinished files, too: {remedy}"
    )


def _relative(path: str, base: str) -> str:
    return path.removeprefix(base).strip("/")


def _is_hidden(name: str) -> bool:
    """Return whether a part of a name hides the file, by the convention of Parquet tools.

    >>> _is_hidden("_temporary/0/part.parquet"), _is_hidden("_day=2026-01-01/part.parquet")
    (True, False)
    """
    *folders, file = name.split("/")
    return file.startswith((".", "_")) or any(
        folder.startswith(".") or (folder.startswith("_") and "=" not in folder) for folder in folders
    )


def _without_markers(names: set[str]) -> tuple[str, ...]:
    kept = (name for name in names if not _MARKERS.fullmatch(name.rpartition("/")[2]))
    return tuple(sorted(map(_printable, kept)))


def _printable(name: str) -> str:
    """Return a name for messages, without the values in its folders' names."""
    return "".join(letter if letter.isprintable() else "?" for letter in without_values(name))


def _is_empty(info: Mapping[str, Any]) -> bool:
    return bool(info["type"] == "file" and info.get("size") == 0)


def _is_parquet(filesystem: "AbstractFileSystem", path: str, info: Mapping[str, Any]) -> bool:
    """Return whether a file has a Parquet name, or else begins and ends like a Parquet file."""
    if info["type"] != "file" and not filesystem.isfile(path):  # a pipe, a broken link, or one to a folder
        return False
    if path.endswith(_ENDINGS):
        return True
    with filesystem.open(path, "rb") as stream:
        begin = stream.read(len(_MAGIC))
        size = stream.seek(0, 2)
        stream.seek(max(0, size - len(_MAGIC)))
        return bool(begin == _MAGIC == stream.read(len(_MAGIC)) and size >= 3 * len(_MAGIC))


def _below(filesystem: "AbstractFileSystem", folder: str) -> dict[str, Mapping[str, Any]]:
    """Return all files below a folder, by path.

    The search of fsspec silently omits what it may not list. Object stores, which have no folders, have a
    search that does not.
    """
    from fsspec import AbstractFileSystem

    if filesystem.async_impl or type(filesystem).find is not AbstractFileSystem.find:
        found: dict[str, Mapping[str, Any]] = filesystem.find(folder, detail=True)
    else:
        found = dict(_walked(filesystem, folder))
    return {path: info for path, info in found.items() if info["type"] != "directory"}


def _walked(filesystem: "AbstractFileSystem", folder: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for info in filesystem.ls(folder, detail=True):
        path = info["name"].rstrip("/")
        if info["type"] == "directory" and path != folder.rstrip("/"):
            yield from _walked(filesystem, path)
        else:
            yield path, info


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(map(_printable, names))[:_NAMED])
    more = len(names) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
