"""Rows that a function makes of records, counted on files: against a plain count."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.engines.coded_counts import whole_runs
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import SchemaError

KINDS = pa.schema({"0": pa.uint8(), "a value": pa.string()})


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    with LocalEngine(memory=400_000_000, spill=tmp_path) as opened:
        yield opened


def written(folder: Path, *records: int) -> list[str]:
    """Two files with these numbers of records."""
    paths = [str(folder / name) for name in ("it's one.parquet", "two.parquet")]
    for path, n in zip(paths, records, strict=True):
        pq.write_table(pa.table({"n": np.arange(n), "unread": ["canary"] * n}), path)
    return paths


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files of 300 and 4,000 records."""
    return written(tmp_path, 300, 4_000)


def remainders(records: pa.Table) -> pa.Table:
    """The remainder by 7, null where it is 0."""
    assert records.column_names == ["n"]
    left = (records.column("n").to_numpy() % 7).tolist()
    return pa.table([left, [f"r{x}" if x else None for x in left]], schema=KINDS)


def small_ones_twice(records: pa.Table) -> pa.Table:
    """Two rows for each number below 3, none for the others."""
    small = [n for n in records.column("n").to_pylist() if n < 3]
    return pa.table([small * 2, ["x"] * 2 * len(small)], schema=KINDS)


def unlike_numbers(records: pa.Table) -> pa.Table:
    n = records.column("n").to_numpy()
    return pa.table([n % 256, (n // 2).astype(str)], schema=KINDS)


def failing(records: pa.Table) -> pa.Table:
    raise SchemaError("what it says")


def counted(engine: LocalEngine, files: list[str], code: object) -> Counter[tuple[int, str]]:
    parts = list(engine.count_coded(files, ["n"], code, KINDS))  # type: ignore[arg-type]  # any of the above
    assert {tuple(part.column_names) for part in parts} <= {("0", "a value", "count")}
    rows = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    found = Counter({row[:2]: row[2] for row in rows})
    assert len(found) == len(rows)  # each in one part
    return found


def test_rows_are_counted_over_all_files_and_a_null_is_a_value(engine: LocalEngine, files: list[str]) -> None:
    numbers = [*range(300), *range(4_000)]
    expected = Counter((n % 7, f"r{n % 7}" if n % 7 else None) for n in numbers)
    assert counted(engine, files, remainders) == expected


def test_there_may_be_other_numbers_of_rows_than_of_records(engine: LocalEngine, files: list[str]) -> None:
    assert counted(engine, files, small_ones_twice) == {(0, "x"): 4, (1, "x"): 4, (2, "x"): 4}


def test_more_distinct_rows_than_a_part_holds_are_each_in_one_part(
    engine: LocalEngine, tmp_path: Path
) -> None:
    found = counted(engine, written(tmp_path, 300, 150_000), unlike_numbers)
    assert len(found) == 150_000
    assert found.total() == 150_300


def test_what_the_function_raises_comes_back_as_it_is(engine: LocalEngine, files: list[str]) -> None:
    with pytest.raises(SchemaError, match=r"^what it says$"):
        list(engine.count_coded(files, ["n"], failing, KINDS))


def test_a_file_that_is_not_there_is_named(engine: LocalEngine, files: list[str]) -> None:
    Path(files[1]).unlink()
    with pytest.raises(SchemaError, match=r"two\.parquet does not exist"):
        list(engine.count_coded(files, ["n"], remainders, KINDS))


@pytest.mark.parametrize("parts", [[[5, 5], [5], [5, 6], [6], [7]], [[5], [6], [6, 6]], [[5, 6, 6]]])
def test_no_value_of_an_ascending_column_is_in_two_parts(parts: list[list[int]]) -> None:
    runs = [part["n"].to_pylist() for part in whole_runs((pa.table({"n": part}) for part in parts), "n")]
    assert [n for run in runs for n in run] == [n for part in parts for n in part]
    assert len({value for run in runs for value in run}) == sum(len(set(run)) for run in runs)
    assert len(runs) > 1
