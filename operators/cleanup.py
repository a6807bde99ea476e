"""Removes the run's work area, whatever became of the run."""

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import BaseOperator

from operators.context import run_work_area
from operators.guard import guarded

if TYPE_CHECKING:
    from airflow.sdk import Context


class CleanupOperator(BaseOperator):
    """Remove the raw and staged personal data of the run; `clean_up_after` puts it in its place."""

    template_fields = ()
    ui_color = "#eeeeee"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @guarded
    def execute(self, context: "Context") -> None:
        """Remove the work area of this run; doing it twice is fine."""
        area = run_work_area(context)
        area.remove()
        self.log.info("work area removed", folder=str(area.folder))


def clean_up_after(last: Any) -> CleanupOperator:
    """Remove the work area once the last task that needs it has ended, in whatever state.

    The clean-up is a teardown without setups: with a setup it would not run after that setup failed, and what
    a killed ingest had written would stay. If it fails the run fails, for personal data stay behind.
    Airflow then no longer looks at `last` to judge the run, hence one more end, `done`, that shares the
    fate of `last`.

    Args:
        last: the task, or the list of tasks, that all others lead to.
    """
    cleanup = CleanupOperator(task_id="cleanup", retries=2)
    cleanup.as_teardown(on_failure_fail_dagrun=True)
    last >> EmptyOperator(task_id="done")
    last >> cleanup
    return cleanup
