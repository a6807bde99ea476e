"""What a policy asks of released columns by what they are about: ages, dates, postcodes, names.

What a column is about the schema declares (`Attribute.meaning`). How exactly it is told is measured on the
released values, whatever the schema says of them: in typed columns, and in the text that intervals, sets and
labels of a hierarchy are written in. A value that no rule can read counts as one that breaks it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.errors import SpecError
from privacy_engine.tables.coding import Meaning, rare_prefixes, read_rare
from privacy_engine.tables.columns import floats, is_number
from privacy_engine.tables.dates import (
    DATES,
    TIMES,
    Clock,
    Moments,
    Period,
    is_dated,
    moments,
    nests,
    only_dates,
)
from privacy_engine.tables.direct_identifiers import Allowed
from privacy_engine.tables.schema import Attribute, DataSchema, Role

# Column -> its distinct values without null, and how many records have each.
Values = Callable[[str], tuple[pd.Series, npt.NDArray[np.int64]]]
Flags = npt.NDArray[np.bool_]

_PRECISIONS = (Period.DAY, Period.MONTH, Period.QUARTER, Period.YEAR, Period.DECADE)  # the finest first
_FORMS: Mapping[Period, str] = {
    Period.DAY: r"\d{4}-\d{2}-\d{2}",
    Period.WEEK: r"\d{4}-W\d{2}",
    Period.MONTH: r"\d{4}-\d{2}",
    Period.QUARTER: r"\d{4}-Q[1-4]",
    Period.YEAR: r"\d{4}",
    Period.DECADE: r"\d{4}s",
}
_NULL = r"(?: or null)?"
_CODE = r'"?[A-Za-z0-9*]{{1,{0}}}"?'


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A rule that a released column breaks.

    Attributes:
        rule: with its parameter.
        column: that breaks it.
        records: that do; None: all, by what the schema says of the column.
        remedy: what to do.
    """

    rule: str
    column: str
    records: int | None
    remedy: str


