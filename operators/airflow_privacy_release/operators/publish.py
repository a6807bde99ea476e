"""Operators that publish or retract a verified release, and remove work areas."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.hooks.signing import DEFAULT_SIGNING, signer_of
from airflow_privacy_release.hooks.work import sweep_areas
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.links import ReportLink
from airflow_privacy_release.task.metrics import monitored
from airflow_privacy_release.task.rendering import read_field
from airflow_privacy_release.task.run import (
    partition_key,
    release_id,
    release_run,
    remove_run_work_area,
    run_key,
)
from privacy_engine.errors import IntegrityError, PublishError, SpecError
from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.config.durations import parse_duration
from privacy_release.steps.approval import ApprovalRef
from privacy_release.workarea.references import Published, ReportRef, StagedRelease, measured_symbols
from privacy_release.workarea.sweep import AreaState, SweepRules, idle_limit

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context, XComArg

    from privacy_release.evidence.kept import EvidenceRef


# States of work areas that are kept until a person has looked at them.
_ASKS_FOR_A_PERSON = (AreaState.STUCK, AreaState.UNMARKED, AreaState.UNKNOWN_RUN)


class PublishOperator(BaseOperator):
    """Publish a staged release in one commit, if its report passed and is about exactly these bytes.

    The release is named by the run's partition key, else its run id. A retry of the same run publishes
    nothing twice. Files that the release replaced are erased after a grace period, when the next release of
    the table is published, or move to the table's history. Each asset in `outlets` gets an event that
    describes the release.

    Args:
        table: Reference to the staged release.
        report: Findings of `VerifyOperator`.
        name: Name of the release table in the lake.
        lake: Airflow connection id of the lake.
        approved: Output of `ApproveReleaseOperator`, if the release requires an approval: without an approval
            of exactly these bytes, nothing is published.
        signing: Airflow connection id whose password is the key that signs the release. Without a connection
            `signing_default`, the option `signing_key` names the key file. Without that, nothing is signed,
            and a line is logged; the floor policy may forbid it.
        mode: Releases that the table holds: `snapshot` only the newest, `partitions` one per partition key,
            `append` all. None: `partitions` for a run with a partition key, else `snapshot`.
        superseded: Handling of a release that a newer one replaces: `drop` deletes it, `history` moves it to
            `history_lake`.
        history_lake: Airflow connection id of the lake that keeps superseded releases, as table
            `<name>_history`.
        grace: How long the files of a superseded release are kept for queries that are still running, for
            example `1 hour`.
    """

    references: ClassVar = {"table": StagedRelease, "report": ReportRef, "approved": ApprovalRef}
    template_fields = (
        "table",
        "report",
        "name",
        "lake",
        "approved",
        "signing",
        "mode",
        "superseded",
        "history_lake",
        "grace",
    )
    template_fields_renderers = {"table": "json", "report": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#d9ead3"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "StagedRelease | XComArg",
        report: "ReportRef | XComArg",
        name: str,
        lake: str = DEFAULT_LAKE,
        approved: "ApprovalRef | XComArg | None" = None,
        signing: str = DEFAULT_SIGNING,
        mode: str | None = None,
        superseded: str = Superseded.DROP.value,
        history_lake: str | None = None,
        grace: str = "1 hour",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.report: Any = report
        self.name = name
        self.lake = lake
        self.approved: Any = approved
        self.signing = signing
        self.mode = mode
        self.superseded = superseded
        self.history_lake = history_lake
        self.grace = grace
        self._needs_approval = approved is not None
        self._published: Any = None

    @guarded
    @monitored("publish")
    def execute(self, context: "Context") -> "Published":
        """Publish the release. Return where the release and its proofs are."""
        from privacy_release.steps.publish import COMPLETED, publish_staged, table_rules

        if self._needs_approval and not self.approved:
            raise IntegrityError(
                "This release requires an approval, but the approval task has no result (was it marked as "
                "successful by hand?). Nothing was published. Start a new run"
            )
        by_partition = partition_key(context) is not None
        mode = self.mode or (PublishMode.PARTITIONS if by_partition else PublishMode.SNAPSHOT)
        history = None if self.history_lake is None else lake_of(self.history_lake)
        published = publish_staged(
            self.table,
            self.report,
            lake_of(self.lake).table(self.name),
            release_id(context),
            run_key=run_key(context),
            approved=self.approved or None,
            signer=signer_of(self.signing),
            rules=table_rules(mode, self.superseded, self.grace, history),
        )
        for asset in self.outlets:
            context["outlet_events"][asset].extra = event_of(published, self.table, self.report)
        self.log.info(
            "published",
            table=published.table,
            release=published.release,
            version=published.version,
            rows=published.rows,
            already=published.already,
            manifest=published.manifest,
            report=published.report,
            signed=published.statement or "unsigned",
        )
        for figure in published.left_out:
            self.log.warning("could not be computed and is missing from the release", **figure)
        if published.completed:
            self.log.warning(COMPLETED, table=published.table, release=published.release)
        self._published = published
        return published

    def done_before(self, context: "Context") -> "Published | None":
        """Return what this run published if its work area is gone; None if it published nothing."""
        from privacy_release.steps.publish import published_by

        return published_by(lake_of(self.lake).table(self.name), release_run(context))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the lineage. OpenLineage's provider, if installed, calls this; None for a failed task."""
        from airflow_privacy_release.task.lineage import lineage_of
        from privacy_release.lake.read import dictionary_of

        done = self._published
        if done is None:
            return None
        dictionary = dictionary_of(lake_of(self.lake).table(done.table), done.release, done.version)
        staged, report = StagedRelease.from_ref(self.table), ReportRef.from_ref(self.report)
        return lineage_of(staged, done, report, dictionary, self.owner)


