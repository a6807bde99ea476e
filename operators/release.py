"""Operator that makes a release by any registered method and stages it in the run's work area."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators.context import file_label, run_work_area
from operators.guard import guarded
from operators.parameters import method_parameters, read_text

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from operators.steps import StagedRef, TableRef


class ReleaseOperator(BaseOperator):
    """Make a release and stage it, with its manifest and report, in the run's work area.

    Staging is not publishing: `VerifyOperator` reads what was staged, `PublishOperator` what was verified.

    Args:
        table: reference to an ingested table.
        method: registry key, see `privacy-release list-methods`.
        parameters: of the method; rendered text is read as the parameter's type.
        seed: of the random choices; None takes fresh entropy.
        title: of the report.
    """

    template_fields = ("table", "method", "parameters", "seed", "title")
    template_fields_renderers = {"table": "json", "parameters": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e5f3e1"

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        method: str,
        parameters: Mapping[str, Any] | None = None,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.method = method
        self.parameters = parameters
        self.seed = seed
        self.title = title

    @guarded
    def execute(self, context: "Context") -> "StagedRef":
        """Stage a release; a reference to it."""
        return stage_release(self, context, method=self.method, parameters=self.parameters or {})


def stage_release(
    operator: Any, context: "Context", *, method: str, parameters: Mapping[str, Any]
) -> "StagedRef":
    """What every release operator does.

    Args:
        operator: has `table`, `seed`, `title` and `log`.
        context: of the running task.
        method: registry key.
        parameters: plain values or rendered text.
    """
    from operators.steps import make_release

    def say(step: str) -> None:
        operator.log.info("release step", step=step)

    checked = method_parameters(method, parameters)
    with run_work_area(context) as work:
        staged = make_release(
            operator.table,
            work,
            method=method,
            parameters=checked,
            seed=read_text(operator.seed, int | None),
            title=operator.title,
            label=file_label(context),
            progress=say,
        )
    operator.log.info("staged", method=staged["method"], rows=staged["rows"], **staged["figures"])
    return staged
