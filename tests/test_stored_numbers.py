"""Pages that repeat a number of the benchmarks give the stored one: `make docs` renews them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from docs.make_figures import SAME, renewed
from docs.make_papers import Results, sections

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted({page for page, *_ in SAME})


@pytest.fixture(scope="module")
def stored() -> Mapping[str, Results]:
    return sections((DOCS / "benchmarks.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_repeats_a_number_gives_the_stored_one(page: str, stored: Mapping[str, Results]) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert renewed(page, text, stored) == text, "run `make docs`"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("| **0.0317** |", "| **0.0316** |"), ("| .784 /", "| .785 /"), ("| .153 |", "| .154 |")],
)
def test_another_number_is_found_and_renewed(right: str, wrong: str, stored: Mapping[str, Results]) -> None:
    text = (DOCS / "figures.md").read_text(encoding="utf-8")
    assert right in text
    assert renewed("figures.md", text.replace(right, wrong, 1), stored) == text


def test_a_number_without_a_cell_is_an_error(stored: Mapping[str, Results]) -> None:
    text = (DOCS / "figures.md").read_text(encoding="utf-8")
    with pytest.raises(KeyError, match="has no cells"):
        renewed("figures.md", text.replace("| PrivBayes with R |", "| PrivBayes |"), stored)
