"""Where a release in fragments spends its time, step by step.

``python -m benchmarks.scale.scale_steps ROWS`` measures a table of this size.

For each step: wall and CPU seconds, the share of the time in which two threads or more could run, and the
memory of the largest process so far. The share does not depend on other load of the machine, for a thread
that waits for a core counts, too.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from benchmarks.report import markdown_table
from benchmarks.scale.cases import K, L
from benchmarks.scale.scale_cases import MEMORY, SEED, opened
from benchmarks.scale.scale_tables import schema, write_table
from benchmarks.scale.scale_usage import Usage
from benchmarks.tables import SENSITIVE, Table, adult
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.store import Lake
from privacy_release.steps.ingest import ingest
from privacy_release.steps.producers.fragment_join import join
from privacy_release.steps.producers.fragments import cut_table, keep, release_records
from privacy_release.steps.producers.job import Job
from privacy_release.steps.producers.staging import stage
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import FRAGMENTS, read_engine
from privacy_release.workarea.file_sets import paths_of
from privacy_release.workarea.references import FragmentReleaseRef, read_as

FILES = 12  # of the source
FRAGMENT = 500_000  # records at most
PAUSE = 0.1  # seconds between two looks


class Steps:
    """What each step took, as lines of a table."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure a step; processes that it starts end with it."""
        looks, over = [0, 0], threading.Event()
        watch = threading.Thread(target=_watch, args=(looks, over), daemon=True)
        began, before = time.perf_counter(), time.process_time()
        with Usage() as usage:
            watch.start()
            yield
            over.set()
            watch.join()
        wall, own = time.perf_counter() - began, time.process_time() - before
        below = usage.cpu - time.process_time()
        share = looks[1] / max(1, looks[0])
        peak = usage.peak / 1e9
        self.lines.append([name, f"{wall:.1f}", f"{own + below:.1f}", f"{share:.0%}", f"{peak:.2f}"])


def _watch(looks: list[int], over: threading.Event) -> None:
    """Count looks, and those at which two threads or more could run beside this one."""
    me = threading.get_native_id()
    while not over.wait(PAUSE):
        own = psutil.Process()
        could = sum(running(process.pid, me) for process in [own, *own.children(recursive=True)])
        looks[0] += 1
        looks[1] += could >= 2


def running(process: int, besides: int) -> int:
    """Threads of a process that run or could run, as Linux tells."""
    found = 0
    for thread in Path(f"/proc/{process}/task").glob("*"):
        try:
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has ended
            continue
        found += state == "R" and thread.name != str(besides)
    return found


def measure(table: Table, rows: int, folder: Path) -> list[list[str]]:
    """The steps from a source of many files to the published release."""
    source, steps = folder / "source", Steps()
    source.mkdir()
    whole = folder / "whole.parquet"
    write_table(table, rows, whole)
    with pq.ParquetFile(whole) as made:
        groups = made.num_row_groups
        for number in range(FILES):
            chosen = range(number * groups // FILES, (number + 1) * groups // FILES)
            if chosen:
                part = made.read_row_groups(list(chosen))
                pq.write_table(part, source / f"{number:02d}.parquet", compression="zstd")
    whole.unlink()
    work = WorkArea(folder, "steps")
    with work, opened("local", folder) as engine:
        with steps(f"ingest of {len(list(source.iterdir()))} files"):
            engine_of = read_engine({"kind": FRAGMENTS, "rows": FRAGMENT, "memory": MEMORY})
            given = ingest(str(source), schema(), work, engine=engine_of)
        with steps("find how to cut"):
            cut = cut_table(given, engine, method="mondrian", parameters={"k": K, "l": L}, seed=SEED)
        plan = keep(cut, work, "table")
        with steps("cut and work on the fragments"):
            assign, work_on = cut.plan.tree.assign, partial(release_records, plan)
            files = paths_of(given.uri, given.sha256)
            made_values = list(engine.apply_by_fragment(files, assign, work_on))
            released = read_as(list[FragmentReleaseRef], made_values)
        job = Job(work=work, label="released")
        with steps("join, count and verify"):
            made = join(released, plan, job, engine)
        staged = stage(made, given, job)
        with steps("verify the staged release"):
            report = verify_staged(
                staged, ReleasePolicy(require=(KAnonymity(k=K), DistinctLDiversity(l=L, attribute=SENSITIVE)))
            )
        with steps("publish"):
            publish_staged(staged, report, Lake(root=str(folder / "lake")).table("released"), "steps")
    work.remove()
    return steps.lines


def main() -> None:
    """Print the table."""
    rows = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(adult(), rows, Path(folder))
    heads = [
        f"{rows:,} rows, {len(os.sched_getaffinity(0))} cores",
        "wall s",
        "CPU s",
        "two threads or more",
        "GB",
    ]
    print(markdown_table(heads, lines))


if __name__ == "__main__":
    main()
