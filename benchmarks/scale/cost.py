"""How near `check --cost` is: what all records took, beside what samples of them predict."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import dp_tables
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from privacy_release.explore.cost import Cost, SampleCost, Steps, cost, measured_on_samples
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import RecordsFileRef
from privacy_release.workarea.staged import write_schema

K = 10
METHODS: Mapping[str, Mapping[str, object]] = {
    "mondrian": {"k": K},
    "bottom_up": {"k": K},
    "obpa": {"k": K},
    "kacluk": {"k": K},
    "ilp_l_diversity": {"k": K, "l": 3},
    "rfka": {"k": K},
    "latent_class": {"epsilon": 1},
    "privbayes_r": {"epsilon": 1},
}
SHARES = (16, 8, 2)  # of all records are at least one in this many
LONGEST = 600.0  # seconds that a method may take for all samples

NOTE = """Adult, k = 10, l = 3 where the method asks for it, epsilon 1: outlier search, method, figures and
verification in one warm process, first on samples that double from 500 records, at last on all of them.
Seconds, and MB of the process at its largest; *from 1 in 8* is the range that is predicted when no sample has
more than one in eight of the records. Adult is public, so private methods run on it, too."""


def run(table: Table, *, methods: Sequence[str] = tuple(METHODS)) -> Section:
    """Measure and describe."""
    measured = {}
    for method in methods:
        with TemporaryDirectory() as folder:
            measured[method] = measured_on_samples(_steps(table, method, Path(folder)), LONGEST)
        print(f"[cost] {method}: {measured[method][-1]}", flush=True)
    return describe(measured)


def _steps(table: Table, method: str, folder: Path) -> Steps:
    """With a copy of the records that a process can read."""
    private = "epsilon" in METHODS[method]
    of = dp_tables.adult() if private else table
    frame = of.frame.head(len(table.frame))
    work = WorkArea(folder, "cost")
    work.create()
    uri = work.path("records.parquet")
    sha256 = write_private(uri, parquet_bytes(frame))
    return Steps(
        records=RecordsFileRef(uri=str(uri), rows=len(table.frame), sha256=sha256),
        schema=write_schema(work, "records", of.schema),
        method=method,
        parameters=METHODS[method],
        policy={"max_epsilon": 1} if private else {"require": [{"model": "k_anonymity", "k": K}]},
        detector=None if private else "okplof",
    )


def describe(measured: Mapping[str, Sequence[SampleCost]]) -> Section:
    """One line a method, and the judgements."""
    rows: list[list[str]] = []
    held: dict[str, list[bool]] = {"seconds": [], "memory": []}
    for method, points in measured.items():
        whole = points[-1]
        line = [method, f"{whole.seconds:.2f} / {whole.memory / 2**20:.0f}"]
        for share in SHARES:
            known = [point for point in points if point.rows * share <= whole.rows]
            if not known:
                line.append("")
                continue
            found = cost(known, whole.rows)
            held["seconds"].append(found.seconds[0] <= whole.seconds <= found.seconds[1])
            held["memory"].append(found.memory[0] <= whole.memory <= found.memory[1])
            line.append(_range(found))
        rows.append(line)
    head = ["method", "took", *(f"from 1 in {share}" for share in SHARES)]
    judged = [
        verdict(f"9 of 10 ranges hold the {name} that all records took", sum(own) >= 0.9 * len(own), _of(own))
        for name, own in held.items()
    ]
    return Section(
        title="19. What a run costs, predicted",
        blocks=[NOTE, markdown_table(head, rows), "\n".join(judged)],
    )


def _of(held: Sequence[bool]) -> str:
    return f"{sum(held)} of {len(held)}"


def _range(found: Cost) -> str:
    low, high = found.seconds
    least, most = (number / 2**20 for number in found.memory)
    return f"{low:.2f} to {high:.2f} / {least:.0f} to {most:.0f}"
