"""Operator that publishes a report which compares releases of one table."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.run import release_id

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.work.references import ReportRef, StagedRef


class CompareOperator(BaseOperator):
    """Write one HTML page on several releases to the lake: guarantees, loss, risk and time, and no record.

    The page is `_comparisons/<DAG id>/<release id>.html` below the lake's root; a retry writes it again.

    Args:
        tables: references to the staged releases, such as the output of a mapped task.
        reports: what `VerifyOperator` found on each, in the same order.
        title: of the page; the DAG id by default.
        lake: Airflow connection id of the lake.
    """

    template_fields = ("tables", "reports", "title", "lake")
    template_fields_renderers = {"tables": "json", "reports": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#dcebf0"

    def __init__(
        self,
        *,
        tables: "list[StagedRef] | XComArg",
        reports: "list[ReportRef] | XComArg",
        title: str | None = None,
        lake: str = DEFAULT_LAKE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables: Any = tables  # lists of references by the time of execute
        self.reports: Any = reports
        self.title = title
        self.lake = lake

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Compare; where the page is, and how many releases it compares."""
        from privacy_release.lake.store import put
        from privacy_release.reports.comparison import render_comparison

        dag_id = context["ti"].dag_id
        page = render_comparison(list(self.tables), list(self.reports), title=self.title or dag_id)
        lake = lake_of(self.lake)
        path = f"_comparisons/{quote(dag_id, safe='')}/{quote(release_id(context), safe='')}.html"
        put(lake, path, page.encode())
        told = {"report": f"{lake.root}/{path}", "releases": len(self.tables)}
        self.log.info("compared", **told)
        return told
