"""Whether a privacy budget pays in a DAG: then counts of its source stay out of logs, metrics and errors."""

from collections.abc import Mapping
from typing import Any


def is_paid(operator: Any) -> bool:
    """Whether any task of the operator's DAG names a budget."""
    dag = operator.get_dag()
    tasks = [operator] if dag is None else dag.tasks
    return any(
        getattr(task, "budget", None) or getattr(task, "partial_kwargs", {}).get("budget") for task in tasks
    )


def log_counts(operator: Any, event: str, counts: Mapping[str, float], **fields: Any) -> None:
    """Log an event with counts of the source, or without them where a budget pays.

    Args:
        operator: Operator whose log is written.
        event: Name of the event.
        counts: Exact counts of records by name.
        fields: What is logged in any case.
    """
    operator.log.info(event, **({} if is_paid(operator) else counts), **fields)
