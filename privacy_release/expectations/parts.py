"""Great Expectations suites on a table larger than memory, part by part, if that means the same.

An expectation about single records is met by a table if it is met by each part. One about the columns is
checked on the columns, one about the number of records on their number. All others concern the whole table at
once, or may do so (uniqueness, means, quantiles, sets of distinct values, the privacy models; `mostly`, a
`row_condition`), and are refused rather than answered for a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.foreign import translated
from privacy_release.expectations.gate import (
    columns_of,
    failure_of,
    judged,
    quiet,
    refuse_missing_columns,
    summary,
)
from privacy_release.expectations.suite import POSITION, build_suite
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.parquet import require_unchanged, unchanged_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    from great_expectations.expectations.expectation import Expectation

    from privacy_release.expectations.gate import FailedExpectation, SuiteResult

ROWS = 1_000_000  # records of a part; a suite takes about a second to set up
OF_RECORDS = frozenset(
    {
        "expect_column_pair_values_a_to_be_greater_than_b",
        "expect_column_pair_values_to_be_equal",
        "expect_column_pair_values_to_be_in_set",
        "expect_column_type_to_be",
        "expect_column_value_lengths_to_be_between",
        "expect_column_value_lengths_to_equal",
        "expect_column_values_to_be_between",
        "expect_column_values_to_be_dateutil_parseable",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_be_in_type_list",
        "expect_column_values_to_be_json_parseable",
        "expect_column_values_to_be_null",
        "expect_column_values_to_be_of_type",
        "expect_column_values_to_match_json_schema",
        "expect_column_values_to_match_regex",
        "expect_column_values_to_match_regex_list",
        "expect_column_values_to_match_strftime_format",
        "expect_column_values_to_not_be_in_set",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_not_match_regex",
        "expect_column_values_to_not_match_regex_list",
        "expect_multicolumn_sum_to_equal",
        "expect_multicolumn_values_to_be_equal",
        "expect_select_column_values_to_be_unique_within_record",
    }
)
OF_COLUMNS = frozenset(
    {
        "expect_column_to_exist",
        "expect_table_column_count_to_be_between",
        "expect_table_column_count_to_equal",
        "expect_table_columns_to_match_ordered_list",
        "expect_table_columns_to_match_set",
    }
)
OF_NUMBER = frozenset({"expect_table_row_count_to_be_between", "expect_table_row_count_to_equal"})


def run_suite_in_parts(path: str | Path, sha256: str, suite: Mapping[str, Any]) -> SuiteResult:
    """Run a suite on a Parquet file of the work area, like `expectations.run_suite` on a table.

    Each expectation about records must be evaluated exactly once on every part.

    Args:
        path: Path of the file.
        sha256: Recorded SHA-256 of the file.
        suite: Suite as for `run_suite`, with expectations that can be judged part by part.

    Raises:
        SpecError: As `run_suite`; also if expectations need the whole table, naming them.
        SchemaError: As `run_suite`.
        IntegrityError: If the file is missing, changed or incomplete.
    """
    with quiet():
        name, expectations = build_suite(suite)
        _refuse_whole(name, expectations)
        table = _Footer.of(path, sha256)
        refuse_missing_columns(expectations, table.empty)
        found = [
            _of_number(expectation, table.rows) if expectation.expectation_type in OF_NUMBER else None
            for expectation in expectations
        ]
        for kinds, frames in (
            (OF_COLUMNS, [table.empty]),
            (OF_RECORDS, table.parts(path, sha256, expectations)),
        ):
            if any(expectation.expectation_type in kinds for expectation in expectations):
                for frame in frames:
                    _judge(frame, suite, kinds, found)
        return summary(name, expectations, found)


def _of_number(expectation: Expectation, rows: int) -> FailedExpectation | None:
    """Return how an expectation about the number of records failed. Great Expectations would count them."""
    held = expectation._validate({"table.row_count": rows})
    return None if held["success"] is True else failure_of(expectation)


def _judge(
    frame: pd.DataFrame,
    suite: Mapping[str, Any],
    kinds: frozenset[str],
    found: list[FailedExpectation | None],
) -> None:
    """Run the expectations of some kinds on a part. What failed earlier stays failed.

    They are built again for each part, so that anything Great Expectations stores in them stays with the
    part.
    """
    name, expectations = build_suite(suite)
    chosen = [expectation for expectation in expectations if expectation.expectation_type in kinds]
    for expectation, failure in zip(chosen, judged(frame, name, chosen), strict=True):
        position = int((expectation.meta or {})[POSITION])
        before = found[position]
        if failure is not None and (before is None or before["broken"] is None):
            found[position] = failure


def _refuse_whole(name: str, expectations: Sequence[Expectation]) -> None:
    """Raise if expectations cannot be judged part by part."""
    known = OF_RECORDS | OF_COLUMNS | OF_NUMBER
    refused = []
    for number, expectation in enumerate(expectations, start=1):
        kind = expectation.expectation_type
        if kind not in known:
            refused.append(f"{kind} (number {number})")
        elif getattr(expectation, "mostly", 1) != 1:
            refused.append(f"{kind} (number {number}) with mostly")
        elif getattr(expectation, "row_condition", None) is not None:
            refused.append(f"{kind} (number {number}) with a row_condition")
    if refused:
        raise SpecError(
            f"suite {name!r}: {len(refused)} of {len(expectations)} expectations need the whole table in "
            f"memory, which the engine avoids: {', '.join(refused)}; remove them, replace them by ones about "
            "single records, or use the engine local"
        )


@dataclass(frozen=True, kw_only=True)
class _Footer:
    """The facts in a file's footer about its table.

    Attributes:
        empty: Columns of the table, without records.
        rows: Number of records.
        widened: Columns of whole numbers or truth values with a null somewhere, with the type that they have
            in a data frame then, which must not change from part to part.
    """

    empty: pd.DataFrame
    rows: int
    widened: Mapping[str, Any]

    @classmethod
    def of(cls, path: str | Path, sha256: str) -> _Footer:
        import pyarrow as pa
        import pyarrow.parquet as pq
        import pyarrow.types as t

        from privacy_engine.engines.frames import to_frame

        require_unchanged(path, sha256)
        try:
            footers = [pq.read_metadata(file) for file in files_of(path, sha256)]
            schema = footers[0].schema.to_arrow_schema()
        except (pa.ArrowException, OSError) as error:
            raise translated(error, f"reading {Path(path).name}") or IntegrityError(
                f"{Path(path).name} must be a whole Parquet file; run from ingest again"
            ) from None
        nulls = pa.table({field.name: pa.nulls(1, field.type) for field in schema})
        kinds = to_frame(nulls).dtypes
        groups = [footer.row_group(n) for footer in footers for n in range(footer.num_row_groups)]
        widened = {
            field.name: kinds[field.name]
            for position, field in enumerate(schema)
            if (t.is_integer(field.type) or t.is_boolean(field.type))
            and any(_nulls(group.column(position)) for group in groups)
        }
        rows = sum(footer.num_rows for footer in footers)
        return cls(empty=to_frame(schema.empty_table()).astype(widened), rows=rows, widened=widened)

    def parts(
        self, path: str | Path, sha256: str, expectations: Sequence[Expectation]
    ) -> Iterator[pd.DataFrame]:
        """Yield the records in parts, with the columns that the expectations name."""
        import pyarrow as pa

        from privacy_engine.engines.frames import to_frame

        named = {column for expectation in expectations for column in columns_of(expectation)}
        columns = [column for column in self.empty.columns if column in named]
        for batch in unchanged_batches(path, sha256, columns, ROWS):
            frame = to_frame(pa.Table.from_batches([batch]))
            yield frame.astype({name: kind for name, kind in self.widened.items() if name in columns})


def _nulls(chunk: Any) -> bool:
    """Return whether a column chunk has nulls, or does not state it."""
    counted = chunk.statistics
    return counted is None or not counted.has_null_count or counted.null_count > 0
