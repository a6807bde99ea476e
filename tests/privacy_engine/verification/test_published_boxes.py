"""Released cells, read: which of two covers the other."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.published_boxes import BoxParser, cell_texts

TREE = Hierarchy(
    (("Rome", "Italy", "Europe", "*"), ("Oslo", "Oslo", "Europe", "*"), ("Lima", "Lima", "Lima", "*"))
)
SOURCE = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "nullable": True},
        "size": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["S", "M, or so", "L"]},
        "born": {"role": "quasi_identifier", "kind": "date"},
        "town": {"role": "quasi_identifier", "hierarchy": "town"},
        "pet": {"role": "quasi_identifier", "nullable": True},
    },
    hierarchies={"town": TREE},
)


def covers(names: dict[str, tuple[object, object]], source: DataSchema | None = SOURCE) -> tuple[bool, bool]:
    """Whether the first box covers the second, and the second the first."""
    reading = BoxParser(list(names), source)
    boxes = {name: np.array(cells, dtype=object) for name, cells in names.items()}
    cells, (codes,) = reading.coded([boxes])
    held = reading.cover(cells, codes, codes[::-1])
    if held[0] != held[1]:  # what the search for the least box relies on
        extents = reading.extents(cells, codes)
        assert (extents[0] > extents[1]) == held[0]
        assert extents[0] != extents[1]
    return bool(held[0]), bool(held[1])


@pytest.mark.parametrize(
    ("column", "outer", "inner"),
    [
        ("age", "[17, 30]", "[18, 30]"),
        ("age", "[2, 10]", "9"),  # as numbers, not as text
        ("age", "[2, 10] or null", "[2, 10]"),
        ("age", "[2, 10] or null", None),
        ("size", '[S, "M, or so"]', '"M, or so"'),
        ("born", "[1999-12-31, 2001-01-01]", "2000-05-06"),
        ("town", "Europe", "Rome"),
        ("town", "Europe", "Oslo"),  # a label that stands at two levels
        ("town", "*", "Lima"),
        ("pet", '{cat, "dog, big", null}', '{cat, "dog, big"}'),
        ("pet", "{cat, null}", None),
        ("pet", '{cat, "dog, big"}', '"dog, big"'),
    ],
)
def test_a_wider_cell_covers_and_is_not_covered(column: str, outer: object, inner: object) -> None:
    assert covers({column: (outer, inner)}) == (True, False)


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("age", "[17, 30]", "[18, 31]"),
        ("age", "[17, 30]", None),
        ("town", "Italy", "Oslo"),
        ("town", "Atlantis", "Oslo"),
        ("pet", "{cat, ox}", "{cat, dog}"),
        ("age", "=23.5", "=23.5"),  # midpoints: equal ones need not be of equal intervals
        ("age", "nonsense", "[1, 2]"),
    ],
)
def test_cells_that_need_not_cover_each_other_do_not(column: str, one: object, other: object) -> None:
    assert covers({column: (one, other)}) == (False, False)


def test_equal_cells_cover_each_other_even_if_the_source_is_not_known() -> None:
    assert covers({"town": ("Europe", "Europe")}, None) == (True, True)
    assert covers({"town": ("*", "Europe")}, None) == (False, False)


def test_ends_in_two_columns_are_one_interval() -> None:
    ends = {"age_from": ("=2", "=3"), "age_to": ("=10", "=9"), "age_null": ("True", "False")}
    assert covers(ends) == (True, False)
    assert covers({**ends, "age_null": ("False", "True")}) == (False, False)


@pytest.mark.parametrize("ends", [("from", "to", "null"), ("min", "max", "null")])
def test_releases_in_other_forms_and_by_former_names_are_read_as_one_attribute(ends: tuple[str, ...]) -> None:
    text = {"age": np.array(["[2, 10] or null", "[3, 9]"], dtype=object)}
    cells = {
        f"age_{end}": np.array(own, dtype=object)
        for end, own in zip(ends, (["=3", "=1"], ["=9", "=9"], ["False", "True"]), strict=True)
    }
    reading = BoxParser(["age"], SOURCE)
    assert reading.subjects == BoxParser(sorted(cells), SOURCE).subjects == {"age"}
    known, (texts, bounds) = reading.coded([text, cells])
    assert reading.cover(known, texts, bounds).tolist() == [True, False]
    assert reading.cover(known, bounds, texts).tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2000-05-06", "2000-05-06", "2000-05-06"),
        ("[1990-01, 2001-12]", "1990-01-01", "2001-12-31"),
        ("[1999, 2000]", "1999-01-01", "2000-12-31"),
        ("2000-Q2", "2000-04-01", "2000-06-30"),
        ("2020-W53", "2020-12-28", "2021-01-03"),
        ("[1990s, 2000s]", "1990-01-01", "2009-12-31"),
    ],
)
def test_dates_as_text_cover_the_days_of_their_periods(text: str, first: str, last: str) -> None:
    """So a series goes on where its earlier releases have another form of intervals."""
    reading = BoxParser(["born"], SOURCE)
    day = pd.Timedelta("1D")
    wider = (pd.Timestamp(first) - day).date().isoformat(), (pd.Timestamp(last) + day).date().isoformat()
    rows = [(first, last), (wider[0], last), (first, wider[1])]
    ends = {
        name: np.array([f"={row[at]}" for row in rows], dtype=object)
        for at, name in enumerate(("born_from", "born_to"))
    }
    known, (one, others) = reading.coded([{"born": np.array([text] * 3, dtype=object)}, ends])
    assert reading.cover(known, one, others).tolist() == [True, False, False]
    assert reading.cover(known, others, one).tolist() == [True, True, True]
    extents = reading.extents(known, np.concatenate([one[:1], others]))
    assert extents[0] == extents[1] < min(extents[2:])


def test_a_date_that_cannot_be_read_covers_nothing() -> None:
    reading = BoxParser(["born"], SOURCE)
    boxes = {"born": np.array(["2020-13", "today", "2020-W54", "12 May 2020"], dtype=object)}
    whole = {"born_from": ["=0001-01-01"], "born_to": ["=9999-12-31"]}
    known, (odd, all_days) = reading.coded([boxes, {n: np.array(c, dtype=object) for n, c in whole.items()}])
    assert not reading.cover(known, np.repeat(all_days, 4, axis=0), odd).any()
    assert not reading.cover(known, odd, np.repeat(all_days, 4, axis=0)).any()


def test_what_was_suppressed_is_not_taken_for_what_was_missing() -> None:
    """Without a flag a null was suppressed, whatever the attribute may be in a later release."""
    reading = BoxParser(["age"], SOURCE)
    nothing = np.array([None, None], dtype=object)
    withheld = {"age_from": nothing, "age_to": nothing}
    others = {
        "age_from": np.array([None, "=2"], dtype=object),
        "age_to": np.array([None, "=9"], dtype=object),
        "age_null": np.array(["True", "True"], dtype=object),
    }
    known, (one, other) = reading.coded([withheld, others])
    assert not reading.cover(known, one, other).any()
    assert not reading.cover(known, other, one).any()
    assert reading.cover(known, one, one).all()


def test_a_box_covers_only_with_all_of_its_cells() -> None:
    assert covers({"age": ("[1, 9]", "[2, 3]"), "town": ("Europe", "Rome")}) == (True, False)
    assert covers({"age": ("[1, 9]", "[2, 3]"), "town": ("Rome", "Europe")}) == (False, False)


def test_cells_are_taken_as_text_and_numbers_are_marked() -> None:
    schema = DataSchema.from_dict(
        {"a": {"role": "quasi_identifier"}, "n": {"role": "quasi_identifier", "kind": "numeric"}}
    )
    table = pd.DataFrame({"a": pd.Series(["x", None], dtype="str"), "n": [1.0, 2.5]})
    fields = {name: cells.tolist() for name, cells in cell_texts(table, schema).items()}
    assert fields == {"a": ["x", None], "n": ["=1", "=2.5"]}
