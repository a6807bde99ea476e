"""RFKA: a table worked by hand, and what it refuses."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.anonymizers.rfka import RFKA
from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import DataSchema

SCHEMA = DataSchema.from_dict(
    {name: {"role": "quasi_identifier", "categories": ["0", "1"]} for name in "abc"}
    | {"label": {"role": "sensitive"}}
)
TABLE = pd.DataFrame(
    {"a": list("11110000"), "b": list("11101000"), "c": list("10101010"), "label": list("++++----")}
)


@pytest.mark.parametrize("one_hot", [True, False])
def test_the_hand_worked_table_keeps_a_drops_b_and_keeps_c(one_hot: bool) -> None:
    # a is the label, so it comes first; {a, b}: 3 + 1 + 1 + 3 is not 2-anonymous; {a, c}: 2 + 2 + 2 + 2 is
    release = RFKA(k=2, trees=200, one_hot=one_hot).release(TABLE, SCHEMA, np.random.default_rng(1))
    assert list(release.table.columns) == ["a", "c", "label"]
    expected = TABLE[["a", "c", "label"]].sort_values(["a", "c", "label"], ignore_index=True)
    pd.testing.assert_frame_equal(release.table, expected)
    importance = {name: release.notes[f"importance of {name}"] for name in "abc"}
    assert max(importance, key=importance.__getitem__) == "a"


def test_an_interaction_counts_that_no_single_feature_shows() -> None:
    # label = a xor b: alone neither says anything, so only the forest can tell both from c
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2, (400, 3))
    table = pd.DataFrame(bits.astype(str), columns=list("abc")).assign(
        label=(bits[:, 0] ^ bits[:, 1]).astype(str)
    )
    notes = RFKA(k=2, trees=100).release(table, SCHEMA, np.random.default_rng(1)).notes
    assert min(notes["importance of a"], notes["importance of b"]) > 10 * abs(notes["importance of c"])


def test_a_single_class_label_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        SchemaError, match=r"target 'label' has a single value in all 8 rows.*Name another target"
    ):
        RFKA(k=2, trees=10).release(TABLE.assign(label="+"), SCHEMA, np.random.default_rng(1))


@pytest.mark.parametrize("trees", [0, 2.5, True])
def test_a_bad_number_of_trees_is_refused(trees: object) -> None:
    with pytest.raises(ValueError, match="trees must be a whole number"):
        RFKA(trees=trees)  # type: ignore[arg-type]  # as it may come from a file
