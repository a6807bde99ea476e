"""Lower bounds against the least loss of small tables, over all partitions and all choices of suppression."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from privacy_engine.anonymizers.bottom_up import BottomUp
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.boxes import boxes_of
from privacy_engine.recoding.nearness import least_boxes
from privacy_engine.recoding.nearness.columns import least_gcp_by_columns
from privacy_engine.recoding.nearness.least_boxes import least_gcp, mean_of_least_boxes
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


@pytest.mark.parametrize(("seed", "k"), CASES)
def test_no_partition_and_no_suppression_loses_less_than_the_bounds(seed: int, k: int) -> None:
    encoded = drawn(seed)
    quick = least_gcp(encoded, k)
    assert quick is not None
    tight = least_gcp_by_columns(encoded, np.zeros(len(encoded), np.int64), k, rounds=12)
    assert 0.0 <= quick <= tight <= least(seed, k)


@pytest.mark.parametrize(("seed", "k"), CASES)
def test_a_search_that_is_cut_short_is_still_a_bound(seed: int, k: int) -> None:
    encoded = drawn(seed)
    labels = np.zeros(len(encoded), np.int64)
    assert least_gcp_by_columns(encoded, labels, k, rounds=2, steps=-1) <= least(seed, k)


@pytest.mark.parametrize(("seed", "k"), CASES)
def test_the_quick_bound_is_the_mean_of_the_least_boxes(seed: int, k: int) -> None:
    encoded = drawn(seed)
    weights = np.random.default_rng(seed).random(4)
    costs, n = costs_of_sets(encoded, weights), len(encoded)
    sizes = np.array([bits.bit_count() for bits in range(1 << n)])
    requested = [costs[[b for b in range(1 << n) if b >> i & 1 and sizes[b] == k]].min() for i in range(n)]
    tuples, counts = np.unique(encoded.codes, axis=0, return_counts=True)
    geometry = encoded.geometry(weights)
    found = mean_of_least_boxes(tuples.astype(np.int32), counts, geometry, k)
    assert found == pytest.approx(np.mean(requested), abs=1e-7)
    cut = mean_of_least_boxes(tuples.astype(np.int32), counts, geometry, k, steps=-1)
    assert cut <= found


@pytest.mark.parametrize("seed", range(2))
def test_of_pairs_the_quick_bound_is_the_mean_cost_of_the_nearest_record(seed: int) -> None:
    encoded, n = drawn(seed, n=120), 120
    codes, geometry = np.ascontiguousarray(encoded.codes), encoded.geometry()
    first, second = np.nonzero(~np.eye(n, dtype=bool))
    pairs = codes[np.column_stack((first, second)).ravel()]
    costs = boxes_of(pairs, np.repeat(np.arange(len(first)), 2), geometry).cost
    nearest = costs.reshape(n, n - 1).min(axis=1).mean()
    assert least_gcp(encoded, 2) == pytest.approx(nearest, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_columns_come_near_the_program_over_all_sets(seed: int) -> None:
    encoded, k = drawn(seed), 3
    costs, n = costs_of_sets(encoded), len(encoded)
    sets = [bits for bits in range(1 << n) if bits.bit_count() == k]
    cover = np.array([[float(bits >> i & 1) for bits in sets] for i in range(n)])
    program = linprog(k * costs[sets], A_ub=-cover, b_ub=-np.ones(n)).fun / n
    found = least_gcp_by_columns(encoded, np.zeros(n, np.int64), k, rounds=40)
    assert 0.9 * program <= found <= program + 1e-9


def test_of_as_many_records_as_k_the_bound_is_the_loss() -> None:
    encoded = drawn(2)
    whole = costs_of_sets(encoded)[-1]
    assert least_gcp(encoded, len(encoded)) == pytest.approx(whole)


def test_of_fewer_records_than_k_all_is_lost() -> None:
    assert least_gcp(drawn(0), 10) == 1.0


def test_identical_records_may_lose_nothing() -> None:
    encoded = EncodedTable.encode(drawn(1).table.iloc[[0] * 6].reset_index(drop=True), SCHEMA)
    assert least_gcp(encoded, 6) == 0.0


def test_no_bound_is_reported_of_more_tuples_than_it_is_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_boxes, "MOST_TUPLES", 3)
    assert least_gcp(drawn(0), 2) is None


@pytest.mark.parametrize("k", [2, 5])
def test_a_release_lies_between_its_bound_and_what_it_would_be_without_search(k: int) -> None:
    encoded = drawn(3, n=60)
    rough, fine = (
        BottomUp(k=k, regroup=sweeps).anonymize(encoded, np.random.default_rng(1)) for sweeps in (0, 6)
    )
    bound = least_gcp_by_columns(encoded, fine.labels, k)
    assert bound <= gcp(fine) <= gcp(rough)
