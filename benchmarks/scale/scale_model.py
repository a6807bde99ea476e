"""What a release of any size costs: ``python -m benchmarks.scale.scale_model FOLDER ROWS ROWS ...``.

Whole releases of some sizes are measured, each in a separate process (see `scale_release`); the two
smallest ones of many records give the constants of the model, the others check it, and it tells of a table
that no machine here holds. The folder keeps tables and results, so that a run which was cut off goes on where
it stopped.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.report import markdown_table
from benchmarks.scale.scale_release import INGEST, JOIN, PARTS, PAUSE, VERIFY, WORK, Part, Spent
from benchmarks.scale.scale_run import Runner
from benchmarks.scale.scale_tables import write_table
from benchmarks.scale.speed import GIGABYTE
from benchmarks.tables import adult
from privacy_release.sources.shares import MANY

LARGE = 1_000_000_000
ON_SPARK = (WORK, JOIN, VERIFY)
NETWORK = 1e9  # bytes a second that an executor sends, an assumption
SPARK_ROWS = (1_000_000, 3_000_000)
PROBE = 1 << 30  # bytes written to learn what the disk takes


@dataclass(frozen=True, kw_only=True)
class Constant:
    """What a part costs: a start, and so much a row.

    Attributes:
        start: CPU seconds.
        alone: CPU seconds a row while at most one thread can run.
        together: CPU seconds a row while two or more can.
        moved: bytes a row that are read or written.
    """

    start: float
    alone: float
    together: float
    moved: float

    @classmethod
    def of(cls, small: tuple[int, Part], large: tuple[int, Part]) -> "Constant":
        """The line through two sizes."""
        (few, less), (many, more) = small, large

        def slope(name: str) -> float:
            return max(0.0, (getattr(more, name) - getattr(less, name)) / (many - few))

        a_row = slope("alone") + slope("together")
        return cls(
            start=max(0.0, less.cpu - a_row * few),
            alone=slope("alone"),
            together=slope("together"),
            moved=slope("moved"),
        )

    def cpu(self, rows: int) -> float:
        """CPU seconds."""
        return self.start + rows * (self.alone + self.together)

    def wall(self, rows: int, cores: int, bandwidth: float) -> float:
        """Seconds at most, if reading and writing do not overlap with work."""
        return self.start + rows * (self.alone + self.together / cores + self.moved / bandwidth)


Model = Mapping[str, Constant]


def fitted(found: Sequence[Spent]) -> Model:
    """The constants, from the two smallest sizes whose source is copied in shares; else from the smallest."""
    by_size = sorted(found, key=lambda spent: spent.rows)
    many = [spent for spent in by_size if spent.rows >= MANY]
    small, large = (many if len(many) > 1 else by_size)[:2]
    names = [name for name in small.parts if name in large.parts]
    sizes = (small.rows, large.rows)
    return {n: Constant.of((sizes[0], small.parts[n]), (sizes[1], large.parts[n])) for n in names}


def measured(folder: Path, rows: int, what: str) -> Spent:
    """What `scale_release` measures of a size, unless the folder has it."""
    kept = folder / f"{what}-{rows}.json"
    if not kept.exists():
        command = [sys.executable, "-m", "benchmarks.scale.scale_release", str(folder), str(rows), what]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        kept.write_text(done.stdout.splitlines()[-1])
    fields = json.loads(kept.read_text())
    return Spent(**{**fields, "parts": {name: Part(**part) for name, part in fields["parts"].items()}})


def disk(folder: Path) -> float:
    """Bytes a second that the disk takes."""
    path, block = folder / "probe", os.urandom(1 << 24)
    began = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(PROBE // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    spent = time.perf_counter() - began
    path.unlink()
    return PROBE / spent


def spark_factor(folder: Path) -> float:
    """CPU seconds of a row in fragments on Spark beside those in processes, the start of both left out."""
    cpu = {}
    for engine in ("local", "spark"):
        for rows in SPARK_ROWS:
            file = folder / f"table-{rows}.parquet"
            if not file.exists():
                write_table(adult(), rows, file)
            given = {"file": str(file), "size": 500_000, "method": "mondrian", "parameters": {"l": 3}}
            cpu[engine, rows] = Runner(folder)("fragments", engine=engine, **given).cpu
    few, many = SPARK_ROWS
    return (cpu["spark", many] - cpu["spark", few]) / (cpu["local", many] - cpu["local", few])


def constants(model: Model) -> str:
    """The model, part by part."""
    lines = [
        [
            name,
            f"{c.start:.1f}",
            f"{1e6 * c.alone:.2f}",
            f"{1e6 * c.together:.2f}",
            f"{c.moved:.0f}",
        ]
        for name, c in model.items()
    ]
    heads = ["part", "start, CPU s", "a row alone, CPU us", "a row on all cores, CPU us", "bytes a row"]
    return markdown_table(heads, lines)


def checks(found: Sequence[Spent], model: Model) -> str:
    """Each size: what it took, and what the model says."""
    lines = []
    for spent in found:
        cpu = sum(part.cpu for part in spent.parts.values())
        expected = sum(model[name].cpu(spent.rows) for name in spent.parts)
        wall = sum(part.wall for part in spent.parts.values())
        together = sum(part.together for part in spent.parts.values()) / cpu
        lines.append(
            [
                f"{spent.rows:,}",
                f"{spent.classes:,}",
                f"{wall:.0f}",
                f"{cpu:.0f}",
                f"{expected:.0f} ({expected / cpu - 1:+.0%})",
                f"{together:.0%}",
                f"{spent.peak / GIGABYTE:.2f}",
                f"{spent.read / spent.rows:.1f} / {spent.written / spent.rows:.1f}",
            ]
        )
    heads = [
        "rows",
        "classes",
        "wall s",
        "CPU s",
        "CPU s of the model",
        "of it on all cores",
        "memory of all, GB",
    ]
    return markdown_table([*heads, "bytes a row, source / published"], lines)


def exponents(found: Sequence[Spent]) -> str:
    """By which power of the rows the CPU of each part grows: through all sizes, and from one to the next.

    Through all it is the slope of least squares of the logarithms, which the noise of one size moves less.
    """
    lines, sizes = [], np.log([spent.rows for spent in found])
    for name in PARTS:
        taken = np.log([max(spent.parts[name].cpu, PAUSE) for spent in found])
        slopes = [np.polyfit(sizes, taken, 1)[0], *(np.diff(taken) / np.diff(sizes))]
        lines.append([name, *(f"{slope:.2f}" for slope in slopes)])
    heads = [f"{a.rows:,} to {b.rows:,}" for a, b in pairwise(found)]
    return markdown_table(["part", "through all sizes", *heads], lines)


def predicted(model: Model, bandwidth: float, factor: float, rows: int = LARGE) -> str:
    """Minutes on one machine of 8 cores, and where 50 executors of 4 work, order and count."""
    lines, sums = [], [0.0, 0.0, 0.0]
    for name, constant in model.items():
        one = constant.wall(rows, 8, bandwidth)
        if name in (INGEST, *ON_SPARK):  # executors copy a source by the same Python, without Spark's own
            work = (factor if name in ON_SPARK else 1) * rows * (constant.alone + constant.together) / 200
            many = constant.start + work + rows * constant.moved / (50 * NETWORK)
        else:
            many = one
        cpu = constant.cpu(rows)
        sums = [total + value for total, value in zip(sums, (cpu, one, many), strict=True)]
        lines.append([name, f"{cpu / 60:.0f}", f"{one / 60:.1f}", f"{many / 60:.1f}"])
    lines.append(["in all", *(f"{total / 60:.1f}" for total in sums)])
    heads = [
        f"{rows:,} rows",
        "CPU minutes",
        "8 cores, minutes",
        "driver of 8 and 50 executors of 4, minutes",
    ]
    return markdown_table(heads, lines)


def main() -> None:
    """Print the tables."""
    if len(sys.argv) < 4:
        sys.exit(f"{__doc__}\nIt needs a folder and two sizes at least.")
    folder, sizes = Path(sys.argv[1]).absolute(), sorted(map(int, sys.argv[2:]))
    folder.mkdir(exist_ok=True)
    found = [measured(folder, rows, "release") for rows in sizes]
    private = [spent for rows in sizes if (spent := _measuring(folder, rows)) is not None]
    model, bandwidth = fitted(found), disk(folder)
    measuring = fitted(private)
    factor = spark_factor(folder)
    print(f"{len(os.sched_getaffinity(0))} cores; the disk takes {bandwidth / 1e6:.0f} MB a second; a row in "
          f"fragments takes {factor:.1f} times the CPU on Spark")  # fmt: skip
    for text in (
        constants({**model, **measuring}),
        checks(found, model),
        exponents(found),
        checks(private, measuring),
        predicted(model, bandwidth, factor),
        predicted(measuring, bandwidth, factor),
    ):
        print(f"\n{text}")


def _measuring(folder: Path, rows: int) -> Spent | None:
    """What measuring takes; None where the distinct records do not fit into the memory for counting."""
    try:
        return measured(folder, rows, "measure")
    except subprocess.CalledProcessError:
        print(f"[scale_model] {rows:,} rows are not measured: its process failed", file=sys.stderr)
        return None


if __name__ == "__main__":
    main()