def event_of(published: "Published", staged: "StagedRelease", report: "ReportRef") -> dict[str, Any]:
    """Return an asset event's content: where the release is, and the figures measured on its bytes."""
    return {
        "release": published.release,
        "table": published.table,
        "version": published.version,
        "rows": published.rows,
        "method": staged.method,
        "manifest": published.manifest,
        "report": published.report,
        **({} if published.completed else _of_staged(staged, report)),
    }


def _of_staged(staged: "StagedRelease", report: "ReportRef") -> dict[str, Any]:
    """Return the parts of an event that describe the staged bytes of this attempt."""
    return {"sha256": staged.sha256, **measured_symbols(report), **staged.loss_figures}


class EvidenceOperator(BaseOperator):
    """Create the signed evidence pack of a published release, in the curator's folder.

    If the web server can read that folder, the page of the release offers the pack to the users who may
    answer its approvals. A failure does not affect the release; try again to create the pack.

    Args:
        table: Output of `PublishOperator`.
        lake: Airflow connection id of the lake.
        signing: Airflow connection id of the key that signed the release, as for `PublishOperator`.
    """

    template_fields = ("table", "lake", "signing")
    template_fields_renderers = {"table": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f2e5f7"

    def __init__(
        self,
        *,
        table: "Published | XComArg",
        lake: str = DEFAULT_LAKE,
        signing: str = DEFAULT_SIGNING,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.lake = lake
        self.signing = signing

    @guarded
    def execute(self, context: "Context") -> "EvidenceRef":
        """Create the pack. Return where it is."""
        from privacy_release.evidence.kept import keep_evidence
        from privacy_release.lake.log import ReleaseRun
        from privacy_release.steps.publish import require_published_by

        signer, lake = signer_of(self.signing), lake_of(self.lake)
        if "dag" in context:  # another task's value, which Airflow users may have changed
            run = ReleaseRun(self.table["release"], run_key(context))
            require_published_by(lake.table(self.table["table"]), run)
        made = keep_evidence(
            lake.table(self.table["table"]),
            self.table["release"],
            None if signer is None else signer.key,
        )
        self.log.info("evidence written", evidence=made["evidence"])
        return made


class RetractOperator(BaseOperator):
    """Retract a release: no version of the table contains its rows any more. Safe to repeat.

    Args:
        name: Name of the release table in the lake.
        release: Partition key or run id of the release.
        reason: Reason of the retraction. The table's log keeps it forever, so do not mention any person.
        lake: Airflow connection id of the lake.
        signing: Airflow connection id of the key that signs the retraction, as for `PublishOperator`.
        history_lake: Airflow connection id of the lake of superseded releases, if `lake` has no access to it.
    """

    template_fields = ("name", "release", "reason", "lake", "signing", "history_lake")
    ui_color = "#f4cccc"

    def __init__(
        self,
        *,
        name: str,
        release: str,
        reason: str,
        lake: str = DEFAULT_LAKE,
        signing: str = DEFAULT_SIGNING,
        history_lake: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.release = release
        self.reason = reason
        self.lake = lake
        self.signing = signing
        self.history_lake = history_lake

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Retract the release. Return what was done."""
        from privacy_release.steps.retraction import retract_release

        history = None if self.history_lake is None else lake_of(self.history_lake)
        done = retract_release(
            lake_of(self.lake).table(self.name),
            self.release,
            self.reason,
            history=history,
            signer=signer_of(self.signing),
        )
        self.log.info("retracted", table=done.name, version=done.version, files_removed=done.files_removed)
        return {
            "table": done.name,
            "release": done.release_id,
            "version": done.version,
            "files_removed": done.files_removed,
            "already": done.already,
        }


class ClearSupersededOperator(BaseOperator):
    """Erase superseded releases after their grace period, or move them to the history. Safe to repeat.

    The next release of a table does the same: this operator is for tables whose next release is far away.

    Args:
        lake: Airflow connection id of the lake; all its tables are cleared.
        history_lake: Airflow connection id of the lake of superseded releases, if `lake` has no access to it.
    """

    template_fields = ("lake", "history_lake")
    ui_color = "#eeeeee"

    def __init__(self, *, lake: str = DEFAULT_LAKE, history_lake: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = lake
        self.history_lake = history_lake

    @guarded
    def execute(self, context: "Context") -> dict[str, int]:
        """Clear all tables. Return how many releases moved, files were erased, and releases still wait."""
        from privacy_release.steps.retraction import settle_tables

        history = None if self.history_lake is None else lake_of(self.history_lake)
        done, problems = settle_tables(lake_of(self.lake), history)
        for problem in problems:
            self.log.error("table not cleared", problem=problem)
        if problems:
            raise PublishError(
                f"{len(problems)} tables could not be cleared, the first of them {problems[0]}"
            )
        return {"moved": done.moved, "erased": done.erased, "waiting": done.waiting}


class CleanupOperator(BaseOperator):
    """Remove the raw and staged personal data of the run. Use `clean_up_after` to add it to a DAG."""

    template_fields = ()
    ui_color = "#eeeeee"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @guarded
    def execute(self, context: "Context") -> None:
        """Remove the work area of this run. Calling it twice is safe."""
        self.log.info("work area removed", folder=remove_run_work_area(context))


class SweepWorkAreasOperator(BaseOperator):
    """Remove work areas left behind by a killed process, or by a DAG that was paused before its teardown.

    The operator looks up each run in Airflow: an area stays until its run has ended, even while the run waits
    for an approval. `sweep_dag` runs it on a schedule.

    Args:
        idle: How long an area must have been without a heartbeat, such as `6 hours`; None: the option
            `work_area_idle`.
        unknown_runs: Whether to remove also the areas of runs that are not in Airflow (any more). Do not use
            it if another Airflow shares the folder.
        report_only: Whether to only report what would be removed.
    """

    template_fields = ("idle", "unknown_runs", "report_only")
    ui_color = "#eeeeee"

    def __init__(
        self,
        *,
        idle: str | None = None,
        unknown_runs: bool | str = False,
        report_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.idle = idle
        self.unknown_runs = unknown_runs
        self.report_only = report_only

    @guarded
    def execute(self, context: "Context") -> dict[str, int]:
        """Sweep the work areas. Return the number of areas in each state."""
        ti = context["ti"]
        rules = SweepRules(
            idle=self._idle(),
            is_over=lambda key: is_over(ti.get_dr_count, key),
            unknown_runs=read_field("unknown_runs", self.unknown_runs, bool),
            dry=read_field("report_only", self.report_only, bool),
        )
        looked = sweep_areas(rules)
        for found in looked:
            say = self.log.warning if found.state in _ASKS_FOR_A_PERSON else self.log.info
            say("work area", area=found.name, state=str(found.state), problem=found.problem)
        return dict(Counter(str(found.state) for found in looked))

    def _idle(self) -> "timedelta":
        try:
            return idle_limit() if self.idle is None else parse_duration(str(self.idle))
        except ValueError as error:
            raise SpecError(f"idle: {error}. Correct it") from None


def is_over(count: Callable[..., int], key: str) -> bool | None:
    """Return whether the run of a work area has ended; None if the run is not in Airflow.

    Args:
        count: Airflow's count of the runs of a DAG, by `dag_id`, `run_ids` and `states`.
        key: Key of the work area.
    """
    dag_id, _, run_id = key.partition("/")
    if count(dag_id=dag_id, run_ids=[run_id], states=["queued", "running"]):
        return False
    return True if count(dag_id=dag_id, run_ids=[run_id], states=["success", "failed"]) else None


def clean_up_after(last: "BaseOperator | XComArg | Sequence[BaseOperator | XComArg]") -> CleanupOperator:
    """Add the clean-up that removes the work area once the last task that needs it has ended, in any state.

    The clean-up is a teardown without setups: with a setup, it would not run after that setup failed, and the
    files of a killed ingest would stay. If the clean-up fails, the run fails, because personal data stay
    behind. Airflow then no longer considers `last` when it judges the run. Hence one more end task, `done`,
    that has the same outcome as `last`.

    Args:
        last: Final task, or list of final tasks, of the DAG.
    """
    cleanup = CleanupOperator(task_id="cleanup", retries=2)
    cleanup.as_teardown(on_failure_fail_dagrun=True)
    last >> EmptyOperator(task_id="done")
    last >> cleanup
    return cleanup
