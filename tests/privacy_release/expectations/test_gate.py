"""The gate over suites: it counts its expectations, names what is wrong, and lets no cell value out."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import great_expectations as gx
import numpy as np
import pandas as pd
import pytest

from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_engine.errors import SchemaError, SpecError
from privacy_release.expectations.gate import _counted, _results, raise_if_failed, run_suite
from privacy_release.expectations.suite import build_suite

ROOT = Path(__file__).parents[3]
CANARIES = ("canary-text", "86421357")
BETWEEN: dict[str, Any] = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "age", "min_value": 17},
}
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "city"}}


def people() -> pd.DataFrame:
    return pd.DataFrame({"age": [20, 30, 40], "city": ["Rome", "Oslo", "Oslo"]})


def suite(*expectations: dict[str, Any]) -> dict[str, Any]:
    return {"name": "people", "expectations": list(expectations)}


def with_canaries() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 86421357, 20],
            "city": ["canary-text", "canary-text", None],
            "objects": ["canary-text", "canary-text", "a"],
        },
        index=["canary-text", "canary-text", "x"],
    ).astype({"objects": object})


def test_a_suite_that_holds_is_a_success_and_is_counted() -> None:
    assert run_suite(people(), suite(BETWEEN, NOT_NULL)) == {
        "suite": "people",
        "expected": 2,
        "evaluated": 2,
        "passed": 2,
        "expectations": [
            {"type": each["type"], "column": each["kwargs"]["column"], "severity": "critical"}
            | {"broken": None, "held": True}
            for each in (BETWEEN, NOT_NULL)
        ],
        "failed": [],
        "success": True,
    }


def test_a_failed_expectation_is_named_with_its_column_and_stops_the_run() -> None:
    result = run_suite(people().assign(age=[1, 30, 40]), suite(BETWEEN, NOT_NULL))
    assert not result["success"]
    assert result["passed"] == 1
    assert result["failed"] == [
        {"type": BETWEEN["type"], "column": "age", "severity": "critical", "broken": None}
    ]
    with pytest.raises(
        SchemaError, match=r"1 of 2 expectations failed: expect_column_values_to_be_between\(age\);"
    ):
        raise_if_failed(result)


@pytest.mark.parametrize("severity", ["warning", "info"])
def test_a_failed_warning_is_reported_and_does_not_stop_the_run(severity: str) -> None:
    result = run_suite(people().assign(age=1), suite({**BETWEEN, "severity": severity}, NOT_NULL))
    assert result["success"]
    assert [(f["type"], f["severity"]) for f in result["failed"]] == [(BETWEEN["type"], severity)]
    raise_if_failed(result)


def test_an_expectation_without_severity_is_critical() -> None:
    assert run_suite(people().assign(age=1), suite(BETWEEN))["failed"][0]["severity"] == "critical"


def test_failures_come_in_the_order_of_the_suite() -> None:
    broken = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "city", "min_value": 1}}
    wrong = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 7}}
    result = run_suite(people().assign(age=1), suite(wrong, BETWEEN, broken))
    assert [f["type"] for f in result["failed"]] == [wrong["type"], BETWEEN["type"], broken["type"]]


def test_a_repeated_expectation_is_counted_twice_even_if_it_breaks() -> None:
    broken = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "city", "min_value": 1}}
    result = run_suite(people(), suite(broken, broken, NOT_NULL, NOT_NULL))
    assert (result["expected"], result["evaluated"], result["passed"]) == (4, 4, 2)


def test_metadata_and_an_id_among_the_arguments_do_not_disturb_the_count() -> None:
    marked = {**BETWEEN, "kwargs": {**BETWEEN["kwargs"], "id": "7", "meta": {"position_in_suite": 1}}}
    assert run_suite(people(), suite(marked, NOT_NULL))["evaluated"] == 2


def test_great_expectations_itself_drops_a_misspelt_expectation_and_passes() -> None:
    misspelt = {"type": "expect_column_values_to_be_betwen", "kwargs": {"column": "age", "min_value": 99}}
    assert len(gx.ExpectationSuite(**suite(misspelt, NOT_NULL)).expectations) == 1  # why the gate counts


def test_a_misspelt_expectation_is_named_with_the_likely_one() -> None:
    misspelt = {"type": "expect_column_values_to_be_betwen", "kwargs": {"column": "age", "min_value": 1}}
    with pytest.raises(SpecError, match=r"1 of 2 .*expect_column_values_to_be_betwen \(number 2\)") as caught:
        run_suite(people(), suite(NOT_NULL, misspelt))
    assert "did you mean expect_column_values_to_be_between?" in str(caught.value)


def test_all_expectations_that_cannot_be_built_are_named_at_once() -> None:
    with pytest.raises(SpecError, match=r"2 of 3 .*expect_nonsense.*expect_rubbish"):
        run_suite(people(), suite({"type": "expect_nonsense"}, NOT_NULL, {"type": "expect_rubbish"}))


@pytest.mark.parametrize(
    ("kwargs", "named"),
    [
        ({"column": "age", "min_valu": 1, "max_value": 99}, "min_valu: extra fields not permitted"),
        ({"min_value": 86421357}, "column: field required"),
        ({"column": "age"}, "the arguments do not fit together"),
        ({"column": "age", "min_value": 1, "mostly": 86421357}, "mostly: "),
        ({"column": "age", "min_value": {"$PARAMETER": "low"}}, "not by $PARAMETER"),
    ],
)
def test_a_wrong_argument_is_named_without_its_value(kwargs: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError) as caught:
        run_suite(people(), suite({"type": BETWEEN["type"], "kwargs": kwargs}))
    assert BETWEEN["type"] in str(caught.value)
    assert named in str(caught.value)
    assert "86421357" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"name": "people", "expectations": []}, "at least one"),
        ({"name": "people"}, "at least one"),
        ({"name": "people", "expectations": {"type": "expect_column_to_exist"}}, "at least one"),
        ({"expectations": [NOT_NULL]}, "must have a name"),
        ({"name": "people", "expectation": [], "expectations": [NOT_NULL]}, "unknown fields ['expectation']"),
        (suite({**NOT_NULL, "serverity": "warning"}), "unknown fields ['serverity']"),
        (suite({**NOT_NULL, "severity": "fatal"}), "severity must be one of"),
        (suite({"kwargs": {"column": "age"}}), "expectation 1: must be a mapping with a type"),
        ({"name": "people", "expectations": ["expect_column_to_exist"]}, "expectation 1: must be a mapping"),
        (suite({**NOT_NULL, "kwargs": ["city"]}), "kwargs must be a mapping"),
    ],
)
def test_a_suite_that_would_check_less_than_it_says_is_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError) as caught:
        run_suite(people(), wrong)
    assert named in str(caught.value)


def test_a_missing_column_is_an_error_that_names_it_whatever_the_severity() -> None:
    wrong = {"type": NOT_NULL["type"], "kwargs": {"column": "town"}, "severity": "warning"}
    pair = {
        "type": "expect_column_pair_values_to_be_equal",
        "kwargs": {"column_A": "age", "column_B": "years"},
    }
    with pytest.raises(
        SchemaError, match=r"'town' \(expect_column_values_to_not_be_null\), 'years' \(expect_column_pair"
    ):
        run_suite(people(), suite(BETWEEN, wrong, pair))


def test_the_expectation_that_a_column_exists_fails_where_it_does_not() -> None:
    result = run_suite(people(), suite({"type": "expect_column_to_exist", "kwargs": {"column": "town"}}))
    assert result["failed"] == [
        {"type": "expect_column_to_exist", "column": "town", "severity": "critical", "broken": None}
    ]


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_a_check_that_breaks_stops_the_run_whatever_its_severity(severity: str) -> None:
    broken = {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "city", "min_value": 1},
        "severity": severity,
    }
    result = run_suite(people(), suite(NOT_NULL, broken))
    assert not result["success"]
    assert result["failed"] == [
        {"type": broken["type"], "column": "city", "severity": severity, "broken": "TypeError"}
    ]
    with pytest.raises(SchemaError, match=r"_mean_to_be_between\(city\) could not be evaluated: TypeError;"):
        raise_if_failed(result)


def test_a_check_that_our_own_rule_breaks_says_why() -> None:
    ordered = {
        "type": "expect_table_to_be_t_close",
        "kwargs": {"t": 1, "quasi_identifiers": ["age"], "sensitive": "city", "distance": "ordered"},
    }
    broken = run_suite(people(), suite(ordered))["failed"][0]["broken"]
    assert broken is not None
    assert broken.startswith("SchemaError: the ordered distance needs numbers, dates")


@pytest.mark.parametrize(
    "spoil",
    [lambda r: r[:-1], lambda r: [*r, r[0]], lambda r: [r[0], r[0]]],
    ids=["one missing", "one too many", "one instead of another"],
)
def test_a_result_too_few_or_too_many_is_an_error(spoil: Any) -> None:
    name, expectations = build_suite(suite(BETWEEN, NOT_NULL))
    results = _results(people(), name, expectations)
    assert _counted(name, expectations, results) == [None, None]
    with pytest.raises(SpecError, match=r"each of the 2 expectations must be evaluated once, got \d results"):
        _counted(name, expectations, spoil(results))


def test_a_repeated_index_changes_no_result() -> None:
    table = people().assign(age=[1, 30, 40])
    assert run_suite(table.set_axis([7, 7, 7]), suite(BETWEEN, NOT_NULL)) == run_suite(
        table, suite(BETWEEN, NOT_NULL)
    )


def test_a_suite_that_great_expectations_wrote_is_read() -> None:
    context = gx.get_context(mode="ephemeral")
    written = context.suites.add(gx.ExpectationSuite(**suite(BETWEEN, {**NOT_NULL, "severity": "warning"})))
    assert run_suite(people(), json.loads(json.dumps(written.to_json_dict())))["passed"] == 2


def test_no_value_is_in_result_error_log_warning_or_output(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    failing = suite(
        {
            "type": BETWEEN["type"],
            "kwargs": {"column": "age", "min_value": 0, "max_value": 99, "result_format": "COMPLETE"},
        },
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "city", "value_set": ["Oslo"], "result_format": "COMPLETE"},
        },
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": "age", "max_value": 99}},
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "city"}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "objects", "min_value": 0}},
        {
            "type": "expect_table_to_be_k_anonymous",
            "kwargs": {"k": 5, "quasi_identifiers": ["city"], "result_format": "COMPLETE"},
        },
    )
    with caplog.at_level(logging.DEBUG):
        result = run_suite(with_canaries(), failing)
    assert (result["evaluated"], result["passed"]) == (6, 0)
    with pytest.raises(SchemaError) as caught:
        raise_if_failed(result)
    shown = [json.dumps(result), str(caught.value), repr(caught.value), caplog.text, *capfd.readouterr()]
    shown += [str(warning.message) for warning in recwarn]
    assert [canary for canary in CANARIES for text in shown if canary in text] == []


def test_the_messages_of_broken_checks_quote_values_and_are_not_shown() -> None:
    broken = suite(
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "objects", "min_value": 0}}
    )
    name, expectations = build_suite(broken)
    shown_by_great_expectations = str(_results(with_canaries(), name, expectations))
    assert "canary-text" in shown_by_great_expectations
    assert run_suite(with_canaries(), broken)["failed"][0]["broken"] == "TypeError"


def test_progress_bars_and_logs_are_silent_and_the_log_level_is_restored(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("great_expectations")
    before = logger.level
    with caplog.at_level(logging.DEBUG):
        run_suite(people(), suite(BETWEEN, NOT_NULL))
    assert [r.name for r in caplog.records if r.name.startswith("great_expectations")] == []
    assert capfd.readouterr() == ("", "")
    assert logger.level == before


def test_importing_the_gate_loads_no_heavy_package() -> None:
    code = (
        "import sys, privacy_release.expectations.gate, privacy_release.expectations.suite; "
        "sys.exit(str([m for m in ('great_expectations', 'pandas', 'pyarrow', 'numba') if m in sys.modules])"
        " if any(m in sys.modules for m in ('great_expectations', 'pandas', 'pyarrow', 'numba')) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_first_import_of_great_expectations_is_silent() -> None:
    """Only a fresh process imports Great Expectations for the first time."""
    code = (
        "import logging, pandas as pd; logging.basicConfig(level=logging.DEBUG); "
        "from privacy_release.expectations.gate import run_suite; "
        f"run_suite(pd.DataFrame({{'city': ['Oslo']}}), {suite(NOT_NULL)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "great_expectations" not in done.stdout + done.stderr


def generated() -> pd.DataFrame:
    return synthetic_adult(5_000, rng=np.random.default_rng(2))


def real() -> pd.DataFrame:
    return pd.read_parquet(Path(os.environ["PRIVACY_DATA"]) / "adult.parquet")


@pytest.mark.parametrize(
    "source",
    [
        generated,
        pytest.param(
            real,
            marks=pytest.mark.skipif(
                "PRIVACY_DATA" not in os.environ, reason="needs the folder PRIVACY_DATA"
            ),
        ),
    ],
)
def test_the_shipped_suite_holds_on_the_sample_table(source: Any) -> None:
    shipped = json.loads((ROOT / "include" / "expectations" / "adult.json").read_text(encoding="utf-8"))
    columns = shipped["expectations"][0]["kwargs"]["column_set"]
    result = run_suite(source()[columns].dropna(), shipped)
    assert result["failed"] == []
    assert result["evaluated"] == len(shipped["expectations"]) > 0
