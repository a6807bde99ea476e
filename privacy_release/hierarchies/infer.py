"""Draft hierarchies from the values of a column, in the form that specifications name.

A draft by prefixes or by a target has every value of the column, so it is private to the curator until a
steward has reviewed it: that a rare value occurs can reveal a person, and groups reveal how a target depends
on values.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import cut_tree, leaves_list, linkage

from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.dates import DATES, calendar_hierarchy, end_of_bounds, problem_of_calendar
from privacy_engine.tables.hierarchy import ROOT, Hierarchy

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.vocabulary import CalendarUnit
    from privacy_release.hierarchies.holders import Holders

MOST_CLUSTERED = 2_000  # largest number of values; all pairwise distances are stored
MOST_NUMBERS = 100_000  # largest number of values under intervals
OTHERS = ("others", "other values", "values of few")  # names of the group of values with few holders
_NAMED = 3  # number of values that the label of a group names


def by_intervals(low: int, high: int, widths: Sequence[int]) -> Hierarchy:
    """Put whole numbers of public bounds under intervals. By default, each width is a multiple of the last.

    >>> by_intervals(0, 99, ()).rows[42]
    ('42', '40-44', '40-49', '40-79', '*')

    Raises:
        SchemaError: If the bounds contain more than `MOST_NUMBERS`, or the widths do not fit.
    """
    if high - low >= MOST_NUMBERS:
        raise SchemaError(
            f"the bounds must hold at most {MOST_NUMBERS:,} whole numbers, got {high - low + 1:,}; a number "
            "without a hierarchy is released in intervals anyway"
        )
    chosen = list(widths)
    if not chosen:
        width = 5
        while width < high - low + 1:
            chosen.append(width)
            width *= 2 if len(chosen) == 1 else 4
    return Hierarchy.intervals(low, high, chosen)


def by_prefixes(values: Sequence[str], keep: Sequence[int]) -> Hierarchy:
    """Put codes under their prefixes. By default, each level has one character fewer, up to five levels.

    Shorter codes are padded to the longest, so that equal prefixes are one label.

    >>> by_prefixes(["1305", "13053", "148"], (4, 2)).rows[:2]
    (('1305', '1305*', '13***', '*'), ('13053', '1305*', '13***', '*'))

    Raises:
        SchemaError: If a code has a `*`, or the lengths are not descending.
    """
    if masked := sum(ROOT in value for value in values):
        raise SchemaError(
            f"{masked:,} values have a {ROOT}, which is how a prefix is written; correct them at the source"
        )
    longest = max(map(len, values))
    if not keep:
        step = max(1, math.ceil((longest - 1) / 5))
        keep = tuple(range(longest - step, 0, -step))
    if list(keep) != sorted(set(keep), reverse=True) or not keep or not 0 < keep[-1] <= keep[0] < longest:
        raise SchemaError(
            f"the lengths of prefixes must decrease, from fewer than the {longest} of the longest code "
            f"to 1 or more, got {list(keep)}"
        )
    return Hierarchy(
        tuple(
            (value, *(value[:n] + ROOT * (longest - len(value[:n])) for n in keep), ROOT) for value in values
        )
    )


def by_calendar(low: str, high: str, *, periods: "Sequence[CalendarUnit]") -> Hierarchy:
    """Put dates that are written as text, between public bounds, under periods, the finest first.

    A column of dates needs none: its schema has `calendar`.

    Raises:
        SchemaError: If the bounds are no dates, or there are too many periods.
        SpecError: If the periods do not nest.
    """
    first, last = end_of_bounds(low, DATES, upper=False), end_of_bounds(high, DATES, upper=True)
    if first is None or last is None or first > last:
        raise SchemaError(
            f"the bounds must be two dates such as 2020-01-01, the earlier one first, got {low} and {high}"
        )
    if (problem := problem_of_calendar(periods)) is not None:
        raise SpecError(problem)
    return calendar_hierarchy(DATES, first, last, periods[0], tuple(periods[1:]))


def by_target(
    holders: "Holders", pairs: "pd.DataFrame", groups: Sequence[int], *, rare: int = 10
) -> Hierarchy:
    """Put values into groups with a similar distribution of a target.

    The distance of two values is Hellinger's distance of the target's distributions given each, and Ward's
    linkage (1963) joins them. A rare value counts as much as a frequent one. Each distribution has one more
    person, distributed as in the whole column, so that a single person is no certainty.

    Values with few holders are in one separate group at every level, because their position would reveal the
    target of these few. No label names them.

    Args:
        holders: Holders of the values.
        pairs: Columns `value` and `target`, with a row for each pair that a person has, shape (n, 2). Numbers
            with more than 10 values are cut into deciles.
        groups: Number of groups of each level, descending. Empty: half of those of the level before, down to
            2.
        rare: Smallest number of holders of a value that is grouped by its target.

    Raises:
        SchemaError: If there are fewer than 3 frequent values or more than `MOST_CLUSTERED`, the numbers of
            groups are not descending, or the target is constant.
    """
    few = holders.rare(rare)
    values = [value for value in holders.values if value not in few]
    if not 3 <= len(values) <= MOST_CLUSTERED:
        raise SchemaError(
            f"values can be grouped if 3 to {MOST_CLUSTERED:,} of them are held by at least {rare}, got "
            f"{len(values):,}; use prefixes or intervals"
        )
    wanted = list(groups) or _halves(len(values))
    if wanted != sorted(set(wanted), reverse=True) or not 1 < wanted[-1] <= wanted[0] < len(values):
        raise SchemaError(
            f"the numbers of groups must decrease, from fewer than the {len(values)} frequent values to 2 or "
            f"more, got {wanted}"
        )
    linked = linkage(np.sqrt(_shares(pairs, values)), "ward")
    cuts = cut_tree(linked, n_clusters=wanted).T
    columns = [values, *(_named(values, cut) for cut in cuts)]
    rows = list(zip(*columns, [ROOT] * len(values), strict=True))
    alike = [rows[i] for i in leaves_list(linked)]  # next to each other
    others = next(word for word in OTHERS if word not in holders.by_value)
    return Hierarchy((*alike, *((value, *[others] * len(wanted), ROOT) for value in sorted(few))))


def _named(values: Sequence[str], groups: "npt.NDArray[np.intp]") -> list[str]:
    """Return the label of each value's group."""
    members: dict[int, list[str]] = {}
    for value, group in zip(values, groups.tolist(), strict=True):
        members.setdefault(group, []).append(value)
    return [_label(members[group]) for group in groups.tolist()]


