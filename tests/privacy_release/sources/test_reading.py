"""Reading a source: what is accepted, what is refused and in which words, and what is left behind."""

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import IntegrityError, SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import Source, find_source, reading, without_secret
from privacy_release.sources.copying import copy_source
from privacy_release.sources.reading import check_equal, check_source
from privacy_release.sources.records import CopyRules
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private

FIELDS: dict[str, dict[str, Any]] = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "zip": {"role": "quasi_identifier", "kind": "categorical", "categories": ["N1", "N2"]},
    "illness": {"role": "sensitive", "kind": "categorical"},
}
SCHEMA = DataSchema.from_dict(FIELDS)
GOOD = {"age": [30, 40, 50], "zip": ["N1", "N2", "N1"], "illness": ["flu", "cold", "flu"]}


class Read(NamedTuple):
    table: pd.DataFrame
    fingerprint: str
    rows: int
    dropped: int


def schema_with(**fields: dict[str, Any]) -> DataSchema:
    return DataSchema.from_dict(FIELDS | fields)


def write(path: Path, columns: dict[str, Any] | pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path


def read(uri: Path | str, schema: DataSchema = SCHEMA, **options: Any) -> Any:
    source = find_source(str(uri))
    check_source(source, schema, options.get("columns"))
    with tempfile.TemporaryDirectory() as folder:
        return kept(source, Path(folder), schema, **options)


def kept(source: Source, folder: Path, schema: DataSchema = SCHEMA, **options: Any) -> Read:
    """What a copy of the source holds."""
    copied = copy_source(source, schema, folder / "copy.parquet", CopyRules(**options))
    table = read_private(folder / "copy.parquet", copied.sha256)
    return Read(table=table, fingerprint=copied.fingerprint, rows=copied.rows, dropped=copied.dropped)


def test_file_folder_glob_and_address_give_the_same_records(tmp_path: Path) -> None:
    file = write(tmp_path / "t" / "a.parquet", GOOD)
    tables = [read(uri).table for uri in (file, file.parent, file.parent / "*.parquet", f"file://{file}")]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(tables[0], table)


def test_object_store_address_is_read_through_fsspec(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    data = write(tmp_path / "a.parquet", GOOD).read_bytes()
    store.pipe_file("/people/2026/a.parquet", data)
    try:
        by_address = read("memory://people/2026/a.parquet")
        source = find_source("memory://people", filesystem=store)
        by_filesystem = kept(source, tmp_path)
    finally:
        store.rm("/people", recursive=True)
    pd.testing.assert_frame_equal(by_address.table, by_filesystem.table)


def test_files_of_a_folder_are_joined_in_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", {**GOOD, "age": [7, 8, 9]})
    write(tmp_path / "a.parquet", GOOD)
    write(tmp_path / "_temporary.parquet", GOOD)
    write(tmp_path / ".hidden" / "c.parquet", GOOD)
    assert read(tmp_path).table["age"].tolist() == [30, 40, 50, 7, 8, 9]


def test_only_projected_columns_are_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {**GOOD, "salary": [1, 2, 3]})
    assert list(read(file, columns=["age", "zip", "illness"]).table.columns) == ["age", "zip", "illness"]


def test_identifier_must_exist_and_is_not_read(tmp_path: Path) -> None:
    schema = schema_with(name={"role": "identifier", "kind": "categorical"})
    with pytest.raises(SchemaError, match=r"'name'\] are missing"):
        read(write(tmp_path / "without.parquet", GOOD), schema)
    read_table = read(write(tmp_path / "with.parquet", {**GOOD, "name": [b"x", b"y", b"z"]}), schema).table
    assert "name" not in read_table.columns


def test_folders_named_by_a_value_are_a_column(tmp_path: Path) -> None:
    rest = {k: GOOD[k] for k in ("age", "illness")}
    for folder in ("zip=N1", "zip=N2"):
        write(tmp_path / folder / "a.parquet", rest)
    for uri in (tmp_path, tmp_path / "*" / "*.parquet"):
        assert read(uri).table["zip"].tolist() == ["N1"] * 3 + ["N2"] * 3
    write(tmp_path / "zip=__HIVE_DEFAULT_PARTITION__" / "a.parquet", rest)
    assert read(tmp_path, nulls="drop").dropped == 3


def test_folder_named_by_a_column_without_a_role_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "doctor=x" / "a.parquet", GOOD)
    with pytest.raises(SchemaError, match=r"'doctor'\] are not in the schema"):
        read(tmp_path)


