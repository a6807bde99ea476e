"""Build the schedule that a specification, or an operator, describes."""

from collections.abc import Mapping
from typing import Any

from privacy_release.budget.participation import Schedule
from privacy_release.budget.yearly import Yearly


def schedule_named(name: str, said: Mapping[str, Any]) -> Schedule | Yearly:
    """Return the schedule of that name from its fields, see `spec.sections.budget.schedule_of`."""
    fields = dict(said)
    return Yearly(name=name, **fields) if "epsilon" in fields else Schedule(name=name, **fields)
