"""A source that is damaged, encrypted or made to mislead is refused in clear words, and no copy is left."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import PrivacyEngineError, SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import copy_source
from privacy_release.sources.reading import check_source
from privacy_release.sources.records import CopyRules
from tests.faulty_parquet import (
    PEOPLE,
    ROWS,
    WAYS,
    flipped,
    with_broken_text,
    with_number,
    write_encrypted,
    written,
)

SCHEMA = DataSchema.from_dict(
    {
        "zip": {"role": "quasi_identifier", "kind": "categorical"},
        "illness": {"role": "sensitive", "kind": "categorical"},
        "weight": {"role": "insensitive", "kind": "numeric"},
    }
)
TWO = SCHEMA.select(["zip", "illness"])
ZIP = DataSchema.from_dict({"zip": {"role": "quasi_identifier", "kind": "categorical"}})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the source is."""
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw" / "people.parquet"


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """What Arrow allocates in this test alone: the peak of the default pool is that of the whole process."""
    default = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(default)
    pa.set_memory_pool(pool)
    yield pool
    pa.set_memory_pool(default)


def copy(file: Path, schema: DataSchema = SCHEMA, **options: Any) -> pa.Table:
    """What comes of a file in the work area; nothing else is left there."""
    folder = file.parents[1] / "work"
    folder.mkdir(exist_ok=True)
    target = folder / "copy.parquet"
    target.unlink(missing_ok=True)
    try:
        source = find_source(str(file))
        check_source(source, schema, **options)
        copy_source(source, schema, target, CopyRules(**options))
        return pq.read_table(target)
    finally:
        assert set(folder.iterdir()) <= {target}


def refused(file: Path, schema: DataSchema = SCHEMA, **options: Any) -> str:
    """Why a file is refused; no value of it is quoted, and no copy is left."""
    with pytest.raises(SchemaError) as caught:
        copy(file, schema, **options)
    assert "canary" not in str(caught.value)
    assert not list((file.parents[1] / "work").iterdir())
    return str(caught.value)


def test_text_that_is_not_utf8_is_refused_with_column_and_count(file: Path) -> None:
    with_broken_text(file)
    assert refused(file, TWO) == (
        "people.parquet, records 1 to 5: zip: the text of 2 records is not UTF-8. Encode it "
        "as UTF-8 and write the file again"
    )


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_named_as_such(file: Path, plaintext_footer: bool) -> None:
    write_encrypted(file, plaintext_footer=plaintext_footer)
    assert "people.parquet is encrypted with Parquet's own encryption" in refused(file)


def test_columns_that_are_not_encrypted_can_be_read(file: Path) -> None:
    write_encrypted(file, plaintext_footer=True)
    rest = SCHEMA.select(["illness", "weight"])
    assert copy(file, rest, columns=["illness", "weight"]).num_rows == ROWS


# Each compression, encoding, version and use of checksums.
FEW = [WAYS[12 * number + 4 * (number % 3) + number % 4] for number in range(6)]


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=str(way), marks=[] if way in FEW else [pytest.mark.slow]) for way in WAYS],
)
def test_a_whole_file_of_any_encoding_is_read(file: Path, way: dict[str, Any]) -> None:
    file.write_bytes(written(PEOPLE, row_group_size=70, **way))
    assert copy(file).equals(PEOPLE)


@pytest.mark.slow
def test_a_turned_bit_is_an_error_or_changes_nothing_where_pages_have_checksums(file: Path) -> None:
    found: Counter[str] = Counter()
    for way, data in flipped(360, seed=4):
        file.write_bytes(data)
        try:
            same = copy(file).equals(PEOPLE)
        except PrivacyEngineError as error:
            found[type(error).__name__] += 1
        else:
            assert same or not way["write_page_checksum"], way
            found["equal" if same else "no checksum"] += 1
    assert found["SchemaError"] > 100
    assert found["equal"] > 10


def test_a_page_that_does_not_have_its_checksum_is_refused(file: Path) -> None:
    data = bytearray(written(PEOPLE, compression="none", use_dictionary=False, write_page_checksum=True))
    data[data.index("N3é".encode())] ^= 1
    file.write_bytes(data)
    assert "people.parquet must be a whole Parquet file" in refused(file)


def test_a_file_that_is_cut_off_anywhere_is_refused(file: Path) -> None:
    data = written(PEOPLE)
    for length in range(0, len(data), 97):
        file.write_bytes(data[:length])
        assert "people.parquet must be a whole Parquet file" in refused(file)


@pytest.mark.parametrize("rows", [-5, 2**62, 0, ROWS - 1])
def test_a_footer_that_contradicts_itself_is_refused(file: Path, rows: int) -> None:
    file.write_bytes(with_number(written(PEOPLE, store_schema=False), ROWS, rows, times=1))
    why = refused(file)
    assert f"people.parquet has a damaged footer: {rows:,} records in total, but {ROWS} in 1 row" in why


def test_a_footer_that_tells_of_more_records_than_there_are_is_refused(file: Path) -> None:
    file.write_bytes(with_number(written(PEOPLE, store_schema=False), ROWS, ROWS + 1))
    assert f"its footer has {ROWS + 1} records, the file {ROWS}" in refused(file)


def test_a_file_of_absurdly_many_columns_is_refused_in_few_words(file: Path) -> None:
    pq.write_table(pa.table({f"c{i}": [0] for i in range(10_001)}), file)
    assert refused(file) == (
        "people.parquet must have at most 10,000 columns, got 10,001. Write the columns that a release "
        "requires to a separate file"
    )


def test_a_deeply_nested_type_is_refused_in_few_words(file: Path) -> None:
    kind = pa.int64()
    for _ in range(40):
        kind = pa.struct([("a_name_of_some_length", kind)])
    pq.write_table(pa.table({"zip": pa.array([], kind)}), file)
    why = refused(file, ZIP)
    assert "zip: must be text, a number or a truth value, got struct<" in why
    assert len(why) < 300


def bomb(file: Path) -> None:
    """Some hundred bytes that are a hundred gigabytes of text."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 2**20]))
    pq.write_table(pa.table({"zip": text}), file, store_schema=False, compression="zstd")


def test_a_bomb_that_its_footer_does_not_tell_of_is_refused_before_it_is_unfolded(
    file: Path, pool: pa.MemoryPool
) -> None:
    bomb(file)
    why = refused(file, ZIP)
    assert f"must expand to at most 1,000 times its {file.stat().st_size} bytes, got 104,85" in why
    assert "raise max_expansion" in why
    assert 0 < pool.max_memory() < 2**30


def test_a_bomb_that_its_footer_tells_of_is_refused_before_it_is_read(file: Path) -> None:
    small = written(PEOPLE, store_schema=False, use_dictionary=False)
    size = pq.read_metadata(pa.BufferReader(small)).row_group(0).total_byte_size
    file.write_bytes(with_number(small, size, 2**40))
    source = find_source(str(file))
    with pytest.raises(
        SchemaError, match=r"must expand to at most 1,000 times .* got 1,099,511,627,776 bytes"
    ):
        check_source(source, SCHEMA)
    check_source(source, SCHEMA, max_expansion=2**40)
