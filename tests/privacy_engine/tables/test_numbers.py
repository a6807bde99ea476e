"""Numbers that floats round or cannot hold: what is released covers them, and what cannot be is refused."""

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.outliers.lof import LOF
from privacy_engine.registry import load_method
from privacy_engine.tables.columns import ranked
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Intervals

SCHEMA = DataSchema.from_yaml("x: {role: quasi_identifier, kind: numeric}")
DECIMALS = pd.ArrowDtype(pa.decimal128(38, 20))
INTEGERS = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}


def column(values: list[Any], dtype: Any) -> pd.DataFrame:
    if dtype is DECIMALS:
        return pd.DataFrame({"x": pd.Series(pa.array(values, pa.decimal128(38, 20)), dtype=DECIMALS)})
    return pd.DataFrame({"x": np.array(values, dtype=dtype)})


def ends(cell: str) -> tuple[Decimal, Decimal]:
    """What an interval covers."""
    found = re.fullmatch(r"\[(\S+), (\S+)\]", cell)
    return (Decimal(found[1]), Decimal(found[2])) if found else (Decimal(cell), Decimal(cell))


def exact(table: pd.DataFrame, row: int) -> Decimal:
    return Decimal(str(table["x"].iloc[row]))


def tables() -> st.SearchStrategy[pd.DataFrame]:
    whole = [
        st.lists(st.integers(low, high), min_size=8, max_size=30).map(lambda v, d=dtype: column(v, d))
        for dtype, (low, high) in INTEGERS.items()
    ]
    near = st.lists(st.integers(2**60, 2**60 + 40), min_size=8, max_size=30)
    numbers = st.decimals(-(10**17), 10**17, allow_nan=False, places=20)
    few = st.decimals(1, 2, allow_nan=False, places=20)
    decimals = st.lists(st.one_of(numbers, few), min_size=8, max_size=30)
    return st.one_of(
        *whole, near.map(lambda v: column(v, "int64")), decimals.map(lambda v: column(v, DECIMALS))
    )


@pytest.mark.parametrize("method", ["mondrian", "bottom_up"])
@given(table=tables())
def test_every_interval_covers_its_number_to_the_last_digit(method: str, table: pd.DataFrame) -> None:
    release = load_method(method, k=2, intervals="text").release(table, SCHEMA, np.random.default_rng(0))
    for row, cell in zip(release.rows, release.table["x"], strict=True):
        low, high = ends(cell)
        assert low <= exact(table, row) <= high


@given(table=tables())
@example(table=column([0] * 6 + [1, 2**64 - 2047], "uint64"))  # a float of the last one is less
def test_ends_in_two_columns_are_floats_that_cover_it(table: pd.DataFrame) -> None:
    method = load_method("mondrian", k=2, intervals=Intervals.BOUNDS)
    release = method.release(table, SCHEMA, np.random.default_rng(0))
    value = [exact(table, row) for row in release.rows]
    assert all(Decimal(low) <= v for low, v in zip(release.table["x_from"], value, strict=True))
    assert all(v <= Decimal(high) for high, v in zip(release.table["x_to"], value, strict=True))


def test_neighbours_that_no_float_tells_apart_are_grouped_as_neighbours() -> None:
    table = column([2**60 + i for i in range(60)], "int64")
    release = load_method("mondrian", k=3, intervals="text").release(table, SCHEMA, np.random.default_rng(0))
    assert all(high - low <= 4 for low, high in map(ends, release.table["x"]))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_ranks_are_those_of_the_whole_numbers(values: list[int]) -> None:
    found = ranked(column(values, "int64")["x"])
    distinct = sorted(set(values))
    assert found.texts == tuple(map(str, distinct))
    assert found.codes.tolist() == [distinct.index(value) for value in values]


def test_nulls_stand_after_the_numbers() -> None:
    numbers = pd.Series([2**60 + 1, None, 2**60], dtype="Int64")
    assert ranked(numbers).codes.tolist() == [1, 2, 0]


