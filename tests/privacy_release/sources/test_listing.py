"""Every file of a folder is read, named as left out, or refused."""

import io
from dataclasses import replace
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import MissingSourceError, SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source, partition_values
from privacy_release.steps.ingest import ingest
from privacy_release.steps.producers.report import facts_of
from privacy_release.steps.producers.staging import public_source
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import SourceRef, Table

SCHEMA = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}})


def parquet() -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table({"age": [30, 40, 50]}), target)
    return target.getvalue()


DATA = parquet()


def fill(folder: Path, **files: bytes) -> str:
    """A folder with these files, and one called `a.parquet`."""
    for name, data in {"a.parquet": DATA, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return str(folder)


@pytest.mark.parametrize(
    "name",
    [
        "B.PARQUET",
        "000000_0",
        "20260101_0001_abc",
        "sub/part-0.snappy.Parquet",
        "b.parq",
        "_day=2026-01-01/p",
        "b.gz",
        "~b.parquet",
        "#b.parquet#",
    ],
)
def test_a_parquet_file_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    source = find_source(fill(tmp_path, **{name: DATA}))
    assert source.names == tuple(sorted(["a.parquet", name]))
    assert source.left_out == ()


def test_a_column_whose_name_begins_with_an_underscore_is_one(tmp_path: Path) -> None:
    name = "_day=2026-01-01/p.parquet"
    assert find_source(fill(tmp_path, **{name: DATA})).names[0] == name
    assert partition_values(name) == {"_day": "2026-01-01"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("b.csv", b"age\n30\n"),
        ("b.parquet.tmp", DATA[:-4]),
        ("000001_0", DATA[4:]),
        ("b", b"PAR1"),
        ("B.PARQUET", b""),
        ("sub/notes.txt", b"x"),
    ],
)
def test_a_file_that_would_be_skipped_is_refused_with_the_remedy(
    tmp_path: Path, name: str, data: bytes
) -> None:
    folder = fill(tmp_path, **{name: data})
    with pytest.raises(SchemaError, match=f"got {name}: its records would be missing") as caught:
        find_source(folder)
    assert "glob such as" in str(caught.value)
    assert find_source(f"{folder}/*.parquet").names == ("a.parquet",)


def test_many_of_them_are_named_in_part_and_without_the_values_of_folders(tmp_path: Path) -> None:
    folder = fill(tmp_path, **{f"who=canary{n}/b.csv": b"x" for n in range(5)})
    with pytest.raises(SchemaError, match=r"got who=\.\.\./b\.csv, .* and 2 more") as caught:
        find_source(folder)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["_SUCCESS", "_metadata", "_committed_12", ".a.parquet.crc", ".DS_Store", "sub_$folder$", "sub/.gitkeep"],
)
def test_markers_hold_no_records(tmp_path: Path, name: str) -> None:
    source = find_source(fill(tmp_path, **{name: b""}))
    assert (source.names, source.left_out) == (("a.parquet",), ())


def test_hidden_and_empty_files_are_named_where_people_look(tmp_path: Path, work: WorkArea) -> None:
    hidden = {"_old.parquet": DATA, ".b.parquet": DATA, "_temporary/0/p.parquet": DATA, "empty": b""}
    table = ingest(fill(tmp_path / "source", **hidden), SCHEMA, work)
    assert table.rows == 3
    assert table.source.left_out == sorted(hidden)
    assert facts_of(table)["hidden or empty files left out"] == "4"
    assert public_source(table.source, private=False)["left_out"] == 4
    assert "left_out" not in public_source(table.source, private=True)


def test_those_of_several_tables_are_counted_together() -> None:
    source = SourceRef(uri="", files=1, fingerprint="0", rows=1, dropped=0, identifiers=[])
    left_out = {"patients": ["a", "b"], "visits": ["c"], "drugs": []}
    tables = {name: replace(source, left_out=files) for name, files in left_out.items()}
    table = Table(uri="", rows=1, sha256="", schema="", source=replace(source, tables=tables))
    assert facts_of(table)["hidden or empty files left out"] == "3"


def test_a_source_without_them_says_nothing(tmp_path: Path, work: WorkArea) -> None:
    table = ingest(fill(tmp_path / "source"), SCHEMA, work)
    assert not table.source.left_out
    assert "hidden or empty files left out" not in facts_of(table)


def test_only_hidden_files_are_a_missing_source_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "_a.parquet").write_bytes(DATA)
    with pytest.raises(MissingSourceError, match="found none but 1 hidden or empty files"):
        find_source(str(tmp_path))


@pytest.mark.parametrize("target", ["folder", "nowhere"])
def test_a_link_to_a_folder_or_to_nothing_is_refused(tmp_path: Path, target: str) -> None:
    fill(tmp_path / "folder")
    folder = fill(tmp_path / "source")
    (tmp_path / "source" / "b.parquet").symlink_to(tmp_path / target)
    with pytest.raises(SchemaError, match=r"got b\.parquet: its records"):
        find_source(folder)


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, system = (
        fill(tmp_path, **{"sub/b.parquet": DATA}),
        fsspec.filesystem("file", use_listings_cache=False),
    )
    listed = system.ls

    def ls(path: str, detail: bool = False, **more: object) -> object:
        if path.endswith("sub"):
            raise PermissionError(13, "denied", path)
        return listed(path, detail=detail, **more)

    monkeypatch.setattr(system, "ls", ls)
    with pytest.raises(SchemaError, match="must be readable by the service user"):
        find_source(folder, filesystem=system)


@pytest.mark.parametrize("log", ["_delta_log", ".hoodie", "_spark_metadata"])
@pytest.mark.parametrize("below", ["", "sub/"])
def test_the_folder_of_a_table_format_is_refused(tmp_path: Path, log: str, below: str) -> None:
    with pytest.raises(SchemaError, match="whose folder holds replaced or unfinished files"):
        find_source(fill(tmp_path, **{f"{below}{log}/0": b"x"}))


def test_a_glob_that_matches_folders_reads_all_of_their_files_or_is_refused(tmp_path: Path) -> None:
    folder = fill(tmp_path, **{"visits.parquet/part-0.parquet": DATA})
    with pytest.raises(SchemaError, match=r"got visits\.parquet/part-0\.parquet: their records"):
        find_source(f"{folder}/*.parquet")
    assert len(find_source(f"{folder}/**/*.parquet").files) == 2


def test_an_object_store_is_read_by_the_same_rule() -> None:
    store = fsspec.filesystem("memory")
    try:
        for name in ("a.parquet", "000000_0", "_SUCCESS", "_b.parquet"):
            store.pipe_file(f"/listing/{name}", DATA)
        source = find_source("memory://listing")
        assert (source.names, source.left_out) == (("000000_0", "a.parquet"), ("_b.parquet",))
        store.pipe_file("/listing/b.csv", b"age")
        with pytest.raises(SchemaError, match=r"got b\.csv: its records"):
            find_source("memory://listing")
    finally:
        store.rm("/listing", recursive=True)
