"""What the release methods are, for people: parameters, defaults and guarantees, from the methods."""

import dataclasses
import inspect
import typing
from typing import Any


def describe_methods() -> list[str]:
    """One paragraph a method: its key, its parameters with types and defaults, what it guarantees."""
    from privacy_engine.registry import method_class, method_names

    return [_paragraph(name, method_class(name)) for name in method_names()]


def _paragraph(name: str, method: Any) -> str:
    module = inspect.getmodule(method)
    lines = [name, f"  {_first_line(module)}", f"  {_first_line(method)}", "  parameters:"]
    hints = typing.get_type_hints(method)
    lines += [f"    {f.name}: {_type(hints[f.name])} = {_default(f)}" for f in dataclasses.fields(method)]
    lines.append(
        f"  guarantees with its defaults: {', '.join(map(repr, method().guarantees(_small_schema())))}"
    )
    loss = method().privacy_loss(_small_schema())
    lines.append(f"  differential privacy: {'none claimed' if loss is None else loss}")
    return "\n".join(lines)


def _small_schema() -> Any:
    """A schema with one attribute of each role that matters: guarantees depend on roles, never on data."""
    from privacy_engine.schema import Attribute, DataSchema, Kind, Role

    age = Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 120))
    return DataSchema((age, Attribute(name="diagnosis", role=Role.SENSITIVE)))


def _first_line(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def _type(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("privacy_engine.models.", "")


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "required"
    return str(getattr(value, "value", value))
