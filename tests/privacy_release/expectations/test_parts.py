"""Suites on a table that memory may not hold: the same answers part by part, or a refusal by name."""

import logging
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from great_expectations.expectations.registry import list_registered_expectation_implementations

import privacy_release
from privacy_engine.errors import IntegrityError, SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.expectations import gate as expectations
from privacy_release.expectations import parts as expectation_parts
from privacy_release.expectations.gate import run_suite
from privacy_release.expectations.parts import OF_COLUMNS, OF_NUMBER, OF_RECORDS, run_suite_in_parts
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import private_parquet, read_private
from privacy_release.workarea.references import Table

CANARY = "X9-canary"
ROWS, PART = 200, 60


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation_parts, "ROWS", PART)  # four parts


def table(last: dict[str, Any] | None = None) -> pa.Table:
    """Records that keep all suites below; the last one may differ."""
    n = np.arange(ROWS)
    made = pa.table(
        {
            "age": n % 90,
            "city": pa.array(np.where(n % 2, "Rome", "Oslo")),
            "note": pa.nulls(ROWS, pa.string()),
            "visits": pa.array(n % 7, mask=n == 5),  # a null in the first part alone
            "more": n % 7 + 1,
            "same": n % 90,
            "left": 90 - n % 90,
            "json": pa.array(['{"a": 1}'] * ROWS),
            "day": pa.array(["2026-01-31"] * ROWS),
            "seen": pa.array([date(2026, 1, 31)] * ROWS),
        }
    )
    if last is None:
        return made
    bad = pa.table(
        {f.name: pa.array([last.get(f.name, made[f.name][0].as_py())], f.type) for f in made.schema}
    )
    return pa.concat_tables([made.slice(0, ROWS - 1), bad])


def written(folder: Path, records: pa.Table) -> tuple[Path, str]:
    with private_parquet(folder / "t.parquet") as file:
        for begin in range(0, len(records), 35):
            file.write(records.slice(begin, 35))
    return folder / "t.parquet", file.sha256


def suite(*expectations: dict[str, Any]) -> dict[str, Any]:
    return {"name": "people", "expectations": list(expectations)}


def expect(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_{kind}", "kwargs": kwargs}


ASCENDING = {"column_A": "more", "column_B": "visits", "ignore_row_if": "either_value_is_missing"}
# what holds, and the last record that breaks it (None: none can)
CASES: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    (expect("column_pair_values_a_to_be_greater_than_b", **ASCENDING), {"more": 1, "visits": 3}),
    (expect("column_pair_values_to_be_equal", column_A="age", column_B="same"), {"age": 0, "same": 1}),
    (
        expect("column_pair_values_to_be_in_set", column_A="city", column_B="day",
               value_pairs_set=[("Rome", "2026-01-31"), ("Oslo", "2026-01-31")]),
        {"city": CANARY},
    ),
    (expect("column_type_to_be", column="visits", type_="Int64"), None),
    (expect("column_value_lengths_to_be_between", column="city", max_value=4), {"city": CANARY}),
    (expect("column_value_lengths_to_equal", column="city", value=4), {"city": CANARY}),
    (expect("column_values_to_be_between", column="age", min_value=0, max_value=89), {"age": 999}),
    (expect("column_values_to_be_dateutil_parseable", column="day"), {"day": CANARY}),
    (expect("column_values_to_be_in_set", column="city", value_set=["Rome", "Oslo"]), {"city": CANARY}),
    (expect("column_values_to_be_in_type_list", column="seen", type_list=["date"]), None),
    (expect("column_values_to_be_json_parseable", column="json"), {"json": CANARY}),
    (expect("column_values_to_be_null", column="note"), {"note": CANARY}),
    (expect("column_values_to_be_of_type", column="seen", type_="date"), None),
    (
        expect("column_values_to_match_json_schema", column="json",
               json_schema={"properties": {"a": {"type": "number"}}}),
        {"json": '{"a": "X9-canary"}'},
    ),
    (expect("column_values_to_match_regex", column="city", regex="^[RO]"), {"city": CANARY}),
    (expect("column_values_to_match_regex_list", column="city", regex_list=["^R", "^O"]), {"city": CANARY}),
    (
        expect("column_values_to_match_strftime_format", column="day", strftime_format="%Y-%m-%d"),
        {"day": CANARY},
    ),
    (expect("column_values_to_not_be_in_set", column="city", value_set=[CANARY]), {"city": CANARY}),
    (expect("column_values_to_not_be_null", column="city"), {"city": None}),
    (expect("column_values_to_not_match_regex", column="city", regex="canary"), {"city": CANARY}),
    (expect("column_values_to_not_match_regex_list", column="city", regex_list=["canary"]), {"city": CANARY}),
    (expect("multicolumn_sum_to_equal", column_list=["age", "left"], sum_total=90), {"age": 0, "left": 1}),
    (expect("multicolumn_values_to_be_equal", column_list=["age", "same"]), {"age": 0, "same": 1}),
    (
        expect("select_column_values_to_be_unique_within_record", column_list=["more", "visits"]),
        {"more": 3, "visits": 3},
    ),
    (expect("column_to_exist", column="age"), None),
    (expect("table_column_count_to_be_between", min_value=10, max_value=10), None),
    (expect("table_column_count_to_equal", value=10), None),
    (expect("table_columns_to_match_ordered_list", column_list=table().column_names), None),
    (expect("table_columns_to_match_set", column_set=table().column_names), None),
    (expect("table_row_count_to_be_between", min_value=ROWS, max_value=ROWS), None),
    (expect("table_row_count_to_equal", value=ROWS), None),
]  # fmt: skip
NAMES = [case["type"] for case, _ in CASES]


