"""Renew the numbers that pages repeat from the stored results in `benchmarks.md`.

`SAME` lists them. A number keeps its place, its bold type and its form without a leading zero.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from docs.make_papers import Results, sections

FOLDER = Path(__file__).parent
LOSS, DISTANCE = "1. Quality on Adult", "9. DP synthesizers and peers"
GCP, TVD, ACCURACY = "GCP, LCA / own", "TVD, 3-way", "accuracy, income"
UNION = "Bottom-up, price of the union, batches and splits"
LATENT_CLASS, PRIVBAYES_R = "LatentClass (recommended)", "PrivBayesR"
MST, DATASYNTHESIZER = (
    "*MST (Private-PGM), (epsilon, 1e-9), add/remove*",
    "*DataSynthesizer, two parents*",
)
_NUMBER = re.compile(r"\d*\.\d+|\d+")

Place = tuple[str, str, str, str]

# (page, first header of a table, row, column) -> the places (section, table, row, column) of its numbers.
SAME: Mapping[Place, Sequence[Place]] = {
    **{
        ("figures.md", "", row, column): [(LOSS, GCP, stored, f"k = {k}")]
        for row, stored in {
            "Bottom-up, refined (default)": "Bottom-up, refined (default)",
            "Mondrian, cut of least loss (default)": "Mondrian, cut of least loss (default)",
            UNION: UNION,
            "Mondrian, the paper's widest cut": "Mondrian, widest cut (paper)",
            "ILP-based, l = 3, refined (default)": "ILP-based, refined, l = 3 (default)",
            "ARX, local recoding": "*ARX, local recoding, measured elsewhere*",
            "anonypy's Mondrian": "*anonypy, Mondrian, measured here*",
            "anjana, global recoding": "*anjana, global recoding, 5 % suppression, measured here*",
        }.items()
        for column, k in {"GCP, k = 5": 5, "k = 10": 10, "k = 50": 50}.items()
    },
    **{
        ("figures.md", "", row, column): [
            ("OBPA and DSAED, Yang (2018), tables 3 and 4", "GCP", stored, f"k = {k}")
        ]
        for row, stored in {"OBPA, refined (default)": "OBPA (default)"}.items()
        for column, k in {"GCP, k = 5": 5, "k = 10": 10, "k = 50": 50}.items()
    },
    **{
        ("figures.md", "epsilon", row, f"{epsilon:g}".lstrip("0")): [(DISTANCE, TVD, stored, f"{epsilon:g}")]
        for row, stored in {
            "LatentClass": LATENT_CLASS,
            "PrivBayes with R": PRIVBAYES_R,
            "MST (Private-PGM), delta 1e-9, add/remove": MST,
            "DataSynthesizer": DATASYNTHESIZER,
        }.items()
        for epsilon in (0.1, 0.2, 0.4, 0.8, 1.6)
    },
    **{
        ("figures.md", "epsilon", row, "Adult, SVM at .2 / .8 / 1.6"): [
            (DISTANCE, ACCURACY, stored, epsilon) for epsilon in ("0.2", "0.8", "1.6")
        ]
        for row, stored in {
            "LatentClass": LATENT_CLASS,
            "PrivBayes with R": PRIVBAYES_R,
            "MST (Private-PGM), delta 1e-9, add/remove": MST,
            "DataSynthesizer": DATASYNTHESIZER,
        }.items()
    },
}


def stored_numbers(stored: Mapping[str, Results], places: Sequence[Place]) -> Iterator[str]:
    """Return the first number of each cell.

    Raises:
        KeyError: If a cell is missing, or has no number.
    """
    for section, table, row, column in places:
        found = _NUMBER.search(stored[section].cell(table, row, column))
        if found is None:
            raise KeyError(f"no number in {section!r}, {table!r}, {row!r}, {column!r}")
        yield found[0]


def renewed(page: str, text: str, stored: Mapping[str, Results]) -> str:
    """Return a page with the stored numbers.

    Raises:
        KeyError: If a cell of the page or of the results is missing.
    """
    lines, left = text.split("\n"), {place for place in SAME if place[0] == page}
    for number, line in enumerate(lines[1:], 1):
        if not re.match(r"^\|\s*---", line):
            continue
        header = [cell.strip() for cell in lines[number - 1].strip().strip("|").split("|")]
        for at in range(number + 1, len(lines)):
            if not lines[at].startswith("|"):
                break
            before, *cells, after = lines[at].split("|")
            for column in range(1, min(len(header), len(cells))):
                place = (page, header[0], cells[0].strip(), header[column])
                if place in left:
                    left.remove(place)
                    cells[column] = _with(cells[column], list(stored_numbers(stored, SAME[place])))
            lines[at] = "|".join([before, *cells, after])
    if left:
        raise KeyError(f"{page} has no cells {sorted(left)}")
    return "\n".join(lines)


def _with(cell: str, numbers: Sequence[str]) -> str:
    """Return a cell with other numbers, in the form of those that it has."""
    new = iter(numbers)

    def one(old: re.Match[str]) -> str:
        found = next(new)
        return found.removeprefix("0") if old[0].startswith(".") else found

    made = _NUMBER.sub(one, cell)
    if list(new):
        raise KeyError(f"the cell {cell!r} has fewer numbers than are stored")
    return made


def main() -> None:
    """Renew every page."""
    stored = sections((FOLDER / "benchmarks.md").read_text(encoding="utf-8"))
    for page in sorted({place[0] for place in SAME}):
        path = FOLDER / page
        path.write_text(renewed(page, path.read_text(encoding="utf-8"), stored), encoding="utf-8")


if __name__ == "__main__":
    main()
