"""No infeasible fragment is left, and no feasible one is handed over."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import load_method
from privacy_engine.engines.engine import Engine
from privacy_engine.errors import IntegrityError
from privacy_engine.fragments.cut_tree import Cut, CutTree
from privacy_engine.fragments.handover import Contents, count_leaves, hand_over
from privacy_engine.fragments.whole import WholeTable
from privacy_engine.recoding.grouping.constraints import Rule, RuleKind, admits, no_constraints, pack_rules
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from tests.privacy_engine.fragments.tables import SCHEMA, people, planned, released, stored
from tests.privacy_engine.fragments.test_cut_tree import trees

# age < 20 | < 40 | < 60 | others, cut in the middle first
AGES = CutTree(
    (
        Cut(column="age", below=40.0, sides=(1, 2)),
        Cut(column="age", below=20.0, sides=(-1, -2)),
        Cut(column="age", below=60.0, sides=(-3, -4)),
    ),
    (0, 1, 2, 3),
)
TWO_VALUES = [np.array([1, 1])]


def contents(sizes: list[int], counts: list[list[int]] | None = None) -> Contents:
    return Contents(sizes=np.array(sizes), counts=np.array(counts or [[]] * len(sizes), dtype=np.int32))


def test_fragments_that_can_stand_stay_as_they_are() -> None:
    tree, sizes = hand_over(AGES, contents([10, 10, 10, 10]), 10, no_constraints())
    assert (tree, sizes) == (AGES, (10, 10, 10, 10))


def test_a_small_fragment_goes_to_its_sibling() -> None:
    tree, sizes = hand_over(AGES, contents([9, 30, 10, 10]), 10, no_constraints())
    assert (tree.fragment_of, sizes) == ((0, 0, 1, 2), (39, 10, 10))


def test_leaves_that_are_one_fragment_stay_together() -> None:
    joined = CutTree(AGES.cuts, (0, 1, 1, 2))
    tree, sizes = hand_over(joined, contents([10, 1, 9, 10]), 10, no_constraints())
    assert (tree, sizes) == (joined, (10, 10, 10))
    tree, sizes = hand_over(joined, contents([10, 1, 8, 10]), 10, no_constraints())
    assert (tree.fragment_of, sizes) == ((0, 1, 1, 1), (10, 19))


def test_an_empty_fragment_is_handed_over() -> None:
    tree, sizes = hand_over(AGES, contents([10, 10, 0, 10]), 1, no_constraints())
    assert (tree.fragment_of, sizes) == ((0, 1, 2, 2), (10, 10, 10))


def test_two_small_siblings_go_to_the_nearest_along_the_cut() -> None:
    tree, sizes = hand_over(AGES, contents([3, 3, 30, 10]), 10, no_constraints())
    assert (tree.fragment_of, sizes) == ((0, 0, 0, 1), (36, 10))


def test_where_no_threshold_says_who_is_nearest_the_smallest_takes() -> None:
    tree = CutTree(
        (
            Cut(column="city", among=frozenset({"Bern"}), sides=(-1, 1)),
            Cut(column="age", below=9.0, sides=(-2, -3)),
        ),
        (0, 1, 2),
    )
    joined, sizes = hand_over(tree, contents([3, 30, 20]), 10, no_constraints())
    assert (joined.fragment_of, sizes) == ((0, 1, 0), (23, 30))


def test_a_fragment_of_one_sensitive_value_is_handed_over() -> None:
    rules = pack_rules([Rule(kind=RuleKind.DISTINCT, limit=2)], TWO_VALUES, [None])
    counted = contents([20, 20, 20, 20], [[10, 10], [20, 0], [5, 15], [19, 1]])
    tree, sizes = hand_over(AGES, counted, 10, rules)
    assert (tree.fragment_of, sizes) == ((0, 0, 1, 2), (40, 20, 20))


def test_a_fragment_far_from_the_table_is_handed_over() -> None:
    rules = pack_rules([Rule(kind=RuleKind.CLOSE_EQUAL, limit=0.2)], TWO_VALUES, [None])
    counted = contents([20, 20, 20, 20], [[10, 10], [4, 16], [10, 10], [16, 4]])
    tree, sizes = hand_over(AGES, counted, 10, rules)
    assert (tree.fragment_of, sizes) == ((0, 0, 1, 1), (40, 40))


@given(trees(), st.data())
def test_every_fragment_can_stand_afterwards_or_there_is_one(tree: CutTree, data: st.DataObject) -> None:
    leaves = len(tree.fragment_of)
    tree = tree.renumbered(tuple(range(leaves)))
    counts = np.array(
        data.draw(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=leaves, max_size=leaves)), np.int32
    )
    kind, limit = data.draw(
        st.sampled_from([(RuleKind.DISTINCT, 2), (RuleKind.CLOSE_EQUAL, 0.3), (RuleKind.ENTROPY, 1.8)])
    )
    rules = pack_rules([Rule(kind=kind, limit=limit)], [counts.sum(axis=0)], [None])
    before = Contents(sizes=counts.sum(axis=1).astype(np.int64), counts=counts)
    joined, sizes = hand_over(tree, before, 6, rules)
    fragment_of = np.array(joined.fragment_of)
    assert joined.cuts == tree.cuts
    for fragment, size in enumerate(sizes):
        own = counts[fragment_of == fragment].sum(axis=0)
        assert size == own.sum()
        assert joined.fragments == 1 or (size >= 6 and admits(own, int(size), rules))


def test_leaves_are_counted_exactly(engine: Engine, tmp_path: Path) -> None:
    table = people()
    files = [stored(table, tmp_path)]
    whole = WholeTable.of_files(engine, files, SCHEMA, ["disease"])
    rules = compile_constraints(load_method("mondrian", l=2).sensitive_models, whole)
    found = count_leaves(engine, files, AGES, whole, rules)
    leaf = AGES.assign(table)
    assert found.sizes.tolist() == np.bincount(leaf, minlength=4).tolist()
    values = whole.sensitive_domains[0].values
    counted = pd.crosstab(leaf, table["disease"]).reindex(index=range(4), columns=list(values), fill_value=0)
    assert found.counts.tolist() == counted.to_numpy().tolist()


def test_a_table_that_grew_meanwhile_is_refused(engine: Engine, tmp_path: Path) -> None:
    whole = WholeTable.of_files(engine, [stored(people(100), tmp_path)], SCHEMA, [])
    with pytest.raises(IntegrityError, match="it changed"):
        count_leaves(engine, [stored(people(101), tmp_path)], AGES, whole, no_constraints())


def test_records_that_cannot_be_a_fragment_go_to_their_neighbours_whole(
    engine: Engine, tmp_path: Path
) -> None:
    """The people over 80 are k - 1, and those of Zug have one disease: neither is a fragment by itself."""
    table = people()
    table = table[(table["age"] < 70) | (table["record"] % 97 == 0)]
    table.loc[table["city"] == "Zug", "disease"] = "flu"
    table = table.reset_index(drop=True)
    method = load_method("mondrian", k=20, l=4)
    plan = planned(engine, tmp_path, table, method, SCHEMA, 100)
    together = released(plan, table, method)
    assert len(together.joined) == len(table)
    assert min(plan.sizes) >= 40
    for part in together.parts:
        assert part.release.table["disease"].nunique() == 4
