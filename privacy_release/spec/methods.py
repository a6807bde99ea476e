"""Build the release methods by name with their parameters, and describe them."""

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
    """Return the recorded result of `describe_methods`, without importing a method.

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
    if not loss.must_be_booked:
        return "epsilon 0, it reads no record; it spends no budget"
    of = {
        "replace_one": "one record replaced",
        "add_remove": "one record more or fewer",
        "replace_person": "all rows of one person replaced",
    }
    spent = f"epsilon {loss.epsilon:g} and delta {loss.delta:g} for {of[loss.neighbours]}"
    return f"{spent}, with its defaults; it spends a budget"


def _small_schema() -> Any:
    """Return a schema with one attribute of each relevant role: guarantees depend on roles, never on data."""
    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema
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
    """Return the release method with its parameters.

    Raises:
        SpecError: Naming the parameter, its valid values and the given one.
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
    """Return where a method claims less than the policy requires. Verification measures it anyway.

    Args:
        method: Method with its parameters.
        schema: Schema of the method's input.
        policy: Policy combined with the floor policy.
        name: Name of the method.
    """
    from privacy_engine.verification.policy import ReleasePolicy

    loss, guarantees = method.privacy_loss(schema), method.guarantees(schema)
    found = []
    if loss is None and (policy.max_epsilon is not None or policy.max_delta is not None):
        found.append(f"{name} claims no differential privacy, but the policy limits its loss")
    if loss is None and not guarantees:
        return found
    promised = ReleasePolicy(require=guarantees, max_epsilon=None if loss is None else loss.epsilon)
    return [*found, *promised.weaker_than(policy)]


if __name__ == "__main__":
    sys.stdout.write(describe_methods())
