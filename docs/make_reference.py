"""Writes `docs/reference.md`: each public operator, its parameters and defaults, as the code has them.

What a parameter means stands in the docstring of the operator, or of its base where all of a family share it.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import airflow_privacy_release
from airflow_privacy_release.provider import OPERATOR_MODULES
from privacy_engine.registry import method_class

PAGE = Path(__file__).with_name("reference.md")
MODULES = (*OPERATOR_MODULES, "airflow_privacy_release.pipeline")
INTRODUCTION = """\
# Operator reference

Made by `make docs` from signatures and docstrings; edit those, not this page.

All names are imported from `airflow_privacy_release`, and all arguments are given by keyword. Each operator
also takes what Airflow's `BaseOperator` takes (`task_id`, `retries`, ...). Unless it says otherwise, a
parameter is a template field: it may be rendered (`k="{{ params.k }}"`) or mapped
(`.partial(...).expand(k=[5, 10])`). References to tables and reports are the `output` of the task before.
[How to compose a DAG](howto.md), [specifications of whole releases](../README.md#your-own-release).
"""
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example|Examples):\s*$", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+)$")
_ELSEWHERE = re.compile(r"see `+([\w.]+)`+\.?")


def reference() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name in MODULES:
        module = importlib.import_module(name)
        title = name.removeprefix("airflow_privacy_release.").removeprefix("operators.")
        parts.append(f"## {title}\n\n{_plain(_doc(module))}\n")
        parts += [_section(member) for member in _public(module)]
    return "\n".join(parts)


def _public(module: ModuleType) -> Iterator[Any]:
    """What users import of a module, in the order of its definitions."""
    for name, member in vars(module).items():
        if name in airflow_privacy_release.__all__ and member.__module__ == module.__name__:
            yield member


def _section(member: Any) -> str:
    lines = [f"### {member.__name__}{_call(member)}", "", _plain(_lead(member)), ""]
    method = getattr(member, "method", None)
    if isinstance(method, str):
        lines += [f"Method `{method}`: {_plain(_lead(method_class(method)))}", ""]
    if rows := list(_rows(member)):
        lines += ["| parameter | default | |", "|---|---|---|", *rows, ""]
    if plain := _not_rendered(member):
        lines += [f"Not rendered: {', '.join(f'`{name}`' for name in plain)}.", ""]
    source = "operators/" + member.__module__.replace(".", "/")
    return "\n".join([*lines, f"Source: [{source}.py](../{source}.py)", ""])


def _call(member: Any) -> str:
    """Of a function, how it is called."""
    return "" if inspect.isclass(member) else f"({', '.join(p.name for p in _parameters(member))})"


def _rows(member: Any) -> Iterator[str]:
    meanings = _described(member)
    if not inspect.isclass(member) and not meanings:
        return
    for parameter in _parameters(member):
        if parameter.name not in meanings:
            raise LookupError(
                f"{member.__name__}: parameter {parameter.name} has no meaning; describe it in a docstring"
            )
        default = "required" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        yield f"| `{parameter.name}` | {_cell(default)} | {_cell(_plain(meanings[parameter.name]))} |"


def _parameters(member: Any) -> list[inspect.Parameter]:
    """Those of our own, of a class those of its bases first: without what is handed on to Airflow."""
    calls = [member]
    if inspect.isclass(member):
        calls = [vars(cls)["__init__"] for cls in _classes(member) if "__init__" in vars(cls)]
    found = {p.name: p for call in calls for p in inspect.signature(call).parameters.values()}
    return [p for p in found.values() if p.name != "self" and p.kind is not p.VAR_KEYWORD]


def _not_rendered(member: Any) -> list[str]:
    rendered = getattr(member, "template_fields", None)
    if rendered is None:
        return []
    return [parameter.name for parameter in _parameters(member) if parameter.name not in rendered]


def _described(documented: Any) -> dict[str, str]:
    """Meaning of each entry in the sections Args and Attributes, of a class also those of its bases."""
    if not inspect.isclass(documented):
        return _entries(_doc(documented))
    return {name: text for cls in _classes(documented) for name, text in _entries(_doc(cls)).items()}


def _classes(cls: type) -> list[type]:
    """It and its bases, as far as they are of this project; its own word comes last, and counts."""
    ours = ("airflow_privacy_release", "privacy_engine")
    return [base for base in reversed(cls.__mro__) if base.__module__.partition(".")[0] in ours]


def _entries(doc: str) -> dict[str, str]:
    found: dict[str, str] = {}
    parts = _SECTION.split(doc)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title not in ("Args", "Attributes"):
            continue
        names: list[str] = []
        for line in body.strip("\n").splitlines():
            if entry := _ENTRY.match(line):
                names = entry[1].split(", ")
                found |= dict.fromkeys(names, entry[2])
            else:
                found |= {name: f"{found[name]} {line.strip()}".rstrip() for name in names}
    return _followed(found)


def _followed(meanings: dict[str, str]) -> dict[str, str]:
    """The same, where an entry only says where to look what stands there; of a base it is known anyway."""
    found = {}
    for name, text in meanings.items():
        if not (elsewhere := _ELSEWHERE.fullmatch(text)):
            found[name] = text
        elif "." in elsewhere[1]:
            module, _, attribute = elsewhere[1].rpartition(".")
            found[name] = _described(getattr(importlib.import_module(module), attribute))[name]
    return found


def _lead(documented: Any) -> str:
    """The docstring up to its first section."""
    return _SECTION.split(_doc(documented))[0].strip()


def _doc(documented: Any) -> str:
    # Not inspect.getdoc: it would give a class the docstring of its base.
    return inspect.cleandoc(documented.__doc__ or "")


def _plain(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} written\n")
