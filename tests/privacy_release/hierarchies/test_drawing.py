"""Shares of a drawn hierarchy: none of a small group is shown or follows from those that are shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.tables.hierarchy import Hierarchy
from privacy_release.hierarchies.drawing import Node, hidden, tree
from privacy_release.hierarchies.holders import Holders

K = 10
LABELS = [f"v{i}" for i in range(12)]
# Persons with each value; a person may have several.
WHOSE = st.lists(st.lists(st.integers(0, 60), max_size=40), min_size=12, max_size=12)


def holders(whose: list[list[int]]) -> Holders:
    fields = dict(zip(LABELS, whose, strict=True))
    return Holders({value: np.unique(np.array(who, dtype=np.int64)) for value, who in fields.items() if who})


def of_counts(**counts: int) -> Holders:
    """As many records each."""
    ends = np.cumsum(list(counts.values()))
    return Holders({v: np.arange(end - n, end) for (v, n), end in zip(counts.items(), ends, strict=True)})


def nodes(root: Node) -> list[Node]:
    return [root, *(node for child in root.children for node in nodes(child))]


def under(node: Node, hierarchy: Hierarchy) -> list[str]:
    return [row[0] for row in hierarchy.rows if node.label in row]


def test_a_share_of_few_is_hidden_with_the_next_smaller_one() -> None:
    towns = Hierarchy((("a", "north", "*"), ("b", "north", "*"), ("c", "south", "*")))
    assert [child.share for child in tree(towns, of_counts(a=60, b=30, c=10)).children] == [0.9, 0.1]
    assert [child.share for child in tree(towns, of_counts(a=60, b=36, c=4)).children] == [None, None]
    assert hidden({"x": ["a"], "y": ["b"], "z": ["c"]}, of_counts(a=50, b=12, c=3), K) == {"y", "z"}


@given(WHOSE, st.integers(1, 3))
def test_from_all_shown_shares_no_group_of_less_than_k_can_be_computed(
    whose: list[list[int]], width: int
) -> None:
    rows = [
        (v, f"a{i // width}", f"b{i // (2 * width)}", f"c{i // (4 * width)}", "*")
        for i, v in enumerate(LABELS)
    ]
    hierarchy, reported = Hierarchy(tuple(rows)), holders(whose)
    people = {person for who in whose for person in who}
    root = tree(hierarchy, reported, K)
    assert (root.share is None) == (len(people) < K)

    def known(node: Node) -> None:
        """An attacker knows how many there are, all shown shares, and what is below what."""
        for child in node.children:
            if child.share is not None:
                assert node.share is not None
                size = reported.together(under(child, hierarchy))
                assert size >= K
                assert child.share == pytest.approx(size / len(people))
            known(child)
        unknown = [child for child in node.children if child.share is None]
        if node.share is not None and unknown:
            assert len(unknown) >= 2
            assert reported.together(v for child in unknown for v in under(child, hierarchy)) >= K

    known(root)


def test_someone_with_many_records_counts_as_one() -> None:
    import pandas as pd

    value, person = pd.Series(["a"] * 50 + ["b"] * 20), pd.Series([1] * 50 + list(range(20)))
    towns = Hierarchy.flat(["a", "b"])
    assert [child.share for child in tree(towns, Holders.of(value), K).children] == [50 / 70, 20 / 70]
    assert [child.share for child in tree(towns, Holders.of(value, person), K).children] == [None, None]


def test_levels_that_tell_nothing_apart_are_passed_over() -> None:
    hierarchy = Hierarchy((("a", "x", "y", "*"), ("b", "x", "y", "*"), ("c", "z", "w", "*")))
    root = tree(hierarchy)
    assert [child.label for child in root.children] == ["y", "w"]
    assert [child.label for child in root.children[0].children] == ["a", "b"]
    assert root.children[1].children == ()
    assert [node.share for node in nodes(root)] == [None] * 5
    assert [node.values for node in nodes(root)] == [3, 2, 1, 1, 1]
