"""Columns as codes, whatever pandas type they come in."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.tables.columns import are_among, factorize, floats, is_number


@pytest.mark.parametrize(
    ("column", "texts", "codes"),
    [
        (pd.Series(["b", None, "a", "b"]), ["b", "a"], [0, -1, 1, 0]),
        (pd.Series([2.0, np.nan, 1.5]), ["2", "1.5"], [0, -1, 1]),
        (pd.Series([3, pd.NA, 3], dtype="Int64"), ["3"], [0, -1, 0]),
        (pd.Series([True, False, None], dtype="boolean"), ["True", "False"], [0, 1, -1]),
        (pd.Series(pd.Categorical(["b", "a"], categories=["z", "b", "a"])), ["b", "a"], [0, 1]),
        (pd.Series([None, None], dtype=object), [], [-1, -1]),
        (pd.Series([], dtype=float), [], []),
    ],
    ids=["text", "float", "nullable integer", "nullable boolean", "categorical", "all null", "empty"],
)
def test_a_column_of_any_type_is_coded_with_minus_one_for_null(
    column: pd.Series, texts: list[str], codes: list[int]
) -> None:
    coded = factorize(column)
    assert (coded.texts, coded.codes.tolist()) == (texts, codes)
    assert coded.nulls == codes.count(-1)


def test_the_index_is_ignored() -> None:
    assert factorize(pd.Series(["x", "y", "x"], index=[5, 5, 0])).codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("values", "ascending"),
    [
        ([10, 9, 100], ["9", "10", "100"]),  # as numbers, not as texts
        (["b", "c", "a"], ["a", "b", "c"]),
        (pd.Categorical(["b", "a"], categories=["b", "a"], ordered=True), ["a", "b"]),
        (["b", 2, 10], ["10", "2", "b"]),  # do not compare: as texts
    ],
    ids=["numbers", "texts", "categorical", "mixed"],
)
def test_distinct_values_are_put_in_ascending_order(values: object, ascending: list[str]) -> None:
    coded = factorize(pd.Series(values))
    assert [coded.texts[i] for i in coded.ascending()] == ascending


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("int64", True), ("float32", True), ("Int8", True), ("bool", False), ("boolean", False), ("str", False)],
)
def test_booleans_and_texts_are_no_numbers(dtype: str, number: bool) -> None:
    assert is_number(pd.Series([1, 0]).astype(dtype)) is number


def test_nulls_of_a_nullable_number_become_nan() -> None:
    assert floats(pd.Series([1, pd.NA], dtype="Int64")).tolist()[0] == 1.0
    assert np.isnan(floats(pd.Series([1, pd.NA], dtype="Int64"))[1])


def test_texts_are_looked_up_among_the_known_ones_and_not_compared_with_each() -> None:
    compared = 0

    class Text(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

        __hash__ = str.__hash__

    texts, known = np.array(list(map(Text, range(0, 600, 2))), dtype=object), list(map(Text, range(300)))
    assert are_among(texts, known).tolist() == [True] * 150 + [False] * 150
    assert compared < 1_000
