"""Greedy_Hamdist: the closed form of the Hamming distance, and a table worked by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.greedy_hamdist import GreedyHamdist, hamming_distances
from privacy_engine.tables.schema import DataSchema

SCHEMA = DataSchema.from_dict(
    {name: {"role": "quasi_identifier", "categories": ["0", "1"]} for name in "abc"}
    | {"label": {"role": "sensitive"}}
)
TABLE = pd.DataFrame(
    {"a": list("11110000"), "b": list("11101000"), "c": list("10101010"), "label": list("++++----")}
)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=12))
def test_the_closed_form_equals_the_sum_over_all_pairs_of_different_classes(
    rows: list[tuple[int, int, int]],
) -> None:
    x, y = np.array([row[:2] for row in rows], dtype=np.uint8), np.array([row[2] for row in rows])
    expected = np.zeros(2)
    for i, j in itertools.combinations(range(len(rows)), 2):
        if y[i] != y[j]:
            expected += x[i] != x[j]
    assert hamming_distances(x, y.astype(np.int64)).tolist() == expected.tolist()


def test_the_hand_worked_table_is_valued_by_hand() -> None:
    # a: 4 * 4 + 0 * 0 = 16, b: 3 * 3 + 1 * 1 = 10, c: 2 * 2 + 2 * 2 = 8; as two indicators each, twice that
    notes = GreedyHamdist(k=2).release(TABLE, SCHEMA, np.random.default_rng(1)).notes
    assert [notes[f"importance of {name}"] for name in "abc"] == [32.0, 20.0, 16.0]


@pytest.mark.parametrize("one_hot", [True, False])
def test_the_hand_worked_table_keeps_a_drops_b_and_keeps_c(one_hot: bool) -> None:
    # {a}: 4 + 4; {a, b}: 3 + 1 + 1 + 3, not 2-anonymous; {a, c}: 2 + 2 + 2 + 2
    release = GreedyHamdist(k=2, one_hot=one_hot).release(TABLE, SCHEMA, np.random.default_rng(1))
    assert list(release.table.columns) == ["a", "c", "label"]
    assert list(release.schema.names) == ["a", "c", "label"]
    expected = TABLE[["a", "c", "label"]].sort_values(["a", "c", "label"], ignore_index=True)
    pd.testing.assert_frame_equal(release.table, expected)
    assert (release.notes["kept quasi-identifiers"], release.notes["dropped quasi-identifiers"]) == (2.0, 1.0)


def test_no_random_number_is_drawn() -> None:
    rng = np.random.default_rng(1)
    GreedyHamdist(k=2).release(TABLE, SCHEMA, rng)
    assert rng.bit_generator.state == np.random.default_rng(1).bit_generator.state
