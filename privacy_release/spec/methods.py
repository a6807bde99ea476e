"""The release methods by name: built with their parameters, and described for people."""

import dataclasses
import inspect
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import Problem, ProblemsError

if TYPE_CHECKING:
    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy


def described_methods() -> str:
    """Return what `describe_methods` gave when it was recorded, without importing a method.

    `make docs` writes it.
    """
    return Path(__file__).with_name("methods.txt").read_text(encoding="utf-8")


def describe_methods() -> str:
    """Describe each method in a paragraph: its key, parameters with types and defaults, and guarantees.

    It imports all methods, and with them pandas, numba and scikit-learn.
    """
    from privacy_engine.registry import method_class, method_names

    return "\n\n".join(_paragraph(name, method_class(name)) for name in method_names()) + "\n"


def _paragraph(name: str, method: Any) -> str:
    module = inspect.getmodule(method)
    lines = [name, f"  {_first_line(module)}", f"  {_first_line(method)}", "  parameters:"]
    hints = typing.get_type_hints(method)
    lines += [f"    {f.name}: {_type(hints[f.name])} = {_default(f)}" for f in dataclasses.fields(method)]
    guarantees = ", ".join(map(repr, method().guarantees(_small_schema()))) or "none"
    lines.append(f"  guarantees with its defaults: {guarantees}")
    lines.append(f"  differential privacy: {_loss(method().privacy_loss(_small_schema()))}")
    return "\n".join(lines)


def _loss(loss: Any) -> str:
    if loss is None:
        return "none claimed"
    of = {
        "replace_one": "one record replaced",
        "add_remove": "one record more or fewer",
        "replace_person": "all rows of one person replaced",
    }
    spent = f"epsilon {loss.epsilon:g} and delta {loss.delta:g} for {of[loss.neighbours]}"
    return f"{spent}, with its defaults; it spends a budget"


def _small_schema() -> Any:
    """A schema with one attribute of each role that matters: guarantees depend on roles, never on data."""
    from privacy_engine.tables.schema import Attribute, DataSchema
    from privacy_engine.vocabulary import Kind, Role

    age = Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 120))
    return DataSchema((age, Attribute(name="diagnosis", role=Role.SENSITIVE, categories=("no", "yes"))))


def _first_line(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def _type(hint: Any) -> str:
    name = hint.__name__ if isinstance(hint, type) else str(hint)
    return name.replace("privacy_engine.verification.models.", "").replace("collections.abc.", "")


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "required"
    return str(getattr(value, "value", value))


def build_method(method: str, parameters: Mapping[str, Any]) -> "ReleaseMethod":
    """The release method with its parameters.

    Raises:
        SpecError: naming the parameter, what it must be and what was given.
    """
    from privacy_engine.registry import load_method

    try:
        built: ReleaseMethod = load_method(method, **parameters)
    except (ValueError, TypeError) as error:
        text = f"release: {error}; see `privacy-release list-methods`"
        raise ProblemsError([Problem(text=text, path=("release",))]) from None
    return built


def weaker_than_policy(
    method: "ReleaseMethod", schema: "DataSchema", policy: "ReleasePolicy", name: str
) -> list[str]:
    """Where a method promises less than the policy asks for, as text; verification measures it anyway.

    Args:
        method: with its parameters.
        schema: of what it is given.
        policy: with the deployment's floor.
        name: of the method.
    """
    from privacy_engine.verification.policy import ReleasePolicy

    loss, guarantees = method.privacy_loss(schema), method.guarantees(schema)
    found = []
    if loss is None and (policy.max_epsilon is not None or policy.max_delta is not None):
        found.append(f"{name} claims no differential privacy, and the policy limits its loss")
    if loss is None and not guarantees:
        return found
    promised = ReleasePolicy(require=guarantees, max_epsilon=None if loss is None else loss.epsilon)
    return [*found, *promised.weaker_than(policy)]


if __name__ == "__main__":
    sys.stdout.write(describe_methods())
