"""Write a table of invented library readers for the tutorial, one row each: CSV, or Parquet by its name."""

import sys

import numpy as np
import pandas as pd

READERS = 6_000
BRANCHES = {
    "Central": 0.3,
    "Harbour": 0.15,
    "Hillside": 0.1,
    "Northgate": 0.2,
    "University": 0.15,
    "Westend": 0.1,
}
TOPICS = ("crime", "history", "law", "medicine", "novel", "poetry", "religion", "travel")


def loans(readers: int = READERS) -> pd.DataFrame:
    """Make up the readers: cards, years of birth, postcodes, branches, first days, topics and loans."""
    rng = np.random.default_rng(2026)
    age = np.clip(rng.gamma(6, 7, readers), 6, 95).astype(int)
    branch = rng.choice(list(BRANCHES), readers, p=list(BRANCHES.values()))
    at = np.array([list(BRANCHES).index(name) for name in branch])
    likes = rng.dirichlet(np.full(len(TOPICS), 2.0), len(BRANCHES))
    return pd.DataFrame(
        {
            "card": [f"L{number:06d}" for number in rng.permutation(readers)],
            "born": 2026 - age,
            "postcode": (10_100 + 10 * at + rng.integers(0, 10, readers)).astype(str),
            "branch": branch,
            "joined": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 4_000, readers), unit="D"),
            "topic": [TOPICS[rng.choice(len(TOPICS), p=likes[place])] for place in at],
            "loans": rng.poisson(12, readers),
        }
    )


if __name__ == "__main__":
    path = sys.argv[1]
    if path.endswith(".parquet"):
        loans().to_parquet(path, index=False)
    else:
        loans().to_csv(path, index=False)
