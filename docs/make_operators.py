"""Writes what follows from other code: the operators named after a method, and the stubs of the packages.

An operator has the parameters of its method's dataclass, with their defaults and their meanings. The stub of
a package, which editors and type checkers read, lists the names that the package exports.
"""

import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from airflow_privacy_release.operators.method import (
    AnonymizerOperator,
    MethodOperator,
    RandomizerOperator,
    SynthesizerOperator,
)
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.registry import method_class, method_names
from privacy_engine.synthesizers.synthesizer import Synthesizer

ROOT = Path(__file__).parents[1]
OPERATORS = "operators/airflow_privacy_release/operators/methods.py"
PACKAGES = {
    "privacy_engine": "privacy_engine",
    "privacy_release": "privacy_release",
    "airflow_privacy_release": "operators/airflow_privacy_release",
}
_FAMILIES: Mapping[type, type[MethodOperator]] = {
    Anonymizer: AnonymizerOperator,
    Synthesizer: SynthesizerOperator,
    Randomizer: RandomizerOperator,
}
_WIDTH = 110
_HEAD = '''\
"""One operator for each method, with the parameters of the method's dataclass. Made by `make docs`.

All parameters are template fields, so that they can be mapped (`.partial(...).expand(k=[5, 10, 20])`),
rendered (`k="{{ params.k }}"`) and seen in the UI. Each value of a parameter that shapes a private
measurement is a separate release and spends its own epsilon: `.expand(epsilon=[0.1, 0.2])` books 0.3. Other
`rows` are drawn from the same model and cost nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_privacy_release.operators.method import (
    AnonymizerOperator,
    RandomizerOperator,
    SynthesizerOperator,
)
'''
_STUB = """\
# Made by `make docs` from the table of exports in `__init__.py`.
# ruff: noqa: TID252
"""
_ENTRY = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)$", re.MULTILINE)
_REFERENCE = re.compile(r"`(\w+)`")


def operators() -> str:
    """The module with an operator for each method."""
    return _HEAD + "".join(f"\n\n{_operator(name)}" for name in method_names())


def stub(package: str) -> str:
    """The stub of a package: the names that it exports, as their modules define them."""
    home: Mapping[str, Sequence[str]] = importlib.import_module(package)._HOME
    lines = (
        f"from .{module} import {name} as {name}"
        for module, names in sorted(home.items())
        for name in sorted(names)
    )
    return _STUB + "\n".join(lines) + "\n"


def _operator(key: str) -> str:
    method = method_class(key)
    base = next(operator for family, operator in _FAMILIES.items() if issubclass(method, family))
    shared = inspect.signature(vars(base)["__init__"]).parameters
    hints = typing.get_type_hints(method)
    meanings = _meanings(method)
    own = [
        field
        for field in dataclasses.fields(method)
        if field.name not in shared or _default(field) != shared[field.name].default
    ]
    arguments = [f"{f.name}: {_annotation(hints[f.name], f)} = {_written(f)},{_noted(f.name)}" for f in own]
    handed = "".join(f"{f.name}={f.name}, " for f in own if f.name in shared)
    kept = [f"self.{f.name} = {f.name}" for f in own if f.name not in shared]
    return "\n".join(
        [
            f"class {method.__name__}Operator({base.__name__}):",
            *_docstring(method, base, {field.name: meanings[field.name] for field in own}),
            "",
            f'    method = "{key}"',
            "",
            "    def __init__(",
            *(f"        {line}" for line in ("self,", "*,", *arguments, "**kwargs: Any,")),
            "    ) -> None:",
            f"        super().__init__({handed}**kwargs)",
            *(f"        {line}" for line in kept),
            "",
        ]
    )


def _docstring(method: type, base: type, meanings: Mapping[str, str]) -> Iterator[str]:
    """The method's own, with the names of operators and where the other parameters are explained."""
    text, _, _ = inspect.cleandoc(method.__doc__ or "").partition("\nAttributes:\n")
    parts = _REFERENCE.sub(_named, text.strip()).split("\n\n")
    lead, *paragraphs = (" ".join(part.split()) for part in parts)
    yield f'    """{lead}'
    for paragraph in (*paragraphs, f"Further parameters: see `{base.__name__}`."):
        yield ""
        yield from _wrapped(paragraph, 4, 4)
    if meanings:
        yield from ("", "    Args:")
    for name, meaning in meanings.items():
        yield from _wrapped(f"{name}: {meaning}", 8, 12)
    yield '    """'


def _named(found: "re.Match[str]") -> str:
    """A reference to a method as one to its operator."""
    methods = {method_class(key).__name__ for key in method_names()}
    return f"`{found[1]}Operator`" if found[1] in methods else found[0]


def _wrapped(text: str, first: int, further: int) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=" " * first,
        subsequent_indent=" " * further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _meanings(method: type) -> dict[str, str]:
    """What each parameter means, by the docstrings of the dataclass and those that it extends."""
    found: dict[str, str] = {}
    for cls in reversed(method.__mro__):
        _, _, entries = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")
        found |= {name: " ".join(text.split()) for name, text in _ENTRY.findall(entries)}
    return found


def _annotation(hint: Any, field: "dataclasses.Field[Any]") -> str:
    """The type of an argument: as plain values, of which all but lists may be a template."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    names = [_plain(kind) for kind in kinds if kind is not type(None)]
    if not any(name.startswith("Sequence") for name in names) and "str" not in names:
        names.append("str")
    if type(None) in kinds or _default(field) is None:
        names.append("None")
    return " | ".join(names)


def _plain(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "str"
    if inner := typing.get_args(kind):
        inside = ", ".join(_plain(part) for part in inner if part is not Ellipsis)
        return f"{'Sequence' if typing.get_origin(kind) is tuple else 'Mapping'}[{inside}]"
    return str(kind.__name__)


def _default(field: "dataclasses.Field[Any]") -> Any:
    """The default as a plain value; None for an empty mapping, for defaults must not be changed."""
    if field.default is dataclasses.MISSING:
        return None
    return field.default.value if isinstance(field.default, Enum) else field.default


def _written(field: "dataclasses.Field[Any]") -> str:
    """The default as it stands in a source."""
    value = _default(field)
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:_}" if type(value) is int and value >= 10_000 else repr(value)


def _noted(name: str) -> str:
    return "  # noqa: E741  the field's own symbol" if name == "l" else ""


FILES = {
    OPERATORS: operators,
    **{f"{folder}/__init__.pyi": lambda name=name: stub(name) for name, folder in PACKAGES.items()},
}

if __name__ == "__main__":
    for file, made in FILES.items():
        (ROOT / file).write_text(made(), encoding="utf-8")
        sys.stdout.write(f"{file} written\n")
