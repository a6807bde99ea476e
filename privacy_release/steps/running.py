"""The work of the steps of a release in one process: each is a function of the run so far and its step."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from privacy_engine.progress import portion
from privacy_engine.vocabulary import counted
from privacy_release.alerts.trend import find_alerts
from privacy_release.plan.plan import Plan
from privacy_release.plan.step import Slot, Step
from privacy_release.reports.attempts import Attempts
from privacy_release.sources.databases.query import Query, url_of_environment
from privacy_release.sources.pseudonyms import Naming
from privacy_release.sources.versions import version_of
from privacy_release.sources.waiting import ROW, await_source, awaited
from privacy_release.spec.files import load_schema
from privacy_release.spec.placeholders import ReleaseName
from privacy_release.steps.approval import ApprovalRef, approval_of
from privacy_release.steps.attacks.holdout import hold_out as held_out
from privacy_release.steps.attacks.tries import attack_staged
from privacy_release.steps.curator import report_to_curator
from privacy_release.steps.history import Past
from privacy_release.steps.ingest import TableSource, ingest_tables
from privacy_release.steps.ingest import ingest as ingested
from privacy_release.steps.outliers import detect_outliers as searched
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.release import make_release
from privacy_release.steps.types import check_types_of
from privacy_release.steps.validate import validate as validated
from privacy_release.steps.verify import raise_if_failed, verify_staged
from privacy_release.transforms.query import SqlStep
from privacy_release.transforms.transform import transform as transformed
from privacy_release.work.area import WorkArea
from privacy_release.work.engines import DEFAULT_MEMORY, read_engine, read_memory
from privacy_release.work.people import identification_of_environment
from privacy_release.work.references import Published, ReportRef, StagedRelease, Table
from privacy_release.work.staged import left_out_of

if TYPE_CHECKING:
    from privacy_engine.judge.policy import ReleasePolicy
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.lake.layout import TableRules
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.sources.databases.types import Types
    from privacy_release.sources.extracts import Extract
    from privacy_release.spec.model import ReleaseSpec, SourceSpec
    from privacy_release.spending.budget import Budget
    from privacy_release.spending.secrets import Memory


class Stage(StrEnum):
    """The steps of a release, in order."""

    BUDGET = "budget"
    INGEST = "ingest"
    VALIDATE = "validate"
    TRANSFORM = "transform"
    OUTLIERS = "outliers"
    HOLD_OUT = "hold_out"
    RELEASE = "release"
    VERIFY = "verify"
    ATTACK = "attack"
    PUBLISH = "publish"
    EVIDENCE = "evidence"
    CURATOR = "curator"


Watcher = Callable[[Stage, str], None]


def nothing(stage: Stage, text: str) -> None:
    """A watcher that says nothing."""


@dataclass(kw_only=True)
class Handed:
    """What a step may use that has no operator of its own: it knows no specification but its settings.

    Attributes:
        release_id: Name of the release in its table.
        work: Work area of the run.
        handed: Newest result of each kind.
    """

    release_id: str
    work: WorkArea
    handed: dict[Slot, Any] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The records, as far as they are prepared."""
        table: Table = self.handed[Slot.TABLE]
        return table


@dataclass(kw_only=True)
class Running(Handed):
    """A run in one process, as far as it is.

    Attributes:
        spec: What is released.
        schema: Schema of the source.
        watch: Function that is given the stage, and what is done in it.
        attempts: What may be missing of a published release.
        warnings: Alerts, and why they are incomplete.
    """

    spec: "ReleaseSpec"
    schema: "DataSchema"
    watch: Watcher = nothing
    attempts: Attempts = field(default_factory=Attempts)
    warnings: list[str] = field(default_factory=list)

    def follow(self, plan: Plan) -> None:
        """Do the steps of a plan, one after the other.

        Raises:
            PrivacyEngineError: as the steps do.
        """
        for step in plan.steps:
            if step.work is None:
                raise ValueError(f"step {step.name} is done by several tasks, and not in one process")
            with portion(step.share) if step.share else nullcontext():
                result = work_of(step.work)(self, step)
            if step.gives is not None:
                self.handed[step.gives] = result


