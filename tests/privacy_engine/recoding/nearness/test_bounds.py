"""Lower bounds against the least loss of small tables, over all partitions and all choices of suppression."""

import numpy as np
import pytest

from privacy_engine.anonymizers.bottom_up import BottomUp
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.boxes import boxes_of
from privacy_engine.recoding.nearness import least_boxes
from privacy_engine.recoding.nearness.least_boxes import least_gcp, mean_of_least_boxes
from privacy_engine.tables.encoding import EncodedTable
from tests.privacy_engine.recoding.nearness.least_loss import CASES, SCHEMA, costs_of_sets, drawn, least


@pytest.mark.parametrize(("seed", "k"), CASES)
def test_no_partition_and_no_suppression_loses_less_than_the_bound(seed: int, k: int) -> None:
    encoded = drawn(seed)
    quick = least_gcp(encoded, k)
    assert quick is not None
    assert 0.0 <= quick <= least(seed, k)


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
    bound = least_gcp(encoded, k)
    assert bound is not None
    assert bound <= gcp(fine) <= gcp(rough)
