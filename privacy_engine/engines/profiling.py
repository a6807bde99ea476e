"""Statistics of a column: where to cut it, and entries for a draft of a schema, such as common values."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.types as t

from privacy_engine.engines.class_sql import Source
from privacy_engine.engines.engine import Files
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.parquet import batches
from privacy_engine.tables.columns import factorize, floats
from privacy_engine.tables.dates import DATES, TIMES, moments
from privacy_engine.vocabulary import CalendarUnit, Kind

# Text formats that are tried for dates; if several fit, the first.
FORMATS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S%z",
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%dT%H:%M:%S.%f%z",
)
# Whole numbers that are tried for dates, and their form: fewer digits would fit the format as well.
DIGITS, _AS_DIGITS = "%Y%m%d", r"(?:19|20)\d{6}"
_CODE, _CODES_FROM = 6, 100_000  # least length of a code, as text and as a number
_GLANCE = 100  # number of values by which most formats are ruled out
SAMPLE, SEED = 1_000_000, 0  # size and seed of the sample from which columns are cut


@dataclass(frozen=True, kw_only=True)
class DatesProfile:
    """A column of dates or times.

    Attributes:
        kind: `date` if no value has a time of the day, else `timestamp`.
        formats: Text formats that all values fit.
        decades: First and last day of the decades that contain all values, as ISO text; None without values.
        blank: Number of empty texts, which are not dates.
        shifted: Whether all times of the day are the same, or two that are an hour apart, and not all 00:00:
            midnights of another clock look so.
    """

    kind: Kind
    formats: tuple[str, ...] = ()
    decades: tuple[str, str] | None = None
    blank: int = 0
    shifted: bool = False


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """A column in numbers.

    Attributes:
        name: Name of the column.
        rows, nulls, distinct: Numbers of records, of records without a value, and of distinct values.
        number: Whether the column has numbers, which truth values are not.
        whole: Whether there are finite numbers and all of them are whole.
        extent: Smallest and largest number; None if there is none.
        common: Values of a column without numbers that at least the requested number of records have, as
            text, ascending, limited to the requested number of values.
        codes: Whether all values are whole numbers or texts of at least six digits or characters, among them
            a digit. Numbers of persons and accounts are; ages, postcodes of five digits and names are not.
        dates: Profile of the dates if all values are dates or times.
        unreadable: Type of the column if no attribute can have it; else None.
    """

    name: str
    rows: int
    nulls: int
    distinct: int
    number: bool
    whole: bool
    extent: tuple[float, float] | None
    common: tuple[str, ...]
    codes: bool = False
    dates: DatesProfile | None = None
    unreadable: str | None = None


def profile_sql(source: Source, name: str) -> str:
    """Return a query for ``n`` records, ``nulls``, ``d`` distinct values, ``codes``, and those of numbers."""
    more = ""
    if is_number(source.kind(name)):
        known = "isfinite(v::DOUBLE)"
        more = (
            ", min(v)::DOUBLE AS low, max(v)::DOUBLE AS high, "
            f"coalesce(bool_and(v = round(v)) FILTER ({known}), false) AS whole, "
            f"coalesce(bool_and(v >= {_CODES_FROM} AND v = round(v)), false) AS codes"
        )
    elif t.is_string(source.kind(name)):
        more = f", coalesce(bool_and(length(v) >= {_CODE} AND regexp_matches(v, '[0-9]')), false) AS codes"
    return (
        "SELECT coalesce(sum(n), 0)::BIGINT AS n, coalesce(sum(n) FILTER (v IS NULL), 0)::BIGINT AS nulls, "
        f"count(v) AS d{more} FROM ({_values(source, name)})"
    )


def common_sql(source: Source, name: str, least: int, most: int) -> str:
    """Return a query for values that at least a number of records have, limited to a number of values."""
    return f"SELECT v FROM ({_values(source, name)}) WHERE n >= {least} AND v IS NOT NULL LIMIT {most}"


def column_profile(
    source: Source, name: str, counted: pa.Table, common: pa.Table | None, dates: DatesProfile | None
) -> ColumnProfile:
    """Build a profile from the rows of `profile_sql`, and of `common_sql` if the column has no numbers."""
    kind = source.kind(name)
    known = is_number(kind) or t.is_string(kind) or t.is_boolean(kind) or dates is not None
    (row,) = counted.to_pylist()
    texts: list[str] = []
    if common is not None and known:  # nested values have no text
        texts = factorize(to_frame(common.cast(pa.schema([("v", source.kind(name))])))["v"]).texts
    return ColumnProfile(
        name=name,
        rows=row["n"],
        nulls=row["nulls"],
        distinct=row["d"],
        number=is_number(source.kind(name)),
        whole=row.get("whole", False),
        extent=None if row.get("low") is None else (row["low"], row["high"]),
        common=tuple(sorted(texts)),
        codes=row.get("codes", False),
        dates=dates,
        unreadable=None if known else str(kind),
    )


def dates_profile(files: Files, name: str, kind: pa.DataType) -> DatesProfile | None:
    """Profile a column of dates or times, text in a format, or numbers like 20150317; else return None."""
    typed = t.is_date(kind) or t.is_timestamp(kind)
    whole = t.is_integer(kind) or (t.is_decimal128(kind) and kind.scale == 0)
    forms: list[str | None] = (
        [None] if typed else [*FORMATS] if t.is_string(kind) else [DIGITS] if whole else []
    )
    ends: dict[str | None, list[float]] = {form: [] for form in forms}
    timed: set[str | None] = set()
    blank, of_day = 0, {form: np.zeros(0) for form in forms}
    for batch in batches(files, [name]) if forms else ():
        read_as = batch.column(name).cast(pa.string()) if whole else batch.column(name)
        column = to_frame(pa.table({name: read_as}))[name].dropna()
        if whole and not column.str.fullmatch(_AS_DIGITS).all():
            return None
        if not typed:
            empty = column.str.strip() == ""
            blank, column = blank + int(empty.sum()), column[~empty]
            glance = column.iloc[:_GLANCE]
            forms = [form for form in forms if not moments(glance, form).wrong]
        for form in [*forms]:
            read = moments(column, form)
            if read.wrong and not typed:
                forms.remove(form)
                continue
            seconds = read.numbers(TIMES)[~np.isnan(read.numbers(TIMES))]
            ends[form] += [seconds.min(), seconds.max()] if len(seconds) else []
            if (seconds % 86_400).any():
                timed.add(form)
            if len(of_day[form]) <= 2:
                of_day[form] = np.union1d(of_day[form], seconds % 86_400)
        if not forms:
            return None
    if not forms or (not typed and not ends[forms[0]]):
        return None
    chosen = forms[0]
    return DatesProfile(
        kind=Kind.TIMESTAMP if chosen in timed else Kind.DATE,
        formats=tuple(form for form in forms if form is not None),
        decades=_decades(ends[chosen]),
        blank=blank,
        shifted=chosen in timed and _are_midnights(of_day[chosen]),
    )


def _are_midnights(of_day: npt.NDArray[np.float64]) -> bool:
    """Return whether distinct times of day, (n,) ascending seconds, may be midnights of another clock.

    >>> _are_midnights(np.array([0.0, 82_800.0])), _are_midnights(np.array([0.0, 43_200.0]))
    (True, False)
    """
    return len(of_day) <= 2 and np.ptp(of_day) in (0, 3_600, 82_800)  # with and without summer time


def _decades(seconds: list[float]) -> tuple[str, str] | None:
    if not seconds:
        return None
    days = np.array([min(seconds), max(seconds)], dtype=np.int64) // 86_400
    low, high = DATES.start(days[:1], CalendarUnit.DECADE), DATES.end(days[1:], CalendarUnit.DECADE)
    return DATES.labels(low, CalendarUnit.DAY)[0], DATES.labels(high, CalendarUnit.DAY)[0]


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this type has numbers in a frame."""
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal128(kind))


def _values(source: Source, name: str) -> str:
    value = source.value(name)
    return f"SELECT {value} AS v, count(*) AS n FROM {source.sql} GROUP BY {value}"


def cuts(sample: pd.Series, parts: int) -> npt.NDArray[np.float64]:
    """(<= parts - 1,) ascending values of the column that cut it into parts of about equal size.

    They come from a sample of the column, so every engine returns the same ones.

    >>> cuts(pd.Series([5, None, 1, 2, 2]), 4).tolist()
    [1.0, 2.0]
    """
    values = floats(sample)
    values = values[~np.isnan(values)]
    if not len(values):
        return values
    return np.unique(np.quantile(values, np.arange(1, parts) / parts, method="inverted_cdf"))
