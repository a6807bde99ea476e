"""Dates in a schema: how they are read, cut, shifted and generalized, and what is derived from them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError
from privacy_engine.tables.dates import (
    DATES,
    MICROS_OF_DAY,
    Clock,
    DateValues,
    calendar_hierarchy,
    complete_years,
    end_of_bounds,
    is_dated,
    is_zone,
    moments,
    nests,
    only_dates,
    problem_of_calendar,
    problem_of_format,
)
from privacy_engine.tables.direct_identifiers import Scope, require_texts, scope_of
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.vocabulary import CalendarUnit, counted

Bounds = tuple[float, float]
Floats = npt.NDArray[np.float64]

MOST_DAYS = 36_500  # most days by which dates are shifted, about a century


@dataclass(frozen=True, kw_only=True)
class Shift:
    """Shift of a person's dates when a source is read: all by the same keyed number of days.

    It is a disguise and no guarantee: anyone who has the key, or knows one true date of a person, knows them
    all.

    Attributes:
        days: Limit: the shift is one of -days .. -1 and 1 .. days, all equally likely. It is never 0, so that
            no one's dates stay unchanged.
        scope: Where a person's dates are shifted by the same number.
        connection: Airflow connection whose password is the key.
        series: Name of the series of releases that belong together; None: those of one specification.

    Raises:
        SchemaError: If a part is of the wrong type.
    """

    days: int
    scope: Scope
    connection: str
    series: str | None = None

    def __post_init__(self) -> None:
        require_texts("shift", connection=self.connection, series=self.series)
        if type(self.days) is not int or not 1 <= self.days <= MOST_DAYS:
            raise SchemaError(f"shift: days must be a whole number from 1 to {MOST_DAYS:,}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``."""
        values = {"connection": self.connection, "days": self.days, "scope": self.scope.value}
        return values if self.series is None else values | {"series": self.series}

    @classmethod
    def from_dict(cls, given: Any) -> "Shift":
        """Read a mapping.

        Raises:
            SchemaError: If it is not a mapping, or has unknown or missing fields.
        """
        needed = {"connection", "days", "scope"}
        if not isinstance(given, Mapping) or not needed <= set(given) <= needed | {"series"}:
            raise SchemaError("shift must be a mapping with connection, days, scope and optionally series")
        return cls(**{**given, "scope": scope_of("shift", given["scope"])})


class DateSpan(StrEnum):
    """A number derived from dates; times count by their day, on the clock that they are read by."""

    YEARS_BETWEEN = "years_between"  # complete years from the first day to the second
    DAYS_BETWEEN = "days_between"  # days from the first day to the second
    DAYS_SINCE_FIRST = "days_since_first"  # days from the earliest day of the person to that of the record


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """How a column of whole numbers is derived from true dates when a source is read.

    Nothing is derived from a null. If the second day is earlier, numbers are negative; years are rounded
    down, so less than a year earlier is -1. Someone born on 29 February is a year older from 1 March in a
    year without that day.

    Attributes:
        span: Number that is derived.
        of: Columns to use: two date columns, or one and an ISO date. `days_since_first` takes one column.

    Raises:
        SchemaError: If there are other columns.

    >>> Derivation(span="years_between", of=("born", "2026-01-01")).columns
    ('born',)
    """

    span: DateSpan
    of: tuple[str, ...]

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "span", choice(DateSpan, self.span, "derive"))
        except ValueError as error:
            raise SchemaError(str(error)) from None
        one, given = self.span is DateSpan.DAYS_SINCE_FIRST, tuple[object, ...](self.of)
        if len(given) != (1 if one else 2) or not all(isinstance(name, str) and name for name in given):
            ends = "the name of a column" if one else "two columns, or a column and a day such as 2026-01-01"
            raise SchemaError(f"derive: {self.span.value} requires {ends}")
        if not self.columns:
            raise SchemaError(f"derive: {self.span.value} requires at least one column of the source")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it requires, without ISO dates."""
        return tuple(name for name in self.of if _day(name) is None)

    def numbers(self, days: Mapping[str, Floats], first: Floats | None = None) -> pd.Series:
        """(n,) whole numbers; null if a day is null.

        Args:
            days: Column -> (n,) days since 1970-01-01; NaN = null.
            first: First day of the person of each record, for `days_since_first`, shape (n,).
        """
        ends = [
            days[name] if (day := _day(name)) is None else np.array([day], np.float64) for name in self.of
        ]
        if self.span is DateSpan.DAYS_SINCE_FIRST:
            assert first is not None
            ends = [first, *ends]
        known = ~(np.isnan(ends[0]) | np.isnan(ends[1]))
        start, end = (np.where(known, moment, 0).astype(np.int64) for moment in ends)
        numbers = complete_years(start, end) if self.span is DateSpan.YEARS_BETWEEN else end - start
        return pd.Series(numbers, dtype="Int64").mask(~known)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``."""
        return {self.span.value: self.of[0] if self.span is DateSpan.DAYS_SINCE_FIRST else list(self.of)}

    @classmethod
    def from_dict(cls, given: Any) -> "Derivation":
        """Read ``{span: columns}``; a day may be a date.

        Raises:
            SchemaError: If it is anything else.
        """
        if not isinstance(given, Mapping) or len(given) != 1:
            raise SchemaError(
                f"derive must be a mapping with one of {[span.value for span in DateSpan]}, such as "
                "`{years_between: [birth_date, 2026-01-01]}`"
            )
        ((span, of),) = given.items()
        listed = of if isinstance(of, list | tuple) else [of]
        days = [end.isoformat() if type(end) is date else end for end in listed]
        return cls(span=span, of=tuple(days))