def test_each_kind_that_is_let_through_is_tested_here() -> None:
    assert sorted(NAMES) == sorted(OF_RECORDS | OF_COLUMNS | OF_NUMBER)
    assert set(NAMES) <= set(list_registered_expectation_implementations())


def test_what_holds_for_the_table_holds_part_by_part(tmp_path: Path) -> None:
    path, sha256 = written(tmp_path, table())
    whole = suite(*(case for case, _ in CASES))
    found = run_suite_in_parts(path, sha256, whole)
    assert found == run_suite(read_private(path, sha256), whole)
    assert (found["success"], found["passed"]) == (True, len(CASES)), found


def broken_together() -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """As few last records as break each case that can be broken, each with the cases that it breaks."""
    records: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for case, last in CASES:
        if last is None:
            continue
        for record, cases in records:
            if all(record.get(column, value) == value for column, value in last.items()):
                record.update(last)
                cases.append(case)
                break
        else:
            records.append((dict(last), [case]))
    return records


@pytest.mark.parametrize(("last", "cases"), broken_together())
def test_one_record_in_the_last_part_breaks_it_as_it_does_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, last: dict[str, Any], cases: list[dict[str, Any]]
) -> None:
    path, sha256 = written(tmp_path, table(last))
    with caplog.at_level(logging.DEBUG):
        found = run_suite_in_parts(path, sha256, suite(*cases))
    assert found == run_suite(read_private(path, sha256), suite(*cases))
    assert [failure["type"] for failure in found["failed"]] == [case["type"] for case in cases]
    assert not found["success"]
    assert CANARY not in str(found) + caplog.text


def test_numbers_columns_and_types_are_those_of_the_whole_table(tmp_path: Path) -> None:
    path, sha256 = written(tmp_path, table())
    wrong = [
        expect("table_row_count_to_equal", value=PART),
        expect("table_row_count_to_be_between", max_value=PART),
        expect("table_column_count_to_equal", value=1),
        expect("table_columns_to_match_set", column_set=["age"]),
        expect("column_to_exist", column="gone"),
        expect("column_type_to_be", column="visits", type_="int64"),
    ]
    found = run_suite_in_parts(path, sha256, suite(*wrong))
    assert found == run_suite(read_private(path, sha256), suite(*wrong))
    assert [failure["type"] for failure in found["failed"]] == [case["type"] for case in wrong]


def test_failures_come_in_the_order_of_the_suite_and_are_counted_once(tmp_path: Path) -> None:
    path, sha256 = written(tmp_path, table())
    wrong = [
        expect("table_row_count_to_equal", value=7),
        expect("column_values_to_be_between", column="age", max_value=3),
        expect("column_to_exist", column="gone"),
        expect("column_values_to_be_between", column="age", max_value=3),
        expect("column_values_to_not_be_null", column="city"),
        {**expect("column_values_to_be_between", column="age", max_value=3), "severity": "warning"},
    ]
    found = run_suite_in_parts(path, sha256, suite(*wrong))
    assert found == run_suite(read_private(path, sha256), suite(*wrong))
    assert (found["expected"], found["evaluated"], found["passed"]) == (6, 6, 1)
    assert [f["type"] for f in found["failed"]] == [w["type"] for w in (*wrong[:4], wrong[5])]


def test_what_could_not_be_evaluated_on_one_part_is_reported(tmp_path: Path) -> None:
    path, sha256 = written(tmp_path, table())
    broken = expect("column_values_to_match_regex", column="city", regex="(")
    found = run_suite_in_parts(path, sha256, suite(broken))
    assert found == run_suite(read_private(path, sha256), suite(broken))
    assert found["failed"][0]["broken"]


