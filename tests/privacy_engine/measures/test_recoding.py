"""Recodings: released labels cover the values they stand for, and nothing of the source's order remains."""

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.measures.recoding import Recoding
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Intervals, Kind, Role

JOBS = Hierarchy(
    (("clerk", "office", "*"), ("coder", "office", "*"), ("cook", "food", "*"), ("waiter", "food", "*"))
)
GRADES = ["low", "mid, or so", "high"]
COLOURS = ["red", "blue, dark", "{red, green}", 'the "best"', "green", ""]
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [-50, 50]},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": GRADES},
        "job": {"role": "quasi_identifier", "hierarchy": "jobs"},
        "colour": {"role": "quasi_identifier"},
        "disease": {"role": "sensitive", "nullable": True},
        "note": {},
    },
    {"jobs": JOBS},
)
Row = tuple[float, str, str, str, str | None]
row = st.tuples(
    st.sampled_from([-7.5, -1.0, 0.0, 1.0, 40.0]),
    st.sampled_from(GRADES),
    st.sampled_from(JOBS.values),
    st.sampled_from(COLOURS),
    st.sampled_from(["flu", "gout", None]),
)


@st.composite
def recodings(draw: st.DrawFn) -> Recoding:
    """Any partition of up to 8 records, some of them suppressed; `note` tells the records apart."""
    rows = draw(st.lists(row, min_size=1, max_size=8))
    labels = draw(st.lists(st.integers(-1, 3), min_size=len(rows), max_size=len(rows)))
    return Recoding.of_labels(encode(rows), np.array(labels))


def encode(rows: list[Row]) -> EncodedTable:
    table = pd.DataFrame(rows, columns=["age", "grade", "job", "colour", "disease"])
    table = table.astype({"disease": object}).assign(
        name=[f"person {i}" for i in range(len(rows))], note=[f"note {i}" for i in range(len(rows))]
    )
    return EncodedTable.encode(table.loc[:, list(SCHEMA.names)], SCHEMA)


def members_of_list(text: str, opening: str, closing: str) -> list[str]:
    """Values written as ``{a, "b, c"}`` or ``[a, b]``, or one value alone."""
    inner = text[1:-1] if text[:1] == opening and text[-1:] == closing else text
    return next(csv.reader(io.StringIO(inner), skipinitialspace=True), [""])


def covers(cell: str, value: str, attribute: str) -> bool:
    """Whether a reader who knows the notation would say that a cell holds a value."""
    if attribute == "age":
        ends = [float(end) for end in members_of_list(cell, "[", "]")]
        return ends[0] <= float(value) <= ends[-1]
    if attribute == "grade":
        ends = members_of_list(cell, "[", "]")
        return GRADES.index(ends[0]) <= GRADES.index(value) <= GRADES.index(ends[-1])
    if attribute == "job":
        return cell in JOBS.rows[JOBS.code(value)]
    return value in members_of_list(cell, "{", "}")


@given(recodings())
def test_every_released_label_covers_the_value_it_stands_for(recoding: Recoding) -> None:
    table, _ = recoding.render(Intervals.TEXT)
    source = recoding.encoded.table.set_index("note")
    for _, cells in table.iterrows():
        for attribute in ("age", "grade", "job", "colour"):
            assert covers(cells[attribute], str(source.loc[cells["note"], attribute]), attribute)


@given(recodings())
def test_released_bounds_cover_the_value_and_are_reached_by_one_of_the_class(recoding: Recoding) -> None:
    table, schema = recoding.render(Intervals.BOUNDS)
    ages = recoding.encoded.table.set_index("note")["age"]
    label_of = dict(zip(recoding.encoded.table["note"], recoding.labels, strict=True))
    for _, cells in table.iterrows():
        same = [ages[note] for note, label in label_of.items() if label == label_of[cells["note"]]]
        assert (cells["age_from"], cells["age_to"]) == (min(same), max(same))
    assert schema["age_from"].kind is schema["age_to"].kind is Kind.NUMERIC
    assert schema["age_from"].role is schema["age_to"].role is Role.QUASI_IDENTIFIER


@given(recodings())
def test_a_released_midpoint_is_the_middle_of_the_bounds(recoding: Recoding) -> None:
    bounds, _ = recoding.render(Intervals.BOUNDS)
    middle = dict(zip(bounds["note"], (bounds["age_from"] + bounds["age_to"]) / 2, strict=True))
    points, schema = recoding.render(Intervals.MIDPOINT)
    assert dict(zip(points["note"], points["age"], strict=True)) == middle
    assert schema["age"].kind is Kind.NUMERIC