def test_values_in_the_names_of_folders_are_not_reported(tmp_path: Path) -> None:
    file = write(tmp_path / "doctor=canary" / "a.parquet", GOOD)
    (tmp_path / "doctor=other").mkdir()
    messages = []
    for damaged in (False, True):
        if damaged:
            file.write_bytes(b"PAR1")
        with pytest.raises(SchemaError, match=r"doctor=\.\.\./a\.parquet") as caught:
            read(tmp_path)
        messages.append(str(caught.value))
    assert not [text for text in messages if "canary" in text]


@pytest.mark.parametrize("name", ["_people.parquet", "people[1].parquet"])
def test_file_that_is_named_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    assert len(read(write(tmp_path / name, GOOD)).table) == 3


def test_row_index_of_pandas_is_left_behind(tmp_path: Path) -> None:
    pd.DataFrame(GOOD, index=[901, 902, 903]).to_parquet(tmp_path / "a.parquet")
    table = read(tmp_path / "a.parquet").table
    assert list(table.columns) == list(GOOD)
    assert table.index.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param(
            {k: GOOD[k] for k in ("age", "zip")}, r"a\.parquet.*'illness'.*missing.*add", id="missing"
        ),
        pytest.param({**GOOD, "salary": [1, 2, 3]}, r"'salary'.*not in the schema.*role", id="extra"),
        pytest.param({**GOOD, "age": ["30", "40", "50"]}, r"age: must be a number.*string.*cast", id="text"),
        pytest.param({**GOOD, "age": [True, False, True]}, r"age: must be a number.*bool", id="truth-values"),
        pytest.param({**GOOD, "zip": [["N1"], ["N2"], []]}, r"zip: must be text.*list.*cast", id="lists"),
        pytest.param({**GOOD, "illness": [None] * 3}, r"illness: must be text.*null", id="only-nulls"),
        pytest.param(
            {**GOOD, "zip": pa.array([1, 2, 3], pa.date32())},
            r"zip: must be of kind date because it is date32",
            id="dates",
        ),
    ],
)
def test_wrong_columns_are_refused_before_any_record_is_read(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    source = find_source(str(write(tmp_path / "a.parquet", columns)))
    with pytest.raises(SchemaError, match=message):
        check_source(source, SCHEMA)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param(
            {**GOOD, "age": [30, None, 50]}, "age: 1 value is null.*drop", id="null-in-quasi-identifier"
        ),
        pytest.param(
            {**GOOD, "illness": ["flu", None, "flu"]}, "illness: 1 value is null", id="null-in-sensitive"
        ),
        pytest.param(
            {**GOOD, "zip": ["N1", "X9", "X9"]}, "zip: .*miss 1 distinct value in 2 rows", id="unseen"
        ),
        pytest.param({**GOOD, "age": [30, 40, 130]}, "age: 1 value is out of the bounds", id="out-of-bounds"),
        pytest.param({**GOOD, "age": [30, 40, np.inf]}, "age: 1 value is infinite", id="infinite"),
    ],
)
def test_records_that_do_not_fit_are_refused_without_their_values(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        read(write(tmp_path / "a.parquet", columns))
    assert "X9" not in str(caught.value)
    assert "130" not in str(caught.value)


def test_empty_table_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", pa.table(GOOD).slice(0, 0))
    with pytest.raises(SchemaError, match="empty"):
        read(file)


def test_nulls_are_dropped_and_counted_where_that_is_asked(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {**GOOD, "age": [30, None, 50], "illness": ["flu", "cold", None]})
    found = read(file, nulls="drop")
    assert (found.rows, found.dropped, found.table["age"].tolist()) == (3, 2, [30])


def test_null_of_a_nullable_sensitive_attribute_is_kept(tmp_path: Path) -> None:
    schema = schema_with(illness={"role": "sensitive", "kind": "categorical", "nullable": True})
    file = write(tmp_path / "a.parquet", {**GOOD, "illness": ["flu", None, "cold"]})
    assert read(file, schema, nulls="drop").dropped == 0


def test_dropping_every_record_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", {**GOOD, "age": pa.array([None] * 3, pa.int64())})
    with pytest.raises(SchemaError, match="all 3 records have a null"):
        read(file, nulls="drop")


def test_integers_stay_integers_where_some_are_null(tmp_path: Path) -> None:
    schema = schema_with(visits={"role": "insensitive", "kind": "numeric"})
    file = write(tmp_path / "a.parquet", {**GOOD, "visits": [1, None, 3]})
    assert str(read(file, schema).table["visits"].dtype) == "Int64"


@pytest.mark.parametrize("damage", ["truncated", "empty", "text"])
def test_file_that_is_no_whole_parquet_file_is_named_with_a_remedy(tmp_path: Path, damage: str) -> None:
    file = write(tmp_path / "broken.parquet", GOOD)
    whole = file.read_bytes()
    file.write_bytes(
        {"truncated": whole[: len(whole) // 2], "empty": b"", "text": b"age,zip\n30,N1\n"}[damage]
    )
    with pytest.raises(SchemaError, match=r"broken\.parquet must be a whole Parquet file.*write it again"):
        read(file)


@pytest.mark.parametrize("place", ["nothing.parquet", "folder", "*.parquet"])
def test_address_without_files_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(SchemaError, match=r"found none|must exist"):
        find_source(str(tmp_path / place))


def test_the_words_of_an_unknown_error_of_a_store_are_not_repeated() -> None:
    with (
        pytest.raises(SchemaError, match=r"could not be read \(RuntimeError\)") as caught,
        reading("a.parquet"),
    ):
        raise RuntimeError("the value 4711 of row 3")
    assert "4711" not in str(caught.value)


def test_delta_table_is_refused_because_its_folder_holds_replaced_files(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", GOOD)
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(SchemaError, match="Delta table"):
        find_source(str(tmp_path))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({**GOOD, "age": [30.5, 40.5, 50.5]}, r"differ in \['age'\]"),
        ({**GOOD, "extra": [1, 2, 3]}, "extra"),
    ],
    ids=["types", "columns"],
)
def test_files_that_differ_are_refused_by_name(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    write(tmp_path / "a.parquet", GOOD)
    write(tmp_path / "b.parquet", other)
    with pytest.raises(SchemaError, match=rf"b\.parquet.*{message}"):
        read(tmp_path)


def test_dictionary_and_large_text_are_read_as_text(tmp_path: Path) -> None:
    zips = pa.array(GOOD["zip"]).dictionary_encode()
    illness = pa.array(GOOD["illness"], pa.large_string())
    table = read(write(tmp_path / "a.parquet", {**GOOD, "zip": zips, "illness": illness})).table
    pd.testing.assert_frame_equal(table, read(write(tmp_path / "b.parquet", GOOD)).table)


@pytest.mark.parametrize(
    ("values", "digits", "fields", "expected"),
    [
        ([1, 2, 3], 1, {"kind": "categorical", "categories": [1, 2, 3]}, [1, 2, 3]),
        ([1, 2, 3], 1, {"kind": "ordinal", "categories": [1, 2, 3]}, [1, 2, 3]),
        ([1067, 10115], 5, {"kind": "categorical", "prefix": 2, "width": 5}, ["01", "10"]),
        ([20150317], 8, {"kind": "date", "format": "%Y%m%d"}, [date(2015, 3, 17)]),
    ],
    ids=["codes", "ordered codes", "postcodes", "dates"],
)
@pytest.mark.parametrize("whole", [False, True], ids=["decimal", "int64"])
def test_whole_numbers_are_codes_and_dates_where_the_schema_says_so(
    tmp_path: Path, values: list[int], digits: int, fields: dict[str, Any], expected: list[Any], whole: bool
) -> None:
    column = pa.array([*values, None], pa.int64())
    path = tmp_path / "insured.parquet"
    pq.write_table(
        pa.table({"code": column if whole else column.cast(pa.decimal128(19)).cast(pa.decimal128(digits))}),
        path,
    )
    schema = DataSchema.from_dict({"code": {"role": "quasi_identifier"} | fields})
    check_source(find_source(str(path)), schema)
    copy_source(find_source(str(path)), schema, tmp_path / "copy.parquet", CopyRules(nulls="keep"))
    assert pq.read_table(tmp_path / "copy.parquet")["code"].to_pylist() == [*expected, None]


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(8, 0)], ids=str)
def test_numbers_are_no_dates_by_a_format_whose_zeros_they_may_have_lost(
    tmp_path: Path, kind: pa.DataType
) -> None:
    """3012015 would be the third and the thirtieth of January."""
    path = tmp_path / "insured.parquet"
    pq.write_table(pa.table({"day": pa.array([3012015]).cast(pa.decimal128(19)).cast(kind)}), path)
    schema = DataSchema.from_dict({"day": {"role": "quasi_identifier", "kind": "date", "format": "%d%m%Y"}})
    with pytest.raises(SchemaError, match="day: must hold dates, times or text with a format"):
        copy_source(find_source(str(path)), schema, tmp_path / "copy.parquet")


DOSES = [0.1, 0.2, 0.3, None]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "numeric", "bounds": [0.1, 0.3]},
        {
            "kind": "categorical",
            "hierarchy": [["0.1", "low", "*"], ["0.2", "low", "*"], ["0.3", "high", "*"]],
        },
        {"kind": "categorical", "categories": ["0.1", "0.2", "0.3"], "role": "sensitive"},
    ],
    ids=["bounds", "hierarchy", "categories"],
)
def test_floats_of_32_bits_are_the_decimals_that_they_stand_for(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    path = tmp_path / "doses.parquet"
    pq.write_table(pa.table({"dose": pa.array(DOSES, pa.float32())}), path)
    schema = DataSchema.from_dict({"dose": {"role": "quasi_identifier"} | fields})
    copy_source(find_source(str(path)), schema, tmp_path / "copy.parquet", CopyRules(nulls="keep"))
    assert pq.read_table(tmp_path / "copy.parquet")["dose"].to_pylist() == DOSES


def test_floats_of_32_bits_without_a_domain_are_released_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "doses.parquet"
    pq.write_table(pa.table({"dose": pa.array(DOSES, pa.float32())}), path)
    schema = DataSchema.from_dict({"dose": {"role": "insensitive", "kind": "numeric"}})
    copy_source(find_source(str(path)), schema, tmp_path / "copy.parquet")
    assert pq.read_schema(tmp_path / "copy.parquet").field("dose").type == pa.float32()


def test_files_may_differ_in_the_form_of_text_and_in_columns_that_are_not_read(tmp_path: Path) -> None:
    zips, illness = pa.array(GOOD["zip"]).dictionary_encode(), pa.array(GOOD["illness"], pa.large_string())
    write(tmp_path / "a.parquet", {**GOOD, "zip": zips, "illness": illness, "new": [1, 2, 3]})
    write(tmp_path / "b.parquet", {**GOOD, "new": ["x", "y", "z"], "more": [1, 2, 3]})
    table = read(tmp_path, columns=[*GOOD]).table
    assert table["zip"].tolist() == GOOD["zip"] * 2
    assert table["illness"].tolist() == GOOD["illness"] * 2
    with pytest.raises(SchemaError, match=r"differ in \['more', 'new'\].*remove these columns from"):
        check_equal(
            pa.schema([("new", pa.int64())]),
            pa.schema([("new", pa.string()), ("more", pa.string())]),
            "a",
            "b",
        )


def test_fingerprint_changes_with_bytes_and_names_and_with_nothing_else(tmp_path: Path) -> None:
    first = read(write(tmp_path / "1" / "a.parquet", GOOD).parent).fingerprint
    assert first == read(write(tmp_path / "2" / "a.parquet", GOOD).parent).fingerprint
    assert first != read(write(tmp_path / "3" / "b.parquet", GOOD).parent).fingerprint
    assert (
        first != read(write(tmp_path / "4" / "a.parquet", {**GOOD, "age": [31, 40, 50]}).parent).fingerprint
    )


def test_secrets_of_an_address_are_not_shown() -> None:
    assert without_secret("s3://key:secret@bucket/people?sig=x#y") == "s3://bucket/people"
    assert without_secret("/data/people[1].parquet") == "/data/people[1].parquet"


def test_equal_tables_give_equal_bytes_without_metadata_or_index() -> None:
    table = pd.DataFrame(GOOD, index=[5, 6, 7])
    data = parquet_bytes(table)
    assert data == parquet_bytes(table.reset_index(drop=True))
    found = pq.read_schema(pa.BufferReader(data))
    assert found.metadata is None
    assert found.names == list(GOOD)


def test_private_file_is_for_its_owner_alone_and_read_only_with_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    old = os.umask(0)
    try:
        sha256 = write_private(path, parquet_bytes(pd.DataFrame(GOOD)))
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    pd.testing.assert_frame_equal(read_private(path, sha256), pd.DataFrame(GOOD))
    with pytest.raises(IntegrityError, match="changed between two steps"):
        read_private(path, "0" * 64)
    with pytest.raises(IntegrityError, match="must be in the work area"):
        read_private(tmp_path / "gone.parquet", sha256)


def test_truncated_private_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    sha256 = write_private(path, parquet_bytes(pd.DataFrame(GOOD))[:-20])
    with pytest.raises(IntegrityError, match="whole Parquet file"):
        read_private(path, sha256)


def test_a_source_of_csv_is_refused_with_a_command_that_converts_it(tmp_path: Path) -> None:
    source = tmp_path / "FILE.csv"
    source.write_text("age,zip,illness\n30,01234,flu\n")
    with pytest.raises(
        SchemaError, match=r"FILE\.csv must be a Parquet file, got CSV; .*: python -c "
    ) as refused:
        read(source)
    assert "flu" not in str(refused.value)
    command = str(refused.value).partition(": python ")[2]
    subprocess.run([sys.executable, *shlex.split(command)], cwd=tmp_path, check=True)
    found = read(tmp_path / "FILE.parquet", schema_with(zip={**FIELDS["zip"], "categories": ["01234"]}))
    assert found.table.to_dict("list") == {"age": [30], "zip": ["01234"], "illness": ["flu"]}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pa.nulls(3), pa.array([date(2026, 1, 3), None, None], pa.date32()), pa.date32()),
        (pa.array([1, 2, 3], pa.int32()), pa.array([1, 2, 2**40], pa.int64()), pa.int64()),
        (pa.array([1, 2, 3], pa.uint8()), pa.array([1, 2, 3], pa.int8()), pa.int64()),
        (pa.array([1, 2, 3], pa.int32()), pa.array([1, 2, 3], pa.int32()), pa.int32()),
    ],
    ids=["no value", "widths", "signs", "alike"],
)
def test_files_without_values_and_with_other_widths_of_whole_numbers_are_read_in_one_type(
    tmp_path: Path, one: pa.Array, other: pa.Array, expected: pa.DataType
) -> None:
    for name, more in (("a", one), ("b", other), ("c", one)):
        write(tmp_path / "in" / f"{name}.parquet", pa.table({**GOOD, "more": more}))
    kind = {"kind": "date", "precision": "day"} if pa.types.is_date(expected) else {"kind": "numeric"}
    schema, source = schema_with(more={"role": "insensitive", **kind}), find_source(str(tmp_path / "in"))
    types = check_source(source, schema).types
    copy_source(source, schema, tmp_path / "copy.parquet", CopyRules(types=types))
    found = pq.read_table(tmp_path / "copy.parquet")["more"]
    assert found.type == expected
    assert found.to_pylist() == [*one.to_pylist(), *other.to_pylist(), *one.to_pylist()]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2, 3], pa.int64()), pa.array([1, 2, 3], pa.float64())),
        (pa.array([1, 2, 3], pa.int64()), pa.array([1, 2, 3], pa.uint64())),
        (pa.array([1, 2, 3], pa.int64()), pa.array(["1", "2", "3"])),
    ],
    ids=["doubles", "no common width", "text"],
)
def test_files_of_types_that_hold_other_values_are_refused(
    tmp_path: Path, one: pa.Array, other: pa.Array
) -> None:
    for name, more in (("a", one), ("b", other)):
        write(tmp_path / f"{name}.parquet", pa.table({**GOOD, "more": more}))
    schema = schema_with(more={"role": "insensitive", "kind": "categorical"})
    with pytest.raises(SchemaError, match=r"a\.parquet and b\.parquet differ in \['more'\]"):
        check_source(find_source(str(tmp_path)), schema)


