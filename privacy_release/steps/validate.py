"""Holding an ingested table against a Great Expectations suite, without Airflow."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError
from privacy_release.work.parquet import read_private
from privacy_release.work.references import TableRef
from privacy_release.work.staged import read_schema

if TYPE_CHECKING:
    from privacy_release.expectations.gate import SuiteResult

EXPECTATIONS = "expectations"  # the XCom that has what was found, for the page of the run


def validate(
    table: TableRef,
    suite: Mapping[str, Any],
    name: str | None = None,
    tell: "Callable[[SuiteResult], None]" = lambda result: None,
) -> "SuiteResult":
    """Run a Great Expectations suite on an ingested table; counts and names, no values.

    A table that an engine works on is read part by part, see `privacy_release.expectations.parts`.

    Args:
        table: what `ingest` or `ingest_tables` gave.
        suite: what must hold.
        name: which of several tables that were ingested together.
        tell: gets what was found, before an error is raised for it.

    Raises:
        SchemaError: if an expectation that gates is not met, by type, column and count.
        SpecError: if it is not said which of several tables is meant; if the suite is wrong, such as by a
            misspelt expectation, or needs the whole table in memory and an engine works on it.
        IntegrityError: if the table changed since it was ingested.
    """
    from privacy_engine.tables.linked import rows_by_table
    from privacy_release.expectations import gate as expectations
    from privacy_release.expectations.parts import run_suite_in_parts

    schema = read_schema(table["schema"])
    names = [own.name for own in schema.tables]
    if (name or "") not in (names or [""]):
        raise SpecError(f"a suite is for one of the tables {names or 'that are ingested together'}: name it")
    if name:
        whole = read_private(table["uri"], table["sha256"])
        rows = next(own.table for own in rows_by_table(whole, schema) if own.name == name)
        result = expectations.run_suite(rows.drop(columns=schema.by), suite)
    elif "engine" in table:
        result = run_suite_in_parts(table["uri"], table["sha256"], suite)
    else:
        result = expectations.run_suite(read_private(table["uri"], table["sha256"]), suite)
    tell(result)
    expectations.raise_if_failed(result)
    return result


def check_suite(suite: Mapping[str, Any]) -> None:
    """Refuse a suite of which an expectation is unknown or has a wrong argument.

    Raises:
        SpecError: naming all of them.
    """
    from privacy_release.expectations.gate import quiet
    from privacy_release.expectations.suite import build_suite

    with quiet():
        build_suite(suite)
