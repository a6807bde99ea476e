"""A standalone cluster that loses a worker in the middle, and one that does not know us."""

import base64
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.engines.local import LocalEngine
from privacy_engine.engines.spark import SparkEngine
from privacy_engine.errors import EngineError, InfeasibleError, IntegrityError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources import shares
from privacy_release.sources.shares import Workers
from privacy_release.steps.producers import fragment_join
from privacy_release.steps.producers.fragment_join import join
from privacy_release.steps.producers.fragments import cut_table, keep, release_records
from privacy_release.steps.producers.job import Job
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.presence import Mark, Owner
from privacy_release.workarea.references import FragmentReleaseRef, Table
from privacy_release.workarea.remote.keys import Wrapping
from privacy_release.workarea.remote.parts import SealedFiles, dealt_out
from privacy_release.workarea.remote.scratch import CURRENT, Scratch
from privacy_release.workarea.remote.store import Store
from privacy_release.workarea.spark_session import SparkCluster
from tests.object_stores.stores import Bucket, s3_server
from tests.servers.spark_cluster import CONF, ROOT, Standalone, end_of
from tests.spark.conftest import MEMORY
from tests.spark.work import CANARY, Waiting, by_number, failing, infeasible, quoting
from tests.waiting import DEADLINE, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SMALL = {
    "spark.executor.memory": "512m",
    "spark.shuffle.io.retryWait": "200ms",
    "spark.task.maxFailures": "2",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "illness": {"role": "sensitive", "kind": "categorical"},
    }
)


