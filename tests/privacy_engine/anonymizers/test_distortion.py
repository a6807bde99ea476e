"""Distortion: every class gets its l values, by as few changes as can be, within the value's cluster."""

from collections import Counter

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.groups import Group, distort
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema

SCHEMA = DataSchema.from_dict(
    {"id": {"role": "quasi_identifier", "kind": "numeric"}, "disease": {"role": "sensitive"}}
)


def encode(diseases: list[str]) -> EncodedTable:
    return EncodedTable.encode(pd.DataFrame({"id": range(len(diseases)), "disease": diseases}), SCHEMA)


def groups_of(encoded: EncodedTable, cluster_of: list[int]) -> list[Group]:
    """One group a cluster of the values."""
    codes = encoded.sensitive[0]
    clusters = np.array(cluster_of)
    return [
        Group(values=np.flatnonzero(clusters == c), rows=np.flatnonzero(clusters[codes] == c))
        for c in np.unique(clusters)
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[EncodedTable, np.ndarray, list[Group], int]:
    """Values a b c | d e f in two clusters; classes of at least l records inside a cluster."""
    least = draw(st.integers(1, 3))
    diseases, labels, label = list("abcdef"), [], 0
    for cluster in ("abc", "def"):
        sizes = draw(st.lists(st.integers(least, 4), min_size=1, max_size=2))
        own = [*cluster, *draw(st.lists(st.sampled_from(cluster), min_size=8, max_size=8))]
        for size in sizes:
            labels += [(own.pop(draw(st.integers(0, len(own) - 1))), label) for _ in range(size)]
            label += 1
    diseases = [d for d, _ in labels]
    present = [sorted(set(diseases) & set(cluster)) for cluster in ("abc", "def")]
    # each cluster must have l values in play, as clustering makes sure
    if min(len(values) for values in present) < least:
        least = min(len(values) for values in present)
    encoded = encode(diseases)
    cluster_of = [0] * len(present[0]) + [1] * len(present[1])
    return encoded, np.array([c for _, c in labels]), groups_of(encoded, cluster_of), least


@given(cases(), st.integers(0, 99))
def test_every_class_gets_its_values_by_as_few_changes_as_can_be(
    case: tuple[EncodedTable, np.ndarray, list[Group], int], seed: int
) -> None:
    encoded, labels, groups, least = case
    changed = distort(encoded, 0, labels, groups, least, np.random.default_rng(seed))
    for label in np.unique(labels):
        before, after = encoded.sensitive[0][labels == label], changed.sensitive[0][labels == label]
        had = len(set(before.tolist()))
        assert len(set(after.tolist())) == max(had, least)
        assert np.count_nonzero(before != after) == max(least - had, 0)
        assert set(before.tolist()) <= set(after.tolist())  # no value of the class is lost


@given(cases(), st.integers(0, 99))
def test_a_changed_value_stays_in_its_cluster_and_in_its_cell(
    case: tuple[EncodedTable, np.ndarray, list[Group], int], seed: int
) -> None:
    encoded, labels, groups, least = case
    changed = distort(encoded, 0, labels, groups, least, np.random.default_rng(seed))
    cluster = {int(value): i for i, group in enumerate(groups) for value in group.values}
    for before, after in zip(encoded.sensitive[0], changed.sensitive[0], strict=True):
        assert cluster[int(before)] == cluster[int(after)]
    names = changed.sensitive_domains[0].values
    assert changed.table["disease"].tolist() == [names[code] for code in changed.sensitive[0]]


def test_a_class_of_one_value_gets_two_others_of_its_cluster() -> None:
    encoded = encode(["a", "a", "a", "b", "c", "d"])
    groups = groups_of(encoded, [0, 0, 0, 1])
    changed = distort(encoded, 0, np.array([0, 0, 0, 1, 1, 1]), groups, 3, np.random.default_rng(1))
    assert Counter(changed.table["disease"][:3]) == Counter("abc")
    assert changed.table["disease"][3:].tolist() == ["b", "c", "d"]
    assert encoded.table["disease"].tolist() == ["a", "a", "a", "b", "c", "d"]  # the source is as it was


def test_suppressed_records_are_left_alone() -> None:
    encoded = encode(["a", "a", "a", "b"])
    changed = distort(
        encoded, 0, np.array([-1, -1, 0, 0]), groups_of(encoded, [0, 0]), 2, np.random.default_rng(1)
    )
    assert changed.sensitive.tolist() == encoded.sensitive.tolist()


def test_equal_seeds_change_equal_records() -> None:
    encoded = encode(list("aaaabcaaaa"))
    labels = np.array([0] * 4 + [1] * 2 + [2] * 4)
    one, other = (
        distort(encoded, 0, labels, groups_of(encoded, [0, 0, 0]), 2, np.random.default_rng(9))
        for _ in range(2)
    )
    assert np.array_equal(one.sensitive, other.sensitive)
