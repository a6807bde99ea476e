"""Repair: classes that miss a model are merged; records are suppressed where that lowers the loss."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.recoding.grouping.model_rules import least_size
from privacy_engine.recoding.grouping.repair import repair, suppress_where_it_pays
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    PrivacyModel,
    RecursiveCLDiversity,
    TCloseness,
    holds,
)

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "disease": {"role": "sensitive"},
    }
)
L2 = (DistinctLDiversity(l=2),)


def encode(ages: list[int], diseases: str) -> EncodedTable:
    """Ages must ascend, so that records keep their order."""
    return EncodedTable.encode(pd.DataFrame({"age": ages, "disease": list(diseases)}), SCHEMA)


def repaired(
    encoded: EncodedTable,
    labels: list[int],
    models: tuple[PrivacyModel, ...] = L2,
    k: int = 2,
) -> list[int]:
    return repair(encoded, np.array(labels), encoded.geometry(), models, k).tolist()


def suppressed(
    encoded: EncodedTable,
    labels: list[int],
    limit: float,
    models: tuple[PrivacyModel, ...] = (),
    k: int = 2,
) -> list[int]:
    """The records that are suppressed."""
    found = suppress_where_it_pays(encoded, np.array(labels), k, models, limit)
    return np.flatnonzero(found < 0).tolist()


def test_a_class_that_fails_is_merged_with_the_one_that_costs_least() -> None:
    # classes 10-20, 30-40 and 90-95; the first has one disease and lies next to the second
    encoded = encode([10, 20, 30, 40, 90, 95], "aaabab")
    assert repaired(encoded, [0, 0, 1, 1, 2, 2]) == [0, 0, 0, 0, 1, 1]


def test_classes_that_keep_the_models_are_left_alone() -> None:
    encoded = encode([10, 20, 30, 40], "abab")
    assert repaired(encoded, [1, 1, 0, 0]) in ([0, 0, 1, 1], [1, 1, 0, 0])


def test_without_a_model_nothing_is_done() -> None:
    encoded = encode([10, 20, 30], "aaa")
    assert repaired(encoded, [0, 1, 2], models=()) == [0, 1, 2]


def test_merging_goes_on_until_every_class_keeps_the_models() -> None:
    encoded = encode([10, 20, 30, 40, 50, 60], "aaaaab")
    assert repaired(encoded, [0, 0, 1, 1, 2, 2]) == [0] * 6


def test_one_class_remains_where_nothing_else_helps() -> None:
    encoded = encode([10, 20, 30, 40], "aaaa")
    assert repaired(encoded, [0, 0, 1, 1]) == [0, 0, 0, 0]


def test_of_two_ways_to_repair_the_one_that_loses_less_is_taken() -> None:
    # The nearest class has the same disease again; the one that repairs is a little farther.
    encoded = encode([10, 11, 13, 14, 16, 17, 90, 91], "aaaabbab")
    found = repaired(encoded, [0, 0, 1, 1, 2, 2, 3, 3], models=(TCloseness(t=0.3),))
    assert len(set(found)) == 2
    assert holds(TCloseness(t=0.3), encoded.classes_of(np.array(found)))


# Nine records at 10 and one at 100: with it each of the ten loses 0.9, without it none.
FAR = [10] * 9 + [100]


def test_a_record_is_suppressed_where_its_class_saves_more_than_it_loses() -> None:
    assert suppressed(encode(FAR, "ab" * 5), [0] * 10, 0.1) == [9]


def test_a_record_is_not_suppressed_where_that_does_not_pay() -> None:
    assert suppressed(encode([10] * 9 + [11], "ab" * 5), [0] * 10, 1.0) == []


@pytest.mark.parametrize(("limit", "gone"), [(0.0, 0), (0.19, 0), (0.2, 1), (0.29, 1), (0.4, 2), (1.0, 2)])
def test_the_most_profitable_go_first_within_the_limit(limit: float, gone: int) -> None:
    # of 5 records: 100 first, then 40
    assert suppressed(encode([10, 10, 10, 60, 100], "ababa"), [0] * 5, limit) == [3, 4][2 - gone :]


def test_a_limit_that_is_a_share_of_the_records_is_used_to_the_last_one() -> None:
    # 0.29 of 100 is 28.999999999999996 in floating point
    encoded = encode([0] * 71 + [100] * 29, "a" * 100)
    assert len(suppressed(encoded, [0] * 71 + [0] * 29, 0.29)) in (0, 29)
    spread = encode([0] * 71 + list(range(72, 101)), "a" * 100)
    assert len(suppressed(spread, [0] * 100, 0.29)) == 29


def test_no_class_falls_below_k_or_breaks_a_model_by_suppression() -> None:
    assert suppressed(encode([10, 10, 100], "aba"), [0] * 3, 1.0, k=3) == []
    assert suppressed(encode([10] * 8 + [100], "a" * 8 + "b"), [0] * 9, 1.0, L2) == []


def test_records_suppressed_before_count_against_the_limit() -> None:
    encoded = encode([10, *FAR], "ab" * 5 + "a")
    assert suppressed(encoded, [-1] + [0] * 10, 0.1) == [0]
    assert suppressed(encoded, [-1] + [0] * 10, 0.2) == [0, 10]


def test_records_suppressed_before_stay_suppressed() -> None:
    encoded = encode([10, 20, 30, 40, 50], "aabab")
    assert repaired(encoded, [-1, 0, 0, 1, 1])[0] == -1


MODELS: list[PrivacyModel] = [
    DistinctLDiversity(l=2),
    EntropyLDiversity(l=1.5),
    RecursiveCLDiversity(c=3, l=2),
    TCloseness(t=0.3),
    TCloseness(t=0.3, distance="ordered"),
    AlphaKAnonymity(alpha=0.8, k=3),
    BetaLikeness(beta=1),
    BetaLikeness(beta=1, enhanced=True),
    DeltaDisclosure(delta=1),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
@given(
    records=st.lists(st.tuples(st.integers(0, 99), st.sampled_from("abc")), min_size=2, max_size=8),
    data=st.data(),
)
def test_what_is_left_keeps_the_model_wherever_the_whole_of_it_does(
    model: PrivacyModel, records: list[tuple[int, str]], data: st.DataObject
) -> None:
    ages, diseases = zip(*sorted(records), strict=True)
    encoded = encode(list(ages), "".join(diseases))
    labels = data.draw(st.lists(st.integers(0, 3), min_size=len(records), max_size=len(records)))
    limit = data.draw(st.sampled_from([0.0, 0.25, 0.5]))
    k = max(2, least_size([model]))
    merged = np.array(repaired(encoded, labels, (model,), k))
    if len(set(merged.tolist())) == 1:
        return
    found = suppress_where_it_pays(encoded, merged, k, (model,), limit)
    assert np.count_nonzero(found < 0) <= limit * len(records)
    left = encoded.classes_of(found)
    if len(left) > 1:
        assert holds(model, left)
        assert left.sizes.min() >= k


@given(
    records=st.lists(st.tuples(st.integers(0, 99), st.sampled_from("ab")), min_size=2, max_size=8),
    data=st.data(),
)
def test_records_of_a_class_are_never_parted(records: list[tuple[int, str]], data: st.DataObject) -> None:
    ages, diseases = zip(*sorted(records), strict=True)
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(records), max_size=len(records))))
    found = np.array(repaired(encode(list(ages), "".join(diseases)), labels.tolist()))
    for label in np.unique(labels):
        assert len(set(found[labels == label].tolist())) == 1
