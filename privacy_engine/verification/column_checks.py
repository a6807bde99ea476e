"""Check released columns against the rules of a policy for ages, dates, postcodes and names.

The schema declares what a column is about (`Attribute.meaning`). How exact it is, is measured on the released
values, whatever the schema says: in typed columns, and in the text of intervals, sets and labels of a
hierarchy. A value that no rule can read counts as breaking the rule.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import floats, is_number
from privacy_engine.tables.dates import DATES, TIMES, Clock, DateValues, is_dated, moments, nests, only_dates
from privacy_engine.tables.direct_identifiers import Allowed
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.column_rules import UNSIGNED, ColumnRules, shown
from privacy_engine.vocabulary import CalendarUnit, Meaning, Role, rare_prefixes

# Column -> its distinct values without null, and the number of records with each.
Values = Callable[[str], tuple[pd.Series, npt.NDArray[np.int64]]]
Flags = npt.NDArray[np.bool_]

_FORMS: Mapping[CalendarUnit, str] = {
    CalendarUnit.DAY: r"\d{4}-\d{2}-\d{2}",
    CalendarUnit.WEEK: r"\d{4}-W\d{2}",
    CalendarUnit.MONTH: r"\d{4}-\d{2}",
    CalendarUnit.QUARTER: r"\d{4}-Q[1-4]",
    CalendarUnit.YEAR: r"\d{4}",
    CalendarUnit.DECADE: r"\d{4}s",
}
_NULL = r"(?: or null)?"
_CODE = r'"?[A-Za-z0-9*]{{1,{0}}}"?'


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A rule that a released column breaks.

    Attributes:
        rule: Rule with its parameter.
        column: Column that breaks the rule.
        records: Number of records that break it; None: all, because of the column's schema.
        remedy: Advice on how to release the column, as text.
    """

    rule: str
    column: str
    records: int | None
    remedy: str


def broken_by_schema(rules: ColumnRules, schema: DataSchema) -> list[Broken]:
    """Return what the rules do not allow in a schema's columns, before any value is read."""
    return [
        Broken(rule=rules.name_of(rule), column=a.name, records=None, remedy=remedy)
        for a in _released(schema)
        for rule, remedy in _broken_by(rules, a)
    ]


def broken(rules: ColumnRules, schema: DataSchema, values: Values, year: int | None) -> list[Broken]:
    """Return the rules that a release breaks.

    Args:
        rules: Rules of the policy.
        schema: Schema of the release.
        values: Distinct values of its columns.
        year: Year of the release; required if ages are limited.

    Raises:
        ValueError: If ages are limited and there is no year.
    """
    if rules.age_group_from is not None and year is None:
        raise ValueError("age_group_from needs the year of the release")
    found = broken_by_schema(rules, schema)
    for a in _released(schema):
        if _measures(rules, a):
            column, counts = values(a.name)
            found += [
                Broken(
                    rule=rules.name_of(rule), column=a.name, records=int(counts[cells].sum()), remedy=remedy
                )
                for rule, cells, remedy in _broken_values(rules, a, column, year or 0)
                if cells.any()
            ]
    return found


def _broken_by(rules: ColumnRules, attribute: Attribute) -> Iterator[tuple[str, str]]:
    """Yield the rules that an attribute breaks by its schema, with the remedies."""
    about = attribute.about
    if rules.declared and about is None:
        yield "declared", f"state its meaning, one of {', '.join(Meaning)}, or make it an identifier"
    if rules.roles and attribute.role not in rules.roles:
        yield "roles", f"give it one of the roles {', '.join(rules.roles)}, or make it an identifier"
    if about is not None and about in rules.forbid:
        yield "forbid", "give it the role identifier, so that it is not copied, or do not read it"
    if rules.clean_text and isinstance(attribute.text, Allowed):
        yield "clean_text", "write `text: redact` instead of allow, or make it an identifier"
    quasi = attribute.role is Role.QUASI_IDENTIFIER
    free = attribute.unlisted if quasi else attribute.is_free_text
    if rules.refuses_text(free=free, signed=attribute.free_text is not None, about=about):
        yield "no_free_text", UNSIGNED
    if rules.no_unique_columns and attribute.unique is not None:
        yield "no_unique_columns", "remove `unique`, and make it an identifier"


def _measures(rules: ColumnRules, attribute: Attribute) -> bool:
    match attribute.about:
        case Meaning.DATE:
            return bool(rules.date_precision or rules.age_group_from)
        case Meaning.AGE:
            return bool(rules.age_group_from)
        case Meaning.POSTCODE:
            return bool(rules.postcode_characters or rules.rare_postcodes)
    return False