@pytest.mark.parametrize(
    "case",
    [
        expect("column_values_to_be_unique", column="age"),
        expect("column_mean_to_be_between", column="age", min_value=1),
        expect("column_median_to_be_between", column="age", min_value=1),
        expect("column_max_to_be_between", column="age", min_value=1),
        expect("column_quantile_values_to_be_between", column="age",
               quantile_ranges={"quantiles": [0.5], "value_ranges": [[0, 90]]}),
        expect("column_distinct_values_to_equal_set", column="city", value_set=["Rome", "Oslo"]),
        expect("column_value_z_scores_to_be_less_than", column="age", threshold=3, double_sided=True),
        expect("column_values_to_be_increasing", column="age"),
        expect("compound_columns_to_be_unique", column_list=["age", "city"]),
        expect("table_to_be_k_anonymous", k=5, quasi_identifiers=["age"]),
        expect("table_to_be_l_diverse", l=2, quasi_identifiers=["age"], sensitive="city"),
        expect("table_to_be_t_close", t=0.5, quasi_identifiers=["age"], sensitive="city"),
        expect("column_values_to_not_be_null", column="city", mostly=0.9),
        expect("column_values_to_be_between", column="age", min_value=0,
               row_condition="age > 3", condition_parser="pandas"),
        expect("table_row_count_to_equal", value=5, row_condition="age > 3", condition_parser="pandas"),
    ],
    ids=lambda case: case["type"],
)  # fmt: skip
def test_what_speaks_of_the_whole_table_is_refused_by_name(tmp_path: Path, case: dict[str, Any]) -> None:
    path, sha256 = written(tmp_path, table())
    fine = expect("column_values_to_not_be_null", column="city")
    with pytest.raises(
        SpecError, match=rf"1 of 2 .* need the whole table.*{case['type']} \(number 2\).*remove them"
    ):
        run_suite_in_parts(path, sha256, suite(fine, case))


def test_a_suite_that_is_wrong_is_refused_before_the_table_is_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such expectation"):
        run_suite_in_parts(tmp_path / "gone.parquet", "", suite(expect("column_values_to_be_betwen")))


def test_a_missing_column_is_a_wrong_source_or_suite(tmp_path: Path) -> None:
    path, sha256 = written(tmp_path, table())
    with pytest.raises(SchemaError, match=r"lacks columns .* 'gone'"):
        run_suite_in_parts(path, sha256, suite(expect("column_values_to_not_be_null", column="gone")))


@pytest.mark.parametrize("kind", ["column_values_to_not_be_null", "column_to_exist"])
def test_a_file_that_changed_is_refused(tmp_path: Path, kind: str) -> None:
    path, sha256 = written(tmp_path, table())
    path.write_bytes(path.read_bytes() + b"?")
    with pytest.raises(IntegrityError, match="recorded sha256"):
        run_suite_in_parts(path, sha256, suite(expect(kind, column="city")))


def test_a_file_that_changes_between_two_parts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sha256 = written(tmp_path, table())

    def meddled(*given: Any) -> Iterator[pa.RecordBatch]:
        batches = reading(*given)
        yield next(batches)
        with path.open("ab") as stream:
            stream.write(b"?")
        yield from batches

    reading = expectation_parts.unchanged_batches
    monkeypatch.setattr(expectation_parts, "unchanged_batches", meddled)
    with pytest.raises(IntegrityError, match="recorded sha256"):
        run_suite_in_parts(path, sha256, suite(expect("column_values_to_not_be_null", column="city")))


def test_a_result_that_is_missing_on_one_part_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sha256 = written(tmp_path, table())
    parts = []

    def dropping(*given: Any) -> Any:
        parts.append(given)
        return results(*given)[: -1 if len(parts) == 3 else None]

    results = expectations._results
    monkeypatch.setattr(expectations, "_results", dropping)
    with pytest.raises(SpecError, match="must be evaluated once, got 0 results"):
        run_suite_in_parts(path, sha256, suite(expect("column_values_to_not_be_null", column="city")))


@pytest.fixture
def large(tmp_path: Path, work: WorkArea) -> Table:
    pd.DataFrame({"age": np.arange(ROWS) % 90}).to_parquet(tmp_path / "people.parquet")
    schema = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric"}})
    return privacy_release.ingest(
        str(tmp_path / "people.parquet"), schema, work, engine=read_engine("fragments")
    )


def test_a_table_with_an_engine_is_validated_in_parts(large: Table) -> None:
    good = expect("column_values_to_be_between", column="age", max_value=89)
    assert privacy_release.validate(large, suite(good))["passed"] == 1
    with pytest.raises(SchemaError, match=r"expect_column_values_to_be_between\(age\)"):
        privacy_release.validate(
            large, suite(expect("column_values_to_be_between", column="age", max_value=88))
        )
    with pytest.raises(SpecError, match="need the whole table"):
        privacy_release.validate(large, suite(expect("column_values_to_be_unique", column="age")))
