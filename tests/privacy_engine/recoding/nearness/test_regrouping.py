"""Regrouping keeps k and all rules, never loses more, and is repeatable."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import load_method
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.boxes import boxes_of, tabulate
from privacy_engine.recoding.grouping.constraints import no_constraints
from privacy_engine.recoding.grouping.refinement import look_up_serially
from privacy_engine.recoding.nearness.regrouping import regroup
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from tests.privacy_engine.recoding.nearness.test_bounds import drawn


def loss(encoded: EncodedTable, labels: np.ndarray) -> float:
    boxes = boxes_of(np.ascontiguousarray(encoded.codes), labels, encoded.geometry())
    return float(boxes.size @ boxes.cost)


def regrouped(encoded: EncodedTable, labels: np.ndarray, k: int, sweeps: int, seed: int = 1) -> np.ndarray:
    space, rng = tabulate(encoded.geometry()), np.random.default_rng(seed)
    return regroup(
        space, encoded.codes, labels, k, sweeps, rng, encoded.sensitive, no_constraints(), look_up_serially
    )


@pytest.mark.parametrize("k", [2, 3, 5])
def test_classes_keep_k_and_lose_less(k: int) -> None:
    encoded = drawn(4, n=80)
    labels = np.random.default_rng(1).permutation(80) // k
    labels = np.minimum(labels, 80 // k - 1)
    found = regrouped(encoded, labels, k, 4)
    assert np.bincount(found).min() >= k
    assert loss(encoded, found) < 0.9 * loss(encoded, labels)
    assert (regrouped(encoded, labels, k, 4) == found).all()


def test_what_is_suppressed_stays_so() -> None:
    encoded = drawn(4, n=40)
    labels = np.arange(40) // 4 - 1
    found = regrouped(encoded, labels, 3, 3)
    assert ((found < 0) == (labels < 0)).all()
    assert np.bincount(found[found >= 0]).min() >= 3


@pytest.mark.parametrize("sweeps", [0, 3])
def test_one_class_and_no_sweep_change_nothing(sweeps: int) -> None:
    encoded = drawn(4, n=12)
    one = np.zeros(12, np.int64)
    assert (regrouped(encoded, one, 3, sweeps) == one).all()


ILL = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "zip": {"role": "quasi_identifier", "categories": list("abcdefgh")},
        "illness": {"role": "sensitive", "categories": ["asthma", "cough", "flu", "gout"]},
    }
)


def people(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, n),
            "zip": rng.choice(list("abcdefgh"), n),
            "illness": rng.choice(["asthma", "cough", "flu", "gout"], n, p=[0.6, 0.2, 0.15, 0.05]),
        }
    )


@pytest.mark.quick("bottom_up-None", "obpa-100", "ilp_l_diversity-None")
@pytest.mark.parametrize("block_size", [None, 100])
@pytest.mark.parametrize("key", ["bottom_up", "obpa", "ilp_l_diversity"])
def test_a_release_keeps_all_that_it_claims_and_loses_less(key: str, block_size: int | None) -> None:
    lost = []
    for sweeps in (0, 5):  # `release` measures every guarantee on what it made
        fields = {"reading": "equal"} if key == "ilp_l_diversity" else {}
        method = load_method(key, k=4, l=3, regroup=sweeps, block_size=block_size, **fields)
        release = method.release(people(250), ILL, np.random.default_rng(1))
        assert release.recoding is not None
        lost.append(gcp(release.recoding))
    assert lost[1] < lost[0]


def test_rows_of_persons_are_not_regrouped() -> None:
    schema = DataSchema.from_dict(
        {"who": {"role": "identifier"}, **ILL.to_dict(), "person": {"column": "who"}}
    )
    table = people(120).assign(who=[str(i // 2) for i in range(120)])
    tables = [
        load_method("bottom_up", k=4, regroup=sweeps).release(table, schema, np.random.default_rng(1)).table
        for sweeps in (0, 3)
    ]
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize("key", ["bottom_up", "obpa", "ilp_l_diversity"])
def test_fewer_sweeps_than_none_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="regroup must be >= 0, got -1"):
        load_method(key, regroup=-1)