def _broken_values(
    rules: ColumnRules, attribute: Attribute, column: pd.Series, year: int
) -> Iterator[tuple[str, Flags, str]]:
    """Yield rule, (v,) whether each value breaks it, and the remedy."""
    if attribute.about is Meaning.DATE:
        if rules.date_precision is not None:
            remedy = f"state `precision: {rules.date_precision.value}`"
            yield "date_precision", ~_are_coarse_dates(column, rules.date_precision), remedy
        if rules.age_group_from is not None:
            remedy = f"state `bottom_code: {{years_before_release: {rules.age_group_from}}}`"
            yield "age_group_from", _last_year(column) < year - rules.age_group_from, remedy
    elif attribute.about is Meaning.AGE and rules.age_group_from is not None:
        remedy = f"state `top_code: {rules.age_group_from}`"
        yield "age_group_from", _largest_number(column) > rules.age_group_from, remedy
    elif attribute.about is Meaning.POSTCODE:
        if rules.postcode_characters is not None:
            remedy = f"state `prefix: {rules.postcode_characters}`"
            yield "postcode_characters", ~_are_short_codes(column, rules.postcode_characters), remedy
        if rare := rare_prefixes(rules.rare_postcodes):
            remedy = f"state `rare: {shown(rules.to_dict()['rare_postcodes'])}`"
            yield "rare_postcodes", _begins_with(column, rare), remedy


def _released(schema: DataSchema) -> list[Attribute]:
    """Return the columns that the rules are about. Pseudonyms are covered by `pseudonyms` instead."""
    linked = schema.by if schema.linked else None
    return [
        a for a in schema.attributes if a.role is not Role.IDENTIFIER and not a.pseudonym and a.name != linked
    ]


def _read(column: pd.Series) -> tuple[Clock, DateValues]:
    """(v,) dates or times without null, and the unit they are counted in."""
    return DATES if only_dates(column) else TIMES, moments(column)


def _are_coarse_dates(column: pd.Series, period: CalendarUnit) -> Flags:
    """(v,) whether dates are at most as exact as a period: its first or last day, a year, or text of it."""
    if is_dated(column):
        clock, read = _read(column)
        numbers = read.numbers(clock).astype(np.int64)
        at_end = (numbers == clock.start(numbers, period)) | (numbers == clock.end(numbers, period))
        return np.asarray(at_end & (read.micros % 10**6 == 0), dtype=np.bool_)
    if is_number(column):
        years = floats(column)
        whole_years = (years == np.floor(years)) & (years >= 1) & (years <= 9999)
        fitting = whole_years & (nests(period, CalendarUnit.YEAR) | (years % 10 == 0))
        return np.asarray(fitting, dtype=np.bool_)
    label = "|".join(form for coarse, form in _FORMS.items() if nests(period, coarse))
    return _all_match(column, rf"(?:\*|(?:{label})|\[(?:{label}), (?:{label})\]){_NULL}")


def _last_year(column: pd.Series) -> npt.NDArray[np.float64]:
    """(v,) the earliest year that a value names; for a decade its last, infinity if it names none."""
    if is_dated(column):
        clock, read = _read(column)
        return (clock.index(read.numbers(clock).astype(np.int64), CalendarUnit.YEAR) + 1970).astype(
            np.float64
        )
    if is_number(column):
        return floats(column)
    years = [
        [int(year) + (9 if decade else 0) for year, decade in re.findall(r"(?<!\d)(\d{4})(s?)", str(text))]
        for text in column
    ]
    return np.array([min(found, default=np.inf) for found in years], dtype=np.float64)


def _largest_number(column: pd.Series) -> npt.NDArray[np.float64]:
    """(v,) the largest number that a value names; 0 if it names none."""
    if is_number(column):
        return floats(column)
    return np.array(
        [max(map(float, re.findall(r"\d+(?:\.\d+)?", str(text))), default=0.0) for text in column],
        dtype=np.float64,
    )


def _are_short_codes(column: pd.Series, characters: int) -> Flags:
    """(v,) whether codes have at most a number of characters: text of one, of a set, or of an interval."""
    if is_number(column) or is_dated(column):
        return np.zeros(len(column), dtype=np.bool_)
    code = _CODE.format(characters)
    listed = rf"\{{{code}(?:, {code})*\}}|\[{code}, {code}\]"
    return _all_match(column, rf"(?:{code}|{listed}|\{{{code}(?:, {code})*, null\}}){_NULL}")


def _begins_with(column: pd.Series, prefixes: tuple[str, ...]) -> Flags:
    """(v,) whether a code in a value has one of the prefixes; any number may, as it has lost its zeros."""
    if is_number(column):
        return np.ones(len(column), dtype=np.bool_)
    codes = (re.findall(r"[A-Za-z0-9]+", str(text)) for text in column)
    return np.array([any(code.startswith(prefixes) for code in found) for found in codes], dtype=np.bool_)


def _all_match(column: pd.Series, form: str) -> Flags:
    pattern = re.compile(form)
    return np.array([pattern.fullmatch(str(text)) is not None for text in column], dtype=np.bool_)
