"""The task of each step of a release's plan: its operator, with arguments from the specification."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, BaseOperator

from airflow_privacy_release.operators.approve import ApproveReleaseOperator
from airflow_privacy_release.operators.budget import BudgetGuardOperator
from airflow_privacy_release.operators.compare import CuratorReportOperator
from airflow_privacy_release.operators.ingest import (
    IngestParquetOperator,
    IngestSqlOperator,
    IngestTablesOperator,
)
from airflow_privacy_release.operators.learning import TrainNaiveBayesOperator
from airflow_privacy_release.operators.outliers import DetectOutliersOperator
from airflow_privacy_release.operators.publish import EvidenceOperator, PublishOperator
from airflow_privacy_release.operators.release import (
    CutFragmentsOperator,
    JoinFragmentsOperator,
    ReleaseFragmentOperator,
    ReleaseOperator,
)
from airflow_privacy_release.operators.step import StepOperator
from airflow_privacy_release.operators.transform import TransformOperator
from airflow_privacy_release.operators.validate import ValidateOperator
from airflow_privacy_release.operators.verify import AttackOperator, HoldOutOperator, VerifyOperator
from privacy_engine.vocabulary import PublishMode
from privacy_release.budget.budget import DEFAULT_LEDGER
from privacy_release.plan.plan import Plan, plan_of
from privacy_release.plan.step import Retry, Slot, Step
from privacy_release.spec.model import ReleaseSpec
from privacy_release.spec.sections.source import RELEASE
from privacy_release.workarea.engines import DEFAULT_MEMORY, LOCAL

# The release's id as part of a path, see `airflow_privacy_release.task.run.release_id`.
_RELEASE_ID = "{{ (partition_key or run_id) | replace('/', '_') }}"
APPROVAL = "approval"  # the DAG parameter that requires approval of one run
# The lake or the ledger may be unreachable for a while. All other tasks fail without retries.
_RETRIES: Mapping[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": True,
}
# A worker or a session of Spark may die, for example from lack of memory.
REPEATED: Mapping[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}
_OF_RETRY: Mapping[Retry, Mapping[str, Any]] = {
    Retry.NEVER: {},
    Retry.ENGINE: REPEATED,
    Retry.OUTSIDE: _RETRIES,
}
# A manual run must not fall back to answers that do not repeat, or to those of another person.
_FIXED = frozenset({"randomness", "individual"})
PARAMETER_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def _asset(spec: ReleaseSpec) -> Asset:
    """Return the asset of a specification's published releases; other DAGs may be scheduled by it."""
    return Asset(name=spec.name, uri=f"lake://{spec.publish.lake}/{spec.publish.table}", group="releases")


@dataclass(frozen=True, kw_only=True)
class _Task:
    """A step with what its operator is built from.

    Attributes:
        spec: Specification of the release.
        step: Step that the operator runs.
        handed: Newest output of each kind from the earlier steps.
        waited: Outputs of the steps that the operator waits for without using their output.
    """

    spec: ReleaseSpec
    step: Step
    handed: Mapping[Slot, Any]
    waited: Sequence[Any]

    @property
    def settings(self) -> dict[str, Any]:
        """Return the arguments that every operator of a step receives: the task id and the retries."""
        return {"task_id": self.step.name, **_OF_RETRY[self.step.retry]}


def tasks_of(spec: ReleaseSpec, plan: Plan, after: BaseOperator | None = None) -> dict[str, Any]:
    """Build the operator of each step, by step name. The first ones wait for ``after``."""
    tasks, handed = dict[str, Any](), dict[Slot, Any]()
    for step in plan.steps:
        waited = [tasks[name].output for name in step.after]
        given = {slot: handed[slot] for slot in step.takes}
        make = _OPERATORS.get(step.kind, _any_step)
        task = make(_Task(spec=spec, step=step, handed=given, waited=waited))
        for name in step.after:
            tasks[name] >> task
        if after is not None and not step.after and not step.takes:
            after >> task
        tasks[step.name] = task
        if step.gives is not None:
            handed[step.gives] = task.output
    return tasks


