"""Method parameters from a DAG: plain values, or text that a template rendered to."""

import ast
import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from privacy_engine.errors import SpecError
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.references import EngineRef


def method_parameters(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert rendered text to the types of the method's dataclass. The method itself checks the values.

    `k="{{ params.k }}"` arrives as `"10"`: Airflow renders templates to text.

    Raises:
        SpecError: If the method does not exist, or a text cannot be converted.
    """
    from privacy_engine.registry import method_class

    return _typed("release", method_class, method, given)


def detector_parameters(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert rendered text to the types of an outlier detector's dataclass.

    Raises:
        SpecError: If the detector does not exist, or a text cannot be converted.
    """
    from privacy_engine.registry import detector_class

    return _typed("outliers", detector_class, method, given)


def _typed(
    place: str, class_of: Callable[[str], Any], method: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        cls = class_of(method)
    except ValueError as error:
        raise SpecError(f"{place}: {error}") from None
    hints = typing.get_type_hints(cls)
    # The signature of an operator cannot have a mapping as a default: None stands for it there.
    made = {f.name for f in dataclasses.fields(cls) if f.default_factory is not dataclasses.MISSING}
    return {
        name: read_field(f"{place}: {method}.{name}", value, hints.get(name, str))
        for name, value in given.items()
        if not (value is None and name in made)
    }


def read_field(name: str, value: Any, annotation: Any) -> Any:
    """Convert the value of a named field, see `read_text`.

    Raises:
        SpecError: If the text cannot be converted; the message names the field.
    """
    try:
        return read_text(value, annotation)
    except ValueError as error:
        raise SpecError(f"{name}: {error}") from None


def read_text(value: Any, annotation: Any) -> Any:
    """Convert rendered text to the annotated type. Anything that is not text is returned unchanged.

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
        ValueError: If the text is neither a Python nor a JSON literal.
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
    raise ValueError(
        "must be a number, true or false, a list or a mapping. Check the template that renders it"
    )


def chosen_engine(given: str | Mapping[str, Any] | None) -> EngineRef | None:
    """Convert an operator's argument `engine`. None, or text that renders to it, means no choice.

    >>> chosen_engine("None") is None
    True
    """
    chosen = read_text(given, str | None)
    return None if chosen is None else read_engine(chosen)