every_form = pytest.mark.parametrize("intervals", Intervals)


@pytest.mark.quick("bounds")  # the form does not choose the records
@every_form
@given(recoding=recodings())
def test_suppressed_records_are_absent_and_all_others_present(
    recoding: Recoding, intervals: Intervals
) -> None:
    table, schema = recoding.render(intervals)
    assert list(table.columns) == list(schema.names)
    assert sorted(table["note"]) == sorted(recoding.encoded.table["note"][recoding.labels >= 0])
    assert len(table) + recoding.suppressed == len(recoding.encoded)
    assert "name" not in table.columns


@pytest.mark.quick("bounds", "midpoint")  # two numbers, and one
@every_form
@given(recoding=recodings())
def test_records_of_a_class_share_their_released_values(recoding: Recoding, intervals: Intervals) -> None:
    table, schema = recoding.render(intervals)
    released = EquivalenceClasses.of_table(table, schema)
    label_of = dict(zip(recoding.encoded.table["note"], recoding.labels, strict=True))
    class_of: dict[int, set[int]] = {}
    for note, label in zip(table["note"], released.labels, strict=True):
        class_of.setdefault(label_of[note], set()).add(int(label))
    assert all(len(found) == 1 for found in class_of.values())


@given(recodings())
def test_sensitive_and_insensitive_values_stay_with_their_records(recoding: Recoding) -> None:
    table, _ = recoding.render()
    source = recoding.encoded.table.set_index("note")["disease"]
    assert all(
        source[note] == disease or (pd.isna(source[note]) and pd.isna(disease))
        for note, disease in zip(table["note"], table["disease"], strict=True)
    )


@pytest.mark.quick("text")  # the other forms
@every_form
@given(rows=st.lists(row, min_size=2, max_size=8), data=st.data())
def test_the_order_of_the_released_rows_follows_from_their_values_alone(
    rows: list[Row], data: st.DataObject, intervals: Intervals
) -> None:
    schema = SCHEMA.select(["age", "grade", "job", "colour", "disease"])
    table = pd.DataFrame(rows, columns=list(schema.names)).astype({"disease": object})
    places = data.draw(st.permutations(range(len(rows))))
    one = EncodedTable.encode(table, schema)
    other = EncodedTable.encode(table.iloc[places], schema)
    labels = np.zeros(len(rows), dtype=np.int64)  # one class: only sensitive values tell the rows apart
    first, second = (Recoding(encoded, labels).render(intervals)[0] for encoded in (one, other))
    pd.testing.assert_frame_equal(first, second)
    texts = first["disease"].fillna("")
    assert texts.is_monotonic_increasing


def test_a_hand_worked_table_in_its_three_forms() -> None:
    rows: list[Row] = [
        (-7.5, "low", "clerk", "red", "flu"),
        (1.0, "high", "coder", "green", "gout"),
        (40.0, "low", "cook", "", "flu"),
        (40.0, "low", "cook", "", None),
        (0.0, "low", "waiter", "red", "flu"),
    ]
    encoded = encode(rows)
    by_note = dict(zip(encoded.table["note"], range(5), strict=True))
    labels = np.empty(5, dtype=np.int64)
    labels[[by_note[f"note {i}"] for i in range(5)]] = [0, 0, 1, 1, -1]
    recoding = Recoding(encoded, labels)
    assert (recoding.classes, recoding.sizes.tolist(), recoding.suppressed) == (2, [2, 2], 1)
    text, _ = recoding.render(Intervals.TEXT)
    assert text.iloc[:, :4].drop_duplicates().to_numpy().tolist() == [
        ["40", "low", "cook", ""],
        ["[-7.5, 1]", "[low, high]", "office", "{green, red}"],
    ]
    bounds, schema = recoding.render(Intervals.BOUNDS)
    assert bounds[["age_from", "age_to"]].drop_duplicates().to_numpy().tolist() == [[-7.5, 1], [40, 40]]
    assert schema.names == ("age_from", "age_to", "grade", "job", "colour", "disease", "note")
    points, _ = recoding.render(Intervals.MIDPOINT)
    assert points["age"].unique().tolist() == [-3.25, 40]