@pytest.fixture(scope="module")
def stranger(
    cluster: Standalone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """A client of the cluster that does not know its secret. It waits for a minute, and others need not."""
    folder = tmp_path_factory.mktemp("stranger")
    program = Path(__file__).with_name("stranger_child.py")
    with subprocess.Popen(
        [sys.executable, str(program), cluster.master, str(folder), ""],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def engine(
    cluster: Standalone, stranger: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkEngine]:
    """The engine on the cluster, with one executor on each worker."""
    events = {"spark.eventLog.dir": f"file:{tmp_path_factory.mktemp('events')}"}
    known = SparkCluster(master=cluster.master, conf=CONF | SMALL | events, secret=cluster.secret)
    with known.session(tmp_path_factory.mktemp("driver"), MEMORY) as session:
        yield SparkEngine(session)


def test_an_error_of_ours_arrives_as_it_was_raised(engine: SparkEngine, people: list[str]) -> None:
    with pytest.raises(InfeasibleError, match=r"^3\d rows of fragment 3 cannot be 500-anonymous; lower k$"):
        list(engine.apply_by_fragment(people, by_number, infeasible))


def test_nothing_that_a_worker_raises_shows_a_record(
    engine: SparkEngine,
    cluster: Standalone,
    people: list[str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(EngineError, match="ValueError in a Spark worker") as of_work:
            list(engine.apply_by_fragment(people, by_number, quoting))
        with pytest.raises(EngineError, match="KeyError in a Spark worker") as of_assign:
            engine.count_fragments(people, failing, [])
    logs = [
        log.read_text() for worker in cluster.workers for log in worker.log.parent.glob("worker-*/**/std*")
    ]
    assert any("WorkerError" in log for log in logs), (
        "the executors' logs must be among those that are searched"
    )
    message = ["".join(traceback.format_exception(caught.value)) for caught in (of_work, of_assign)]
    for text in (*message, *capfd.readouterr(), caplog.text, *logs):
        assert CANARY not in text
        assert "Köln" not in text


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scratch, Bucket]]:
    """The folder of a task of this machine in front of a bucket; no executor looks into it."""
    for name in ("moto", "flask_cors", "s3fs"):
        pytest.importorskip(name)
    with s3_server(tmp_path_factory.mktemp("s3")) as s3:
        bucket = Bucket(store=s3, name="areas")
        s3.make_bucket(bucket.name)
        wrapping = Wrapping(secrets.token_bytes(32), "a test")
        store = Store(root=bucket.address("work"), options=s3.source_options(), wrapping=wrapping)
        mark = Mark(key="people/run", owner=Owner.RUN)
        folder = tmp_path_factory.mktemp("scratch")
        with Scratch(folder, "people/run/release", run=store.of(mark.key), mark=mark) as task:
            yield task, bucket


@pytest.fixture(scope="module")
def table(scratch: tuple[Scratch, Bucket], tmp_path_factory: pytest.TempPathFactory) -> Table:
    """4,000 records that were ingested."""
    rng, n = np.random.default_rng(3), 4_000
    path = tmp_path_factory.mktemp("source") / "people.parquet"
    columns = {"age": rng.integers(18, 90, n), "illness": np.array([CANARY, "cold", "flu"])[np.arange(n) % 3]}
    pq.write_table(pa.table(columns), path)
    engine = read_engine({"kind": "spark", "rows": 1_000, "memory": "300MB"})
    return privacy_release.ingest(str(path), SCHEMA, scratch[0], engine=engine)


@pytest.fixture(scope="module")
def distant(engine: SparkEngine, scratch: tuple[Scratch, Bucket]) -> Iterator[SparkEngine]:
    """The engine whose executors open parts of the table in the bucket."""
    with dealt_out(scratch[0].run, rows=1_500) as parts:
        yield SparkEngine(engine._session, parts=parts)


def test_executors_open_what_is_in_the_bucket_and_refuse_what_was_changed_there(
    distant: SparkEngine, scratch: tuple[Scratch, Bucket], table: Table
) -> None:
    expected = np.bincount(pq.read_table(table.uri)["age"].to_numpy())
    assert distant.class_sizes([table.uri], ["age"]) == Counter(expected[expected > 0].tolist())
    bucket = scratch[1]
    one, other = sorted(name for name in bucket.objects() if "/parts-" in name)[:2]
    kept, elsewhere = (bucket.objects()[name] for name in (one, other))
    changed = kept[:500] + bytes([kept[500] ^ 1]) + kept[501:]
    for damaged in (changed, kept[:-1], elsewhere):
        bucket.put(one, damaged)
        with pytest.raises(
            IntegrityError, match=r"parts-\w+/00000.parquet in the work area must be"
        ) as caught:
            distant.class_sizes([table.uri], ["age"])
        assert caught.value.__context__ is None
    bucket.put(one, kept)


@pytest.fixture
def within_task(
    cluster: Standalone, scratch: tuple[Scratch, Bucket], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """As within a task whose connection names the cluster, and whose work area is the bucket."""
    fields = {"master": cluster.master, "conf": CONF}
    connection = {"conn_type": "privacy_spark", "password": cluster.secret, "extra": fields}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("PRIVACY_WORK_AREA", scratch[1].address("work"))
    entered = CURRENT.set(scratch[0])
    yield
    CURRENT.reset(entered)


@pytest.mark.usefixtures("within_task")
def test_executors_copy_a_source_of_a_bucket_into_the_bucket_and_read_it_there(
    engine: SparkEngine,
    scratch: tuple[Scratch, Bucket],
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver has what they wrote, and deals out none of it again."""
    task, bucket = scratch
    source = Bucket(store=bucket.store, name="sources")
    bucket.store.make_bucket(source.name)
    records = pq.read_table(table.uri)
    for number in range(4):
        file = pa.BufferOutputStream()
        pq.write_table(records.slice(number * 1_000, 1_000), file)
        source.put(f"people/{number}.parquet", file.getvalue().to_pybytes())
    monkeypatch.setattr("privacy_release.steps.ingest.Workers", partial(Workers, many=1, share=1_500))
    monkeypatch.setattr(shares, "open_engine", lambda ref, folder: nullcontext(engine))
    copied = privacy_release.ingest(
        source.address("people"),
        SCHEMA,
        task,
        label="copied",
        storage_options=bucket.store.source_options(),
        engine=table.engine,
    )
    files = files_of(copied.uri, copied.sha256)
    assert len(files) == 4
    assert {Path(name).name for name in bucket.objects() if "/copied.files/" in name} == {
        f.name for f in files
    }
    assert pa.concat_tables([pq.read_table(path) for path in files]).equals(records)
    before = {name for name in bucket.objects() if "/parts-" in name}
    with dealt_out(task.run, stored=task.stored) as parts:
        reading = SparkEngine(engine._session, parts=parts)
        ages = reading.class_sizes([*map(str, files)], ["age"])
        assert {name for name in bucket.objects() if "/parts-" in name} == before
    expected = np.bincount(records["age"].to_numpy())
    assert ages == Counter(expected[expected > 0].tolist())


@pytest.mark.usefixtures("within_task")
def test_executors_write_the_files_of_a_set_into_the_bucket(
    distant: SparkEngine,
    scratch: tuple[Scratch, Bucket],
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They come back as they were written, and hold the records of one file in its order."""
    task, bucket = scratch
    cut = cut_table(table, distant, method="mondrian", parameters={"k": 5}, seed=7)
    plan = keep(cut, task, "sets")
    work = partial(
        release_records, task.send(plan), files=SealedFiles(run=task.run.lent(), folder="sets.fragments")
    )
    sent = list(distant.apply_by_fragment([table.uri], cut.plan.tree.assign, work))
    made = [FragmentReleaseRef.from_ref(task.fetch(ref)) for ref in sent]
    one = join(made, plan, Job(work=task, label="one"), distant)
    monkeypatch.setattr(fragment_join, "ROWS_OF_A_FILE", 900)
    several = join(made, plan, Job(work=task, label="several"), distant)
    files = files_of(str(several.records), several.sha256)
    assert len(files) >= 4
    assert {Path(name).name for name in bucket.objects() if "/several" in name} >= {p.name for p in files}
    joined = pa.concat_tables([pq.read_table(path) for path in files])
    assert joined.equals(pq.read_table(one.records).cast(joined.schema))
    assert several.figures == one.figures


def test_a_worker_that_dies_changes_no_byte_of_a_release(
    distant: SparkEngine,
    cluster: Standalone,
    scratch: tuple[Scratch, Bucket],
    table: Table,
    tmp_path: Path,
) -> None:
    task, bucket = scratch
    parameters = {"k": 5}
    cut = cut_table(table, distant, method="mondrian", parameters=parameters, seed=7)
    plan = keep(cut, task, "release")
    files = SealedFiles(run=task.run.lent(), folder="release.fragments")
    work = Waiting(tmp_path, partial(release_records, task.send(plan), files=files))
    victim = cluster.workers[1]
    died: set[int] = set()

    def kill_in_the_middle() -> None:
        # One fragment has begun on each worker, and none can end before the worker is gone.
        wait_for(
            lambda: len(work.started()) >= 2, "two fragments to begin", detail=lambda: end_of(victim.log)
        )
        died.update(process.pid for process in victim.family())
        victim.kill()
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    assign = cut.plan.tree.assign
    results = list(distant.apply_by_fragment([table.uri], assign, work))
    killer.join()

    lost = [fragment for fragment, tried in work.started().items() if died & set(tried)]
    assert lost, "the worker must have died in the middle of a fragment"
    assert all(result["process"] not in died for result in results)
    sent = [result["result"] for result in results]
    assert all(bucket.name in ref["uri"] for ref in sent)
    made = [FragmentReleaseRef.from_ref(task.fetch(ref)) for ref in sent]
    with LocalEngine(memory=1 << 30, spill=tmp_path, processes=1) as here:
        own = here.apply_by_fragment([table.uri], assign, partial(release_records, plan))
        expected = {ref["fragment"]: (ref["sha256"], ref["account"]["sha256"]) for ref in own}
    assert {ref.fragment: (ref.sha256, ref.account.sha256) for ref in made} == expected
    assert len(expected) >= 4
    joined = join(made, plan, Job(work=task, label="joined"), distant)
    assert joined.claims.rows == table.rows
    wait_for(lambda: cluster.alive() == 1, "the cluster to miss its worker")


def test_neither_key_nor_record_is_on_a_disk_of_the_cluster_in_its_logs_or_in_the_bucket(
    engine: SparkEngine, cluster: Standalone, scratch: tuple[Scratch, Bucket]
) -> None:
    task, bucket = scratch
    conf = engine._session.sparkContext.getConf()
    folders = [cluster.workers[0].log.parent, Path(conf.get("spark.local.dir")).parent]
    events = Path(conf.get("spark.eventLog.dir").removeprefix("file:"))
    found = {path: path.read_bytes() for folder in (*folders, events) for path in _files_below(folder)}
    assert any("shuffle" in path.name and data for path, data in found.items())
    assert any(b"MapInArrow" in data for path, data in found.items() if events in path.parents)
    found |= {Path(name): data for name, data in bucket.objects().items()}
    keys = list(task.run._keys.values())
    hidden = [bucket.store.secret.encode(), CANARY.encode(), b"PAR1"]
    hidden += [form for key in keys for form in (key, key.hex().encode(), base64.b64encode(key))]
    assert keys
    assert [path for path, data in found.items() if any(word in data for word in hidden)] == []


def _files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_client_without_the_secret_is_refused(cluster: Standalone, stranger: subprocess.Popen[str]) -> None:
    reported, shown = stranger.communicate(timeout=DEADLINE)
    assert reported.startswith(f"Spark must start with the master {cluster.master}, got ")
    assert reported.endswith("context: None; left: []")
    assert "check the address, the secret" in reported
    assert shown == ""
    served = cluster.state()
    assert len(served["activeapps"] + served["completedapps"]) == 1, "that of the other tests"
