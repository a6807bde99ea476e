"""Steps of the plan that have no named operator."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.run import release_id, run_work_area
from privacy_release.plan.step import Slot, Step
from privacy_release.workarea.references import Published, ReportRef, StagedRelease, Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


class StepOperator(BaseOperator):
    """Do a step of a release's plan by the function that its declaration names.

    The function takes what earlier steps handed on and the step, `(Handed, Step)`, and returns what it hands
    on. Code comes from the DAG's author only: no release file can name a function.

    Args:
        step: Declaration of the step.
        table: Reference to a table, if the step takes one.
        staged: Reference to a staged release, if it takes one.
        report: Reference to a report, if it takes one.
        published: Reference to a published release, if it takes one.
    """

    references: ClassVar = {
        "table": Table,
        "staged": StagedRelease,
        "report": ReportRef,
        "published": Published,
    }
    template_fields = ("table", "staged", "report", "published")
    template_fields_renderers = dict.fromkeys(template_fields, "json")
    ui_color = "#eef0f4"

    def __init__(
        self,
        *,
        step: Step,
        table: "Table | XComArg | None" = None,
        staged: "StagedRelease | XComArg | None" = None,
        report: "ReportRef | XComArg | None" = None,
        published: "Published | XComArg | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.step = step
        self.table: Any = table  # references by the time of execute
        self.staged: Any = staged
        self.report: Any = report
        self.published: Any = published

    @recorded
    def execute(self, context: "Context") -> Any:
        """Do the step; what it hands on."""
        from privacy_release.running.context import Handed, work_of

        if self.step.work is None:
            raise ValueError(f"step {self.step.name} names no function")
        given: Mapping[Slot, Any] = {slot: getattr(self, slot.value) for slot in self.step.takes}
        run = Handed(release_id=release_id(context), work=run_work_area(context), handed=dict(given))
        return work_of(self.step.work)(run, self.step)
