"""Steps that read and prepare the table."""

from functools import partial
from typing import TYPE_CHECKING

from privacy_engine.vocabulary import counted
from privacy_release.plan.plan import plan_of
from privacy_release.plan.step import Step
from privacy_release.running.context import Handed, Running, Watcher, nothing
from privacy_release.sources.databases.query import Query, url_of_environment
from privacy_release.sources.pseudonyms import Naming
from privacy_release.sources.versions import version_of
from privacy_release.sources.waiting import ROW, await_source, awaited
from privacy_release.spec.files import load_schema, load_tables
from privacy_release.spec.placeholders import ReleaseName
from privacy_release.steps.ingest import TableSource, ingest_tables
from privacy_release.steps.ingest import ingest as ingested
from privacy_release.steps.invent import invent as invented
from privacy_release.steps.outliers import detect_outliers as searched
from privacy_release.steps.validate import validate as validated
from privacy_release.transforms.query import SqlStep
from privacy_release.transforms.transform import transform as transformed
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import DEFAULT_MEMORY, read_engine, read_memory
from privacy_release.workarea.people import identification_of_environment
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.sources.databases.types import Types
    from privacy_release.sources.extracts import Extract
    from privacy_release.spec.model import ReleaseSpec
    from privacy_release.spec.sections.source import SourceSpec


def source_table(
    spec: "ReleaseSpec",
    release_id: str,
    schema: "DataSchema",
    work: WorkArea,
    watch: Watcher = nothing,
    *,
    policy: "ReleasePolicy | None" = None,
) -> Table:
    """Run the rehearsal of a plan and return the table that a release would be made from.

    Args:
        spec: Specification of the release.
        release_id: Name of the release in its table.
        schema: Schema of the source.
        work: Work area in which records are kept.
        watch: Progress callback, called with a step's kind and a message.
        policy: Policy including the floor policy. If it bounds attacks, people are held out. None: no one is.

    Raises:
        PrivacyEngineError: If a step fails.
    """
    run = Running(spec=spec, schema=schema, release_id=release_id, work=work, watch=watch, required=policy)
    run.follow(plan_of(spec, attacked=policy is not None and bool(policy.attacks)).rehearsal())
    return run.table


def public_table(spec: "ReleaseSpec", address: str, work: WorkArea) -> Table:
    """A public table in the form of the source, which is not read.

    Args:
        spec: Specification of the release.
        address: Address of the table.
        work: Work area, where its records are kept.

    Raises:
        PrivacyEngineError: as `ingest`.
    """
    source = spec.only_source
    return ingested(
        address,
        spec.data_schema(),
        work,
        columns=source.columns,
        nulls=source.nulls,
        max_expansion=source.max_expansion,
    )


def register(run: Running, step: Step) -> Table:
    """Copy the public register into the work area."""
    spec = run.spec
    assert spec.public_register is not None
    named = spec.register_identifier
    return ingested(
        ReleaseName.of(run.release_id).address(spec.public_register.uri),
        load_schema(spec.register_fields),
        run.work,
        columns=tuple(spec.register_fields),
        nulls="keep",
        people=None if named is None else identification_of_environment(named),
        label="register",
    )


def invent(run: Handed, step: Step) -> Table:
    """Return a table without records in the form of the source, which is not read."""
    schema, tables = step.settings["schema"], step.settings["tables"]
    own = load_schema(schema) if not tables else load_tables(tables, step.settings["person"])
    return invented(own, run.work, types=step.settings["types"])


def ingest(run: Running, step: Step) -> Table:
    """Copy the table, or several tables as one, into the work area."""
    table = _one_table(run, step) if run.spec.tables is None else _several_tables(run, step)
    run.say(step, _ingested(table))
    return table


