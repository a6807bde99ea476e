"""Writes `papers.md`: what the five papers define and claim, where it is computed, our number and verdict.

The rows are in `papers.toml`, in the order of the papers. Numbers and verdicts are read from the stored
results in `benchmarks.md`; none is written by hand.
"""

import argparse
import importlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
INTRODUCTION = """# The papers

Made by `make docs` from `docs/papers.toml` and the stored results in [benchmarks.md](benchmarks.md);
edit those, not this page. The rows follow the order of each paper. *Ours* and *verdict* are read from
the results: a verdict is computed by its benchmark, *ahead*, *tied* and *behind* from 95 % intervals of
at least five paired runs, and *undecided* from fewer. *Built* means that the code is there and tested,
and that the paper gives nothing to compare with. Curves are lost in the scans of the papers; then their
claim is tested in words.
"""
VERDICT = re.compile(r"^- \*\*(?P<word>[^*]+)\*\*: (?P<text>.*)$")


@dataclass(frozen=True, kw_only=True)
class Results:
    """The stored results of one section of `benchmarks.md`.

    Attributes:
        tables: Tables in their order: the first header, then row name -> column -> cell.
        verdicts: Claim with its figures -> verdict, in lower case.
    """

    tables: Sequence[tuple[str, Mapping[str, Mapping[str, str]]]] = field(default_factory=tuple)
    verdicts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_text(cls, text: str) -> "Results":
        """Read a section."""
        verdicts = {m["text"]: m["word"].lower() for line in text.splitlines() if (m := VERDICT.match(line))}
        return cls(tables=tuple(_tables(text)), verdicts=verdicts)

    def cell(self, table: str, row: str, column: str) -> str:
        """Return a cell of the first table that begins with a header and has the row and the column.

        Raises:
            KeyError: If there is none.
        """
        for name, rows in self.tables:
            if name == table and column in rows.get(row, {}):
                return rows[row][column]
        raise KeyError(f"no cell {table!r}, {row!r}, {column!r}")

    def judged(self, claim: str) -> tuple[str, str]:
        """Return the verdict on the one claim that begins so, and its figures.

        Raises:
            KeyError: If no claim, or more than one, begins so.
        """
        found = [(text, word) for text, word in self.verdicts.items() if text.startswith(f"{claim} (")]
        if len(found) != 1:
            raise KeyError(f"{len(found)} claims begin with {claim!r}")
        text, word = found[0]
        return word, text[len(claim) + 2 :].removesuffix(").")


def _tables(text: str) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    lines = text.splitlines()
    for number, line in enumerate(lines[1:], 1):
        if not re.match(r"^\|\s*---", line):
            continue
        header = _cells(lines[number - 1])
        rows = {}
        for row in lines[number + 1 :]:
            if not row.startswith("|"):
                break
            name, *cells = _cells(row)
            rows[name] = dict(zip(header[1:], cells, strict=False))
        yield header[0], rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def sections(text: str) -> dict[str, Results]:
    """Return the results of each section of a report by its title."""
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    return {title: Results.of_text(body) for title, body in parts.items()}


def page(papers: Mapping[str, Any], stored: Mapping[str, Results]) -> str:
    """Return the page."""
    blocks = [INTRODUCTION]
    for number, paper in sorted(papers["paper"].items()):
        blocks.append(f"## {number}. {paper['title']}\n")
        blocks.append(f"{paper['source']}\n")
        lines = [_line(row, papers["sections"], stored) for row in paper["row"]]
        head = ["place", "what it says", "computed by", "ours", "the paper's", "verdict"]
        blocks.append("\n".join(_markdown([head, ["---"] * len(head), *lines])) + "\n")
        blocks.append("Deviations:\n")
        blocks.append("\n".join(f"- {text}" for text in paper["deviations"]) + "\n")
    return "\n".join(blocks)


def _line(row: Mapping[str, Any], titles: Mapping[str, str], stored: Mapping[str, Results]) -> list[str]:
    code, ours, verdict = _linked(row["code"]), "", "built"
    if row.get("pending"):
        _require_missing(row, stored.get(titles[row["results"]], Results()))
        verdict = "not measured yet"
    elif "results" in row:
        results = stored[titles[row["results"]]]
        if "claim" in row:
            verdict, ours = results.judged(row["claim"])
            verdict = f"**{verdict}**"
        if "cells" in row:
            table, name, columns = row["cells"]["table"], row["cells"]["row"], row["cells"]["columns"]
            ours = ", ".join(f"{results.cell(table, name, column)} at {column}" for column in columns)
            verdict = verdict if "claim" in row else "shown"
    return [row["place"], row["says"], code, ours, row.get("paper", ""), row.get("verdict", verdict)]


def _require_missing(row: Mapping[str, Any], results: Results) -> None:
    """Raise if a row is marked as `pending` although its result is stored.

    Raises:
        ValueError: Naming the row.
    """
    try:
        if "claim" in row:
            results.judged(row["claim"])
        else:
            results.cell(row["cells"]["table"], row["cells"]["row"], row["cells"]["columns"][0])
    except KeyError:
        return
    raise ValueError(f"{row['place']}, {row['says']!r}: the result is stored; remove `pending`")


def _linked(code: str) -> str:
    """Return a function of the code as a link to its file, or the command of a benchmark.

    Raises:
        AttributeError, ModuleNotFoundError: If there is no such function.
    """
    if code.startswith("--only "):
        return f"`python -m benchmarks {code}`"
    module, _, name = code.partition(":")
    found: object = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        found = getattr(found, part)
    return f"[`{name or module.rpartition('.')[2]}`](../{module.replace('.', '/')}.py)"


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER / "papers.md")
    given = parser.parse_args()
    given.out.write_text(made(), encoding="utf-8")


def made() -> str:
    """Return the page of the files in this folder."""
    papers = tomllib.loads((FOLDER / "papers.toml").read_text(encoding="utf-8"))
    return page(papers, sections((FOLDER / "benchmarks.md").read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
