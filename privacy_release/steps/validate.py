"""Holding an ingested table against a Great Expectations suite, without Airflow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError
from privacy_engine.tables.linked import rows_by_table
from privacy_release.expectations import gate as expectations
from privacy_release.expectations.checkpoint import run_actions, suites_of
from privacy_release.expectations.gate import quiet, run_suite
from privacy_release.expectations.parts import run_suite_in_parts
from privacy_release.expectations.suite import require_right
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.references import Table
from privacy_release.workarea.staged import read_schema

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.expectations.gate import SuiteResult

EXPECTATIONS = "expectations"  # the XCom that has what was found, for the page of the run


def validate(
    table: Table,
    suite: Mapping[str, Any],
    name: str | None = None,
    tell: "Callable[[SuiteResult], None]" = lambda result: None,
) -> "SuiteResult":
    """Run a Great Expectations suite on an ingested table; counts and names, no values.

    A table that an engine works on is read part by part, see `privacy_release.expectations.parts`. Of a named
    Checkpoint all suites are run, and then its actions, whether the suites held or not.

    Args:
        table: what `ingest` or `ingest_tables` gave.
        suite: what must hold; or a checkpoint, as `load_suite` gives it.
        name: which of several tables that were ingested together.
        tell: gets what was found, before an error is raised for it.

    Raises:
        SchemaError: if an expectation that gates is not met, by type, column and count.
        SpecError: if it is not said which of several tables is meant; if the suite is wrong, such as by a
            misspelt expectation, or needs the whole table in memory and an engine works on it; if a
            checkpoint cannot be used, or an action of it failed.
        IntegrityError: if the table changed since it was ingested.
    """
    schema = read_schema(table.schema)
    names = [own.name for own in schema.tables]
    if (name or "") not in (names or [""]):
        raise SpecError(f"a suite is for one of the tables {names or 'that are ingested together'}: name it")
    run = _runner(table, schema, name)
    if "checkpoint" not in suite:
        result = run(suite)
        tell(result)
        expectations.raise_if_failed(result)
        return result
    folder, checkpoint = suite["context"], suite["checkpoint"]
    suites = suites_of(folder, checkpoint)
    found = [run(own) for own in suites]
    result = expectations.joined(checkpoint, found)
    tell(result)
    failed = run_actions(folder, checkpoint, suites, found)
    expectations.raise_if_failed(result)
    if failed:
        raise SpecError(
            f"validation: the expectations held, but {', '.join(failed)} of checkpoint {checkpoint!r} "
            "failed; mend it in its context"
        )
    return result


def counts_of(found: "SuiteResult") -> dict[str, int]:
    """How many expectations there were, how many were evaluated, and how many held."""
    return {"expected": found["expected"], "evaluated": found["evaluated"], "passed": found["passed"]}


def with_expectations(table: Table, found: "Sequence[Mapping[str, int] | None]") -> Table:
    """The table with how many expectations there were, were evaluated and held, added to those it has."""
    told = [counts for counts in (table.source.expectations, *found) if counts]
    if not told:
        return table
    total = {name: sum(counts[name] for counts in told) for name in told[0]}
    return replace(table, source=replace(table.source, expectations=total))


def _runner(
    table: Table, schema: "DataSchema", name: str | None
) -> "Callable[[Mapping[str, Any]], SuiteResult]":
    """Runs a suite on the table."""
    if not name and table.engine is not None:
        return partial(run_suite_in_parts, table.uri, table.sha256)
    records = read_private(table.uri, table.sha256)
    if name:
        rows = next(own.table for own in rows_by_table(records, schema) if own.name == name)
        records = rows.drop(columns=schema.by)
    return partial(run_suite, records)


def check_suite(suite: Mapping[str, Any]) -> None:
    """Refuse a suite of which an expectation is unknown or has a wrong argument; or a checkpoint of such.

    Raises:
        SpecError: naming all of them; or why the checkpoint cannot be used.
    """
    named = "checkpoint" in suite
    for own in suites_of(suite["context"], suite["checkpoint"]) if named else (suite,):
        with quiet():
            require_right(own)
