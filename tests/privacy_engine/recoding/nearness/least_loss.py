"""Small tables, and their least loss over all partitions and all choices of suppression."""

from functools import cache

import numpy as np
import pandas as pd

from privacy_engine.recoding.grouping.boxes import boxes_of
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema

TOWNS = Hierarchy(
    (("a", "north", "*"), ("b", "north", "*"), ("c", "south", "*"), ("d", "south", "*"), ("e", "south", "*"))
)
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 20], "nullable": True},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
        "town": {"role": "quasi_identifier", "hierarchy": "towns"},
        "car": {"role": "quasi_identifier", "categories": ["bus", "car", "tram"]},
    },
    {"towns": TOWNS},
)
CASES = [(seed, k) for seed in range(4) for k in (2, 3)]


@cache
def drawn(seed: int, n: int = 8) -> EncodedTable:
    """Records of which some are equal and some have no age."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": pd.array(rng.integers(0, 20, n), dtype="Int64"),
            "grade": rng.choice(["low", "mid", "high"], n),
            "town": rng.choice(list("abcde"), n),
            "car": rng.choice(["bus", "car", "tram"], n, p=[0.7, 0.2, 0.1]),
        }
    )
    table.loc[rng.random(n) < 0.2, "age"] = pd.NA
    if seed % 2:
        table.iloc[: n // 3] = table.iloc[[0] * (n // 3)].to_numpy()
    return EncodedTable.encode(table, SCHEMA)


def costs_of_sets(encoded: EncodedTable, weights: np.ndarray | None = None) -> np.ndarray:
    """(2^n,) cost of the box of each set of records, by its bits."""
    n, geometry = len(encoded), encoded.geometry(weights)
    codes = np.ascontiguousarray(encoded.codes)
    found = np.zeros(1 << n)
    for bits in range(1, 1 << n):
        labels = np.array([0 if bits >> i & 1 else -1 for i in range(n)])
        found[bits] = boxes_of(codes, labels, geometry).cost[0]
    return found


@cache
def least(seed: int, k: int) -> float:
    """Least loss of a drawn table in which a suppressed record costs 1."""
    encoded = drawn(seed)
    return least_loss(costs_of_sets(encoded), len(encoded), k, 1.0)


def least_loss(costs: np.ndarray, n: int, k: int, suppressed: float) -> float:
    """Least mean loss over all partitions into classes of k or more and records that are suppressed."""
    best = np.zeros(1 << n)
    for bits in range(1, 1 << n):
        first = bits & -bits
        best[bits] = suppressed + best[bits ^ first]
        rest = other = bits ^ first
        while True:
            if (size := (other | first).bit_count()) >= k:
                best[bits] = min(best[bits], size * costs[other | first] + best[bits ^ first ^ other])
            if not other:
                break
            other = (other - 1) & rest
    return float(best[-1]) / n