def _one_table(run: Running, step: Step) -> Table:
    spec, source = run.spec, run.spec.only_source
    people = identification_of_environment(spec.history.identifier) if spec.history else None
    numbering = identification_of_environment(spec.numbered) if spec.numbered else None
    run.say(step, "reading")
    opened = _opened(source, run, step, spec.undeclared_types)

    def read() -> Table:
        return ingested(
            opened,
            run.schema,
            run.work,
            columns=source.columns,
            nulls=source.nulls,
            max_expansion=source.max_expansion,
            sha256=source.sha256,
            individual=spec.individual,
            people=people,
            naming=Naming(series=spec.name, release=run.release_id),
            numbering=numbering,
            engine=read_engine(spec.engine.settings),
        )

    if not isinstance(opened, Query):
        return read()
    # A source counts as present once it returns a row, so reading it is the check.
    waits = (source.when_missing, source.waits.timeout, source.waits.every)
    return awaited(read, opened.shown, ROW, *waits, lambda text: run.say(step, text))


def _several_tables(run: Running, step: Step) -> Table:
    tables = run.spec.tables or {}
    run.say(step, f"reading {len(tables)} tables")
    sources = {
        name: TableSource(
            uri=_opened(own.source, run, step, run.spec.undeclared_types),
            person=own.person,
            columns=own.source.columns,
            nulls=own.source.nulls,
            max_expansion=own.source.max_expansion,
            sha256=own.source.sha256,
        )
        for name, own in tables.items()
    }
    return ingest_tables(sources, run.schema, run.work)


def _opened(source: "SourceSpec", run: Running, step: Step, types: "Types") -> "str | Extract":
    """Return the input of `ingest`: an address, a version, or a query of the configured database."""
    name = ReleaseName.of(run.release_id)
    if source.sql is None:
        uri, waits = name.address(source.place), source.waits
        if source.format != "parquet":
            return version_of(source.format, uri, source.version, source.timestamp)
        watch = partial(run.say, step)
        await_source(uri, source.when_missing, waits.timeout, waits.every, watch)
        return uri
    connection = source.connection or ""
    sql, values = name.bound(source.sql)
    url = url_of_environment(connection)
    return Query(connection=connection, url=url, sql=sql, values=values, types=types)


def _ingested(table: Table) -> str:
    """Describe the ingested table in one line."""
    source = table.source
    files = source.files_left_out
    left_out = f"; hidden or empty files that were not read: {', '.join(files)}" if files else ""
    return f"{counted(table.rows, 'record')}, {source.dropped:,} dropped for nulls{left_out}"


def validate(run: Running, step: Step) -> Table:
    """Check the expectations of the table, or of one of several tables, and return it."""
    part = step.part
    suite = run.spec.expectation_suite() if part is None else (run.spec.tables or {})[part].suite()
    assert suite is not None
    run.say(step, "running" if part is None else f"running on {part}")
    found = validated(run.table, suite, part)
    run.say(step, f"{found['passed']} of {counted(found['expected'], 'expectation')} met")
    return run.table


def transform(run: Running, step: Step) -> Table:
    """Apply the specification's query to the table."""
    spec, engine = run.spec, run.table.engine
    assert spec.transform is not None
    run.say(step, "running")
    fields = spec.transformed_fields
    memory = engine.memory if engine is not None else read_memory(DEFAULT_MEMORY)
    query = SqlStep(sql=spec.transform.sql, memory=memory)
    schema = None if fields is None else load_schema(fields)
    table = transformed(run.table, run.work, query, schema=schema)
    run.say(step, counted(table.rows, "record"))
    return table


def detect_outliers(run: Running, step: Step) -> Table:
    """Mark or remove outliers."""
    sought = run.spec.outliers
    assert sought is not None
    run.say(step, f"running {sought.method}")
    table = searched(
        run.table,
        run.work,
        method=sought.method,
        parameters=sought.parameters,
        action=sought.action,
        max_share=sought.max_share,
    )
    found = table.outliers[-1]
    run.say(step, f"{found.flagged:,} outliers, {found.removed:,} removed")
    return table
