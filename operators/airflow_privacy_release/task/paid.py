"""Whether a DAG pays from a privacy budget: then counts of its source stay out of logs and metrics."""

from collections.abc import Mapping
from typing import Any


def is_paid(operator: Any) -> bool:
    """Return whether any task of the operator's DAG names a budget."""
    dag = operator.get_dag()
    tasks = [operator] if dag is None else dag.tasks
    return any(
        getattr(task, "budget", None) or getattr(task, "partial_kwargs", {}).get("budget") for task in tasks
    )


def log_counts(operator: Any, event: str, counts: Mapping[str, float], **fields: Any) -> None:
    """Log an event with counts of the source, or without them if the DAG pays from a budget.

    Args:
        operator: Operator whose log is written.
        event: Name of the event.
        counts: Exact counts of records by name.
        fields: Further fields, logged in any case.
    """
    operator.log.info(event, **({} if is_paid(operator) else counts), **fields)
