"""What Spark's driver holds and what executors send.

``python -m benchmarks.scale.scale_spark FOLDER ROWS ...`` measures tables of these sizes.

A cluster of this machine with 2 and with 4 executors of one core makes a release in fragments, and counts k,
l and t of it. Each size and cluster has separate processes; the folder keeps tables.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from benchmarks.report import markdown_table
from benchmarks.scale.cases import K, L
from benchmarks.scale.scale_cases import MEMORY, SEED, reference
from benchmarks.scale.scale_tables import released_schema, write_table
from benchmarks.scale.scale_usage import held
from benchmarks.scale.speed import GIGABYTE
from benchmarks.tables import SENSITIVE, adult
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.engine import Engine
from privacy_engine.engines.spark import SparkEngine
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.steps.producers.fragment_join import join
from privacy_release.steps.producers.fragments import cut_table, keep, release_records
from privacy_release.steps.producers.job import Job
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.references import FragmentReleaseRef, read_as
from privacy_release.workarea.spark_session import SparkCluster

EXECUTORS = (2, 4)
EXECUTOR_MEMORY = 1024  # MB, of Java alone
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What Spark did for a question.

    Attributes:
        wall: seconds.
        sent: bytes between executors.
        collected: bytes of results that came to the driver.
        heap: bytes that the driver's Java ever held up to the end of the question.
        client: bytes that the driver's Python ever held.
        records: bytes of the records that are asked about, in memory.
    """

    wall: float
    sent: int
    collected: int
    heap: int
    client: int
    records: int


def asked(session: Any, name: str, files: list[str], question: Callable[[], object]) -> Question:
    """Measure a question by Spark's own metrics."""
    context = session.sparkContext
    context.setJobGroup(name, name)
    began = time.perf_counter()
    question()
    wall = time.perf_counter() - began
    context.setJobGroup("others", "others")
    context._jsc.sc().listenerBus().waitUntilEmpty()
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(name)]
    stages = [store.lastStageAttempt(stage) for job in jobs for stage in set(job.stageIds)]
    stages = [stage for stage in stages if stage.status().toString() == "COMPLETE"]
    return Question(
        wall=wall,
        sent=sum(stage.shuffleWriteBytes() for stage in stages),
        collected=sum(stage.resultSize() for stage in stages if not stage.shuffleWriteBytes()),
        heap=max(held(child.pid) for child in psutil.Process().children()),
        client=held(psutil.Process().pid),
        records=sum(batch.nbytes for file in files for batch in pq.ParquetFile(file).iter_batches()),
    )


def measure(folder: Path, executors: int, rows: int) -> dict[str, Question]:
    """A release in fragments and its verification."""
    file = folder / f"table-{rows}.parquet"
    if not file.exists():
        write_table(adult(), rows, file)
    conf = {
        "spark.executor.memory": f"{EXECUTOR_MEMORY}m",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.pyspark.python": sys.executable,
    }
    cluster = SparkCluster(master=f"local-cluster[{executors},1,{EXECUTOR_MEMORY}]", conf=conf)
    work, found = WorkArea(folder, f"spark-{executors}-{rows}"), {}
    with tempfile.TemporaryDirectory(dir=folder) as spill, cluster.session(Path(spill), MEMORY) as session:
        engine = SparkEngine(session)
        with work:
            released: list[str] = []

            def make() -> None:
                released.extend(release(engine, work, file, rows))

            found["release"] = asked(session, "release", [str(file)], make)
            found["k, l and t"] = asked(session, "count", released, partial(count, engine, released))
    work.remove()
    return found


def release(engine: Engine, work: WorkArea, file: Path, rows: int) -> list[str]:
    """Cut, work on the fragments, join; the files that are made."""
    table = reference(file, rows, 500_000, work)
    cut = cut_table(table, engine, method="mondrian", parameters={"k": K, "l": L}, seed=SEED)
    plan = keep(cut, work, "table")
    made = engine.apply_by_fragment([str(file)], cut.plan.tree.assign, partial(release_records, plan))
    job = Job(work=work, label="released")
    joined = join(read_as(list[FragmentReleaseRef], list(made)), plan, job, engine)
    return [str(path) for path in files_of(joined.records or job.records, joined.sha256)]


def count(engine: Engine, files: list[str]) -> None:
    """k, l and t."""
    models = (
        KAnonymity(k=K),
        DistinctLDiversity(l=L, attribute=SENSITIVE),
        TCloseness(t=1.0, attribute=SENSITIVE),
    )
    assert verify_files(engine, files, released_schema(), ReleasePolicy(require=models)).passed


def main() -> None:
    """Print the table; with `--one`, a line of JSON for one size and cluster."""
    if sys.argv[1] == "--one":
        folder, executors, rows = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
        print(json.dumps({name: asdict(found) for name, found in measure(folder, executors, rows).items()}))
        return
    folder, lines = Path(sys.argv[1]).absolute(), []
    folder.mkdir(exist_ok=True)
    for executors in EXECUTORS:
        for rows in map(int, sys.argv[2:]):
            command = [sys.executable, "-m", "benchmarks.scale.scale_spark", "--one"]
            given = [str(folder), str(executors), str(rows)]
            done = subprocess.run([*command, *given], stdout=subprocess.PIPE, text=True, check=True)
            for name, fields in json.loads(done.stdout.splitlines()[-1]).items():
                lines.append(_line(executors, rows, name, Question(**fields)))
                print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    heads = ["executors", "rows", "", "wall s", "driver's Java, GB", "driver's Python, GB"]
    print(markdown_table([*heads, "sent, MB", "of the records' bytes", "collected, kB"], lines))


def _line(executors: int, rows: int, name: str, question: Question) -> list[str]:
    return [
        str(executors),
        f"{rows:,}",
        name,
        f"{question.wall:.0f}",
        f"{question.heap / GIGABYTE:.2f}",
        f"{question.client / GIGABYTE:.2f}",
        f"{question.sent / 1e6:.1f}",
        f"{question.sent / question.records:.2f}",
        f"{question.collected / 1e3:.0f}",
    ]


if __name__ == "__main__":
    main()
