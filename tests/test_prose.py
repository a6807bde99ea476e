"""The words of the project: entries that can be read by themselves, and words that it does not use."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.import_graph import ROOT, modules, statements, tree

PACKAGES = ("privacy_engine", "privacy_release", "operators")
SECTIONS = ("Args:", "Attributes:")
LEAST_WORDS = 3  # of an entry: what it is, its shape or unit, its default

FOLDERS = (*PACKAGES, "benchmarks", "dags", "deploy", "docs", "include", "tests", ".ci")
THIS = "tests/test_prose.py"  # which has the words
SUFFIXES = {
    ".py",
    ".pyi",
    ".j2",
    ".md",
    ".yaml",
    ".yml",
    ".toml",
    ".json",
    ".js",
    ".css",
    ".html",
    ".sh",
    ".txt",
}
FILES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "Dockerfile"),
    *("conftest.py", "docker-compose.yaml", "mkdocs.yml", "privacy_release.toml", "pyproject.toml"),
)

# Word -> what to write instead.
UNUSED = {
    "told": "reported, passed",
    "whoever": "anyone who, the user who",
    "somebody": "someone, a reviewer",
    "nobody": "no one, no person",
    "anew": "again",
    "mend": "fix, remedy",
    "so many": "a number of, N",
    "put back": "restored",
    "held against": "compared with, checked against",
    "goes by": "follows, uses",
    "as ever": "as before",
    "of its own": "its own, separate",
}
DOCUMENTED = '''
def f(a, b):
    """Do it.

    Args:
        a: Schema of the records.

    Attributes:
        {entry}

    Raises:
        ValueError: if not.
    """
'''
RARE = ("alone", "stands", "leave", "asked", "beside", "tell", "who wants")


def entries(docstring: str) -> Iterator[tuple[str, str]]:
    """The names and texts of the entries of `Args:` and `Attributes:`, each text on one line."""
    inside, name, text = False, "", ""
    for line in [*docstring.splitlines(), "end"]:
        indent = len(line) - len(line.lstrip())
        if inside and name and indent > 4:
            text += f" {line.strip()}"
            continue
        if name:
            yield name, text
            name = ""
        if line.strip() and not indent:
            inside = line in SECTIONS
        elif inside and indent == 4 and (entry := re.match(r"([^:]+):(?: (.*))?$", line.strip())):
            name, text = entry[1], entry[2] or ""


def fault(text: str) -> str:
    """Why the text of an entry cannot be read by itself; empty if it can."""
    if not re.match(r"[A-Z0-9`(\[]", text):
        return "it must begin with a capital letter, a digit, a backtick or a bracket"
    if first := re.match(r"(Of|That|Who|Whose|What|As|To|By)\b", text):
        return f"it must begin with a noun, not with {first[1]}"
    if len(text.split()) < LEAST_WORDS:
        return f"it must have at least {LEAST_WORDS} words: what it is, its shape or unit, its default"
    return ""


def faults(module: ast.Module) -> Iterator[str]:
    """The entries in the docstrings of a module that cannot be read by themselves."""
    for node in chain([module], statements(module)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node, clean=False) or ""
            if not any(section in documented for section in SECTIONS):
                continue
            for name, text in entries(inspect.cleandoc(documented)):
                if reason := fault(text):
                    yield f"{getattr(node, 'name', 'module')}: `{name}: {text}`: {reason}"


def pattern(word: str) -> re.Pattern[str]:
    """Find a word in lower case, in names as well; several words also across lines of comments, of strings.

    The pattern begins with a letter, which makes the search much faster; the caller checks what is before it.
    """
    ending = "(?:s|ed|ing)?" if word == "mend" else ""
    spaced = r"[\s\"'#*>]+".join(word.split())
    return re.compile(rf"{spaced}{ending}(?![a-z])")


@cache
def texts() -> list[tuple[str, str]]:
    """The path and content of each file that people write, except this one, in lower case."""
    paths = [ROOT / name for name in FILES]
    for folder in FOLDERS:
        found = (path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
        paths += sorted(path for path in found if "node_modules" not in path.parts)
    return [
        (name, path.read_text(encoding="utf-8").lower())
        for path in paths
        if (name := path.relative_to(ROOT).as_posix()) != THIS
    ]


def package_of(path: str) -> str:
    parts = Path(path).parts
    return "/".join(parts[:2]) if parts[0] in PACKAGES and len(parts) > 2 else parts[0]


def places(word: str, path: str, text: str) -> list[str]:
    """The lines of a text in lower case on which a word is."""
    if not all(part in text for part in word.split()):  # much faster than the search
        return []
    return [
        f"{path}:{text.count(chr(10), 0, found.start()) + 1}"
        for found in pattern(word).finditer(text)
        if not re.match("[a-z]", text[max(0, found.start() - 1) : found.start()])
    ]


def test_each_argument_and_attribute_is_described_by_itself() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {one}"
        for module, path in modules().items()
        if any(section in path.read_text(encoding="utf-8") for section in SECTIONS)
        for one in faults(tree(module))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("of the released records.", "a capital letter"),
        ("Of the released records.", "a noun, not with Of"),
        ("What is left of the budget.", "a noun, not with What"),
        ("As for `verify`.", "a noun, not with As"),
        ("Released records.", "at least 3 words"),
        (">= 1, number of records.", "a capital letter"),
        ("", "a capital letter"),
    ],
)
def test_an_entry_that_cannot_be_read_by_itself_is_found(text: str, reason: str) -> None:
    (found,) = faults(ast.parse(DOCUMENTED.format(entry=f"b: {text}")))
    assert found.startswith("f: `b: ")
    assert reason in found


def test_an_entry_of_several_lines_is_read_as_a_whole() -> None:
    assert not list(faults(ast.parse(DOCUMENTED.format(entry="b: Records\n            of the release."))))
    (found,) = faults(ast.parse(DOCUMENTED.format(entry="b:\n            of the release.")))
    assert "a capital letter" in found


@pytest.mark.parametrize(
    "text", ["Number of records.", "`skip` or `fail`.", "(n,) class of a record.", "2 or more."]
)
def test_an_entry_that_can_be_read_by_itself_is_fine(text: str) -> None:
    assert not fault(text)


@pytest.mark.parametrize("word", UNUSED)
def test_a_word_is_not_used(word: str) -> None:
    found = [place for path, text in texts() for place in places(word, path, text)]
    assert not found, f"write {UNUSED[word]} instead of {word}: {', '.join(found)}"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("told", "def codes_told(self):"),
        ("told", "Told in counts"),
        ("nobody", "nobody's"),
        ("mend", "which no epsilon mends"),
        ("mend", "mended = 1"),
        ("so many", "# in so\n# many rows"),
        ("of its own", '"a file of its "\n    "own"'),
        ("as ever", "the same as  ever"),
    ],
)
def test_a_word_is_found(word: str, text: str) -> None:
    assert places(word, "a", text.lower()) == ["a:1"]


@pytest.mark.parametrize(
    ("word", "text"),
    [("mend", "recommended"), ("mend", "amend"), ("anew", "Manew"), ("of its own", "of its owner")],
)
def test_a_part_of_another_word_is_not_found(word: str, text: str) -> None:
    assert not places(word, "a", text.lower())


@pytest.mark.slow  # it claims nothing
def test_words_to_use_with_care_are_counted() -> None:
    """Only prints, for `pytest -s`."""
    counts: dict[str, Counter[str]] = {}
    for path, text in texts():
        count = counts.setdefault(package_of(path), Counter())
        count.update({word: len(places(word, path, text)) for word in RARE})
    print(f"\n{'':40}" + "".join(f"{word:>10}" for word in RARE))  # noqa: T201
    for package, count in sorted(counts.items()):
        if count.total():
            print(f"{package:40}" + "".join(f"{count[word]:10}" for word in RARE))  # noqa: T201
