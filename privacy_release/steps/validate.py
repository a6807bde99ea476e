"""Validate an ingested table against a Great Expectations suite, without Airflow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError
from privacy_engine.moved import renamed
from privacy_engine.tables.linked import rows_by_table
from privacy_release.expectations import gate as expectations
from privacy_release.expectations.checkpoint import run_actions, suites_of
from privacy_release.expectations.gate import quiet, run_suite
from privacy_release.expectations.parts import run_suite_in_parts
from privacy_release.expectations.suite import require_right
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.expectations.gate import SuiteResult

EXPECTATIONS = "expectations"  # XCom with the result, for the page of the run


@renamed("tell", "on_result")
def validate(
    table: Table,
    suite: Mapping[str, Any],
    name: str | None = None,
    on_result: "Callable[[SuiteResult], None]" = lambda result: None,
) -> "SuiteResult":
    """Run a Great Expectations suite on an ingested table. Results are counts and names, never values.

    A table of an engine is read part by part, see `privacy_release.expectations.parts`. For a named
    Checkpoint, all its suites run and then its actions, whether the suites passed or not.

    Args:
        table: Table from `ingest` or `ingest_tables`.
        suite: Suite to run, or a checkpoint from `load_suite`.
        name: Name of the table to check, if several were ingested together.
        on_result: Callback for the result, called before an error is raised.

    Raises:
        SchemaError: If a gating expectation is not met, with type, column and count.
        SpecError: If it is not clear which of several tables is meant; if the suite is wrong, for example
            because of a misspelt expectation, or needs the whole table in memory while an engine works on
            it; or if a checkpoint cannot be used, or one of its actions failed.
        IntegrityError: If the table changed since it was ingested.
    """
    schema = table.read_schema()
    names = [own.name for own in schema.tables]
    if (name or "") not in (names or [""]):
        raise SpecError(f"a suite is for one of the tables {names or 'that are ingested together'}: name it")
    run = _runner(table, schema, name)
    if "checkpoint" not in suite:
        result = run(suite)
        on_result(result)
        expectations.raise_if_failed(result)
        return result
    folder, checkpoint = suite["context"], suite["checkpoint"]
    suites = suites_of(folder, checkpoint)
    found = [run(own) for own in suites]
    result = expectations.joined(checkpoint, found)
    on_result(result)
    failed = run_actions(folder, checkpoint, suites, found)
    expectations.raise_if_failed(result)
    if failed:
        raise SpecError(
            f"validation: the expectations are met, but {', '.join(failed)} of checkpoint {checkpoint!r} "
            "failed; correct it in its context"
        )
    return result


def counts_of(found: "SuiteResult") -> dict[str, int]:
    """Return how many expectations there were, how many were evaluated, and how many were met."""
    return {"expected": found["expected"], "evaluated": found["evaluated"], "passed": found["passed"]}


def with_expectations(table: Table, found: "Sequence[Mapping[str, int] | None]") -> Table:
    """Add counts of expectations to those that the table already has."""
    all_counts = [counts for counts in (table.source.expectations, *found) if counts]
    if not all_counts:
        return table
    total = {name: sum(counts[name] for counts in all_counts) for name in all_counts[0]}
    return replace(table, source=replace(table.source, expectations=total))


def _runner(
    table: Table, schema: "DataSchema", name: str | None
) -> "Callable[[Mapping[str, Any]], SuiteResult]":
    """Return a function that runs a suite on the table."""
    if table.is_in_fragments and not name:
        return partial(run_suite_in_parts, table.uri, table.sha256)
    records = table.frame()
    if name:
        rows = next(own.table for own in rows_by_table(records, schema) if own.name == name)
        records = rows.drop(columns=schema.by)
    return partial(run_suite, records)


def check_suite(suite: Mapping[str, Any]) -> None:
    """Raise if an expectation of a suite or of a checkpoint is unknown or has a wrong argument.

    Raises:
        SpecError: Naming all of them, or why the checkpoint cannot be used.
    """
    named = "checkpoint" in suite
    for own in suites_of(suite["context"], suite["checkpoint"]) if named else (suite,):
        with quiet():
            require_right(own)
