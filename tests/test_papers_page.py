"""`docs/papers.md` is made from the stored results: numbers and verdicts are theirs."""

import runpy
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
MADE = runpy.run_path(str(DOCS / "make_papers.py"))
PAPERS = tomllib.loads((DOCS / "papers.toml").read_text(encoding="utf-8"))

REPORT = """# Benchmarks

## 1. A section

| loss | k = 2 | k = 5 |
| --- | ---: | ---: |
| A | 0.1 | 0.2 |
| B (ours) | 0.3 | 0.4 |

- **Ahead**: A against B (paper) (ahead at 2; leads +0.1 to +0.2).
- **Does not hold**: B loses less (ratios 1.2).
"""


def test_the_page_is_what_the_stored_results_say() -> None:
    written = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert written == MADE["made"](), "the results have changed: run `make docs`, and commit the page"


def test_cells_and_verdicts_are_found_by_their_names() -> None:
    results = MADE["sections"](REPORT)["1. A section"]
    assert results.cell("loss", "B (ours)", "k = 5") == "0.4"
    assert results.judged("A against B (paper)") == ("ahead", "ahead at 2; leads +0.1 to +0.2")
    assert results.judged("B loses less") == ("does not hold", "ratios 1.2")


@pytest.mark.parametrize(
    "requested",
    [
        lambda results: results.cell("loss", "C", "k = 2"),
        lambda results: results.cell("loss", "A", "k = 9"),
        lambda results: results.judged("B loses"),
    ],
)
def test_a_row_without_a_result_is_an_error(requested: object) -> None:
    with pytest.raises(KeyError):
        requested(MADE["sections"](REPORT)["1. A section"])  # type: ignore[operator]


def test_a_row_is_pending_only_while_its_result_is_missing() -> None:
    results = MADE["sections"](REPORT)["1. A section"]
    row = {"place": "figure 1", "says": "A", "claim": "B loses less"}
    with pytest.raises(ValueError, match="remove `pending`"):
        MADE["_require_missing"](row, results)
    MADE["_require_missing"]({**row, "claim": "B loses more"}, results)


def test_a_changed_result_changes_the_page() -> None:
    stored = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    changed = stored.replace("| *OKPLOF (paper)* |", "| *OKPLOF* |").replace("0.92 (0.7)", "0.12 (0.7)")
    assert changed != stored
    assert MADE["page"](PAPERS, MADE["sections"](changed)) != MADE["made"]()


def test_every_paper_has_rows_and_deviations() -> None:
    assert sorted(PAPERS["paper"]) == ["000", "001", "002", "003", "004"]
    for paper in PAPERS["paper"].values():
        assert paper["deviations"]
        assert len(paper["row"]) >= 10
