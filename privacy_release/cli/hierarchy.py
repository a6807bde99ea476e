"""`privacy-release hierarchy`: draft generalization hierarchies, and check them against a column."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.vocabulary import counted
from privacy_release.cli.arguments import WrongArgumentError, usage

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.tables.hierarchy import Hierarchy
    from privacy_release.hierarchies.holders import Holders

_FORMAT = """
A hierarchy is a CSV file in the format of ARX: one row per value, ';' between levels, the value first and the
root '*' last.
"""
_DRAFT = """
The draft has every value of the column: it is only for people who may see the source until someone has
reviewed it.
"""


def add_hierarchy_commands(kinds: Any) -> None:
    """Add the commands to the sub-parsers of `hierarchy`."""
    infer = _command(kinds, "infer", "draft a hierarchy for a column", _infer, _FORMAT + _DRAFT)
    infer.add_argument("source", metavar="SOURCE", help="Parquet file, folder or address")
    infer.add_argument(
        "--column", required=True, metavar="COLUMN", help="column whose values get a hierarchy"
    )
    infer.add_argument(
        "--by",
        required=True,
        choices=("intervals", "prefixes", "calendar", "target"),
        help="intervals of whole numbers, prefixes of codes, periods of dates that are text, or groups of "
        "values with a similar distribution of a target",
    )
    infer.add_argument(
        "--bounds",
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="bounds of intervals or dates: what everyone may know, not what the source has",
    )
    infer.add_argument(
        "--levels",
        type=_words,
        default=(),
        metavar="N,N",
        help="widths of intervals, ascending; lengths of prefixes, descending; periods such as "
        "month,quarter,year; numbers of groups, descending. Default: a few that fit",
    )
    infer.add_argument("--target", metavar="COLUMN", help="target of the groups of values")
    infer.add_argument(
        "--rare",
        type=int,
        default=10,
        metavar="K",
        help="report the number of values held by fewer, and by a target put them into one group; default 10",
    )
    _person(infer)
    _output(infer, "CSV")

    check = _command(
        kinds,
        "check",
        "check a hierarchy by itself and against a column; exit 1 if something is wrong",
        _check,
        _FORMAT,
    )
    check.add_argument("hierarchy", type=Path, metavar="HIERARCHY", help="CSV file")
    _column(check)
    check.add_argument(
        "--curator",
        action="store_true",
        help="write the missing values and their records into the curator's folder, and nowhere else",
    )

    show = _command(kinds, "show", "draw a hierarchy as a page", _show, _FORMAT)
    show.add_argument("hierarchy", type=Path, metavar="HIERARCHY", help="CSV file")
    _column(show)
    show.add_argument("--k", type=int, default=10, metavar="K", help="hide shares of fewer; default 10")
    _output(show, "HTML")

    read = _command(
        kinds,
        "import",
        "read a hierarchy with another delimiter, and write it as releases take it",
        _import,
        _FORMAT,
    )
    read.add_argument("hierarchy", type=Path, metavar="FILE", help="CSV file, such as an export of ARX")
    read.add_argument("--delimiter", default=";", metavar="C", help="delimiter between its levels; default ;")
    _output(read, "CSV")


def _command(kinds: Any, name: str, text: str, function: Any, more: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = kinds.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}. {' '.join(more.split())}"
    )
    parser.set_defaults(command=function)
    return parser


def _column(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", metavar="SOURCE", help="Parquet file, folder or address with the column")
    parser.add_argument("--column", metavar="COLUMN", help="column of the source")
    _person(parser)


def _person(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--person", metavar="COLUMN", help="person of a record; without it, each record counts as a person"
    )


def _output(parser: argparse.ArgumentParser, kind: str) -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help=f"{kind} file to write, readable only by this user; an existing one is not overwritten",
    )


def _infer(arguments: argparse.Namespace) -> int:
    table = _read(arguments, arguments.target)
    holders = _holders(arguments, table)
    with usage("hierarchy infer"):
        found = _drafted(arguments, table, holders)
    _write(arguments.output, found.to_csv())
    sizes = " -> ".join(f"{n:,}" for n in _nodes(found))
    print(f"{arguments.output}: {sizes} nodes per level, the values first")
    if rare := holders.rare(arguments.rare):
        print(
            f"{len(rare):,} of {len(holders.by_value):,} values are held by fewer than {arguments.rare} "
            f"{_counted(arguments)}: check whether everyone may know that they occur, before the file goes "
            "anywhere"
        )
    _report_missing(found, holders)
    return 0


def _nodes(hierarchy: "Hierarchy") -> list[int]:
    """Return the number of nodes of each level, the values first."""
    return [len(set(hierarchy.at_level(level).tolist())) for level in range(hierarchy.height + 1)]


def _drafted(arguments: argparse.Namespace, table: "pd.DataFrame", holders: "Holders") -> "Hierarchy":
    from privacy_engine.vocabulary import CalendarUnit
    from privacy_release.hierarchies import infer

    if arguments.by in ("intervals", "calendar") and arguments.bounds is None:
        raise WrongArgumentError(
            f"--by {arguments.by} needs --bounds LOW HIGH that everyone may know; the smallest and largest "
            "value of the source belong to a person"
        )
    if arguments.by == "target" and not arguments.target:
        raise WrongArgumentError("--by target needs --target COLUMN; add it")
    if arguments.by == "calendar":
        if not all(isinstance(value, str) for value in table[arguments.column].dropna().head(1)):
            raise WrongArgumentError(
                f"{arguments.column} is a column of dates, which needs no file: set `calendar` in the schema"
            )
        periods = [CalendarUnit(word) for word in arguments.levels or ("day", "month", "quarter", "year")]
        return infer.by_calendar(*arguments.bounds, periods=periods)
    numbers = [int(word) for word in arguments.levels]
    if arguments.by == "intervals":
        low, high = map(int, arguments.bounds)
        return infer.by_intervals(low, high, numbers)
    if arguments.by == "prefixes":
        return infer.by_prefixes(holders.values, numbers)
    return infer.by_target(holders, _values_and_targets(arguments, table), numbers, rare=arguments.rare)


def _values_and_targets(arguments: argparse.Namespace, table: "pd.DataFrame") -> "pd.DataFrame":
    """Return values as a release reads them and targets, shape (n, 2), one row for each that a person has."""
    import pandas as pd

    from privacy_engine.tables.columns import factorize

    table = table.dropna(subset=[arguments.column, arguments.target])
    found = factorize(table[arguments.column])
    whose = range(len(table)) if arguments.person is None else factorize(table[arguments.person]).codes
    texts = pd.Series(found.texts, dtype=object).take(found.codes).to_numpy()
    pairs = pd.DataFrame({"value": texts, "target": table[arguments.target].to_numpy(), "whose": whose})
    return pairs.drop_duplicates()[["value", "target"]]


def _check(arguments: argparse.Namespace) -> int:
    from privacy_release.spec.files import read_hierarchy

    holders = _holders_of_column(arguments)
    found = read_hierarchy(arguments.hierarchy)
    print(f"{arguments.hierarchy}: {_size(found)}")
    untrue = found.untruthful_rows()
    if untrue:
        print(f"{counted(untrue, 'value has', 'values have')} a wrong label, such as an interval without it")
    nodes = _nodes(found)
    idle = [level for level in range(1, found.height) if nodes[level] == nodes[level - 1]]
    if idle:
        print(f"levels {idle} combine nothing that was separate below them: remove them")
    if holders is None:
        return 1 if untrue or idle else 0
    missing = _report_missing(found, holders)
    if missing and arguments.curator:
        print(f"they are in {_for_curator(arguments, missing)}")
    unused = sum(value not in holders.by_value for value in found.values)
    print(f"{counted(unused, 'value of the hierarchy is', 'values of the hierarchy are')} not in the column")
    return 1 if untrue or idle or missing else 0


def _show(arguments: argparse.Namespace) -> int:
    from privacy_release.hierarchies.drawing import render, tree
    from privacy_release.spec.files import read_hierarchy

    if arguments.k < 2:
        raise WrongArgumentError(f"--k must be >= 2, got {arguments.k}; correct it")
    holders, found = _holders_of_column(arguments), read_hierarchy(arguments.hierarchy)
    title, counted = arguments.column or arguments.hierarchy.stem, _counted(arguments) if holders else ""
    page = render(tree(found, holders, arguments.k), title=title, k=arguments.k, counted=counted)
    _write(arguments.output, page)
    print(f"{arguments.output} written")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    import csv
    import io

    from privacy_engine.tables.hierarchy import Hierarchy
    from privacy_release.spec.reading import LARGEST_HIERARCHY, read_text

    if len(arguments.delimiter) != 1:
        raise WrongArgumentError(
            f"--delimiter must be one character, got {arguments.delimiter!r}; correct it"
        )
    text = read_text(arguments.hierarchy, LARGEST_HIERARCHY).removeprefix("\ufeff")
    rows = csv.reader(io.StringIO(text), delimiter=arguments.delimiter)
    found = Hierarchy(tuple(tuple(map(str.strip, row)) for row in rows if row))
    _write(arguments.output, found.to_csv())
    print(f"{arguments.output}: {_size(found)}")
    return 0


def _holders_of_column(arguments: argparse.Namespace) -> "Holders | None":
    """Return the holders of the column's values. None if no column was named."""
    if bool(arguments.source) != bool(arguments.column) or (arguments.person and not arguments.source):
        raise WrongArgumentError(
            "--source and --column go together, and --person with them: set both, or none"
        )
    return _holders(arguments, _read(arguments)) if arguments.source else None


