"""Runs whose work area is a bucket: tasks share no folder, and nothing lies in the bucket in clear text."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deploy.local.embedded import checkout
from privacy_engine.dp.limits import Limit
from privacy_engine.errors import IntegrityError, WorkAreaError
from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.presence import Mark, Owner
from privacy_release.workarea.remote.keys import Wrapping
from privacy_release.workarea.remote.scratch import Scratch
from privacy_release.workarea.remote.store import Store
from privacy_release.workarea.remote.sweep import sweep_store
from privacy_release.workarea.sweep import AreaState, SweepRules, sweep
from tests.children.processes import Child
from tests.object_stores.publisher import store_and_die
from tests.object_stores.stores import Bucket, azurite
from tests.servers.spark_cluster import CONF, standalone_cluster

pytestmark = [pytest.mark.object_stores, pytest.mark.slow]

SECRET = secrets.token_hex(32)
SPARK_SECRET = secrets.token_hex(16)
MEMBERSHIP = secrets.token_hex(32)
CANARY = "Wilhelmina-Canary"
ROWS = 2_600
# Without a clean-up, so that what the tasks stored can be looked at; and the clean-up, as a separate run.
DAG = """
from airflow.sdk import DAG
from airflow_privacy_release import *
from airflow_privacy_release.operators.release import (
    CutFragmentsOperator, JoinFragmentsOperator, ReleaseFragmentOperator,
)

