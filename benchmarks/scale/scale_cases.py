"""The cases of the section on scale, each in a separate process.

``python -m benchmarks.scale.scale_cases NAME JSON`` ends with a line of JSON: CPU seconds of the process and
of all processes below it, the start of Python included; bytes of the largest of them; and
the figures of the case.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.scale.cases import K, L
from benchmarks.scale.scale_tables import released_schema, schema
from benchmarks.scale.scale_usage import Usage
from benchmarks.tables import SENSITIVE
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.engines.engine import Engine
from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.registry import load_method
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.engines import FRAGMENTS, read_engine
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.references import FragmentReleaseRef, SourceRef, Table, read_as
from privacy_release.workarea.staged import write_schema

MEMORY = 10**9  # bytes that an aggregation may take
SEED = 1
Figures = Mapping[str, float]
"""Plain numbers, by name."""


def fragments(
    *,
    file: str,
    size: int,
    method: str,
    parameters: Mapping[str, Any],
    out: str | None = None,
    engine: str = "local",
    warm_up: bool = False,
) -> Figures:
    """A release in fragments: cut, work on each, join and measure, as the release step of a pipeline does.

    Args:
        file: the table.
        size: most records of a fragment.
        method: registry key.
        parameters: of the method, besides k.
        out: where the released records are kept, if at all.
        engine: `local` or `spark`.
        warm_up: changes nothing; it makes another case of it.
    """
    from privacy_release.steps.producers.fragment_join import join
    from privacy_release.steps.producers.fragments import cut_table, keep, release_records
    from privacy_release.steps.producers.job import Job

    folder = Path(file).parent
    work = WorkArea(folder, f"fragments {method} {size} {Path(file).stem} {engine}")
    parts = Parts()
    with work, opened(engine, folder) as running:
        table = reference(Path(file), running.rows([file]), size, work)
        method_of = {"method": method, "parameters": {"k": K, **parameters}}
        cut = cut_table(table, running, **method_of, seed=SEED)
        plan = keep(cut, work, "table")
        parts.end("plan")
        work_on = partial(release_records, plan)
        made_values = list(running.apply_by_fragment([file], cut.plan.tree.assign, work_on))
        released = read_as(list[FragmentReleaseRef], made_values)
        parts.end("work")
        job = Job(work=work, label="released")
        made = join(released, plan, job, running)
        parts.end("join")
    if out:
        as_one_file(files_of(made.records or job.records, made.sha256), Path(out))
    work.remove()
    counted = {"fragments": cut.plan.tree.fragments, "rows": made.claims.rows, "gcp": made.figures["gcp"]}
    return {**counted, **parts.seconds}


def as_one_file(files: Iterable[Path], out: Path) -> None:
    """The records of some files in one."""
    writer: pq.ParquetWriter | None = None
    for file in files:
        with pq.ParquetFile(file) as part:
            writer = writer or pq.ParquetWriter(out, part.schema_arrow, compression="zstd")
            for batch in part.iter_batches():
                writer.write_batch(batch)
    assert writer is not None
    writer.close()


def whole(*, file: str, method: str, parameters: Mapping[str, Any]) -> Figures:
    """The release of a table that is in memory as a whole, and its file."""
    from privacy_engine.measures.utility import gcp

    frame = to_frame(pq.read_table(file))
    release = built(method, parameters).release(frame, schema(), np.random.default_rng(SEED))
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        pq.write_table(to_arrow(release.table), Path(folder) / "released.parquet", compression="zstd")
    assert release.recoding is not None
    return {"gcp": gcp(release.recoding), "rows": len(release.table), "classes": release.recoding.classes}


def verify(*, file: str, engine: str = "local") -> Figures:
    """k, l and t of a release."""
    from privacy_engine.engines.checking import verify_files

    models = (
        KAnonymity(k=K),
        DistinctLDiversity(l=L, attribute=SENSITIVE),
        TCloseness(t=1.0, attribute=SENSITIVE),
    )
    with opened(engine, Path(file).parent) as running:
        report = verify_files(running, [file], released_schema(), ReleasePolicy(require=models))
    k, l, t = (finding.measured or 0.0 for finding in report.findings)  # noqa: E741  the models' own symbols
    return {"k": k, "l": l, "t": t, "rows": report.rows, "classes": report.classes}


def class_sizes(*, file: str) -> Figures:
    """Sizes of the classes of equal quasi-identifiers."""
    names = [a.name for a in schema().quasi_identifiers]
    with opened("local", Path(file).parent) as running:
        sizes = running.class_sizes([file], names)
    rows = sum(size * classes for size, classes in sizes.items())
    return {"classes": sum(sizes.values()), "rows": rows, "smallest": min(sizes)}


def contingency(*, file: str) -> Figures:
    """Counts of the combinations of some columns."""
    with opened("local", Path(file).parent) as running:
        counts = running.contingency([file], ["education-num", "sex", "workclass", SENSITIVE])
    return {"cells": len(counts), "rows": int(np.sum(counts["count"].to_numpy()))}


def measure(*, file: str) -> Figures:
    """A synthesizer's measuring through the engine."""
    method = load_method("privbayes", epsilon=1.0)
    assert isinstance(method, Synthesizer)
    with opened("local", Path(file).parent) as running:
        model = method.measure_files(running, [file], schema())
    return {"rows": model.rows, "attributes": len(model.network.names)}


