"""Public domains: codes and back, types that tell nothing, and no domain from the data."""

import math
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import Attribute, DataSchema, Hierarchy, SchemaError
from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.tables.dates import nests
from privacy_engine.tables.domains import (
    CodedTable,
    PublicDomain,
    Storage,
    decode,
    public_domain,
    with_nullable_types,
)
from privacy_engine.vocabulary import CalendarUnit

CITIES = Hierarchy(
    (("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*"), ("Zug", "north", "*"))
)
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "age": {"kind": "numeric", "bounds": [17, 90], "bins": 16},
        "grade": {"kind": "ordinal", "bounds": [1, 5]},
        "income": {"kind": "numeric", "bounds": [0.0, 1e5], "bins": 7, "nullable": True},
        "size": {"kind": "ordinal", "categories": ["S", "M", "L"]},
        "city": {"hierarchy": "cities", "nullable": True},
        "ill": {"categories": [True, False]},
        "code": {"categories": [1, 2, 3]},
    },
    {"cities": CITIES},
)


def people(n: int = 500, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "name": [f"canary {i}" for i in range(n)],
            "age": rng.integers(17, 91, n),
            "grade": rng.integers(1, 6, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 1e5, n)),
            "size": rng.choice(["S", "M", "L"], n),
            "city": rng.choice([*CITIES.values, None], n),
            "ill": rng.random(n) < 0.5,
            "code": rng.integers(1, 4, n).astype(np.int8),
        },
        index=rng.integers(0, 5, n),
    )


def dated_domain(draw: st.DrawFn, kind: str, bins: int | None, nullable: bool) -> PublicDomain:
    """Bounds of some years, cut to a period, in even bins or in bins of a coarser one."""
    finest = CalendarUnit.DAY if kind == "date" else CalendarUnit.SECOND
    precision = draw(st.sampled_from([p for p in CalendarUnit if nests(finest, p)]))
    coarser = [
        p
        for p in CalendarUnit
        if nests(precision, p) and p not in (CalendarUnit.SECOND, CalendarUnit.MINUTE, CalendarUnit.HOUR)
    ]
    first = draw(st.dates(date(1, 1, 1), date(9950, 1, 1)))
    fields = {
        "role": "sensitive",
        "kind": kind,
        "precision": precision,
        "bounds": [first, first + timedelta(days=draw(st.integers(7305, 9000)))],
        "bins": bins,
        "nullable": nullable,
    }
    if bins is None and draw(st.booleans()):
        fields["bin"] = draw(st.sampled_from(coarser))
    return public_domain(Attribute.from_dict("a", fields), Storage(kind))


@st.composite
def domains(draw: st.DrawFn) -> PublicDomain:
    """Every sort of domain that a schema can state."""
    nullable = draw(st.booleans())
    sort = draw(st.sampled_from(["whole", "real", "ordinal", "categories", "hierarchy", "date", "time"]))
    bins = draw(st.none() | st.integers(1, 40))
    if sort in ("whole", "ordinal"):
        low = draw(st.integers(-1000, 1000))
        bounds = (float(low), float(low + draw(st.integers(1, 300))))
        kind = "numeric" if sort == "whole" else "ordinal"
        attribute = Attribute(name="a", kind=kind, bounds=bounds, bins=bins, nullable=nullable)
        return public_domain(attribute, draw(st.sampled_from([Storage.REAL, Storage.WHOLE])))
    if sort in ("date", "time"):
        return dated_domain(draw, "date" if sort == "date" else "timestamp", bins, nullable)
    if sort == "real":
        low = draw(st.floats(-1e6, 1e6))
        bounds = (low, low + draw(st.floats(1e-3, 1e6)))
        attribute = Attribute(name="a", kind="numeric", bounds=bounds, bins=bins, nullable=nullable)
        return public_domain(attribute, Storage.REAL)
    labels = tuple(f"value {i}" for i in range(draw(st.integers(1, 30))))
    if sort == "categories":
        return public_domain(Attribute(name="a", categories=labels, nullable=nullable), Storage.TEXT)
    tree = Hierarchy(tuple((label, f"node {i % 4}", "*") for i, label in enumerate(labels)))
    attribute = Attribute(name="a", hierarchy=tree, nullable=nullable)
    return public_domain(attribute, Storage.TEXT, draw(st.integers(0, 2)))


