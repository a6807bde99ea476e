"""The calendar: periods of dates and times, their nesting, their labels, and how cells are read.

A date is a whole number of days since 1970-01-01, a time of the day one of seconds, both in the proleptic
Gregorian calendar (ISO 8601) from the year 1 to 9999. Weeks are those of ISO 8601: they begin on Monday and
belong to the year of their Thursday, so they nest in no month, quarter or year.
"""

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privacy_engine.errors import SchemaError
from privacy_engine.tables.faults import Faults, ValueRule
from privacy_engine.tables.hierarchy import ROOT, Hierarchy
from privacy_engine.vocabulary import CalendarUnit

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_LEAVES = 100_000  # periods of a calendar hierarchy: days of 273 years
_DAY = 86_400  # seconds
MICROS_OF_DAY = _DAY * 10**6
_FIRST, _LAST = (int(np.datetime64(day, "D").astype(np.int64)) for day in ("0001-01-01", "9999-12-31"))
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_ONLY_NANOSECONDS = int(pd.__version__.split(".")[0]) < 3  # text is only read into the years 1678 to 2262
_MOMENT_WORDS = frozenset({"now", "today"})  # pandas reads them as the current time
_PROBE = datetime(2009, 11, 23, 17, 48, 59)
_PROBE_SECONDS = int((_PROBE - datetime(1970, 1, 1)).total_seconds())


_ORDER = {period: place for place, period in enumerate(CalendarUnit)}


def nests(fine: CalendarUnit, coarse: CalendarUnit) -> bool:
    """Return whether each period of one unit lies in one period of the other.

    >>> (
    ...     nests(CalendarUnit.DAY, CalendarUnit.WEEK),
    ...     nests(CalendarUnit.WEEK, CalendarUnit.YEAR),
    ...     nests(CalendarUnit.MONTH, CalendarUnit.MONTH),
    ... )
    (True, False, True)
    """
    return fine is coarse or (_ORDER[fine] < _ORDER[coarse] and fine is not CalendarUnit.WEEK)


