"""Ingesting a table that memory may not hold: the same records, refusals and words, part by part."""

import hashlib
import os
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.engines.parquet import regrouped
from privacy_engine.errors import IntegrityError, SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources import records
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.reading import check_source
from privacy_release.sources.records import CopyRules
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import (
    ROWS,
    private_parquet,
    read_private,
    require_unchanged,
    unchanged_batches,
)
from privacy_release.workarea.people import Identification
from tests.servers.memory import needs_proc, run_alone

CANARY = "X9-canary"
FIELDS: dict[str, dict[str, Any]] = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "zip": {"role": "quasi_identifier", "kind": "categorical", "categories": ["N1", "N2"]},
    "illness": {"role": "sensitive", "kind": "categorical"},
    "visits": {"role": "insensitive", "kind": "numeric"},
    "weight": {"role": "insensitive", "kind": "numeric"},
}
SCHEMA = DataSchema.from_dict({**FIELDS, "person": {"none": "invented names stand in several files"}})
FRAGMENTS = read_engine("fragments")
N = ROWS + 10  # two parts


def people(rows: int, seed: int = 1) -> dict[str, Any]:
    """Columns with a null in the visits of the last record alone, and a weight that is no number."""
    rng = np.random.default_rng(seed)
    return {
        "name": pa.array(np.arange(rows)).cast(pa.string()),
        "age": rng.integers(0, 121, rows),
        "zip": pa.array(["N1", "N2"]).take(pa.array(rng.integers(0, 2, rows))),
        "illness": pa.array(["flu", "cold"]).take(pa.array(rng.integers(0, 2, rows))),
        "visits": pa.array(np.arange(rows) % 9, mask=np.arange(rows) == rows - 1),
        "weight": np.where(np.arange(rows) == 0, np.nan, 70.5),
    }