def _holders(arguments: argparse.Namespace, table: "pd.DataFrame") -> "Holders":
    from privacy_release.hierarchies.holders import Holders

    return Holders.of(table[arguments.column], table[arguments.person] if arguments.person else None)


def _counted(arguments: argparse.Namespace) -> str:
    return "persons" if arguments.person else "records"


def _read(arguments: argparse.Namespace, *more: str | None) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow.parquet as pq

    from privacy_engine.engines.frames import to_frame
    from privacy_engine.errors import SchemaError
    from privacy_release.sources.addresses import find_source, reading

    columns = list(dict.fromkeys(filter(None, [arguments.column, arguments.person, *more])))
    found, parts = find_source(arguments.source), []
    with reading(found.uri):
        for file in found.files:
            with found.filesystem.open(file, "rb") as stream:
                parquet = pq.ParquetFile(stream)
                if missing := [name for name in columns if name not in parquet.schema_arrow.names]:
                    raise SchemaError(
                        f"{found.uri}: must have the columns {missing}, found {parquet.schema_arrow.names}; "
                        "correct the name"
                    )
                parts.append(to_frame(parquet.read(columns=columns)))
    return pd.concat(parts, ignore_index=True)


def _size(hierarchy: "Hierarchy") -> str:
    return f"{counted(len(hierarchy.values), 'value')}, {counted(hierarchy.height, 'level')} above them"


def _report_missing(hierarchy: "Hierarchy", holders: "Holders") -> dict[str, int]:
    """Report the values that a hierarchy misses, and return how many hold each."""
    known = set(hierarchy.values)
    missing = {value: len(whose) for value, whose in holders.by_value.items() if value not in known}
    if missing:
        print(
            f"{len(missing):,} of the {len(holders.by_value):,} values of the column are not in the "
            "hierarchy: a release would stop at them"
        )
    return missing


def _for_curator(arguments: argparse.Namespace, missing: dict[str, int]) -> Path:
    import csv
    import io

    from privacy_release.reports.curator import write_for_curator

    out = io.StringIO()
    writer = csv.writer(out, delimiter=";", lineterminator="\n")
    writer.writerow(["value", _counted(arguments)])
    writer.writerows(sorted(missing.items()))
    return write_for_curator(out.getvalue(), arguments.column, "hierarchy", ending=".csv")


def _write(path: Path, text: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise WrongArgumentError(f"{path} exists and is kept: remove it, or name another file") from None
    except OSError as error:
        raise WrongArgumentError(
            f"{path} cannot be written ({type(error).__name__}): name another file"
        ) from None
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