@dataclass(frozen=True, kw_only=True)
class ColumnRules:
    """Rules for released columns; what is not stated is not asked. Pseudonyms have a rule of their own.

    Attributes:
        declared: each column states its meaning; a date or timestamp does by its kind.
        roles: that released columns may have; empty: any.
        forbid: meanings that no released column may have.
        date_precision: the finest period in which dates are told: day, month, quarter, year or decade.
        age_group_from: the age, in years, from which on all are one group: no age above it is told, and no
            year before the one that lies so many years before that of the release.
        postcode_characters: most characters of a postcode.
        rare_postcodes: that must not be told, or the name of a list of them.
        clean_text: no text is released that looks like direct identifiers, for whatever reason.
        no_unique_columns: no nearly unique column is released, for whatever reason.

    Raises:
        SpecError: if a value is none of these, or no rule is stated.
    """

    declared: bool = False
    roles: tuple[Role, ...] = ()
    forbid: tuple[Meaning, ...] = ()
    date_precision: Period | None = None
    age_group_from: int | None = None
    postcode_characters: int | None = None
    rare_postcodes: str | tuple[str, ...] = ()
    clean_text: bool = False
    no_unique_columns: bool = False

    def __post_init__(self) -> None:
        for name in ("declared", "clean_text", "no_unique_columns"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"policy columns.{name} must be true or false")
        for name in ("age_group_from", "postcode_characters"):
            given: object = getattr(self, name)
            if given is not None and (type(given) is not int or given < 1):
                raise SpecError(f"policy columns.{name} must be a positive whole number, or left out")
        if self.date_precision is not None and self.date_precision not in _PRECISIONS:
            raise SpecError(f"policy columns.date_precision must be one of {[p.value for p in _PRECISIONS]}")
        if not any(getattr(self, f.name) for f in fields(self)):
            raise SpecError("policy columns must state at least one rule; state one, or leave columns out")

    @classmethod
    def from_dict(cls, given: Any) -> "ColumnRules":
        """Read plain values.

        Raises:
            SpecError: for unknown fields or values, naming the field.
        """
        known = [f.name for f in fields(cls)]
        if not isinstance(given, Mapping) or (set(map(str, given)) - set(known)):
            raise SpecError(f"policy columns must be a mapping with some of {known}")
        read = dict(given)
        try:
            for name, enum in (("roles", Role), ("forbid", Meaning)):
                if name in read and not isinstance(read[name], list | tuple):
                    raise ValueError(f"{name} must be a list")
                if name in read:
                    read[name] = tuple(choice(enum, value, name) for value in read[name])
            if read.get("date_precision") is not None:
                read["date_precision"] = choice(Period, read["date_precision"], "date_precision")
            if "rare_postcodes" in read:
                read["rare_postcodes"] = read_rare(read["rare_postcodes"], "rare_postcodes")
        except ValueError as error:
            raise SpecError(f"policy columns: {error}") from None
        return cls(**read)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back: the rules that are stated."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            name: list(map(str, value)) if isinstance(value, tuple) else _plain(value)
            for name, value in told.items()
            if value
        }

    def with_floor(self, floor: "ColumnRules | None") -> "ColumnRules":
        """What holds where both do: the stricter of two rules.

        Raises:
            SpecError: if no role is left.
        """
        if floor is None:
            return self
        both = self, floor
        roles = [set(rules.roles) for rules in both if rules.roles]
        if roles and not set.intersection(*roles):
            raise SpecError("policy columns.roles must share one with the floor policy; correct one of both")
        periods = [rules.date_precision for rules in both if rules.date_precision]
        rare = {rules.rare_postcodes for rules in both if rules.rare_postcodes}
        every = tuple(dict.fromkeys(text for listed in rare for text in rare_prefixes(listed)))
        return ColumnRules(
            declared=any(rules.declared for rules in both),
            roles=tuple(role for role in Role if roles and all(role in allowed for allowed in roles)),
            forbid=tuple(m for m in Meaning if any(m in rules.forbid for rules in both)),
            date_precision=max(periods, key=_PRECISIONS.index, default=None),
            age_group_from=_smaller(self.age_group_from, floor.age_group_from),
            postcode_characters=_smaller(self.postcode_characters, floor.postcode_characters),
            rare_postcodes=every if len(rare) > 1 else next(iter(rare), ()),
            clean_text=any(rules.clean_text for rules in both),
            no_unique_columns=any(rules.no_unique_columns for rules in both),
        )

    def weaker_than(self, floor: "ColumnRules") -> list[str]:
        """Where they say less than a floor does; of what they are silent of, nothing."""
        own, least = self.to_dict(), floor.to_dict()
        less = {
            "roles": set(self.roles) - set(floor.roles),
            "forbid": set(floor.forbid) - set(self.forbid),
            "date_precision": _finer(self.date_precision, floor.date_precision),
            "age_group_from": (self.age_group_from or 0) > (floor.age_group_from or 0),
            "postcode_characters": (self.postcode_characters or 0) > (floor.postcode_characters or 0),
            "rare_postcodes": set(rare_prefixes(floor.rare_postcodes))
            - set(rare_prefixes(self.rare_postcodes)),
        }
        return [
            f"columns.{name} {_shown(own[name])} is weaker than columns.{name} {_shown(least[name])}"
            for name, weaker in less.items()
            if weaker and name in own and name in least
        ]

    @property
    def names(self) -> list[str]:
        """The rules that are stated, each with its parameter, as reports name them."""
        return [
            name if value is True else f"{name}({_shown(value)})" for name, value in self.to_dict().items()
        ]

    def broken_by_schema(self, schema: DataSchema) -> list[Broken]:
        """What a schema says of its columns that the rules do not allow, before any value is read."""
        return [
            Broken(rule=self._name(rule), column=a.name, records=None, remedy=remedy)
            for a in _released(schema)
            for rule, remedy in self._broken_by(a)
        ]

    def broken(self, schema: DataSchema, values: Values, year: int | None) -> list[Broken]:
        """What a release breaks.

        Args:
            schema: of the release.
            values: of its columns.
            year: of the release; needed where ages are limited.

        Raises:
            ValueError: if ages are limited and there is no year.
        """
        if self.age_group_from is not None and year is None:
            raise ValueError("age_group_from needs the year of the release")
        found = self.broken_by_schema(schema)
        for a in _released(schema):
            if self._measures(a):
                column, counts = values(a.name)
                found += [
                    Broken(
                        rule=self._name(rule), column=a.name, records=int(counts[cells].sum()), remedy=remedy
                    )
                    for rule, cells, remedy in self._broken_values(a, column, year or 0)
                    if cells.any()
                ]
        return found

    def _name(self, rule: str) -> str:
        return next(name for name in self.names if name.partition("(")[0] == rule)

    def _broken_by(self, attribute: Attribute) -> Iterator[tuple[str, str]]:
        """The rules that an attribute breaks by what is said of it, and the remedies."""
        about = attribute.about
        if self.declared and about is None:
            yield "declared", f"state its meaning, one of {', '.join(Meaning)}, or make it an identifier"
        if self.roles and attribute.role not in self.roles:
            yield "roles", f"give it one of the roles {', '.join(self.roles)}, or make it an identifier"
        if about is not None and about in self.forbid:
            yield "forbid", "give it the role identifier, so that it stays behind, or do not read it"
        if self.clean_text and isinstance(attribute.text, Allowed):
            yield "clean_text", "write `text: redact` in the place of allow, or make it an identifier"
        if self.no_unique_columns and attribute.unique is not None:
            yield "no_unique_columns", "take `unique` out, and make it an identifier"

    def _measures(self, attribute: Attribute) -> bool:
        match attribute.about:
            case Meaning.DATE:
                return bool(self.date_precision or self.age_group_from)
            case Meaning.AGE:
                return bool(self.age_group_from)
            case Meaning.POSTCODE:
                return bool(self.postcode_characters or self.rare_postcodes)
        return False

    def _broken_values(
        self, attribute: Attribute, column: pd.Series, year: int
    ) -> Iterator[tuple[str, Flags, str]]:
        """Rule, (v,) which values break it, and the remedy."""
        if attribute.about is Meaning.DATE:
            if self.date_precision is not None:
                remedy = f"state `precision: {self.date_precision.value}`"
                yield "date_precision", ~_dates_told(column, self.date_precision), remedy
            if self.age_group_from is not None:
                remedy = f"state `bottom_code: {{years_before_release: {self.age_group_from}}}`"
                yield "age_group_from", _last_year(column) < year - self.age_group_from, remedy
        elif attribute.about is Meaning.AGE and self.age_group_from is not None:
            remedy = f"state `top_code: {self.age_group_from}`"
            yield "age_group_from", _largest_number(column) > self.age_group_from, remedy
        elif attribute.about is Meaning.POSTCODE:
            if self.postcode_characters is not None:
                remedy = f"state `prefix: {self.postcode_characters}`"
                yield "postcode_characters", ~_codes_told(column, self.postcode_characters), remedy
            if rare := rare_prefixes(self.rare_postcodes):
                remedy = f"state `rare: {_shown(self.to_dict()['rare_postcodes'])}`"
                yield "rare_postcodes", _begins_with(column, rare), remedy


