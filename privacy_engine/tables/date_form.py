"""How the dates or times of an attribute are read, how exactly they may be known, and how they generalize."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError
from privacy_engine.tables.dates import (
    DATES,
    Clock,
    Moments,
    Period,
    calendar_hierarchy,
    end_of_bounds,
    is_dated,
    is_zone,
    moments,
    nests,
    only_dates,
    problem_of_calendar,
    problem_of_format,
)
from privacy_engine.tables.hierarchy import Hierarchy

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class DateForm:
    """What a schema says of an attribute of kind date or timestamp beyond what it says of any.

    Values are cut to the first day or second of their period before anything else sees them.

    Attributes:
        clock: days, of a date, or seconds, of a timestamp.
        format: strptime format of a column of text; other columns need none.
        zone: of the clock by which times with a zone are told, such as Europe/Berlin; None: UTC.
        precision: period to which values are cut; None: the finest of the calendar, else a day or a second.
        calendar: periods in which a quasi-identifier is generalized, the finest first; empty: by intervals.
        bin: period of a public bin, for methods that need bins.
        as_is: that an insensitive attribute is released as exactly as it is in the source.

    Raises:
        SchemaError: if the parts contradict each other.

    >>> DateForm(clock=DATES, calendar=("month", "year")).cut_to
    <Period.MONTH: 'month'>
    """

    clock: Clock
    format: str | None = None
    zone: str | None = None
    precision: Period | None = None
    calendar: tuple[Period, ...] = ()
    bin: Period | None = None
    as_is: bool = False

    def __post_init__(self) -> None:
        try:
            for name in ("precision", "bin"):
                if getattr(self, name) is not None:
                    object.__setattr__(self, name, choice(Period, getattr(self, name), name))
            periods = tuple(choice(Period, period, "calendar") for period in self.calendar)
        except ValueError as error:
            raise SchemaError(str(error)) from None
        object.__setattr__(self, "calendar", periods)
        if problem := self._contradiction():
            raise SchemaError(problem)

    def _contradiction(self) -> str | None:
        unit, own = self.clock.unit, self.cut_to
        for name, period in (("precision", own), ("bin", self.bin), ("calendar", (*self.calendar, own)[0])):
            if period is not None and not nests(unit, period):
                return f"{name} must be a day or coarser, got {period.value}: a date has no time of the day"
        if self.calendar and (problem := problem_of_calendar(self.calendar)):
            return problem
        for name, period in (("calendar", self.calendar[0] if self.calendar else None), ("bin", self.bin)):
            if period is not None and not nests(own, period):
                return (
                    f"{name} must hold no period finer than the precision, nor one that it lies in not whole"
                )
        if self.as_is and (self.precision is not None or self.calendar):
            return "as_is releases values as they are: leave precision and calendar out, or as_is"
        if self.zone is not None and not is_zone(self.zone):
            return "zone must be one of the time zone database, such as Europe/Berlin"
        return problem_of_format(self.format, self.clock, own) if self.format is not None else None

    @property
    def cut_to(self) -> Period:
        """The period to whose start values are cut."""
        return self.precision or (self.calendar[0] if self.calendar else self.clock.unit)

    def bounds(self, given: Any) -> Bounds | None:
        """Public bounds in days or seconds, each cut as values are; None where these are no bounds.

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

    def bounds_text(self, bounds: Bounds) -> list[str]:
        """Public bounds as ISO text: the first and the last day or second inside."""
        low, high = np.array(bounds, dtype=np.int64)
        return self.clock.labels(np.array([low, self.clock.end(high, self.cut_to)]), self.clock.unit)

    def type_problem(self, column: pd.Series) -> str | None:
        """What is wrong with the type of a column, and the remedy; None if it fits."""
        if is_dated(column):
            if self.clock != DATES and only_dates(column):
                return f"must have a time of the day as a timestamp, got {column.dtype}: make it kind: date"
            return None
        if not _is_text(column):
            return f"must hold dates, times or text with a format, got {column.dtype}: cast it in the source"
        if self.format is None:
            return "is text, so it must have a format: state it, such as format: '%Y-%m-%d'"
        return None

    def read(self, column: pd.Series) -> Moments:
        """The moments of a column of the right type; those that break a rule are counted."""
        return moments(column, self.format, self.zone)

    def numbers(self, column: pd.Series) -> npt.NDArray[np.float64]:
        """(n,) days or seconds of the start of each value's period; NaN = null, or no date."""
        return self.cut(self.read(column).numbers(self.clock))

    def cut(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(n,) the start of each one's period; NaN stays."""
        known = ~np.isnan(numbers)
        out = numbers.copy()
        out[known] = self.clock.start(numbers[known].astype(np.int64), self.cut_to)
        return out

    def normal(self, column: pd.Series) -> pd.Series:
        """The column in the one type behind ingest: dates, or time stamps without a zone, cut."""
        if self.as_is and self.clock != DATES:
            found = self.read(column)
            return self.clock.column_of(found.micros, found.null, column.name)
        return self.clock.column(self.numbers(column), column.name)

    def labels(self, numbers: npt.NDArray[np.float64]) -> tuple[str, ...]:
        """What the periods of days or seconds are called."""
        return tuple(self.clock.labels(numbers.astype(np.int64), self.cut_to))

    def last(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(n,) the last day or second of each one's period; NaN stays."""
        out, known = numbers.copy(), ~np.isnan(numbers)
        out[known] = self.clock.end(numbers[known].astype(np.int64), self.cut_to)
        return out

    def places(self, numbers: npt.NDArray[np.float64], low: float) -> npt.NDArray[np.int64]:
        """(n,) how many periods after that of `low` each one's is."""
        ends = [np.asarray(x, dtype=np.int64) for x in (numbers, [low])]
        own, first = (self.clock.index(x, self.cut_to) for x in ends)
        return own - first

    def starts(self, low: float, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """(n,) the first day or second of the periods at so many places after that of `low`."""
        first = self.clock.index(np.array([low], dtype=np.int64), self.cut_to)
        return self.clock.starts(first + places, self.cut_to).astype(np.float64)

    def hierarchy(self, low: float, high: float) -> Hierarchy:
        """The calendar over all periods between two days or seconds.

        Raises:
            SchemaError: if they are too many.
        """
        levels = tuple(period for period in self.calendar if period is not self.cut_to)
        return calendar_hierarchy(self.clock, int(low), int(high), self.cut_to, levels)

    def groups(self, low: float, high: float, most: int) -> tuple[tuple[str, ...], npt.NDArray[np.float64]]:
        """Labels (g,) and edges (g + 1,) of at most so many groups of periods between two days or seconds.

        They are single periods of the finest unit of which there are few enough, or several decades each.
        """
        ends = np.array([low, high], dtype=np.int64)
        for period in (p for p in Period if nests(self.cut_to, p)):
            first, last = self.clock.index(ends, period).tolist()
            if last - first < most or period is Period.DECADE:
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
        """Plain values of what is stated, which `of` reads back."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name in FORM_FIELDS}
        told = {name: value.value if isinstance(value, Period) else value for name, value in told.items()}
        if self.calendar:
            told["calendar"] = [period.value for period in self.calendar]
        return {name: value for name, value in told.items() if value not in (None, (), False)}

    @classmethod
    def of(cls, clock: Clock, given: Mapping[str, Any]) -> "DateForm":
        """Read what a schema states.

        Raises:
            SchemaError: if a field has another type, or they contradict each other.
        """
        for name, value in given.items():
            if name == "as_is" and not isinstance(value, bool):
                raise SchemaError("as_is must be true or false")
            if name == "calendar" and (not isinstance(value, list | tuple) or not value):
                raise SchemaError("calendar must be a list of periods, such as [month, quarter, year]")
            if name in ("format", "zone") and (not isinstance(value, str) or not value):
                raise SchemaError(f"{name} must be a text")
        return cls(clock=clock, **given)


FORM_FIELDS = frozenset({"format", "zone", "precision", "calendar", "bin", "as_is"})


def _is_text(column: pd.Series) -> bool:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _is_text(pd.Series(column.cat.categories))
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
    return pd.api.types.is_string_dtype(column.dtype)
