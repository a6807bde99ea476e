"""The link from a task to the report of its release, on the task's details page."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class ReportLink(BaseOperatorLink):
    """Leads to the page of the plugin that shows the report which this task staged, verified or published."""

    name = "Release report"

    def get_link(self, operator: "BaseOperator", *, ti_key: Any) -> str:
        """The page's address below that of Airflow; made when the task ends, also when it fails."""
        return "/privacy/report?" + urlencode(
            {
                "dag_id": ti_key.dag_id,
                "run_id": ti_key.run_id,
                "task_id": ti_key.task_id,
                "map_index": ti_key.map_index,
            }
        )
