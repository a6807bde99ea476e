"""Cuts found on a sample: even enough, few, and of use for values that the sample did not have."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.fragments.cut_tree import CutTree
from privacy_engine.fragments.cutting import cut
from privacy_engine.recoding.grouping.partitioning import CutRule
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from tests.privacy_engine.fragments.tables import SCHEMA, people

QI = ["age", "grade", "city"]
KNOWN = SCHEMA.select(QI)


def sizes(tree: CutTree, table: pd.DataFrame) -> list[int]:
    return np.bincount(tree.assign(table), minlength=tree.fragments).tolist()


@pytest.mark.parametrize("rule", list(CutRule))
def test_no_fragment_has_more_records_than_asked_and_none_is_tiny(rule: CutRule) -> None:
    table = people()
    found = sizes(cut(table, KNOWN, len(table), 400, rule=rule), table)
    assert max(found) <= 400
    assert min(found) >= 400 / 8
    assert len(found) < 3 * len(table) / 400


def test_sizes_are_those_of_the_whole_table() -> None:
    table = people(20_000)
    tree = cut(table.sample(4000, random_state=1), KNOWN, len(table), 2000)
    assert max(sizes(tree, table)) <= 1.1 * 2000  # 8 standard deviations of a sample of 400 are 16 %


def test_median_cuts_are_even() -> None:
    table = people(3000)
    found = sizes(cut(table, KNOWN.select(["age"]), len(table), 400, rule=CutRule.WIDEST), table)
    assert max(found) < 1.5 * min(found)


def test_a_sample_that_is_no_part_too_large_is_not_cut() -> None:
    assert cut(people(50), KNOWN, 50, 50) == CutTree()


def test_equal_records_stay_together() -> None:
    table = people().assign(age=40, grade="low", city="Bern")
    assert cut(table, KNOWN, len(table), 100) == CutTree()


def test_what_is_nearly_constant_is_cut_as_evenly_as_it_can_be() -> None:
    table = people(1000).assign(age=[40] * 980 + [50] * 20, grade="low", city="Bern")
    assert sizes(cut(table, KNOWN, len(table), 100), table) == [980, 20]


def test_many_small_values_are_dealt_to_both_sides() -> None:
    names = [f"v{i}" for i in range(100)]
    schema = DataSchema.from_dict({"v": {"role": "quasi_identifier", "categories": names}})
    table = pd.DataFrame({"v": np.repeat(names, 10)})
    found = sizes(cut(table, schema, 1000, 260), table)
    assert found == [250] * 4


def test_a_hierarchy_is_cut_into_whole_subtrees_seen_or_not() -> None:
    schema = DataSchema.from_dict(
        {"city": {"role": "quasi_identifier", "hierarchy": "cities"}},
        {
            "cities": Hierarchy(
                (
                    ("Bern", "south", "*"),
                    ("Basel", "north", "*"),
                    ("Chur", "south", "*"),
                    ("Zug", "north", "*"),
                )
            )
        },
    )
    sample = pd.DataFrame({"city": ["Bern"] * 50 + ["Basel"] * 50})
    tree = cut(sample, schema, 100, 50)
    bern, basel, chur, zug = tree.assign(pd.DataFrame({"city": ["Bern", "Basel", "Chur", "Zug"]}))
    assert bern == chur != basel == zug


def test_a_region_that_the_sample_missed_has_fragments() -> None:
    sample = people()
    sample = sample[(sample["age"] < 40) & (sample["city"] != "Zug")]
    table = people()
    tree = cut(sample, KNOWN, len(table), 400)
    assert sum(sizes(tree, table)) == len(table)
    assert cut(sample, KNOWN, len(table), 400) == tree


def test_ordinal_categories_are_cut_between_neighbours() -> None:
    grades = [str(i) for i in range(10)]
    schema = DataSchema.from_dict(
        {"grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": grades}}
    )
    table = pd.DataFrame({"grade": np.repeat(grades, 10)})
    found = cut(table, schema, 100, 30).assign(table)
    for fragment in np.unique(found):
        ranks = np.unique(np.flatnonzero(found == fragment) // 10)
        assert (np.diff(ranks) == 1).all()
