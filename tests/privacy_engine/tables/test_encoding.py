"""Encoding: what codes mean, that they decode to the table, and costs worked out by hand."""

from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, number_text
from privacy_engine.tables.encoding import EncodedTable, OrderedDomain, domain_labels
from privacy_engine.tables.geometry import class_spans, span_costs
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role

JOBS = Hierarchy(
    (("clerk", "office", "*"), ("coder", "office", "*"), ("cook", "food", "*"), ("waiter", "food", "*"))
)
SCHEMA = DataSchema(
    (
        Attribute(name="name", role=Role.IDENTIFIER),
        Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 100)),
        Attribute(
            name="grade", role=Role.QUASI_IDENTIFIER, kind=Kind.ORDINAL, categories=("low", "mid", "high")
        ),
        Attribute(name="job", role=Role.QUASI_IDENTIFIER, hierarchy=JOBS),
        Attribute(name="city", role=Role.QUASI_IDENTIFIER),
        Attribute(name="disease", role=Role.SENSITIVE, nullable=True),
        Attribute(name="pain", role=Role.SENSITIVE, kind=Kind.NUMERIC, nullable=True),
    )
)
Row = tuple[float, str, str, str, str | None, float | None]
rows = st.lists(
    st.tuples(
        st.integers(0, 100).map(float),
        st.sampled_from(["low", "mid", "high"]),
        st.sampled_from(JOBS.values),
        st.sampled_from(["Ulm", "Bonn", ""]),
        st.sampled_from(["flu", "gout", "", None]),  # an empty text is no null
        st.sampled_from([0.5, 3.0, None]),
    ),
    min_size=1,
    max_size=8,
)


