"""Dates on Spark: the ends, classes, sensitive values and verification of one machine, on the same files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from privacy_engine import DataSchema, ReleasePolicy, load_method, verify
from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.frames import to_arrow
from privacy_engine.engines.local import LocalEngine
from privacy_engine.engines.spark import SparkEngine
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from tests.dated import FIELDS, stays

pytestmark = pytest.mark.spark

SCHEMA = DataSchema.from_dict(FIELDS)
POLICY = ReleasePolicy(
    require=(KAnonymity(k=5), DistinctLDiversity(l=2), TCloseness(t=0.4, attribute="died"))
)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalEngine]:
    with LocalEngine(memory=200_000_000, spill=tmp_path) as engine:
        yield engine


def test_the_ends_of_dates_and_times_are_days_and_seconds(
    local_spark: SparkEngine, local: LocalEngine, tmp_path: Path
) -> None:
    table = SCHEMA.normalized(stays(500)).reset_index(drop=True)
    pq.write_table(to_arrow(table), tmp_path / "stays.parquet")
    files = [str(tmp_path / "stays.parquet")]
    for name in ("born", "seen", "died"):
        numbers = SCHEMA[name].numbers(table[name])
        ends = (float(numbers.min()), float(numbers.max()))
        assert local_spark.extent(files, name) == local.extent(files, name) == ends
        cuts = local_spark.quantile_cuts(files, name, 4)
        assert cuts.tolist() == local.quantile_cuts(files, name, 4).tolist()


@pytest.mark.parametrize("intervals", ["text", "bounds"])
def test_a_release_of_dates_is_verified_alike_in_memory_by_duckdb_and_by_spark(
    local_spark: SparkEngine, local: LocalEngine, tmp_path: Path, intervals: str
) -> None:
    method = load_method("mondrian", k=5, l=2, intervals=intervals)
    release = method.release(stays(500), SCHEMA, np.random.default_rng(7))
    pq.write_table(to_arrow(release.table), tmp_path / "released.parquet")
    files = [str(tmp_path / "released.parquet")]
    expected = verify(release.table, release.schema, POLICY)
    assert verify_files(local, files, release.schema, POLICY) == expected
    assert verify_files(local_spark, files, release.schema, POLICY) == expected
    assert expected.findings[0].passed
