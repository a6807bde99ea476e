"""`privacy-release query`: SQL on published releases. Each answer names the releases it was made from."""

import argparse
import io
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.vocabulary import counted
from privacy_release.cli.arguments import WrongArgumentError, default_lake, lake_at, write_whole

if TYPE_CHECKING:
    from privacy_release.query.answer import Answer

FORMATS = ("table", "csv", "json", "parquet")
_EPILOG = """\
A table's name means its newest release, the one that was first published last. Only published releases that
were not retracted are read; files, settings and other databases are not accessible. The answer goes to stdout
or FILE; the releases that it was made from, and their guarantees, go to stderr (json and parquet contain
them, too). An answer with more than N rows is refused.

  privacy-release query "SELECT sex, count(*) AS people FROM adult_occupation GROUP BY sex"
  privacy-release query "SELECT sex, count(*), avg(age) FROM adult_private GROUP BY sex" --intervals
  privacy-release query 'SELECT * FROM "my-table"' --release 2026-W47 --format csv --output week.csv
"""


def add_query_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `query` to the parser."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sql", metavar="SQL", help="one SELECT in DuckDB's dialect")
    parser.add_argument(
        "--lake", metavar="DIR", help="folder or address; default $PRIVACY_LAKE, else lake in $AIRFLOW_HOME"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--release", metavar="ID", help="query this release of each table, not the newest")
    which.add_argument(
        "--every-release", action="store_true", help="query all releases; tables get a column `release`"
    )
    parser.add_argument(
        "--intervals",
        action="store_true",
        help="counts and means of the confidential table, each with an interval: see docs/query.md",
    )
    parser.add_argument(
        "--level",
        type=float,
        default=0.95,
        metavar="P",
        help="probability that an interval of a private release contains the value (default 0.95)",
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="default table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="instead of stdout; parquet needs it")
    parser.add_argument(
        "--limit", type=int, default=10_000, metavar="N", help="largest number of rows (default 10000)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="longest duration (default 60)"
    )
    parser.add_argument(
        "--bytes", type=int, default=256_000_000, metavar="B", help="largest size (default 256000000)"
    )
    parser.set_defaults(command=_query)


def _query(arguments: argparse.Namespace) -> int:
    from privacy_release.query.answer import Limits, answer

    if arguments.format == "parquet" and arguments.output is None:
        raise WrongArgumentError("--format parquet needs --output FILE")
    lake = lake_at(arguments.lake or default_lake())
    form = arguments.format if arguments.format in ("csv", "json") else "arrow"
    limits = Limits(rows=arguments.limit, seconds=arguments.seconds, size=arguments.bytes)
    if arguments.intervals:
        from privacy_release.query.intervals import answer_with_intervals

        if arguments.every_release:
            raise WrongArgumentError("--intervals are of one release; remove --every-release")
        given = answer_with_intervals(
            lake,
            arguments.sql,
            form=form,
            release=arguments.release,
            level=arguments.level,
            limits=limits,
        )
    else:
        given = answer(
            lake,
            arguments.sql,
            form=form,
            release=arguments.release,
            every_release=arguments.every_release,
            limits=limits,
        )
    data = _bytes(given, arguments.format)
    if arguments.output is None:
        print(data.decode(), end="")
    else:
        write_whole(arguments.output, data)
    for source in given.sources:
        print(f"source    {_plain(str(source))}", file=sys.stderr)
    return 0


def _bytes(given: "Answer", kind: str) -> bytes:
    """Return the answer as a file of a format."""
    if kind == "csv":
        return given.data
    if kind == "json":
        return given.as_json()
    return _table(given) if kind == "table" else _parquet(given)


def _table(given: "Answer") -> bytes:
    """Format columns as wide as needed, numbers to the right."""
    table = given.rows
    cells = zip(*(column.to_pylist() for column in table.columns), strict=True)
    rows = [[_plain(_text(value)) for value in row] for row in cells]
    heads = [_plain(name) for name in given.columns]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    right = [_is_number(kind) for kind in table.schema.types]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (heads, ["-" * width for width in widths], *rows)
    ]
    return ("\n".join([*lines, f"({counted(len(rows), 'row')})"]) + "\n").encode()


def _parquet(given: "Answer") -> bytes:
    """Return a Parquet file with the sources in its metadata, as `privacy_release.sources`."""
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    metadata = {"privacy_release.sources": json.dumps([asdict(source) for source in given.sources])}
    pq.write_table(given.rows.replace_schema_metadata(metadata), stream)
    return stream.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(text: str) -> str:
    """Remove characters that would control a terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _is_number(kind: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind))