def frame(records: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(records, columns=["age", "grade", "job", "city", "disease", "pain"])
    table = table.astype({"disease": object, "pain": float})
    return table.assign(name=[f"person {i}" for i in range(len(records))]).loc[:, list(SCHEMA.names)]


def encode(records: list[Row]) -> EncodedTable:
    return EncodedTable.encode(frame(records), SCHEMA)


def cell(value: object) -> str:
    """A cell as text; all nulls alike."""
    if pd.isna(value):
        return NULL
    return number_text(value) if isinstance(value, float) else str(value)


@given(rows)
def test_codes_decode_to_the_records_beside_them(records: list[Row]) -> None:
    encoded = encode(records)
    for j, name in enumerate(encoded.quasi_identifiers):
        labels = domain_labels(encoded.domains[j])
        assert [labels[x] for x in encoded.codes[:, j]] == [cell(v) for v in encoded.table[name]]
    for row, name in enumerate(encoded.sensitive_names):
        labels = domain_labels(encoded.sensitive_domains[row])
        assert [labels[x] for x in encoded.sensitive[row]] == [cell(v) for v in encoded.table[name]]


@given(rows)
def test_all_records_are_there_and_no_identifier_is(records: list[Row]) -> None:
    encoded = encode(records)
    assert "name" not in encoded.table.columns
    assert "name" not in encoded.schema.names
    kept = [tuple(map(cell, row)) for row in encoded.table.itertuples(index=False)]
    assert sorted(kept) == sorted(tuple(map(cell, row)) for row in records)


@given(rows, st.randoms(use_true_random=False))
def test_the_order_and_index_of_the_source_do_not_matter(records: list[Row], shuffle: object) -> None:
    places = list(range(len(records)))
    shuffle.shuffle(places)
    one = encode(records)
    other = EncodedTable.encode(frame(records).iloc[places].set_axis([0] * len(records)), SCHEMA)
    assert np.array_equal(one.codes, other.codes)
    assert np.array_equal(one.sensitive, other.sensitive)
    pd.testing.assert_frame_equal(one.table, other.table)


@given(rows)
def test_records_stand_in_the_order_of_their_codes(records: list[Row]) -> None:
    encoded = encode(records)
    keys = np.concatenate([encoded.codes, encoded.sensitive.T], axis=1).tolist()
    assert keys == sorted(keys)


def test_many_attributes_of_many_values_are_ordered_alike() -> None:
    # 12 attributes of 60 values: one int64 could not number their combinations
    rng = np.random.default_rng(1)
    table = pd.DataFrame({f"q{j}": rng.integers(0, 60, 200) for j in range(12)})
    roles = {name: {"role": "quasi_identifier", "kind": "numeric"} for name in table.columns}
    keys = EncodedTable.encode(table, DataSchema.from_dict(roles)).codes.tolist()
    assert keys == sorted(keys)


def test_codes_of_a_hand_worked_table() -> None:
    encoded = encode([(40.0, "high", "cook", "Ulm", "gout", None), (20.0, "low", "coder", "Bonn", None, 3.0)])
    assert encoded.codes.tolist() == [[0, 0, 1, 0], [1, 2, 2, 1]]  # ages by rank, grades by category
    assert encoded.sensitive.tolist() == [[1, 0], [0, 1]]  # nulls last: disease gout, null; pain 3, null
    assert encoded.sensitive_sizes == (2, 2)


def test_categories_without_a_public_domain_are_numbered_in_the_order_of_their_values() -> None:
    schema = DataSchema.from_dict({"age": {"role": "quasi_identifier"}})
    encoded = EncodedTable.encode(pd.DataFrame({"age": [10, 9, 100]}), schema)
    assert encoded.domains[0].values == ("9", "10", "100")


def test_costs_of_a_hand_worked_table() -> None:
    records = [(20.0, "low", "clerk", "Ulm"), (50.0, "mid", "coder", "Ulm"), (90.0, "high", "cook", "Bonn")]
    encoded = encode([(*r, "flu", 0.5) for r in records])
    geometry = encoded.geometry([1.0, 1.0, 1.0, 1.0])
    lo, hi = class_spans(encoded.codes, np.array([0, 0, 0]), 1, geometry)
    # age (90 - 20) / 100; grade 2 steps of 2; job and city at their roots
    assert span_costs(lo, hi, geometry)[0] == pytest.approx([0.7, 1.0, 1.0, 1.0])
    lo, hi = class_spans(encoded.codes, np.array([0, 0, -1]), 1, geometry)
    # age (50 - 20) / 100; grade 1 step of 2; office: 2 of 4 leaves; one city
    assert span_costs(lo, hi, geometry)[0] == pytest.approx([0.3, 0.5, 0.5, 0.0])
    assert span_costs(lo, hi, encoded.geometry())[0] == pytest.approx([0.075, 0.125, 0.125, 0.0])


def test_without_bounds_the_range_of_the_values_is_the_whole_domain() -> None:
    schema = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric"}})
    geometry = EncodedTable.encode(pd.DataFrame({"age": [20, 30, 60]}), schema).geometry()
    assert geometry.value == pytest.approx([0, 0.25, 1])


def test_a_constant_attribute_costs_nothing() -> None:
    schema = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric"}})
    assert EncodedTable.encode(pd.DataFrame({"age": [20, 20]}), schema).geometry().value.tolist() == [0.0]


def test_weights_must_be_one_a_quasi_identifier() -> None:
    with pytest.raises(ValueError, match=r"each of the 4 quasi-identifiers, got shape \(2,\)"):
        encode([(1.0, "low", "cook", "Ulm", "flu", 0.5)]).geometry([1, 2])


@given(rows, st.data())
def test_taking_records_keeps_their_codes_and_cells_together(records: list[Row], data: st.DataObject) -> None:
    encoded = encode(records)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(records) - 1), max_size=8)), dtype=np.intp)
    part = encoded.take(chosen)
    assert np.array_equal(part.codes, encoded.codes[chosen])
    assert np.array_equal(part.sensitive, encoded.sensitive[:, chosen])
    assert part.domains == encoded.domains
    pd.testing.assert_frame_equal(part.table, encoded.table.iloc[chosen].reset_index(drop=True))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", "b", "a", "c"]),
        pd.Series([3, 1, 3, 2]),
        pd.Series([1.5, np.nan, 1.5, 2.0]),
        pd.Series([True, False, True, False]),  # "False" as text would be true
        pd.Series(pd.Categorical([3, 1, 3, 2])),  # texts are none of these categories
        pd.Series([date(2020, 1, 2), None, date(2020, 1, 1), date(2020, 1, 2)]).astype("date32[pyarrow]"),
        pd.Series(["a", None, "", "a"], dtype=object),
    ],
    ids=["text", "integer", "float", "boolean", "categorical", "date", "null and empty text"],
)
def test_changed_sensitive_values_are_cells_of_the_column_whatever_its_type(column: pd.Series) -> None:
    dated = {"kind": "date", "precision": "day"} if "date" in str(column.dtype) else {}
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "s": {"role": "sensitive", "nullable": True} | dated,
        }
    )
    encoded = EncodedTable.encode(pd.DataFrame({"age": [1, 2, 3, 4], "s": column}), schema)
    changed = encoded.with_sensitive(0, encoded.sensitive[0][::-1])
    pd.testing.assert_series_equal(changed.table["s"], column[::-1].reset_index(drop=True), check_names=False)
    assert changed.sensitive[0].tolist() == encoded.sensitive[0].tolist()[::-1]
    pd.testing.assert_series_equal(encoded.table["s"], column, check_names=False)  # the first is as it was