def _day(name: str) -> int | None:
    """Return the days since 1970-01-01 of an ISO date; None for any other text."""
    return end_of_bounds(name, DATES, upper=False) if len(name) == 10 else None


@dataclass(frozen=True, kw_only=True)
class DateForm:
    """The fields of an attribute of kind date or timestamp that other kinds do not have.

    Values are cut to the first day or second of their period before any further processing.

    Attributes:
        clock: Unit: days for a date, seconds for a timestamp.
        format: Format of a text column in the notation of `strptime`; None for other columns.
        zone: Time zone of the clock on which times with a zone are read, such as Europe/Berlin; None: UTC.
        precision: Period to which values are cut; None: the finest period of the calendar, else a day or a
            second.
        calendar: Periods in which a quasi-identifier is generalized, finest first; empty: in intervals.
        bin: Period of a public bin, for methods that need bins.
        as_is: Whether an insensitive attribute is released as exactly as in the source.
        shift: Shift of the values before they are cut; None: no shift, or already done.

    Raises:
        SchemaError: If the parts contradict each other.

    >>> DateForm(clock=DATES, calendar=("month", "year")).cut_to
    <CalendarUnit.MONTH: 'month'>
    """

    clock: Clock
    format: str | None = None
    zone: str | None = None
    precision: CalendarUnit | None = None
    calendar: tuple[CalendarUnit, ...] = ()
    bin: CalendarUnit | None = None
    as_is: bool = False
    shift: Shift | None = None

    def __post_init__(self) -> None:
        try:
            for name in ("precision", "bin"):
                if getattr(self, name) is not None:
                    object.__setattr__(self, name, choice(CalendarUnit, getattr(self, name), name))
            periods = tuple(choice(CalendarUnit, period, "calendar") for period in self.calendar)
        except ValueError as error:
            raise SchemaError(str(error)) from None
        object.__setattr__(self, "calendar", periods)
        if problem := self._contradiction():
            raise SchemaError(problem)

    def _contradiction(self) -> str | None:
        unit, own = self.clock.unit, self.cut_to
        for name, period in (("precision", own), ("bin", self.bin), ("calendar", (*self.calendar, own)[0])):
            if period is not None and not nests(unit, period):
                return f"{name} must be a day or coarser, got {period.value}. A date has no time of day"
        if self.calendar and (problem := problem_of_calendar(self.calendar)):
            return problem
        for name, period in (("calendar", self.calendar[0] if self.calendar else None), ("bin", self.bin)):
            if period is not None and not nests(own, period):
                return (
                    f"{name} must not have a period finer than the precision, or one that the precision does "
                    "not nest in"
                )
        if self.as_is and (self.precision is not None or self.calendar):
            return "as_is releases values unchanged. Remove precision and calendar, or as_is"
        if self.zone is not None and not is_zone(self.zone):
            return "zone must be one of the time zone database, such as Europe/Berlin"
        return problem_of_format(self.format, self.clock, own) if self.format is not None else None

    @property
    def cut_to(self) -> CalendarUnit:
        """The period to whose start values are cut."""
        return self.precision or (self.calendar[0] if self.calendar else self.clock.unit)

    def bounds(self, given: Any) -> Bounds | None:
        """Return public bounds in days or seconds, each cut like values; None if these are not bounds.

        >>> DateForm(clock=DATES, precision="month").bounds(["1970-01-20", "1970-02-28"])
        (0.0, 31.0)
        """
        if not isinstance(given, list | tuple) or len(given) != 2:
            return None
        ends = [
            int(end) if type(end) in (int, float) else end_of_bounds(end, self.clock, upper=upper)
            for end, upper in zip(given, (False, True), strict=True)
        ]
        if any(end is None or not self.clock.first <= end <= self.clock.last for end in ends):
            return None
        low, high = self.clock.start(np.array(ends, dtype=np.int64), self.cut_to).tolist()
        return float(low), float(high)

    def widened(self, bounds: Bounds) -> Bounds:
        """Return bounds, in days or seconds, that also contain shifted values, even beyond the calendar."""
        last = self.clock.end(np.array(bounds[1:], np.int64), self.cut_to)
        return bounds[0] - self._reach, float(last[0]) + self._reach

    @property
    def _reach(self) -> int:
        """The largest shift of a value, in days or seconds."""
        return self.clock.units_of_day * self.shift.days if self.shift else 0

    def bounds_text(self, bounds: Bounds) -> list[str]:
        """Format public bounds as ISO text: the first and the last day or second inside."""
        low, high = np.array(bounds, dtype=np.int64)
        return self.clock.labels(np.array([low, self.clock.end(high, self.cut_to)]), self.clock.unit)

    def type_problem(self, column: pd.Series) -> str | None:
        """Return the fault in the type of a column, with the remedy; None if it fits."""
        if is_dated(column):
            if self.clock != DATES and only_dates(column):
                return f"must have a time of day as a timestamp, got {column.dtype}. Make it kind: date"
            return None
        if not _is_text(column):
            return f"must hold dates, times or text with a format, got {column.dtype}. Cast it in the source"
        if self.format is None:
            return "is text, so it must have a format. State it, such as format: '%Y-%m-%d'"
        return None

    def read(self, column: pd.Series) -> DateValues:
        """Read the moments of a column of the right type; values that break a rule are counted."""
        return moments(column, self.format, self.zone)

    def numbers(self, column: pd.Series) -> npt.NDArray[np.float64]:
        """(n,) days or seconds of the start of each value's period; NaN = null, or not a date."""
        return self.cut(self.read(column).numbers(self.clock))

    def cut(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(n,) the start of each one's period; NaN stays."""
        known = ~np.isnan(numbers)
        out = numbers.copy()
        out[known] = self.clock.start(numbers[known].astype(np.int64), self.cut_to)
        return out

    def normal(self, column: pd.Series) -> pd.Series:
        """Return the column in the form used after ingest: dates, or time stamps without a zone, cut."""
        if self.as_is and self.clock != DATES:
            found = self.read(column)
            return self.clock.column_of(found.micros, found.null, column.name)
        return self.clock.column(self.numbers(column), column.name)

    def shifted(self, column: pd.Series, days: npt.NDArray[np.int64]) -> pd.Series:
        """Return the column with each value shifted by its number of days in (n,) `days`, not cut.

        Raises:
            SchemaError: If values are too close to an end of the calendar; the message has their number.
        """
        found, reach = self.read(column), self._reach
        numbers = found.numbers(self.clock)
        near = int(((numbers < self.clock.first + reach) | (numbers > self.clock.last - reach)).sum())
        if near:
            raise SchemaError(
                f"{counted(near, 'date is', 'dates are')} too close to year 1 or 9999 to be shifted. "
                "Make them null in the source if they are not real dates"
            )
        micros = found.micros // MICROS_OF_DAY * MICROS_OF_DAY if self.clock == DATES else found.micros
        return self.clock.column_of(micros + days * MICROS_OF_DAY, found.null, column.name)

    def labels(self, numbers: npt.NDArray[np.float64]) -> tuple[str, ...]:
        """Return the labels of the periods of days or seconds."""
        return tuple(self.clock.labels(numbers.astype(np.int64), self.cut_to))

    def last(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(n,) the last day or second of each one's period; NaN stays."""
        out, known = numbers.copy(), ~np.isnan(numbers)
        out[known] = self.clock.end(numbers[known].astype(np.int64), self.cut_to)
        return out

    def places(self, numbers: npt.NDArray[np.float64], low: float) -> npt.NDArray[np.int64]:
        """Return the number of periods from the period of `low` to each value's, (n,)."""
        ends = [np.asarray(x, dtype=np.int64) for x in (numbers, [low])]
        own, first = (self.clock.index(x, self.cut_to) for x in ends)
        return own - first

    def starts(self, low: float, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the first day or second of the periods at these distances from the period of `low`, (n,)."""
        first = self.clock.index(np.array([low], dtype=np.int64), self.cut_to)
        return self.clock.starts(first + places, self.cut_to).astype(np.float64)

    def hierarchy(self, low: float, high: float) -> Hierarchy:
        """Return the calendar over all periods between two days or seconds.

        Raises:
            SchemaError: If there are too many.
        """
        levels = tuple(period for period in self.calendar if period is not self.cut_to)
        return calendar_hierarchy(self.clock, int(low), int(high), self.cut_to, levels)

    def groups(self, low: float, high: float, most: int) -> tuple[tuple[str, ...], npt.NDArray[np.float64]]:
        """Labels (g,) and edges (g + 1,) of groups of periods between two days or seconds, at most `most`.

        They are single periods of the finest unit that has few enough, or several decades each.
        """
        ends = np.array([low, high], dtype=np.int64)
        for period in (p for p in CalendarUnit if nests(self.cut_to, p)):
            first, last = self.clock.index(ends, period).tolist()
            if last - first < most or period is CalendarUnit.DECADE:
                break
        width = -(-(last - first + 1) // most)
        index = np.arange(first, last + 1, width)
        starts = self.clock.starts(index, period)
        labels = self.clock.labels(starts, period)
        if width > 1:
            lasts = self.clock.labels(self.clock.starts(np.minimum(index + width - 1, last), period), period)
            labels = [f"{a} to {b}" if a != b else a for a, b in zip(labels, lasts, strict=True)]
        after = self.clock.end(ends[1:], period)
        return tuple(labels), np.array([*starts, *after + 1], dtype=np.float64) - 0.5

    def to_dict(self) -> dict[str, Any]:
        """Return plain values of the stated fields, for `of`."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name in FORM_FIELDS}
        values = {
            name: value.value if isinstance(value, CalendarUnit) else value for name, value in values.items()
        }
        if self.shift:
            values["shift"] = self.shift.to_dict()
        if self.calendar:
            values["calendar"] = [period.value for period in self.calendar]
        return {name: value for name, value in values.items() if value not in (None, (), False)}

    @classmethod
    def of(cls, clock: Clock, given: Mapping[str, Any]) -> "DateForm":
        """Read the fields of a schema.

        Raises:
            SchemaError: If a field has another type, or they contradict each other.
        """
        for name, value in given.items():
            if name == "as_is" and not isinstance(value, bool):
                raise SchemaError("as_is must be true or false")
            if name == "calendar" and (not isinstance(value, list | tuple) or not value):
                raise SchemaError("calendar must be a list of periods, such as [month, quarter, year]")
            if name in ("format", "zone") and (not isinstance(value, str) or not value):
                raise SchemaError(f"{name} must be a text")
        if "shift" in given:
            given = {**given, "shift": Shift.from_dict(given["shift"])}
        return cls(clock=clock, **given)


FORM_FIELDS = frozenset({"format", "zone", "precision", "calendar", "bin", "as_is", "shift"})


def _is_text(column: pd.Series) -> bool:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _is_text(pd.Series(column.cat.categories))
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
    return pd.api.types.is_string_dtype(column.dtype)
