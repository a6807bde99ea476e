"""Print the test files of a change: `python -m tests.changed [REVISION]`, or `make test-change`.

A file has changed if it differs from the revision (HEAD unless given) or is not tracked yet. Its tests are
the files that mirror it or import it, and the same for each module that imports it directly. A helper of the
tests stands for all test files that reach it through imports, a `conftest.py` for its folder, and any other
file of a package for the modules beside it.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from tests.import_graph import ROOT

ALWAYS = "tests/test_architecture.py"
# Folder of sources -> folder of the tests that mirror it; the first that fits counts.
MIRRORS: Mapping[str, str] = {
    "operators/airflow_privacy_release": "tests/airflow_privacy_release",
    "deploy/local": "tests/local",
    "deploy": "tests/production",
    "docs": "tests/test_docs.py",
    "include": "tests/dags/test_runs.py",
    ".": "tests",
}


def files_for(changed: Iterable[str], sources: Mapping[str, str]) -> list[str]:
    """List the test files to run.

    Args:
        changed: Paths relative to the root, also of files that were removed.
        sources: Text of every Python file by its path relative to the root.
    """
    graph = _Imports(sources)
    found = {ALWAYS}
    for path in changed:
        if path.startswith("tests/") or path == "conftest.py":
            found |= graph.tests_that_reach(path)
            continue
        modules = {path} if path.endswith(".py") else _beside(path, sources)
        for module in modules | {user for one in modules for user in graph.users.get(one, ())}:
            found |= set(_mirrors(module, sources)) | {
                user for user in graph.users.get(module, ()) if _is_test(user)
            }
        if not modules:
            found |= set(_mirrors(path, sources))
    return sorted(found & set(sources))


class _Imports:
    """Who imports each file.

    Attributes:
        users: Files that import a file directly, by its path.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        files = {_dotted(path): path for path in sources}
        self.users: dict[str, set[str]] = {path: set() for path in sources}
        for path, text in sources.items():
            for name in _names(ast.parse(text)):
                if (target := files.get(name)) is not None:
                    self.users[target].add(path)
        self._tests = {path for path in sources if _is_test(path)}

    def tests_that_reach(self, path: str) -> set[str]:
        """Test files below a conftest's folder, or that import a file of the tests, however indirectly."""
        if PurePosixPath(path).name == "conftest.py":
            folder = str(PurePosixPath(path).parent)
            return {test for test in self._tests if folder == "." or test.startswith(f"{folder}/")}
        reached, waiting = set(), [path]
        while waiting:
            if (one := waiting.pop()) not in reached:
                reached.add(one)
                waiting += self.users.get(one, ())
        below = {
            test for one in reached if one.endswith("conftest.py") for test in self.tests_that_reach(one)
        }
        return below | (reached & self._tests)


def _names(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a file imports or, as a registry does, names in "module:attribute".

    `from a import b` may mean the module `a.b`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield node.value.partition(":")[0]
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _dotted(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[1:] if parts[0] == "operators" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and PurePosixPath(path).name.startswith("test_")


def _mirrors(path: str, sources: Mapping[str, str]) -> Iterator[str]:
    """Test files named after a file, in the folder that mirrors its own; for data, all in that folder."""
    place = PurePosixPath(path)
    if place.suffix != ".py" and len(place.parts) == 1:
        return
    source = next(PurePosixPath(folder) for folder in MIRRORS if place.is_relative_to(folder))
    mirror = MIRRORS[str(source)]
    if mirror.endswith(".py"):
        yield mirror
        return
    folder = f"{PurePosixPath(mirror) / place.relative_to(source).parent}/"
    prefix = f"{folder}test_{place.stem}" if place.suffix == ".py" else folder
    for test in sources:
        if _is_test(test) and test.startswith(prefix):
            yield test


def _beside(path: str, sources: Mapping[str, str]) -> set[str]:
    """Modules in the nearest folder above a file that has any, below the top level."""
    for folder in PurePosixPath(path).parents:
        if folder != PurePosixPath(".") and (
            found := {one for one in sources if PurePosixPath(one).parent == folder and not _is_test(one)}
        ):
            return found
    return set()


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments, "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return list(filter(None, done.stdout.split("\0")))


def main(revision: str = "HEAD") -> None:
    """Print the test files of what differs from a revision."""
    tracked, untracked = _git("ls-files"), _git("ls-files", "--others", "--exclude-standard")
    changed = {*_git("diff", "--name-only", "--no-renames", revision), *untracked}
    python = [path for path in [*tracked, *untracked] if path.endswith(".py") and Path(ROOT, path).exists()]
    sources = {path: Path(ROOT, path).read_text(encoding="utf-8") for path in python}
    sys.stdout.writelines(f"{test}\n" for test in files_for(changed, sources))


if __name__ == "__main__":
    main(*sys.argv[1:])