def _shares(pairs: "pd.DataFrame", values: Sequence[str]) -> "npt.NDArray[np.float64]":
    """Return the distribution of the target given each value, shape (v, t)."""
    value, target = pairs["value"], pairs["target"]
    if pd.api.types.is_numeric_dtype(target) and target.nunique() > 10:
        target = pd.qcut(target, 10, duplicates="drop")
    counts = pd.crosstab(value, target.astype(str)).reindex(pd.Index(values), fill_value=0).to_numpy(float)
    if counts.shape[1] < 2:
        raise SchemaError("the target has one value only; name another column")
    overall = counts.sum(axis=0) / counts.sum()
    smoothed = counts + overall
    found: npt.NDArray[np.float64] = smoothed / smoothed.sum(axis=1, keepdims=True)
    return found


def _halves(values: int) -> list[int]:
    """Return the numbers of groups, each half of the one before.

    >>> _halves(16)
    [8, 4, 2]
    """
    found = []
    while (values := values // 2) > 1:
        found.append(values)
    return found


def _label(members: Sequence[str]) -> str:
    """Return a label that is true of its values.

    >>> _label(["a", "b", "c", "d"])
    'a | b | c | 1 more'
    """
    rest = len(members) - _NAMED
    return " | ".join([*members[:_NAMED], *([f"{rest} more"] if rest > 0 else [])])