@given(domains(), st.integers(0, 2**32 - 1))
def test_a_value_lies_in_the_bin_or_group_that_it_was_drawn_for(domain: PublicDomain, seed: int) -> None:
    codes = np.repeat(np.arange(domain.size), 20)
    values = domain.decode(codes, np.random.default_rng(seed))
    assert domain.encode(values).tolist() == codes.tolist()
    assert values.name == domain.name
    assert len(values) == len(codes)


@given(domains(), st.integers(0, 2**32 - 1))
def test_the_type_of_a_decoded_column_does_not_depend_on_its_values(domain: PublicDomain, seed: int) -> None:
    rng = np.random.default_rng(seed)
    types = {domain.decode(np.array([code]), rng).dtype for code in range(domain.size)}
    assert types == {domain.decode(np.arange(domain.size), rng).dtype}


def test_numbers_fall_into_equal_bins_between_the_public_bounds() -> None:
    income = public_domain(SCHEMA["income"], Storage.REAL)
    column = pd.Series([0.0, 14285.0, 14286.0, 99999.9, 1e5, math.nan])
    assert income.encode(column).tolist() == [0, 0, 1, 6, 6, 7]


def test_bins_of_whole_numbers_differ_by_one_value_at_most() -> None:
    age = public_domain(SCHEMA["age"], Storage.WHOLE)  # 74 years in 16 bins
    codes = age.encode(pd.Series(np.arange(17, 91)))
    assert sorted(set(np.bincount(codes).tolist())) == [4, 5]
    assert (np.diff(codes) >= 0).all()
    assert age.size == 16


def test_few_whole_numbers_get_a_bin_each_and_many_get_sixteen() -> None:
    few = Attribute(name="a", kind="numeric", bounds=(1, 32))
    many = Attribute(name="a", kind="numeric", bounds=(1, 33))
    assert public_domain(few, Storage.WHOLE).size == 32
    assert public_domain(many, Storage.WHOLE).size == 16
    assert public_domain(few, Storage.REAL).size == 16


def test_bins_of_a_calendar_unit_begin_and_end_with_it() -> None:
    fields = {"role": "sensitive", "kind": "date", "precision": "day", "bounds": ["2020-01-15", "2020-03-14"]}
    months = public_domain(Attribute.from_dict("a", fields | {"bin": "month"}), Storage.DATE)
    days = pd.Series(pd.date_range("2020-01-15", "2020-03-14")).astype("date32[pyarrow]")
    assert months.encode(days).tolist() == [day.month - 1 for day in days]
    assert np.bincount(months.encode(days)).tolist() == [17, 29, 14]


def test_bins_of_too_fine_a_unit_are_refused() -> None:
    fields = {"role": "sensitive", "kind": "timestamp", "precision": "second", "bin": "minute"}
    attribute = Attribute.from_dict("a", fields | {"bounds": ["2020-01-01", "2029-12-31"]})
    with pytest.raises(SchemaError, match="fewer bins"):
        public_domain(attribute, Storage.TIMESTAMP)


def test_never_more_bins_than_whole_numbers() -> None:
    attribute = Attribute(name="a", kind="numeric", bounds=(0, 4), bins=100)
    assert public_domain(attribute, Storage.WHOLE).size == 5


def test_bounds_without_a_whole_number_are_refused_for_whole_numbers() -> None:
    attribute = Attribute(name="a", kind="ordinal", bounds=(0.2, 0.8))
    with pytest.raises(SchemaError, match="contain no whole number"):
        public_domain(attribute, Storage.WHOLE)


def test_a_level_joins_the_values_under_a_node_and_gives_each_of_them_back() -> None:
    city = public_domain(SCHEMA["city"], Storage.TEXT, level=1)
    assert city.size == 3  # south, north, null
    values = city.decode(np.zeros(200, dtype=np.int64), np.random.default_rng(0))
    # One of two cities missing among 200 draws: 2 * 2^-200.
    assert set(values) == {"Bern", "Chur"}


