"""A whole release in one process, without Airflow: the steps in order, each told to whoever watches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from privacy_engine.counts import without_counts
from privacy_engine.errors import SpecError
from privacy_engine.progress import portion
from privacy_engine.vocabulary import counted
from privacy_release.alerts.trend import find_alerts
from privacy_release.reports.attempts import Attempts, LeftOut
from privacy_release.sources.databases.query import Query, url_of_environment
from privacy_release.sources.pseudonyms import Naming
from privacy_release.sources.versions import version_of
from privacy_release.sources.waiting import ROW, await_source, awaited
from privacy_release.spec.check import learned, method_of, policy_of, schema_of, sources_of
from privacy_release.spec.files import load_schema
from privacy_release.spec.floor import (
    Floor,
    floor_policy,
)
from privacy_release.spec.placeholders import ReleaseName
from privacy_release.spec.rules.facts import UNKNOWN, Facts
from privacy_release.spec.rules.judge import judged, refuse
from privacy_release.spending.budget import Budget
from privacy_release.spending.secrets import Memory, default_secret, last_fingerprint
from privacy_release.steps.approval import ApprovalRef, approval_of
from privacy_release.steps.attacks.holdout import hold_out
from privacy_release.steps.attacks.tries import attack_staged
from privacy_release.steps.counts import counts_hidden
from privacy_release.steps.curator import report_to_curator
from privacy_release.steps.facts import budget_of, with_lake, with_ledger
from privacy_release.steps.history import Past
from privacy_release.steps.ingest import TableSource, ingest, ingest_tables
from privacy_release.steps.outliers import detect_outliers
from privacy_release.steps.publish import COMPLETED, publish_staged, table_rules
from privacy_release.steps.release import make_release
from privacy_release.steps.types import check_types_of
from privacy_release.steps.validate import validate
from privacy_release.steps.verify import raise_if_failed, verify_staged
from privacy_release.transforms.query import SqlStep
from privacy_release.transforms.transform import transform
from privacy_release.work.area import WorkArea
from privacy_release.work.engines import DEFAULT_MEMORY, read_engine, read_memory
from privacy_release.work.people import identification_of_environment
from privacy_release.work.references import Published, ReportRef, StagedRelease, Table
from privacy_release.work.staged import left_out_of

if TYPE_CHECKING:
    from privacy_engine.judge.policy import ReleasePolicy
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.lake.signing import Signer
    from privacy_release.lake.store import Lake, ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger
    from privacy_release.sources.databases.types import Types
    from privacy_release.sources.extracts import Extract
    from privacy_release.spec.model import ReleaseSpec, SourceSpec


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
    CURATOR = "curator"


Watcher = Callable[[Stage, str], None]
# Stages that count records of the source. From the release on, figures are of what is published.
_OF_SOURCE = frozenset({Stage.INGEST, Stage.VALIDATE, Stage.TRANSFORM, Stage.OUTLIERS, Stage.HOLD_OUT})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a run; `warnings` are its alerts, why they are incomplete, and missing figures."""

    staged: StagedRelease
    report: ReportRef
    published: Published
    warnings: tuple[str, ...] = ()


def run_release(
    spec: "ReleaseSpec",
    lake: "Lake",
    release_id: str,
    work: WorkArea,
    watch: Watcher = lambda stage, text: None,
    *,
    ledger: "BudgetLedger | None" = None,
    approved_by: str | None = None,
    signer: "Signer | None" = None,
    history: "Lake | None" = None,
) -> Outcome:
    """Ingest, validate, detect outliers, release, verify, attack, publish: nothing unless all of it passes.

    Where the release must be approved and is not, or spends a budget that is too short, nothing is read. The
    secret of memoised answers is that of `memoised.default_secret`. The caller removes the work area.

    Args:
        spec: what to do.
        lake: where the release goes.
        release_id: names the release in its table.
        work: where records are kept meanwhile.
        watch: told the stage and what is done in it.
        ledger: that the release's budget is booked in; by default the one of `ledger_places.default_ledger`.
        approved_by: who approves what the run makes, if it keeps the policy; the manifest names them.
        signer: signs the release; None: nobody does.
        history: the lake of the superseded releases, where the specification keeps them.

    Raises:
        PrivacyEngineError: as the steps do.
    """
    is_paid = spec.budget is not None
    watch = _quiet(watch) if is_paid else watch
    with counts_hidden(spec.name, release_id, is_paid=is_paid):
        return _run(spec, lake, release_id, work, watch, ledger, approved_by, signer, history)