def compare(*, file: str, sampled: int) -> Figures:
    """Whether what a synthesizer reads through the engine is what it reads of the same records in memory."""
    from privacy_engine.synthesizers.measuring import coded_files
    from privacy_engine.tables.domains import CodedTable

    with (
        opened("local", Path(file).parent) as running,
        tempfile.TemporaryDirectory(dir=Path(file).parent) as folder,
    ):
        records = running.sample([file], sampled, SEED)
        part = Path(folder) / "sample.parquet"
        pq.write_table(records, part)
        through = coded_files(running, [str(part)], schema())
    inside = CodedTable.encode(to_frame(records), schema())
    codes, counts = np.unique(inside.codes, axis=1, return_counts=True)
    order = np.lexsort(through.codes[::-1])
    assert through.weights is not None
    equal = np.array_equal(codes, through.codes[:, order]) and np.array_equal(counts, through.weights[order])
    return {"compared": len(records), "distinct": len(counts), "equal": equal}


def session() -> Figures:
    """A Spark session that does nothing."""
    with opened("spark", Path(tempfile.gettempdir())):
        return {}


CASES: Mapping[str, Callable[..., Figures]] = {
    case.__name__: case
    for case in (fragments, whole, verify, class_sizes, contingency, measure, compare, session)
}


class Parts:
    """Wall seconds of the parts of a case, one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def end(self, part: str) -> None:
        """A part is over, and the next one begins."""
        now = time.perf_counter()
        self.seconds[part], self._last = now - self._last, now


def reference(file: Path, rows: int, size: int, work: WorkArea) -> Table:
    """A table as ingest would hand it on."""
    path, sha256 = write_schema(work, "table", schema()), sha256_file(file)
    source = SourceRef(uri=str(file), files=1, fingerprint=sha256, rows=rows, dropped=0, identifiers=[])
    engine = read_engine({"kind": FRAGMENTS, "rows": size, "memory": MEMORY})
    return Table(uri=str(file), rows=rows, sha256=sha256, schema=path, source=source, engine=engine)


def built(method: str, parameters: Mapping[str, Any]) -> Anonymizer:
    """The method."""
    made = load_method(method, k=K, **parameters)
    assert isinstance(made, Anonymizer)
    return made


@contextmanager
def opened(engine: str, folder: Path, memory: int = MEMORY) -> Iterator[Engine]:
    """An engine that spills into a folder."""
    with tempfile.TemporaryDirectory(dir=folder) as spill:
        if engine == "spark":
            from privacy_engine.engines.spark import SparkEngine
            from privacy_release.workarea.spark_session import SparkCluster

            cores = len(os.sched_getaffinity(0))
            with SparkCluster(master=f"local[{cores}]").session(Path(spill), memory) as session:
                yield SparkEngine(session)
            return
        from privacy_engine.engines.local import LocalEngine

        with LocalEngine(memory=memory, spill=Path(spill)) as made:
            yield made


def main() -> None:
    name, given = sys.argv[1:]
    with Usage() as usage:
        figures = CASES[name](**json.loads(given))
    plain = {name: float(value) for name, value in figures.items()}
    print(json.dumps({"cpu": usage.cpu, "peak": usage.peak, "figures": plain}))


if __name__ == "__main__":
    main()