def _budget(task: _Task) -> BudgetGuardOperator:
    spec, spent = task.spec, task.spec.budget
    assert spent is not None
    return BudgetGuardOperator(
        dataset=spent.dataset,
        method=spec.release.method,
        parameters=_parameters(spec),
        schema=spec.method_fields,
        policy=spec.policy,
        promise=_promise(spec),
        ledger=spent.ledger,
        action=spent.when_short,
        **task.settings,
    )


def _hold_out(task: _Task) -> HoldOutOperator:
    return HoldOutOperator(table=task.handed[Slot.TABLE], policy=task.spec.policy, **task.settings)


def _verify(task: _Task) -> VerifyOperator:
    spec = task.spec
    return VerifyOperator(
        table=task.handed[Slot.STAGED],
        policy=spec.policy,
        name=spec.publish.table,
        lake=spec.publish.lake,
        alerts=spec.alerts.model_dump(exclude_unset=True) if spec.alerts else None,
        accept_unjudged=spec.history.accept_unjudged if spec.history is not None else None,
        register=task.handed.get(Slot.REGISTER),
        **task.settings,
    )


def _attack(task: _Task) -> AttackOperator:
    return AttackOperator(
        source=task.handed[Slot.TABLE],
        table=task.handed[Slot.STAGED],
        report=task.handed[Slot.REPORT],
        title=task.spec.name,
        name=task.spec.publish.table,
        lake=task.spec.publish.lake,
        register=task.handed.get(Slot.REGISTER),
        **task.settings,
    )


def _approve(task: _Task) -> ApproveReleaseOperator:
    spec, approval = task.spec, task.spec.approval
    assert approval is not None
    return ApproveReleaseOperator(
        table=task.handed[Slot.STAGED],
        report=task.handed[Slot.REPORT],
        name=spec.publish.table,
        lake=spec.publish.lake,
        required=approval.required or f"{{{{ params.{APPROVAL} }}}}",
        assigned_users=approval.assigned_to or (),
        timeout=approval.timeout,
        approvers=approval.approvers,
        **task.settings,
    )


def _publish(task: _Task) -> PublishOperator:
    spec = task.spec
    return PublishOperator(
        table=task.handed[Slot.STAGED],
        report=task.handed[Slot.REPORT],
        name=spec.publish.table,
        lake=spec.publish.lake,
        approved=task.handed.get(Slot.APPROVAL),
        mode=_fixed_mode(spec),
        superseded=spec.publish.superseded.value,
        history_lake=spec.publish.history_lake,
        grace=spec.publish.grace,
        outlets=[_asset(spec)],
        **task.settings,
    )


def _learn(task: _Task) -> TrainNaiveBayesOperator:
    spec = task.spec
    assert spec.learn is not None
    return TrainNaiveBayesOperator(
        name=spec.publish.table,
        releases=[_RELEASE_ID],
        lake=spec.publish.lake,
        **spec.learn.model_dump(),
        **task.settings,
    )


def _evidence(task: _Task) -> EvidenceOperator:
    return EvidenceOperator(table=task.handed[Slot.PUBLISHED], lake=task.spec.publish.lake, **task.settings)


def _curator_report(task: _Task) -> CuratorReportOperator:
    source, staged = task.handed[Slot.TABLE], task.handed[Slot.STAGED]
    return CuratorReportOperator(source=source, table=staged, name=task.spec.name, **task.settings)


def _parameters(spec: ReleaseSpec) -> dict[str, Any]:
    """Return the method's parameters, with a template for those that can be changed for one run."""
    chosen = changeable(spec)
    return {
        name: f"{{{{ params.{name} }}}}" if name in chosen else value
        for name, value in spec.release.parameters.items()
    }


