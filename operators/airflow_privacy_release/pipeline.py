"""Build a DAG from a release specification: its tasks, the schedule, the parameters of a run."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

from airflow.sdk import DAG, Asset, Param, TaskGroup

from airflow_privacy_release.compat import partitions_by, partitions_of
from airflow_privacy_release.operators.publish import (
    ClearSupersededOperator,
    SweepWorkAreasOperator,
    clean_up_after,
)
from airflow_privacy_release.step_tasks import APPROVAL, PARAMETER_TYPES, REPEATED, changeable, tasks_of
from privacy_engine.errors import PrivacyEngineError
from privacy_release.plan.plan import plan_of
from privacy_release.spec.catalogue import attempted, catalogue, partitioned_releases, raise_if_any
from privacy_release.spec.floor import floor_policy, under_floor
from privacy_release.spec.model import ReleaseSpec
from privacy_release.spec.parameters import limits, meaning
from privacy_release.spec.sections.schedule import ScheduleSpec

# Airflow does not catch up on runs before this date: it only has to lie in the past and stay the same.
START = datetime(2026, 1, 1, tzinfo=UTC)
SWEEPER = "sweep_work_areas"


def release_pipeline(spec: ReleaseSpec) -> TaskGroup:
    """Build the tasks of a release as a task group in your own DAG, from ingest to publish and clean-up.

    A release that spends a privacy budget begins with a guard, which stops the run if too little is left, and
    ends with a comparison with its source that only the curator can read. A release that is made in fragments
    has a mapped task for each fragment.

    Method parameters that are plain values can be changed for one run as `params` of the DAG, see
    `release_params`. The clean-up removes the run's work area, so a DAG can hold only one pipeline.
    """
    with TaskGroup(spec.name, tooltip=spec.description) as group:
        _release_tasks(spec)
    return group


def _release_tasks(spec: ReleaseSpec) -> None:
    """Build a task for each step of the release's plan, in the current DAG and group."""
    plan = plan_of(spec, attacked=_bounds_attacks(spec))
    tasks = tasks_of(spec, plan)
    clean_up_after([tasks[step.name] for step in plan.last()])


def _bounds_attacks(spec: ReleaseSpec) -> bool:
    """Return whether the policy or the floor policy bounds attacks, if their files can be read."""
    try:
        return bool(under_floor(spec.release_policy(), floor_policy()).attacks)
    except PrivacyEngineError:  # reported by an import error, or by the first task that reads the policy
        return False


def release_params(spec: ReleaseSpec) -> dict[str, Param]:
    """Return what can be changed for one run: method parameters, and whether to require an approval.

    The requirements are in the policy, and the required approvals in the specification: no run can change
    them. The form explains each parameter and accepts no value with which the policy could not be met.
    """
    params = {}
    if spec.approval is not None and not spec.approval.required:
        params[APPROVAL] = Param(
            False, type="boolean", description="Require an approval before this run publishes anything"
        )
    allowed = _allowed(spec)
    return params | {
        name: Param(
            value,
            type=PARAMETER_TYPES[type(value)],
            description_md=meaning(spec.release.method, name),
            **allowed.get(name, {}),
        )
        for name, value in changeable(spec).items()
    }


def _allowed(spec: ReleaseSpec) -> dict[str, dict[str, Any]]:
    """Return the policy's limits, if its file can be read and the specification's own values meet them."""
    try:
        found = limits(under_floor(spec.release_policy(), floor_policy()))
    except PrivacyEngineError:  # reported by an import error, or by the first task that reads the policy
        return {}
    given = spec.release.parameters
    return {
        name: limit
        for name, limit in found.items()
        if limit.get("minimum", -inf) <= given.get(name, inf)
        and given.get(name, -inf) <= limit.get("maximum", inf)
    }


def release_dags() -> dict[str, DAG]:
    """Build a DAG for each release file of the include folder, by name.

    Two lines turn the folder into DAGs: ``from airflow_privacy_release import release_dags`` and
    ``globals().update(release_dags())``. A release with an error in its file, or in a file that it names, has
    no DAG and does not affect the others. Put ``raise_if_broken()`` into a separate DAG file to show these
    errors as its import error.
    """
    return _built()[0]


def raise_if_broken() -> None:
    """Raise an error for the release files that `release_dags` omits.

    Raises:
        SpecError: If any file is wrong; the message names each file, its fields and the remedy.
    """
    raise_if_any(_built()[1])


