"""A browser in front of a real Airflow; pictures of the pages go to the folder `$PRIVACY_SCREENSHOTS`."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.server import PASSWORDS, Server, standalone
from tests.waiting import DEADLINE

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE = (1280, 860), (360, 740)
SIZES = ((390, 844), (1280, 860), (1920, 1080))  # a phone, a laptop, a large screen
AXE = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"
WAIT = 1_000 * DEADLINE  # milliseconds, as Playwright counts
COOKIE = "_token"  # in which Airflow keeps a login


@pytest.fixture(scope="session")
def server(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as tool:
        # A container's root user has no user namespaces for Chromium's own sandbox. To imitate a graphics
        # processor takes longer than to draw without one.
        running = tool.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


def opened(browser: Any, **options: Any) -> Any:
    """A browser window that waits as long as a busy machine may need: by itself Playwright gives up soon."""
    window = browser.new_context(**options)
    window.set_default_timeout(WAIT)
    return window


@pytest.fixture
def log_in(server: Server, browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a browser window as a user; return a page of it, which is empty after a login without the form.

    Airflow's form leads to its home page, which takes a browser longer to load than all of ours.
    """
    windows = []

    def enter(user: str, scheme: str = "light", *, by_form: bool = False) -> Any:
        window = opened(browser, color_scheme=scheme, viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
        windows.append(window)
        page = window.new_page()
        if not by_form:
            window.add_cookies([{"name": COOKIE, "value": server.token(user), "url": server.address}])
            return page
        page.goto(f"{server.address}/auth/login?next=%2F")
        page.fill("input[name=username]", user)
        page.fill("input[name=password]", PASSWORDS[user])
        page.click("button[type=submit]")
        page.wait_for_url(f"{server.address}/")
        return page

    yield enter
    for window in windows:
        window.close()


@pytest.fixture(scope="session")
def accessible() -> Callable[[Any], None]:
    """Complain about serious faults of accessibility of what a page shows, frames of ours included."""
    if not AXE.exists():
        pytest.skip("axe is not installed (Node.js, then: npm ci --prefix tests/ui/axe)")
    source = AXE.read_text(encoding="utf-8")

    def look(page: Any) -> None:
        page.evaluate(source)
        found = page.evaluate("() => axe.run({iframes: false}).then((found) => found.violations)")
        reported = [
            (fault["id"], fault["help"], [node["html"] for node in fault["nodes"]][:3])
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
        assert not reported, (page.url, reported)

    return look


@pytest.fixture(scope="session")
def picture() -> Callable[..., None]:
    """Keep a picture of what a page shows, if a folder for them is named."""
    folder = os.environ.get("PRIVACY_SCREENSHOTS")

    def take(page: Any, name: str, *, whole: bool = False) -> None:
        if folder:
            page.screenshot(
                path=Path(folder) / f"{name}.png", full_page=whole, animations="disabled", timeout=WAIT
            )

    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return take
