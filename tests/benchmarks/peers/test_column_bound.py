"""The bound by columns against the least loss of small tables, and the program over all sets."""

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.peers.column_bound import least_gcp_by_columns
from privacy_engine.anonymizers.bottom_up import BottomUp
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.nearness.least_boxes import least_gcp
from tests.privacy_engine.recoding.nearness.least_loss import CASES, costs_of_sets, drawn, least

pytestmark = pytest.mark.slow  # compiles functions that only a benchmark calls


@pytest.mark.parametrize(("seed", "k"), CASES)
def test_no_partition_loses_less_than_the_bound_which_is_no_looser_than_the_quick_one(
    seed: int, k: int
) -> None:
    encoded = drawn(seed)
    quick = least_gcp(encoded, k)
    assert quick is not None
    tight = least_gcp_by_columns(encoded, np.zeros(len(encoded), np.int64), k, rounds=12)
    assert quick <= tight <= least(seed, k)


@pytest.mark.parametrize(("seed", "k"), CASES)
def test_a_search_that_is_cut_short_is_still_a_bound(seed: int, k: int) -> None:
    encoded = drawn(seed)
    labels = np.zeros(len(encoded), np.int64)
    assert least_gcp_by_columns(encoded, labels, k, rounds=2, steps=-1) <= least(seed, k)


@pytest.mark.parametrize("seed", range(6))
def test_columns_come_near_the_program_over_all_sets(seed: int) -> None:
    encoded, k = drawn(seed), 3
    costs, n = costs_of_sets(encoded), len(encoded)
    sets = [bits for bits in range(1 << n) if bits.bit_count() == k]
    cover = np.array([[float(bits >> i & 1) for bits in sets] for i in range(n)])
    program = linprog(k * costs[sets], A_ub=-cover, b_ub=-np.ones(n)).fun / n
    found = least_gcp_by_columns(encoded, np.zeros(n, np.int64), k, rounds=40)
    assert 0.9 * program <= found <= program + 1e-9


@pytest.mark.parametrize("k", [2, 5])
def test_a_release_lies_between_its_bound_and_what_it_would_be_without_search(k: int) -> None:
    encoded = drawn(3, n=60)
    rough, fine = (
        BottomUp(k=k, regroup=sweeps).anonymize(encoded, np.random.default_rng(1)) for sweeps in (0, 6)
    )
    bound = least_gcp_by_columns(encoded, fine.labels, k)
    assert bound <= gcp(fine) <= gcp(rough)
