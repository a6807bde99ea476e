"""What Spark does for a question, by its own metrics: as much for many files and classes as for few."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.engines.engine import Grouping
from privacy_engine.engines.parquet import subset
from privacy_engine.engines.spark import SparkEngine
from privacy_engine.tables.classes import SensitiveValues
from tests.spark.work import sizes

pytestmark = pytest.mark.spark


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a question cost.

    Attributes:
        jobs, stages: that ran.
        shuffles: stages that sent records to others.
        sent: bytes that they sent.
        collected: bytes of the results of the tasks whose results went to the driver.
    """

    jobs: int
    stages: int
    shuffles: int
    sent: int
    collected: int


def measured(engine: SparkEngine, name: str, question: Callable[[], object]) -> Work:
    context = engine._session.sparkContext
    context.setJobGroup(name, name)
    question()
    context.setJobGroup("others", "others")
    context._jsc.sc().listenerBus().waitUntilEmpty()
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(name)]
    ran = {stage for job in jobs for stage in job.stageIds}
    stages = [store.lastStageAttempt(stage) for stage in ran]
    stages = [stage for stage in stages if stage.status().toString() == "COMPLETE"]
    sending = [stage for stage in stages if stage.shuffleWriteBytes()]
    return Work(
        jobs=len(jobs),
        stages=len(stages),
        shuffles=len(sending),
        sent=sum(stage.shuffleWriteBytes() for stage in sending),
        collected=sum(stage.resultSize() for stage in stages if not stage.shuffleWriteBytes()),
    )


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A table in some files, and what its values are."""

    files: list[str]
    bytes: int
    values: Mapping[str, SensitiveValues]


def written(folder: Path, rows: int, files: int) -> Counted:
    """Half as many classes as rows, two rows in each; both may be in different files."""
    rng = np.random.default_rng(rows)
    zips = rng.permutation(np.repeat(np.arange(rows // 2), 2)).astype(str)
    people = rng.integers(0, rows, rows)
    table = pa.table({"zip": zips, "ill": rng.choice(["flu", "cold", "ache"], rows), "who": people})
    paths = [str(folder / f"{rows}-{files}-{i}.parquet") for i in range(files)]
    for i, path in enumerate(paths):
        pq.write_table(table.slice(i * rows // files, rows // files), path, store_schema=False)
    distinct, counts = np.unique(table["ill"].to_numpy(), return_counts=True)
    values = SensitiveValues.of(pd.Series(distinct), counts, None)
    return Counted(
        files=paths,
        bytes=sum(Path(path).stat().st_size for path in paths),
        values={"ill": replace(values, weights=counts.astype(np.float64))},
    )


@pytest.mark.parametrize("way", ["wide", "ordered", "persons"])
def test_a_question_is_one_shuffle_whose_result_does_not_grow(
    local_spark: SparkEngine, tmp_path: Path, way: str
) -> None:
    engine = SparkEngine(local_spark._session, wide=64 if way == "wide" else 0)
    person = "who" if way == "persons" else None
    found = {}
    for rows, files in ((6_000, 2), (6_000, 30), (40_000, 2)):  # from 33 on, one more job lists the files
        table = written(tmp_path, rows, files)

        def question(table: Counted = table, rows: int = rows) -> None:
            grouping = Grouping(columns=["zip"], sensitive=table.values, person=person)
            reported = list(engine.fold_classes(table.files, grouping, sizes))
            assert sum(part["classes"] for part in reported) == rows // 2
            assert min(part["smallest"] for part in reported) == 2

        found[rows, files] = measured(engine, f"{way} {rows} {files}", question)
        assert found[rows, files].shuffles == 1, "records must be sent once"
        assert found[rows, files].sent <= 3 * table.bytes
    few, many, large = found.values()
    assert (few.jobs, few.stages) == (many.jobs, many.stages) == (large.jobs, large.stages)
    # A task tells some hundred bytes beside its metrics; how many tasks there are does not go by the rows.
    assert max(many.collected, large.collected) < 1.5 * few.collected


def test_how_many_classes_there_are_of_each_size_is_all_that_is_collected(
    local_spark: SparkEngine, tmp_path: Path
) -> None:
    found = []
    for rows in (6_000, 40_000):
        table = written(tmp_path, rows, 2)

        def question(table: Counted = table, rows: int = rows) -> None:
            assert local_spark.class_sizes(table.files, ["zip"]) == {2: rows // 2}

        found.append(measured(local_spark, f"sizes {rows}", question))
    few, large = found
    assert few.stages == large.stages
    assert large.collected < 1.5 * few.collected


def test_records_of_many_files_are_numbered_by_one_scan(local_spark: SparkEngine, tmp_path: Path) -> None:
    folder = tmp_path / "run 1+x %20é=~&;,#!"
    folder.mkdir()
    table = written(folder, 6_000, 6)
    numbered = local_spark._numbered(table.files)
    assert numbered._jdf.queryExecution().executedPlan().toString().count("FileScan parquet") == 1
    records = pa.concat_tables(pq.read_table(path) for path in table.files)
    assert local_spark.sample(table.files, 6_000, 1).equals(records)
    some = local_spark.sample(table.files, 50, 1)
    assert some.equals(records.take(subset(6_000, 50, np.random.default_rng(1))))
    twice = [*table.files, table.files[0]]  # which of the two a record is of is not known
    assert len(local_spark.sample(twice, 10_000, 1)) == 6_000 + len(pq.read_table(table.files[0]))