def _quiet(watch: Watcher) -> Watcher:
    """Report stages that count records of the source without their counts."""
    return lambda stage, text: watch(stage, without_counts(text) if stage in _OF_SOURCE else text)


def _run(
    spec: "ReleaseSpec",
    lake: "Lake",
    release_id: str,
    work: WorkArea,
    watch: Watcher,
    ledger: "BudgetLedger | None",
    approved_by: str | None,
    signer: "Signer | None",
    history: "Lake | None",
) -> Outcome:
    floor = floor_policy()
    if _must_be_approved(spec, floor) and not approved_by:
        raise SpecError(
            f"{spec.name} must be approved before it is published; name who approves it (--approved-by), or "
            "run its DAG, which asks"
        )
    everything = (policy_of(spec, floor), sources_of(spec), method_of(spec), schema_of(spec))
    facts, found = learned(spec, *everything)
    # Whoever is named beside the command approves it, also where the file asks for nobody.
    facts = replace(facts, approval=UNKNOWN, signed=signer is not None)
    judged(facts).refuse(found)
    schema, (policy, _), asked = spec.data_schema(), facts.own_policy, facts.policy
    rules = table_rules(spec.publish_mode, spec.publish.superseded, spec.publish.grace, history)
    into = lake.table(spec.publish.table)
    refuse(with_lake(facts, spec, into, release_id))
    memory = _memory(spec, into) if spec.release.memoised else None
    budget = _budget(spec, release_id, ledger, watch, facts)
    refuse(with_ledger(facts, budget, into))
    register = _register(spec, release_id, work)
    with portion(0.2):
        table = source_table(spec, release_id, schema, work, watch)
    check_types_of(spec, table, into)
    if asked.attacks:
        table = hold_out(table, work, asked.holdout, asked.attacks)
        watch(Stage.HOLD_OUT, f"{counted(table.rows, 'record is', 'records are')} left to be released")
    with portion(0.5):
        staged = make_release(
            table,
            work,
            method=spec.release.method,
            parameters=spec.release.parameters,
            seed=spec.release.seed,
            title=spec.name,
            progress=lambda text: watch(Stage.RELEASE, text),
            budget=budget,
            policy=asked,
            memory=memory,
            past=_past(spec, asked, into, release_id),
        )
    watch(Stage.RELEASE, counted(staged.rows, "record"))
    watch(Stage.VERIFY, "measuring the staged bytes")
    with portion(0.15):
        report = verify_staged(
            staged,
            policy,
            budget.ledger if budget else None,
            table=into,
            run=(release_id, release_id),  # as `publish` names it
            register=register,
            accept_unjudged=spec.history.accept_unjudged if spec.history is not None else None,
        )
    raise_if_failed(report)
    watch(
        Stage.VERIFY,
        f"{counted(len(report.findings), 'rule')} kept by {counted(report.classes, 'class', 'classes')}",
    )
    if asked.attacks:
        with portion(0.05):
            report = attack_staged(
                table,
                staged,
                report,
                title=spec.name,
                release_id=release_id,
                release_table=into,
                run=(release_id, release_id),
                tell=lambda text: watch(Stage.ATTACK, text),
                register=register,
                work=work,
            )
        watch(Stage.ATTACK, f"{len(asked.attacks)} bounds kept")
    report, warnings = _warned(spec, staged, report, into, release_id, budget)
    watch(Stage.PUBLISH, "committing")
    approved = _approval(spec, report, approved_by)
    with portion(0.1):
        published = publish_staged(
            staged,
            report,
            into,
            release_id,
            approved=approved,
            signer=signer,
            rules=rules,
        )
    watch(Stage.PUBLISH, f"version {published.version} of {published.table}")
    if published.completed:
        return Outcome(staged=staged, report=report, published=published, warnings=(*warnings, COMPLETED))
    missing = [LeftOut(**figure) for figure in published.left_out]
    if spec.told_to_curator:
        attempts = Attempts()
        write = partial(report_to_curator, table, staged, spec.name, release_id)
        if path := attempts.make("the private report for the curator", write):
            watch(Stage.CURATOR, f"a private report, not to be published: {path}")
        missing += attempts.left_out
    warnings = (*warnings, *map(str, missing))
    return Outcome(staged=staged, report=report, published=published, warnings=warnings)