def _released(schema: DataSchema) -> list[Attribute]:
    """The columns that the rules are about: pseudonyms are ruled by `pseudonyms`."""
    linked = schema.by if schema.linked else None
    return [
        a for a in schema.attributes if a.role is not Role.IDENTIFIER and not a.pseudonym and a.name != linked
    ]


def _read(column: pd.Series) -> tuple[Clock, Moments]:
    """(v,) dates or times without null, and what they are counted in."""
    return DATES if only_dates(column) else TIMES, moments(column)


def _dates_told(column: pd.Series, period: Period) -> Flags:
    """(v,) whether dates are no more exact than a period: its first or last day, a year, or text of it."""
    if is_dated(column):
        clock, read = _read(column)
        numbers = read.numbers(clock).astype(np.int64)
        at_end = (numbers == clock.start(numbers, period)) | (numbers == clock.end(numbers, period))
        return np.asarray(at_end & (read.micros % 10**6 == 0), dtype=np.bool_)
    if is_number(column):
        years = floats(column)
        whole_years = (years == np.floor(years)) & (years >= 1) & (years <= 9999)
        fitting = whole_years & (nests(period, Period.YEAR) | (years % 10 == 0))
        return np.asarray(fitting, dtype=np.bool_)
    label = "|".join(form for coarse, form in _FORMS.items() if nests(period, coarse))
    return _all_match(column, rf"(?:\*|(?:{label})|\[(?:{label}), (?:{label})\]){_NULL}")


def _last_year(column: pd.Series) -> npt.NDArray[np.float64]:
    """(v,) the earliest year that a value names; of a decade its last, of what names none infinity."""
    if is_dated(column):
        clock, read = _read(column)
        return (clock.index(read.numbers(clock).astype(np.int64), Period.YEAR) + 1970).astype(np.float64)
    if is_number(column):
        return floats(column)
    years = [
        [int(year) + (9 if decade else 0) for year, decade in re.findall(r"(?<!\d)(\d{4})(s?)", str(text))]
        for text in column
    ]
    return np.array([min(found, default=np.inf) for found in years], dtype=np.float64)


def _largest_number(column: pd.Series) -> npt.NDArray[np.float64]:
    """(v,) the largest number that a value names; of what names none 0."""
    if is_number(column):
        return floats(column)
    return np.array(
        [max(map(float, re.findall(r"\d+(?:\.\d+)?", str(text))), default=0.0) for text in column],
        dtype=np.float64,
    )


def _codes_told(column: pd.Series, characters: int) -> Flags:
    """(v,) whether codes are of so many characters at most: text of one, of a set, or of an interval."""
    if is_number(column) or is_dated(column):
        return np.zeros(len(column), dtype=np.bool_)
    code = _CODE.format(characters)
    listed = rf"\{{{code}(?:, {code})*\}}|\[{code}, {code}\]"
    return _all_match(column, rf"(?:{code}|{listed}|\{{{code}(?:, {code})*, null\}}){_NULL}")


def _begins_with(column: pd.Series, prefixes: tuple[str, ...]) -> Flags:
    """(v,) whether a code in a value begins so; numbers, which have lost their zeros, may all do."""
    if is_number(column):
        return np.ones(len(column), dtype=np.bool_)
    codes = (re.findall(r"[A-Za-z0-9]+", str(text)) for text in column)
    return np.array([any(code.startswith(prefixes) for code in found) for found in codes], dtype=np.bool_)


def _all_match(column: pd.Series, form: str) -> Flags:
    pattern = re.compile(form)
    return np.array([pattern.fullmatch(str(text)) is not None for text in column], dtype=np.bool_)


def _smaller(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _finer(own: Period | None, least: Period | None) -> bool:
    return own is not None and least is not None and _PRECISIONS.index(own) < _PRECISIONS.index(least)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Period) else value


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
