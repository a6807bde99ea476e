"""Steps of your own between ingest and release: in SQL, or as a Python function."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseOperator

from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.metrics import monitored
from airflow_privacy_release.task.paid import log_counts
from airflow_privacy_release.task.run import file_label, run_work_area
from privacy_release.workarea.engines import DEFAULT_MEMORY, read_memory
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.transforms.transform import Step


class TransformOperator(BaseOperator):
    """Make a table of an ingested one in SQL: filter, join, derive columns; it is checked as a source is.

    DuckDB answers the query, without a way to files, the network or settings. The table is called `records`,
    and each row that comes out keeps its column `_record`, by which it gets back whose record it is. Where no
    column names the person, no record may come out twice. In front of a differentially private method or
    random answers the query may only compute columns, each from its own row. The hash of its text stands in
    the manifest. It stands between ingest and release, before the search for outliers. Returns a reference to
    the new table, not the table.

    Args:
        table: reference to an ingested table, or to what another step made.
        sql: one SELECT.
        others: references to further ingested tables, by the names that the query calls them.
        schema: role and kind of each column that comes out, without identifiers: a file, or the mapping
            itself; None: those of the table.
        memory: that the database may take, such as `1GB`; what is larger goes to the work area.
    """

    references: ClassVar = {"table": Table, "others": dict[str, Table]}
    template_fields = ("table", "others", "schema", "memory")
    template_fields_renderers = {"table": "json", "others": "json", "schema": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e8f1fa"

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        sql: str,
        others: "Mapping[str, Table | XComArg] | None" = None,
        schema: str | Mapping[str, Any] | None = None,
        memory: str | int = DEFAULT_MEMORY,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # references by the time of execute
        self.sql = sql
        self.others: Any = others
        self.schema = schema
        self.memory = memory

    @recorded
    @monitored("transform")
    def execute(self, context: "Context") -> "Table":
        """Run the query; a reference to what it made."""
        from privacy_release.transforms.query import SqlStep

        step = SqlStep(sql=self.sql, memory=read_memory(self.memory))
        return _transformed(self, step, context)


class _FunctionOperator(BaseOperator):
    """Make a table of an ingested one by a function, see `release_transform`."""

    references: ClassVar = {"table": Table, "others": dict[str, Table]}
    template_fields = ("table", "others", "schema")
    template_fields_renderers = {"table": "json", "others": "json", "schema": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e8f1fa"

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        function: Callable[..., Any],
        frame: Literal["pandas", "arrow"],
        others: "Mapping[str, Table | XComArg]",
        schema: str | Mapping[str, Any] | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # references by the time of execute
        self.function = function
        self.frame = frame
        self.others: Any = others
        self.schema = schema

    @recorded
    @monitored("transform")
    def execute(self, context: "Context") -> "Table":
        """Run the function; a reference to what it made."""
        from privacy_release.transforms.function import FunctionStep

        return _transformed(self, FunctionStep(function=self.function, frame=self.frame), context)


def release_transform(
    function: Callable[..., Any] | None = None,
    *,
    schema: str | Mapping[str, Any] | None = None,
    frame: Literal["pandas", "arrow"] = "pandas",
) -> Callable[..., Any]:
    """Make a step of a DAG of a function that takes a table and gives one back, in memory.

    Called in a DAG with the reference to an ingested table, and by keyword with references to others, it is a
    task, and gives back the reference to what it will make. The first argument of the function is the table,
    with the column `_record`, which its rows must keep; the rules are those of `TransformOperator`. What a
    function does cannot be seen from outside, so none may precede a differentially private method.

    Args:
        function: that is decorated; None where the decorator has arguments.
        schema: role and kind of each column that comes out, without identifiers: a file, or the mapping
            itself; None: those of the table.
        frame: `pandas`: frames; `arrow`: tables of pyarrow.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(table: "Table | XComArg", task_id: str | None = None, **others: Any) -> Any:
            return _FunctionOperator(
                task_id=task_id or function.__name__,
                table=table,
                function=function,
                frame=frame,
                others=others,
                schema=schema,
            ).output

        step.__doc__, step.__name__ = function.__doc__, function.__name__
        return step

    return decorated if function is None else decorated(function)


def _transformed(operator: Any, step: "Step", context: "Context") -> "Table":
    """What a step makes of the tables of an operator, told in its log."""
    from privacy_release.spec.files import load_schema
    from privacy_release.transforms.transform import transform

    with run_work_area(context) as work:
        table = transform(
            operator.table,
            work,
            step,
            others=operator.others or {},
            schema=None if operator.schema is None else load_schema(operator.schema),
            label=file_label(context),
        )
    counts = {"before": operator.table.rows, "rows": table.rows}
    log_counts(operator, "transformed", counts, step=step.name)
    return table
