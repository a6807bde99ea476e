"""Argument types of compiled functions as text: `warm` compiles the functions from a list of them."""

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import numba

types: Any = numba.core.types  # mypy cannot check types that are made from text


def compile_for(kernel: str, arguments: Iterable[str]) -> None:
    """Compile a function for these types, or load its cached machine code.

    Args:
        kernel: Module and name of the function, such as `privacy_engine.recoding.grouping.cuts:halve`.
        arguments: Argument types in the form that `to_text` writes.
    """
    kernel_of(kernel).compile(tuple(map(from_text, arguments)))


def kernel_of(name: str) -> Any:
    """Return the compiled function of this name."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def to_text(kind: Any) -> str:
    """Write an argument type as text: `int64`, an array `int32[2C]`, a named tuple `module:Boxes(...)`."""
    if isinstance(kind, types.Array):
        if not kind.aligned:
            raise ValueError(f"an array that is not aligned is passed to a compiled function: {kind}")
        return f"{kind.dtype}[{kind.ndim}{kind.layout}{'' if kind.mutable else '!'}]"
    if isinstance(kind, types.BaseTuple):
        name = (
            f"{kind.instance_class.__module__}:{kind.instance_class.__qualname__}"
            if isinstance(kind, types.BaseNamedTuple)
            else ""
        )
        return f"{name}({','.join(map(to_text, kind))})"
    if isinstance(kind, types.IntEnumMember):
        return f"{kind.instance_class.__module__}:{kind.instance_class.__qualname__}"
    if kind is types.none or isinstance(kind, types.Number | types.Boolean):
        return str(kind)
    raise ValueError(f"a compiled function has an argument of a type that cannot be listed: {kind}")


def from_text(text: str) -> Any:
    """Return the type for a text that `to_text` wrote."""
    if text.endswith(")"):
        name, _, fields = text[:-1].partition("(")
        kinds = [from_text(field) for field in _split(fields)]
        if not name:
            return types.Tuple(kinds)
        module, _, named = name.partition(":")
        tuple_class = getattr(importlib.import_module(module), named)
        if len({*kinds}) == 1:
            return types.NamedUniTuple(kinds[0], len(kinds), tuple_class)
        return types.NamedTuple(kinds, tuple_class)
    if text.endswith("]"):
        dtype, _, shape = text[:-1].partition("[")
        readonly = shape.endswith("!")
        return types.Array(from_text(dtype), int(shape[0]), shape[1], readonly=readonly)
    if ":" in text:
        module, _, named = text.partition(":")
        return types.IntEnumMember(getattr(importlib.import_module(module), named), types.int64)
    return types.none if text == "none" else getattr(types, {"bool": "boolean"}.get(text, text))


def _split(fields: str) -> Iterator[str]:
    """Split at the commas outside of brackets."""
    depth = start = 0
    for i, character in enumerate(fields):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            yield fields[start:i]
            start = i + 1
    if fields:
        yield fields[start:]
