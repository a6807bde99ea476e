"""What is wrong with a column, counted in parts: the words and counts of the whole."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from privacy_engine import Attribute, Hierarchy
from privacy_engine.counts import without_counts
from privacy_engine.tables.faults import Faults, ValueRule, described, problems_of

TREE = Hierarchy((("a", "*"), ("b", "*"), ("c", "*")))
COLUMNS = {
    "numbers": (
        Attribute(name="x", role="sensitive", kind="numeric", bounds=(0, 9)),
        pd.Series([1.0, np.nan, 12.0, np.inf, -1.0, 3.0, np.nan, 12.0]),
    ),
    "labels": (
        Attribute(name="x", role="sensitive", categories=("a", "b"), hierarchy=TREE),
        pd.Series(["a", "c", "z", None, "z", "y", "b", "c"]),
    ),
    "whole numbers as labels": (
        Attribute(name="x", categories=("1", "2")),
        pd.Series([1, 2, 3, 4, 3, 3, 1, 9]),
    ),
    "fits": (Attribute(name="x", categories=("a", "b")), pd.Series(["a", "b", None, "a"])),
}


def added(parts: list[Faults]) -> Faults:
    return {
        rule: sum((p.get(rule, Counter()) for p in parts), Counter())
        for rule in ValueRule
        if any(rule in p for p in parts)
    }


@pytest.mark.parametrize("case", COLUMNS)
@pytest.mark.parametrize("size", [1, 3])
def test_the_faults_of_the_parts_add_up_to_those_of_the_column(case: str, size: int) -> None:
    attribute, column = COLUMNS[case]
    parts = [attribute.faults(column.iloc[start : start + size]) for start in range(0, len(column), size)]
    assert added(parts) == attribute.faults(column)
    assert problems_of(added(parts)) == attribute.problems(column)


def test_each_rule_tells_its_own_records() -> None:
    attribute, column = COLUMNS["numbers"]
    assert {rule: values.total() for rule, values in attribute.faults(column).items()} == {
        ValueRule.NULL: 2,
        ValueRule.INFINITE: 1,
        ValueRule.OUTSIDE: 4,
    }


def test_a_value_that_occurs_again_is_one_distinct_value() -> None:
    attribute, column = COLUMNS["labels"]
    assert problems_of(attribute.faults(column)) == [
        "1 value is null: drop them at ingest, or keep them (nulls: keep)",
        "the categories miss 3 distinct values in 5 rows: add them or correct the source",
        "the hierarchy misses 2 distinct values in 3 rows: add them or correct the source",
    ]


@pytest.mark.parametrize("rule", ValueRule)
def test_without_its_counts_a_problem_of_one_record_reads_as_that_of_many(rule: ValueRule) -> None:
    one, many = described(rule, rows=1, distinct=1), described(rule, rows=5000, distinct=2)
    assert "1 value is" in one or "1 distinct value in 1 row" in one
    assert without_counts(one) == without_counts(many)


def test_a_text_and_the_number_that_it_writes_are_one_value() -> None:
    attribute = Attribute(name="x", categories=("1",))
    assert attribute.faults(pd.Series([7, "7", 7.0], dtype=object)) == {
        ValueRule.CATEGORIES: Counter({"7": 3})
    }