def prepared(spec: ReleaseSpec, after: BaseOperator | None = None) -> Any:
    """Build the tasks that prepare the table: ingest, validate, transform, detect outliers.

    Args:
        spec: Specification of the release.
        after: Task that must finish before anything is read; None: no such task.
    """
    plan = plan_of(spec).rehearsal()
    tasks = tasks_of(spec, plan, after)
    return tasks[next(step.name for step in reversed(plan.steps) if step.gives is Slot.TABLE)].output


def _transform(task: _Task) -> TransformOperator:
    spec = task.spec
    assert spec.transform is not None
    return TransformOperator(
        table=task.handed[Slot.TABLE],
        sql=spec.transform.sql,
        schema=spec.transformed_fields,
        memory=spec.engine.settings.get("memory", DEFAULT_MEMORY),
        **task.settings,
    )


def _detect_outliers(task: _Task) -> DetectOutliersOperator:
    sought = task.spec.outliers
    assert sought is not None
    return DetectOutliersOperator(
        table=task.handed[Slot.TABLE],
        method=sought.method,
        parameters=sought.parameters,
        action=sought.action.value,
        max_share=sought.max_share,
        **task.settings,
    )


def _fixed_mode(spec: ReleaseSpec) -> str | None:
    """Return which releases the table holds; None if it depends on whether a run has a partition."""
    mode = spec.publish_mode
    return mode.value if spec.publish.mode or mode is PublishMode.PARTITIONS else None


def _ingest(task: _Task) -> Any:
    """Build the task that reads the table, or all tables of a release with several."""
    spec = task.spec
    if spec.tables is not None and spec.person is not None:
        tables = {name: _filled(settings) for name, settings in spec.table_settings.items()}
        return IngestTablesOperator(tables=tables, person=spec.person.column or "", **task.settings)
    source = spec.only_source
    shared: dict[str, Any] = {
        "schema": spec.schema_fields,
        "columns": source.columns,
        "nulls": source.nulls,
        "max_expansion": source.max_expansion,
        "individual": spec.individual,
        "series": spec.name,
        "engine": spec.engine.settings if spec.scaled else LOCAL,
    }
    if spec.history:
        shared |= {"person": spec.history.identifier, "membership_key": spec.history.key}
    if spec.numbering_key is not None:
        shared |= {"numbering": spec.numbering_key}
    waits: dict[str, Any] = {
        "when_missing": source.when_missing,
        "timeout": source.waits.timeout,
        "every": source.waits.every,
    }
    if source.sql is not None:
        return IngestSqlOperator(
            sql=source.sql,
            connection=source.connection or "",
            types=spec.undeclared_types,
            **waits,
            **shared,
            **task.settings,
        )
    return IngestParquetOperator(
        connection=source.connection,
        format=source.format,
        version=source.version,
        timestamp=source.timestamp,
        sha256=source.sha256,
        **waits,
        **_filled({"uri": source.place}),
        **shared,
        **task.settings,
    )


def _register(task: _Task) -> IngestParquetOperator:
    """Build the task that reads the public register.

    It runs before the other tasks: in parallel, it could write into the work area after that was removed.
    """
    spec = task.spec
    assert spec.public_register is not None
    named = spec.register_identifier
    known: dict[str, Any] = {}
    if named and spec.history:
        known = {"person": named, "membership_key": spec.history.key}
    return IngestParquetOperator(
        connection=spec.public_register.connection,
        schema=spec.register_fields,
        columns=tuple(spec.register_fields),
        nulls="keep",
        **known,
        **_filled({"uri": spec.public_register.uri}),
        **task.settings,
    )


def _filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source's settings with the release's id in its address, as Airflow's pages show it."""
    return dict(settings) | (
        {"uri": settings["uri"].replace(RELEASE, _RELEASE_ID)} if "uri" in settings else {}
    )


