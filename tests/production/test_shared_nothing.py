"""Two Celery workers without a common folder, each killed once, with an object store as their work area.

A worker that is started again in a new folder stands for another machine; in its old one, for the same.
"""

import json
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from deploy.local.embedded import free_port
from tests.object_stores.stores import Bucket, s3_server
from tests.production.conftest import Installed, visits
from tests.production.topology import Topology, missing_programs, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.production,
    pytest.mark.object_stores,
    pytest.mark.timeout(1800),
]

STARTED = ("api-server", "scheduler", "dag-processor")
CANARY = "Wilhelmina-Canary"
DAG = """
import shutil
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, BaseOperator
from airflow_privacy_release import *
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.run import run_work_area
from privacy_release.workarea.references import Table

POLICY = {{"require": [{{"model": "k_anonymity", "k": 10}}]}}
SCHEMA = {{
    "age": {{"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]}},
    "diagnosis": {{"role": "sensitive", "kind": "categorical"}},
}}


class HalfDone(BaseOperator):
    '''A step that at its first attempt never gets beyond the half of what it writes.'''

    references = {{"table": Table}}
    template_fields = ("table",)

    def __init__(self, *, table, **kwargs):
        super().__init__(**kwargs)
        self.table = table

    @recorded
    def execute(self, context):
        with run_work_area(context) as work:
            shutil.copy(self.table.uri, work.path("half.parquet"))
            if context["ti"].try_number == 1:
                Path({reached!r}).touch()
                threading.Event().wait()
            return replace(self.table, uri=str(work.path("half.parquet")))


with DAG(dag_id="shared_nothing", default_args={{"retries": 2, "retry_delay": timedelta(seconds=1)}}):
    raw = IngestParquetOperator(task_id="ingest", uri={uri!r}, schema=SCHEMA, queue="one")
    half = HalfDone(task_id="half", table=raw.output, queue="two")
    staged = ReleaseOperator(
        task_id="release", table=half.output, method="mondrian", parameters={{"k": 10}}, queue="one"
    )
    report = VerifyOperator(task_id="verify", table=staged.output, policy=POLICY, queue="two")
    done = PublishOperator(
        task_id="publish", table=staged.output, report=report.output, name="visits", queue="one"
    )
    done >> CleanupOperator(task_id="cleanup", queue="two")
"""


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    """A bucket of S3; `tests/object_stores/test_work_area.py` has work areas in both kinds of store."""
    with s3_server(tmp_path) as store:
        found = Bucket(store=store, name="areas")
        store.make_bucket(found.name)
        yield found


@pytest.fixture
def topology(
    installed: Installed, clean: dict[str, str], bucket: Bucket, tmp_path: Path
) -> Iterator[Topology]:
    """All services that it needs but for the worker; no task defers."""
    if missing := missing_programs():
        pytest.skip(f"not installed: {', '.join(missing)}")
    root = tmp_path / "services"
    for folder in ("dags", "include"):
        (root / folder).mkdir(parents=True)
    visits(600).replace({"diagnosis": {"gout": CANARY}}).to_parquet(root / "visits.parquet", index=False)
    dag = DAG.format(uri=str(root / "visits.parquet"), reached=str(root / "reached"))
    (root / "dags" / "shared_nothing.py").write_text(dag)
    connection = {
        "conn_type": "generic",
        "password": secrets.token_hex(32),
        "extra": json.dumps({"storage_options": bucket.store.source_options()}),
    }
    changed = {
        "PRIVACY_WORK_AREA": bucket.address("work"),
        "AIRFLOW_CONN_WORK_DEFAULT": json.dumps(connection),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    }
    with running(root, installed, clean, changed=changed, started=STARTED) as topology:
        yield topology


def start_worker(topology: Topology, queue: str, folder: Path) -> None:
    """A worker that takes the tasks of one queue, and has a separate folder for them."""
    settings = {
        "PRIVACY_SCRATCH": str(folder),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
    }
    topology.parts.start(worker(queue), topology.environment("worker") | settings)


def worker(queue: str) -> str:
    """The command of a worker, by which its processes are known."""
    return f"celery worker --queues {queue} --celery-hostname {queue} --concurrency 1"


def clear_text(folder: Path) -> list[str]:
    """Names of the files below a folder with the planted value, or of Parquet, which may compress it."""
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return sorted(name for name, data in files.items() if CANARY.encode() in data or b"PAR1" in data)


def test_a_run_survives_the_kill_of_both_workers_and_leaves_nothing(
    topology: Topology, bucket: Bucket, tmp_path: Path
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    start_worker(topology, "one", one)
    start_worker(topology, "two", two)
    run = topology.trigger("shared_nothing")
    topology.until((topology.root / "reached").exists, "the step to be half done")

    topology.parts.kill(worker("one"))  # between two of its tasks
    assert not list(one.iterdir())
    shutil.rmtree(one)
    topology.parts.kill(worker("two"))  # within a task: what it had decrypted stays on its machine
    assert len(clear_text(two)) == 2
    stored = bucket.objects()
    assert [name for name in stored if ".key-" in name]
    assert not [name for name, data in stored.items() if CANARY.encode() in data or b"PAR1" in data]

    start_worker(topology, "one", three)
    start_worker(topology, "two", two)
    assert topology.end_of("shared_nothing", run) == "success"
    tries = {
        task["task_id"]: task["try_number"]
        for task in topology.call("GET", f"/dags/shared_nothing/dagRuns/{run}/taskInstances")[
            "task_instances"
        ]
    }
    assert tries == {"ingest": 1, "half": 2, "release": 1, "verify": 1, "publish": 1, "cleanup": 1}

    released = DeltaTable(str(topology.root / "data" / "lake" / "visits")).to_pandas()
    assert len(released) == 600
    assert released.groupby(["age_from", "age_to"]).size().min() >= 10
    assert bucket.objects() == {}
    assert not list(two.iterdir()), "the next task on the machine sweeps what the killed one left"
    assert not list(three.iterdir())
    assert not list((topology.root / "data" / "work").iterdir())
    assert not clear_text(topology.root / "logs")
