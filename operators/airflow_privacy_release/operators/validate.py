"""Operator that checks a table against a Great Expectations suite and fails if it does not pass."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.paid import log_counts
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


class ValidateOperator(BaseOperator):
    """Fail unless every critical expectation was evaluated and met. Return the table's reference.

    The page of the run lists the expectations and which of them passed: names of columns, no values.

    Args:
        table: Reference to an ingested table.
        suite: JSON file (absolute, or relative to the include folder), or the suite itself, or a named
            Checkpoint, `{"context": FOLDER, "checkpoint": NAME}`, whose suites and actions are run. Actions
            receive no value of a record.
        name: Name of the table, if several were ingested together.
    """

    references: ClassVar = {"table": Table}
    template_fields = ("table", "suite", "name")
    template_fields_renderers = {"table": "json", "suite": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#fdf3d8"

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        suite: str | Mapping[str, Any],
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.suite = suite
        self.name = name

    @recorded
    def execute(self, context: "Context") -> "Table":
        """Run the suite. Return the given reference with the number of expectations that passed."""
        from privacy_release.spec.files import load_suite
        from privacy_release.steps.validate import EXPECTATIONS, counts_of, validate, with_expectations

        table: Table = self.table
        run: Any = context["ti"]
        found = validate(
            table, load_suite(self.suite), self.name, lambda result: run.xcom_push(EXPECTATIONS, dict(result))
        )
        counts = {"rows": table.rows, "evaluated": found["evaluated"], "passed": found["passed"]}
        log_counts(self, "validated", counts, expected=found["expected"])
        return with_expectations(table, [counts_of(found)])
