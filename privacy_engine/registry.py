"""Release methods by name; a method is imported only when it is asked for."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

METHODS: Mapping[str, str] = {
    "mondrian": "privacy_engine.anonymizers.mondrian:Mondrian",
    "bottom_up": "privacy_engine.anonymizers.bottom_up:BottomUp",
    "ilp_l_diversity": "privacy_engine.anonymizers.ilp_l_diversity:ILPLDiversity",
    "kacluk": "privacy_engine.anonymizers.kacluk:KACLUK",
}


def method_names() -> tuple[str, ...]:
    """All registry keys."""
    return tuple(METHODS)


def method_class(name: str) -> Any:
    """The parameter dataclass of a method.

    Raises:
        ValueError: if there is no method of that name.
    """
    if name not in METHODS:
        raise ValueError(f"method must be one of {list(METHODS)}, got {name!r}")
    module, _, attribute = METHODS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_method(name: str, **parameters: Any) -> Any:
    """A method with its parameters.

    >>> load_method("bottom_up", k=10).k
    10

    Raises:
        ValueError: if the method or a parameter is unknown, or a value is not allowed.
    """
    cls = method_class(name)
    known = [f.name for f in dataclasses.fields(cls)]
    if unknown := sorted(set(parameters) - set(known)):
        raise ValueError(f"{name}: unknown parameters {unknown}; known are {known}")
    return cls(**parameters)
