"""The calendar against brute force by Python's dates, and every way in which a cell is read or refused."""

import itertools
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.tables.dates import DATES, MOST_LEAVES, TIMES, Clock, calendar_hierarchy, moments, nests
from privacy_engine.tables.faults import ValueRule
from privacy_engine.vocabulary import CalendarUnit

EPOCH = date(1970, 1, 1)
OF_DAYS = [p for p in CalendarUnit if nests(CalendarUnit.DAY, p)]
days = st.dates().map(lambda day: (day - EPOCH).days)
seconds = st.datetimes().map(
    lambda at: int((at.replace(microsecond=0) - datetime(1970, 1, 1)).total_seconds())
)
clocked = st.one_of(
    st.tuples(st.just(DATES), days, st.sampled_from(OF_DAYS)),
    st.tuples(st.just(TIMES), seconds, st.sampled_from(CalendarUnit)),
)


def at(clock: Clock, number: int) -> datetime:
    step = timedelta(days=number) if clock is DATES else timedelta(seconds=number)
    return datetime(1970, 1, 1) + step


def called(moment: datetime, period: CalendarUnit) -> str:
    """The label of a period, from the standard library alone."""
    year, month = f"{moment.year:04}", f"{moment.month:02}"
    week = moment.isocalendar()
    return {
        CalendarUnit.SECOND: moment.isoformat(timespec="seconds"),
        CalendarUnit.MINUTE: moment.isoformat(timespec="minutes"),
        CalendarUnit.HOUR: moment.isoformat(timespec="hours"),
        CalendarUnit.DAY: moment.date().isoformat(),
        CalendarUnit.WEEK: f"{week.year:04}-W{week.week:02}",
        CalendarUnit.MONTH: f"{year}-{month}",
        CalendarUnit.QUARTER: f"{year}-Q{(moment.month + 2) // 3}",
        CalendarUnit.YEAR: year,
        CalendarUnit.DECADE: f"{year[:3]}0s",
    }[period]


@given(clocked)
def test_a_label_is_that_of_the_standard_library(case: tuple[Clock, int, CalendarUnit]) -> None:
    clock, number, period = case
    assert clock.labels(np.array([number]), period) == [called(at(clock, number), period)]


@given(clocked)
def test_a_period_begins_and_ends_where_its_label_changes(case: tuple[Clock, int, CalendarUnit]) -> None:
    clock, number, period = case
    own = called(at(clock, number), period)
    start, end = (int(f(np.array([number]), period)[0]) for f in (clock.start, clock.end))
    assert start <= number <= end
    assert called(at(clock, start), period) == called(at(clock, end), period) == own
    if start > clock.first:
        assert called(at(clock, start - 1), period) != own
    if end < clock.last:
        assert called(at(clock, end + 1), period) != own


@given(clocked)
def test_periods_are_numbered_one_after_the_other(case: tuple[Clock, int, CalendarUnit]) -> None:
    clock, number, period = case
    index, end = (
        int(x[0]) for x in (clock.index(np.array([number]), period), clock.end(np.array([number]), period))
    )
    assert clock.starts(np.array([index]), period)[0] == clock.start(np.array([number]), period)[0]
    if end < clock.last:
        assert clock.index(np.array([end + 1]), period)[0] == index + 1


@cache
def labels_of_days(period: CalendarUnit) -> list[str]:
    """The label of each day of 136 years."""
    every = np.arange((date(1896, 1, 1) - EPOCH).days, (date(2032, 1, 1) - EPOCH).days)
    return list(DATES.labels(every, period))


@pytest.mark.parametrize(("fine", "coarse"), [*itertools.product(OF_DAYS, OF_DAYS)])
def test_periods_nest_where_every_day_says_so(fine: CalendarUnit, coarse: CalendarUnit) -> None:
    pairs = set(zip(labels_of_days(fine), labels_of_days(coarse), strict=True))
    assert nests(fine, coarse) == (len(pairs) == len({low for low, _ in pairs}))


@given(
    st.lists(days, min_size=2, max_size=2).map(sorted),
    st.sampled_from([["month", "year"], ["quarter", "decade"]]),
)
def test_a_calendar_hierarchy_has_every_period_between_its_ends(ends: list[int], levels: list[str]) -> None:
    low, high = ends[0], min(ends[1], ends[0] + 800)
    tree = calendar_hierarchy(DATES, low, high, CalendarUnit.DAY, tuple(map(CalendarUnit, levels)))
    expected = [
        (*(called(at(DATES, day), CalendarUnit(p)) for p in ("day", *levels)), "*")
        for day in range(low, high + 1)
    ]
    assert list(tree.rows) == expected


def test_a_calendar_of_too_many_periods_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"100,001 periods of a second.*coarser precision"):
        calendar_hierarchy(TIMES, 0, MOST_LEAVES, CalendarUnit.SECOND, (CalendarUnit.DAY,))


MOMENT = datetime(2020, 3, 14, 5, 6, 7)
TEXT = "2020-03-14 05:06:07"
EVERY_TYPE = {
    "datetime64[s]": pd.Series([MOMENT, None], dtype="datetime64[s]"),
    "datetime64[ns]": pd.Series([MOMENT, None], dtype="datetime64[ns]"),
    "UTC": pd.Series([MOMENT, None], dtype="datetime64[us]").dt.tz_localize("UTC"),
    "objects": pd.Series([MOMENT, None], dtype=object),
    "objects with zones": pd.Series([MOMENT.replace(tzinfo=UTC), None], dtype=object),
    "Arrow": pd.Series([MOMENT, None], dtype=pd.ArrowDtype(pa.timestamp("ms"))),
    "categories": pd.Series([MOMENT, None], dtype="datetime64[us]").astype("category"),
    "text": pd.Series([TEXT, None], dtype="str"),
    "categories of text": pd.Series([TEXT, None], dtype="category"),
    "text as objects": pd.Series([TEXT, None], dtype=object),
}


