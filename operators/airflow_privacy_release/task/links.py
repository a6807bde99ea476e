"""The link from a task to the report of its release, on the task's details page."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class ReportLink(BaseOperatorLink):
    """Link to the plugin's page with the report that this task staged, verified or published."""

    name = "Release report"

    def get_link(self, operator: "BaseOperator", *, ti_key: Any) -> str:
        """Return the page's address below Airflow's. Created when the task ends, even if it fails."""
        return "/privacy/report?" + urlencode(
            {
                "dag_id": ti_key.dag_id,
                "run_id": ti_key.run_id,
                "task_id": ti_key.task_id,
                "map_index": ti_key.map_index,
            }
        )
