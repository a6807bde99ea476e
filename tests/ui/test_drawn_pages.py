"""The pages that commands write, opened as files in Chromium: choices of a release, and a hierarchy."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from privacy_release.cli.main import DONE, main
from privacy_release.lake.read import manifest_of
from privacy_release.lake.store import Lake
from tests.ui.conftest import SIZES, opened

pytestmark = [pytest.mark.ui]

CHOSEN = "bottom_up:k=10,l=2"
GRID = ["--methods", "mondrian,bottom_up", "--k", "2,5,10,20,5000", "--jobs", "1"]
PRIVATE = ["--methods", "latent_class", "--epsilon", "0.5,1,4", "--sample", "300", "--jobs", "1"]
DOMAINS = {
    "illness": {
        "role": "sensitive",
        "kind": "categorical",
        "categories": ["cold", "cough", "flu", "measles"],
    },
    "visits": {"role": "insensitive", "kind": "numeric", "bounds": [0, 9]},
}
# Pairs of drawn words that stand on one another.
ON_EACH_OTHER = """() => {
  const words = [...document.querySelectorAll(".tick, .axis-name")].filter((word) => word.offsetParent);
  const boxes = words.map((word) => [word.textContent, word.getBoundingClientRect()]);
  return boxes.flatMap(([name, a], i) => boxes.slice(i + 1)
    .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
    .map(([other]) => `${name} / ${other}`));
}"""


@pytest.fixture
def spec(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("curator", "work_area", "lake"):
        monkeypatch.setenv(f"PRIVACY_{name.upper()}", str(tmp_path / name))
    return home / "releases" / "people.yaml"


@pytest.fixture
def explored(spec: Path, tmp_path: Path) -> Path:
    """The page of a grid of anonymizers, one of whose choices cannot be made."""
    return page_of(spec, tmp_path, GRID)


@pytest.fixture
def explored_private(spec: Path, tmp_path: Path) -> Path:
    """The page of a grid of a differentially private method."""
    fields = yaml.safe_load(spec.read_text())
    fields["schema"] |= DOMAINS
    fields["release"] = {"method": "latent_class", "epsilon": 1.0}
    spec.write_text(yaml.safe_dump(fields))
    return page_of(spec, tmp_path, PRIVATE)


def page_of(spec: Path, root: Path, grid: list[str]) -> Path:
    assert main(["explore", str(spec), *grid]) == DONE
    (page,) = (root / "curator").rglob("*.html")
    return page


@pytest.fixture
def drawn_hierarchy(spec: Path, tmp_path: Path) -> Path:
    hierarchy, source = spec.parent.parent / "hierarchies" / "zip.csv", spec.parent.parent / "people.parquet"
    page = tmp_path / "zip.html"
    command = ["hierarchy", "show", str(hierarchy), "--source", str(source), "--column", "zip"]
    assert main([*command, "-o", str(page)]) == DONE
    return page


@pytest.fixture
def window(browser: Any) -> Iterator[Any]:
    window = opened(browser, viewport={"width": SIZES[1][0], "height": SIZES[1][1]})
    yield window
    window.close()


@pytest.mark.parametrize("name", ["explored", "explored_private", "drawn_hierarchy"])
def test_a_page_fits_every_screen_in_light_and_dark_and_has_no_serious_fault(
    name: str,
    request: pytest.FixtureRequest,
    window: Any,
    accessible: Callable[[Any], None],
    picture: Callable[..., None],
) -> None:
    file, page = request.getfixturevalue(name), window.new_page()
    requests: list[str] = []
    page.on("request", lambda one: requests.append(one.url))
    papers = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.goto(f"file://{file}")
            page.locator("h1").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (scheme, width)
            assert page.evaluate(ON_EACH_OTHER) == [], (scheme, width)
            accessible(page)
            picture(page, f"{name}-{width}-{scheme}", whole=True)
        papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2
    assert set(requests) == {f"file://{file}"}


def test_what_is_clicked_is_shown_and_used_and_can_be_released(
    explored: Path, spec: Path, tmp_path: Path, window: Any, picture: Callable[..., None]
) -> None:
    page = window.new_page()
    page.goto(f"file://{explored}")
    assert page.get_by_role("region", name="Not possible").get_by_text("5000").count() > 0
    (first,) = page.locator(".choice:visible h2").all_inner_texts()
    assert not first.startswith(CHOSEN)
    page.get_by_role("radio", name=f"{CHOSEN}:").click()
    choice = page.locator(".choice:visible")
    assert choice.count() == 1
    assert choice.locator("h2").inner_text().startswith(CHOSEN)
    bars = choice.locator(".columns h4").all_inner_texts()
    assert bars == ["age", "zip"]
    assert choice.locator(".hist i").count() > 8
    picture(page, "explored-chosen")
    choice.locator("summary").click()
    line, command, whole = choice.locator("pre").all_inner_texts()
    assert shlex.split(command)[0] == "privacy-release"
    assert main(shlex.split(command)[1:]) == DONE
    wanted = {"method": "bottom_up", "k": 10, "l": 2, "seed": 7}
    assert yaml.safe_load(line)["release"] == wanted
    assert yaml.safe_load(spec.read_text())["release"] == wanted
    assert spec.read_text().strip() == whole.strip()
    assert main(["check", str(spec)]) == DONE
    assert main(["run", str(spec), "--release-id", "one"]) == DONE
    manifest = manifest_of(Lake(root=str(tmp_path / "lake")).table("people"), "one")
    assert (manifest["method"], manifest["parameters"]["k"]) == ("bottom_up", 10)


@pytest.mark.parametrize("where", ["label.point.of-{id}", "tr.of-{id} label"])
def test_the_other_plot_and_the_table_choose_as_well(explored: Path, window: Any, where: str) -> None:
    page = window.new_page()
    page.goto(f"file://{explored}")
    point = page.get_by_role("radio", name=f"{CHOSEN}:")
    assert not point.is_checked()
    page.locator(where.format(id=str(point.get_attribute("id")).removeprefix("c"))).click()
    assert point.is_checked()
    assert page.locator(".choice:visible h2").inner_text().startswith(CHOSEN)


def test_arrow_keys_walk_through_all_choices(explored: Path, window: Any) -> None:
    page = window.new_page()
    page.goto(f"file://{explored}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "choice"
    seen = []
    for _ in range(page.get_by_role("radio").count()):
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.checked")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        seen.append(page.locator(".choice:visible h2").inner_text().split()[0])
    assert len(set(seen)) == len(seen) == 8


def test_a_branch_of_a_hierarchy_is_opened_and_closed_by_key(drawn_hierarchy: Path, window: Any) -> None:
    page = window.new_page()
    page.goto(f"file://{drawn_hierarchy}")
    value = page.get_by_text("N1", exact=True)
    branch = page.locator("summary", has_text="north")
    assert value.is_visible()
    branch.focus()
    page.keyboard.press("Enter")
    assert value.is_hidden()
    page.keyboard.press("Enter")
    assert value.is_visible()
