"""Operators that publish a verified release to the lake, and take one back."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators.context import DEFAULT_LAKE, lake_of, release_id, run_key
from operators.guard import guarded
from operators.links import ReportLink
from operators.monitoring import monitored
from operators.references import measured_symbols
from privacy_engine.errors import IntegrityError

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from operators.approval import ApprovalRef
    from operators.steps import Published, ReportRef, StagedRef


class PublishOperator(BaseOperator):
    """Publish a staged release in one commit, if its report passed and is about these very bytes.

    The release is named by the run's partition key, else its run id. A retry of the same run publishes
    nothing twice. Each asset in `outlets` gets an event that says what was published.

    Args:
        table: reference to the staged release.
        report: what `VerifyOperator` found.
        name: the release table in the lake.
        lake: Airflow connection id of the lake.
        approved: what `ApproveReleaseOperator` gave, where somebody is to approve the release first: without
            an approval of these very bytes nothing is published.
    """

    template_fields = ("table", "report", "name", "lake", "approved")
    template_fields_renderers = {"table": "json", "report": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#d9ead3"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "StagedRef | XComArg",
        report: "ReportRef | XComArg",
        name: str,
        lake: str = DEFAULT_LAKE,
        approved: "ApprovalRef | XComArg | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.report: Any = report
        self.name = name
        self.lake = lake
        self.approved: Any = approved
        self._needs_approval = approved is not None
        self._published: Any = None

    @guarded
    @monitored("publish")
    def execute(self, context: "Context") -> "Published":
        """Publish; where the release and its proofs are."""
        from operators.steps import publish_staged

        if self._needs_approval and not self.approved:
            raise IntegrityError(
                "the release must be approved, and no approval was given: a task that was marked as "
                "successful by hand gives none; nothing was published, start a new run"
            )
        published = publish_staged(
            self.table,
            self.report,
            lake_of(self.lake),
            self.name,
            release_id(context),
            run_key=run_key(context),
            approved=self.approved or None,
        )
        for asset in self.outlets:
            context["outlet_events"][asset].extra = event_of(published, self.table, self.report)
        self.log.info(
            "published",
            table=published["table"],
            release=published["release"],
            version=published["version"],
            rows=published["rows"],
            already=published["already"],
            manifest=published["manifest"],
            report=published["report"],
        )
        self._published = published
        return published

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What OpenLineage is told, where its provider is installed and calls this; None of a failed task."""
        from operators.lineage import lineage_of

        if self._published is None:
            return None
        return lineage_of(self.table, self._published, self.report)


def event_of(published: "Published", staged: "StagedRef", report: "ReportRef") -> dict[str, Any]:
    """What an asset event says of a release: its place, and the figures measured on its bytes."""
    return {
        "release": published["release"],
        "table": published["table"],
        "version": published["version"],
        "rows": published["rows"],
        "method": staged["method"],
        "sha256": staged["sha256"],
        "manifest": published["manifest"],
        "report": published["report"],
        **measured_symbols(report),
        **({"epsilon": staged["loss"]["epsilon"]} if staged["loss"] else {}),
    }


class RetractOperator(BaseOperator):
    """Take a release back: no version of the table gives its rows any more; safe to repeat.

    Args:
        name: the release table in the lake.
        release: partition key or run id of the release.
        reason: why; it is kept in the table's log for good, so it must not speak of a person.
        lake: Airflow connection id of the lake.
    """

    template_fields = ("name", "release", "reason", "lake")
    ui_color = "#f4cccc"

    def __init__(
        self, *, name: str, release: str, reason: str, lake: str = DEFAULT_LAKE, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.release = release
        self.reason = reason
        self.lake = lake

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Retract; what was done."""
        from operators.retraction import retract_release

        done = retract_release(lake_of(self.lake), self.name, self.release, self.reason)
        self.log.info("retracted", table=done.name, version=done.version, files_removed=done.files_removed)
        return {
            "table": done.name,
            "release": done.release_id,
            "version": done.version,
            "files_removed": done.files_removed,
            "already": done.already,
        }
