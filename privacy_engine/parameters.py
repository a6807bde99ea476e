"""Check the types of a method's parameters against its annotations, when the method is constructed."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

_LARGEST = 2**63


def require_types(method: Any) -> None:
    """Refuse parameters whose type differs from the one that the field of the dataclass declares.

    A list is accepted for a tuple, a text for an enum member, a mapping for a privacy model, and a whole
    number for a real one; a truth value is not accepted for a number.

    Raises:
        ValueError: Naming the parameter, what it must be, and the type that was given.
    """
    cls: type = type(method)
    hints = _hints(cls)
    for field in dataclasses.fields(method):
        value, hint = getattr(method, field.name), hints[field.name]
        if not _fits(value, hint):
            raise ValueError(f"{field.name} must be {_words(hint)}, got {_given(value)}")


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inside)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(k, inside[0]) and _fits(v, inside[1]) for k, v in value.items()
        )
    if origin is not None:  # a tuple of any length, or a sequence
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return listed and all(_fits(one, inside[0]) for one in value)
    return _fits_plain(value, hint)


def _fits_plain(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return (
            isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < _LARGEST
        )
    if hint is float:
        if isinstance(value, float | np.floating):
            return math.isfinite(value)
        return _fits_plain(value, int)
    if hint in (str, NoneType):
        return isinstance(value, hint)
    if issubclass(hint, Enum):
        return isinstance(value, str)
    return isinstance(value, Mapping) or hasattr(value, "measure")  # a privacy model


def _words(hint: Any) -> str:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_words(one) for one in inside))
    if origin is not None and issubclass(origin, Mapping):
        return f"a mapping from {_words(inside[0])} to {_words(inside[1])}"
    if origin is not None:
        return f"a list, each {_words(inside[0])}"
    words = {
        Any: "anything",
        bool: "true or false",
        int: "a whole number",
        float: "a finite number",
        NoneType: "None",
    }
    if hint in words:
        return words[hint]
    text = hint is str or issubclass(hint, Enum)
    return "text" if text else "a privacy model, such as {model: k_anonymity, k: 5}"


def _given(value: Any) -> str:
    """Describe the given value, without very long numbers and without the content of texts."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value).__name__
    return "one that is too large" if abs(value) >= _LARGEST else str(value)