def test_sensitive_numbers_of_a_fragment_are_distinguished_to_the_last_digit() -> None:
    schema = DataSchema.from_yaml(
        "{x: {role: quasi_identifier, kind: numeric}, s: {role: sensitive, kind: numeric}}"
    )
    table = pd.DataFrame({"x": np.arange(40), "s": 2**60 + np.arange(40) % 4})
    release = load_method("mondrian", k=4, l=3).release(table, schema, np.random.default_rng(0))
    assert set(release.table["s"]) == {2**60 + i for i in range(4)}
    assert release.table.groupby(["x_from", "x_to"])["s"].nunique().min() >= 3


@pytest.mark.parametrize("end", [9e307, 1.7e308])
def test_values_that_are_too_far_apart_for_a_distance_are_refused(end: float) -> None:
    table = pd.DataFrame({"x": [-end] * 20 + [end] * 20})
    with pytest.raises(SchemaError, match=r"x: the least and the largest value are too far apart"):
        load_method("bottom_up", k=4).release(table, SCHEMA, np.random.default_rng(0))
    with pytest.raises(SchemaError, match=r"x: the least and the largest value are too far apart"):
        LOF().detect(table, SCHEMA)


def test_bounds_that_are_too_far_apart_for_a_distance_are_refused() -> None:
    with pytest.raises(SchemaError, match="bounds are too far apart"):
        DataSchema.from_yaml("x: {role: quasi_identifier, kind: numeric, bounds: [-1.0e+308, 1.0e+308]}")


@pytest.mark.parametrize("kind", ["categorical", "ordinal", "numeric"])
@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, (1,), b"x", np.array([1])])
def test_cells_of_several_values_or_bytes_are_refused(kind: str, cell: object) -> None:
    schema = DataSchema.from_yaml(f"x: {{role: quasi_identifier, kind: {kind}}}")
    table = pd.DataFrame({"x": pd.Series([cell] * 10, dtype=object)})
    with pytest.raises(SchemaError, match="x: must hold one text, number, date or truth value per cell"):
        load_method("mondrian", k=2).release(table, schema, np.random.default_rng(0))


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct({"a": pa.int64()}), pa.binary()])
def test_columns_of_such_types_of_arrow_are_refused(kind: pa.DataType) -> None:
    table = pd.DataFrame({"x": pd.Series(pa.nulls(4, kind), dtype=pd.ArrowDtype(kind))})
    with pytest.raises(SchemaError, match="x: must hold one text, number, date or truth value per cell"):
        DataSchema.from_yaml("x: {kind: categorical}").check(table)


@pytest.mark.parametrize(
    "rows",
    [
        "[['60', '<50', '*'], ['40', '<50', '*']]",
        "[['60', '<= 50', '*'], ['40', '<= 50', '*']]",
        "[['60', '70+', '*'], ['80', '70+', '*']]",
        "[['60', '>=70', '*'], ['80', '>=70', '*']]",
        "[['60', '≥ 70', '*'], ['80', '≥ 70', '*']]",
        "[['flu', 'cold', '*'], ['cold', 'cold', '*']]",  # a flu that reads as a cold
    ],
)
def test_hierarchies_that_say_something_untrue_are_refused(rows: str) -> None:
    with pytest.raises(SchemaError, match="1 row of the hierarchy has a label that does not apply"):
        DataSchema.from_yaml(f"x: {{role: quasi_identifier, kind: categorical, hierarchy: {rows}}}")


@pytest.mark.parametrize(
    "label", ["<50", "<= 49", "≤49", "40+", ">39", ">= 40", "40-49", "[40, 50[", "young"]
)
def test_hierarchies_that_are_true_are_taken(label: str) -> None:
    rows = f"[['40', '{label}', '*'], ['49', '{label}', '*']]"
    DataSchema.from_yaml(f"x: {{role: quasi_identifier, kind: categorical, hierarchy: {rows}}}")
