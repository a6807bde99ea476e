"""Read files that users write as plain values. Any content leads to values or to one short error.

A release file is read at every parse of the DAGs and for the pages, so no content may take more than a
moment: sizes, depth and expansion of aliases are limited before anything is built.
"""

import json
import math
import os
import re
import stat
from collections.abc import Hashable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from privacy_engine.errors import LONGEST, Problem, ProblemsError, SpecError
from privacy_engine.plain_yaml import NUMBERS, require_plain_number
from privacy_release.config.problems import shortened, wrong

LARGEST_YAML = 1 << 20  # bytes
LARGEST_JSON = 2 << 20
LARGEST_HIERARCHY = 16 << 20
LARGEST_MANIFEST = 64 << 20  # written by this project, with full hierarchies
MOST_VALUES = 20_000  # values of a YAML file, including keys and expanded aliases
DEEPEST = 32
LONGEST_NUMBER = 400  # characters of a number
LARGEST_NUMBER = 2**128  # seeds may have this many bits
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "str", "timestamp", "float")
)
_COLLECTIONS = frozenset({"tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})
# The parser of libyaml is ten times faster, but PyYAML may have been built without it.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_text(path: Path, largest: int) -> str:
    """Return the text of a regular file, see `read_file` and `text_of`."""
    return text_of(read_file(path, largest), path)


def read_file(path: Path, largest: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        SpecError: If it cannot be read, or is too large.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(largest + 1) if regular else b""
    except (OSError, ValueError) as error:  # the latter for a null byte in the path
        kind = type(error).__name__
        raise wrong(path, f"must be a readable UTF-8 file, got {kind}; correct the path", " ") from None
    if not regular:
        raise wrong(path, "must be a regular file, not a pipe or a device; correct the path", " ")
    if len(data) > largest:
        raise wrong(path, f"must have at most {largest:,} bytes; write less into it")
    return data


def text_of(data: bytes, path: Path) -> str:
    """Return the text of a file's bytes, without a byte order mark.

    Raises:
        SpecError: If they are no UTF-8 text, or contain control characters such as NUL.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        kind = type(error).__name__
        raise wrong(path, f"must be a readable UTF-8 file, got {kind}; save it as UTF-8", " ") from None
    if found := _CONTROL.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise _wrong_at(path, line, "must contain no control characters; remove them")
    return text


def _wrong_at(path: Path, line: int | None, problem: str) -> ProblemsError:
    text, file = shortened(problem, LONGEST), shortened(str(path), LONGEST)
    return ProblemsError([Problem(text=text, file=file, line=line)])


def _open_at_once(path: str, flags: int) -> int:
    """Open without blocking on a pipe that has no writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_mapping(path: Path, largest: int | None = None) -> dict[str, Any]:
    """Return the fields of a YAML or JSON file of limited size, by default that of files that users write.

    Raises:
        SpecError: If it cannot be read, is no mapping, repeats a field, or contains unsupported values.
    """
    most = largest or (LARGEST_JSON if path.suffix == ".json" else LARGEST_YAML)
    return mapping_of(read_file(path, most), path)


def mapping_of(data: bytes, path: Path) -> dict[str, Any]:
    """Return the fields in the bytes of a YAML or JSON file.

    Raises:
        SpecError: As `read_mapping`.
    """
    text, as_json = text_of(data, path), path.suffix == ".json"
    try:
        fields = _from_json(text) if as_json else _from_yaml(text)
    except json.JSONDecodeError as error:
        raise _wrong_at(path, error.lineno, f"must be JSON; correct it: {error.msg}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "its form"
        raise _wrong_at(
            path, mark.line + 1 if mark else None, f"must be YAML; correct it: {problem}"
        ) from None
    except RecursionError:
        raise wrong(path, f"must be nested at most {DEEPEST} deep; write it flatter") from None
    except ValueError as error:  # raised here, or for a number with thousands of digits
        ours = isinstance(error, SpecError)
        raise wrong(path, str(error) if ours else "must hold no number of thousands of digits") from None
    if not isinstance(fields, dict):
        raise wrong(path, f"must be a mapping of fields, got {type(fields).__name__}; see include/releases")
    return fields


def _from_yaml(text: str) -> Any:
    _require_small(yaml.parse(text, Loader=_Parser))
    return yaml.load(text, Loader=_PlainLoader)


def compose(text: str) -> yaml.Node | None:
    """Parse YAML or JSON to nodes, which know their lines. None if it is empty.

    Raises:
        yaml.YAMLError: If it is no YAML, or larger or deeper than any real file.
    """
    _require_small(yaml.parse(text, Loader=_Parser))
    found: yaml.Node | None = yaml.compose(text, Loader=_Parser)
    return found


def _fault(problem: str, place: Any) -> ConstructorError:
    """Return an error at a node or event, with its line."""
    return ConstructorError(None, None, problem, place.start_mark)


def _require_small(events: Iterator[yaml.Event]) -> None:
    """Refuse what would take long to build, based on the events: depth, and expansion of aliases."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    count = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise _fault("an alias must come after what it names, and outside of it", event)
            count += sizes[event.anchor]
        elif isinstance(event, yaml.NodeEvent):
            count += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append((event.anchor, count - 1))
            elif event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        if len(open_) > DEEPEST:
            raise _fault(f"it is nested more than {DEEPEST} deep", event)
        if count > MOST_VALUES:
            raise _fault(f"it has more than {MOST_VALUES:,} values, aliases written out", event)


class _PlainLoader(_Parser):  # type: ignore[misc]  # one of two classes, both of PyYAML
    """YAML of plain values without repeated keys: the last role of a column would silently win."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Build a value. Unsupported values are an error with their line."""
        if isinstance(node, yaml.ScalarNode):
            self._require_plain(node)
        elif node.tag not in _COLLECTIONS:
            raise _fault("a tag is not allowed here, remove it", node)
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError):
            raise _fault(
                "a value must be what its form suggests: there is no such date or number; correct it, or put "
                "quotes around it",
                node,
            ) from None
        if problem := _problem_of(value):
            raise _fault(problem, node)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping. A repeated key, or one that is no text, is an error."""
        if not isinstance(node, yaml.MappingNode):
            raise _fault("a tag is not allowed here, remove it", node)
        if any(key.tag != "tag:yaml.org,2002:str" for key, _ in node.value):
            raise _fault(
                "the name of a field must be text: put quotes around a number, a date, and words such as yes "
                "or no; merge keys (<<) and lists are none",
                node,
            )
        names = [self.construct_object(key) for key, _ in node.value]
        if len(set(names)) < len(names):
            raise _fault("a field appears twice here, remove one", node)
        built: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return built

    @staticmethod
    def _require_plain(node: yaml.ScalarNode) -> None:
        if node.tag not in _TAGS:
            raise _fault("a tag is not allowed here, remove it", node)
        if node.tag in NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise _fault(f"a number must have at most {LONGEST_NUMBER} characters", node)
        require_plain_number(node)


def _from_json(text: str) -> Any:
    value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    inside: list[tuple[Any, int]] = [(value, 0)]
    while inside:
        here, depth = inside.pop()
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(here, dict | list):
            inside += [(part, depth + 1) for part in (here.values() if isinstance(here, dict) else here)]
        elif problem := _problem_of(here):
            raise SpecError(problem)
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise SpecError("a field occurs twice in a mapping; remove one")
    if any(_problem_of(name) for name in fields):
        raise SpecError("the name of a field must contain no control characters; rename it")
    return fields


def _refuse_constant(name: str) -> Any:
    raise SpecError(f"must contain only finite numbers, got {name}; correct it")


def _problem_of(value: object) -> str | None:
    """Return why a value is not allowed, or None. Databases accept no NUL and no surrogate."""
    match value:
        case str():
            return "text must contain no control characters" if _CONTROL.search(value) else None
        case bool() | None | date() | list() | dict():
            return None
        case int():
            return None if abs(value) < LARGEST_NUMBER else "a whole number must have at most 38 digits"
        case float():
            return None if math.isfinite(value) else "a number must be finite"
    return "a value must be text, a number, true, false or null"
