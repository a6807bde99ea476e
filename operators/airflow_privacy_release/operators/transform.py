"""Your own steps between ingest and release: in SQL, or as a Python function."""

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

    from privacy_release.transforms.transform import TransformStep


class TransformOperator(BaseOperator):
    """Derive a table from an ingested one in SQL: filter, join, compute columns. It is checked like a source.

    DuckDB runs the query, without access to files, the network or settings. The table is named `records`, and
    each resulting row keeps its column `_record`, which links the row to its person. If no column names the
    person, a record may not appear twice in the result. Before a differentially private or randomized method,
    the query may only compute columns, each from its own row. The manifest contains the hash of the query
    text. Place the step between ingest and release, before the outlier detection. It returns a reference to
    the new table, not the table.

    Args:
        table: Reference to an ingested table, or to the output of another step.
        sql: A single SELECT statement.
        others: References to further ingested tables, by their name in the query.
        schema: Role and kind of each resulting column, without identifiers: a file, or the mapping itself;
            None: the schema of the table.
        memory: Memory limit of the database, such as `1GB`; larger data spills to the work area.
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
        """Run the query. Return a reference to its result."""
        from privacy_release.transforms.query import SqlStep

        step = SqlStep(sql=self.sql, memory=read_memory(self.memory))
        return _transformed(self, step, context)


class _FunctionOperator(BaseOperator):
    """Derive a table from an ingested one with a function, see `release_transform`."""

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
        """Run the function. Return a reference to its result."""
        from privacy_release.transforms.function import FunctionStep

        return _transformed(self, FunctionStep(function=self.function, frame=self.frame), context)


def release_transform(
    function: Callable[..., Any] | None = None,
    *,
    schema: str | Mapping[str, Any] | None = None,
    frame: Literal["pandas", "arrow"] = "pandas",
) -> Callable[..., Any]:
    """Decorate a function from table to table as a step of a DAG that works in memory.

    Call it in a DAG with the reference to an ingested table, and by keyword with references to others. It
    then is a task and returns the reference to its output. The first argument of the function is the table
    with the column `_record`, which its rows must keep; the rules are those of `TransformOperator`. No
    function may precede a differentially private method, because what a function does cannot be checked from
    outside.

    Args:
        function: Function to decorate; None if the decorator is called with arguments.
        schema: Role and kind of each resulting column, without identifiers: a file, or the mapping itself;
            None: the schema of the table.
        frame: Type of the tables: `pandas` for data frames, `arrow` for pyarrow tables.
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


def _transformed(operator: Any, step: "TransformStep", context: "Context") -> "Table":
    """Run a step on the tables of an operator and log the result."""
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