def with_last(columns: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    """The columns with another value in the last record."""
    column = pa.array(columns[name])
    last = pa.array([value], column.type)
    return {**columns, name: pa.chunked_array([column.slice(0, len(column) - 1), last])}


def write(path: Path, columns: dict[str, Any], row_group: int = 100_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=row_group)
    return path


def copy(uri: Path | str, folder: Path, schema: DataSchema = SCHEMA, **options: Any) -> tuple[Copied, Path]:
    source, target = find_source(str(uri)), folder / "copy.parquet"
    check_source(source, schema)
    return copy_source(source, schema, target, CopyRules(**options)), target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where copies go."""
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_copy_holds_the_records_fingerprint_and_types_of_the_table_that_memory_holds(
    tmp_path: Path, folder: Path
) -> None:
    for number in range(3):
        write(tmp_path / "t" / f"{number}.parquet", people(50_000, number), 7_000)
    files = sorted((tmp_path / "t").iterdir())
    loaded = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    copied, path = copy(tmp_path / "t", folder)
    assert (copied.rows, copied.dropped) == (150_000, 0)
    listed = (f"{f.name}\0{f.stat().st_size}\0{hashlib.sha256(f.read_bytes()).hexdigest()}\n" for f in files)
    assert copied.fingerprint == hashlib.sha256("".join(listed).encode()).hexdigest()
    pd.testing.assert_frame_equal(
        read_private(path, copied.sha256), loaded[list(SCHEMA.without_identifiers().names)], check_dtype=False
    )


def test_copy_is_one_private_file_in_row_groups_without_metadata_or_identifiers(
    tmp_path: Path, folder: Path
) -> None:
    source = tmp_path / "a.parquet"
    pd.DataFrame({k: pd.Series(v) for k, v in people(ROWS + N).items()}).to_parquet(source)
    old = os.umask(0)
    try:
        copied, path = copy(source, folder)
    finally:
        os.umask(old)
    assert [path.name for path in folder.iterdir()] == ["copy.parquet"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert copied.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    found = pq.ParquetFile(path)
    sizes = [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)]
    assert sizes == [ROWS, ROWS, 10]
    assert found.schema_arrow.metadata is None
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    assert "name" not in found.schema_arrow.names


@pytest.mark.slow  # needs several batches of records
def test_copy_does_not_depend_on_the_row_groups_of_the_source(tmp_path: Path, folder: Path) -> None:
    copies = [
        copy(write(tmp_path / str(size) / "a.parquet", people(N), size), folder)[0].sha256
        for size in (999, 10**6)
    ]
    assert copies[0] == copies[1]


def test_copy_through_an_object_store_is_the_same(tmp_path: Path, folder: Path) -> None:
    store = fsspec.filesystem("memory")
    file = write(tmp_path / "a.parquet", people(1_000))
    store.pipe_file("/people/a.parquet", file.read_bytes())
    try:
        assert copy("memory://people/a.parquet", folder)[0] == copy(file, folder)[0]
    finally:
        store.rm("/people", recursive=True)


def test_dictionaries_large_text_and_folders_named_by_a_value_are_text(tmp_path: Path, folder: Path) -> None:
    columns = people(1_000)
    zips = columns.pop("zip")
    columns["illness"] = columns["illness"].dictionary_encode()
    columns["name"] = columns["name"].cast(pa.large_string())
    for value in ("N1", "N2"):
        write(tmp_path / "t" / f"zip={value}" / "a.parquet", columns)
    copied, path = copy(tmp_path / "t", folder)
    table = read_private(path, copied.sha256)
    assert len(zips) == 1_000
    assert table["zip"].tolist() == ["N1"] * 1_000 + ["N2"] * 1_000
    assert pq.read_schema(path).field("illness").type == pa.string()


def test_a_table_of_folder_names_alone_keeps_its_records(tmp_path: Path, folder: Path) -> None:
    schema = DataSchema.from_dict({"zip": FIELDS["zip"]})
    write(tmp_path / "t" / "zip=N1" / "a.parquet", {"visits": np.arange(5)})
    source = find_source(str(tmp_path / "t"))
    copied = copy_source(source, schema, folder / "copy.parquet", CopyRules(columns=["zip"]))
    assert pq.read_table(folder / "copy.parquet").to_pydict() == {"zip": ["N1"] * 5}
    assert copied.rows == 5


def test_nulls_are_dropped_and_counted_over_all_parts(tmp_path: Path, folder: Path) -> None:
    columns = with_last(with_last(people(N), "age", None), "illness", None)
    columns["zip"] = pa.chunked_array(
        [pa.nulls(1, pa.string()), columns["zip"][1:-2], pa.nulls(2, pa.string())]
    )
    copied, path = copy(write(tmp_path / "a.parquet", columns), folder, nulls="drop")
    assert (copied.rows, copied.dropped) == (N, 3)
    assert pq.read_metadata(path).num_rows == N - 3
    same = pd.read_parquet(tmp_path / "a.parquet").dropna(subset=["age", "zip", "illness"])
    names = list(SCHEMA.without_identifiers().names)
    kept = read_private(path, copied.sha256)
    pd.testing.assert_frame_equal(kept, same[names].reset_index(drop=True), check_dtype=False)


def test_integers_stay_integers_whatever_nulls_a_part_has(tmp_path: Path, folder: Path) -> None:
    columns = people(N)
    columns["visits"] = pa.array(np.arange(N) % 100, mask=np.arange(N) >= ROWS)  # the last: nulls alone
    copied, path = copy(write(tmp_path / "a.parquet", columns), folder)
    found = pq.read_table(path)["visits"]
    assert (found.type, found.null_count) == (pa.int64(), N - ROWS)
    assert str(read_private(path, copied.sha256)["visits"].dtype) == "Int64"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("zip", CANARY, "zip: the categories miss 1 distinct value in 1 row"),
        ("age", 999, "age: 1 value is out of the bounds"),
        ("age", None, "age: 1 value is null: drop them"),
        ("illness", None, "illness: 1 value is null: drop them"),
    ],
)
def test_the_last_record_of_the_last_part_is_checked_and_named_by_its_place(
    tmp_path: Path, folder: Path, name: str, value: object, message: str
) -> None:
    file = write(tmp_path / "a.parquet", with_last(people(N), name, value))
    with pytest.raises(SchemaError, match=rf"a\.parquet, records 131,073 to 131,082: {message}") as caught:
        copy(file, folder)
    assert CANARY not in str(caught.value)
    assert "999" not in str(caught.value)
    assert not list(folder.iterdir())


def test_parts_that_do_not_fit_are_reported_together_and_not_without_end(
    tmp_path: Path, folder: Path
) -> None:
    bad = {**people(10), "age": np.full(10, 999)}
    for number in range(5):
        write(tmp_path / "t" / f"{number}.parquet", bad)
    with pytest.raises(SchemaError, match=r"0\.parquet.*1\.parquet.*2\.parquet.*later records were not") as e:
        copy(tmp_path / "t", folder)
    assert "3.parquet" not in str(e.value)


def test_a_file_that_is_truncated_in_the_middle_of_a_folder_is_named_and_leaves_nothing(
    tmp_path: Path, folder: Path
) -> None:
    files = [write(tmp_path / "t" / f"{number}.parquet", people(1_000, number)) for number in range(3)]
    source = find_source(str(tmp_path / "t"))
    files[1].write_bytes(files[1].read_bytes()[:-100])
    with pytest.raises(SchemaError, match=r"1\.parquet must be a whole Parquet file"):
        copy_source(source, SCHEMA, folder / "copy.parquet")
    assert not list(folder.iterdir())


def test_a_damaged_column_chunk_is_named_and_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    file = write(tmp_path / "a.parquet", people(1_000))
    data = bytearray(file.read_bytes())
    begin = pq.read_metadata(file).row_group(0).column(1).data_page_offset
    data[begin : begin + 200] = bytes(200)
    file.write_bytes(bytes(data))
    with pytest.raises(SchemaError, match=r"a\.parquet"):
        copy(file, folder)
    assert not list(folder.iterdir())


def test_a_type_that_differs_in_the_second_file_is_refused_even_if_it_came_after_the_look_at_footers(
    tmp_path: Path, folder: Path
) -> None:
    write(tmp_path / "t" / "a.parquet", people(10))
    second = write(tmp_path / "t" / "b.parquet", people(10))
    source = find_source(str(tmp_path / "t"))
    check_source(source, SCHEMA)
    write(second, {**people(10), "age": np.linspace(1, 2, 10)})
    with pytest.raises(SchemaError, match=r"a\.parquet and b\.parquet differ in \['age'\]"):
        copy_source(source, SCHEMA, folder / "copy.parquet")


def test_empty_tables_and_tables_of_nulls_are_refused(tmp_path: Path, folder: Path) -> None:
    empty = write(tmp_path / "a.parquet", {k: pa.array(v)[:0] for k, v in people(1).items()})
    with pytest.raises(SchemaError, match="the table is empty"):
        copy(empty, folder)
    nulls = write(tmp_path / "b.parquet", {**people(30), "age": pa.nulls(30, pa.int64())})
    with pytest.raises(SchemaError, match="all 30 records have a null"):
        copy(nulls, folder, nulls="drop")
    assert not list(folder.iterdir())


def test_the_fingerprint_is_of_the_set_of_files_and_of_every_byte_of_them(
    tmp_path: Path, folder: Path
) -> None:
    source = tmp_path / "source"
    for number in range(7):
        write(source / f"{number}.parquet", people(20 + number, number))
    files = sorted(source.iterdir())

    def reported() -> str:
        return "".join(
            f"{file.name}\0{len(data)}\0{hashlib.sha256(data).hexdigest()}\n"
            for file in files
            for data in [file.read_bytes()]
        )

    before, _ = copy(source, folder)
    assert before.fingerprint == hashlib.sha256(reported().encode()).hexdigest()
    assert before.rows == sum(range(20, 27))
    first, last = files[0].read_bytes(), files[-1].read_bytes()
    files[-1].write_bytes(last.replace(b"parquet-cpp", b"parquet-cpq"))  # in the footer alone
    assert copy(source, folder)[0].fingerprint not in {before.fingerprint}
    files[-1].write_bytes(first)  # the same records, each under the name of the other
    files[0].write_bytes(last)
    assert copy(source, folder)[0].fingerprint != before.fingerprint
    files[-1].write_bytes(last)
    files[0].write_bytes(first)
    assert copy(source, folder)[0] == before


def test_a_source_that_is_replaced_once_it_was_hashed_is_copied_as_it_was_hashed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "t" / "a.parquet", people(20))
    hashed, later = file.read_bytes(), write(tmp_path / "b.parquet", people(30, 2)).read_bytes()
    source, footer = find_source(str(tmp_path / "t")), records.source_footer
    check_source(source, SCHEMA)

    def replaced(*given: Any) -> Any:
        file.write_bytes(later)
        return footer(*given)

    monkeypatch.setattr(records, "source_footer", replaced)
    made = copy_source(source, SCHEMA, folder / "copy.parquet")
    reported = f"a.parquet\0{len(hashed)}\0{hashlib.sha256(hashed).hexdigest()}\n"
    assert (made.fingerprint, made.rows) == (hashlib.sha256(reported.encode()).hexdigest(), 20)


def test_files_that_were_copied_ahead_are_closed_where_an_earlier_one_does_not_fit(
    tmp_path: Path, folder: Path
) -> None:
    for number in range(5):
        write(tmp_path / "source" / f"{number}.parquet", with_last(people(20, number), "age", 121))

    def unnamed() -> list[str]:
        found = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return [name for name in found if name.startswith(str(folder))]

    with pytest.raises(SchemaError, match=r"0\.parquet.*1\.parquet.*2\.parquet.*later records were not"):
        copy(tmp_path / "source", folder)
    assert not list(folder.iterdir())
    assert unnamed() == []


def test_a_file_that_cannot_be_copied_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    file = write(tmp_path / "t" / "a.parquet", people(10))
    source = find_source(str(tmp_path / "t"))
    file.unlink()
    with pytest.raises(SchemaError, match=r"a\.parquet must exist"):
        copy_source(source, SCHEMA, folder / "copy.parquet")
    assert not list(folder.iterdir())


def test_ingest_with_an_engine_says_so_in_its_reference(tmp_path: Path, work: WorkArea) -> None:
    file = write(tmp_path / "a.parquet", people(1_000))
    table = privacy_release.ingest(str(file), SCHEMA, work, engine=FRAGMENTS)
    small = privacy_release.ingest(str(file), SCHEMA, work, label="small", engine=read_engine("local"))
    assert table.engine == FRAGMENTS
    assert small.engine is None
    assert (table.rows, table.source) == (small.rows, small.source)
    pd.testing.assert_frame_equal(
        read_private(table.uri, table.sha256), read_private(small.uri, small.sha256)
    )


def test_persons_and_individuals_are_the_same_with_an_engine(tmp_path: Path, work: WorkArea) -> None:
    file = str(write(tmp_path / "a.parquet", people(10)))
    known = Identification(column="name", key="k" * 40)
    engines = (FRAGMENTS, None)
    by_person = [
        privacy_release.ingest(file, SCHEMA, work, engine=engine, people=known, label=f"p{i}")
        for i, engine in enumerate(engines)
    ]
    assert by_person[0].persons.sha256 == by_person[1].persons.sha256
    assert "name" not in pq.read_schema(by_person[0].uri).names
    with_name = [
        privacy_release.ingest(file, SCHEMA, work, engine=engine, individual="name", label=f"i{i}")
        for i, engine in enumerate(engines)
    ]
    assert with_name[0].sha256 == with_name[1].sha256
    assert "name" in pq.read_schema(with_name[0].uri).names


def test_parts_are_regrouped_in_order() -> None:
    sizes = ((0, 3), (3, 10), (13, 1), (14, 6), (20, 0))
    tables = [pa.table({"n": pa.array(range(i, i + size), pa.int64())}) for i, size in sizes]
    found = list(regrouped(tables, 4))
    assert [len(table) for table in found] == [4, 4, 4, 4, 4]
    assert pa.concat_tables(found)["n"].to_pylist() == list(range(20))
    assert list(regrouped([])) == []


def test_a_private_file_that_fails_half_way_leaves_the_old_one(folder: Path) -> None:
    path, table = folder / "t.parquet", pa.table({"n": [1, 2]})
    with private_parquet(path) as file:
        file.write(table)
    old = file.sha256
    with pytest.raises(ValueError, match="schema"), private_parquet(path) as file:  # noqa: PT012  # it ends so
        file.write(table)
        file.write(pa.table({"n": ["text"]}))
    require_unchanged(path, old)
    assert [p.name for p in folder.iterdir()] == ["t.parquet"]


def test_large_private_files_are_read_only_with_their_hash(folder: Path) -> None:
    path = folder / "t.parquet"
    with private_parquet(path) as file:
        for number in range(4):
            file.write(pa.table({"n": range(100 * number, 100 * number + 100)}))
    batches = list(unchanged_batches(path, file.sha256, rows=150))
    assert [n for batch in batches for n in batch["n"].to_pylist()] == list(range(400))
    for read in (require_unchanged, lambda *given: list(unchanged_batches(*given))):
        with pytest.raises(IntegrityError, match=r"t\.parquet must have the recorded sha256 0000"):
            read(path, "0" * 64)
        with pytest.raises(IntegrityError, match=r"gone\.parquet must be in the work area"):
            read(folder / "gone.parquet", file.sha256)


def test_a_large_private_file_that_is_written_to_while_it_is_read_is_refused(folder: Path) -> None:
    path = folder / "t.parquet"
    with private_parquet(path) as file:
        for number in range(4):
            file.write(pa.table({"n": range(100 * number, 100 * number + 100)}))
    batches = unchanged_batches(path, file.sha256, rows=100)
    next(batches)
    with path.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"?")
    with pytest.raises(IntegrityError, match="changed between two steps"):
        list(batches)


def test_a_large_private_file_that_is_replaced_while_it_is_read_is_still_the_one_that_was_hashed(
    folder: Path,
) -> None:
    path = folder / "t.parquet"
    with private_parquet(path) as file:
        file.write(pa.table({"n": range(400)}))
    sha256 = file.sha256
    batches = unchanged_batches(path, sha256, rows=100)
    found = next(batches)["n"].to_pylist()
    with private_parquet(path) as other:
        other.write(pa.table({"n": [-1] * 400}))
    found += [n for batch in batches for n in batch["n"].to_pylist()]
    assert found == list(range(400))
    with pytest.raises(IntegrityError):
        require_unchanged(path, sha256)


def test_truncated_large_private_file_is_refused_even_if_its_hash_was_recorded(folder: Path) -> None:
    path = folder / "t.parquet"
    with private_parquet(path) as file:
        file.write(pa.table({"n": range(400)}))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(IntegrityError, match="must be a whole Parquet file"):
        list(unchanged_batches(path, hashlib.sha256(path.read_bytes()).hexdigest()))


MEMORY = """
import sys
from pathlib import Path
import privacy_release
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.area import WorkArea
from privacy_engine.tables.schema import DataSchema
from tests.servers.memory import peak
number = {"role": "quasi_identifier", "kind": "numeric", "bounds": [-10, 10]}
schema = DataSchema.from_dict({f"c{i}": number for i in range(6)})
with WorkArea(Path(sys.argv[2]), "test/run 1") as work:
    privacy_release.ingest(sys.argv[3], schema, work, engine=read_engine("fragments"), label="first")
    before = peak()
    privacy_release.ingest(sys.argv[1], schema, work, engine=read_engine("fragments"))
print(peak() - before)
"""


@pytest.mark.slow  # needs tables of two sizes
@needs_proc
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    part = pa.table({f"c{i}": rng.integers(-10, 10, ROWS) for i in range(6)})  # 6 MiB
    files = {parts: tmp_path / f"{parts}.parquet" for parts in (4, 24)}  # 3,100,000 records are the larger
    for parts, file in files.items():
        with pq.ParquetWriter(file, part.schema, compression="none") as writer:
            for _ in range(parts):
                writer.write_table(part)
    more = run_alone(MEMORY, files[24], tmp_path / "work", files[4])
    assert more < 40, f"{more} MiB more than a sixth of the table takes"  # loading it would take 120 more