@pytest.mark.parametrize("column", EVERY_TYPE.values(), ids=EVERY_TYPE)
def test_a_time_is_the_same_in_every_type(column: pd.Series) -> None:
    found = moments(column, "%Y-%m-%d %H:%M:%S")
    second = int((MOMENT - datetime(1970, 1, 1)).total_seconds())
    np.testing.assert_array_equal(found.numbers(TIMES), [second, np.nan])
    np.testing.assert_array_equal(found.numbers(DATES), [18335, np.nan])
    assert not found.wrong
    assert found.null.tolist() == [False, True]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_a_date_is_the_same_in_every_type(kind: pa.DataType) -> None:
    column = pd.Series([date(2020, 3, 14), None, date(1, 1, 1), date(9999, 12, 31)])
    for same in (column, column.astype(pd.ArrowDtype(kind))):
        np.testing.assert_array_equal(moments(same).numbers(DATES), [18335, np.nan, DATES.first, DATES.last])


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), min_size=1, max_size=5))
def test_a_time_with_a_zone_is_read_on_the_clock_that_is_named(found: list[datetime]) -> None:
    column = pd.Series(found, dtype="datetime64[us]").dt.tz_localize("UTC")
    shown = moments(column, zone="Europe/Zurich").numbers(TIMES)
    expected = column.dt.tz_convert("Europe/Zurich").dt.tz_localize(None).dt.floor("s")
    np.testing.assert_array_equal(pd.to_datetime(shown, unit="s").as_unit("us"), expected)


def test_times_with_different_offsets_are_one_clock() -> None:
    ahead = MOMENT.replace(tzinfo=timezone(timedelta(hours=2)))
    objects = pd.Series([ahead, (MOMENT - timedelta(hours=2)).replace(tzinfo=UTC)], dtype=object)
    texts = pd.Series(["2020-03-14 05:06:07+0200", "2020-03-14 03:06:07Z"], dtype="str")
    for column in (objects, texts):
        found = moments(column, "%Y-%m-%d %H:%M:%S%z").numbers(TIMES)
        assert found[0] == found[1]


WRONG = {
    "another format": ("14.03.2020 05:06:07", ValueRule.FORMAT),
    "no day of the calendar": ("2021-02-29 00:00:00", ValueRule.FORMAT),
    "no text of a date": ("canary", ValueRule.FORMAT),
    "empty": ("", ValueRule.FORMAT),
    "the time of the reading": ("now", ValueRule.FORMAT),
    "its day": (" Today", ValueRule.FORMAT),
    "what pandas takes for a null": ("NaT", ValueRule.FORMAT),
    "more than the format": (TEXT + " and more", ValueRule.FORMAT),
    "before the first year": (
        "0000-12-31 00:00:00",
        ValueRule.FORMAT if pd.__version__ < "3" else ValueRule.CALENDAR,  # pandas 2 does not read it at all
    ),
    "a time that the clock skipped": ("2020-03-29 02:30:00", ValueRule.SKIPPED),
}


@pytest.mark.parametrize(("text", "rule"), WRONG.values(), ids=WRONG)
def test_a_cell_that_is_no_time_breaks_one_rule(text: str, rule: ValueRule) -> None:
    found = moments(pd.Series([TEXT, text, None], dtype="str"), "%Y-%m-%d %H:%M:%S", "Europe/Zurich")
    assert {r: cells.tolist() for r, cells in found.wrong.items()} == {rule: [False, True, False]}
    assert np.isnan(found.numbers(TIMES)).tolist() == [False, True, True]


def test_a_time_that_the_clock_showed_twice_is_taken_as_it_is() -> None:
    column = pd.Series(["2020-10-25 02:30:00"], dtype="str")
    assert not moments(column, "%Y-%m-%d %H:%M:%S", "Europe/Zurich").wrong


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("s", "UTC")], ids=str)
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_a_number_beyond_the_calendar_is_counted_and_not_read(kind: pa.DataType, zone: str | None) -> None:
    raw = pa.array([2**30, -(2**30), 0, None], pa.int32() if kind == pa.date32() else pa.int64())
    beyond = raw if kind == pa.date32() else pa.array([2**62, -(2**62), 0, None])
    column = beyond.cast(kind).to_pandas(types_mapper={pa.date32(): pd.ArrowDtype(pa.date32())}.get)
    found = moments(column, zone=zone)
    assert found.wrong[ValueRule.CALENDAR].tolist() == [True, True, False, False]
    assert np.isnan(found.numbers(DATES)).tolist() == [True, True, False, True]


def test_a_last_second_of_the_calendar_is_beyond_it_on_a_clock_that_is_ahead() -> None:
    column = pd.Series([datetime(9999, 12, 31, 23, 59, 59)], dtype="datetime64[s]").dt.tz_localize("UTC")
    assert not moments(column, zone="America/New_York").wrong
    assert moments(column, zone="Asia/Tokyo").wrong[ValueRule.CALENDAR].all()
