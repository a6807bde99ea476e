"""Operator that detects outliers in an ingested table and applies its action to them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.metrics import monitored
from airflow_privacy_release.task.paid import log_counts
from airflow_privacy_release.task.rendering import detector_parameters, read_field
from airflow_privacy_release.task.run import file_label, run_work_area
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


class DetectOutliersOperator(BaseOperator):
    """Count the outliers of a table and report, set aside or suppress them, or fail if there are too many.

    Only counts leave the run's work area: no record, score or position is kept after the run.

    Args:
        table: Reference to an ingested table.
        method: Registry key of the detector, `okplof` or `lof`.
        parameters: Parameters of the detector; rendered text is read as the parameter's type.
        action: `report`; `set_aside`, to release the others; `suppress`, the same, but they count as
            suppressed, also against the policy; or `fail`.
        max_share: Largest share of outliers, 0 to 1; the task fails if there are more. Required by `fail`.
    """

    references: ClassVar = {"table": Table}
    template_fields = ("table", "method", "parameters", "action", "max_share")
    template_fields_renderers = {"table": "json", "parameters": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#efe6f6"

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        method: str = "okplof",
        parameters: Mapping[str, Any] | None = None,
        action: str = "report",
        max_share: float | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.method = method
        self.parameters = parameters
        self.action = action
        self.max_share = max_share

    @recorded
    @monitored("outliers")
    def execute(self, context: "Context") -> "Table":
        """Detect outliers. Return a reference to the remaining table, with the counts in `outliers`."""
        from privacy_release.steps.outliers import detect_outliers

        with run_work_area(context) as work:
            table = detect_outliers(
                self.table,
                work,
                method=self.method,
                parameters=detector_parameters(self.method, self.parameters or {}),
                action=self.action,
                max_share=read_field("outliers: max_share", self.max_share, float | None),
                label=file_label(context),
            )
        found = table.outliers[-1]
        counts = {name: getattr(found, name) for name in ("records", "flagged", "pruned", "removed")}
        log_counts(self, "outliers", counts, method=found.method, action=found.action)
        return table