def test_a_changed_sensitive_value_must_occur_in_the_table() -> None:
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "s": {"role": "sensitive", "categories": ["a", "b"]},
        }
    )
    encoded = EncodedTable.encode(pd.DataFrame({"age": [1, 2], "s": ["a", "a"]}), schema)
    with pytest.raises(ValueError, match="'s' must be one that occurs"):
        encoded.with_sensitive(0, np.array([0, 1], dtype=np.int32))


def test_an_ordinal_sensitive_attribute_counts_a_null_as_one_more_value() -> None:
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "pain": {"role": "sensitive", "kind": "ordinal", "categories": ["low", "high"], "nullable": True},
        }
    )
    encoded = EncodedTable.encode(pd.DataFrame({"age": [1, 2, 3], "pain": ["high", None, "low"]}), schema)
    domain = encoded.sensitive_domains[0]
    assert isinstance(domain, OrderedDomain)
    assert domain.labels == ("low", "high", NULL)
    assert encoded.sensitive.tolist() == [[1, 2, 0]]


@pytest.mark.parametrize("kind", ["categorical", "numeric"])
def test_a_sensitive_attribute_of_nulls_alone_is_one_value(kind: str) -> None:
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "s": {"role": "sensitive", "kind": kind, "nullable": True},
        }
    )
    encoded = EncodedTable.encode(pd.DataFrame({"age": [1, 2], "s": [np.nan, np.nan]}), schema)
    assert (encoded.sensitive.tolist(), encoded.sensitive_sizes) == ([[0, 0]], (1,))


def test_a_schema_without_quasi_identifiers_is_refused() -> None:
    with pytest.raises(SchemaError, match="at least one quasi-identifier"):
        EncodedTable.encode(pd.DataFrame({"a": [1]}), DataSchema.from_dict({"a": {"role": "sensitive"}}))


def test_the_source_is_not_changed() -> None:
    table = frame([(40.0, "high", "cook", "Ulm", None, None), (20.0, "low", "coder", "Bonn", "flu", 3.0)])
    before = table.copy(deep=True)
    EncodedTable.encode(table, SCHEMA)
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (-0.0, "0"), (0.1, "0.1"), (1e20, "100000000000000000000"), (1e-7, "1e-07")],
)
def test_numbers_are_released_in_full_and_whole_ones_without_a_point(value: float, text: str) -> None:
    assert number_text(value) == text
    assert float(text) == value


def test_only_suppressed_records_are_left_out_and_nothing_is_copied_without_any() -> None:
    schema = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric"}})
    encoded = EncodedTable.encode(pd.DataFrame({"age": [30, 10, 20]}), schema)
    assert encoded.released(np.array([0, 1, 1])) is encoded
    assert encoded.released(np.array([0, -1, 1])).table["age"].tolist() == [10, 30]