def test_a_file_of_another_type_than_its_footer_had_is_refused(tmp_path: Path) -> None:
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        write(tmp_path / "in" / f"{name}.parquet", {**GOOD, "age": pa.array(GOOD["age"], kind)})
    source = find_source(str(tmp_path / "in"))
    types = check_source(source, SCHEMA).types
    write(tmp_path / "in" / "b.parquet", {**GOOD, "age": pa.array([30.5, 40, 50])})
    with pytest.raises(SchemaError, match=r"a\.parquet and b\.parquet differ in \['age'\]"):
        copy_source(source, SCHEMA, tmp_path / "copy.parquet", CopyRules(types=types))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([6.0, 99.8, None, 0.0]),
        pa.array([600, 9980, None, 0]).cast(pa.decimal128(20)).cast(pa.decimal128(22, 2)),
        pa.array([6, 7, None, 0]),
    ],
    ids=["doubles", "decimals", "whole numbers"],
)
def test_leaves_of_a_hierarchy_over_numbers_are_compared_as_numbers(tmp_path: Path, column: pa.Array) -> None:
    """ARX writes 6.0 for the 6 of a column of doubles."""
    rows = [["0.0", "low", "*"], ["6.0", "low", "*"], ["7.0", "low", "*"], ["99.80", "high", "*"]]
    rows += [["600.0", "high", "*"], ["9980.0", "high", "*"]]
    fields = {"role": "quasi_identifier", "kind": "categorical", "hierarchy": rows}
    source = find_source(str(write(tmp_path / "charges.parquet", {"charge": column})))
    schema = DataSchema.from_dict({"charge": fields})
    copied = copy_source(source, schema, tmp_path / "copy.parquet", CopyRules(nulls="keep"))
    texts = pq.read_table(tmp_path / "copy.parquet")["charge"].to_pylist()
    assert [None if text is None else float(text) for text in texts] == [
        None if value is None else float(value) for value in column.to_pylist()
    ]
    assert {text for text in texts if text is not None} <= {row[0] for row in rows}
    assert copied.rows == len(column)


def test_numbers_whose_leaves_are_written_alike_and_texts_keep_their_type(tmp_path: Path) -> None:
    schema = DataSchema.from_dict(
        {
            "dose": {
                "role": "quasi_identifier",
                "kind": "categorical",
                "hierarchy": [["6", "low", "*"], ["99.8", "high", "*"]],
            },
            "edition": {
                "role": "quasi_identifier",
                "kind": "categorical",
                "hierarchy": [["1.0", "old", "*"], ["1", "older", "*"]],
            },
        }
    )
    write(tmp_path / "in.parquet", {"dose": [6.0, 99.8], "edition": ["1.0", "1"]})
    copy_source(find_source(str(tmp_path / "in.parquet")), schema, tmp_path / "copy.parquet")
    copied = pq.read_table(tmp_path / "copy.parquet")
    assert copied["dose"].type == pa.float64()
    assert copied["edition"].to_pylist() == ["1.0", "1"]
