"""A method's parameters as they come from a DAG: plain values, or text where a template was rendered."""

import ast
import json
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from privacy_engine.errors import SpecError


def method_parameters(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read rendered text as the types of the method's dataclass; the method itself checks the values.

    `k="{{ params.k }}"` arrives as `"10"`: Airflow renders templates to text.

    Raises:
        SpecError: if the method does not exist, or a text is no value.
    """
    from privacy_engine.registry import method_class

    try:
        hints = typing.get_type_hints(method_class(method))
    except ValueError as error:
        raise SpecError(f"release: {error}") from None
    parameters = {}
    for name, value in given.items():
        try:
            parameters[name] = read_text(value, hints.get(name, str))
        except ValueError as error:
            raise SpecError(f"release: {method}.{name}: {error}") from None
    return parameters


def read_text(value: Any, annotation: Any) -> Any:
    """A rendered text as a value of the annotated type; what is no text, or may be text, stays as it is.

    >>> (
    ...     read_text("10", int),
    ...     read_text("None", int | None),
    ...     read_text("false", bool),
    ...     read_text("1e-05", float),
    ... )
    (10, None, False, 1e-05)
    >>> read_text("text", str), read_text(7, int)
    ('text', 7)

    Raises:
        ValueError: if the text is neither a Python nor a JSON literal.
    """
    if not isinstance(value, str):
        return value
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = typing.get_args(annotation) if union else (annotation,)
    if type(None) in kinds and value.strip() in ("", "None", "null"):
        return None
    if any(isinstance(kind, type) and issubclass(kind, str | Enum) for kind in kinds):
        return value
    for read in (ast.literal_eval, json.loads):
        try:
            return read(value.strip())
        except (ValueError, SyntaxError):
            continue
    raise ValueError("must be a number, truth value, list or mapping; check the template that renders it")
