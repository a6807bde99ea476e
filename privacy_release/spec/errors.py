"""Pydantic's findings in the words of a person who edits the file: field, what must hold, what to do."""

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

# Names that pydantic puts into a location and no file has.
_TAGS = {"cron", "event"}


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One sentence a problem. What was given is left out: it may be long, and the field is named."""
    return [_sentence(details, model) for details in error.errors(include_url=False, include_input=False)]


def _sentence(details: ErrorDetails, model: type[BaseModel]) -> str:
    path = [part for part in details["loc"] if part not in _TAGS]
    field = ".".join(str(part) for part in path)
    match details["type"]:
        case "missing":
            return f"{field}: is missing; add it"
        case "extra_forbidden":
            known = _known(model, path[:-1])
            hint = _guess(str(path[-1]), known)
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
