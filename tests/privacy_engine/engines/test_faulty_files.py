"""Files that the engine reads by path: damaged, encrypted or misleading ones are refused in clear words."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from privacy_engine.engines.local import LocalEngine
from privacy_engine.engines.parquet import batches
from privacy_engine.errors import PrivacyEngineError, SchemaError
from tests.faulty_parquet import (
    PEOPLE,
    ROWS,
    flipped,
    with_broken_text,
    with_number,
    write_encrypted,
    written,
)

Ask = Callable[[LocalEngine, list[str]], object]
# What an engine is asked, by pyarrow or by DuckDB.
ASKED: dict[str, Ask] = {
    "records": lambda engine, files: list(batches(files)),
    "sample": lambda engine, files: engine.sample(files, 10, 1),
    "classes": lambda engine, files: engine.class_sizes(files, ["zip"]),
    "order": lambda engine, files: list(engine.ordered(files)),
}
requested = pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)


def refused(local: LocalEngine, ask: Ask, file: Path) -> str:
    """Why a file is refused; no value of it is quoted."""
    with pytest.raises(SchemaError) as caught:
        ask(local, [str(file)])
    assert "canary" not in str(caught.value)
    return str(caught.value)


@requested
def test_text_that_is_not_utf8_is_refused(local: LocalEngine, tmp_path: Path, ask: Ask) -> None:
    with_broken_text(tmp_path / "people.parquet")
    assert "is not UTF-8" in refused(local, ask, tmp_path / "people.parquet")


@requested
@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_named_as_such(
    local: LocalEngine, tmp_path: Path, ask: Ask, plaintext_footer: bool
) -> None:
    write_encrypted(tmp_path / "people.parquet", plaintext_footer=plaintext_footer)
    why = refused(local, ask, tmp_path / "people.parquet")
    assert "people.parquet is encrypted with Parquet's own encryption" in why


@requested
@pytest.mark.parametrize("rows", [-5, 2**62, 0])
def test_a_footer_that_contradicts_itself_is_refused(
    local: LocalEngine, tmp_path: Path, ask: Ask, rows: int
) -> None:
    file = tmp_path / "people.parquet"
    file.write_bytes(with_number(written(PEOPLE, store_schema=False), ROWS, rows, times=1))
    assert "people.parquet has a damaged footer" in refused(local, ask, file)


def test_fewer_records_than_the_footer_tells_of_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    file.write_bytes(with_number(written(PEOPLE, store_schema=False), ROWS, ROWS + 1))
    with pytest.raises(SchemaError, match=f"its footer has {ROWS + 1} records, the file {ROWS}"):
        list(batches([str(file)]))


def test_a_page_that_does_not_have_its_checksum_is_refused(tmp_path: Path) -> None:
    data = bytearray(written(PEOPLE, compression="none", use_dictionary=False, write_page_checksum=True))
    data[data.index("N3é".encode())] ^= 1
    (tmp_path / "people.parquet").write_bytes(data)
    assert pq.read_table(tmp_path / "people.parquet").num_rows == ROWS  # nothing else would notice
    with pytest.raises(SchemaError, match="must be a whole Parquet file"):
        list(batches([str(tmp_path / "people.parquet")]))


@pytest.mark.slow
def test_a_turned_bit_raises_nothing_but_errors_of_ours(local: LocalEngine, tmp_path: Path) -> None:
    refusals = 0
    for number, (_, data) in enumerate(flipped(144, seed=5)):
        file = tmp_path / f"{number}.parquet"
        file.write_bytes(data)
        for ask in ASKED.values():
            try:
                ask(local, [str(file)])
            except PrivacyEngineError:
                refusals += 1
    assert refusals > 100
