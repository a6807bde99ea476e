"""Simulated patients of a clinic, week by week: they arrive, move, return and leave. No one is real."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

ARRIVALS = 40  # in a week
STAY = 40.0  # weeks on average
LONGEST = 200  # weeks
MOVES, CORRECTED = 0.004, 0.002  # shares of the patients in a week
AWAY = 0.02  # share of the patients who take a break
COUNTIES = tuple(
    f"{region} {number}" for region in ("North", "East", "South", "West") for number in (1, 2, 3)
)
DIAGNOSES = (
    "asthma",
    "diabetes",
    "depression",
    "hypertension",
    "arthritis",
    "back pain",
    "migraine",
    "cancer",
)
_SHARES = (0.16, 0.17, 0.13, 0.2, 0.12, 0.1, 0.07, 0.05)


def patients_of_week(text: str) -> pd.DataFrame:
    """Simulate the patients of the week that a partition key begins with; equal keys give equal patients.

    Returns:
        One row for each patient: `patient`, `age`, `sex`, `county`, `diagnosis`.
    """
    import numpy as np
    import pandas as pd

    week = date.fromisoformat(text[:10]).toordinal() // 7
    arrived = pd.concat([_arrived(first) for first in range(week - LONGEST, week + 1)], ignore_index=True)
    since = week - arrived["first"]
    here = (since < arrived["weeks"]) & ~((since >= arrived["away"]) & (since < arrived["away"] + 3))
    found = arrived[here].reset_index(drop=True)
    since = since[here].reset_index(drop=True)
    moved = since >= found["moves"]
    found["county"] = found["county"].where(~moved, found["county_then"])
    corrected = since >= found["corrected"]
    found["diagnosis"] = found["diagnosis"].where(~corrected, found["diagnosis_then"])
    order = np.random.default_rng(week).permutation(len(found))
    return found[["patient", "age", "sex", "county", "diagnosis"]].iloc[order].reset_index(drop=True)


@cache
def _arrived(week: int) -> pd.DataFrame:
    """Simulate the patients who arrive in a week, and what happens to each after how many weeks."""
    import numpy as np
    import pandas as pd

    rng, n = np.random.default_rng(week), ARRIVALS
    county = rng.integers(0, len(COUNTIES), n)
    near = county // 3 * 3 + (county + 1) % 3  # another county of the same region
    diagnosis = rng.choice(len(DIAGNOSES), n, p=_SHARES)
    return pd.DataFrame(
        {
            "patient": [f"{week}-{number:02d}" for number in range(n)],
            "first": week,
            "weeks": np.minimum(rng.geometric(1 / STAY, n), LONGEST),
            "moves": rng.geometric(MOVES, n),
            "corrected": rng.geometric(CORRECTED, n),
            "away": np.where(rng.random(n) < AWAY, rng.integers(2, 20, n), LONGEST + 1),
            "age": np.clip(rng.normal(55 - 8 * (diagnosis % 3), 17, n), 18, 95).astype(np.int64),
            "sex": rng.choice(["female", "male"], n),
            "county": np.array(COUNTIES)[county],
            "county_then": np.array(COUNTIES)[near],
            "diagnosis": np.array(DIAGNOSES)[diagnosis],
            "diagnosis_then": np.array(DIAGNOSES)[(diagnosis + rng.integers(1, 8, n)) % 8],
        }
    )