@dataclass(frozen=True)
class Clock:
    """The unit in which dates or times are counted since 1970-01-01.

    Attributes:
        unit: Day for dates, second for times.

    >>> day = np.array([18335])
    >>> [str(DATES.labels(day, period)[0]) for period in ("day", "week", "quarter", "decade")]
    ['2020-03-14', '2020-W11', '2020-Q1', '2020s']
    >>> DATES.labels(DATES.end(day, CalendarUnit.QUARTER), CalendarUnit.DAY)
    ['2020-03-31']
    """

    unit: CalendarUnit

    @property
    def first(self) -> int:
        """The first day or second of the calendar."""
        return _FIRST * self.units_of_day

    @property
    def last(self) -> int:
        """The last day or second of the calendar."""
        return (_LAST + 1) * self.units_of_day - 1

    @property
    def units_of_day(self) -> int:
        """Number of days or seconds in a day."""
        return 1 if self.unit is CalendarUnit.DAY else _DAY

    def index(self, numbers: Ints, period: CalendarUnit) -> Ints:
        """Return the number of each value's period, (n,); successive periods have successive numbers."""
        days = numbers // self.units_of_day
        match period:
            case CalendarUnit.SECOND | CalendarUnit.MINUTE | CalendarUnit.HOUR:
                return (
                    numbers
                    // {CalendarUnit.SECOND: 1, CalendarUnit.MINUTE: 60, CalendarUnit.HOUR: 3600}[period]
                )
            case CalendarUnit.DAY:
                return days
            case CalendarUnit.WEEK:  # 1970-01-01 was a Thursday
                return (days + 3) // 7
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        match period:
            case CalendarUnit.MONTH:
                return months
            case CalendarUnit.QUARTER:
                return months // 3
            case CalendarUnit.YEAR:
                return months // 12
        return (months // 12 + 1970) // 10

    def starts(self, index: Ints, period: CalendarUnit) -> Ints:
        """(n,) the first day or second of each period of `index`, in the calendar."""
        match period:
            case CalendarUnit.SECOND | CalendarUnit.MINUTE | CalendarUnit.HOUR:
                numbers = (
                    index * {CalendarUnit.SECOND: 1, CalendarUnit.MINUTE: 60, CalendarUnit.HOUR: 3600}[period]
                )
            case CalendarUnit.DAY:
                numbers = index * self.units_of_day
            case CalendarUnit.WEEK:
                numbers = (index * 7 - 3) * self.units_of_day
            case _:
                in_months = {
                    CalendarUnit.MONTH: 1,
                    CalendarUnit.QUARTER: 3,
                    CalendarUnit.YEAR: 12,
                    CalendarUnit.DECADE: 120,
                }
                months = index * in_months[period] - (1970 * 12 if period is CalendarUnit.DECADE else 0)
                days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
                numbers = days * self.units_of_day
        return np.maximum(numbers, self.first)

    def start(self, numbers: Ints, period: CalendarUnit) -> Ints:
        """(n,) the first day or second of each one's period."""
        return self.starts(self.index(numbers, period), period)

    def end(self, numbers: Ints, period: CalendarUnit) -> Ints:
        """(n,) the last day or second of each one's period."""
        return np.minimum(self.starts(self.index(numbers, period) + 1, period) - 1, self.last)

    def labels(self, numbers: Ints, period: CalendarUnit) -> list[str]:
        """(n,) the label of each one's period, such as 2020-03-14, 2020-W11, 2020-03, 2020-Q1, 2020s."""
        days = (numbers // self.units_of_day).astype("datetime64[D]")
        match period:
            case CalendarUnit.SECOND | CalendarUnit.MINUTE | CalendarUnit.HOUR:
                unit = {CalendarUnit.SECOND: "s", CalendarUnit.MINUTE: "m", CalendarUnit.HOUR: "h"}[period]
                return _texts(numbers.astype("datetime64[s]").astype(f"datetime64[{unit}]"))
            case CalendarUnit.DAY | CalendarUnit.MONTH | CalendarUnit.YEAR:
                return _texts(days.astype(f"datetime64[{period[0].upper()}]"))
            case CalendarUnit.WEEK:
                thursdays = (self.index(numbers, period) * 7).astype("datetime64[D]")
                years = thursdays.astype("datetime64[Y]")
                weeks = (thursdays - years.astype("datetime64[D]")).astype(np.int64) // 7 + 1
                return [f"{y}-W{w:02}" for y, w in zip(_texts(years), weeks.tolist(), strict=True)]
            case CalendarUnit.QUARTER:
                quarters = self.index(numbers, period) % 4 + 1
                years = days.astype("datetime64[Y]")
                return [f"{y}-Q{q}" for y, q in zip(_texts(years), quarters.tolist(), strict=True)]
        return [f"{10 * decade:04}s" for decade in self.index(numbers, period).tolist()]

    def column(self, numbers: npt.NDArray[np.float64], name: Hashable = None) -> pd.Series:
        """Return days as a column of dates, seconds as a column of time stamps without a zone; NaN = null."""
        null = np.isnan(numbers)
        return self.column_of(
            np.where(null, 0, numbers).astype(np.int64) * (MICROS_OF_DAY // self.units_of_day), null, name
        )

    def column_of(self, micros: Ints, null: Flags, name: Hashable = None) -> pd.Series:
        """The same for microseconds."""
        stamps = np.where(null, np.datetime64("NaT", "us"), micros.astype("datetime64[us]"))
        column = pd.Series(stamps, name=name)
        return column.astype("date32[pyarrow]") if self.unit is CalendarUnit.DAY else column


def complete_years(start: Ints, end: Ints) -> Ints:
    """(n,) years from one day to another, as an age is counted; negative where the other is earlier.

    Args:
        start: Days since 1970-01-01, shape (n,).
        end: Likewise, shape (n,).

    >>> born, on = (
    ...     np.array(days, "datetime64[D]").astype(np.int64)
    ...     for days in (
    ...         ["2000-02-29", "2000-02-29", "2000-06-15"],
    ...         ["2001-02-28", "2001-03-01", "2000-06-14"],
    ...     )
    ... )
    >>> complete_years(born, on).tolist()
    [0, 1, -1]
    """
    days = [numbers.astype("datetime64[D]") for numbers in (start, end)]
    months = [day.astype("datetime64[M]") for day in days]
    of_month = [day - month.astype("datetime64[D]") for day, month in zip(days, months, strict=True)]
    complete = (months[1] - months[0]).astype(np.int64) - (of_month[1] < of_month[0])
    return np.asarray(complete // 12)


DATES, TIMES = Clock(CalendarUnit.DAY), Clock(CalendarUnit.SECOND)


def _texts(moments: npt.NDArray[np.datetime64]) -> list[str]:
    texts: list[str] = np.datetime_as_string(moments).tolist()
    return texts


def problem_of_calendar(periods: Sequence[CalendarUnit]) -> str | None:
    """Return why periods are not levels of a calendar, from fine to coarse; None if they are."""
    if not periods or list(periods) != sorted(set(periods), key=_ORDER.__getitem__):
        return "calendar must be a list of distinct periods, finest first"
    for fine, coarse in itertools.pairwise(periods):
        if not nests(fine, coarse):
            return (
                f"calendar must not have {fine.value} below {coarse.value}, because a {fine.value} of "
                f"ISO 8601 lies in no single {coarse.value}. Remove one of them"
            )
    return None


@lru_cache(maxsize=64)
def calendar_hierarchy(
    clock: Clock, low: int, high: int, precision: CalendarUnit, levels: tuple[CalendarUnit, ...]
) -> Hierarchy:
    """Return the periods from that of `low` to that of `high`, under those of the levels, and one root.

    Raises:
        SchemaError: If there are more than `MOST_LEAVES`.

    >>> calendar_hierarchy(DATES, 18335, 18400, CalendarUnit.MONTH, (CalendarUnit.QUARTER,)).rows[0]
    ('2020-03', '2020-Q1', '*')
    """
    first, last = clock.index(np.array([low, high]), precision).tolist()
    if last - first >= MOST_LEAVES:
        raise SchemaError(
            f"the calendar has {last - first + 1:,} periods of a {precision.value} between its bounds, more "
            f"than {MOST_LEAVES:,}. State a coarser precision, or narrower bounds"
        )
    numbers = clock.starts(np.arange(first, last + 1), precision)
    columns = [clock.labels(numbers, period) for period in (precision, *levels)]
    return Hierarchy(tuple(zip(*columns, itertools.repeat(ROOT))))  # the root never ends


_PERIOD_OF_LENGTH = {
    4: CalendarUnit.YEAR,
    7: CalendarUnit.MONTH,
    10: CalendarUnit.DAY,
    13: CalendarUnit.HOUR,
    16: CalendarUnit.MINUTE,
}


def end_of_bounds(value: object, clock: Clock, *, upper: bool) -> int | None:
    """Days or seconds of an end of public bounds; None where it is no date or time without a zone.

    Args:
        value: Date or time, or ISO text of one.
        clock: Unit that is counted.
        upper: Whether it is the upper end: then a day that bounds times counts to its last second.
    """
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, date) or getattr(value, "tzinfo", None) is not None:
        return None
    days = value.toordinal() - date(1970, 1, 1).toordinal()
    if clock.unit is CalendarUnit.DAY:
        return days
    if isinstance(value, datetime):
        return days * _DAY + value.hour * 3600 + value.minute * 60 + value.second
    return (days + 1) * _DAY - 1 if upper else days * _DAY


def period_of_label(label: str, clock: Clock) -> tuple[int, int] | None:
    """Return the first and the last day or second of a period from its label; None for other text.

    >>> period_of_label("1970-02", DATES), period_of_label("1970-W02", DATES)
    ((31, 58), (4, 10))
    """
    if found := re.fullmatch(r"(\d{4})-Q([1-4])", label):
        label, period = f"{found[1]}-{3 * int(found[2]) - 2:02}", CalendarUnit.QUARTER
    elif found := re.fullmatch(r"(\d{3}0)s", label):
        label, period = found[1], CalendarUnit.DECADE
    elif found := re.fullmatch(r"(\d{4})-W(\d{2})", label):
        try:
            label, period = (
                date.fromisocalendar(int(found[1]), int(found[2]), 1).isoformat(),
                CalendarUnit.WEEK,
            )
        except ValueError:
            return None
    elif re.fullmatch(r"\d{4}(-\d\d){0,2}|\d{4}-\d\d-\d\d[T ]\d\d(:\d\d){0,2}(\.\d+)?", label):
        period = _PERIOD_OF_LENGTH.get(len(label), CalendarUnit.SECOND)
    else:
        return None
    try:
        first = np.datetime64(label, "s").astype(np.int64).reshape(1) // (_DAY // clock.units_of_day)
    except ValueError:
        return None
    return int(first[0]), int(clock.end(first, period if nests(clock.unit, period) else clock.unit)[0])


def is_zone(name: str) -> bool:
    """Return whether the time zone database has a zone of that name.

    >>> is_zone("Europe/Zurich"), is_zone("Mars/Phobos")
    (True, False)
    """
    try:
        ZoneInfo(name)
    except (ValueError, LookupError, OSError):
        return False
    return True


def problem_of_format(form: str, clock: Clock, precision: CalendarUnit) -> str | None:
    """Return why a strptime format does not determine a period of that precision; None if it does."""
    probe = pd.Timestamp(_PROBE, tz="UTC" if "%z" in form else None)
    try:
        read = moments(pd.Series([probe.strftime(form)], dtype="str"), form)
    except ValueError:
        return "format must be a strptime format, such as %Y-%m-%d. It has an unknown or repeated directive"
    reread = DateValues(np.array([_PROBE_SECONDS * 10**6]), read.null, {})
    periods = [clock.labels(m.numbers(clock).astype(np.int64), precision) for m in (reread, read)]
    if read.wrong or periods[0] != periods[1]:
        return (
            f"format does not determine the {precision.value} of a value. Add what is missing, or "
            "state a coarser precision"
        )
    return None


@dataclass(frozen=True)
class DateValues:
    """A column that was read.

    Attributes:
        micros: Microseconds since 1970-01-01, shape (n,) int64; 0 if there is none.
        null: Whether each cell is null, shape (n,).
        wrong: Rule -> (n,) whether each cell breaks it; no cell breaks two.
    """

    micros: Ints
    null: Flags
    wrong: dict[ValueRule, Flags]

    def numbers(self, clock: Clock) -> npt.NDArray[np.float64]:
        """Days or seconds, (n,); NaN if there is none."""
        units = self.micros // (MICROS_OF_DAY if clock.unit is CalendarUnit.DAY else 10**6)
        unknown = np.logical_or.reduce([self.null, *self.wrong.values()])
        return np.where(unknown, np.nan, units)

    def faults(self, *, nullable: bool) -> Faults:
        """Count the cells that break each rule."""
        counts = {rule: int(cells.sum()) for rule, cells in self.wrong.items()}
        counts[ValueRule.NULL] = 0 if nullable else int(self.null.sum())
        return {rule: Counter({"": count}) for rule, count in counts.items() if count}


def is_dated(column: pd.Series) -> bool:
    """Return whether a column holds dates or times, in a date type or as Python objects.

    >>> is_dated(pd.Series([date(2020, 1, 1), None])), is_dated(pd.Series(["2020-01-01"]))
    (True, False)
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return is_dated(pd.Series(column.cat.categories))
    if isinstance(column.dtype, pd.ArrowDtype):
        return str(column.dtype).startswith(("date", "timestamp"))
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in ("date", "datetime")
    return pd.api.types.is_datetime64_any_dtype(column.dtype)


def only_dates(column: pd.Series) -> bool:
    """Return whether a column of dates or times has no time of day."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return only_dates(pd.Series(column.cat.categories))
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) == "date"
    return str(column.dtype).startswith("date") and isinstance(column.dtype, pd.ArrowDtype)


def moments(column: pd.Series, form: str | None = None, zone: str | None = None) -> DateValues:
    """Read a column of dates or times of any type, or of text by a format.

    A time with a zone is read on the clock of `zone`, by default UTC. A time without one is kept: it is not
    converted to another zone, so it does not matter if a clock showed it twice.

    Args:
        column: Column of dates, times, or text.
        form: Format of text in the notation of `strptime`; required for a column of text.
        zone: Time zone of the clock; text without a zone must be times that this clock showed.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    null = column.isna().to_numpy(dtype=np.bool_)
    wrong: dict[ValueRule, Flags] = {}
    if is_dated(column) or form is None:
        read = _typed(column)
    else:
        moment = column.str.strip().str.lower().isin(_MOMENT_WORDS).to_numpy(dtype=np.bool_)
        read = _parsed(column.mask(moment), form)
        wrong[ValueRule.FORMAT] = read.isna().to_numpy(dtype=np.bool_) & ~null
        if zone is not None and read.dt.tz is None:
            shown = read.dt.tz_localize(zone, nonexistent="NaT", ambiguous=np.ones(len(read), np.bool_))
            wrong[ValueRule.SKIPPED] = (shown.isna() & read.notna()).to_numpy(dtype=np.bool_)
    micros, wrong[ValueRule.CALENDAR] = _micros(read, zone)
    return DateValues(micros, null, {rule: cells for rule, cells in wrong.items() if cells.any()})


def _parsed(column: pd.Series, form: str) -> pd.Series:
    """Parse text by a format; null if it does not fit."""
    read = pd.to_datetime(column, format=form, errors="coerce", exact=True, utc="%z" in form)
    if not _ONLY_NANOSECONDS:
        return read
    missing = read.isna() & column.notna()  # including those of other centuries that fit
    seldom = {text: _strptime(text, form) for text in column[missing].unique()}
    return _objects(read.astype(object).where(~missing, column.map(seldom)), aware="%z" in form)


def _strptime(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def _typed(column: pd.Series) -> pd.Series:
    """Convert Python objects, and Arrow times, to pandas types; objects with a zone to UTC."""
    if column.dtype == object:
        aware = any(getattr(value, "tzinfo", None) is not None for value in column.dropna())
        if _ONLY_NANOSECONDS:
            return _objects(column, aware=aware)
        return pd.to_datetime(column, errors="coerce", utc=aware)
    if str(column.dtype).startswith("timestamp"):
        return column.array.__arrow_array__().to_pandas()  # type: ignore[no-any-return]
    return column


def _objects(column: pd.Series, *, aware: bool) -> pd.Series:
    """Convert Python dates and times to a pandas type that has all years."""
    kind = pa.timestamp("us", tz="UTC" if aware else None)
    return pa.array(column, from_pandas=True).cast(kind).to_pandas()  # type: ignore[no-any-return]


def _micros(column: pd.Series, zone: str | None) -> tuple[Ints, Flags]:
    """(n,) microseconds, 0 if null or out of the calendar; and which are out of it."""
    aware = False
    if isinstance(column.dtype, pd.ArrowDtype):
        days = str(column.dtype).startswith("date32")
        raw = column.astype("int32[pyarrow]" if days else "int64[pyarrow]").to_numpy(np.int64, na_value=0)
        unit = "D" if days else "ms"
    else:
        aware = column.dt.tz is not None
        naive = column.dt.tz_convert("UTC").dt.tz_localize(None) if aware else column
        unit = np.datetime_data(naive.to_numpy().dtype)[0]
        raw = np.where(naive.isna(), 0, naive.to_numpy().view(np.int64))
    whole = raw // 1000 if unit == "ns" else raw
    each = {"D": MICROS_OF_DAY, "s": 10**6, "ms": 10**3}.get(unit, 1)
    out = (whole < _FIRST * MICROS_OF_DAY // each) | (whole >= (_LAST + 1) * MICROS_OF_DAY // each)
    micros = np.where(out, 0, whole) * each
    if aware and zone is not None:
        micros = micros + _offsets(micros, zone)
        out = out | (micros < _FIRST * MICROS_OF_DAY) | (micros >= (_LAST + 1) * MICROS_OF_DAY)
    return np.where(out, 0, micros), out


def _offsets(micros: Ints, zone: str) -> Ints:
    """(n,) microseconds by which a zone's clock was ahead of UTC, also at the calendar's ends."""
    inside = np.clip(micros, (_FIRST + 2) * MICROS_OF_DAY, (_LAST - 2) * MICROS_OF_DAY)
    local = pd.DatetimeIndex(inside.astype("datetime64[us]"), tz="UTC").tz_convert(zone).tz_localize(None)
    return local.to_numpy().view(np.int64) - inside
