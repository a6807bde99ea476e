"""Tables larger than memory: fragments, aggregations and Spark, on up to 100 million records."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.environments import UnavailableError
from benchmarks.report import Section
from benchmarks.scale.scale_report import ILP, MONDRIAN, REFINED, Found, describe
from benchmarks.scale.scale_run import Runner
from benchmarks.scale.scale_tables import write_table
from benchmarks.tables import Table

METHODS: Mapping[str, Mapping[str, object]] = {
    MONDRIAN: {"method": "mondrian", "parameters": {"l": 3}},
    REFINED: {"method": "ilp_l_diversity", "parameters": {"l": 3}},
    ILP: {"method": "ilp_l_diversity", "parameters": {"l": 3, "refine": False}},
}
SAMPLED = 1_000_000  # records on which counts are compared with those of a table in memory


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many records are tried.

    Attributes:
        fragmented: method -> tables that are released in fragments.
        whole: method -> tables that are also released as a whole, in memory.
        fragment: most records of a fragment.
        fragments: and of the fragments that one table is cut into again and again.
        varied: the size of that table, which Spark works on, too.
        aggregated: of a table that is only counted.
        with_spark: whether Spark is measured.
    """

    fragmented: Mapping[str, Sequence[int]] = field(
        default_factory=lambda: {
            MONDRIAN: (30_000, 300_000, 3_000_000, 10_000_000, 30_000_000),
            REFINED: (30_000, 300_000, 3_000_000),
            ILP: (30_000, 300_000, 3_000_000, 30_000_000),
        }
    )
    whole: Mapping[str, Sequence[int]] = field(
        default_factory=lambda: {
            MONDRIAN: (30_000, 300_000, 3_000_000, 10_000_000),
            REFINED: (30_000, 300_000, 3_000_000),
            ILP: (30_000, 300_000, 3_000_000),
        }
    )
    fragment: int = 500_000
    fragments: Sequence[int] = (100_000, 250_000, 500_000, 1_000_000)
    varied: int = 3_000_000
    aggregated: int = 100_000_000
    with_spark: bool = True


QUICK = Sizes(
    fragmented={MONDRIAN: (2_000, 20_000)},
    whole={MONDRIAN: (20_000,)},
    fragment=5_000,
    fragments=(5_000,),
    varied=20_000,
    aggregated=50_000,
    with_spark=False,
)


def run(table: Table, *, sizes: Sizes | None = None, folder: Path | None = None) -> Section:
    """Measure and describe.

    Args:
        table: Adult, which the tables are made from.
        sizes: of the tables; up to 100 million records where not given.
        folder: of the tables and of the results so far. Where neither is given it is always the same below
            the system's folder for temporary files: a run of an hour that is cut off leaves it, and the
            next one goes on from it.
    """
    if folder is None:
        folder = Path(tempfile.mkdtemp() if sizes else Path(tempfile.gettempdir()) / "privacy-release-scale")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    section = describe(measure(table, sizes or Sizes(), Runner(folder)))
    shutil.rmtree(folder)
    return section


def measure(table: Table, sizes: Sizes, case: Runner) -> Found:
    """Every case; those that take longest come last."""
    found = Found(fragment=sizes.fragment, varied=sizes.varied)
    release(found, MONDRIAN, table, sizes, case)
    for n in sizes.fragmented[MONDRIAN]:
        found.verified[n] = case("verify", file=str(released_file(case, n)))
        found.counted[n] = case("class_sizes", file=str(source(table, n, case)))
    many = source(table, sizes.aggregated, case)
    found.counted[sizes.aggregated] = case("class_sizes", file=str(many))
    found.contingency[sizes.aggregated] = case("contingency", file=str(many))
    largest = source(table, max(sizes.fragmented[MONDRIAN]), case)
    found.private = case("measure", file=str(largest))
    found.compared = case("compare", file=str(largest), sampled=SAMPLED)
    varied = source(table, sizes.varied, case)
    for size in sizes.fragments:
        known = found.fragmented[MONDRIAN].get(sizes.varied) if size == sizes.fragment else None
        found.sizes[size] = known or case("fragments", file=str(varied), size=size, **METHODS[MONDRIAN])
    if sizes.with_spark:
        spark(found, varied, released_file(case, sizes.varied), sizes, case)
    for name in sizes.fragmented:
        if name != MONDRIAN:
            release(found, name, table, sizes, case)
    return found


def release(found: Found, name: str, table: Table, sizes: Sizes, case: Runner) -> None:
    """A method in fragments and as a whole. The smallest table comes twice: the first run may compile."""
    found.fragmented[name], found.whole[name] = {}, {}
    tables = sizes.fragmented[name]
    first = str(source(table, tables[0], case))
    case("fragments", file=first, size=sizes.fragment, **METHODS[name], warm_up=True)
    for n in tables:
        given = {"file": str(source(table, n, case)), **METHODS[name]}
        kept = {"out": str(released_file(case, n))} if name == MONDRIAN else {}
        found.fragmented[name][n] = case("fragments", size=sizes.fragment, **given, **kept)
        if n in sizes.whole[name]:
            found.whole[name][n] = case("whole", **given)


def spark(found: Found, file: Path, released: Path, sizes: Sizes, case: Runner) -> None:
    """The same work on Spark, where there is one."""
    try:
        found.spark["session"] = case("session")
        found.spark["verify"] = case("verify", file=str(released), engine="spark")
        found.spark["fragments"] = case(
            "fragments", file=str(file), size=sizes.fragment, engine="spark", **METHODS[MONDRIAN]
        )
    except UnavailableError as error:
        found.missing.append(f"Spark was not measured: {error}.")


def source(table: Table, rows: int, case: Runner) -> Path:
    """A table, made where it is not there yet."""
    file = case.folder / f"source-{rows}.parquet"
    if not file.exists():
        part = file.with_suffix(".part")
        write_table(table, rows, part)
        part.rename(file)
    return file


def released_file(case: Runner, rows: int) -> Path:
    """Where Mondrian's release of a table is kept, which is then verified."""
    return case.folder / f"released-{rows}.parquet"
