"""Operators that read tables into the run's work area and check them against their schemas."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.connections import (
    database_url,
    identification_of,
    pseudonym_key_of,
    source_access,
    table_options,
)
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.metrics import monitored
from airflow_privacy_release.task.paid import log_counts
from airflow_privacy_release.task.run import file_label, release_id, release_name, run_work_area, skip
from airflow_privacy_release.triggers.source import SourceTrigger
from privacy_engine.errors import MissingSourceError, SourceError, SpecError
from privacy_release.config.durations import parse_duration
from privacy_release.sources.addresses import without_secret
from privacy_release.workarea.engines import LOCAL, read_engine
from privacy_release.workarea.parquet import MAX_EXPANSION
from privacy_release.workarea.people import DEFAULT_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.sources.extracts import Extract
    from privacy_release.workarea.references import Table


_SHARED = (
    "schema",
    "columns",
    "nulls",
    "individual",
    "person",
    "membership_key",
    "numbering",
    "engine",
    "max_expansion",
    "series",
)
_RENDERERS = {"schema": "json", "columns": "json", "engine": "json"}


class IngestOperator(BaseOperator):
    """Check records against the schema and keep them in the run's work area: the base of ingest operators.

    Args:
        schema: Role and kind of each column: a YAML or JSON file (absolute, or relative to the include
            folder), or the mapping itself.
        columns: Columns to read; None reads all, and then each must be in the schema.
        nulls: Action if a quasi-identifier or sensitive attribute that is not nullable has a null: `fail`,
            `drop` these records, or `keep` them, with null as a value of the attribute.
        individual: Identifier that is kept, only in the work area, for a method that memoises by it.
        person: Identifier of the person that a record belongs to, for models across releases. A keyed hash of
            it is kept with the table.
        membership_key: Airflow connection id whose password is the key of that hash.
        numbering: Airflow connection id whose password is the key that gives a person of the schema the same
            number in every run; required by `promise` of a release. None: numbers are valid within one run.
        engine: Engine of all steps. `local`: all steps hold the table in memory. `fragments` or `spark`, or a
            mapping with that
                `kind` and its settings, see `privacy_release.workarea.engines`: the table may be larger than
                memory; it is copied in parts, and no later step loads it whole.
        max_expansion: Most bytes in memory for each byte of the file. A small file that expands further,
            beyond a GiB, is refused as a Parquet bomb.
        series: Name of the series of releases that share pseudonyms and shifts of the scope `series`, if the
            schema names none; None: the DAG's id.
    """

    ui_color = "#e8f1fa"

    def __init__(
        self,
        *,
        schema: str | Mapping[str, Any],
        columns: Sequence[str] | None = None,
        nulls: Literal["fail", "drop", "keep"] = "fail",
        individual: str | None = None,
        person: str | None = None,
        membership_key: str = DEFAULT_KEY,
        numbering: str | None = None,
        engine: str | Mapping[str, Any] = LOCAL,
        max_expansion: int = MAX_EXPANSION,
        series: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.schema = schema
        self.columns = columns
        self.nulls = nulls
        self.individual = individual
        self.person = person
        self.membership_key = membership_key
        self.numbering = numbering
        self.engine = engine
        self.max_expansion = max_expansion
        self.series = series

    def _ingested(self, context: "Context", uri: "str | Extract", **access: Any) -> "Table":
        """Copy the records into the work area. Return a reference to them."""
        from privacy_release.sources.pseudonyms import Naming
        from privacy_release.spec.files import load_schema
        from privacy_release.steps.ingest import ingest

        engine = read_engine(self.engine)
        people = identification_of(self.membership_key, self.person) if self.person else None
        schema = load_schema(self.schema)
        naming = Naming(
            series=self.series or context["ti"].dag_id,
            release=release_id(context),
            key_of=pseudonym_key_of,
        )
        with run_work_area(context) as work:
            table = ingest(
                uri,
                schema,
                work,
                columns=self.columns,
                nulls=self.nulls,
                individual=self.individual,
                people=people,
                naming=naming,
                numbering=identification_of(self.numbering, schema.by) if self.numbering else None,
                label=file_label(context),
                engine=engine,
                max_expansion=int(self.max_expansion),
                **access,
            )
        source = table.source
        log_counts(self, "ingested", {"rows": table.rows}, files=source.files, uri=source.uri)
        if left_out := source.left_out:
            self.log.warning("hidden or empty files were not read", files=left_out)
        return table


class IngestParquetOperator(IngestOperator):
    """Read Parquet files or a version of a table, check them and keep them in the run's work area.

    Identifiers are not copied, except the one used for memoised answers, or as keyed pseudonyms. If the
    schema says so, columns are derived from dates, and dates are shifted by person. Text that will be
    released is searched for addresses, numbers and names of persons, and insensitive columns for values that
    are nearly unique. Either finding stops the task unless the schema allows it. Returns a reference to the
    table, not the table.

    Args:
        uri: Path or address of a Parquet file, a folder of such files, or a glob. `{release}` in it is the
            run's partition key or run id, `{release:%Y-%m-%d}` the date of the partition key, else the
            logical date.
        connection: Airflow connection of the object store, see `context.source_access`; for a table its
            `storage_options` use the names of the library deltalake, or pyiceberg.
        format: `parquet`; `delta`: the address is the folder of a Delta table; or `iceberg`: the address is
            the metadata file of an Iceberg table, or `iceberg://CATALOG/namespace.table`.
        version: Version number of a table, or the id of an Iceberg snapshot; None: see `timestamp`.
        timestamp: Time, ISO 8601, whose newest version is read; None as well: the newest version. The
            reference and the manifest contain the version that was read.
        when_missing: Action if no file is at the address: `fail`; `skip` this task and all that follow; or
            `wait` for it in the triggerer, which occupies no worker.
        timeout: Longest time to wait, such as `1 day`.
        every: Time between two checks.
        sha256: Required SHA-256 of the Parquet file, or for several files the fingerprint that the report of
            a release shows; None: no requirement.
    """

    template_fields = (
        *("uri", "connection", "format", "version", "timestamp", "sha256"),
        *("when_missing", "timeout", "every"),
        *_SHARED,
    )
    template_fields_renderers = _RENDERERS

    def __init__(
        self,
        *,
        uri: "str | XComArg",
        connection: str | None = None,
        format: Literal["parquet", "delta", "iceberg"] = "parquet",
        version: int | str | None = None,
        timestamp: str | None = None,
        when_missing: Literal["fail", "skip", "wait"] = "fail",
        timeout: str = "1 day",
        every: str = "5 minutes",
        sha256: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.uri: Any = uri  # text by the time of execute
        self.connection = connection
        self.format = format
        self.version = version
        self.timestamp = timestamp
        self.when_missing = when_missing
        self.timeout = timeout
        self.every = every
        self.sha256 = sha256

    @recorded
    @monitored("ingest")
    def execute(self, context: "Context") -> "Table":
        """Copy the table into the work area. Return a reference to it."""
        from privacy_release.sources.waiting import FILE, has_come, skipped

        if self.format != "parquet":
            if self.sha256 is not None:
                raise SpecError(
                    "sha256 applies only to Parquet files. Remove it, and name a version of the table"
                )
            return self._ingested(context, self._version(release_name(context).address(self.uri)))
        reached = _reached(context, self.uri, self.connection)
        if self.when_missing != "fail" and not has_come(**reached):
            if self.when_missing == "skip":
                skip(self, context, skipped(without_secret(reached["uri"]), FILE))
            self._wait(reached["uri"])
        return self._ingested(context, sha256=self.sha256, **reached)

    def _version(self, uri: str) -> "Extract":
        from privacy_release.sources.versions import version_of

        version = None if self.version is None else int(self.version)
        options = table_options(self.format, self.connection)
        return version_of(self.format, uri, version, self.timestamp, options)

    def _wait(self, uri: str) -> None:
        """Leave the worker until the files have arrived."""
        until = datetime.now(UTC) + parse_duration(self.timeout)
        trigger = SourceTrigger(
            uri=uri,
            connection=self.connection,
            every=parse_duration(self.every).total_seconds(),
            until=until.isoformat(),
        )
        self.log.info("waiting", uri=without_secret(uri), until=until.isoformat(timespec="seconds"))
        self.defer(trigger=trigger, method_name="resume")

    @recorded
    @monitored("ingest")
    def resume(self, context: "Context", event: Mapping[str, Any]) -> "Table":
        """Continue once the trigger has seen the files, or given up."""
        from privacy_release.sources.waiting import FILE, too_late

        reached = _reached(context, self.uri, self.connection)
        if event["state"] == "late":
            raise MissingSourceError(too_late(without_secret(reached["uri"]), self.timeout, FILE))
        if event["state"] == "failed":
            raise SourceError(event["message"])
        return self._ingested(context, sha256=self.sha256, **reached)


class IngestSqlOperator(IngestOperator):
    """Read the rows of a query, check them against the schema and keep them in the run's work area.

    Rows are streamed from the database in batches, in a read-only transaction if the database supports it,
    and then handled like those of `IngestParquetOperator`. The manifest has the hash of the query's text,
    never the text, which may contain literals. Returns a reference to the table, not the table.

    Args:
        sql: A single SELECT statement. `{release}` and `{release:%Y-%m-%d}` in it are bound as parameters,
            without quotes: the run's partition key or run id, and the date of the partition key, else the
            logical date.
        connection: Airflow connection id of the database.
        when_missing: Action if the query returns no row: `fail`; `skip` this task and all that follow; or
            `wait` and query again: on a worker while the query runs, in the triggerer in between.
        timeout: Longest time to wait, such as `1 day`.
        every: Time until the query is run again.
        types: Source of the column types if the database does not declare them, which is any but PostgreSQL:
            the first `values`, or the `schema`, which is required with a privacy budget.
    """

    # without `sql`: rendered text would be pasted into the query and stored for a page to show
    template_fields = ("connection", "when_missing", "timeout", "every", "types", *_SHARED)
    template_fields_renderers = _RENDERERS

    def __init__(
        self,
        *,
        sql: str,
        connection: str,
        when_missing: Literal["fail", "skip", "wait"] = "fail",
        timeout: str = "1 day",
        every: str = "5 minutes",
        types: Literal["values", "schema"] = "values",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.connection = connection
        self.when_missing = when_missing
        self.timeout = timeout
        self.every = every
        self.types = types

    @recorded
    @monitored("ingest")
    def execute(self, context: "Context") -> "Table":
        """Copy the rows into the work area. Return a reference to them."""
        until = datetime.now(UTC) + parse_duration(self.timeout)
        return self._queried(context) or self._wait(until)

    @recorded
    @monitored("ingest")
    def resume(self, context: "Context", until: str, event: Any = None) -> "Table":
        """Ask again."""
        return self._queried(context) or self._wait(datetime.fromisoformat(until))

    def _queried(self, context: "Context") -> "Table | None":
        """Run the query and copy its rows; None if there are none yet."""
        from privacy_release.sources.databases.query import Query
        from privacy_release.sources.waiting import ROW, skipped

        sql, values = release_name(context).bound(self.sql)
        url = database_url(self.connection)
        query = Query(connection=self.connection, url=url, sql=sql, values=values, types=self.types)
        try:
            return self._ingested(context, query)
        except MissingSourceError:
            if self.when_missing == "fail":
                raise
        if self.when_missing == "skip":
            skip(self, context, skipped(query.shown, ROW))
        return None

    def _wait(self, until: datetime) -> NoReturn:
        """Leave the worker for a while if there is time left."""
        from privacy_release.sources.waiting import ROW, too_late

        now, shown = datetime.now(UTC), f"query of {self.connection}"
        if now >= until:
            raise MissingSourceError(too_late(shown, self.timeout, ROW))
        again = min(now + parse_duration(self.every), until)
        self.log.info("waiting", uri=shown, until=until.isoformat(timespec="seconds"))
        # The trigger only has a time: its arguments are stored, and the query may contain literals.
        self.defer(trigger=DateTimeTrigger(again), method_name="resume", kwargs={"until": until.isoformat()})
        raise AssertionError("defer always raises")


def _reached(context: "Context", uri: str, connection: str | None) -> dict[str, Any]:
    """Return the address of files and how to access them."""
    address = release_name(context).address(uri)
    return {"uri": address, **source_access(address, connection)}


class IngestTablesOperator(BaseOperator):
    """Read tables that share persons, check each against its schema and keep them as one in the work area.

    One task reads all tables, because a person has the same number in all of them. Each is read as by
    `IngestParquetOperator`; each record has the name of its table in the column `table_name`. The method then
    releases one pseudonym per person, and a class consists of whole persons: all their rows in all tables.
    Returns a reference to the table, not the table.

    Args:
        tables: For each table, by its name, a mapping with `uri` and `schema` (the mapping itself, or a
            file), and, if needed, `columns`, `nulls`, `connection`, `max_expansion` and `sha256`, as for
            `IngestParquetOperator`; `person`, the column that names the person, if its name differs in this
            table; and `carry`: quasi-identifiers of another table with one row per person, whose released
            values are added to the rows of this table.
        person: Identifier of the person; the release has the pseudonym in a column of that name.
    """

    template_fields = ("tables", "person")
    template_fields_renderers = {"tables": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e8f1fa"

    def __init__(self, *, tables: Mapping[str, Mapping[str, Any]], person: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = tables
        self.person = person

    @recorded
    @monitored("ingest")
    def execute(self, context: "Context") -> "Table":
        """Copy the tables into the work area. Return a reference to them."""
        from privacy_release.spec.files import load_tables
        from privacy_release.steps.ingest import TableSource, ingest_tables

        sources = {
            name: TableSource(
                person=settings.get("person"),
                columns=settings.get("columns"),
                nulls=settings.get("nulls", "fail"),
                max_expansion=int(settings.get("max_expansion", MAX_EXPANSION)),
                sha256=settings.get("sha256"),
                **_reached(context, settings["uri"], settings.get("connection")),
            )
            for name, settings in self.tables.items()
        }
        schema = load_tables(self.tables, self.person)
        with run_work_area(context) as work:
            table = ingest_tables(sources, schema, work, label=file_label(context))
        for name, origin in table.source.tables.items():
            counts = {"rows": origin.rows}
            log_counts(self, "ingested", counts, table=name, files=origin.files, uri=origin.uri)
            if left_out := origin.left_out:
                self.log.warning("hidden or empty files were not read", table=name, files=left_out)
        return table


class InventOperator(BaseOperator):
    """Prepare a table without records in the form of a source, for `StructureOperator`. No source is read.

    Args:
        schema: Schema of the source, as of `IngestParquetOperator`. All domains must be public.
        types: Type of a column, as of `StructureOperator`, where it does not follow from the schema.
    """

    template_fields = ("schema", "types")
    template_fields_renderers: ClassVar = {"schema": "json", "types": "json"}
    ui_color = "#e3eefb"

    def __init__(
        self,
        *,
        schema: str | Mapping[str, Any],
        types: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.schema = schema
        self.types = types

    @recorded
    def execute(self, context: "Context") -> "Table":
        """Write the empty table into the work area. Return a reference to it."""
        from privacy_release.spec.files import load_schema
        from privacy_release.steps.invent import invent

        with run_work_area(context) as work:
            return invent(load_schema(self.schema), work, types=self.types, label=file_label(context))