def test_values_of_a_group_are_equally_likely() -> None:
    tree = Hierarchy((("a", "x", "*"), ("b", "x", "*"), ("c", "x", "*"), ("d", "y", "*")))
    domain = public_domain(Attribute(name="v", hierarchy=tree), Storage.TEXT, level=1)
    counts = domain.decode(np.zeros(30_000, dtype=np.int64), np.random.default_rng(3)).value_counts()
    # Standard deviation 82: seven of them; 3e-12 for each of the three.
    assert set(counts.index) == {"a", "b", "c"}
    assert (counts - 10_000).abs().max() < 575


def test_a_table_comes_back_in_its_types_and_codes() -> None:
    table = people()
    coded = CodedTable.encode(table, SCHEMA)
    again = decode(coded.codes, coded.domains, np.random.default_rng(2))
    SCHEMA.without_identifiers().check(again)
    assert (CodedTable.encode(again.assign(name="x"), SCHEMA).codes == coded.codes).all()
    text = pd.Series(["A"], dtype="str").dtype  # pandas 2 has objects for it
    assert again.dtypes.tolist() == ["int64", "int64", "float64", text, text, "bool", "int64"]
    assert again["city"].isna().sum() == table["city"].isna().sum()


def test_codes_are_small_and_lie_attribute_by_attribute() -> None:
    coded = CodedTable.encode(people(), SCHEMA)
    assert coded.names == ("age", "grade", "income", "size", "city", "ill", "code")
    assert coded.sizes == (16, 5, 8, 3, 5, 2, 3)
    assert coded.codes.shape == (7, 500)
    assert coded.codes.dtype == np.uint8
    assert coded.codes.flags.c_contiguous
    assert (coded.codes.max(axis=1) < coded.sizes).all()


def test_a_domain_of_more_than_256_values_takes_wider_codes() -> None:
    schema = DataSchema.from_dict({"a": {"categories": [f"v{i}" for i in range(300)]}})
    coded = CodedTable.encode(pd.DataFrame({"a": ["v299", "v0"]}), schema)
    assert coded.codes.dtype == np.uint16
    assert coded.codes.tolist() == [[299, 0]]


@pytest.mark.parametrize("fields", [{}, {"kind": "numeric"}, {"kind": "ordinal"}], ids=str)
def test_a_domain_is_never_taken_from_the_data(fields: dict[str, str]) -> None:
    schema = DataSchema.from_dict({"a": fields, "b": {"categories": ["x"]}})
    with pytest.raises(SchemaError, match=r"\['a'\] have no public domain.*give each categories, bounds"):
        CodedTable.encode(pd.DataFrame({"a": [1], "b": ["x"]}), schema)


def test_an_identifier_needs_no_domain_and_is_not_encoded() -> None:
    assert "name" not in CodedTable.encode(people(), SCHEMA).names


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size", "XL", "size: the categories miss 1 distinct value in 1 row"),
        ("city", "Genf", "city: the hierarchy misses 1 distinct value in 1 row"),
        ("age", 91, "age: 1 value is out of the bounds"),
        ("size", None, "size: 1 value is null"),
        ("income", math.inf, "income: 1 value is infinite"),
    ],
)
def test_a_value_outside_the_public_domain_is_refused_by_name_and_count(
    column: str, value: object, message: str
) -> None:
    table = people().reset_index(drop=True)
    table.loc[3, column] = value
    with pytest.raises(SchemaError) as refused:
        CodedTable.encode(table, SCHEMA)
    assert message in str(refused.value)
    assert "canary" not in str(refused.value)
    assert "Genf" not in str(refused.value)


def test_neither_the_table_nor_its_index_matters_to_the_codes() -> None:
    table = people()
    before = table.copy(deep=True)
    one = CodedTable.encode(table, SCHEMA)
    other = CodedTable.encode(table.reset_index(drop=True), SCHEMA)
    assert (one.codes == other.codes).all()
    pd.testing.assert_frame_equal(table, before)


def test_numbers_under_a_hierarchy_come_back_as_whole_numbers_of_the_interval() -> None:
    tree = Hierarchy.intervals(17, 90, (5, 10))
    schema = DataSchema.from_dict({"age": {"kind": "numeric", "hierarchy": "ages"}}, {"ages": tree})
    coded = CodedTable.encode(pd.DataFrame({"age": [17, 23, 24, 90]}), schema, {"age": 1})
    assert coded.codes.tolist() == [[0, 1, 1, 15]]
    again = decode(np.ones((1, 500), dtype=np.uint8), coded.domains, np.random.default_rng(0))["age"]
    assert again.dtype == np.int64
    assert set(again) == {20, 21, 22, 23, 24}  # one of them missing: 5 * .8^500 = 2e-48


