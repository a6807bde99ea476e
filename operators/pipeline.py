"""A release specification as a DAG: the operators in their order, the schedule, the asset of the release."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    CronPartitionTimetable,
    Param,
    PartitionedAssetTimetable,
    TaskGroup,
)

from operators.cleanup import clean_up_after
from operators.ingest import IngestParquetOperator
from operators.outliers import DetectOutliersOperator
from operators.publish import PublishOperator
from operators.release import ReleaseOperator
from operators.spec import ReleaseSpec, ScheduleSpec
from operators.validate import ValidateOperator
from operators.verify import VerifyOperator

# Runs before it are never made up for (no catch-up): it only has to lie in the past and stay the same.
START = datetime(2026, 1, 1, tzinfo=UTC)
_PARAMETER_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def release_asset(spec: ReleaseSpec) -> Asset:
    """Stands for the published releases of a specification; other DAGs may be scheduled by it."""
    return Asset(name=spec.name, uri=f"lake://{spec.publish.lake}/{spec.publish.table}", group="releases")


def release_pipeline(spec: ReleaseSpec) -> TaskGroup:
    """The tasks of a release in a DAG: ingest, validate, detect outliers, release, verify, publish, clean up.

    Method parameters that are plain values can be changed for one run as `params` of the DAG, see
    `release_params`. The clean-up removes the run's work area, so one DAG holds one pipeline.
    """
    parameters = spec.release.parameters
    params = release_params(spec)
    with TaskGroup(spec.name, tooltip=spec.description) as group:
        raw = IngestParquetOperator(
            task_id="ingest",
            uri=spec.source.uri,
            schema=spec.schema_fields,
            columns=spec.source.columns,
            nulls=spec.source.nulls,
            connection=spec.source.connection,
        )
        table = raw.output
        if spec.expectations is not None:
            table = ValidateOperator(task_id="validate", table=table, suite=spec.expectations).output
        if spec.outliers is not None:
            table = DetectOutliersOperator(
                task_id="detect_outliers",
                table=table,
                method=spec.outliers.method,
                parameters=spec.outliers.parameters,
                action=spec.outliers.action.value,
                max_share=spec.outliers.max_share,
            ).output
        staged = ReleaseOperator(
            task_id="release",
            table=table,
            method=spec.release.method,
            parameters={
                name: f"{{{{ params.{name} }}}}" if name in params else value
                for name, value in parameters.items()
            },
            seed=spec.release.seed,
            title=spec.name,
        )
        report = VerifyOperator(task_id="verify", table=staged.output, policy=spec.policy)
        published = PublishOperator(
            task_id="publish",
            table=staged.output,
            report=report.output,
            name=spec.publish.table,
            lake=spec.publish.lake,
            outlets=[release_asset(spec)],
            # The lake may be out of reach for a while; all else fails for good.
            retries=3,
            retry_delay=timedelta(seconds=30),
            retry_exponential_backoff=True,
        )
        clean_up_after(published)
    return group


def release_params(spec: ReleaseSpec) -> dict[str, Param]:
    """Method parameters that can be changed for one run; what must hold stands in the policy, not here."""
    return {
        name: Param(
            value, type=_PARAMETER_TYPES[type(value)], description=f"Parameter of {spec.release.method}"
        )
        for name, value in spec.release.parameters.items()
        if type(value) in _PARAMETER_TYPES and name.isidentifier()
    }


def release_dag(spec: ReleaseSpec, partitioned: Collection[str] = ()) -> DAG:
    """The DAG of a specification.

    Args:
        spec: what to release and when.
        partitioned: releases that are published by partition. A release that follows only such ones is made
            once per partition, and is named by it.
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
    ) as dag:
        release_pipeline(spec)
    return dag


def _schedule(schedule: str | ScheduleSpec | None, partitioned: Collection[str]) -> Any:
    if not isinstance(schedule, ScheduleSpec):
        return schedule
    if schedule.partitions is not None:
        return CronPartitionTimetable(schedule.partitions, timezone="UTC")
    upstream = [Asset.ref(name=name) for name in schedule.upstream]
    if set(schedule.upstream) <= set(partitioned):
        return PartitionedAssetTimetable(assets=upstream[0] if len(upstream) == 1 else _all(upstream))
    return upstream


def _all(assets: list[Any]) -> Any:
    from airflow.sdk import AssetAll

    return AssetAll(*assets)


def _documentation(spec: ReleaseSpec) -> str:
    columns = "\n".join(f"| `{name}` | {a.role} | {a.kind} |" for name, a in spec.attributes.items())
    return (
        f"{spec.description or spec.name}\n\n"
        f"Source `{spec.source.uri}`, method `{spec.release.method}`, "
        f"release table `{spec.publish.table}` in the lake `{spec.publish.lake}`.\n\n"
        f"| column | role | kind |\n|---|---|---|\n{columns}\n"
    )
