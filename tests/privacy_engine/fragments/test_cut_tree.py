"""Every record has one fragment, whatever its values."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.fragments.cut_tree import Cut, CutTree
from privacy_engine.tables.columns import NULL

TREE = CutTree(
    (
        Cut(column="age", below=30.0, sides=(1, 2)),
        Cut(column="city", among=frozenset({"Bern", "Chur"}), sides=(-1, -2)),
        Cut(column="city", among=frozenset({"Zug"}), sides=(-3, -4)),
    ),
    (0, 1, 2, 0),
)


def assigned(age: list[object], city: list[object], types: dict[str, str] | None = None) -> list[int]:
    frame = pd.DataFrame({"age": age, "city": city})
    return TREE.assign(frame.astype(types or {})).tolist()


def test_a_record_goes_where_the_cuts_send_it() -> None:
    assert assigned([29.9, 29, 30, 31], ["Chur", "Zug", "Zug", "Bern"]) == [0, 1, 2, 0]


def test_values_that_no_one_saw_have_a_side() -> None:
    assert assigned([-1e9, 1e9], ["Rome", "Rome"]) == [1, 0]


def test_nulls_have_a_side() -> None:
    assert assigned([None, 1], [None, None]) == [0, 1]


def test_a_null_goes_with_the_values_that_it_is_listed_with() -> None:
    tree = CutTree((Cut(column="city", among=frozenset({"Bern", NULL})),), (0, 1))
    assert tree.assign(pd.DataFrame({"city": ["Bern", "Zug", None]})).tolist() == [0, 1, 0]
    again = CutTree.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again == tree


@pytest.mark.parametrize("types", [{"age": "Int64"}, {"city": "category"}, {"city": "object"}], ids=str)
def test_the_type_of_a_column_does_not_matter(types: dict[str, str]) -> None:
    assert assigned([29, 29, 30, None], ["Chur", "Zug", "Zug", "Bern"], types) == [0, 1, 2, 0]


def test_numbers_as_categories_are_known_by_their_text() -> None:
    tree = CutTree((Cut(column="code", among=frozenset({"1"})),), (0, 1))
    for values in ([1, 2], [1.0, 2.0], ["1", "2"]):
        assert tree.assign(pd.DataFrame({"code": values})).tolist() == [0, 1]


def test_the_index_does_not_matter() -> None:
    frame = pd.DataFrame({"age": [20, 40], "city": ["Bern", "Zug"]}, index=[7, 7])
    assert TREE.assign(frame).tolist() == [0, 2]


def test_a_tree_without_cuts_is_one_fragment() -> None:
    assert CutTree().assign(pd.DataFrame({"any": [1, 2]})).tolist() == [0, 0]


def test_no_record_is_no_work() -> None:
    assert assigned([], []) == []


def test_it_can_be_pickled_and_written_as_plain_values() -> None:
    assert pickle.loads(pickle.dumps(TREE)) == TREE
    assert CutTree.from_dict(json.loads(json.dumps(TREE.to_dict()))) == TREE


def test_a_threshold_survives_writing_to_the_last_bit() -> None:
    tree = CutTree((Cut(column="x", below=0.1 + 0.2),), (0, 1))
    assert CutTree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree


@pytest.mark.parametrize(
    ("cuts", "fragment_of"),
    [
        ((), (1,)),
        ((Cut(column="x"),), (0, 2)),
        ((Cut(column="x"),), (0,)),
        ((Cut(column="x", sides=(0, -1)),), (0,)),
    ],
    ids=["gap at 0", "gap", "missing leaf", "cycle"],
)
def test_a_tree_that_is_none_is_refused(cuts: tuple[Cut, ...], fragment_of: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be"):
        CutTree(cuts, fragment_of)


@st.composite
def trees(draw: st.DrawFn) -> CutTree:
    """Any tree over a number and a text, leaves of any fragments."""
    cuts: list[Cut] = []
    leaves = 0
    open_sides = [(-1, 0)]
    while open_sides:
        parent, side = open_sides.pop(0)
        if len(cuts) < 8 and draw(st.booleans()):
            place = len(cuts)
            number = draw(st.booleans())
            below = float(draw(st.integers(-5, 5))) if number else None
            among = frozenset() if number else frozenset(draw(st.sets(st.sampled_from("abcd"))))
            cuts.append(Cut(column="x" if number else "c", below=below, among=among))
            open_sides += [(place, 0), (place, 1)]
        else:
            place, leaves = ~leaves, leaves + 1
        if parent >= 0:
            sides = list(cuts[parent].sides)
            sides[side] = place
            cuts[parent] = Cut(
                column=cuts[parent].column,
                below=cuts[parent].below,
                among=cuts[parent].among,
                sides=(sides[0], sides[1]),
            )
    numbers = draw(st.lists(st.integers(0, leaves - 1), min_size=leaves, max_size=leaves))
    return CutTree(tuple(cuts), tuple(range(leaves))).renumbered(tuple(numbers))


def walked(tree: CutTree, record: pd.Series) -> int:
    place = 0 if tree.cuts else -1
    while place >= 0:
        cut = tree.cuts[place]
        value = record[cut.column]
        first = value < cut.below if cut.below is not None else value in cut.among
        place = cut.sides[0 if first else 1]
    return tree.fragment_of[~place]


@given(
    trees(),
    st.lists(st.tuples(st.integers(-8, 8), st.sampled_from("abcdef")), min_size=1, max_size=12),
)
def test_records_are_parted_as_one_by_one(tree: CutTree, records: list[tuple[int, str]]) -> None:
    frame = pd.DataFrame(records, columns=["x", "c"])
    found = tree.assign(frame)
    assert found.dtype == np.int32
    assert found.tolist() == [walked(tree, record) for _, record in frame.iterrows()]
