"""Operator that writes the curator's report on a private release: exact figures, never published."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.run import release_id, run_work_area

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.work.references import StagedRef, TableRef


class CuratorReportOperator(BaseOperator):
    """Compare a synthetic release with its source, in a file that only the service user can read.

    It is written below `$PRIVACY_CURATOR`, else `curator` in `$AIRFLOW_HOME`. Its figures are exact, so it is
    not differentially private: neither it nor a number from it may be published. Nothing but its path leaves
    the task. A run's report replaces the one of an earlier attempt.

    Args:
        source: reference to the ingested table.
        table: reference to the staged release.
        name: of the release.
    """

    template_fields = ("source", "table", "name")
    template_fields_renderers = {"source": "json", "table": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f2e5f7"

    def __init__(
        self,
        *,
        source: "TableRef | XComArg",
        table: "StagedRef | XComArg",
        name: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source: Any = source  # references by the time of execute
        self.table: Any = table
        self.name = name

    @guarded
    def execute(self, context: "Context") -> dict[str, str]:
        """Write the report; where it is."""
        from privacy_release.steps.curator import report_to_curator

        with run_work_area(context):
            path = report_to_curator(self.source, self.table, self.name, release_id(context))
        self.log.info("curator's report written", report=path)
        return {"report": path}
