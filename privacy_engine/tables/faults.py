"""Problems with the values of a column, as counts that add up over its parts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.columns import are_among, factorize, floats
from privacy_engine.vocabulary import counted


class ValueRule(StrEnum):
    """A rule that a value can break; problems are reported in this order."""

    NULL = "null"
    FORMAT = "format"
    CALENDAR = "calendar"
    SKIPPED = "skipped"
    INFINITE = "infinite"
    OUTSIDE = "outside"
    CODES = "codes"
    CATEGORIES = "categories"
    HIERARCHY = "hierarchy"


# Rule -> value that breaks it -> records; the value is "" if only records are counted.
Faults = dict[ValueRule, Counter[str]]

# `{values}` is the number of records that break the rule, with the verb: "1 value is", "2 values are".
_WORDS: Mapping[ValueRule, str] = {
    ValueRule.NULL: "{values} null: drop them at ingest, or keep them (nulls: keep)",
    ValueRule.FORMAT: "{values} not in the format, or not a day of the calendar: correct the source or "
    "the format; if a mark such as an empty text means that the date is missing, read the column as kind: "
    "categorical and make it null in a transform",
    ValueRule.CALENDAR: "{values} before the year 1 or after the year 9999: correct the source",
    ValueRule.SKIPPED: "{values} of an hour that the clocks of the zone skipped: correct the source or the "
    "zone",
    ValueRule.INFINITE: "{values} infinite: correct the source",
    ValueRule.OUTSIDE: "{values} out of the bounds: widen the bounds, with top_code or bottom_code to "
    "group far values, or correct the source",
    ValueRule.CODES: "{values} shorter than a code, or of more digits: correct the source, or width or "
    "prefix",
    ValueRule.CATEGORIES: "the categories miss {distinct} in {rows}: add them or correct the source",
    ValueRule.HIERARCHY: "the hierarchy misses {distinct} in {rows}: add them or correct the source",
}


def described(rule: ValueRule, *, rows: int, distinct: int) -> str:
    """Describe a problem: the rule, the records that break it, and the distinct values."""
    return _WORDS[rule].format(
        values=counted(rows, "value is", "values are"),
        rows=counted(rows, "row"),
        distinct=counted(distinct, "distinct value"),
    )


def problems_of(faults: Faults) -> list[str]:
    """Describe all problems."""
    broken = [(rule, faults[rule]) for rule in ValueRule if rule in faults]
    return [described(rule, rows=values.total(), distinct=len(values)) for rule, values in broken]


def faults_of_numbers(
    column: pd.Series, *, nullable: bool, bounds: tuple[float, float] | None = None
) -> Faults:
    """Return nulls, infinite numbers and those outside of the bounds."""
    values = floats(column)
    counts = {
        ValueRule.NULL: 0 if nullable else np.isnan(values).sum(),
        ValueRule.INFINITE: np.isinf(values).sum(),
    }
    if bounds is not None:
        counts[ValueRule.OUTSIDE] = ((values < bounds[0]) | (values > bounds[1])).sum()
    return {rule: Counter({"": int(count)}) for rule, count in counts.items() if count}


def faults_of_dates(
    faults: Faults, numbers: npt.NDArray[np.float64], bounds: tuple[float, float] | None
) -> Faults:
    """Return the faults found in reading a column of dates, and dates outside of the bounds."""
    outside = 0 if bounds is None else ((numbers < bounds[0]) | (numbers > bounds[1])).sum()
    return faults | ({ValueRule.OUTSIDE: Counter({"": int(outside)})} if outside else {})


def faults_of_codes(codes: npt.NDArray[np.int64], misfits: Sequence[bool]) -> Faults:
    """Return values that no code can be made from.

    Args:
        codes: Index of each value among the distinct ones, -1 = null, shape (n,).
        misfits: Whether each distinct value is wrong, shape (v,).
    """
    count = int(np.array([*misfits, False])[codes].sum())
    return {ValueRule.CODES: Counter({"": count})} if count else {}


def faults_of_labels(
    column: pd.Series,
    *,
    nullable: bool,
    categories: Sequence[str] | None = None,
    leaves: Sequence[str] | None = None,
) -> Faults:
    """Return nulls and values that are not categories, or not leaves of the hierarchy."""
    coded = factorize(column)
    texts = np.array(coded.texts, dtype=object)
    counts = np.bincount(coded.codes[coded.codes >= 0], minlength=len(texts))
    found: Faults = {}
    if coded.nulls and not nullable:
        found[ValueRule.NULL] = Counter({"": coded.nulls})
    for rule, domain in ((ValueRule.CATEGORIES, categories), (ValueRule.HIERARCHY, leaves)):
        if domain is not None:
            unseen = np.flatnonzero(~are_among(texts, domain))
            if len(unseen):
                found[rule] = Counter()
                for value in unseen:  # a whole number and its text are the same value here
                    found[rule][texts[value]] += int(counts[value])
    return found
