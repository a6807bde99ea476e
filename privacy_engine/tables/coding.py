"""Values coded when a table is read: the ends of a scale as one group each, codes by their first characters.

A code represents more than it reads: 90 means 90 and more, 1936 means 1936 and before, 000 every rare prefix.
So its meaning is shown wherever columns are described, see `Coding.meaning_of`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import factorize, is_number
from privacy_engine.vocabulary import rare_prefixes, read_rare

Bounds = tuple[float, float]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Coding:
    """How the values of an attribute are coded before any further processing.

    Attributes:
        top: Value that replaces larger numbers, or later days or seconds; None: no such limit.
        bottom: Value that replaces smaller numbers, or earlier days or seconds; None: no such limit.
        years_before_release: Number of years before the release's year at which the bottom lies, see `as_of`.
        prefix: Number of leading characters of a text that are kept; None: all.
        width: Characters of a complete code. Numbers are padded with zeros to it, texts must have this
            length.
        rare: Prefixes that become zeros, or the name of a list in `RARE_PREFIXES`.
        source: Bounds that values of the source must keep, if the schema has some; the attribute's own bounds
            are those of the codes.

    Raises:
        SchemaError: If the parts contradict each other.
    """

    top: float | None = None
    bottom: float | None = None
    years_before_release: int | None = None
    prefix: int | None = None
    width: int | None = None
    rare: str | tuple[str, ...] = ()
    source: Bounds | None = None

    def __post_init__(self) -> None:
        if problem := self._contradiction():
            raise SchemaError(problem)

    def _contradiction(self) -> str | None:
        for name in ("prefix", "width", "years_before_release"):
            given: object = getattr(self, name)
            if given is not None and (type(given) is not int or given < 1):
                return f"{name} must be a positive whole number"
        if self.bottom is not None and self.top is not None and self.bottom >= self.top:
            return "bottom_code must be below top_code"
        if self.prefix is None:
            return "width and rare require a prefix. State it, too" if self.width or self.rare else None
        if self.width is not None and self.width < self.prefix:
            return "width must be at least as large as prefix"
        if any(len(text) != self.prefix for text in self.rare_prefixes):
            return f"rare must be a list of texts of {self.prefix} characters each, as the prefix has"
        return None

    @property
    def rare_prefixes(self) -> tuple[str, ...]:
        """Prefixes that become zeros."""
        return rare_prefixes(self.rare)

    @property
    def of_text(self) -> bool:
        """Whether it codes text, rather than numbers or dates."""
        return self.prefix is not None

    @property
    def whole(self) -> bool:
        """Whether whole numbers stay whole."""
        return all(end is None or float(end).is_integer() for end in (self.top, self.bottom))

    def within(self, bounds: Bounds) -> Bounds:
        """Return bounds after coding."""
        low, high = bounds
        return (
            low if self.bottom is None else max(low, self.bottom),
            high if self.top is None else min(high, self.top),
        )

    def cut(self, start: Callable[[Numbers], Numbers]) -> "Coding":
        """Return the coding with the ends of dates at the start of their periods."""
        top, bottom = (
            None if end is None else float(start(np.array([end]))[0]) for end in (self.top, self.bottom)
        )
        return replace(self, top=top, bottom=bottom)

    def as_of(self, day: date, number_of: Callable[[date], float]) -> "Coding":
        """Return the coding with its bottom for a release of that day.

        Someone born in the year Y is at most D - Y years old in the year D. So with 90 years, everyone who
        may be 90 by the end of D is in the bottom group.

        Args:
            day: Day of the release.
            number_of: Function from the first day of a year to a number on the attribute's scale.
        """
        if self.years_before_release is None:
            return self
        year = day.year - self.years_before_release
        if year < 1:
            raise SchemaError("years_before_release must lead to a year after 0. State fewer")
        return replace(self, years_before_release=None, bottom=number_of(date(year, 1, 1)))

    def coded(self) -> "Coding":
        """Return the coding for a column that is already coded: texts then have the length of the prefix."""
        return replace(self, width=None)

    def clipped(self, numbers: Numbers) -> Numbers:
        """(n,) the codes of numbers; NaN stays NaN."""
        self.require_known()
        out = numbers if self.bottom is None else np.where(numbers < self.bottom, self.bottom, numbers)
        return out if self.top is None else np.where(out > self.top, self.top, out)

    def require_known(self) -> None:
        """Raise if the coding depends on the release's date, which is not known.

        Raises:
            SchemaError: If it does; the message names the remedy.
        """
        if self.years_before_release is not None:
            raise SchemaError(
                "bottom_code depends on the year of the release, which is not known here. Read the "
                "table with `DataSchema.as_of(day)`, or state a year"
            )

    def clipped_column(self, column: pd.Series) -> pd.Series:
        """A column of numbers in its own type, coded."""
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        codes = self.clipped(numbers)
        changed = (codes != numbers) & ~np.isnan(numbers)
        if not changed.any():
            return column
        kept = (
            codes[changed].astype(np.int64) if pd.api.types.is_integer_dtype(column.dtype) else codes[changed]
        )
        coded = column.copy()
        coded.iloc[np.flatnonzero(changed)] = kept
        return coded

    def prefixes(self, column: pd.Series) -> pd.Series:
        """Return a column of codes as the text of their prefixes; prefixes remain unchanged."""
        coded, number = factorize(column), is_number(column)
        made: list[str | None] = [*(self._prefix(text, number=number) for text in coded.texts), None]
        cells = np.array(made, dtype=object)[coded.codes]  # the code of a null is -1
        return pd.Series(cells, index=column.index, name=column.name, dtype="str")

    def _prefix(self, text: str, *, number: bool) -> str:
        whole = text.zfill(self.width or 0) if number else text
        kept = whole[: self.prefix]
        return "0" * len(kept) if kept in self.rare_prefixes else kept

    def misfits(self, texts: list[str], *, number: bool) -> list[bool]:
        """Return which codes are too short to have that prefix, or have more digits than a complete code."""
        if number:
            return [not text.isdigit() or len(text) > (self.width or 0) for text in texts]
        return [len(text) < (self.width or self.prefix or 0) for text in texts]

    def type_problem(self, *, number: bool, whole: bool) -> str | None:
        """Return what is wrong with the type of a column, with the remedy; None if it fits.

        Args:
            number: Whether it holds numbers.
            whole: Whether these are whole by their type.
        """
        if self.of_text and number and self.width is None:
            return (
                "holds numbers, which have lost leading zeros. State the width of a complete code, such as "
                "width: 5, or cast it to text in the source"
            )
        if not self.of_text and whole and not self.whole:
            return "holds whole numbers, so top_code and bottom_code must be whole, too"
        return None

    def meaning_of(self, label: Callable[[float], str], *, dated: bool) -> str:
        """Explain the codes in a sentence; `label` formats a number or date as released."""
        below, above = ("before", "after") if dated else ("below", "above")
        sentences = [
            f"{label(end)} stands for {label(end)} and what is {side} it"
            for end, side in ((self.bottom, below), (self.top, above))
            if end is not None
        ]
        if self.prefix is not None:
            sentences.append(f"a code covers all that begin with these {self.prefix} characters")
        if self.rare_prefixes:
            named = f" ({self.rare})" if isinstance(self.rare, str) else ""
            sentences.append(
                f"{'0' * (self.prefix or 0)} stands for {len(self.rare_prefixes)} rare prefixes{named}"
            )
        return "; ".join(sentences)

    def to_dict(self, written: Callable[[float], Any]) -> dict[str, Any]:
        """Return plain values for ``of``; `written` formats a number of the scale."""
        values: dict[str, Any] = {}
        if self.top is not None:
            values["top_code"] = written(self.top)
        if self.years_before_release is not None:
            values["bottom_code"] = {"years_before_release": self.years_before_release}
        elif self.bottom is not None:
            values["bottom_code"] = written(self.bottom)
        values |= {"prefix": self.prefix, "width": self.width}
        values["rare"] = self.rare if isinstance(self.rare, str) else list(self.rare)
        return {name: value for name, value in values.items() if value not in (None, [], "")}

    @classmethod
    def of(cls, given: Mapping[str, Any], read: Callable[[str, Any], float]) -> "Coding | None":
        """Read the fields of a schema; None if none is stated.

        Args:
            given: Stated fields, some of `CODING_FIELDS`.
            read: Function from a field and its value to the number on the attribute's scale.

        Raises:
            SchemaError: If a field has another type, or they contradict each other.
        """
        if not given:
            return None
        bottom: Any = given.get("bottom_code")
        years: Any = None
        if isinstance(bottom, Mapping):
            if set(bottom) != {"years_before_release"}:
                raise SchemaError(
                    "bottom_code must be a number or date, or `{years_before_release: <number>}`"
                )
            bottom, years = None, bottom["years_before_release"]
        top = given.get("top_code")
        return cls(
            top=None if top is None else read("top_code", top),
            bottom=None if bottom is None else read("bottom_code", bottom),
            years_before_release=years,
            prefix=given.get("prefix"),
            width=given.get("width"),
            rare=read_rare(given.get("rare", ()), "rare"),
        )


CODING_FIELDS = frozenset({"top_code", "bottom_code", "prefix", "width", "rare"})


def read_number(field: str, value: Any) -> float:
    """Read the code of a number.

    Raises:
        SchemaError: If it is not a finite number; the message names the field.
    """
    if type(value) not in (int, float) or not math.isfinite(value):
        raise SchemaError(f"{field} must be a finite number")
    return float(value)
