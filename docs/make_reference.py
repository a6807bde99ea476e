"""Writes the pages of reference: operators, files and commands, with their parameters, as the code has them.

The docstring of a class explains its parameters, or that of its base if a whole family shares them;
what an argument of a command means in its help.
"""

import argparse
import dataclasses
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, get_args, get_origin

import pydantic

import airflow_privacy_release
from airflow_privacy_release.provider import OPERATOR_MODULES, get_provider_info
from privacy_engine.registry import method_class, method_names
from privacy_engine.tables.coding import Coding
from privacy_engine.tables.date_form import DateForm
from privacy_engine.tables.schema import Attribute
from privacy_engine.verification.column_rules import ColumnRules
from privacy_engine.verification.policy import ALL_MODELS, ReleasePolicy
from privacy_release.cli.main import build_parser
from privacy_release.config.settings import SECTION, VARIABLES
from privacy_release.manifest.manifest import PUBLISHED, Manifest
from privacy_release.manifest.section import ManifestSection
from privacy_release.spec.fields import in_keywords
from privacy_release.spec.model import AttributeSpec, ReleaseSpec

FOLDER = Path(__file__).parent
MODULES = (*OPERATOR_MODULES, "airflow_privacy_release.pipeline", "airflow_privacy_release.explore")
INTRODUCTION = """\
# Operator reference

Made by `make docs` from signatures and docstrings; edit those, not this page.

All names are imported from `airflow_privacy_release`, and all arguments are given by keyword. Each operator
also takes what Airflow's `BaseOperator` takes (`task_id`, `retries`, ...). Unless it says otherwise, a
parameter is a template field: it may be rendered (`k="{{ params.k }}"`) or mapped
(`.partial(...).expand(k=[5, 10])`). References to tables and reports are the `output` of the task before.
[How to compose a DAG](howto.md), [specifications of whole releases](reference_files.md).
"""
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example|Examples):\s*$", re.MULTILINE)
_DOCTEST = re.compile(r"^>>> .*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+)$")
_ELSEWHERE = re.compile(r"see `+([\w.]+)`+\.?")


FILES = """\
# File reference

Made by `make docs` from the code; edit its docstrings, not this page.

A release is one YAML file in `include/releases/`; the files that it names lie below the include folder.
Fields that are not known are errors. `privacy-release schema json` prints the same for an editor,
`privacy-release check` holds files against it. [What a file may be](policies.md),
[an example](../README.md#a-release-is-a-file).
"""
SETTINGS = """\
# Settings of a deployment

Made by `make docs` from the code; edit the provider's options, not this page.

Each option is searched in this order: the environment variable; the section `[privacy_release]` of Airflow's
configuration; the project file `privacy_release.toml`, in or above the working directory or Airflow's folder
of DAGs; a default. `privacy-release where` shows the value of each and where it is set. Tasks of Airflow use
the connections `lake_default` and `ledger_default` first, if they exist.

Secrets of the command line are variables, or files that a variable with `_FILE` at its end names:
`PRIVACY_LEDGER_KEY`, `PRIVACY_LEDGER_PASSWORD`, `PRIVACY_SECRET`, `PRIVACY_MEMBERSHIP_KEY`,
`PRIVACY_PSEUDONYM_KEY` and `PRIVACY_WORK_AREA_KEY`.

| option | environment variable | meaning | example |
|---|---|---|---|
"""
POLICY = """\
## Policy

A separate file that the field `policy` of a release names. It states the requirements on the staged bytes,
whatever method made them.

```yaml
require:
  - {model: k_anonymity, k: 10}
  - {model: t_closeness, t: 0.3, attribute: occupation}
max_suppressed: 0.05
```
"""
COMMANDS = """\
# Command reference

Made by `make docs` from the parsers of the commands, which `--help` prints, too; edit those, not this page.
"""


def operators() -> str:
    """The page of operators."""
    parts = [INTRODUCTION]
    for name in MODULES:
        module = importlib.import_module(name)
        title = name.removeprefix("airflow_privacy_release.").removeprefix("operators.")
        parts.append(f"## {title}\n\n{_plain(_doc(module))}\n")
        parts += [_section(member) for member in _public(module)]
    return "\n".join(parts)


def files() -> str:
    """The page of files: the fields of a release and of a policy, the models, and the methods."""
    parts, waiting, done = [FILES], [("", ReleaseSpec)], set()
    while waiting:
        place, model = waiting.pop(0)
        if model in done:
            continue
        done.add(model)
        rows, inner = _fields(model, place)
        waiting += inner
        title = f"`{place}`" if place else "Release"
        parts.append("\n".join([f"## {title}", "", _plain(_lead(model)), "", *rows, ""]))
    parts += [_methods(), POLICY, *_table(_documented(ReleasePolicy), ReleasePolicy), ""]
    parts += ["### `columns`", "", _plain(_lead(ColumnRules)), ""]
    parts += [*_table(_documented(ColumnRules), ColumnRules), "", "## Models", ""]
    for name, model in ALL_MODELS.items():
        parts += [f"### `{name}`", "", _plain(_lead(model)), "", *_table(_documented(model), model), ""]
    return "\n".join(parts)