@dataclass(kw_only=True)
class Releasing(Running):
    """A run that may release: what must hold, where to, and what pays for it.

    Attributes:
        policy: Policy of the release, as its verification reads it.
        required: The same with the floor policy.
        into: The release table.
        rules: Which releases the table keeps.
        budget: Budget that is spent.
        memory: Secret of memoised answers, and that of the last release.
        approved_by: Who approves what the run makes.
        signer: Signer of the release.
        paying: What the release spends, in words.
    """

    policy: Any
    required: "ReleasePolicy"
    into: "ReleaseTable"
    rules: "TableRules"
    budget: "Budget | None" = None
    memory: "Memory | None" = None
    approved_by: str | None = None
    signer: "Signer | None" = None
    paying: str = ""

    @property
    def run(self) -> tuple[str, str]:
        """The release and its run, as `publish` names them."""
        return (self.release_id, self.release_id)

    @property
    def staged(self) -> StagedRelease:
        """The release, not published yet."""
        staged: StagedRelease = self.handed[Slot.STAGED]
        return staged

    @property
    def report(self) -> ReportRef:
        """What was found of it."""
        report: ReportRef = self.handed[Slot.REPORT]
        return report


def work_of(name: str) -> Callable[[Any, Step], Any]:
    """The function of a step, by `module:function`."""
    module, _, function = name.partition(":")
    found: Callable[[Any, Step], Any] = getattr(import_module(module), function)
    return found


def budget(run: Releasing, step: Step) -> None:
    """Say what the release spends; that so much is left was judged before the first step."""
    if run.paying:
        run.watch(Stage.BUDGET, run.paying)


def register(run: Running, step: Step) -> Table:
    """The public register, copied into the work area."""
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


def ingest(run: Running, step: Step) -> Table:
    """The table, or several as one, copied into the work area."""
    table = _one_table(run) if run.spec.tables is None else _several_tables(run)
    run.watch(Stage.INGEST, _ingested(table))
    return table


def _one_table(run: Running) -> Table:
    spec, source = run.spec, run.spec.only_source
    people = identification_of_environment(spec.history.identifier) if spec.history else None
    numbering = identification_of_environment(spec.numbered) if spec.numbered else None
    run.watch(Stage.INGEST, "reading")
    opened = _opened(source, run, spec.undeclared_types)

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
    # It is there when it gives a row, which reading it shows.
    waits = (source.when_missing, source.waits.timeout, source.waits.every)
    return awaited(read, opened.shown, ROW, *waits, lambda text: run.watch(Stage.INGEST, text))


def _several_tables(run: Running) -> Table:
    tables = run.spec.tables or {}
    run.watch(Stage.INGEST, f"reading {len(tables)} tables")
    sources = {
        name: TableSource(
            uri=_opened(own.source, run, run.spec.undeclared_types),
            person=own.person,
            columns=own.source.columns,
            nulls=own.source.nulls,
            max_expansion=own.source.max_expansion,
            sha256=own.source.sha256,
        )
        for name, own in tables.items()
    }
    return ingest_tables(sources, run.schema, run.work)


def _opened(source: "SourceSpec", run: Running, types: "Types" = "values") -> "str | Extract":
    """What `ingest` reads: an address, a version, or a query of the database that the environment names."""
    name = ReleaseName.of(run.release_id)
    if source.sql is None:
        uri, waits = name.address(source.place), source.waits
        if source.format != "parquet":
            return version_of(source.format, uri, source.version, source.timestamp)
        watch = partial(run.watch, Stage.INGEST)
        await_source(uri, source.when_missing, waits.timeout, waits.every, watch)
        return uri
    connection = source.connection or ""
    sql, values = name.bound(source.sql)
    url = url_of_environment(connection)
    return Query(connection=connection, url=url, sql=sql, values=values, types=types)


def _ingested(table: Table) -> str:
    """What was read, in a line."""
    source = table.source
    files = left_out_of(source)
    left_out = f"; hidden or empty files that were not read: {', '.join(files)}" if files else ""
    return f"{counted(table.rows, 'record')}, {source.dropped:,} dropped for nulls{left_out}"


def validate(run: Running, step: Step) -> Table:
    """The table, or one of several, once its expectations are met."""
    part = step.part
    suite = run.spec.expectation_suite() if part is None else (run.spec.tables or {})[part].suite()
    assert suite is not None
    run.watch(Stage.VALIDATE, "running" if part is None else f"running on {part}")
    found = validated(run.table, suite, part)
    run.watch(Stage.VALIDATE, f"{found['passed']} of {counted(found['expected'], 'expectation')} met")
    return run.table


def transform(run: Running, step: Step) -> Table:
    """The records that the specification's query makes of those that were read."""
    spec, engine = run.spec, run.table.engine
    assert spec.transform is not None
    run.watch(Stage.TRANSFORM, "running")
    fields = spec.transformed_fields
    memory = engine.memory if engine is not None else read_memory(DEFAULT_MEMORY)
    query = SqlStep(sql=spec.transform.sql, memory=memory)
    schema = None if fields is None else load_schema(fields)
    table = transformed(run.table, run.work, query, schema=schema)
    run.watch(Stage.TRANSFORM, counted(table.rows, "record"))
    return table


