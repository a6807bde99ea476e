"""Build the expectations of a suite from its JSON form: all of them, or an error that names the wrong ones.

`great_expectations.ExpectationSuite` only logs an expectation that it does not know, and continues without
it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import Problem, ProblemsError, SpecError
from privacy_release.expectations.conditions import rebuilt
from privacy_release.expectations.known import ALLOWED, is_right, is_version_of_table
from privacy_release.expectations.lean_import import import_great_expectations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from great_expectations.expectations.expectation import Expectation

SUITE_KEYS = frozenset({"name", "expectations", "suite_parameters", "meta", "notes", "id"})
ENTRY_KEYS = frozenset(
    {"type", "kwargs", "severity", "meta", "notes", "description", "id", "rendered_content"}
)
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
POSITION = "position_in_suite"  # key of the metadata by which a result is matched


def build_suite(suite: Mapping[str, Any]) -> tuple[str, list[Expectation]]:
    """Return the name of a suite, and its expectations, each with its `POSITION` (from 0) in its metadata.

    Args:
        suite: ``{name, expectations: [{type, kwargs, severity}]}``. Other fields that Great Expectations
            writes are ignored.

    Raises:
        SpecError: If the suite is empty, or expectations are unknown or have wrong arguments, naming all.
    """
    name, entries = _entries(suite)
    import_great_expectations()
    return name, _built(name, entries)


def require_right(suite: Mapping[str, Any]) -> None:
    """Raise like `build_suite`, but import Great Expectations only for unusual or wrong expectations.

    Raises:
        SpecError: As `build_suite`.
    """
    _, entries = _entries(suite)
    if not (is_version_of_table() and all(map(is_right, entries))):
        build_suite(suite)


def _entries(suite: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the name and the expectations of a suite, in a form that Great Expectations can build."""
    name, entries = suite.get("name"), suite.get("expectations")
    if not isinstance(name, str) or not name:
        raise SpecError("a suite of expectations must have a name; add one")
    if unknown := sorted(str(key) for key in suite.keys() - SUITE_KEYS):
        raise SpecError(f"suite {name!r}: unknown fields {unknown}; correct or remove them")
    if not isinstance(entries, list) or not entries:
        raise SpecError(
            f"suite {name!r}: expectations must be a list of at least one, or nothing is checked; add one"
        )
    for number, entry in enumerate(entries, start=1):
        place = f"suite {name!r}, expectation {number}"
        if not hasattr(entry, "keys") or not isinstance(entry.get("type"), str):
            raise _wrong(number, f"{place}: must be a mapping with a type, and kwargs; correct it")
        if unknown := sorted(str(key) for key in entry.keys() - ENTRY_KEYS):
            text = f"{place}, {entry['type']}: unknown fields {unknown}; correct or remove them"
            raise _wrong(number, text + did_you_mean(unknown[0], ENTRY_KEYS))
        if not isinstance(entry.get("kwargs", {}), dict):
            raise _wrong(number, f"{place}, {entry['type']}: kwargs must be a mapping; correct it")
    return name, entries


def _wrong(number: int, text: str) -> ProblemsError:
    return ProblemsError([Problem(text=text, path=("expectations", number - 1))])


def _built(name: str, entries: Sequence[Mapping[str, Any]]) -> list[Expectation]:
    """Return the expectations with their positions. One error names all that cannot be built."""
    expectations, problems = [], []
    for position, entry in enumerate(entries):
        made = _build(entry, position)
        if isinstance(made, str):
            text = f"{entry['type']} (number {position + 1}): {made}; correct the suite"
            problems.append(Problem(text=text, path=("expectations", position)))
        else:
            expectations.append(made)
    if problems:
        found = f"suite {name!r}: {len(problems)} of {len(entries)} expectations cannot be built"
        raise ProblemsError(replace(problem, text=f"{found}: {problem.text}") for problem in problems)
    return expectations


def _build(entry: Mapping[str, Any], position: int) -> Expectation | str:
    """Return an expectation, or what is wrong with it."""
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError, GreatExpectationsError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    import privacy_release.expectations.table_expectations  # noqa: F401  registers this package's expectations

    if entry["type"] not in ALLOWED:
        return f"no such expectation is run here{did_you_mean(entry['type'], ALLOWED)}"
    kwargs = dict(entry.get("kwargs", {}))
    try:
        _confine(kwargs)
    except SpecError as error:
        return str(error)
    severities = [severity.value for severity in FailureSeverity]
    severity = entry.get("severity", FailureSeverity.CRITICAL.value)
    if severity not in severities:
        return f"severity must be one of {severities}"
    try:
        expectation = ExpectationConfiguration(
            type=entry["type"],
            kwargs=kwargs,
            severity=FailureSeverity(severity),
        ).to_domain_obj()
    except ExpectationNotFoundError:
        known = list_registered_expectation_implementations()
        return f"no such expectation{did_you_mean(entry['type'], known)}"
    except ValidationError as error:
        return ", ".join(_argument_problem(problem) for problem in error.errors())
    except (GreatExpectationsError, TypeError, ValueError) as error:
        return f"its arguments were refused ({type(error).__name__})"
    if expectation.suite_parameter_options:
        return "its arguments must be given in place, not by $PARAMETER"
    expectation.id, expectation.meta = None, {POSITION: position}  # overrides the arguments
    return expectation


def _confine(kwargs: dict[str, Any]) -> None:
    """Remove arguments of an expectation that would run code or fetch an address.

    Raises:
        SpecError: If a row condition is invalid, or a JSON schema refers to addresses.
    """
    if kwargs.get("row_condition") is not None:
        condition, parser = kwargs["row_condition"], kwargs.get("condition_parser", "pandas")
        if not isinstance(condition, str) or parser != "pandas":
            raise SpecError("a row_condition must be text, and its condition_parser must be pandas")
        kwargs |= {"row_condition": rebuilt(condition), "condition_parser": "pandas"}
    if "json_schema" in kwargs:
        _refuse_outside(kwargs["json_schema"])


def _refuse_outside(schema: Any) -> None:
    """Raise if a JSON schema has references that lead out of it, because they would be fetched."""
    if isinstance(schema, dict):
        for name, item in schema.items():
            if name in _REFERENCES and not (isinstance(item, str) and item.startswith("#")):
                raise SpecError(
                    f"json_schema: {name} must lead to a place in the schema itself, such as #/$defs/a"
                )
            _refuse_outside(item)
    elif isinstance(schema, list):
        for item in schema:
            _refuse_outside(item)


def _argument_problem(problem: Mapping[str, Any]) -> str:
    """Return the argument and the rule. Only pydantic's own texts, which have a code, never quote a value."""
    argument = ".".join(str(part) for part in problem["loc"])
    if "." in problem["type"]:
        return f"{argument}: {problem['msg']}"
    return "the arguments do not fit together" if argument == "__root__" else f"{argument}: not allowed"
