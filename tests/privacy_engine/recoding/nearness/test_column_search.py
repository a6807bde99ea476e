"""The search by columns keeps k, never loses more, finds what was planted, and is repeatable."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.recoding.grouping.boxes import tabulate
from privacy_engine.recoding.grouping.refinement import look_up_serially
from privacy_engine.recoding.nearness.column_search import regroup_by_columns
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from tests.privacy_engine.recoding.nearness.test_bounds import drawn
from tests.privacy_engine.recoding.nearness.test_regrouping import loss


def searched(encoded: EncodedTable, labels: np.ndarray, k: int, seed: int = 1) -> np.ndarray:
    geometry, rng = encoded.geometry(), np.random.default_rng(seed)
    return regroup_by_columns(tabulate(geometry), geometry, encoded.codes, labels, k, rng, look_up_serially)


@pytest.mark.parametrize("seed", [4, 5])  # an odd one repeats a third of the records
@pytest.mark.parametrize("k", [2, 3, 5])
def test_classes_keep_k_and_lose_less(k: int, seed: int) -> None:
    encoded = drawn(seed, n=80)
    labels = np.minimum(np.random.default_rng(1).permutation(80) // k, 80 // k - 1)
    found = searched(encoded, labels, k)
    assert len(found) == 80
    assert np.unique(found, return_counts=True)[1].min() >= k
    assert loss(encoded, found) < 0.9 * loss(encoded, labels)
    assert (searched(encoded, labels, k) == found).all()


def test_what_is_suppressed_stays_so() -> None:
    encoded = drawn(4, n=40)
    labels = np.random.default_rng(1).permutation(40) // 4 - 1
    found = searched(encoded, labels, 3)
    assert ((found < 0) == (labels < 0)).all()
    assert np.unique(found[found >= 0], return_counts=True)[1].min() >= 3


SCHEMA = DataSchema.from_dict(
    {
        "x": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 1000]},
        "y": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 1000]},
    }
)


def points(x: np.ndarray, y: np.ndarray) -> EncodedTable:
    return EncodedTable.encode(pd.DataFrame({"x": x, "y": y}), SCHEMA)


def test_planted_classes_are_found() -> None:
    rng, true = np.random.default_rng(2), np.repeat(np.arange(25), 4)
    x, y = true // 5 * 200 + rng.integers(0, 20, 100), true % 5 * 200 + rng.integers(0, 20, 100)
    order = np.lexsort((y, x))  # that of an encoded table
    encoded, true = points(x[order], y[order]), true[order]
    found = searched(encoded, rng.permutation(100) // 4, 4)
    assert len({*zip(true.tolist(), found.tolist(), strict=True)}) == len(np.unique(found)) == 25


def test_what_equal_records_can_spare_completes_others() -> None:
    # Six equal records can spare two of them to the two that lie near; the four others are far from these.
    x = np.array([100] * 6 + [101, 102] + [900, 901, 902, 903])
    encoded = points(x, x)
    found = searched(encoded, np.zeros(12, np.int64), 4)
    assert sorted(np.unique(found, return_counts=True)[1].tolist()) == [4, 4, 4]
    assert len(set(found[8:])) == 1


def test_classes_that_lose_nothing_stay() -> None:
    encoded = points(np.repeat([1, 2, 3], 4), np.repeat([1, 2, 3], 4))
    labels = np.repeat([0, 1, 2], 4)
    assert (searched(encoded, labels, 2) == labels).all()


def test_no_one_is_regrouped_where_all_are_suppressed() -> None:
    labels = np.full(40, -1)
    assert (searched(drawn(4, n=40), labels, 3) == labels).all()


@pytest.mark.parametrize("seed", range(40))
def test_any_small_table_keeps_k_and_loses_no_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 40))
    k = int(rng.integers(2, min(n, 11)))
    encoded = points(*rng.integers(0, rng.integers(2, 30), (2, n)))  # many equal records, or few
    labels = np.minimum(rng.permutation(n) // k, n // k - 1)
    found = searched(encoded, labels, k, seed)
    assert np.unique(found, return_counts=True)[1].min() >= k
    assert loss(encoded, found) <= loss(encoded, labels) + 1e-9
