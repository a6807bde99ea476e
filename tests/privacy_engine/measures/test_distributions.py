"""Before and after: public groups only, small counts of the source hidden, the release spread evenly."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.anonymizers.cell_suppression import with_flat_domains
from privacy_engine.measures.distributions import (
    MOST_GROUPS,
    Distribution,
    Withheld,
    distributions,
    protected,
)
from privacy_engine.measures.recoding import Recoding
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role

QI = Role.QUASI_IDENTIFIER


def recoding_of(attribute: Attribute, values: list[object], labels: list[int]) -> Recoding:
    encoded = EncodedTable.encode(pd.DataFrame({attribute.name: values}), DataSchema((attribute,)))
    assert encoded.table[attribute.name].tolist() == values, "give the values in the order of their codes"
    return Recoding(encoded, np.array(labels))


def shown(recoding: Recoding, smallest_count: int = 2) -> Distribution:
    (found,) = distributions(recoding, smallest_count)
    assert isinstance(found, Distribution)
    return found


def test_whole_numbers_are_spread_over_the_whole_numbers_of_their_interval() -> None:
    age = Attribute(name="age", role=QI, kind=Kind.NUMERIC, bounds=(1, 5))
    found = shown(recoding_of(age, [1, 1, 2, 5, 5], [0, 0, 1, 1, 1]))
    assert found.groups == ("1", "2", "3", "4", "5")
    assert found.after == pytest.approx((2, 0.75, 0.75, 0.75, 0.75))  # [2, 5] has four numbers for 3 records


def test_wide_domains_are_cut_into_equal_public_bins() -> None:
    age = Attribute(name="age", role=QI, kind=Kind.NUMERIC, bounds=(17, 90))
    found = shown(recoding_of(age, [17, 21, 22, 90], [0, 0, 1, 2]))
    assert found.groups[:2] == ("17 to 21", "22 to 26")
    assert found.groups[-1] == "87 to 90"
    assert len(found.groups) <= MOST_GROUPS
    assert (found.after[0], found.after[1], found.after[-1]) == pytest.approx((2, 1, 1))


def test_real_numbers_keep_their_ends_inside_the_bounds() -> None:
    wage = Attribute(name="wage", role=QI, kind=Kind.NUMERIC, bounds=(0, 1))
    found = shown(recoding_of(wage, [0.0, 0.1, 0.1, 0.25, 0.75, 1.0], [0, 1, 1, 2, 3, 4]))
    assert len(found.groups) == MOST_GROUPS
    assert sum(found.after) == pytest.approx(6)
    assert (found.after[0], found.after[1], found.after[-1]) == pytest.approx((1, 2, 1))


def test_ordinal_categories_keep_their_order_and_their_names() -> None:
    grade = Attribute(name="grade", role=QI, kind=Kind.ORDINAL, categories=("low", "mid", "high"))
    found = shown(recoding_of(grade, ["low", "mid", "mid", "high"], [0, 1, 1, 0]))
    assert found.groups == ("low", "mid", "high")
    assert found.after == pytest.approx((2 / 3, 2 + 2 / 3, 2 / 3))


def test_a_node_is_spread_over_its_leaves() -> None:
    tree = Hierarchy((("a", "x", "*"), ("b", "x", "*"), ("c", "y", "*")))
    found = shown(
        recoding_of(Attribute(name="t", role=QI, hierarchy=tree), ["a", "a", "b", "c"], [0, 1, 0, 1])
    )
    assert found.groups == ("a", "b", "c")
    assert found.after == pytest.approx((1 + 2 / 3, 1 + 2 / 3, 2 / 3))  # {a, b} is x; {c, a} is the root


def test_a_set_is_spread_over_its_own_values() -> None:
    flat = Attribute(name="t", role=QI, categories=("a", "b", "c"))
    found = shown(recoding_of(flat, ["a", "b", "b", "c"], [0, 0, 1, 1]))
    assert found.after == pytest.approx((1, 2, 1))


def test_a_deep_tree_shows_its_lowest_level_of_few_groups() -> None:
    tree = Hierarchy.intervals(0, 59, (10, 30))
    values = [str(v) for v in range(60)]
    found = shown(recoding_of(Attribute(name="t", role=QI, hierarchy=tree), values, [0] * 60))
    assert found.groups == ("0-9", "10-19", "20-29", "30-39", "40-49", "50-59")


def test_an_attribute_without_a_public_domain_is_withheld() -> None:
    for attribute, values in (
        (Attribute(name="city", role=QI), ["Ur", "Uruk"]),
        (Attribute(name="age", role=QI, kind=Kind.NUMERIC), [17, 90]),
    ):
        (found,) = distributions(recoding_of(attribute, values, [0, 0]), 2)
        assert isinstance(found, Withheld)
        assert "public domain" in found.reason
        assert not any(str(value) in found.reason for value in values)


def test_a_flat_tree_of_many_values_is_withheld() -> None:
    tree = Hierarchy.flat([str(i) for i in range(40)])
    (found,) = distributions(recoding_of(Attribute(name="t", role=QI, hierarchy=tree), ["3", "4"], [0, 0]), 2)
    assert isinstance(found, Withheld)


def test_suppressed_records_count_before_and_not_after() -> None:
    flat = Attribute(name="t", role=QI, categories=("a", "b"))
    found = shown(recoding_of(flat, ["a"] * 4 + ["b"] * 4, [0, 0, 0, 0, 1, 1, -1, -1]))
    assert found.before == (4, 4)
    assert found.after == pytest.approx((4, 2))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([20, 30, 10], (20, 30, 10)),
        ([3, 4, 52, 48], (None, None, 50, 50)),  # together 7, not below 5
        ([3, 52, 48, 17], (None, 50, 50, None)),  # a single one is the total less the others
        ([1, 2, 52, 48], (None, None, 50, None)),  # together 3: one more
        ([997, 3], (None, None)),
        ([0, 0], (None, None)),
        ([8, 11], (10, 10)),
    ],
)
def test_small_counts_are_hidden_with_what_would_give_them_back(
    counts: list[int], expected: tuple[int | None, ...]
) -> None:
    assert protected(np.array(counts), 5) == expected


@given(st.lists(st.integers(0, 200), min_size=1, max_size=12), st.integers(2, 30))
def test_hidden_counts_are_never_alone_nor_together_small(counts: list[int], smallest: int) -> None:
    result = protected(np.array(counts), smallest)
    hidden = [c for c, r in zip(counts, result, strict=True) if r is None]
    for count, value in zip(counts, result, strict=True):
        assert value is None or (
            count >= smallest and value % smallest == 0 and abs(value - count) <= smallest / 2
        )
    if hidden and len(hidden) < len(counts):
        assert len(hidden) >= 2
        assert sum(hidden) >= smallest


def test_a_threshold_that_protects_no_one_is_refused() -> None:
    flat = Attribute(name="t", role=QI, categories=("a", "b"))
    with pytest.raises(ValueError, match="smallest_count must be >= 2"):
        distributions(recoding_of(flat, ["a", "b"], [0, 0]), 1)


def test_values_of_the_source_are_no_groups_where_the_method_made_a_domain_of_them() -> None:
    town = Attribute(name="town", role=QI)
    recoding = recoding_of(town, ["a", "a", "b", "b"], [0, 0, 1, 1])
    flat = Recoding(with_flat_domains(recoding.encoded), recoding.labels)
    (found,) = distributions(flat, 2)
    assert isinstance(found, Withheld)
