"""Measure methods beside their papers and beside peers; write one Markdown report with plots.

A part that is run again replaces itself in the report and leaves the others.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import obpa, okplof, paper_ilp, quality, rfka, speed
from benchmarks.report import Section, write
from benchmarks.tables import Table, adult, head

Part = Callable[[Table], Section]
FULL: Mapping[str, Part] = {
    "quality": quality.run,
    "paper_ilp": paper_ilp.run,
    "speed": speed.run,
    "obpa": obpa.run,
    "okplof": okplof.run,
    "rfka": rfka.run,
}
QUICK: Mapping[str, Part] = {
    "quality": lambda table: quality.run(table, ks=(10,), seeds=(1,), with_peers=False),
    "paper_ilp": lambda table: paper_ilp.run(table, ks=(2, 5, 20), repeats=1),
    "speed": lambda table: speed.run(table, rows=None, repeats=2, with_peers=False),
    "obpa": lambda table: obpa.run(table, ks=(16,), gcp_ks=(10,), seeds=(1,)),
    "okplof": lambda table: okplof.run(table, ks=(100,), seeds=(1,), repeats=1, rows=None),
    "rfka": lambda table: rfka.run(table, ks=(1, 5, 20), seeds=(1,), trees=100, repeats=1),
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run the chosen parts; the report's path."""
    given = parser().parse_args(arguments)
    table = head(adult(), given.rows)
    source = f"{table.source} Complete records used: {len(table.frame):,}."
    print(source, flush=True)
    parts = QUICK if given.quick else FULL
    for name in given.only or parts:
        section = parts[name](table)
        print(f"\n## {section.title}\n")
        print("\n\n".join(block for block in section.blocks if block not in section.plots), flush=True)
        path = write(given.out, section, source)
    print(f"\nReport: {path}")
    return path


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("--only", nargs="+", choices=list(FULL), metavar="NAME", help=f"of {', '.join(FULL)}")
    made.add_argument("--quick", action="store_true", help="fewer k, one seed, no peers, no large tables")
    made.add_argument("--rows", type=int, help="use so many records only, for a trial run")
    made.add_argument(
        "--out",
        type=Path,
        default=Path("build/benchmarks"),
        help="folder of the report (default: %(default)s; --out docs renews the committed one)",
    )
    return made


if __name__ == "__main__":
    main()