def commands() -> str:
    """The page of commands."""
    parser = build_parser()
    parts = [COMMANDS, parser.description or "", "", parser.epilog or "", ""]
    for name, summary, command in _commands(parser):
        if any(isinstance(action, argparse._SubParsersAction) for action in command._actions):
            continue
        rows = [_argument(action) for action in command._actions if action.dest != "help"]
        usage = " ".join(command.format_usage().removeprefix("usage: ").split())
        about = command.description or summary
        parts += [f"## {name}", "", f"{about[:1].upper()}{about[1:].rstrip('.')}.", "", f"    {usage}", ""]
        parts += ["| argument | |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(parts)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """All commands below a parser: name, help, and the command's parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield command.prog, summaries.get(name, ""), command
                yield from _commands(command)


def _argument(action: argparse.Action) -> str:
    shown = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
    if not (meaning := action.help):
        raise LookupError(f"{action.dest}: an argument has no help; write one")
    return f"| {shown} | {_cell(_plain(meaning % vars(action) if '%(' in meaning else meaning))} |"


def _methods() -> str:
    """What `release.method` may be, and the parameters of each."""
    lines = ["## Methods", "", "Methods that `release.method` can name, with their parameters.", ""]
    for name in method_names():
        method = method_class(name)
        lines += [f"### `{name}`", "", _plain(_lead(method)), "", *_table(_documented(method), method), ""]
    return "\n".join(lines)


def meanings() -> str:
    """What each parameter of each method means, for forms that import no method."""
    found = {
        name: {field: _plain(text) for field, text in _documented(method_class(name)).items()}
        for name in method_names()
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def manifest_schema() -> str:
    """The JSON Schema of a published manifest, for programs that read it."""
    sections: dict[str, Any] = {}
    whole = _section_schema(Manifest, sections) | {"required": sorted(PUBLISHED)}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Manifest of a published release",
        **whole,
        "$defs": {name: sections[name] for name in sorted(sections)},
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _section_schema(section: type[ManifestSection], found: dict[str, Any]) -> dict[str, Any]:
    """The schema of a section; those that it refers to are added to `found`. Further fields are allowed."""
    meanings = _documented(section)
    fields = {
        name: {"description": _plain(meanings[name]), **_type_schema(hint, found)}
        for name, hint in section.known().items()
    }
    required = {"required": sorted(section.required())} if section.required() else {}
    return {"description": _plain(_lead(section)), "type": "object", "properties": fields, **required}


def _type_schema(hint: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type of a field."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind is UnionType:
        return {"anyOf": [_type_schema(option, found) for option in inner]}
    if kind is Mapping:
        return {"type": "object", "additionalProperties": _type_schema(inner[1], found)}
    if kind is tuple:
        return {"type": "array", "items": _type_schema(inner[0], found)}
    if inspect.isclass(hint) and issubclass(hint, ManifestSection):
        if hint.__name__ not in found:
            found[hint.__name__] = {}  # a section may hold sections of the same kind
            found[hint.__name__] = _section_schema(hint, found)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": _JSON[hint]} if hint in _JSON else {}


_JSON: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}


def _fields(model: type[pydantic.BaseModel], place: str) -> tuple[list[str], list[tuple[str, Any]]]:
    """Rows of the fields of a mapping, and the mappings that stand in them."""
    meanings = _documented(model)
    rows, inner = ["| field | value | default | |", "|---|---|---|---|"], []
    schema = in_keywords(model.model_json_schema(by_alias=True))
    for name, field in model.model_fields.items():
        shown = field.alias or name
        models = list(_models_in(field.annotation))
        inner += [(f"{place}.{shown}".strip("."), found) for found in models]
        meaning = meanings.get(name) or (_lead(models[0]) if models else None)
        if meaning is None:
            raise LookupError(f"{model.__name__}: field {name} has no meaning; describe it in the docstring")
        value = _value(schema["properties"][shown], schema.get("$defs", {}))
        default = "required" if field.is_required() else _shown(field.default)
        rows.append(f"| `{shown}` | {_cell(value)} | {_cell(default)} | {_cell(_plain(meaning))} |")
    return rows, inner


def _models_in(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _value(schema: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """What may stand in a field, in words."""
    if "$ref" in schema:
        return _value(known[schema["$ref"].rpartition("/")[2]], known)
    for several in ("anyOf", "oneOf"):
        if several in schema and "properties" not in schema:
            kinds = [_value(kind, known) for kind in schema[several] if kind.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if "const" in schema or "enum" in schema:
        words = schema.get("enum") or [schema["const"]]
        return ", ".join(f"`{word}`" for word in words) if len(words) < 12 else "a name, see below"
    if schema.get("type") == "array":
        parts = schema.get("prefixItems")
        return f"{len(parts)} values" if parts else f"list of: {_value(schema.get('items', {}), known)}"
    limits = [f"{sign} {schema[key]:g}" for key, sign in _LIMITS.items() if key in schema]
    return " ".join([_KINDS.get(schema.get("type", ""), "any"), *limits])


_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
_KINDS |= {"object": "mapping"}
_LIMITS = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}


def _table(meanings: Mapping[str, str], cls: type) -> list[str]:
    """Rows of the fields of a dataclass that stand in a file."""
    rows = []
    for field in dataclasses.fields(cls):
        if not field.init or (
            cls is ReleasePolicy and field.name in ("known_rows", "all_columns", "across", "attacks")
        ):
            continue  # in a file all models stand in `require`
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        shown = "required" if default is dataclasses.MISSING else _shown(default)
        meaning = _cell(_plain(meanings.get(field.name, "")))
        rows.append(f"| `{field.name}` | {_cell(shown)} | {meaning} |")
    return ["| field | default | |", "|---|---|---|", *rows] if rows else []


def _shown(default: Any) -> str:
    if default is None or default == () or default == {} or default == "":
        return ""
    if isinstance(default, str):
        return f"`{default!s}`"
    if isinstance(default, bool | int | float):
        return f"`{str(default).lower() if isinstance(default, bool) else default}`"
    if isinstance(default, tuple) and all(isinstance(part, str) for part in default):
        return f"`[{', '.join(default)}]`"
    if isinstance(default, pydantic.BaseModel):
        return (
            f"`{default.model_dump(exclude_defaults=True, mode='json') or default.model_dump(mode='json')}`"
        )
    return f"`{default!r}`"


def _documented(cls: type) -> dict[str, str]:
    """Meaning of each field of a class, those of its bases, and of a column those of what it is read into."""
    read_into = (Coding, DateForm, Attribute) if cls is AttributeSpec else ()
    found = {name: text for other in read_into for name, text in _entries(_doc(other)).items()}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] in ("privacy_engine", "privacy_release"):
            found |= _entries(_doc(base))
    return found


def _public(module: ModuleType) -> Iterator[Any]:
    """What users import of a module, in the order of its definitions."""
    for name, member in vars(module).items():
        if name in airflow_privacy_release.__all__ and member.__module__ == module.__name__:
            yield member


def _section(member: Any) -> str:
    lines = [f"### {member.__name__}{_call(member)}", "", _plain(_lead(member)), ""]
    method = getattr(member, "method", None)
    if isinstance(method, str):
        lines += [f"`method: {method}` in the file of a release.", ""]
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
    """Replace entries that only refer to another docstring by the text there."""
    found = {}
    for name, text in meanings.items():
        if not (elsewhere := _ELSEWHERE.fullmatch(text)):
            found[name] = text
        elif "." in elsewhere[1]:
            module, _, attribute = elsewhere[1].rpartition(".")
            found[name] = _described(getattr(importlib.import_module(module), attribute))[name]
    return found


def settings() -> str:
    """Return the page of settings, from the provider's options."""
    options = get_provider_info()["config"][SECTION]["options"]
    return SETTINGS + "".join(
        f"| `{name}` | {f'`{VARIABLES[name]}`' if name in VARIABLES else ''} "
        f"| {_cell(option['description'].partition(' The environment variable ')[0])} "
        f"| {f'`{shown}`' if (shown := option.get('example') or option.get('default')) else ''} |\n"
        for name, option in options.items()
    )


def _lead(documented: Any) -> str:
    """The docstring up to its first section."""
    return _SECTION.split(_doc(documented))[0].strip()


def _doc(documented: Any) -> str:
    # Not inspect.getdoc: it would give a class the docstring of its base.
    return _DOCTEST.sub("", inspect.cleandoc(documented.__doc__ or ""))


def _plain(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: Mapping[str, Callable[[], str]] = {
    "reference.md": operators,
    "reference_files.md": files,
    "reference_commands.md": commands,
    "settings.md": settings,
    "../privacy_release/spec/parameters.json": meanings,
    "manifest.schema.json": manifest_schema,
}

if __name__ == "__main__":
    for page, made in PAGES.items():
        (FOLDER / page).write_text(made(), encoding="utf-8")
        sys.stdout.write(f"{FOLDER / page} written\n")
