"""The benchmark of scale on small tables: that it counts all processes, and judges by the numbers."""

import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.environments import UnavailableError
from benchmarks.scale import scale, scale_cases, scale_report, scale_steps, scale_tables
from benchmarks.scale.scale_report import ILP, MONDRIAN, REFINED, Found
from benchmarks.scale.scale_run import Measured, Runner
from benchmarks.scale.scale_usage import Usage
from benchmarks.tables import Table, of_frame
from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_engine.engines.frames import to_frame


@pytest.fixture(scope="module")
def table() -> Table:
    return of_frame(synthetic_adult(2_000, rng=np.random.default_rng(1)), "generated")


def measured(cpu: float = 1.0, peak: float = 0.5, **figures: float) -> Measured:
    return Measured(wall=cpu, cpu=cpu, peak=int(peak * 1e9), figures=figures)


def released(cpu: float = 1.0, peak: float = 0.5, gcp: float = 0.1, fragments: int = 2) -> Measured:
    return measured(cpu, peak, gcp=gcp, fragments=fragments, plan=0.1, work=0.7, join=0.2)


@pytest.fixture
def found() -> Found:
    """Everything as it should be."""
    sizes = {n: released(cpu=5 + n * math.log(n) / 1e6) for n in (1_000, 10_000, 100_000)}
    return Found(
        fragment=5_000,
        varied=10_000,
        fragmented={MONDRIAN: sizes, REFINED: sizes, ILP: sizes},
        whole={name: {10_000: released()} for name in (MONDRIAN, REFINED, ILP)},
        verified={n: measured(k=10, l=3, t=0.7, classes=n / 10) for n in sizes},
        counted={n: measured(classes=n / 2) for n in sizes},
        contingency={1_000_000: measured(cells=99)},
        sizes={2_500: released(fragments=4), 5_000: released()},
        private=measured(rows=100_000),
        compared=measured(compared=1_000, distinct=900, equal=1),
        spark={name: released(cpu=30, peak=3) for name in ("session", "fragments", "verify")},
    )


def verdicts(found: Found) -> dict[str, bool]:
    """What is claimed -> whether it holds."""
    text = "\n".join(scale_report.describe(found).blocks)
    return {claim: word == "Holds" for word, claim in re.findall(r"^- \*\*(.*?)\*\*: (.*?) \(", text, re.M)}


def test_a_generated_table_fits_its_schema_and_hardly_repeats(table: Table, tmp_path: Path) -> None:
    scale_tables.write_table(table, 5_000, tmp_path / "table.parquet", part=2_000)
    read = pq.read_table(tmp_path / "table.parquet")
    assert not any(str(kind).startswith("dictionary") for kind in read.schema.types)
    frame = to_frame(read)
    scale_tables.schema().check(frame)
    names = [a.name for a in scale_tables.schema().quasi_identifiers]
    assert len(names) == 8
    assert len(frame) == 5_000
    assert len(frame[names].drop_duplicates()) > 0.9 * len(frame)


def test_a_longer_table_begins_with_the_records_of_a_shorter_one(table: Table) -> None:
    short, long = (list(scale_tables.parts(table, rows, seed=1, part=100)) for rows in (200, 350))
    other = next(scale_tables.parts(table, 100, seed=2, part=100))
    assert [part.num_rows for part in long] == [100, 100, 100, 50]
    assert short == long[:2]
    assert not long[0].equals(long[1])
    assert not long[0].equals(other)


@pytest.mark.slow  # it measures a process
def test_a_process_below_counts_with_its_seconds_and_its_memory() -> None:
    below = "import os\nheld = b'1' * 400_000_000\nwhile sum(os.times()[:2]) < 0.5: pass"
    with Usage() as usage:
        before = usage.cpu
        subprocess.run([sys.executable, "-c", below], check=True)
    assert usage.cpu - before > 0.5
    assert usage.peak > 400_000_000


@pytest.mark.slow  # it measures a process
def test_a_process_that_no_one_waits_for_counts_too() -> None:
    below = "import os\nheld = b'1' * 400_000_000\nwhile sum(os.times()[:2]) < 1.5: pass\n"
    program = [sys.executable, "-c", below + "print('done')\ninput()"]
    with Usage() as usage:
        before = usage.cpu
        started = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "done\n"
    try:
        assert usage.cpu - before > 1.2  # less than what it spends after the last look at it
        assert usage.peak > 400_000_000
    finally:
        started.communicate("\n")


@pytest.mark.slow  # it measures a process
def test_a_case_that_is_done_is_not_done_again(tmp_path: Path, table: Table) -> None:
    case = Runner(tmp_path)
    file = scale.source(table, 500, case)
    given = {"file": str(file), "method": "mondrian", "parameters": {"l": 3}}
    first = case("whole", **given)
    assert first.figures["rows"] == 500
    assert 0 < first.figures["gcp"] < 1
    assert first.peak > 1e7
    file.unlink()
    assert case("whole", **given) == first
    with pytest.raises(UnavailableError, match="whole: its process failed: FileNotFoundError"):
        case("whole", **given | {"parameters": {}})