def detect_outliers(run: Running, step: Step) -> Table:
    """The records, outliers marked or taken out."""
    sought = run.spec.outliers
    assert sought is not None
    run.watch(Stage.OUTLIERS, f"running {sought.method}")
    table = searched(
        run.table,
        run.work,
        method=sought.method,
        parameters=sought.parameters,
        action=sought.action,
        max_share=sought.max_share,
    )
    found = table.outliers[-1]
    run.watch(Stage.OUTLIERS, f"{found.flagged:,} outliers, {found.removed:,} taken out")
    return table


def hold_out(run: Releasing, step: Step) -> Table:
    """The records without those that attacks compare the release with."""
    table = held_out(run.table, run.work, run.required.holdout, run.required.attacks)
    run.watch(Stage.HOLD_OUT, f"{counted(table.rows, 'record is', 'records are')} left to be released")
    return table


def release(run: Releasing, step: Step) -> StagedRelease:
    """The staged release."""
    spec = run.spec
    check_types_of(spec, run.table, run.into)
    staged = make_release(
        run.table,
        run.work,
        method=spec.release.method,
        parameters=spec.release.parameters,
        seed=spec.release.seed,
        title=spec.name,
        progress=partial(run.watch, Stage.RELEASE),
        budget=run.budget,
        policy=run.required,
        memory=run.memory,
        past=_past(run),
    )
    run.watch(Stage.RELEASE, counted(staged.rows, "record"))
    return staged


def _past(run: Releasing) -> Past | None:
    """The earlier releases that a release is made with; None where they are not looked at, or only judged."""
    history = run.spec.history
    if history is None or not history.keep:
        return None
    return Past(table=run.into, policy=run.required, run=run.run, **history.kept)


def verify(run: Releasing, step: Step) -> ReportRef:
    """What was found of the staged bytes, all of which passed."""
    history = run.spec.history
    run.watch(Stage.VERIFY, "measuring the staged bytes")
    report = verify_staged(
        run.staged,
        run.policy,
        run.budget.ledger if run.budget else None,
        table=run.into,
        run=run.run,
        register=run.handed.get(Slot.REGISTER),
        accept_unjudged=history.accept_unjudged if history is not None else None,
    )
    raise_if_failed(report)
    rules, classes = len(report.findings), report.classes
    run.watch(Stage.VERIFY, f"{counted(rules, 'rule')} kept by {counted(classes, 'class', 'classes')}")
    return report


def attack(run: Releasing, step: Step) -> ReportRef:
    """The report with what the attacks found."""
    report = attack_staged(
        run.table,
        run.staged,
        run.report,
        title=run.spec.name,
        release_id=run.release_id,
        release_table=run.into,
        run=run.run,
        tell=partial(run.watch, Stage.ATTACK),
        register=run.handed.get(Slot.REGISTER),
        work=run.work,
    )
    run.watch(Stage.ATTACK, f"{len(run.required.attacks)} bounds kept")
    return report


def approve(run: Releasing, step: Step) -> ApprovalRef:
    """The approval that was given with the command; where it may be left out, that no one was asked."""
    run.handed[Slot.REPORT] = _warned(run)
    return approval_of(run.report, run.approved_by, datetime.now(UTC).isoformat(timespec="seconds"))


def publish(run: Releasing, step: Step) -> Published:
    """The published release."""
    if Slot.APPROVAL not in run.handed:
        run.handed[Slot.REPORT] = _warned(run)
    run.watch(Stage.PUBLISH, "committing")
    published = publish_staged(
        run.staged,
        run.report,
        run.into,
        run.release_id,
        approved=run.handed.get(Slot.APPROVAL),
        signer=run.signer,
        rules=run.rules,
    )
    run.watch(Stage.PUBLISH, f"version {published.version} of {published.table}")
    return published


def _warned(run: Releasing) -> ReportRef:
    """The report with the alerts of the specification, which stop nothing."""
    if run.spec.alerts is None:
        return run.report
    problems: list[str] = []
    alerts = find_alerts(
        run.staged,
        run.report,
        run.spec.alerts,
        table=lambda: run.into,
        run=run.run,
        ledger=run.budget.ledger if run.budget else None,
        tell=problems.append,
    )
    run.warnings += [a.text for a in alerts] + [f"alerts are incomplete: {p}" for p in problems]
    return replace(run.report, alerts=alerts)


def curator_report(run: Releasing, step: Step) -> None:
    """A report that compares the release with its source, in the curator's folder."""
    published: Published = run.handed[Slot.PUBLISHED]
    if published.completed:  # of another attempt's bytes
        return
    write = partial(report_to_curator, run.table, run.staged, run.spec.name, run.release_id)
    if path := run.attempts.make("the private report for the curator", write):
        run.watch(Stage.CURATOR, f"a private report, not to be published: {path}")
