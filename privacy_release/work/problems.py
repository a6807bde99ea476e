"""Pydantic's findings in the words of a person who edits the file: field, what must hold, what to do."""

import difflib
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from privacy_engine.errors import SpecError

LONGEST = 2_000  # characters of what is wrong with a file
_LONGEST_NAME = 100
_MOST_PROBLEMS = 10
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")

# Names that pydantic puts into a location and no file has.
_TAGS = {"cron", "event", "redaction", "leave"}


def wrong(path: Path | str, problem: str, between: str = ": ") -> SpecError:
    """What is wrong with a file, short enough for a log and a page whatever the file holds."""
    return SpecError(f"{shortened(str(path), LONGEST)}{between}{shortened(problem, LONGEST)}")


def shortened(text: str, longest: int) -> str:
    """Text in one line of printable characters, cut after so many; a file may name a field by a megabyte.

    >>> shortened("a long name", 6)
    'a long...'
    """
    cut = f"{text[:longest]}..." if len(text) > longest else text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", cut)


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One sentence a problem. What was given is left out: it may be long, and the field is named."""
    found = error.errors(include_url=False, include_input=False)
    told = [_sentence(details, model) for details in found[:_MOST_PROBLEMS]]
    more = len(found) - len(told)
    return [*told, f"and {more:,} more"] if more else told


def _sentence(details: ErrorDetails, model: type[BaseModel]) -> str:
    path = [part for part in details["loc"] if part not in _TAGS]
    field = ".".join(shortened(str(part), _LONGEST_NAME) for part in path)
    match details["type"]:
        case "missing":
            return f"{field}: is missing; add it"
        case "extra_forbidden":
            known = _known(model, path[:-1])
            hint = _guess(shortened(str(path[-1]), _LONGEST_NAME), known)
            return f"{field}: is not a known field; remove it or take one of {known}{hint}"
        case "value_error":
            return f"{field}: {_text(details)}" if field else _text(details)
        case "string_pattern_mismatch":
            return f"{field}: must be 1 to 100 letters, digits, '_' or '-', no mark first; rename it"
    words = details["msg"].removeprefix("Input ").replace("should be", "must be", 1)
    return f"{field}: {words[0].lower()}{words[1:]}; correct it"


def _text(details: ErrorDetails) -> str:
    return details["msg"].removeprefix("Value error, ")


def _guess(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _known(model: type[BaseModel], path: list[int | str]) -> list[str]:
    """Fields of the mapping at a place of the file, by its JSON Schema."""
    root = model.model_json_schema(by_alias=True)
    here: dict[str, Any] = root
    for part in path:
        here = _object(here, root)
        here = here.get("properties", {}).get(part) or here.get("additionalProperties") or {}
    return sorted(_object(here, root).get("properties", {}))


def _object(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The mapping behind a reference or among alternatives."""
    if "$ref" in node:
        return _object(root["$defs"][node["$ref"].rsplit("/", 1)[1]], root)
    for alternative in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        found = _object(alternative, root)
        if "properties" in found:
            return found
    return node