def sweep_dag(
    schedule: str = "@hourly", *, idle: str | None = None, lakes: Sequence[str] = ("lake_default",)
) -> DAG:
    """Build the DAG that removes data no longer needed: work areas left behind and superseded releases.

    See `SweepWorkAreasOperator` and `ClearSupersededOperator`.

    Two lines create it: ``from airflow_privacy_release import sweep_dag`` and ``sweeper = sweep_dag()``. It
    is never paused at creation, whatever Airflow's configuration says: no one would notice that it does not
    run.

    Args:
        schedule: Schedule of the DAG.
        idle: How long a work area must have been without a heartbeat, such as `6 hours`; None: the option
            `work_area_idle`.
        lakes: Airflow connection ids of the lakes whose superseded releases are removed.
    """
    with DAG(
        dag_id=SWEEPER,
        description="Removes raw and staged records of runs that ended without cleaning up",
        doc_md="A killed process cannot clean up after itself, and no teardown runs in a paused DAG. This "
        "DAG checks the run of each work area in Airflow and removes the areas of finished runs. A run "
        "that waits for approval is not finished.",
        schedule=schedule,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["maintenance"],
        default_args={"owner": "privacy-release"},
    ) as dag:
        SweepWorkAreasOperator(task_id="sweep", idle=idle, **REPEATED)
        for lake in lakes:
            ClearSupersededOperator(task_id=f"clear_{lake}", lake=lake, **REPEATED)
    return dag


def _built() -> tuple[dict[str, DAG], list[str]]:
    """Build all DAGs. Return those that could be built, by name, and the errors of the other releases."""
    found = catalogue()
    partitioned = partitioned_releases(found.read.values())
    dags, faults = {}, list(found.faults)
    for path, spec in found.usable.items():
        # Otherwise Airflow would also register partly built DAGs, and those built only as a check.
        dag, fault = attempted(path, partial(release_dag, spec, partitioned, auto_register=False))
        if dag is not None:
            dags[spec.name] = dag
        if fault is not None:
            faults.append(fault)
    return dags, faults


def release_dag(spec: ReleaseSpec, partitioned: Collection[str] = (), *, auto_register: bool = True) -> DAG:
    """Build the DAG of a specification.

    Args:
        spec: Specification of the release.
        partitioned: Names of the releases that are published by partition. A release that follows only such
            releases is made once per partition and named by it.
        auto_register: Whether Airflow finds the DAG although no variable of the DAG file refers to it.
    """
    with DAG(
        dag_id=spec.name,
        description=spec.description or None,
        doc_md=_documentation(spec),
        schedule=_schedule(spec.schedule, partitioned),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        tags=["release", spec.release.method, *spec.tags],
        params=release_params(spec),
        default_args={"owner": "privacy-release"},
        auto_register=auto_register,
    ) as dag:
        _release_tasks(spec)  # not in a group, which Airflow would draw collapsed
    return dag


def _schedule(schedule: str | ScheduleSpec | None, partitioned: Collection[str]) -> Any:
    if not isinstance(schedule, ScheduleSpec):
        return schedule
    if schedule.partitions is not None:
        return partitions_by(schedule.partitions)
    upstream = [Asset.ref(name=name) for name in schedule.upstream]
    if set(schedule.upstream) <= set(partitioned):
        return partitions_of(upstream[0] if len(upstream) == 1 else _all(upstream))
    return upstream


def _all(assets: list[Any]) -> Any:
    from airflow.sdk import AssetAll

    return AssetAll(*assets)


def _documentation(spec: ReleaseSpec) -> str:
    columns = "\n".join(f"| `{name}` | {a.role} | {a.kind} |" for name, a in spec.every_attribute)
    uris = ", ".join(f"`{s.uri or f'a query of {s.connection}'}`" for s in spec.sources)
    spent = f", privacy budget of `{spec.budget.dataset}`" if spec.budget else ""
    approval = ", after approval" if spec.approval and spec.approval.required else ""
    return (
        f"{spec.description or spec.name}\n\n"
        f"Source {uris}, method `{spec.release.method}`{spent}, "
        f"release table `{spec.publish.table}` in the lake `{spec.publish.lake}`{approval}.\n\n"
        f"| column | role | kind |\n|---|---|---|\n{columns}\n"
    )
