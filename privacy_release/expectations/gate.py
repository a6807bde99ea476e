"""Great Expectations suites as a gate that counts its expectations and shows no cell value.

By default, Great Expectations drops an expectation that it cannot build, reports the rest as a success, and
puts raw values into results, exceptions and logs. So each expectation is built separately (see
`privacy_release.expectations.suite`), only whether it was met is read back, and each one must come back
exactly once.
"""

from __future__ import annotations

import logging
import re
import warnings
from contextlib import contextmanager
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, TypedDict

from privacy_engine.errors import SchemaError, SpecError
from privacy_release.expectations.suite import POSITION, build_suite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.expectation import Expectation

COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "quasi_identifiers", "sensitive")
SILENT = logging.CRITICAL + 1


class FailedExpectation(TypedDict):
    """One expectation that was not met.

    Attributes:
        type: Name of the expectation in snake case.
        column: Columns that it names. None if it is about the table.
        severity: ``critical``, ``warning`` or ``info``.
        broken: Type of the exception if it could not be evaluated. None if the data failed it.
    """

    type: str
    column: str | None
    severity: str
    broken: str | None


class JudgedExpectation(FailedExpectation):
    """One expectation, and whether it was met."""

    held: bool


class SuiteResult(TypedDict):
    """The result of a suite: names and counts, no values.

    Attributes:
        suite: Name of the suite.
        expected, evaluated, passed: Numbers of expectations. The first two are equal, or an error was raised.
        expectations: All expectations, in the order of the suite.
        failed: Expectations that were not met, in the order of the suite.
        success: Whether no critical expectation failed and none was broken, whatever its severity.
    """

    suite: str
    expected: int
    evaluated: int
    passed: int
    expectations: list[JudgedExpectation]
    failed: list[FailedExpectation]
    success: bool


def run_suite(table: pd.DataFrame, suite: Mapping[str, Any]) -> SuiteResult:
    """Run a suite on a table. Expectations that fail are reported, see `raise_if_failed`.

    Args:
        table: Table with any index.
        suite: ``{name, expectations: [{type, kwargs, severity}]}``, the JSON form of Great Expectations. It
            may include the expectations of ``privacy_release.expectations.table_expectations``.

    Raises:
        SpecError: If the suite is empty, or an expectation is unknown, has a wrong argument or was not
            evaluated.
        SchemaError: If the table lacks a column that an expectation names, or the suite cannot be run on it.
    """
    with quiet():
        name, expectations = build_suite(suite)
        refuse_missing_columns(expectations, table)
        return summary(name, expectations, judged(table, name, expectations))


def joined(name: str, results: Sequence[SuiteResult]) -> SuiteResult:
    """Combine the results of several suites."""
    return SuiteResult(
        suite=name,
        expected=sum(result["expected"] for result in results),
        evaluated=sum(result["evaluated"] for result in results),
        passed=sum(result["passed"] for result in results),
        expectations=[one for result in results for one in result["expectations"]],
        failed=[one for result in results for one in result["failed"]],
        success=all(result["success"] for result in results),
    )


def raise_if_failed(result: SuiteResult) -> None:
    """Raise if a suite failed.

    Raises:
        SchemaError: Naming the critical expectations that failed and those that could not be evaluated.
    """
    if result["success"]:
        return
    gating = [failed for failed in result["failed"] if _gates(failed)]
    raise SchemaError(
        f"validation: {len(gating)} of {result['expected']} expectations failed: "
        f"{', '.join(_text(failed) for failed in gating)}; correct the source or the suite"
    )


def _gates(failed: FailedExpectation) -> bool:
    return failed["severity"] == "critical" or failed["broken"] is not None


def _text(failed: FailedExpectation) -> str:
    broken = "" if failed["broken"] is None else f" could not be evaluated: {failed['broken']}"
    return f"{failed['type']}({failed['column'] or ''}){broken}"


def refuse_missing_columns(expectations: Sequence[Expectation], table: pd.DataFrame) -> None:
    """Raise if a column is missing, which means a wrong source or suite, not a value that failed."""
    present = set(table.columns)
    missing = [
        f"{column!r} ({expectation.expectation_type})"
        for expectation in expectations
        if expectation.expectation_type != "expect_column_to_exist"  # it checks this itself
        for column in columns_of(expectation)
        if column not in present
    ]
    if missing:
        raise SchemaError(
            f"validation: the table lacks columns that expectations name: {', '.join(missing)}; "
            "correct the source or the suite"
        )


def columns_of(expectation: Expectation) -> list[str]:
    """Return the columns that an expectation names."""
    named = [getattr(expectation, argument, None) for argument in COLUMN_ARGUMENTS]
    return [column for value in named if value for column in ([value] if isinstance(value, str) else value)]