def test_whole_numbers_keep_the_type_of_their_column() -> None:
    for column in (pd.Series([1, 5]), pd.Series([1.0, 5.0])):
        schema = DataSchema.from_dict({"grade": {"kind": "ordinal", "bounds": [1, 5]}})
        coded = CodedTable.encode(column.to_frame("grade"), schema)
        again = decode(coded.codes, coded.domains, np.random.default_rng(0))["grade"]
        assert again.dtype == column.dtype
        assert again.tolist() == column.tolist()


def test_labels_beyond_the_precision_of_floats_stay_exact() -> None:
    number = 2**60 + 1
    schema = DataSchema.from_dict({"code": {"categories": [number, 7]}})
    coded = CodedTable.encode(pd.DataFrame({"code": [7, number]}), schema)
    assert decode(coded.codes, coded.domains, np.random.default_rng(0))["code"].tolist() == [7, number]


def test_a_column_of_numbers_with_other_listed_texts_is_released_as_text() -> None:
    schema = DataSchema.from_dict({"a": {"categories": ["1", "2", "unknown"]}})
    coded = CodedTable.encode(pd.DataFrame({"a": [1, 2]}), schema)
    assert decode(coded.codes, coded.domains, np.random.default_rng(0))["a"].tolist() == ["1", "2"]


@pytest.mark.parametrize(("values", "storage"), [([1, 2], Storage.WHOLE), ([True, False], Storage.TRUTH)])
def test_typed_whole_numbers_and_truths_keep_their_type_whether_a_null_occurs_or_not(
    values: list[object], storage: Storage
) -> None:
    fields = {"categories": values, "nullable": True}
    schema = DataSchema.from_dict({"a": fields})
    kinds = set()
    for column in (pa.array(values), pa.array([*values, None])):
        frame = with_nullable_types(to_frame(pa.table({"a": column})), schema)
        coded = CodedTable.encode(frame, schema)
        assert coded.storages == {"a": storage}
        decoded = coded.domains[0].decode(np.array([0, 1, 2]), np.random.default_rng(1))
        assert decoded.tolist() == [*values, pd.NA]
        kinds.add(str(to_arrow(decoded.to_frame()).schema.field("a").type))
    assert kinds == {str(pa.array(values).type)}


def test_a_series_keeps_the_types_of_its_first_release() -> None:
    schema = DataSchema.from_dict(
        {
            "age": {"kind": "numeric", "bounds": [0, 100], "nullable": True},
            "ill": {"categories": [True, False], "nullable": True},
        }
    )
    earlier = {"age": Storage.REAL, "ill": Storage.TEXT}
    for table in (
        pa.table({"age": [1, 2], "ill": [True, False]}),
        pa.table({"age": [1, None], "ill": [None, True]}),
    ):
        frame = to_frame(table)
        coded = CodedTable.encode(with_nullable_types(frame, schema, earlier), schema)
        assert coded.storages == earlier
        assert coded.codes[0].tolist() == [0, 0 if table["age"].null_count == 0 else 16]
        assert coded.codes[1].tolist() == ([0, 1] if table["ill"].null_count == 0 else [2, 0])


def test_nullable_whole_numbers_between_bounds_are_drawn_whole() -> None:
    age = Attribute(name="a", kind="numeric", bounds=(0, 100), nullable=True)
    domain = public_domain(age, Storage.WHOLE)
    drawn = domain.decode(np.arange(domain.size), np.random.default_rng(1))
    assert drawn.dtype == pd.Int64Dtype()
    assert drawn.isna().tolist() == [*[False] * 16, True]
    assert domain.encode(drawn).tolist() == list(range(17))


def test_the_type_of_numpys_nullable_whole_numbers_does_not_depend_on_a_null() -> None:
    age = Attribute(name="a", kind="numeric", bounds=(0, 100), nullable=True)
    assert {Storage.of(pd.Series([1, 2]), age), Storage.of(pd.Series([1, None]), age)} == {Storage.REAL}
