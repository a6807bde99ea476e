"""Values coded as a table is read: the ends of a scale as one group each, codes by their first characters.

A code stands for more than it reads: 90 for 90 and more, 1936 for 1936 and before, 000 for every rare prefix.
So it is told wherever columns are, see `Coding.meaning_of`.
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
    """How the values of an attribute are coded before anything else sees them.

    Attributes:
        top: larger numbers, or later days or seconds, become it; None: none do.
        bottom: the same of smaller ones.
        years_before_release: the bottom is the year so many years before that of the release, see `as_of`.
        prefix: so many characters of a text are kept.
        width: characters of a whole code. Numbers are filled up with zeros to it, texts must have as many.
        rare: prefixes that become zeros, or the name of a list in `RARE_PREFIXES`.
        source: the bounds that values of the source keep, where the schema has some; those of the attribute
            are of the codes.

    Raises:
        SchemaError: if the parts contradict each other.
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
            return "width and rare are of a prefix: state it, too" if self.width or self.rare else None
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
        """Whether it codes texts, and not numbers or dates."""
        return self.prefix is not None

    @property
    def whole(self) -> bool:
        """Whether whole numbers stay whole."""
        return all(end is None or float(end).is_integer() for end in (self.top, self.bottom))

    def within(self, bounds: Bounds) -> Bounds:
        """What is left of bounds."""
        low, high = bounds
        return (
            low if self.bottom is None else max(low, self.bottom),
            high if self.top is None else min(high, self.top),
        )

    def cut(self, start: Callable[[Numbers], Numbers]) -> "Coding":
        """The same with the ends of dates at the start of their periods."""
        top, bottom = (
            None if end is None else float(start(np.array([end]))[0]) for end in (self.top, self.bottom)
        )
        return replace(self, top=top, bottom=bottom)

    def as_of(self, day: date, number_of: Callable[[date], float]) -> "Coding":
        """The same with the bottom that it has in a release of that day.

        Whoever was born in the year Y is at most D - Y years old in the year D. So with 90 years all who may
        be 90, by any event until the end of D, are in the group of the bottom.

        Args:
            day: of the release.
            number_of: of the first day of a year, what it is on the attribute's scale.
        """
        if self.years_before_release is None:
            return self
        year = day.year - self.years_before_release
        if year < 1:
            raise SchemaError("years_before_release must lead to a year after Christ: state fewer")
        return replace(self, years_before_release=None, bottom=number_of(date(year, 1, 1)))

    def coded(self) -> "Coding":
        """That of a column whose values are coded: texts have the length of the prefix now."""
        return replace(self, width=None)

    def clipped(self, numbers: Numbers) -> Numbers:
        """(n,) the codes of numbers; NaN stays."""
        self.require_known()
        out = numbers if self.bottom is None else np.where(numbers < self.bottom, self.bottom, numbers)
        return out if self.top is None else np.where(out > self.top, self.top, out)

    def require_known(self) -> None:
        """Refuse to code by the date of a release that is not known.

        Raises:
            SchemaError: naming the remedy.
        """
        if self.years_before_release is not None:
            raise SchemaError(
                "bottom_code goes by the year of the release, which is not known here: read the table with "
                "`DataSchema.as_of(day)`, or state a year"
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
        """A column of codes by their prefixes, as text; what is one already stays."""
        coded, number = factorize(column), is_number(column)
        made: list[str | None] = [*(self._prefix(text, number=number) for text in coded.texts), None]
        cells = np.array(made, dtype=object)[coded.codes]  # the code of a null is -1
        return pd.Series(cells, index=column.index, name=column.name, dtype="str")

    def _prefix(self, text: str, *, number: bool) -> str:
        whole = text.zfill(self.width or 0) if number else text
        kept = whole[: self.prefix]
        return "0" * len(kept) if kept in self.rare_prefixes else kept

    def misfits(self, texts: list[str], *, number: bool) -> list[bool]:
        """Which codes are too short to have that prefix, or have more digits than a whole one."""
        if number:
            return [not text.isdigit() or len(text) > (self.width or 0) for text in texts]
        return [len(text) < (self.width or self.prefix or 0) for text in texts]

    def type_problem(self, *, number: bool, whole: bool) -> str | None:
        """What is wrong with the type of a column, and the remedy.

        Args:
            number: whether it holds numbers.
            whole: whether these are whole by their type.
        """
        if self.of_text and number and self.width is None:
            return (
                "holds numbers, which have lost leading zeros: state the width of a whole code, such as "
                "width: 5, or cast it to text in the source"
            )
        if not self.of_text and whole and not self.whole:
            return "holds whole numbers: top_code and bottom_code must be whole, too"
        return None

    def meaning_of(self, label: Callable[[float], str], *, dated: bool) -> str:
        """What the codes stand for, in a sentence; `label` says how a number or date is released."""
        below, above = ("before", "after") if dated else ("below", "above")
        told = [
            f"{label(end)} stands for {label(end)} and what is {side} it"
            for end, side in ((self.bottom, below), (self.top, above))
            if end is not None
        ]
        if self.prefix is not None:
            told.append(f"a code stands for all that begin with these {self.prefix} characters")
        if self.rare_prefixes:
            named = f" ({self.rare})" if isinstance(self.rare, str) else ""
            told.append(
                f"{'0' * (self.prefix or 0)} stands for {len(self.rare_prefixes)} rare prefixes{named}"
            )
        return "; ".join(told)

    def to_dict(self, written: Callable[[float], Any]) -> dict[str, Any]:
        """Plain values that ``of`` reads back; `written` is how a number of the scale is written."""
        told: dict[str, Any] = {}
        if self.top is not None:
            told["top_code"] = written(self.top)
        if self.years_before_release is not None:
            told["bottom_code"] = {"years_before_release": self.years_before_release}
        elif self.bottom is not None:
            told["bottom_code"] = written(self.bottom)
        told |= {"prefix": self.prefix, "width": self.width}
        told["rare"] = self.rare if isinstance(self.rare, str) else list(self.rare)
        return {name: value for name, value in told.items() if value not in (None, [], "")}

    @classmethod
    def of(cls, given: Mapping[str, Any], read: Callable[[str, Any], float]) -> "Coding | None":
        """Read what a schema states; None where it states nothing.

        Args:
            given: those of `CODING_FIELDS` that are stated.
            read: of a field and its value, the number on the attribute's scale.

        Raises:
            SchemaError: if a field has another type, or they contradict each other.
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
    """The code of a number.

    Raises:
        SchemaError: naming the field.
    """
    if type(value) not in (int, float) or not math.isfinite(value):
        raise SchemaError(f"{field} must be a finite number")
    return float(value)
