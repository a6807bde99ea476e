"""The import graph of the three packages, read from their source."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.collector import no_collector

ROOT = Path(__file__).parent.parent
# Import name of a package -> the folder that contains it.
PACKAGES: Mapping[str, Path] = {
    "privacy_engine": ROOT,
    "privacy_release": ROOT,
    "airflow_privacy_release": ROOT / "operators",
}

# The fields of a node that hold statements, or what holds some.
_OF_STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the three packages by its dotted name."""
    found = {}
    for package, home in PACKAGES.items():
        for path in sorted((home / package).rglob("*.py")):
            parts = path.relative_to(home).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """Parse a module without the garbage collector, which would walk through all trees again and again."""
    with no_collector():
        return ast.parse(modules()[module].read_text())


@cache
def imports(module: str) -> frozenset[str]:
    """Dotted names that a module imports: inside functions and for type checkers, too."""
    return frozenset(imported_by(statements(tree(module))))


def imports_at_once(module: str) -> frozenset[str]:
    """Those that importing the module runs."""
    return frozenset(imported_by(_at_module_level(tree(module))))


def imported_by(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """The dotted names that these nodes import; a module of ours by its own name."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules() else node.module


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node, in functions and classes too; no expression holds one."""
    for inner in (getattr(node, name, ()) for name in _OF_STATEMENTS):
        for child in inner:
            yield child
            yield from statements(child)


def _at_module_level(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _at_module_level(child)


def top(name: str) -> str:
    return name.partition(".")[0]
