"""A release whose fragments a Spark cluster anonymizes, from a DAG run; one of its workers dies meanwhile."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, DistinctLDiversity, KAnonymity, ReleasePolicy, verify
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake, ReleaseTable
from tests.canaries import MARK
from tests.dags.scanner import new_root, started
from tests.servers.spark_cluster import CONF, end_of, require_spark, standalone_cluster
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NAME = "people"
ROWS = 8_000
ENGINE = {"kind": "spark", "rows": 1_000, "memory": "300MB"}
RELEASED = {
    "age_from": {"role": "quasi_identifier"},
    "age_to": {"role": "quasi_identifier"},
    "town": {"role": "quasi_identifier"},
    "disease": {"role": "sensitive"},
    "remark": {"role": "insensitive"},
}


@dataclass(frozen=True, kw_only=True)
class Left:
    """What the run left: how it ended, where, what it wrote, and how far it was when the worker died."""

    root: Path
    ended: dict[str, Any]
    output: str
    released_before: int
    killed: int

    @property
    def release(self) -> tuple[ReleaseTable, str]:
        return Lake(root=str(self.root / ".lake")).table(NAME), self.ended["run_id"]


@pytest.fixture(scope="module")
def left(
    tmp_path_factory: pytest.TempPathFactory, make_home: Callable[[Path], Any], invented: pd.DataFrame
) -> Left:
    """A run on a cluster of two workers, one of which is killed when the first fragment has been released."""
    require_spark()
    root = new_root(tmp_path_factory.mktemp("spark-release"))
    rng = np.random.default_rng(6)
    table = invented.sample(ROWS, replace=True, random_state=7, ignore_index=True)
    table["age"] = rng.integers(200, 800, ROWS) / 10
    table["name"] = [f"{MARK}-identifier-{i}" for i in range(ROWS)]
    table["remark"] = [f"{MARK}-{i:05d}" for i in range(ROWS)]
    method = {"method": "ilp_l_diversity", "k": 5, "l": 2, "seed": 7}
    make_home(root).write(table, engine=ENGINE, release=method)
    log = root / "output.txt"
    with standalone_cluster(
        tmp_path_factory.mktemp("cluster"), workers=2, secret=secrets.token_hex(16)
    ) as cluster:
        connection = {
            "conn_type": "privacy_spark",
            "password": cluster.secret,
            "extra": {"master": cluster.master, "conf": CONF | {"spark.executor.memory": "512m"}},
        }
        running = started(root, [NAME], {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)})
        try:
            victim = cluster.workers[1]

            def released() -> int:
                return len(list((root / ".airflow").glob("work_area/*/*/fragment-*.released.parquet")))

            def halfway() -> bool:
                return (released() > 0 and len(victim.family()) > 1) or running.poll() is not None

            wait_for(halfway, "the release of the first fragment", detail=lambda: end_of(log))
            killed = len(victim.family())
            victim.kill()
            before = released()
            running.wait(timeout=800)
        finally:
            running.kill()
            running.wait()
    ended = json.loads((root / "ended.json").read_bytes())[NAME]
    return Left(root=root, ended=ended, output=log.read_text(), released_before=before, killed=killed)


def test_the_run_ends_well_although_a_worker_died_in_the_middle(left: Left) -> None:
    assert left.ended["state"] == "success", left.output[-4000:]
    assert left.killed > 1, "the worker must have had an executor"
    assert left.released_before < manifest_of(*left.release)["fragments"]["count"]


def test_no_record_is_lost_or_doubled(left: Left) -> None:
    rows = read_release(*left.release).to_pandas()
    assert sorted(rows["remark"]) == [f"{MARK}-{i:05d}" for i in range(ROWS)]


def test_the_published_records_keep_the_guarantee(left: Left) -> None:
    rows = read_release(*left.release).to_pandas()[list(RELEASED)]
    policy = ReleasePolicy(require=(KAnonymity(k=5), DistinctLDiversity(l=2)))
    assert verify(rows, DataSchema.from_dict(RELEASED), policy).passed


def test_the_manifest_says_that_spark_made_the_fragments(left: Left) -> None:
    manifest = manifest_of(*left.release)["fragments"]
    assert manifest["engine"] == "spark"
    assert manifest["count"] >= ROWS / ENGINE["rows"]
    assert manifest["rows"]["most"] == ENGINE["rows"]


def test_nothing_shows_a_record_and_the_work_area_is_empty(left: Left) -> None:
    assert MARK not in left.output
    assert list((left.root / ".airflow" / "work_area").iterdir()) == []