SCHEMA = {schema!r}
POLICY = {{"require": [{{"model": "k_anonymity", "k": 5}}]}}
ENGINE = {{"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1}}
PRIVATE = {{"max_epsilon": 10, "max_delta": 0}}

with DAG(dag_id="whole_{kind}", params={{"clean": False}}):
    raw = IngestParquetOperator(
        task_id="ingest", uri={uri!r}, schema=SCHEMA, person="name", membership_key="membership"
    )
    ok = ValidateOperator(task_id="validate", table=raw.output, suite={{"name": "s", "expectations": [
        {{"type": "expect_column_values_to_not_be_null", "kwargs": {{"column": "age"}}}}]}})
    found = DetectOutliersOperator(
        task_id="outliers", table=ok.output, method="lof", action="set_aside",
        parameters={{"neighbours": 5, "top": 10}},
    )
    staged = ReleaseOperator(task_id="release", table=found.output, method="mondrian", parameters={{"k": 5}})
    report = VerifyOperator(task_id="verify", table=staged.output, policy=POLICY)
    asked = ApproveReleaseOperator(
        task_id="approve", table=staged.output, report=report.output, name="whole_{kind}", required=False
    )
    PublishOperator(
        task_id="publish", table=staged.output, report=report.output, approved=asked.output,
        name="whole_{kind}",
    )

with DAG(dag_id="fragments_{kind}"):
    raw = IngestParquetOperator(task_id="ingest", uri={uri!r}, schema=SCHEMA, engine=ENGINE)
    cut = CutFragmentsOperator(task_id="cut", table=raw.output, method="mondrian", parameters={{"k": 5}})
    parts = ReleaseFragmentOperator.partial(task_id="release").expand(fragment=cut.output)
    staged = JoinFragmentsOperator(task_id="join", fragments=parts.output)
    report = VerifyOperator(task_id="verify", table=staged.output, policy=POLICY)
    published = PublishOperator(
        task_id="publish", table=staged.output, report=report.output, name="fragments_{kind}"
    )
    published >> CleanupOperator(task_id="cleanup")

with DAG(dag_id="answers_{kind}"):
    raw = IngestParquetOperator(task_id="ingest", uri={uri!r}, schema=SCHEMA)
    staged = ReleaseOperator(
        task_id="release", table=raw.output, method="errph", parameters={{"p_0": 0.5}},
        budget="people", policy=PRIVATE,
    )
    report = VerifyOperator(task_id="verify", table=staged.output, policy=PRIVATE)
    published = PublishOperator(
        task_id="publish", table=staged.output, report=report.output, name="answers_{kind}"
    )
    published >> CleanupOperator(task_id="cleanup")

with DAG(dag_id="synthetic_{kind}"):
    raw = IngestParquetOperator(task_id="ingest", uri={uri!r}, schema=SCHEMA)
    staged = ReleaseOperator(
        task_id="release", table=raw.output, method="privbayes", budget="people", policy=PRIVATE,
        parameters={{"epsilon": 2.0}},
    )
    report = VerifyOperator(task_id="verify", table=staged.output, policy=PRIVATE)
    CuratorReportOperator(task_id="curator", source=raw.output, table=staged.output, name="synthetic")
    PublishOperator(task_id="publish", table=staged.output, report=report.output, name="synthetic_{kind}")

with DAG(dag_id="spark_{kind}"):
    raw = IngestParquetOperator(
        task_id="ingest", uri={uri!r}, schema=SCHEMA, engine={{"kind": "spark", "connection": "here"}}
    )
    staged = ReleaseOperator(task_id="release", table=raw.output, method="mondrian", parameters={{"k": 5}})
    report = VerifyOperator(task_id="verify", table=staged.output, policy=POLICY)
    PublishOperator(task_id="publish", table=staged.output, report=report.output, name="spark_{kind}")

with DAG(dag_id="cluster_{kind}"):
    IngestParquetOperator(
        task_id="ingest", uri={uri!r}, schema=SCHEMA, engine={{"kind": "spark", "connection": "far"}}
    )
"""
SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "town": {"role": "quasi_identifier", "kind": "categorical", "categories": ["north", "south"]},
    "disease": {"role": "sensitive", "kind": "categorical", "categories": ["cold", "flu", CANARY]},
}
# One way to a work area serves all steps, and the tests below try each of its operations on both kinds of
# store: one kind has runs with every step, the other one that is cleaned up, and one of a local Spark.
RUNS = {
    "s3": ("whole", "fragments", "answers", "synthetic", "spark", "cluster"),
    "azure": ("fragments", "spark"),
}


def people() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "name": [f"{CANARY} {i}" for i in range(ROWS)],
            "age": rng.integers(20, 80, ROWS).astype(float),
            "town": ["north", "south"] * (ROWS // 2),
            "disease": [["cold", "flu", CANARY][i % 3] for i in range(ROWS)],
        }
    )


def store_of(bucket: Bucket) -> Store:
    return Store(
        root=bucket.address("work"),
        options=bucket.store.source_options(),
        wrapping=Wrapping(SECRET.encode(), "the connection work_default"),
    )


@dataclass(frozen=True, kw_only=True)
class Left:
    """What runs left: how each ended, every local file below the root, and the bucket."""

    ended: dict[str, Any]
    output: str
    root: Path
    bucket: Bucket

    def objects(self) -> dict[str, bytes]:
        """The work area as a reader of the bucket sees it."""
        return {name: data for name, data in self.bucket.objects().items() if name.startswith("work/")}


@pytest.fixture(scope="module")
def all_left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """Runs with each kind of store as their work area.

    All are in one process, because an Airflow takes long to start.
    """
    kinds = [kind for kind in RUNS if kind != "azure" or azurite()]
    buckets = {kind: Bucket(store=request.getfixturevalue(kind), name="areas") for kind in kinds}
    root = tmp_path_factory.mktemp("areas")
    for folder in ("dags", "include"):
        (root / folder).mkdir()
    people().to_parquet(root / "people.parquet", index=False)
    ledger = BudgetLedger(str(root / "ledger.db"))
    ledger.migrate()
    ledger.grant("people", Limit(epsilon=50.0), reason="a test", by="officer")
    with (root / "output.txt").open("wb") as output, ExitStack() as stack:
        settings = {}
        for kind, bucket in buckets.items():
            bucket.store.make_bucket(bucket.name)
            text = DAG.format(kind=kind, schema=SCHEMA, uri=str(root / "people.parquet"))
            (root / "dags" / f"runs_{kind}.py").write_text(text)
            spark = stack.enter_context(spark_of(kind, root))
            settings |= dict.fromkeys(
                (f"{name}_{kind}" for name in RUNS[kind]), settings_of(bucket, root, spark)
            )
        subprocess.run(
            [sys.executable, str(checkout() / "tests" / "dags" / "canary_child.py"), str(root), *settings],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=checkout(),
            env={**os.environ, "CHILD_SETTINGS": json.dumps(settings)},
            check=True,
        )
    ended = json.loads((root / "ended.json").read_text())
    text = (root / "output.txt").read_text(errors="replace")
    return {
        kind: Left(
            ended={name: ended[f"{name}_{kind}"] for name in RUNS[kind]},
            output=text,
            root=root,
            bucket=bucket,
        )
        for kind, bucket in buckets.items()
    }


def settings_of(bucket: Bucket, root: Path, spark: dict[str, Any]) -> dict[str, str]:
    """The environment of runs whose work area is in a bucket."""
    work = {"conn_type": "generic", "password": SECRET}
    work["extra"] = json.dumps({"storage_options": bucket.store.source_options()})
    far = {"conn_type": "privacy_spark", "extra": {"master": "spark://far:7077"}}
    return {
        "PRIVACY_WORK_AREA": bucket.address("work"),
        "PRIVACY_SCRATCH": str(root / "scratch"),
        "PRIVACY_CURATOR": str(root / "curator"),
        "PRIVACY_LEDGER": str(root / "ledger.db"),
        "AIRFLOW_CONN_WORK_DEFAULT": json.dumps(work),
        "AIRFLOW_CONN_FAR": json.dumps(far),
        "AIRFLOW_CONN_HERE": json.dumps({"conn_type": "privacy_spark", **spark}),
        "AIRFLOW_CONN_MEMBERSHIP": json.dumps({"conn_type": "generic", "password": MEMBERSHIP}),
    }


@pytest.fixture(params=RUNS)
def left(request: pytest.FixtureRequest, all_left: dict[str, Left]) -> Left:
    if request.param not in all_left:
        pytest.skip("Azurite is not installed")
    return all_left[request.param]


@contextmanager
def spark_of(kind: str, root: Path) -> Iterator[dict[str, Any]]:
    """A connection to a cluster, whose executors open what is in the bucket; of Azure to this machine."""
    if kind == "azure" or shutil.which("java") is None:
        yield {"extra": {"master": "local[2]"}}
        return
    folder = root / "cluster"
    folder.mkdir()
    with standalone_cluster(folder, workers=1, secret=SPARK_SECRET) as cluster:
        conf = CONF | {"spark.executor.memory": "512m"}
        yield {"password": SPARK_SECRET, "extra": {"master": cluster.master, "conf": conf}}


needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")


@pytest.mark.parametrize(
    "name", ["whole", "fragments", "answers", "synthetic", pytest.param("spark", marks=needs_java)]
)
def test_every_step_finds_its_files_in_the_bucket(name: str, all_left: dict[str, Left]) -> None:
    for kind in [kind for kind in all_left if name in RUNS[kind]]:
        left = all_left[kind]
        assert set(left.ended[name]["tasks"].values()) == {"success"}, left.output[-6000:]
        lake = Lake(root=str(left.root / ".lake"))
        released = read_release(lake.table(f"{name}_{kind}"), left.ended[name]["run_id"]).to_pandas()
        assert 0.9 * ROWS <= len(released) <= ROWS
        if name in ("whole", "fragments", "spark"):
            assert released.groupby(["age_from", "age_to", "town"], dropna=False).size().min() >= 5


@needs_java
def test_executors_of_a_cluster_send_what_they_make_and_those_of_this_machine_share_the_tasks_folder(
    left: Left,
) -> None:
    sent = [name for name in left.objects() if name.startswith(f"work/spark_{_kind(left)}")]
    by_executors = [name for name in sent if "/release.fragments/fragment-" in name]
    assert bool(by_executors) == (_kind(left) == "s3")
    assert not [name for name in sent if "/parts-" in name]


def test_a_cluster_that_encrypts_nothing_is_refused_before_anything_is_read(
    all_left: dict[str, Left],
) -> None:
    assert all_left["s3"].ended["cluster"]["tasks"]["ingest"] == "failed"
    assert "a cluster that reads an encrypted work area must encrypt what it sends" in all_left["s3"].output


def test_no_cell_is_in_the_bucket_in_clear_text(left: Left) -> None:
    found = left.objects()
    assert len(found) > 2
    assert [name for name, data in found.items() if CANARY.encode() in data or b"PAR1" in data] == []
    assert [name for name, data in found.items() if SECRET.encode() in data] == []


def test_no_file_of_a_task_outlives_it(left: Left) -> None:
    assert list((left.root / "scratch").iterdir()) == []
    assert not (left.root / ".airflow" / "work_area").exists()


def test_a_clean_up_leaves_neither_file_nor_key(left: Left) -> None:
    cleaned = {f"{name}_{_kind(left)}" for name in left.ended if name in ("fragments", "answers")}
    found = {mark.key.partition("/")[0] for run in store_of(left.bucket).all() if (mark := run.marked()[0])}
    assert found
    assert not found & cleaned


def _kind(left: Left) -> str:
    return "s3" if left.bucket.address("").startswith("s3") else "azure"


MARK = Mark(key="people/run", owner=Owner.RUN)


def scratch_of(bucket: Bucket, folder: Path) -> Scratch:
    return Scratch(folder, "people/run/task", run=store_of(bucket).of(MARK.key), mark=MARK)


def stored(bucket: Bucket, folder: Path, name: str = "staged.parquet") -> str:
    """The address of a file of three chunks that a task stored."""
    with scratch_of(bucket, folder) as work:
        path = work.path(name)
        path.write_bytes(CANARY.encode() * 150_000)
        return work.send(str(path))


DAMAGES = {
    "a bit flipped": lambda data: data[:99_999] + bytes([data[99_999] ^ 4]) + data[100_000:],
    "truncated": lambda data: data[: 45 + (1 << 20) + 16],
    "empty": lambda data: b"",
    "replaced": lambda data: b"PAR1" + data,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_object_that_was_changed_is_refused(damage: str, bucket: Bucket, tmp_path: Path) -> None:
    address = stored(bucket, tmp_path / "one")
    [name] = [name for name in bucket.objects() if name.endswith("staged.parquet")]
    bucket.put(name, DAMAGES[damage](bucket.objects()[name]))
    with pytest.raises(IntegrityError, match=r"staged\.parquet in the work area must be"):
        scratch_of(bucket, tmp_path / "two").fetch(address)
    assert not [path for path in (tmp_path / "two").rglob("*") if path.is_file()]


def test_an_object_in_anothers_place_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    address = stored(bucket, tmp_path / "one")
    stored(bucket, tmp_path / "one", "other.parquet")
    found = bucket.objects()
    [name] = [name for name in found if name.endswith("staged.parquet")]
    bucket.put(name, found[name.replace("staged", "other")])
    with pytest.raises(IntegrityError, match="replaced by another"):
        scratch_of(bucket, tmp_path / "two").fetch(address)


def test_wrong_rights_are_reported_without_a_key(bucket: Bucket, tmp_path: Path) -> None:
    address = stored(bucket, tmp_path / "one")
    wrong = replace(bucket, store=replace(bucket.store, secret=SECRET[:40] + "aGk="))
    with pytest.raises(WorkAreaError, match="could not be read") as caught:
        scratch_of(wrong, tmp_path / "two").fetch(address)
    assert SECRET[:40] not in str(caught.value)


@pytest.mark.parametrize("when", ["before it stores", "after it has stored"])
def test_a_killed_task_leaves_nothing_that_its_retry_or_a_sweeper_does_not_end(
    when: str, bucket: Bucket, tmp_path: Path
) -> None:
    stores = when == "after it has stored"
    Child(store_and_die, tmp_path / "one", store_of(bucket), MARK, stores=stores).killed()
    assert list((tmp_path / "one").rglob("staged.parquet"))
    [swept] = sweep(
        tmp_path / "one", SweepRules(idle=timedelta(days=1))
    )  # what the next task there does first
    assert swept.state is AreaState.REMOVED
    address = stored(bucket, tmp_path / "two")  # the retry, on another worker
    fetched = Path(scratch_of(bucket, tmp_path / "three").fetch(address))
    assert fetched.read_bytes() == CANARY.encode() * 150_000
    [area] = sweep_store(store_of(bucket), SweepRules(idle=timedelta(0), is_over=lambda _: True))
    assert area.state is AreaState.REMOVED
    assert bucket.objects() == {}
