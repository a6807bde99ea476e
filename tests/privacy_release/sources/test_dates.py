"""Dates and times of a source: one type in the work area whatever they come in, and no value in an error."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import copy_source
from privacy_release.sources.reading import check_source
from privacy_release.sources.records import CopyRules

MOMENTS = [dt.datetime(2020, 3, 14, 5, 6, 7), dt.datetime(1850, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]
DAYS = [moment.date() for moment in MOMENTS]


def copied(folder: Path, column: pa.Array, nulls: str = "fail", **fields: Any) -> pa.Table:
    """What the work area holds of a source of one column, and another of its number."""
    path = folder / "source.parquet"
    pq.write_table(pa.table({"at": column, "n": np.arange(len(column))}), path)
    schema = DataSchema.from_dict({"at": {"role": "quasi_identifier"} | fields, "n": {"kind": "numeric"}})
    check_source(find_source(str(path)), schema)
    copy_source(find_source(str(path)), schema, folder / "copy.parquet", CopyRules(nulls=nulls))  # type: ignore[arg-type]
    return pq.read_table(folder / "copy.parquet")


AS_DATES = {
    "date32": pa.array(DAYS, pa.date32()),
    "date64": pa.array(DAYS, pa.date64()),
    "seconds": pa.array(MOMENTS, pa.timestamp("s")),
    "microseconds in UTC": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    "an offset": pa.array(MOMENTS, pa.timestamp("us", "-00:00")),
    "text": pa.array([day.isoformat() for day in DAYS]),
    "a dictionary of text": pa.array([day.isoformat() for day in DAYS]).dictionary_encode(),
    "large text": pa.array([day.isoformat() for day in DAYS], pa.large_string()),
}


@pytest.mark.parametrize("column", AS_DATES.values(), ids=AS_DATES)
def test_every_type_of_a_date_becomes_one(tmp_path: Path, column: pa.Array) -> None:
    table = copied(tmp_path, column, kind="date", format="%Y-%m-%d")
    assert table.schema.field("at").type == pa.date32()
    assert table["at"].to_pylist() == DAYS


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_every_type_of_a_time_becomes_one(tmp_path: Path, unit: str, zone: str | None) -> None:
    table = copied(tmp_path, pa.array(MOMENTS, pa.timestamp(unit, zone)), kind="timestamp")
    assert table.schema.field("at").type == pa.timestamp("us")
    assert table["at"].to_pylist() == MOMENTS


def test_times_of_a_zone_are_reported_by_the_clock_that_is_named(tmp_path: Path) -> None:
    column = pa.array([dt.datetime(2020, 3, 14, 23, 30)], pa.timestamp("us", "America/New_York"))
    at = {
        zone: copied(tmp_path, column, kind="date", zone=zone)["at"][0].as_py()
        for zone in (None, "Asia/Tokyo")
    }
    assert at == {None: dt.date(2020, 3, 14), "Asia/Tokyo": dt.date(2020, 3, 15)}


def test_times_that_an_older_spark_wrote_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "source.parquet"
    pq.write_table(
        pa.table({"at": pa.array(MOMENTS[:2], pa.timestamp("us"))}),
        path,
        use_deprecated_int96_timestamps=True,
    )
    schema = DataSchema.from_dict({"at": {"role": "quasi_identifier", "kind": "timestamp"}})
    copy_source(find_source(str(path)), schema, tmp_path / "copy.parquet")
    assert pq.read_table(tmp_path / "copy.parquet")["at"].to_pylist() == MOMENTS[:2]


def test_no_more_than_the_precision_enters_the_work_area(tmp_path: Path) -> None:
    column = pa.array([*MOMENTS[:2], None], pa.timestamp("ns"))
    for role in ("quasi_identifier", "sensitive", "insensitive"):
        table = copied(tmp_path, column, "drop", role=role, kind="date", precision="quarter")
        assert table["at"].to_pylist()[:2] == [dt.date(2020, 1, 1), dt.date(1850, 1, 1)]


def test_what_is_released_as_it_is_keeps_its_microseconds(tmp_path: Path) -> None:
    exact = dt.datetime(2020, 3, 14, 5, 6, 7, 890_123)
    table = copied(tmp_path, pa.array([exact, None]), role="insensitive", kind="timestamp", as_is=True)
    assert table["at"].to_pylist() == [exact, None]


def test_an_empty_text_for_a_missing_date_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"1 value is not in the format.* make it null in a transform"):
        copied(tmp_path, pa.array(["2020-03-14", ""]), kind="date", format="%Y-%m-%d")


CANARY = "canary-7f3a"
WRONG_CELLS = {
    "another format": (["2020-03-14", CANARY], {"format": "%Y-%m-%d"}, "1 value is not in the format"),
    "no such day": (["2021-02-29"], {"format": "%Y-%m-%d"}, "1 value is not in the format, or not a day"),
    "beyond the calendar": (
        pa.array([2**30], pa.int32()).cast(pa.date32()),
        {},
        "1 value is before the year 1",
    ),
    "out of bounds": (
        [dt.date(1931, 5, 7)],
        {"bounds": ["1940-01-01", "2020-12-31"]},
        "1 value is out of the bounds",
    ),
    "a null": ([dt.date(2020, 1, 1), None], {}, "1 value is null"),
    "skipped by the clock": (
        ["2020-03-29 02:30"],
        {"format": "%Y-%m-%d %H:%M", "zone": "Europe/Zurich"},
        "1 value is of an hour that the clocks of the zone skipped",
    ),
}


@pytest.mark.parametrize(("cells", "fields", "words"), WRONG_CELLS.values(), ids=WRONG_CELLS)
def test_a_cell_that_does_not_fit_is_reported_by_column_count_and_remedy(
    tmp_path: Path, cells: Any, fields: dict[str, Any], words: str
) -> None:
    column = cells if isinstance(cells, pa.Array) else pa.array(cells)
    with pytest.raises(SchemaError, match=f"at: {words}.*: (correct|widen|drop)") as error:
        copied(tmp_path, column, kind="date", **fields)
    assert not [text for text in (CANARY, "1931", "2021", "02:30") if text in str(error.value)]
    assert not (tmp_path / "copy.parquet").exists()


DATE, TIME = pa.array(DAYS, pa.date32()), pa.array(MOMENTS, pa.timestamp("us"))
WRONG_TYPES = {
    "categorical dates": (DATE, {"kind": "categorical"}, "must be of kind date because it is date32"),
    "insensitive dates without a kind": (DATE, {"role": "insensitive"}, "must be of kind date"),
    "numeric times": (TIME, {"kind": "numeric"}, "must be of kind timestamp"),
    "ordinal dates": (DATE, {"kind": "ordinal"}, "must be of kind date"),
    "dates as times": (DATE, {"kind": "timestamp"}, "make it kind: date"),
    "text without a format": (
        pa.array(["2020-01-01"]),
        {"kind": "date"},
        "is text, so it must have a format",
    ),
    "numbers as dates": (pa.array([20200101]), {"kind": "date"}, "must hold dates.*cast it"),
    "truth values": (pa.array([True]), {"kind": "date", "format": "%Y"}, "must hold dates.*cast it"),
    "nulls alone": (pa.nulls(2), {"kind": "date"}, "must hold dates"),
    "a time of the day": (pa.array([1], pa.time64("us")), {"kind": "timestamp"}, "must hold dates"),
    "times without a zone for a zone": (
        TIME,
        {"kind": "date", "zone": "Europe/Budapest"},
        "must have a zone in the file because its `zone` is set, got timestamp.*remove `zone`",
    ),
    "dates for a zone": (DATE, {"kind": "date", "zone": "UTC"}, "must have a zone in the file.*got date32"),
    "an unknown zone": (
        TIME.cast(pa.timestamp("us", "Mars/Base")),
        {"kind": "timestamp"},
        "write the column in UTC",
    ),
}


@pytest.mark.parametrize(("column", "fields", "words"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_a_type_that_does_not_fit_is_refused_with_the_remedy(
    tmp_path: Path, column: pa.Array, fields: dict[str, Any], words: str
) -> None:
    if fields.get("format"):
        fields = fields | {"precision": "year"}
    with pytest.raises(SchemaError, match=f"at: .*{words}"):
        copied(tmp_path, column, **fields)


def test_what_an_error_of_a_type_proposes_is_accepted(tmp_path: Path) -> None:
    for column, kind in ((DATE, "date"), (TIME, "timestamp"), (TIME, "date")):
        assert len(copied(tmp_path, column, kind=kind, precision="month")) == len(column)
