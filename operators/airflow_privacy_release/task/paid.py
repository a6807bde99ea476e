"""Whether a DAG pays from a privacy budget: then counts of its source stay out of logs and metrics."""

from collections.abc import Mapping, Sequence
from typing import Any


def is_paid(operator: Any) -> bool:
    """Return whether any task of the operator's DAG names a budget, or may name one when it is mapped."""
    dag = operator.get_dag()
    return any(map(_may_pay, [operator] if dag is None else dag.tasks))


def _may_pay(task: Any) -> bool:
    if not getattr(task, "is_mapped", False):
        return bool(getattr(task, "budget", None))
    if task.partial_kwargs.get("budget"):
        return True
    over: Any = task.expand_input.value
    if isinstance(over, Mapping):  # of `expand`
        return "budget" in over
    # Of `expand_kwargs`: what other tasks return is not known yet.
    items = over if isinstance(over, Sequence) else [over]
    named = [item.get("budget") if isinstance(item, Mapping) else "unknown" for item in items]
    return "budget" in task.template_fields and any(named)


def log_counts(operator: Any, event: str, counts: Mapping[str, float], **fields: Any) -> None:
    """Log an event with counts of the source, or without them if the DAG pays from a budget.

    Args:
        operator: Operator whose log is written.
        event: Name of the event.
        counts: Exact counts of records by name.
        fields: Further fields, logged in any case.
    """
    operator.log.info(event, **({} if is_paid(operator) else counts), **fields)
