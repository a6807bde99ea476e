"""Suites that are checked without Great Expectations: whatever the table accepts, the library accepts."""

import math
from importlib.metadata import version
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SpecError
from privacy_release.expectations.gate import quiet
from privacy_release.expectations.known import ARGUMENTS, SEVERITIES, VERSION, is_right
from privacy_release.expectations.suite import build_suite, require_right

RIGHT = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "age", "min_value": 1}}
# Values at the edges of what an argument may be, and beyond them.
VALUES: tuple[Any, ...] = (
    *("", "a", "$PARAMETER", "[", "2024-01-01", None, True, False, {}, {"$PARAMETER": "a"}, {"a"}),
    *(0, 1, -1, 2, 0.5, 1.5, 2**53, 2**53 + 1, 2**80, 1e300, math.inf, -math.inf, math.nan),
    *([], [""], ["a"], ["a", "a"], ["a", 1], [1, 2.5], [True], [None], [[1]], [math.nan], ("a",)),
)


def is_built(entry: dict[str, Any]) -> bool:
    try:
        with quiet():
            build_suite({"name": "people", "expectations": [entry]})
    except SpecError:
        return False
    return True


def test_the_table_is_of_the_installed_version() -> None:
    assert version("great_expectations") == VERSION, (
        "compare ARGUMENTS with the new version, then set VERSION"
    )


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_the_library_accepts_every_value_that_the_table_accepts(kind: str) -> None:
    required, optional = ARGUMENTS[kind]
    rules = {**required, **optional}
    chosen = {name: [value for value in VALUES if rule(value)] for name, rule in rules.items()}
    least = {name: chosen[name][0] for name in required}
    if "min_value" in rules:
        least["max_value"] = 2**53
    sets = chain.from_iterable(combinations(optional, number) for number in range(len(optional) + 1))
    entries = [
        *({"type": kind, "kwargs": least | {name: value}} for name in rules for value in chosen[name]),
        *({"type": kind, "kwargs": {name: chosen[name][0] for name in names} | least} for names in sets),
    ]
    accepted = [entry for entry in entries if is_right(entry)]
    assert len(accepted) > len(rules)
    assert [entry for entry in accepted if not is_built(entry)] == []


@given(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from([*ARGUMENTS, "expect_column_to_exits"]),
            "kwargs": st.dictionaries(
                st.sampled_from(
                    [*sorted({n for both in ARGUMENTS.values() for r in both for n in r}), "other"]
                ),
                st.sampled_from(VALUES),
                max_size=4,
            ),
        },
        optional={"severity": st.sampled_from([*SEVERITIES, "fatal", None])},
    )
)
def test_nothing_that_the_library_refuses_is_right(entry: dict[str, Any]) -> None:
    assert is_built(entry) or not is_right(entry)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "expect_column_values_to_be_betwen"},
        {"severity": "fatal"},
        {"kwargs": {"min_value": 1}},
        {"kwargs": {"column": "age"}},
        {"kwargs": {"column": 1, "min_value": 1}},
        {"kwargs": {"column": "age", "min_value": 2, "max_value": 1}},
        {"kwargs": {"column": "age", "min_value": {"$PARAMETER": "least"}}},
        {"kwargs": {"column": "age", "minimum": 1}},
        {"kwargs": {"column": "age", "min_value": 1, "mostly": 1.5}},
    ],
    ids=str,
)
def test_a_wrong_expectation_is_left_to_the_library(change: dict[str, Any]) -> None:
    wrong = RIGHT | change
    assert not is_right(wrong)
    suite = {"name": "people", "expectations": [RIGHT, wrong]}
    if is_built(wrong):  # the library takes it, and the table is narrower
        require_right(suite)
    else:
        with quiet(), pytest.raises(SpecError, match=r"number 2"):
            require_right(suite)
