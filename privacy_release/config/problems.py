"""Pydantic's errors in words for the author of the file: field, requirement, remedy."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import (
    LONGEST,
    MOST_PROBLEMS,
    PrivacyEngineError,
    Problem,
    ProblemsError,
    SpecError,
)

_LONGEST_NAME = 100
_LONGEST_WORD = 40  # characters of a quoted word
_MOST_LOOKED_AT = 100  # largest number of described problems of a file
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_CLOSED = {"literal_error", "enum"}  # pydantic's errors if one of some words is required

# Names that pydantic puts into a location and that no file has.
_TAGS = {"cron", "event", "redaction", "leave", "suite_file", "named_checkpoint"}


def wrong(path: Path | str, problem: str, between: str = ": ") -> SpecError:
    """Return an error about a file, short enough for a log and a page whatever the file contains."""
    place, text = shortened(str(path), LONGEST), shortened(problem, LONGEST)
    if isinstance(path, Path) and between == ": ":
        return ProblemsError([Problem(text=text, file=place)])
    return SpecError(f"{place}{between}{text}")


def shortened(text: str, longest: int) -> str:
    """Return text in one line of printable characters, cut to a length. A field's name may be a megabyte.

    >>> shortened("a long name", 6)
    'a long...'
    """
    cut = f"{text[:longest]}..." if len(text) > longest else text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", cut)


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return one sentence per problem."""
    found = found_in(error, model)
    sentences = [problem.text for problem in found[:MOST_PROBLEMS]]
    more = len(found) - len(sentences)
    return [*sentences, f"and {more:,} more"] if more else sentences


def found_in(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Return each problem with its place. Only numbers, and words in place of fixed words, are quoted."""
    found = error.errors(include_url=False)
    problems = [
        Problem(text=_sentence(details, model), path=tuple(_path(details)))
        for details in found[:_MOST_LOOKED_AT]
    ]
    more = len(found) - len(problems)
    return [*problems, Problem(text=f"and {more:,} more")] if more else problems


def gathered(rules: Iterable[Callable[[], object]]) -> list[Problem]:
    """Return all problems that independent rules report."""
    found = list[Problem]()
    for rule in rules:
        try:
            rule()
        except PrivacyEngineError as error:
            found += problems_in(error)
    return found


def problems_in(error: PrivacyEngineError) -> tuple[Problem, ...]:
    """Return the individual problems in an error."""
    return error.problems if isinstance(error, ProblemsError) else (Problem(text=str(error)),)


def raise_problems(found: Iterable[Problem]) -> None:
    """Raise if there are problems.

    Raises:
        ProblemsError: With all of them.
    """
    if problems := tuple(found):
        raise ProblemsError(problems)


def _path(details: ErrorDetails) -> list[int | str]:
    return [part for part in details["loc"] if part not in _TAGS]


def _sentence(details: ErrorDetails, model: type[BaseModel]) -> str:
    path = _path(details)
    field = ".".join(shortened(str(part), _LONGEST_NAME) for part in path)
    match details["type"]:
        case "missing":
            return f"{field}: is missing; add it"
        case "extra_forbidden":
            known = _known(model, path[:-1])
            hint = did_you_mean(path[-1], known)
            return f"{field}: is not a known field; remove it or take one of {known}{hint}"
        case "value_error":
            return f"{field}: {_text(details)}" if field else _text(details)
        case "string_pattern_mismatch":
            return f"{field}: must be 1 to 100 letters, digits, '_' or '-', no mark first; rename it"
    words = details["msg"].removeprefix("Input ").replace("should be", "must be", 1)
    return f"{field}: {words[0].lower()}{words[1:]}, got {_found(details)}; correct it{_meant(details)}"


def _text(details: ErrorDetails) -> str:
    return details["msg"].removeprefix("Value error, ")


def _found(details: ErrorDetails) -> str:
    """Return what was found: a number, or a word where another is required; otherwise only its type."""
    match details["input"]:
        case bool() | None as given:
            return {True: "true", False: "false", None: "null"}[given]
        case int() | float() as number:
            return shortened(str(number), _LONGEST_WORD)
        case str() as word if details["type"] in _CLOSED:
            return repr(shortened(word, _LONGEST_WORD))
        case str():
            return "text"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return "something else"


def _meant(details: ErrorDetails) -> str:
    if details["type"] not in _CLOSED:
        return ""
    return did_you_mean(
        details["input"], re.findall(r"'([^']+)'", str(details.get("ctx", {}).get("expected")))
    )


def _known(model: type[BaseModel], path: list[int | str]) -> list[str]:
    """Return the fields of the mapping at a place of the file, by its JSON Schema."""
    root = _json_schema(model)
    here: dict[str, Any] = root
    for part in path:
        here = _object(here, root)
        here = here.get("properties", {}).get(part) or here.get("additionalProperties") or {}
    return sorted(_object(here, root).get("properties", {}))


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def _object(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping behind a reference or among alternatives."""
    if "$ref" in node:
        return _object(root["$defs"][node["$ref"].rsplit("/", 1)[1]], root)
    for alternative in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        found = _object(alternative, root)
        if "properties" in found:
            return found
    return node
