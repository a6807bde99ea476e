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

from airflow_privacy_release.operators.release import ReleaseOperator
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.registry import method_class, method_names
from privacy_engine.structure.structure import Structure
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.verification.models import PrivacyModel

ROOT = Path(__file__).parents[1]
OPERATORS = "operators/airflow_privacy_release/operators/methods.py"
PACKAGES = {
    "privacy_engine": "privacy_engine",
    "privacy_release": "privacy_release",
    "airflow_privacy_release": "operators/airflow_privacy_release",
}
_WIDTH = 110
_HEAD = '''\
"""One operator for each method, with the parameters of the method's dataclass. Made by `make docs`.

All parameters are template fields, so that they can be mapped (`.partial(...).expand(k=[5, 10, 20])`),
rendered (`k="{{ params.k }}"`) and seen in the UI. Each value of a parameter that shapes a private
measurement is a separate release and spends its own epsilon: `.expand(epsilon=[0.1, 0.2])` books 0.3. Other
`rows` are drawn from the same model and cost nothing. Epsilon is booked before any noise is drawn, and a
retry on the same table costs nothing.

The operators of a family share a base, which has the parameters that all its methods take.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_privacy_release.operators.method import MethodOperator
from airflow_privacy_release.operators.release import require_policy
from airflow_privacy_release.task.former import formerly
'''
_STUB = """\
# Made by `make docs` from the table of exports in `__init__.py`.
# ruff: noqa: TID252
"""
_ENTRY = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)$", re.MULTILINE)
_ENTRIES = re.compile(r"\n(?:Args|Attributes):\n")
_REFERENCE = re.compile(r"`(\w+)`")
_MODULE = re.compile(r"\b(?:\w+\.)+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of an operator.

    Attributes:
        annotation: Type, as it is written.
        default: Default, as it is written; None for a required argument.
        meaning: Entry of the docstring.
    """

    name: str
    annotation: str
    default: str | None
    meaning: str

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {self.default}"
        noted = "  # noqa: E741  the field's own symbol" if self.name == "l" else ""
        return f"{self.name}: {self.annotation}{default},{noted}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """The base of the operators of a family of methods.

    Attributes:
        dataclass: Base of the methods, or the only method of the family.
        shared: Arguments of `ReleaseOperator` that the operators of the family take, too.
        required: Those of them that have no default.
        former: Present name of each argument that has a former name, by that name.
        color: Color of the tasks in Airflow's graph.
    """

    dataclass: type
    shared: tuple[str, ...]
    required: tuple[str, ...] = ()
    former: Mapping[str, str] = dataclasses.field(default_factory=dict)
    color: str

    @property
    def name(self) -> str:
        """Name of the base."""
        return f"{self.dataclass.__name__}Operator"

    @property
    def arguments(self) -> list[Argument]:
        """The parameters of all methods of the family, and what it shares with `ReleaseOperator`."""
        taken = inspect.signature(ReleaseOperator).parameters
        meanings = _meanings(ReleaseOperator)
        return _arguments(self.dataclass) + [
            Argument(
                name=name,
                annotation=_annotation_of(taken[name], required=name in self.required),
                default=None if name in self.required else _source(taken[name].default),
                meaning=meanings[name],
            )
            for name in self.shared
        ]

    @property
    def method(self) -> list[str]:
        """The attribute that names the method of the class, if the family has only one."""
        key = getattr(self.dataclass, "key", None)
        return [] if key is None else [f'method = "{key}"']

    def operator(self) -> str:
        """The class."""
        arguments = self.arguments
        checks = "budget" in self.shared and "budget" not in self.required
        return _class(
            self.name,
            "MethodOperator",
            docstring=_docstring(self.dataclass, arguments),
            attributes=[*self.method, f'ui_color = "{self.color}"'],
            former=self.former,
            arguments=arguments,
            body=[
                "super().__init__(**kwargs)",
                *(f"self.{argument.name} = {argument.name}" for argument in arguments),
                *(["require_policy(self.task_id, budget, policy)"] if checks else []),
            ],
        )


FAMILIES = (
    Family(dataclass=Anonymizer, shared=("seed", "history", "series", "lake"), color="#e5f3e1"),
    Family(
        dataclass=Synthesizer,
        shared=("seed", "budget", "policy", "ledger", "promise", "series", "lake"),
        required=("budget", "policy"),
        former={"over_time": "promise"},
        color="#e3eefb",
    ),
    Family(
        dataclass=Randomizer,
        shared=("seed", "secret", "replaces", "series", "lake", "budget", "policy", "ledger"),
        color="#f6ecd9",
    ),
    Family(dataclass=Structure, shared=("seed", "series", "lake"), color="#f1e6f7"),
)


def operators() -> str:
    """The module with an operator for each method, and a base for each family."""
    bases, only = (family.operator() for family in FAMILIES), [family.dataclass for family in FAMILIES]
    own = (_operator(key) for key in method_names() if method_class(key) not in only)
    return _HEAD + "".join(f"\n\n{found}" for found in (*bases, *own))


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
    """The operator of a method: it takes what its family does not, or with another default."""
    method = method_class(key)
    family = next(family for family in FAMILIES if issubclass(method, family.dataclass))
    shared = {argument.name: argument for argument in family.arguments}
    own = [
        argument
        for argument in _arguments(method)
        if argument.name not in shared or argument.default != shared[argument.name].default
    ]
    passed = "".join(f"{argument.name}={argument.name}, " for argument in own if argument.name in shared)
    return _class(
        f"{method.__name__}Operator",
        family.name,
        docstring=_docstring(method, own, f"Further parameters: see `{family.name}`."),
        attributes=[f'method = "{key}"'],
        arguments=own,
        body=[
            f"super().__init__({passed}**kwargs)",
            *(f"self.{argument.name} = {argument.name}" for argument in own if argument.name not in shared),
        ],
    )


def _class(
    name: str,
    base: str,
    *,
    docstring: Iterator[str],
    attributes: Sequence[str],
    arguments: Sequence[Argument],
    body: Sequence[str],
    former: Mapping[str, str] | None = None,
) -> str:
    formerly = ", ".join(f'{name}="{present}"' for name, present in (former or {}).items())
    named = ("*,", *map(str, arguments)) if arguments else ()
    return "\n".join(
        [
            f"class {name}({base}):",
            *docstring,
            "",
            *(f"    {line}" for line in attributes),
            "",
            *([f"    @formerly({formerly})"] if formerly else []),
            "    def __init__(",
            *(f"        {line}" for line in ("self,", *named, "**kwargs: Any,")),
            "    ) -> None:",
            *(f"        {line}" for line in body),
            "",
        ]
    )


def _docstring(method: type, arguments: Sequence[Argument], *more: str) -> Iterator[str]:
    """The docstring of a dataclass, with the names of operators, and the meanings of the arguments."""
    text = _ENTRIES.split(inspect.cleandoc(method.__doc__ or ""))[0]
    parts = _REFERENCE.sub(_named, text.strip()).split("\n\n")
    lead, *paragraphs = (" ".join(part.split()) for part in parts)
    yield f'    """{lead}'
    for paragraph in (*paragraphs, *more):
        yield ""
        yield from _wrapped(paragraph, 4, 4)
    if arguments:
        yield from ("", "    Args:")
    for argument in arguments:
        yield from _wrapped(f"{argument.name}: {argument.meaning}", 8, 12)
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


def _arguments(method: type) -> list[Argument]:
    """The fields of a method's dataclass as arguments."""
    hints, meanings = typing.get_type_hints(method), _meanings(method)
    return [
        Argument(
            name=field.name,
            annotation=_annotation(hints[field.name], field),
            default=_source(_default(field)),
            meaning=meanings[field.name],
        )
        for field in dataclasses.fields(method)
    ]


def _meanings(cls: type) -> dict[str, str]:
    """What each parameter means, by the docstrings of a class and those that it extends."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, *sections = _ENTRIES.split(inspect.cleandoc(base.__doc__ or ""))
        for entries in sections:
            found |= {name: " ".join(text.split()) for name, text in _ENTRY.findall(entries)}
    return found


def _annotation_of(parameter: inspect.Parameter, *, required: bool) -> str:
    """The type of an argument of `ReleaseOperator`, without None where it is required."""
    written = _MODULE.sub("", inspect.formatannotation(parameter.annotation))
    return written.removesuffix(" | None") if required else written


def _annotation(hint: Any, field: "dataclasses.Field[Any]") -> str:
    """The type of an argument: as plain values, of which all but lists may be a template."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    names = list(dict.fromkeys(_plain(kind) for kind in kinds if kind is not type(None)))
    if not any(name.startswith("Sequence") for name in names) and "str" not in names:
        names.append("str")
    if type(None) in kinds or _default(field) is None:
        names.append("None")
    return " | ".join(names)


def _plain(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "str"
    if kind is PrivacyModel:
        return "Mapping[str, Any]"
    if kind is Any:
        return "Any"
    if inner := typing.get_args(kind):
        inside = ", ".join(_plain(part) for part in inner if part is not Ellipsis)
        return f"{'Sequence' if typing.get_origin(kind) is tuple else 'Mapping'}[{inside}]"
    return str(kind.__name__)


def _default(field: "dataclasses.Field[Any]") -> Any:
    """The default as a plain value; None for an empty mapping, for defaults must not be changed."""
    if field.default is dataclasses.MISSING:
        return None
    return field.default.value if isinstance(field.default, Enum) else field.default


def _source(value: Any) -> str:
    """A plain value as it is written in a source."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:_}" if type(value) is int and value >= 10_000 else repr(value)


FILES = {
    OPERATORS: operators,
    **{f"{folder}/__init__.pyi": lambda name=name: stub(name) for name, folder in PACKAGES.items()},
}

if __name__ == "__main__":
    for file, made in FILES.items():
        (ROOT / file).write_text(made(), encoding="utf-8")
        sys.stdout.write(f"{file} written\n")