def _results(
    table: pd.DataFrame, name: str, expectations: Sequence[Expectation]
) -> list[ExpectationValidationResult]:
    """Run the expectations in a context that stores nothing on disk."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    # After each step, it would write itself as YAML, which nothing reads: 40 % of a small suite's time.
    context._save_project_config = lambda: None  # type: ignore[method-assign]
    asset = context.data_sources.add_pandas("tables").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(
        # some metrics align by the index, which may repeat
        batch_parameters={"dataframe": table.reset_index(drop=True)}
    )
    try:
        found = batch.validate(
            gx.ExpectationSuite(name=name, expectations=expectations), result_format="BOOLEAN_ONLY"
        )
    except Exception as error:  # noqa: BLE001  message and traceback of any error may quote values
        broken = type(error).__name__
    else:
        return list(found.results)
    raise SchemaError(
        f"validation: suite {name!r} could not be run ({broken}); correct the source or the suite"
    )


def judged(
    table: pd.DataFrame, name: str, expectations: Sequence[Expectation]
) -> list[FailedExpectation | None]:
    """Return how each expectation failed on a table, in their order. None if it was met.

    Raises:
        SpecError, SchemaError: As `run_suite`.
    """
    table = _with_plain_dates(table, expectations)
    return _counted(name, expectations, _results(table, name, [_timed(e, table) for e in expectations]))


def _with_plain_dates(table: pd.DataFrame, expectations: Sequence[Expectation]) -> pd.DataFrame:
    """Convert dates to Python's for expectations with a list of types, which cannot name Arrow's types."""
    dated_columns = {getattr(e, "column", None) for e in expectations if hasattr(e, "type_list")}
    dated = [
        name
        for name in table.columns
        if name in dated_columns and str(table[name].dtype).startswith("date32")
    ]
    return table.assign(**{name: table[name].astype(object) for name in dated}) if dated else table


def _timed(expectation: Expectation, table: pd.DataFrame) -> Expectation:
    """Convert the ends of a range of times to times. Great Expectations reads days as dates."""
    column = getattr(expectation, "column", None)
    if column not in table.columns or not str(table[column].dtype).startswith("datetime64"):
        return expectation
    ends = {name: getattr(expectation, name, None) for name in ("min_value", "max_value")}
    midnight = {name: datetime.combine(end, time()) for name, end in ends.items() if type(end) is date}
    return expectation.copy(update=midnight) if midnight else expectation


def _counted(
    name: str, expectations: Sequence[Expectation], results: Sequence[ExpectationValidationResult]
) -> list[FailedExpectation | None]:
    """Check that every expectation has exactly one result."""
    found: dict[int, list[ExpectationValidationResult]] = {_position(e.meta): [] for e in expectations}
    for result in results:
        found[_position(result.expectation_config.meta)].append(result)  # type: ignore[union-attr]  # always set by a validator
    own = list(found.values())
    if uncounted := [e.expectation_type for e, got in zip(expectations, own, strict=True) if len(got) != 1]:
        raise SpecError(
            f"suite {name!r}: each of the {len(expectations)} expectations must be evaluated once, got "
            f"{len(results)} results; correct {uncounted}"
        )
    return [_failure(e, got[0]) for e, got in zip(expectations, own, strict=True)]


def _position(meta: Mapping[str, Any] | None) -> int:
    return int((meta or {})[POSITION])


def summary(
    name: str, expectations: Sequence[Expectation], outcomes: Sequence[FailedExpectation | None]
) -> SuiteResult:
    """Summarize a suite's result from its failed expectations. An expectation that was met is None."""
    failed = [failure for failure in outcomes if failure is not None]
    verdicts = [
        JudgedExpectation(held=outcome is None, **(outcome or failure_of(expectation)))
        for expectation, outcome in zip(expectations, outcomes, strict=True)
    ]
    return SuiteResult(
        suite=name,
        expected=len(outcomes),
        evaluated=len(outcomes),
        passed=len(outcomes) - len(failed),
        expectations=verdicts,
        failed=failed,
        success=not any(_gates(failure) for failure in failed),
    )


def _failure(expectation: Expectation, result: ExpectationValidationResult) -> FailedExpectation | None:
    """Return how an expectation failed. None if it was met."""
    broken = _exception(result.exception_info or {})
    return None if result.success and broken is None else failure_of(expectation, broken)


def failure_of(expectation: Expectation, broken: str | None = None) -> FailedExpectation:
    """Return a failed expectation, without any value."""
    return FailedExpectation(
        type=expectation.expectation_type,
        column=", ".join(columns_of(expectation)) or None,
        severity=expectation.severity.value,
        broken=broken,
    )


def _exception(info: Mapping[str, Any]) -> str | None:
    """Return the type of the exception that prevented an evaluation. None if there was none.

    Great Expectations reports one exception, or one per metric. Their messages may quote values and are not
    read, except for this package's own, which never do.
    """
    reports = [info] if "raised_exception" in info else list(info.values())
    raised = next((report for report in reports if report.get("raised_exception")), None)
    if raised is None:
        return None
    # the first line without indentation ends the first stack: the cause of all others
    lines = str(raised.get("exception_traceback")).splitlines()
    ends = (line for line in lines if line[:1].strip() and not line.startswith("Traceback "))
    cause = next(ends, "")
    named = re.match(r"([\w.]+)(:|$)", cause)
    if named is None:
        return "unknown exception"
    module, _, kind = named[1].rpartition(".")
    return cause.removeprefix(f"{module}.") if module == SchemaError.__module__ else kind


@contextmanager
def quiet() -> Iterator[None]:
    """Silence logs and warnings of Great Expectations: its import logs 150 lines, and errors quote values."""
    logger = logging.getLogger("great_expectations")
    level = logger.level
    logger.setLevel(SILENT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
