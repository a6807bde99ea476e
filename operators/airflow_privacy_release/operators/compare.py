"""Operators that compare releases of one table, and publish a report on them."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.rendering import read_field
from airflow_privacy_release.task.run import release_id, run_work_area

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.work.references import ReportRef, StagedRef, TableRef


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
        from privacy_release.reports.comparison import render_comparison

        title = self.title or context["ti"].dag_id
        page = render_comparison(list(self.tables), list(self.reports), title=title)
        told = {"report": put_comparison(page, context, self.lake), "releases": len(self.tables)}
        self.log.info("compared", **told)
        return told


class CompareSynthesizersOperator(BaseOperator):
    """Hold several synthetic releases of one table against it: epsilon, loss, what is learned, an attack.

    The figures are exact figures of the source. So the page goes to the curator's folder alone, below
    `$PRIVACY_CURATOR`, else `curator` in `$AIRFLOW_HOME`; unless the source is declared public, such as a
    simulated one: then it is `_comparisons/<DAG id>/<release id>.html` below the lake's root. Nothing but its
    path leaves the task, and a retry writes it again. Each release was booked when it was made, and together
    they cost the sum, which the page tells.

    Args:
        source: reference to the ingested table that all were made from.
        tables: references to the staged releases, such as the output of a mapped task.
        reports: what `VerifyOperator` found on each, in the same order.
        public_source: whether everybody may know exact figures of the source.
        title: of the page; the DAG id by default.
        lake: Airflow connection id of the lake.
    """

    template_fields = ("source", "tables", "reports", "public_source", "title", "lake")
    template_fields_renderers = {"source": "json", "tables": "json", "reports": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#dcebf0"

    def __init__(
        self,
        *,
        source: "TableRef | XComArg",
        tables: "list[StagedRef] | XComArg",
        reports: "list[ReportRef] | XComArg",
        public_source: bool | str = False,
        title: str | None = None,
        lake: str = DEFAULT_LAKE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source: Any = source  # references by the time of execute
        self.tables: Any = tables
        self.reports: Any = reports
        self.public_source = public_source
        self.title = title
        self.lake = lake

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Compare; where the page is, and how many releases it compares."""
        from privacy_release.reports.curator import write_for_curator
        from privacy_release.steps.curator import compare_synthetic

        dag_id = context["ti"].dag_id
        public = read_field("compare: public_source", self.public_source, bool)
        with run_work_area(context):
            page = compare_synthetic(
                self.source,
                list(self.tables),
                list(self.reports),
                title=self.title or dag_id,
                public=public,
            )
        told: dict[str, Any] = {"releases": len(self.tables)}
        if public:
            told["report"] = put_comparison(page, context, self.lake)
        else:
            told["curator"] = str(write_for_curator(page, dag_id, release_id(context)))
        self.log.info("compared", **told)
        return told


def put_comparison(page: str, context: "Context", connection: str) -> str:
    """Write a page to where the lake keeps the comparisons of this DAG; its address."""
    from privacy_release.lake.store import put

    lake = lake_of(connection)
    path = f"_comparisons/{quote(context['ti'].dag_id, safe='')}/{quote(release_id(context), safe='')}.html"
    put(lake, path, page.encode())
    return f"{lake.root}/{path}"


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
