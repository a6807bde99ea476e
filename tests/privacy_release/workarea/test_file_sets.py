"""A table in several files: one hash for all of them, and nothing is read that its list does not tell of."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from privacy_engine.errors import IntegrityError
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.file_sets import (
    Part,
    files_of,
    folder_of_list,
    list_bytes,
    list_of,
    new_folder,
    part_name,
)
from privacy_release.workarea.parquet import (
    part_bytes,
    read_private,
    require_unchanged,
    unchanged_batches,
    write_private,
)


@pytest.fixture
def listed(tmp_path: Path) -> tuple[Path, str]:
    """The list of three files of two records each, and its hash."""
    path = list_of(tmp_path / "staged.parquet")
    folder, parts = new_folder(path), []
    for number in range(3):
        table = pa.table({"n": [2 * number, 2 * number + 1]})
        name = part_name(number)
        sha256 = write_private(folder / name, part_bytes(table))
        parts.append(Part(name=name, rows=len(table), sha256=sha256))
    return path, write_private(path, list_bytes(reversed(parts)))


def changed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)


def test_the_records_of_a_set_are_those_of_its_files_in_order(listed: tuple[Path, str]) -> None:
    require_unchanged(*listed)
    batches = list(unchanged_batches(*listed))
    assert [value for batch in batches for value in batch.column("n").to_pylist()] == list(range(6))
    assert read_private(*listed)["n"].tolist() == list(range(6))
    assert [path.name for path in files_of(*listed)] == [part_name(number) for number in range(3)]


def test_the_hash_of_a_set_is_that_of_its_list_however_it_was_put_together(listed: tuple[Path, str]) -> None:
    path, sha256 = listed
    assert sha256_file(path) == sha256
    parts = [Part(**reported) for reported in json.loads(path.read_bytes())["files"]]
    assert list_bytes([parts[1], parts[2], parts[0]]) == path.read_bytes()


@pytest.mark.parametrize("what", ["changed", "missing", "swapped", "added", "list", "no list"])
def test_a_set_that_is_not_the_recorded_one_is_refused_by_whatever_reads_it(
    listed: tuple[Path, str], what: str
) -> None:
    path, sha256 = listed
    first, second, *_ = sorted(folder_of_list(path).iterdir())
    match what:
        case "changed":
            changed(second)
        case "missing":
            second.unlink()
        case "swapped":
            aside = first.rename(first.with_suffix(".aside"))
            second.rename(first)
            aside.rename(second)
        case "added":
            (folder_of_list(path) / part_name(9)).write_bytes(first.read_bytes())
        case "list":
            changed(path)
        case "no list":
            path.unlink()
    for read in (require_unchanged, read_private, lambda *set_: list(unchanged_batches(*set_))):
        with pytest.raises(IntegrityError, match="run from ingest again"):
            read(path, sha256)


@pytest.mark.parametrize(
    "text",
    [
        '{"files":[]}',
        '{"files":[{"name":"../../x.parquet","rows":1,"sha256":"0"}]}',
        '{"files":[{"name":"part-00000.parquet","rows":1,"sha256":"0"}] }',
        '{"files":[{"name":"part-00000.parquet","rows":1,"sha256":"0"},'
        '{"name":"part-00000.parquet","rows":1,"sha256":"0"}]}',
    ],
    ids=["empty", "outside", "another spelling", "twice"],
)
def test_a_list_that_no_release_writes_is_refused(tmp_path: Path, text: str) -> None:
    path = list_of(tmp_path / "staged.parquet")
    new_folder(path)
    with pytest.raises(IntegrityError, match="as a release writes it"):
        files_of(path, write_private(path, text.encode()))


def test_a_new_set_keeps_nothing_of_an_earlier_attempt(listed: tuple[Path, str]) -> None:
    path, _ = listed
    folder = new_folder(path)
    assert not path.exists()
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
