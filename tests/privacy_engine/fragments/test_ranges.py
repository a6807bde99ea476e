"""Ranges and order of released records: functions of their values, and of nothing else."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from privacy_engine.engines.frames import to_frame
from privacy_engine.fragments.ranges import MOST_EQUAL, Ranges, in_order
from privacy_release.workarea.parquet import part_bytes


def awkward(size: int, rng: np.random.Generator) -> pa.Table:
    """Few values in each column, so that many records are equal; all kinds, with nulls."""

    def nulls() -> Any:
        return rng.random(size) < 0.2

    return pa.table(
        {
            "text": pa.array(rng.choice(["b", "a", "é", ""], size), mask=nulls()),
            "number": pa.array(rng.integers(-2, 2, size).astype(np.int16), mask=nulls()),
            "share": pa.array(rng.choice([0.0, -0.0, 1.5, np.nan], size), mask=nulls()),
            "flag": pa.array(rng.random(size) < 0.5, mask=nulls()),
            "day": pa.array(rng.integers(0, 3, size).astype("datetime64[D]"), mask=nulls()),
            "at": pa.array(rng.integers(0, 3, size), pa.timestamp("us"), mask=nulls()),
            "paid": pa.array(rng.integers(0, 3, size), mask=nulls()).cast(pa.decimal128(21, 2)),
        }
    )


def keys(table: pa.Table) -> list[Any]:
    """What records are compared by, in plain Python; a null, and NaN, are the largest."""
    columns = [
        [(v is None or v != v, 0 if v is None or v != v else v) for v in column]
        for column in table.to_pydict().values()
    ]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("size", [1, 2, 50, 700])
@pytest.mark.parametrize("ranges", [1, 2, 7, 40])
def test_the_range_of_a_record_is_how_many_starts_are_not_behind_it(size: int, ranges: int) -> None:
    table = awkward(size, np.random.default_rng([size, ranges]))
    found = Ranges.of_sample(to_frame(table), ranges)
    if found is None:
        assert size < ranges / MOST_EQUAL + 2
        return
    starts = keys(pa.Table.from_pylist([dict(zip(found.columns, s, strict=True)) for s in found.starts]))
    assert starts == sorted(set(starts))
    expected = [sum(start <= key for start in starts) for key in keys(table)]
    assert found.assign(to_frame(table)).tolist() == expected


def test_ranges_of_a_sample_have_about_as_many_records_each() -> None:
    rng = np.random.default_rng(3)
    table = pa.table({"a": rng.integers(0, 20, 20_000), "b": rng.integers(0, 1_000, 20_000)})
    found = Ranges.of_sample(to_frame(table.slice(0, 2_000)), 10)  # the rows are in random order
    assert found is not None
    sizes = np.bincount(found.assign(to_frame(table)))
    assert len(sizes) == 10
    # of 200 records of the sample +- 14; nine standard errors
    assert np.abs(sizes - 2_000).max() < 9 * 2_000 / np.sqrt(200)


def test_other_types_of_the_same_values_have_the_same_range() -> None:
    """A batch without nulls comes as other types of pandas than one with some."""
    table = awkward(300, np.random.default_rng(5))
    found = Ranges.of_sample(to_frame(table), 9)
    assert found is not None
    table = table.slice(0, 60)
    rows = [found.assign(to_frame(table.slice(i, 1))).item() for i in range(len(table))]
    assert rows == found.assign(to_frame(table)).tolist()


def test_equal_records_that_would_fill_many_ranges_make_none() -> None:
    frame = pd.DataFrame({"a": [1] * 90 + [2] * 10})
    assert Ranges.of_sample(frame, 10) is None
    assert Ranges.of_sample(frame, MOST_EQUAL) is not None


def test_the_order_of_records_does_not_depend_on_where_they_stood() -> None:
    table = awkward(400, np.random.default_rng(7))
    once = in_order(table)
    numbers = pc.if_else(pc.is_nan(once["share"]), 9.0, once["share"])  # NaN is the largest, before nulls
    reported = keys(once.set_column(once.schema.get_field_index("share"), "share", numbers))
    assert reported == sorted(reported)
    assert sorted(keys(table)) == sorted(keys(once))
    for seed in range(5):
        moved = table.take(np.random.default_rng(seed).permutation(len(table)))
        assert part_bytes(in_order(moved)) == part_bytes(once)  # 0.0 equals -0.0, but not in its bytes


def test_a_table_without_records_is_in_order() -> None:
    table = awkward(1, np.random.default_rng(1)).slice(0, 0)
    assert in_order(table).schema == table.schema
