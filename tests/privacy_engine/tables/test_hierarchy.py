"""Hierarchies: values worked by hand, brute force, ARX's form, truthful labels, and what is refused."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.tables.hierarchy import Hierarchy, HierarchyError

WORK = Hierarchy(
    (
        ("clerk", "office", "indoors", "*"),
        ("cook", "kitchen", "indoors", "*"),
        ("coder", "office", "indoors", "*"),
        ("farmer", "field", "outdoors", "*"),
    )
)


@st.composite
def hierarchies(draw: st.DrawFn) -> Hierarchy:
    """A random tree over up to 8 values: each level numbers groups of the groups below it."""
    n, levels = draw(st.integers(1, 8)), draw(st.integers(0, 3))
    columns = [[f"v{i}" for i in range(n)]]
    group_of = list(range(n))
    for level in range(levels):
        parent = draw(st.lists(st.integers(0, 2), min_size=8, max_size=8))
        group_of = [parent[g] for g in group_of]
        columns.append([f"{level}:{g}" for g in group_of])
    return Hierarchy(tuple(zip(*columns, ["*"] * n, strict=True)))


def ancestors(h: Hierarchy, node: int) -> list[int]:
    found = [node]
    while found[-1] != h.root:
        found.append(int(h.parent[found[-1]]))
    return found


def test_nodes_are_numbered_level_by_level_in_the_order_of_the_rows() -> None:
    # leaves 0-3; office 4, kitchen 5, field 6; indoors 7, outdoors 8; root 9
    assert WORK.nodes.tolist() == [[0, 4, 7, 9], [1, 5, 7, 9], [2, 4, 7, 9], [3, 6, 8, 9]]
    assert WORK.parent.tolist() == [4, 5, 4, 6, 7, 7, 8, 9, 9, 9]
    assert WORK.leaf_counts.tolist() == [1, 1, 1, 1, 2, 1, 1, 3, 1, 4]
    assert (WORK.height, WORK.root, WORK.label(7), WORK.values[2]) == (3, 9, "indoors", "coder")


@pytest.mark.parametrize(
    ("a", "b", "label"),
    [
        ("clerk", "clerk", "clerk"),
        ("clerk", "coder", "office"),
        ("clerk", "cook", "indoors"),
        ("cook", "farmer", "*"),
    ],
)
def test_the_common_ancestor_of_two_values(a: str, b: str, label: str) -> None:
    assert WORK.label(WORK.lca(WORK.code(a), WORK.code(b))) == label


@given(hierarchies())
def test_the_common_ancestor_of_two_nodes_is_the_first_that_both_have(h: Hierarchy) -> None:
    for a in range(len(h.parent)):
        for b in range(len(h.parent)):
            above_b = set(ancestors(h, b))
            assert h.lca(a, b) == next(node for node in ancestors(h, a) if node in above_b)


@given(hierarchies())
def test_levels_nest(h: Hierarchy) -> None:
    for level in range(h.height):
        low, high = h.at_level(level), h.at_level(level + 1)
        assert all(h.parent[a] == b for a, b in zip(low, high, strict=True))
        assert len(set(zip(low.tolist(), high.tolist(), strict=True))) == len(set(low.tolist()))
    assert set(h.at_level(h.height).tolist()) == {h.root}


@given(hierarchies())
def test_the_leaves_under_a_node_are_the_values_that_have_it_as_ancestor(h: Hierarchy) -> None:
    for node in range(len(h.parent)):
        under = [leaf for leaf in range(len(h.values)) if node in ancestors(h, leaf)]
        assert h.leaves(node).tolist() == under
        assert h.leaf_counts[node] == len(under)


@given(hierarchies())
def test_a_parent_has_a_larger_number_than_its_children(h: Hierarchy) -> None:
    assert all(parent > node for node, parent in enumerate(h.parent[:-1]))


def test_equal_labels_of_different_levels_are_different_nodes() -> None:
    h = Hierarchy((("Other", "Other", "*"), ("Cook", "Other", "*")))
    assert h.lca(h.code("Other"), h.code("Cook")) != h.code("Other")
    assert h.leaf_counts.tolist() == [1, 1, 2, 2]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6).map(str.strip)


@given(st.lists(cells, min_size=1, max_size=5, unique=True))
def test_a_hierarchy_survives_a_round_trip_through_csv_whatever_its_labels_hold(values: list[str]) -> None:
    h = Hierarchy(tuple((v, f'group ; "{len(v) % 2}"', "*") for v in values))
    assert Hierarchy.from_csv(h.to_csv()) == h


def test_arx_csv_has_one_row_a_value_and_semicolons_between_levels() -> None:
    assert Hierarchy.from_csv("clerk;office;*\r\ncook; kitchen ;*\r\n\r\n").rows == (
        ("clerk", "office", "*"),
        ("cook", "kitchen", "*"),
    )
    assert next(csv.reader(io.StringIO(WORK.to_csv()), delimiter=";")) == ["clerk", "office", "indoors", "*"]


@pytest.mark.parametrize("end", [";", ";;", " ; "])
def test_semicolons_at_the_end_of_each_row_are_no_level(end: str) -> None:
    rows = (("clerk", "office", "*"), ("cook", "kitchen", "*"))
    assert Hierarchy.from_csv("".join(f"{';'.join(row)}{end}\n" for row in rows)).rows == rows


def test_a_semicolon_at_the_end_of_some_rows_is_refused_with_the_line() -> None:
    with pytest.raises(HierarchyError, match="same number of levels") as caught:
        Hierarchy.from_csv("clerk;office;*\ncook;kitchen;*;\n")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), "at least one value"),
        ((("canary", "*"), ("canary2", "x", "*")), r"same number of levels, got \[2, 3\]"),
        ((("canary",),), "at least two levels"),
        ((("canary", "*"), ("canary", "*")), "one row only"),
        ((("a", "canary", "x", "*"), ("b", "canary", "y", "*")), "level 1 has two parents at level 2"),
        ((("canary", "*"), ("b", "+")), "one root"),
    ],
)
def test_a_malformed_hierarchy_is_refused_by_rule_without_a_value(
    rows: tuple[tuple[str, ...], ...], message: str
) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        Hierarchy(rows)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "at least one value"), ("\n", "at least one value"), ("a\rb;*", "not valid CSV")],
)
def test_a_csv_that_holds_no_hierarchy_is_refused(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Hierarchy.from_csv(text)


def interval(label: str) -> tuple[int, int]:
    """Ends of ``a-b``; a may be negative."""
    middle = label.index("-", 1)
    return int(label[:middle]), int(label[middle + 1 :])


@given(st.integers(-30, 30), st.integers(0, 40), st.lists(st.integers(1, 4), max_size=3))
def test_every_interval_label_covers_its_value_and_stays_within_the_bounds(
    low: int, more: int, factors: list[int]
) -> None:
    widths, width = [], 1
    for factor in factors:
        width *= factor
        widths.append(width)
    h = Hierarchy.intervals(low, low + more, widths)
    assert [int(v) for v in h.values] == list(range(low, low + more + 1))
    assert h.untruthful_rows() == 0
    for row in h.rows:
        for label, width in zip(row[1:-1], widths, strict=True):
            a, b = interval(label)
            assert low <= a <= int(row[0]) <= b <= low + more
            assert b - a < width


@pytest.mark.parametrize(
    ("low", "high", "widths", "message"),
    [(5, 4, (), "must not exceed"), (0, 9, (5, 12), "multiple"), (0, 9, (0,), "multiple")],
)
def test_intervals_that_cannot_nest_are_refused(
    low: int, high: int, widths: tuple[int, ...], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        Hierarchy.intervals(low, high, widths)


@given(st.lists(st.text("0123456789", min_size=1, max_size=6), min_size=1, max_size=8, unique=True))
def test_every_prefix_label_is_the_beginning_of_its_value(values: list[str]) -> None:
    h = Hierarchy.prefixes(values, keep=(4, 2, 1))
    for value, *labels, root in h.rows:
        assert root == "*"
        for label, keep in zip(labels, (4, 2, 1), strict=True):
            assert len(label) == len(value)
            assert label.rstrip("*") == value[:keep]


@pytest.mark.parametrize("keep", [(3, 3), (2, 4), (1, 0)])
def test_prefixes_must_get_shorter(keep: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="positive and fall"):
        Hierarchy.prefixes(["13053"], keep)


@pytest.mark.parametrize(
    ("value", "label", "untrue"),
    [
        ("20", "0-19", 1),  # ARX's age hierarchy at each of its boundaries
        ("19", "0-19", 0),
        ("20", "[0, 20]", 0),
        ("20", "[0, 20[", 1),  # ARX's own notation for an open end
        ("20", "[0, 20)", 1),
        ("19.5", "[0, 20[", 0),
        ("-5", "-9--5", 0),
        ("-4", "-9--5", 1),
        ("20", "young", 0),  # no interval: taken at its word
        ("n/a", "0-19", 0),  # no number: nothing to compare
    ],
)
def test_an_interval_label_that_does_not_cover_its_value_is_counted(
    value: str, label: str, untrue: int
) -> None:
    assert Hierarchy(((value, label, "*"),)).untruthful_rows() == untrue


def test_one_more_leaf_changes_no_code_and_meets_the_others_at_the_root() -> None:
    more = WORK.with_leaf("pilot")
    assert more.rows[:-1] == WORK.rows
    assert more.lca(more.code("pilot"), more.code("farmer")) == more.root