def _register(spec: "ReleaseSpec", release_id: str, work: WorkArea) -> Table | None:
    """The public register, copied into the work area, if the specification names one."""
    if spec.public_register is None:
        return None
    named = spec.register_identifier
    return ingest(
        ReleaseName.of(release_id).address(spec.public_register.uri),
        load_schema(spec.register_fields),
        work,
        columns=tuple(spec.register_fields),
        nulls="keep",
        people=None if named is None else identification_of_environment(named),
        label="register",
    )


def _warned(
    spec: "ReleaseSpec",
    staged: StagedRelease,
    report: ReportRef,
    table: "ReleaseTable",
    release_id: str,
    budget: Budget | None,
) -> tuple[ReportRef, tuple[str, ...]]:
    """The report with the alerts of the specification, and the warnings, which stop nothing."""
    if spec.alerts is None:
        return report, ()
    problems: list[str] = []
    alerts = find_alerts(
        staged,
        report,
        spec.alerts,
        table=lambda: table,
        run=(release_id, release_id),
        ledger=budget.ledger if budget else None,
        tell=problems.append,
    )
    warnings = (*(a.text for a in alerts), *(f"alerts are incomplete: {p}" for p in problems))
    return replace(report, alerts=alerts), warnings


def _must_be_approved(spec: "ReleaseSpec", floor: Floor | None) -> bool:
    """Whether the file of the release or the floor policy asks for it."""
    return (spec.approval is not None and spec.approval.required) or (floor is not None and floor.approval)


def _past(
    spec: "ReleaseSpec", policy: "ReleasePolicy", table: "ReleaseTable", release_id: str
) -> Past | None:
    """The earlier releases that a release is made with; None where they are not looked at, or only judged."""
    if spec.history is None or not spec.history.keep:
        return None
    run = (release_id, release_id)
    return Past(table=table, policy=policy, run=run, **spec.history.kept)


def _approval(spec: "ReleaseSpec", report: ReportRef, approved_by: str | None) -> ApprovalRef | None:
    """The approval that was given with the command; where it may be left out, that nobody was asked."""
    if spec.approval is None and not approved_by:
        return None
    return approval_of(report, approved_by or None, datetime.now(UTC).isoformat(timespec="seconds"))


def _memory(spec: "ReleaseSpec", table: "ReleaseTable") -> Memory:
    """What memoised answers go by: the secret of the environment, and that of the last release."""
    last = last_fingerprint(table)
    return Memory(secret=default_secret(), last=last, replaces=spec.release.replaces)


def _budget(
    spec: "ReleaseSpec", release_id: str, ledger: "BudgetLedger | None", watch: Watcher, facts: Facts
) -> Budget | None:
    """The budget of a release that spends one."""
    from privacy_release.ledger.places import default_ledger

    if spec.budget is None or facts.loss is None:
        return None
    budget = budget_of(spec, f"{spec.name}/{release_id}", ledger or default_ledger())
    refuse(replace(facts, promise=budget.promise))
    promise = budget.promise(facts.loss)
    under = f", under a promise of epsilon {promise.loss.epsilon:g}" if promise is not None else ""
    watch(Stage.BUDGET, f"epsilon {facts.loss.epsilon:g} of {budget.dataset}{under}")
    return budget