@pytest.mark.parametrize(
    ("values", "label"),
    [
        (["red"], "red"),
        (["red", "green"], "{green, red}"),
        (["blue, dark"], '"blue, dark"'),
        (["blue, dark", "red"], '{"blue, dark", red}'),
        (["{red, green}"], '"{red, green}"'),  # the value, not the set
        (['the "best"', "red"], '{"the ""best""", red}'),
    ],
)
def test_a_value_that_looks_like_a_set_stands_in_quotes(values: list[str], label: str) -> None:
    schema = DataSchema.from_dict({"colour": {"role": "quasi_identifier"}})
    encoded = EncodedTable.encode(pd.DataFrame({"colour": values}), schema)
    table, _ = Recoding(encoded, np.zeros(len(values), dtype=np.int64)).render()
    assert table["colour"].unique().tolist() == [label]


@pytest.mark.parametrize(
    ("values", "label"),
    [
        (["a", "c"], "[a, c]"),
        (["a, b"], '"a, b"'),
        (["a, b", "c"], '["a, b", c]'),
        (["[a, c]"], '"[a, c]"'),  # the value, not the interval
    ],
)
def test_an_ordered_category_that_looks_like_an_interval_stands_in_quotes(
    values: list[str], label: str
) -> None:
    categories = ["a", "a, b", "[a, c]", "c"]
    schema = DataSchema.from_dict(
        {"size": {"role": "quasi_identifier", "kind": "ordinal", "categories": categories}}
    )
    encoded = EncodedTable.encode(pd.DataFrame({"size": values}), schema)
    table, _ = Recoding(encoded, np.zeros(len(values), dtype=np.int64)).render()
    assert table["size"].unique().tolist() == [label]


def test_a_categorical_type_does_not_carry_the_values_of_suppressed_records() -> None:
    schema = DataSchema.from_dict(
        {"age": {"role": "quasi_identifier", "kind": "numeric"}, "disease": {"role": "sensitive"}, "note": {}}
    )
    table = pd.DataFrame(
        {
            "age": [1, 2, 3],
            "disease": pd.Categorical(["flu", "flu", "canary"]),
            "note": pd.Categorical([4, None, 5]),
        }
    )
    released, _ = Recoding(EncodedTable.encode(table, schema), np.array([0, 0, -1])).render()
    assert not any(isinstance(dtype, pd.CategoricalDtype) for dtype in released.dtypes)
    assert released["disease"].tolist() == ["flu", "flu"]
    assert sorted(released["note"].dropna()) == [4]


@given(recodings())
def test_members_are_the_distinct_values_of_each_class(recoding: Recoding) -> None:
    for j in range(4):
        classes, codes = recoding.members(j)
        expected = {
            (int(label), int(code))
            for label, code in zip(recoding.labels, recoding.encoded.codes[:, j], strict=True)
            if label >= 0
        }
        assert list(zip(classes.tolist(), codes.tolist(), strict=True)) == sorted(expected)


@given(recodings())
def test_spans_hold_the_lowest_and_highest_code_or_the_common_ancestor(recoding: Recoding) -> None:
    lo, hi = recoding.spans
    for c in range(recoding.classes):
        codes = recoding.encoded.codes[recoding.labels == c]
        for j, domain in enumerate(recoding.encoded.domains):
            if isinstance(domain, Hierarchy):
                node = int(codes[0, j])
                for code in codes[:, j]:
                    node = domain.lca(node, int(code))
                assert lo[c, j] == hi[c, j] == node
            else:
                assert (lo[c, j], hi[c, j]) == (codes[:, j].min(), codes[:, j].max())


ONE = encode([(0.0, "low", "cook", "red", "flu"), (1.0, "low", "cook", "red", "flu")])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 2], "without gaps"),
        ([1, 1], "without gaps"),
        ([0], r"one for each of the 2 records, got \(1,\)"),
        ([[0, 0]], r"one for each of the 2 records, got \(1, 2\)"),
    ],
)
def test_labels_with_gaps_or_of_another_length_are_refused(labels: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recoding(ONE, np.array(labels))


def test_any_labels_are_renumbered_without_gaps() -> None:
    assert Recoding.of_labels(ONE, np.array([7, -1])).labels.tolist() == [0, -1]
    assert Recoding.of_labels(ONE, np.array([9, 4])).labels.tolist() == [1, 0]


def test_numbers_in_an_interval_text_are_written_in_full() -> None:
    schema = DataSchema.from_dict({"x": {"role": "quasi_identifier", "kind": "numeric"}})
    encoded = EncodedTable.encode(pd.DataFrame({"x": [0.1, 1e-7, 12345678.25]}), schema)
    table, _ = Recoding(encoded, np.zeros(3, dtype=np.int64)).render(Intervals.TEXT)
    low, high = re.fullmatch(r"\[(.*), (.*)\]", table["x"][0]).groups()
    assert (float(low), float(high)) == (1e-7, 12345678.25)
