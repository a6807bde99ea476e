"""What an operator of this project takes, read from the source of its class and of that class's bases."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from airflow_privacy_release.task.former import FORMER


def classes(operator: type) -> list[type]:
    """Those of the provider that an operator is made of, its own last; without those of Airflow."""
    return [
        cls for cls in reversed(operator.__mro__) if cls.__module__.startswith("airflow_privacy_release.")
    ]


def own_arguments(called: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Of a function, or of what a class itself declares."""
    if inspect.isclass(called):
        if "__init__" not in vars(called):
            return {}
        called = vars(called)["__init__"]
    parameters = inspect.signature(called).parameters
    own = {n: p for n, p in parameters.items() if n != "self" and p.kind is not p.VAR_KEYWORD}
    return {n: p for n, p in own.items() if p.default is not FORMER}


def arguments(operator: type) -> Mapping[str, inspect.Parameter]:
    """All of an operator, those of its bases first; where both have one, that of the class counts."""
    return {name: p for cls in classes(operator) for name, p in own_arguments(cls).items()}