def source_table(
    spec: "ReleaseSpec", release_id: str, schema: "DataSchema", work: WorkArea, watch: Watcher
) -> Table:
    """The ingested table, validated and searched for outliers."""
    if spec.tables is not None:
        return _tables(spec, release_id, schema, work, watch)
    suite = spec.expectation_suite()
    people = identification_of_environment(spec.history.identifier) if spec.history else None
    numbering = identification_of_environment(spec.numbered) if spec.numbered else None
    watch(Stage.INGEST, "reading")
    source = spec.only_source
    opened = _opened(source, release_id, watch, spec.undeclared_types)

    def read() -> Table:
        return ingest(
            opened,
            schema,
            work,
            columns=source.columns,
            nulls=source.nulls,
            max_expansion=source.max_expansion,
            sha256=source.sha256,
            individual=spec.individual,
            people=people,
            naming=Naming(series=spec.name, release=release_id),
            numbering=numbering,
            engine=read_engine(spec.engine.settings),
        )

    if isinstance(opened, Query):  # it is there when it gives a row, which reading it tells
        waits = (source.when_missing, source.waits.timeout, source.waits.every)
        table = awaited(read, opened.shown, ROW, *waits, lambda text: watch(Stage.INGEST, text))
    else:
        with portion(0.5):
            table = read()
    watch(Stage.INGEST, _ingested(table))
    if suite is not None:
        watch(Stage.VALIDATE, "running")
        found = validate(table, suite)
        watch(Stage.VALIDATE, f"{found['passed']} of {counted(found['expected'], 'expectation')} met")
    if spec.transform is not None:
        watch(Stage.TRANSFORM, "running")
        fields, engine = spec.transformed_fields, table.engine
        memory = engine.memory if engine is not None else read_memory(DEFAULT_MEMORY)
        table = transform(
            table,
            work,
            SqlStep(sql=spec.transform.sql, memory=memory),
            schema=None if fields is None else load_schema(fields),
        )
        watch(Stage.TRANSFORM, counted(table.rows, "record"))
    if spec.outliers is not None:
        watch(Stage.OUTLIERS, f"running {spec.outliers.method}")
        with portion(0.3):
            table = detect_outliers(
                table,
                work,
                method=spec.outliers.method,
                parameters=spec.outliers.parameters,
                action=spec.outliers.action,
                max_share=spec.outliers.max_share,
            )
        told = table.outliers[-1]
        watch(Stage.OUTLIERS, f"{told.flagged:,} outliers, {told.removed:,} taken out")
    return table


def _opened(
    source: "SourceSpec", release_id: str, watch: Watcher, types: "Types" = "values"
) -> "str | Extract":
    """What `ingest` reads: an address, a version, or a query of the database that the environment names."""
    name = ReleaseName.of(release_id)
    if source.sql is None:
        uri, waits = name.address(source.place), source.waits
        if source.format != "parquet":
            return version_of(source.format, uri, source.version, source.timestamp)
        await_source(
            uri, source.when_missing, waits.timeout, waits.every, lambda text: watch(Stage.INGEST, text)
        )
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


def _tables(
    spec: "ReleaseSpec", release_id: str, schema: "DataSchema", work: WorkArea, watch: Watcher
) -> Table:
    """Several tables, ingested as one, each validated by itself."""
    tables = spec.tables or {}
    suites = {name: suite for name, own in tables.items() if (suite := own.suite()) is not None}
    watch(Stage.INGEST, f"reading {len(tables)} tables")
    sources = {
        name: TableSource(
            uri=_opened(own.source, release_id, watch, spec.undeclared_types),
            person=own.person,
            columns=own.source.columns,
            nulls=own.source.nulls,
            max_expansion=own.source.max_expansion,
            sha256=own.source.sha256,
        )
        for name, own in tables.items()
    }
    table = ingest_tables(sources, schema, work)
    watch(Stage.INGEST, _ingested(table))
    for name, suite in suites.items():
        watch(Stage.VALIDATE, f"running on {name}")
        found = validate(table, suite, name)
        watch(Stage.VALIDATE, f"{found['passed']} of {counted(found['expected'], 'expectation')} met")
    return table
