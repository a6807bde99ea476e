"""Pages that repeat a number of the benchmarks give the stored one.

A page that gives another number for the same thing fails here: change it, or measure again.
"""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SECTIONS = runpy.run_path(str(DOCS / "make_papers.py"))["sections"]
LOSS, DISTANCE = "1. Quality on Adult", "9. DP synthesizers and peers"
UNION = "Bottom-up, price of the union, batches and splits"
GCP, TVD = "GCP, LCA / own", "TVD, 3-way"

# (page, its table's first header, row, column) -> (section, table, row, column) of benchmarks.md
SAME: dict[tuple[str, str, str, str], tuple[str, str, str, str]] = {
    **{
        ("figures.md", "", row, column): (LOSS, GCP, stored, f"k = {k}")
        for row, stored in {
            "Bottom-up, refined (default)": "Bottom-up, refined (default)",
            "Mondrian, cut of least loss (default)": "Mondrian, cut of least loss (default)",
            UNION: UNION,
            "Mondrian, the paper's widest cut": "Mondrian, widest cut (paper)",
            "ILP-based, l = 3, refined (default)": "ILP-based, refined, l = 3 (default)",
            "ARX, local recoding": "*ARX, local recoding, measured elsewhere*",
            "anonypy's Mondrian": "*anonypy, Mondrian, measured here*",
        }.items()
        for column, k in {"GCP, k = 5": 5, "k = 10": 10, "k = 50": 50}.items()
    },
    **{
        ("figures.md", "epsilon", row, f"{epsilon:g}".lstrip("0")): (DISTANCE, TVD, stored, f"{epsilon:g}")
        for row, stored in {
            "LatentClass": "LatentClass (recommended)",
            "PrivBayes with R": "PrivBayesR",
            "MST (Private-PGM), delta 1e-9, add/remove": "*MST (Private-PGM), (epsilon, 1e-9), add/remove*",
            "DataSynthesizer": "*DataSynthesizer, two parents*",
        }.items()
        for epsilon in (0.1, 0.2, 0.4, 0.8, 1.6)
    },
}


def number(cell: str) -> str:
    """The first number of a cell, without bold marks and without a leading zero."""
    found = re.search(r"\d*\.\d+|\d+", cell)
    assert found is not None, cell
    return found[0].lstrip("0")


def tables_of(page: str) -> Any:
    """The tables of a page, under whatever headings they are."""
    return SECTIONS("\n## all\n" + re.sub(r"^#.*$", "", page, flags=re.MULTILINE))["all"]


def cell(stored: Any, table: str, row: str, column: str) -> str:
    return number(stored.cell(table, row, column))


@pytest.mark.parametrize("page", sorted({page for page, *_ in SAME}))
def test_a_page_that_repeats_a_number_gives_the_stored_one(page: str) -> None:
    stored = SECTIONS((DOCS / "benchmarks.md").read_text(encoding="utf-8"))
    text = (DOCS / page).read_text(encoding="utf-8")
    shown = tables_of(text)
    differ = {}
    for (where, table, row, column), (section, *place) in SAME.items():
        if where == page:
            ours, theirs = cell(shown, table, row, column), cell(stored[section], *place)
            if ours != theirs:
                differ[row, column] = (ours, theirs)
    assert differ == {}


def test_another_number_would_be_found() -> None:
    text = (DOCS / "figures.md").read_text(encoding="utf-8")
    shown = tables_of(text.replace("0.0317", "0.0318"))
    assert cell(shown, "", "Bottom-up, refined (default)", "k = 10") == ".0318"
