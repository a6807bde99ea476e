"""A whole release in one process, without Airflow: the steps in order, each told to whoever watches."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from operators import steps
from operators.references import Published, ReportRef, StagedRef
from operators.work_area import WorkArea

if TYPE_CHECKING:
    from operators.lake import Lake
    from operators.spec import ReleaseSpec


class Stage(StrEnum):
    """The steps of a release, in order."""

    INGEST = "ingest"
    VALIDATE = "validate"
    OUTLIERS = "outliers"
    RELEASE = "release"
    VERIFY = "verify"
    PUBLISH = "publish"


Watcher = Callable[[Stage, str], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run made."""

    staged: StagedRef
    report: ReportRef
    published: Published


def run_release(
    spec: "ReleaseSpec",
    lake: "Lake",
    release_id: str,
    work: WorkArea,
    watch: Watcher = lambda stage, text: None,
) -> Outcome:
    """Ingest, validate, detect outliers, release, verify, publish: nothing unless the verification passes.

    The caller removes the work area.

    Args:
        spec: what to do.
        lake: where the release goes.
        release_id: names the release in its table.
        work: where records are kept meanwhile.
        watch: told the stage and what is done in it.

    Raises:
        PrivacyEngineError: as the steps do.
    """
    schema, policy, suite = spec.data_schema(), spec.release_policy(), spec.expectation_suite()
    watch(Stage.INGEST, "reading")
    table = steps.ingest(spec.source.uri, schema, work, columns=spec.source.columns, nulls=spec.source.nulls)
    watch(Stage.INGEST, f"{table['rows']:,} records, {table['source']['dropped']:,} dropped for nulls")
    if suite is not None:
        watch(Stage.VALIDATE, "running")
        found = steps.validate(table, suite)
        watch(Stage.VALIDATE, f"{found['passed']} of {found['expected']} expectations met")
    if spec.outliers is not None:
        watch(Stage.OUTLIERS, f"running {spec.outliers.method}")
        table = steps.detect_outliers(
            table,
            work,
            method=spec.outliers.method,
            parameters=spec.outliers.parameters,
            action=spec.outliers.action,
            max_share=spec.outliers.max_share,
        )
        told = table["outliers"][-1]
        watch(Stage.OUTLIERS, f"{told['flagged']:,} outliers, {told['removed']:,} taken out")
    staged = steps.make_release(
        table,
        work,
        method=spec.release.method,
        parameters=spec.release.parameters,
        seed=spec.release.seed,
        title=spec.name,
        progress=lambda text: watch(Stage.RELEASE, text),
    )
    watch(Stage.RELEASE, f"{staged['rows']:,} records")
    watch(Stage.VERIFY, "measuring the staged bytes")
    report = steps.verify_staged(staged, policy)
    steps.raise_if_failed(report)
    watch(Stage.VERIFY, f"{len(report['findings'])} rules kept by {report['classes']:,} classes")
    watch(Stage.PUBLISH, "committing")
    published = steps.publish_staged(staged, report, lake, spec.publish.table, release_id)
    watch(Stage.PUBLISH, f"version {published['version']} of {published['table']}")
    return Outcome(staged=staged, report=report, published=published)
