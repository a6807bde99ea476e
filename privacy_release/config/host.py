"""Functions provided by the environment of the process: settings and connections of the Airflow provider.

The provider declares its functions as entry points, so nothing here names Airflow, and a process without the
provider has none.
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any

GROUP = "privacy_release.host"


@cache
def answer_of(question: str) -> Callable[..., Any] | None:
    """Return the function for a question, by the name of its entry point. None if there is none."""
    return next((found.load() for found in entry_points(group=GROUP, name=question)), None)
