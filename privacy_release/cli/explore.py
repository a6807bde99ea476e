"""`privacy-release explore`: measure a grid of methods and parameters before any release."""

import argparse
import difflib
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from privacy_engine.progress import portion, reporting_to
from privacy_release.cli.areas import removed_after
from privacy_release.cli.arguments import WrongArgumentError, usage, work_root
from privacy_release.cli.text import lines

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.budget.budget import Budget
    from privacy_release.explore.cells import MeasuredChoice
    from privacy_release.explore.choices import Choice, Grid
    from privacy_release.spec.model import ReleaseSpec
    from privacy_release.workarea.area import WorkArea
    from privacy_release.workarea.references import RecordsRef

N = TypeVar("N", int, float)
ABOUT = """
Measure methods and parameters on records of a specification's source, and write a page that plots risk
against loss. Nothing is released. The page is only for people who may see the source, so it is written to the
curator's folder. Differentially private methods are explored on simulated records, on a public table
(--public), or, with --book, on the source, and the ledger books the epsilon of each choice.
"""


def add_explore_command(parser: argparse.ArgumentParser) -> None:
    """Declare `explore`."""
    parser.description = " ".join(ABOUT.split())
    parser.add_argument("spec", type=Path, metavar="FILE", help="specification, as in include/releases")
    parser.add_argument(
        "--methods", type=_words, default=(), metavar="A,B", help="default: all of the same family that fit"
    )
    for name, kind, text in (
        ("k", int, "class sizes; default 2,5,10,20,50 and the policy's"),
        ("l", int, "distinct sensitive values of a class; default: the policy's"),
        ("t", float, "t-closeness of a class; default: the policy's"),
        ("epsilon", float, "privacy losses; default 0.1,0.5,1,2,8, the policy's and the specification's"),
    ):
        parser.add_argument(f"--{name}", type=_numbers(kind), default=(), metavar="N,N", help=text)
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="number of records to sample (default: 10000)",
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="attribute that a classifier predicts; default: a sensitive one"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    parser.add_argument("--jobs", type=int, metavar="N", help="number of processes; default: one per core")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--public",
        metavar="FILE",
        help="public table in the form of the source, for differentially private methods",
    )
    where.add_argument(
        "--book", action="store_true", help="explore them on the source, and book each epsilon in the ledger"
    )
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="format of the output; default table"
    )
    parser.add_argument(
        "--use",
        metavar="POINT",
        help="write a choice, such as mondrian:k=10,l=3, into FILE, and measure nothing",
    )
    parser.set_defaults(command=explore)


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _numbers(kind: type[N]) -> Callable[[str], tuple[N, ...]]:
    def read(text: str) -> tuple[N, ...]:
        return tuple(kind(part) for part in text.split(","))

    read.__name__ = "list of numbers"  # argparse shows it if a value is wrong
    return read


def explore(arguments: argparse.Namespace) -> int:
    """Run the command `explore`."""
    from privacy_release.explore.choices import Grid, choices
    from privacy_release.explore.page import best
    from privacy_release.explore.run import explored
    from privacy_release.explore.sources import policy_to_explore
    from privacy_release.explore.written import write_page
    from privacy_release.spec.model import load_spec
    from privacy_release.workarea.area import WorkArea

    spec = load_spec(arguments.spec)
    policy = policy_to_explore(spec)
    if arguments.use is not None:
        return _use(arguments.spec, spec, policy, arguments.use)
    for name in ("sample", "jobs"):
        if (given := getattr(arguments, name)) is not None and given < 1:
            raise WrongArgumentError(f"--{name} must be >= 1, got {given}")
    grid = Grid(**{name: getattr(arguments, name) for name in ("methods", "k", "l", "t", "epsilon")})
    cells = choices(spec, policy, grid)
    work = WorkArea(work_root(), f"cli/explore/{spec.name}/{secrets.token_hex(4)}")
    with removed_after(work):
        with portion(0.3):
            records, budget = _records(arguments, spec, policy, grid, cells, work)
        with progress(len(cells)) as show:
            found = explored(
                cells, records, show, processes=arguments.jobs, work=work, budget=budget, policy=policy
            )
        with usage("PRIVACY_CURATOR"):
            page = write_page(found, records, spec, arguments.spec)
    if arguments.format == "json":
        print(json.dumps(_to_dict(found, records, page), indent=2))
    else:
        print("\n".join([*_table(found), f"page      {page}"]))
        first = best([c for c in found if c["failed"] is None])
        if first is None or first["missed"]:
            print("no choice meets the policy: explore others, or more records")
        else:
            print(f"to use one: privacy-release explore {arguments.spec} --use {first['name']}")
    return 0