def _validate(task: _Task) -> ValidateOperator:
    """Build the task that validates the table; for several tables, one task each, in parallel."""
    part = task.step.part
    suite = task.spec.suite_given if part is None else (task.spec.tables or {})[part].suite_given
    assert suite is not None
    return ValidateOperator(table=task.handed[Slot.TABLE], suite=suite, name=part, **task.settings)


def _release(task: _Task) -> Any:
    """Build the task that stages the release of a table, or that joins the releases of its fragments."""
    spec = task.spec
    if Slot.FRAGMENTS in task.handed:
        fragments = task.handed[Slot.FRAGMENTS]
        return JoinFragmentsOperator(fragments=fragments, title=spec.name, **task.settings)
    spent = spec.budget
    return ReleaseOperator(
        **_made_by(task),
        title=spec.name,
        budget=spent.dataset if spent else None,
        policy=spec.policy if spent else None,
        ledger=spent.ledger if spent else DEFAULT_LEDGER,
        promise=_promise(spec),
        secret=spec.release.secret,
        replaces=spec.release.replaces,
        **task.settings,
    )


def _made_by(task: _Task) -> dict[str, Any]:
    """Return the arguments that say from what and how a release is made: whole, or in fragments."""
    spec = task.spec
    return {
        "table": task.handed[Slot.TABLE],
        "requires": task.waited,
        "method": spec.release.method,
        "parameters": _parameters(spec),
        "seed": spec.release.seed,
        "series": spec.publish.table,
        "lake": spec.publish.lake,
        "history": _history(spec),
    }


def _history(spec: ReleaseSpec) -> dict[str, Any] | None:
    """Return an operator's `history`. None if releases are not made with the earlier ones."""
    if spec.history is None or not spec.history.keep:
        return None
    return {"policy": spec.policy, **spec.history.kept}


def _promise(spec: ReleaseSpec) -> dict[str, Any] | None:
    """Return an operator's `promise`: the releases of a specification count together under its name."""
    if spec.budget is None or spec.budget.promise is None:
        return None
    return {**spec.budget.promise.model_dump(), "schedule": spec.name}


def _cut(task: _Task) -> CutFragmentsOperator:
    return CutFragmentsOperator(**_made_by(task), **task.settings)


def _release_fragment(task: _Task) -> Any:
    """Build the mapped task that releases each fragment."""
    return ReleaseFragmentOperator.partial(
        map_index_template=(
            "{% if task.fragment is mapping %}fragment {{ task.fragment['fragment'] }}"
            "{% else %}{{ task.fragment | length }} fragments from {{ task.fragment[0]['fragment'] }}"
            "{% endif %}"
        ),
        **task.settings,
    ).expand(fragment=task.handed[Slot.CUT])


def _any_step(task: _Task) -> StepOperator:
    """Build the task of a step that has no named operator."""
    taken = {slot.value: output for slot, output in task.handed.items()}
    return StepOperator(step=task.step, **taken, **task.settings)


# The named operator of each kind of step that has one.
_OPERATORS: Mapping[str, Callable[[_Task], Any]] = {
    "budget": _budget,
    "register": _register,
    "ingest": _ingest,
    "validate": _validate,
    "transform": _transform,
    "detect_outliers": _detect_outliers,
    "hold_out": _hold_out,
    "cut": _cut,
    "release_fragment": _release_fragment,
    "release": _release,
    "verify": _verify,
    "attack": _attack,
    "approve": _approve,
    "publish": _publish,
    "learn": _learn,
    "evidence": _evidence,
    "curator_report": _curator_report,
}


def changeable(spec: ReleaseSpec) -> dict[str, Any]:
    """Return the method parameters that can be changed for one run: those with plain values."""
    return {
        name: value
        for name, value in spec.release.parameters.items()
        if type(value) in PARAMETER_TYPES and name.isidentifier() and name not in _FIXED
    }
