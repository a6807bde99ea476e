"""Operator for a step of the plan that has no named operator."""

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
    """Run a step of a release's plan with the function that the step's declaration names.

    The function is called with the outputs of earlier steps and the step, `(Handed, Step)`, and returns the
    output of the step. Code comes only from the DAG's author: no release file can name a function.

    Args:
        step: Declaration of the step.
        table: Reference to a table, if the step uses one.
        staged: Reference to a staged release, if the step uses one.
        report: Reference to a report, if the step uses one.
        published: Reference to a published release, if the step uses one.
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
        """Run the step. Return its output."""
        from privacy_release.running.context import Handed, work_of

        if self.step.work is None:
            raise ValueError(f"step {self.step.name} names no function")
        given: Mapping[Slot, Any] = {slot: getattr(self, slot.value) for slot in self.step.takes}
        run = Handed(release_id=release_id(context), work=run_work_area(context), handed=dict(given))
        return work_of(self.step.work)(run, self.step)
