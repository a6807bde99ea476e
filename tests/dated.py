"""A table of stays with dates in every role, and what a released cell of a date covers."""

import datetime as dt
import re
from typing import Any

import numpy as np
import pandas as pd

FIELDS: dict[str, Any] = {
    "born": {"role": "quasi_identifier", "kind": "date", "bounds": ["1930-01-01", "2010-12-31"]},
    "admitted": {"role": "quasi_identifier", "kind": "date", "calendar": ["month", "quarter", "year"]},
    "seen": {"role": "quasi_identifier", "kind": "timestamp", "precision": "hour"},
    "died": {"role": "sensitive", "kind": "date", "precision": "quarter"},
    "paid": {"role": "insensitive", "kind": "date", "precision": "month"},
    "illness": {"role": "sensitive", "kind": "categorical"},
}


def stays(n: int = 120, seed: int = 3) -> pd.DataFrame:
    """Records that fit, in the types that pandas has for them, with an index that means nothing."""
    rng = np.random.default_rng(seed)
    admitted = np.datetime64("2019-01-01", "s") + rng.integers(0, 730, n) * 86_400
    return pd.DataFrame(
        {
            "born": pd.Series(np.datetime64("1930-01-01", "s") + rng.integers(0, 29_000, n) * 86_400),
            "admitted": pd.Series(admitted),
            "seen": pd.Series(admitted + rng.integers(0, 86_400, n)).astype("datetime64[us]"),
            "died": pd.Series(admitted + rng.integers(0, 200, n) * 86_400),
            "paid": pd.Series(admitted + rng.integers(0, 200, n) * 86_400),
            "illness": rng.choice(["flu", "cold", "gout", "none"], n),
        }
    ).set_axis(rng.integers(0, 5, n), axis="index")


def covers(cell: str, moment: dt.datetime) -> bool:
    """Whether a period, or an interval of two, holds a moment; by Python's calendar alone.

    >>> covers("[2020-02, 2020-W11]", dt.datetime(2020, 3, 14)), covers("2019-Q4", dt.datetime(2020, 1, 1))
    (True, False)
    """
    if cell == "*":
        return True
    first, last = cell.strip("[]").split(", ") if cell.startswith("[") else (cell, cell)
    return span(first)[0] <= moment < span(last)[1]


def span(label: str) -> tuple[dt.datetime, dt.datetime]:
    """The first moment of a period, and the first after it."""
    day = dt.timedelta(days=1)
    if found := re.fullmatch(r"(\d{4})-W(\d\d)", label):
        monday = dt.datetime.combine(dt.date.fromisocalendar(int(found[1]), int(found[2]), 1), dt.time())
        return monday, monday + 7 * day
    if found := re.fullmatch(r"(\d{4})(?:-Q(\d)|-(\d\d))?(s)?", label):
        months = 3 if found[2] else 1 if found[3] else 120 if found[4] else 12
        first = int(found[3] or 1) if not found[2] else 3 * int(found[2]) - 2
        after = int(found[1]) * 12 + first - 1 + months
        return dt.datetime(int(found[1]), first, 1), dt.datetime(after // 12, after % 12 + 1, 1)
    forms = {"%Y-%m-%d": day, "%Y-%m-%dT%H": day / 24, "%Y-%m-%dT%H:%M:%S": day / 86_400}
    form, step = next(
        (f, s) for f, s in forms.items() if len(dt.datetime(2020, 1, 1).strftime(f)) == len(label)
    )
    start = dt.datetime.strptime(label, form)
    return start, start + step
