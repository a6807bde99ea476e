"""Common expectations that can be checked without importing Great Expectations.

Importing it takes seconds, which `privacy-release check` would spend on nearly every specification. The table
has the expectations that most suites consist of, with narrower rules than the library's: what `is_right`
accepts, the library accepts as well. Everything else, wrong or only unusual, is left to the library.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from types import MappingProxyType
from typing import Any

VERSION = "1.24.1"  # version of Great Expectations that the table was compared with
SEVERITIES = frozenset({"critical", "warning", "info"})
_LARGEST = 2**53  # whole numbers up to it are exact as floats


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_whole(value: Any) -> bool:
    return _is_number(value) and isinstance(value, int) and value >= 0


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 < value <= 1


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _are_values(value: Any) -> bool:
    return _are_texts(value) or (isinstance(value, list) and bool(value) and all(map(_is_number, value)))


Rule = Callable[[Any], bool]
_COLUMN: Mapping[str, Rule] = {"column": _is_text}
_MOSTLY: Mapping[str, Rule] = {"mostly": _is_share}
_RANGE: Mapping[str, Rule] = {"min_value": _is_number, "max_value": _is_number}
_COUNTS: Mapping[str, Rule] = {"min_value": _is_whole, "max_value": _is_whole}
_STRICT: Mapping[str, Rule] = {"strict_min": _is_truth, "strict_max": _is_truth}
_SET: Mapping[str, Rule] = {"value_set": _are_values}

# Expectation -> its required and its optional arguments.
ARGUMENTS: Mapping[str, tuple[Mapping[str, Rule], Mapping[str, Rule]]] = MappingProxyType(
    {
        "expect_column_distinct_values_to_be_in_set": ({**_COLUMN, **_SET}, {}),
        "expect_column_max_to_be_between": (_COLUMN, {**_RANGE, **_STRICT}),
        "expect_column_mean_to_be_between": (_COLUMN, {**_RANGE, **_STRICT}),
        "expect_column_median_to_be_between": (_COLUMN, {**_RANGE, **_STRICT}),
        "expect_column_min_to_be_between": (_COLUMN, {**_RANGE, **_STRICT}),
        "expect_column_sum_to_be_between": (_COLUMN, {**_RANGE, **_STRICT}),
        "expect_column_to_exist": (_COLUMN, {}),
        "expect_column_unique_value_count_to_be_between": (_COLUMN, {**_COUNTS, **_STRICT}),
        "expect_column_value_lengths_to_be_between": (_COLUMN, {**_COUNTS, **_STRICT, **_MOSTLY}),
        "expect_column_value_lengths_to_equal": ({**_COLUMN, "value": _is_whole}, _MOSTLY),
        "expect_column_values_to_be_between": (_COLUMN, {**_RANGE, **_STRICT, **_MOSTLY}),
        "expect_column_values_to_be_in_set": ({**_COLUMN, **_SET}, _MOSTLY),
        "expect_column_values_to_be_null": (_COLUMN, _MOSTLY),
        "expect_column_values_to_be_unique": (_COLUMN, _MOSTLY),
        "expect_column_values_to_match_regex": ({**_COLUMN, "regex": _is_text}, _MOSTLY),
        "expect_column_values_to_not_be_in_set": ({**_COLUMN, **_SET}, _MOSTLY),
        "expect_column_values_to_not_be_null": (_COLUMN, _MOSTLY),
        "expect_column_values_to_not_match_regex": ({**_COLUMN, "regex": _is_text}, _MOSTLY),
        "expect_table_columns_to_match_set": ({"column_set": _are_texts}, {"exact_match": _is_truth}),
        "expect_table_row_count_to_be_between": ({}, {**_COUNTS, **_STRICT}),
        "expect_table_row_count_to_equal": ({"value": _is_whole}, {}),
    }
)


# All expectations that are run. Great Expectations registers more, including those of plugins.
ALLOWED = frozenset(
    {
        "expect_column_distinct_values_to_be_in_set",
        "expect_column_distinct_values_to_contain_set",
        "expect_column_distinct_values_to_equal_set",
        "expect_column_kl_divergence_to_be_less_than",
        "expect_column_max_to_be_between",
        "expect_column_mean_to_be_between",
        "expect_column_median_to_be_between",
        "expect_column_min_to_be_between",
        "expect_column_most_common_value_to_be_in_set",
        "expect_column_pair_values_a_to_be_greater_than_b",
        "expect_column_pair_values_to_be_equal",
        "expect_column_pair_values_to_be_in_set",
        "expect_column_proportion_of_non_null_values_to_be_between",
        "expect_column_proportion_of_unique_values_to_be_between",
        "expect_column_quantile_values_to_be_between",
        "expect_column_stdev_to_be_between",
        "expect_column_sum_to_be_between",
        "expect_column_to_exist",
        "expect_column_type_to_be",
        "expect_column_unique_value_count_to_be_between",
        "expect_column_value_lengths_to_be_between",
        "expect_column_value_lengths_to_equal",
        "expect_column_value_z_scores_to_be_less_than",
        "expect_column_values_to_be_between",
        "expect_column_values_to_be_dateutil_parseable",
        "expect_column_values_to_be_decreasing",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_be_in_type_list",
        "expect_column_values_to_be_increasing",
        "expect_column_values_to_be_json_parseable",
        "expect_column_values_to_be_null",
        "expect_column_values_to_be_of_type",
        "expect_column_values_to_be_unique",
        "expect_column_values_to_match_json_schema",
        "expect_column_values_to_match_like_pattern",
        "expect_column_values_to_match_like_pattern_list",
        "expect_column_values_to_match_regex",
        "expect_column_values_to_match_regex_list",
        "expect_column_values_to_match_strftime_format",
        "expect_column_values_to_not_be_in_set",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_not_be_outliers",
        "expect_column_values_to_not_match_like_pattern",
        "expect_column_values_to_not_match_like_pattern_list",
        "expect_column_values_to_not_match_regex",
        "expect_column_values_to_not_match_regex_list",
        "expect_compound_columns_to_be_unique",
        "expect_multicolumn_sum_to_equal",
        "expect_multicolumn_values_to_be_equal",
        "expect_select_column_values_to_be_unique_within_record",
        "expect_table_column_count_to_be_between",
        "expect_table_column_count_to_equal",
        "expect_table_columns_to_match_ordered_list",
        "expect_table_columns_to_match_set",
        "expect_table_row_count_to_be_between",
        "expect_table_row_count_to_equal",
        "expect_table_to_be_k_anonymous",
        "expect_table_to_be_l_diverse",
        "expect_table_to_be_t_close",
    }
)
# Expectations of Great Expectations that are not run: they run queries, or read other tables.
REFUSED = frozenset(
    {
        "expect_query_results_to_match_comparison",
        "expect_table_row_count_to_equal_other_table",
        "unexpected_rows_expectation",
    }
)


def is_right(entry: Mapping[str, Any]) -> bool:
    """Return whether an expectation is right by the table. False may also mean that only the library knows.

    Args:
        entry: Expectation of a suite in its JSON form, with `type` and, if it has arguments, `kwargs`.
    """
    arguments = entry.get("kwargs", {})
    required, optional = ARGUMENTS.get(entry["type"], (None, {}))
    if required is None or entry.get("severity", "critical") not in SEVERITIES:
        return False
    rules = {**required, **optional}
    return (
        required.keys() <= arguments.keys() <= rules.keys()
        and all(rules[name](value) for name, value in arguments.items())
        and _are_in_order(rules, arguments)
    )


def is_version_of_table() -> bool:
    """Return whether the installed Great Expectations is the one that the table was compared with."""
    try:
        return version("great_expectations") == VERSION
    except PackageNotFoundError:
        return False


def _are_in_order(rules: Mapping[str, Rule], arguments: Mapping[str, Any]) -> bool:
    """Return whether a range has a limit, and the lower one is below the upper one."""
    limits = [arguments[name] for name in ("min_value", "max_value") if name in arguments]
    return "min_value" not in rules or (bool(limits) and all(low < high for low, high in pairwise(limits)))
