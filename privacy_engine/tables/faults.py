"""What is wrong with the values of a column, in counts that add up over its parts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.columns import are_among, factorize, floats
from privacy_engine.vocabulary import counted


class Rule(StrEnum):
    """What a value can break; problems are told in this order."""

    NULL = "null"
    FORMAT = "format"
    CALENDAR = "calendar"
    SKIPPED = "skipped"
    INFINITE = "infinite"
    OUTSIDE = "outside"
    CODES = "codes"
    CATEGORIES = "categories"
    HIERARCHY = "hierarchy"


# Rule -> value that breaks it -> records; the value is "" where only records are counted.
Faults = dict[Rule, Counter[str]]

# `{values}` is the records that break the rule, with the verb: "1 value is", "2 values are".
_WORDS: Mapping[Rule, str] = {
    Rule.NULL: "{values} null: drop them at ingest, or keep them (nulls: keep)",
    Rule.FORMAT: "{values} not of the format, or no day of the calendar: correct the source or "
    "the format; if a mark such as an empty text means that the date is missing, read the column as kind: "
    "categorical and make it null in a transform",
    Rule.CALENDAR: "{values} before the year 1 or after the year 9999: mend the source",
    Rule.SKIPPED: "{values} of an hour that the clocks of the zone skipped: mend the source, or correct the "
    "zone",
    Rule.INFINITE: "{values} infinite: mend the source",
    Rule.OUTSIDE: "{values} out of the bounds: widen the bounds, with top_code or bottom_code to "
    "group far values, or correct the source",
    Rule.CODES: "{values} shorter than a code, or of more digits: mend the source, or correct "
    "width or prefix",
    Rule.CATEGORIES: "the categories miss {distinct} in {rows}: add them or mend the source",
    Rule.HIERARCHY: "the hierarchy misses {distinct} in {rows}: add them or mend the source",
}


def told(rule: Rule, *, rows: int, distinct: int) -> str:
    """A problem in words: the rule, how many records break it, with how many distinct values."""
    return _WORDS[rule].format(
        values=counted(rows, "value is", "values are"),
        rows=counted(rows, "row"),
        distinct=counted(distinct, "distinct value"),
    )


def problems_of(faults: Faults) -> list[str]:
    """All problems in words."""
    broken = [(rule, faults[rule]) for rule in Rule if rule in faults]
    return [told(rule, rows=values.total(), distinct=len(values)) for rule, values in broken]


def faults_of_numbers(
    column: pd.Series, *, nullable: bool, bounds: tuple[float, float] | None = None
) -> Faults:
    """Nulls, infinite numbers and those outside of the bounds."""
    values = floats(column)
    counts = {Rule.NULL: 0 if nullable else np.isnan(values).sum(), Rule.INFINITE: np.isinf(values).sum()}
    if bounds is not None:
        counts[Rule.OUTSIDE] = ((values < bounds[0]) | (values > bounds[1])).sum()
    return {rule: Counter({"": int(count)}) for rule, count in counts.items() if count}


def faults_of_dates(
    faults: Faults, numbers: npt.NDArray[np.float64], bounds: tuple[float, float] | None
) -> Faults:
    """Those found in reading a column of dates, and those outside of the bounds; NaN is in none."""
    outside = 0 if bounds is None else ((numbers < bounds[0]) | (numbers > bounds[1])).sum()
    return faults | ({Rule.OUTSIDE: Counter({"": int(outside)})} if outside else {})


def faults_of_codes(codes: npt.NDArray[np.int64], misfits: Sequence[bool]) -> Faults:
    """Values that no code can be made of.

    Args:
        codes: (n,) place of each value among the distinct ones, -1 = null.
        misfits: (v,) which of these are wrong.
    """
    count = int(np.array([*misfits, False])[codes].sum())
    return {Rule.CODES: Counter({"": count})} if count else {}


def faults_of_labels(
    column: pd.Series,
    *,
    nullable: bool,
    categories: Sequence[str] | None = None,
    leaves: Sequence[str] | None = None,
) -> Faults:
    """Nulls and values that are not among the categories, or no leaves of the hierarchy."""
    coded = factorize(column)
    texts = np.array(coded.texts, dtype=object)
    counts = np.bincount(coded.codes[coded.codes >= 0], minlength=len(texts))
    found: Faults = {}
    if coded.nulls and not nullable:
        found[Rule.NULL] = Counter({"": coded.nulls})
    for rule, domain in ((Rule.CATEGORIES, categories), (Rule.HIERARCHY, leaves)):
        if domain is not None:
            unseen = np.flatnonzero(~are_among(texts, domain))
            if len(unseen):
                found[rule] = Counter()
                for value in unseen:  # a whole number and its text are one value here
                    found[rule][texts[value]] += int(counts[value])
    return found
