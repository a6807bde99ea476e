"""The pages of the documentation say what the code does, and lead where they say."""

import re
import runpy
from pathlib import Path

import pytest

import airflow_privacy_release

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_the_pages_of_reference_are_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    for page, text in made["PAGES"].items():
        written = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert written == text(), f"{page}: the code has changed: run `make docs`, and commit the page"


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


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = HEADING.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
