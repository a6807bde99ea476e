"""Find the line of a problem in a file, from the path of its field.

A file is only read a second time if something is wrong with it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from privacy_engine.errors import PrivacyEngineError, Problem, ProblemsError
from privacy_release.config.problems import problems_in, shortened
from privacy_release.spec.reading import LARGEST_JSON, compose, read_text

_LONGEST = 2_000  # characters of a problem
# A field as sentences write it: `release.k`, `schema.age`.
_NAMED = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")


def located(file: Path, error: PrivacyEngineError) -> ProblemsError:
    """Add line numbers to the problems of an error.

    A problem without a path is located at the first field that its sentence names: a rule about several
    fields begins with one of them.

    Args:
        file: File that was read. Problems of other files, such as the policy, are unchanged.
        error: Error with the problems.
    """
    return at_lines(file, problems_in(error))


def at_lines(file: Path, problems: Iterable[Problem]) -> ProblemsError:
    """Add line numbers to the problems of a file, see `located`."""
    root, fields = _root(file), _Fields()
    return ProblemsError(p if p.file is not None else _placed(p, file, root, fields) for p in problems)


class _Fields:
    """The fields of each mapping of a file, cached, because thousands of problems may be in one mapping."""

    def __init__(self) -> None:
        self._of: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}

    def of(self, node: yaml.MappingNode) -> Mapping[str, tuple[yaml.Node, yaml.Node]]:
        """Return key and value by name. If a name is repeated, the first one counts."""
        if id(node) not in self._of:
            pairs = [pair for pair in node.value if isinstance(pair[0], yaml.ScalarNode)]
            self._of[id(node)] = {pair[0].value: pair for pair in reversed(pairs)}
        return self._of[id(node)]


def _placed(problem: Problem, file: Path, root: yaml.Node | None, fields: _Fields) -> Problem:
    text, name = shortened(problem.text, _LONGEST), shortened(str(file), _LONGEST)
    if problem.line is not None or root is None:
        return replace(problem, text=text, file=name)
    line, path, node = _walked(root, problem.path, fields)
    if len(path) == len(problem.path):
        for found in _NAMED.findall(text):
            deeper = _walked(node, tuple(found.split(".")), fields)
            if deeper[1]:
                line, path = deeper[0], (*path, *deeper[1])
                break
    whole = problem.path if len(problem.path) > len(path) else path
    return replace(problem, text=text, file=name, path=whole, line=line if whole else None)


def _walked(
    node: yaml.Node, path: Sequence[str | int], fields: _Fields
) -> tuple[int, tuple[str | int, ...], yaml.Node]:
    """Follow a path as far as the file has it. Return the line, that part of the path, and its node."""
    line, done = node.start_mark.line + 1, list[str | int]()
    for part in path:
        step = _step(node, part, fields)
        if step is None:
            break
        key, node = step
        line = key.start_mark.line + 1
        done.append(part)
    return line, tuple(done), node


def _step(node: yaml.Node, part: str | int, fields: _Fields) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return fields.of(node).get(part) if isinstance(part, str) else None
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _root(file: Path) -> yaml.Node | None:
    """Return the file as nodes, which know their lines. None if it cannot be read."""
    try:
        return compose(read_text(file, LARGEST_JSON))
    except (PrivacyEngineError, yaml.YAMLError, RecursionError):
        return None