class Here(Runner):
    """Runs the cases in this process, which has imported everything already."""

    def __call__(self, case: str, **arguments: object) -> Measured:
        figures = {name: float(value) for name, value in scale_cases.CASES[case](**arguments).items()}
        return Measured(wall=1.0, cpu=1.0, peak=1, figures=figures)


@pytest.mark.slow  # it runs the whole part
def test_a_small_plan_runs_from_the_tables_to_the_section(table: Table, tmp_path: Path) -> None:
    sizes = replace(
        scale.QUICK,
        fragmented={MONDRIAN: (2_000, 4_000)},
        whole={MONDRIAN: (4_000,)},
        fragment=2_000,
        fragments=(2_000,),
        varied=4_000,
        aggregated=6_000,
    )
    found = scale.measure(table, sizes, Here(tmp_path))
    assert found.fragmented[MONDRIAN][4_000].figures["fragments"] > 1
    assert found.compared is not None
    assert found.compared.figures["equal"] == 1
    for n, verified in found.verified.items():
        assert verified.figures["rows"] == n
        assert verified.figures["k"] >= 10
        assert verified.figures["l"] >= 3
    judged = verdicts(found)
    assert judged["no process of a release in fragments takes 2 GB"]
    assert judged["every release in fragments keeps k = 10 and l = 3"]
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]  # nothing is left behind


def test_what_is_as_it_should_be_holds(found: Found) -> None:
    judged = verdicts(found)
    assert len(judged) == 11
    assert all(judged.values())


def test_each_judgement_follows_its_own_number(found: Found) -> None:
    found.fragmented[ILP] = {n: released(cpu=5 + n**1.3 / 1e6) for n in (1_000, 10_000, 100_000)}
    found.whole[REFINED] = {10_000: released(gcp=0.09)}
    found.fragmented[MONDRIAN] = found.fragmented[MONDRIAN] | {1_000: released(cpu=5, peak=2.1)}
    found.counted[10_000] = measured(peak=1.1, classes=1)
    found.verified[10_000] = measured(k=9, l=3, t=0.7, classes=1)
    found.private = measured(peak=2.1, rows=1)
    found.compared = measured(compared=1, distinct=1, equal=0)
    assert [claim for claim, holds in verdicts(found).items() if not holds] == [
        f"{ILP}: CPU seconds grow no faster than n log n",
        f"{REFINED}: fragments lose at most 5% more than the whole table at once",
        "no process of a release in fragments takes 2 GB",
        "verification and counting stay under 1 GB",
        "every release in fragments keeps k = 10 and l = 3",
        "counts through the engine equal those of a table in memory",
        "and it takes less than 2 GB",
    ]


def test_loss_is_compared_on_the_largest_table_that_both_released(found: Found) -> None:
    found.whole[MONDRIAN] = {1_000: released(gcp=0.01), 10_000: released(gcp=0.1)}
    line = scale_report.loss(MONDRIAN, found.fragmented[MONDRIAN], found.whole[MONDRIAN])
    assert "Holds" in line
    assert "on 10,000 rows" in line


def test_spark_is_reported_as_a_ratio_of_ours_or_why_it_is_missing(found: Found) -> None:
    text = "\n".join(scale_report.describe(found).blocks)
    assert (
        "| Mondrian in fragments, 10,000 rows | 30.0 | 30.0 | 3.00 | 1.0 | 1.0 | 0.50 | 30.0 | 30.0 |" in text
    )
    found.spark, found.missing = {}, ["Spark was not measured: no Java."]
    blocks = scale_report.describe(found).blocks
    assert "### Spark" not in blocks
    assert blocks[-1] == "Spark was not measured: no Java."


def test_the_exponent_is_the_slope_on_logarithmic_axes() -> None:
    assert scale_report.exponent(10, 10**1.5, 1_000, 1_000**1.5) == pytest.approx(1.5)


def test_every_case_of_the_plan_is_a_case() -> None:
    assert set(scale_cases.CASES) == {
        "fragments", "whole", "verify", "class_sizes", "contingency", "measure", "compare", "session",
    }  # fmt: skip


@pytest.mark.slow  # it measures processes of every step
def test_steps_are_measured_from_many_files_to_the_published_release(table: Table, tmp_path: Path) -> None:
    lines = scale_steps.measure(table, 150_000, tmp_path)
    assert [line[0] for line in lines] == [
        "ingest of 2 files",  # one for each row group
        "find how to cut",
        "cut and work on the fragments",
        "join, count and verify",
        "verify the staged release",
        "publish",
    ]
    assert all(float(cpu) > 0 and float(peak) > 0 for _, _, cpu, _, peak in lines)


@pytest.mark.slow  # it looks at a process that is busy and stopped
def test_a_thread_counts_while_it_could_run_and_not_while_it_waits() -> None:
    work = "print(flush=True)\nfor _ in iter(int, 1): pass"
    with subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            assert any(scale_steps.running(child.pid, besides=0) == 1 for _ in range(1_000))
            assert scale_steps.running(child.pid, besides=child.pid) == 0  # its only thread
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert scale_steps.running(child.pid, besides=0) == 0
        finally:
            child.kill()
