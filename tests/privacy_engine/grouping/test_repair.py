"""Repair: classes that miss a model are suppressed within the limit, then merged at the least cost."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.grouping.model_rules import compile_constraints, least_size
from privacy_engine.grouping.repair import repair, suppress_failing
from privacy_engine.judge.models import (
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
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema

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
    limit: float = 0,
) -> list[int]:
    return repair(encoded, np.array(labels), encoded.geometry(), models, k, limit).tolist()


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


@pytest.mark.parametrize(
    ("limit", "gone"),
    [(0.0, 0), (0.19, 0), (0.2, 2), (0.49, 2), (0.5, 5), (1.0, 5)],  # of 10; classes of 2 and 3 fail
)
def test_failing_classes_are_suppressed_the_smallest_first_within_the_limit(limit: float, gone: int) -> None:
    encoded = encode([10, 11, 30, 31, 32, 60, 61, 62, 90, 91], "aaaaaababa")
    found = np.array(repaired(encoded, [0, 0, 1, 1, 1, 2, 2, 2, 3, 3], limit=limit))
    assert np.flatnonzero(found < 0).tolist() == list(range(gone))
    assert holds(L2[0], encoded.classes_of(found))


def test_a_limit_that_is_a_share_of_the_records_is_used_to_the_last_one() -> None:
    # 0.29 of 100 is 28.999999999999996 in floating point
    encoded = encode(list(range(100)), "a" * 29 + "ab" * 35 + "b")
    labels = [0] * 29 + [1] * 71
    assert repaired(encoded, labels, limit=0.29).count(-1) == 29


def test_records_suppressed_before_stay_suppressed() -> None:
    encoded = encode([10, 20, 30, 40, 50], "aabab")
    assert repaired(encoded, [-1, 0, 0, 1, 1])[0] == -1


def test_a_table_whose_classes_would_all_go_is_merged_instead() -> None:
    encoded = encode([10, 20, 30, 40], "aabb")
    assert repaired(encoded, [0, 0, 1, 1], limit=1.0) == [0, 0, 0, 0]


def test_only_failing_classes_are_suppressed() -> None:
    encoded = encode([10, 20, 30, 40, 50, 60], "aaabab")
    assert suppress_failing(
        encoded, np.array([0, 0, 1, 1, 2, 2]), compile_constraints(L2, encoded), 1.0
    ).tolist() == [-1, -1, 1, 1, 2, 2]


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
@settings(deadline=None)
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
    found = np.array(repaired(encoded, labels, (model,), k, limit))
    assert np.count_nonzero(found < 0) <= limit * len(records)
    left = encoded.classes_of(found)
    if len(left) > 1:
        assert holds(model, left)
        assert left.sizes.min() >= k


@settings(deadline=None)
@given(
    records=st.lists(st.tuples(st.integers(0, 99), st.sampled_from("ab")), min_size=2, max_size=8),
    data=st.data(),
)
def test_records_of_a_class_are_never_parted(records: list[tuple[int, str]], data: st.DataObject) -> None:
    ages, diseases = zip(*sorted(records), strict=True)
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(records), max_size=len(records))))
    found = np.array(repaired(encode(list(ages), "".join(diseases)), labels.tolist(), limit=0.25))
    for label in np.unique(labels):
        assert len(set(found[labels == label].tolist())) == 1
