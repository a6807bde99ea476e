"""The types with which compiled functions are called, as text: `warm` compiles from a list of them."""

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import numba

types: Any = numba.core.types  # types that are made from text have no types that mypy could check


def compile_for(kernel: str, arguments: Iterable[str]) -> None:
    """Compile a function for these types, or load what an earlier process kept.

    Args:
        kernel: Module and name of the function, `privacy_engine.recoding.grouping.cuts:halve`.
        arguments: Types as `to_text` writes them.
    """
    kernel_of(kernel).compile(tuple(map(from_text, arguments)))


def kernel_of(name: str) -> Any:
    """The compiled function of this name."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def to_text(kind: Any) -> str:
    """The type of an argument as text: `int64`, `int32[2C]` an array, `module:Boxes(...)` a named tuple."""
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
    """The type that `to_text` has written."""
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
    """Parts between the commas that no bracket encloses."""
    depth = start = 0
    for i, character in enumerate(fields):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            yield fields[start:i]
            start = i + 1
    if fields:
        yield fields[start:]
