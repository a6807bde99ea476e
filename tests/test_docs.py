"""The pages of the documentation say what the code does, and lead where they say."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_privacy_release
import privacy_engine
import privacy_release

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"( *)(?:[-*+]|\d{1,2}\.) ")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_the_pages_of_reference_are_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    for page, text in made["PAGES"].items():
        written = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert written == text(), f"{page}: the code has changed: run `make docs`, and commit the page"


def test_the_operators_of_methods_and_the_stubs_are_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_operators.py"))
    for file, text in made["FILES"].items():
        assert (ROOT / file).read_text(encoding="utf-8") == text(), f"{file}: run `make docs`, and commit it"


def test_an_operator_is_made_of_a_method_without_its_own_parameters() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_operators.py"))
    text = made["_class"]("AOperator", "Base", docstring=(), attributes=(), arguments=(), body=["pass"])
    ast.parse(text)


@pytest.mark.slow  # runs the type checker; that lists and stubs agree is quick
@pytest.mark.timeout(900)
def test_an_editor_knows_the_type_of_every_exported_name(tmp_path: Path) -> None:
    packages = (airflow_privacy_release, privacy_engine, privacy_release)
    names = [(package.__name__, name) for package in packages for name in package.__all__]
    lines = [f"import {package.__name__}" for package in packages]
    lines += [f"reveal_type({package}.{name})" for package, name in names]
    used = tmp_path / "used.py"
    used.write_text("\n".join(lines) + "\n")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", str(used)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    revealed = re.findall(r'Revealed type is "(.*)"', run.stdout)
    assert len(revealed) == len(names), run.stdout
    assert not [name for name, kind in zip(names, revealed, strict=True) if kind == "Any"]


def test_the_operator_reference_has_every_public_name() -> None:
    headings = set(re.findall(r"^### (\w+)", (ROOT / "docs/reference.md").read_text(), re.MULTILINE))
    assert headings == set(airflow_privacy_release.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_the_readme_is_read_in_one_go() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def test_a_page_is_read_in_one_go() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    read = re.findall(r"- (\w+\.md)", listed.partition("- Reference:")[0])
    assert read
    assert not {
        page for page in read if len((ROOT / "docs" / page).read_text(encoding="utf-8").split()) > 1_500
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_its_heading(page: Path) -> None:
    """Otherwise the site names the page after its file."""
    assert page.read_text(encoding="utf-8").startswith("# ")


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = HEADING.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_are_lists_on_the_site_too(page: Path) -> None:
    assert not misplaced(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("One:\n\n1. a\n   b\n\n    ```\n  - code\n    ```\n\n    - c\n2. d\n", []),
        ("One:\n- a\n- b\n", ["- a"]),  # a paragraph
        ("1. a\n   - b\n", ["   - b"]),  # an item of the outer list
        ("1. a\n\n   b\n2. c\n", ["   b"]),  # the end of the list, and a new one from 1
        ("- a\n\n```\nb\n```\n- c\n", ["- c"]),  # a paragraph
        ("1. a\n\n   ```\n   b\n   ```\n", ["   ```"]),
    ],
)
def test_what_would_be_no_list_on_the_site_is_found(text: str, wrong: list[str]) -> None:
    assert misplaced(text) == wrong


def misplaced(text: str) -> list[str]:
    """Lines that GitHub takes for a part of a list, and the site does not.

    Python-Markdown begins a list after a blank line only; what belongs to an item is indented by four blanks.
    """
    found: list[str] = []
    fenced = listed = in_list = False
    before = ""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith("```"):
            fenced, listed = not fenced, listed and indent > 0
            if fenced and indent % 4:
                found.append(line)
        elif not fenced and line:
            item = ITEM.match(line)
            begins = not before or before.startswith("#")
            listed = bool(item) or (listed and (indent > 0 or not begins))
            if (item and (indent % 4 or not (begins or in_list))) or (begins and 0 < indent < 4):
                found.append(line)
        in_list, before = listed, line
    return found
