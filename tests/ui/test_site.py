"""The site of the documentation, built and opened as files: nothing is asked of any server."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.local.embedded import checkout
from tests.ui.conftest import SIZES, opened

pytestmark = [pytest.mark.ui]

PAGES = (
    "index",
    "tutorial",
    "choose",
    "guarantees",
    "methods",
    "reference_files",
    "reference_python",
    "benchmarks",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=checkout(), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_fits_every_screen_and_asks_no_server(
    site: Path, browser: Any, picture: Callable[..., None], scheme: str
) -> None:
    window = opened(browser, color_scheme=scheme)
    page = window.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for name in PAGES:
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.goto(f"file://{site}/{name}.html")
            page.locator("h1").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            picture(page, f"site-{name}-{width}-{scheme}")
    assert requests
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]
    window.close()


def test_a_word_is_found_without_a_server(site: Path, browser: Any) -> None:
    window = opened(browser, viewport={"width": SIZES[1][0], "height": SIZES[1][1]})
    page = window.new_page()
    page.goto(f"file://{site}/index.html")
    page.get_by_role("textbox", name="Search").fill("prosecutor")
    page.locator(".md-search-result__item").get_by_text("Glossary").first.wait_for()
    window.close()


def test_every_page_has_a_place_in_the_site(site: Path) -> None:
    pages = {path.stem for path in (checkout() / "docs").glob("*.md")}
    listed = (checkout() / "mkdocs.yml").read_text(encoding="utf-8")
    assert pages == {path.stem for path in site.glob("*.html")} - {"404"}
    assert not [name for name in pages if f"- {name}.md" not in listed]
