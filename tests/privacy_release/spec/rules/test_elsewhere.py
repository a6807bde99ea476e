"""Every function that refuses is called from a rule, or on the list of those that decide elsewhere."""

import ast
import re
from collections.abc import Iterator

from deploy.local.embedded import checkout
from privacy_release.spec.rules.elsewhere import EXEMPTIONS, Reason

ROOTS = ("privacy_release", "operators/airflow_privacy_release")
LISTED = {(found.module, found.name) for found in EXEMPTIONS}


def functions(node: ast.AST, inside: str = "") -> Iterator[str]:
    """Qualified names of the functions and methods of a module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inside + child.name
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{inside}{child.name}.")


def refusals(source: str) -> set[str]:
    """Qualified names of the functions of a module that refuse, by their names."""
    if not re.search(r"\bdef (refuse|require)_", source):  # much faster than parsing
        return set()
    found = functions(ast.parse(source))
    return {name for name in found if name.rpartition(".")[2].startswith(("refuse_", "require_"))}


def called(source: str) -> set[str]:
    """Names of the functions and methods that a module calls."""
    functions = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {getattr(function, "attr", getattr(function, "id", "")) for function in functions}


def sources() -> Iterator[tuple[str, str]]:
    """Dotted name and source of each module that may refuse a release."""
    for root in map(checkout().joinpath, ROOTS):
        for file in sorted(root.rglob("*.py")):
            yield ".".join(file.relative_to(root.parent).with_suffix("").parts), file.read_text("utf-8")


def test_what_refuses_is_called_from_a_rule_or_listed_with_the_reason() -> None:
    catalogue = (checkout() / "privacy_release" / "spec" / "rules").glob("*.py")
    judged = set().union(*(called(file.read_text("utf-8")) for file in catalogue))
    found = {(module, name) for module, source in sources() for name in refusals(source)}
    of_rules = {(module, name) for module, name in found if name.rpartition(".")[2] in judged}
    assert found - of_rules - LISTED == set(), "make it a rule, or list it in spec/rules/elsewhere.py"
    assert of_rules & LISTED == set(), "a rule calls it: take it off the list"


def test_what_is_listed_exists_once() -> None:
    modules = {module for module, _ in LISTED}
    there = {
        (module, name)
        for module, source in sources()
        if module in modules
        for name in functions(ast.parse(source))
    }
    assert LISTED - there == set()
    assert len(LISTED) == len(EXEMPTIONS)
    assert {found.reason for found in EXEMPTIONS} == set(Reason)


def test_a_new_refusal_would_be_found() -> None:
    source = "def refuse_it(): ...\nclass Reading:\n    def require_fit(self): self.require_left()\n"
    assert refusals(source) == {"refuse_it", "Reading.require_fit"}
    assert called(source) == {"require_left"}


def test_the_documentation_has_a_row_for_each_refusal_elsewhere() -> None:
    text = (checkout() / "docs" / "rules.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `") and ":" in line.split("|")[1]]
    assert rows == [
        f"| `{found.module}:{found.name}` | {found.about} | {found.reason} |" for found in EXEMPTIONS
    ]