def _records(
    arguments: argparse.Namespace,
    spec: "ReleaseSpec",
    policy: "ReleasePolicy",
    grid: "Grid",
    cells: "list[Choice]",
    work: "WorkArea",
) -> "tuple[RecordsRef, Budget | None]":
    """Return the records to explore, described on stderr, and the budget that pays if they are people's."""
    from privacy_release.explore.sources import ExploreRequest, budget_of, records_of

    with usage("--sample, --target or --public"):
        request = ExploreRequest(
            rows=arguments.sample,
            target=arguments.target,
            seed=arguments.seed,
            public=arguments.public,
            book=arguments.book,
        )
        budget = budget_of(spec, cells, request) if arguments.book else None
        records = records_of(spec, policy, grid, request, work, _say)
    return records, budget


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _use(path: Path, spec: "ReleaseSpec", policy: "ReleasePolicy", name: str) -> int:
    """Write a choice into the file, and print the differences."""
    from privacy_release.explore.choices import named
    from privacy_release.explore.specification import (
        fields_of,
        with_choice,
        write_over,
    )
    from privacy_release.spec.methods import build_method, weaker_than_policy
    from privacy_release.spec.reading import LARGEST_YAML, read_text

    choice = named(spec, policy, name)
    before, after = read_text(path, LARGEST_YAML), with_choice(path, fields_of(spec, choice))
    method = build_method(choice.method, choice.parameters)
    for text in weaker_than_policy(method, spec.method_schema(), policy, choice.method):
        _say(f"warning: {text}: verification will refuse a release that does not happen to meet it")
    write_over(path, after)
    difference = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "before", str(path), "", "", 1, ""
    )
    print("\n".join(difference) or "the file already says so")
    return 0


@contextmanager
def progress(total: int) -> "Iterator[Callable[[MeasuredChoice], None]]":
    """Show percent and remaining time on stderr: a bar on a terminal, otherwise a line per choice."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console, began, done = Console(stderr=True), time.monotonic(), 0
    columns = (TextColumn("explore"), BarColumn(bar_width=20), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(
        *columns, TextColumn("{task.fields[text]}"), console=console, disable=not console.is_terminal
    )
    task = bar.add_task("explore", total=total, text="")

    def show(cell: "MeasuredChoice") -> None:
        nonlocal done
        done += 1
        text = cell["name"] + (f": {cell['failed']}" if cell["failed"] else "")
        bar.update(task, text=cell["name"])
        if cell["failed"] and console.is_terminal:
            bar.console.print(text, markup=False)
        elif not console.is_terminal:
            left = (time.monotonic() - began) / done * (total - done)
            _say(f"explore {100 * done // total:3d} %, about {left:.0f} s left: {text}")

    def hear(share: float) -> None:
        bar.update(task, completed=share * total)

    with bar, reporting_to(hear if console.is_terminal else lines()):
        yield show


def _table(cells: "list[MeasuredChoice]") -> list[str]:
    """Return one line per choice, aligned."""
    from privacy_release.explore.page import ERRORS, FIGURES, IN_TABLE, frontier, number_text

    made = [cell for cell in cells if cell["failed"] is None]
    edge = {cell["name"] for cell in frontier(made)}
    shown = [n for n in (*IN_TABLE, *ERRORS) if any(n in cell["figures"] for cell in made)]
    rows = [["choice", *(FIGURES[n][0] for n in shown), "policy", "frontier"]]
    for cell in made:
        figures = [number_text(n, cell["figures"][n]) if n in cell["figures"] else "" for n in shown]
        kept, on = "not kept" if cell["missed"] else "kept", "yes" if cell["name"] in edge else ""
        rows.append([cell["name"], *figures, kept, on])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *(f"{cell['name']}: {cell['failed']}" for cell in cells if cell["failed"] is not None)]


def _to_dict(cells: "list[MeasuredChoice]", records: "RecordsRef", page: Path) -> dict[str, Any]:
    """Return what `--format json` prints."""
    from privacy_release.explore.page import frontier

    edge = {cell["name"] for cell in frontier([c for c in cells if c["failed"] is None])}
    return {
        "page": str(page),
        "records": {
            "origin": records.origin,
            "explored": records.made_from.rows,
            "source": records.source_rows,
            "smallest_count": records.smallest_count,
            "target": records.target,
        },
        "choices": [{**cell, "frontier": cell["name"] in edge} for cell in cells],
    }
