"""A standalone cluster that loses a worker in the middle, and one that does not know us."""

import logging
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from privacy_engine.engines.spark import SparkEngine
from privacy_engine.errors import EngineError, InfeasibleError
from privacy_release.work.spark_session import SparkCluster
from tests.servers.spark_cluster import CONF, PATIENCE, ROOT, Standalone, waited
from tests.spark.conftest import MEMORY
from tests.spark.work import CANARY, Waiting, by_number, failing, infeasible, quoting

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SMALL = {
    "spark.executor.memory": "512m",
    "spark.shuffle.io.retryWait": "200ms",
    "spark.task.maxFailures": "2",
}


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
    known = SparkCluster(master=cluster.master, conf=CONF | SMALL, secret=cluster.secret)
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
        with pytest.raises(EngineError, match="ValueError in a worker") as of_work:
            list(engine.apply_by_fragment(people, by_number, quoting))
        with pytest.raises(EngineError, match="KeyError in a worker") as of_assign:
            engine.count_fragments(people, failing, [])
    logs = [
        log.read_text() for worker in cluster.workers for log in worker.log.parent.glob("worker-*/**/std*")
    ]
    assert any("WorkerError" in log for log in logs), (
        "the executors' logs must be among those that are searched"
    )
    told = ["".join(traceback.format_exception(caught.value)) for caught in (of_work, of_assign)]
    for text in (*told, *capfd.readouterr(), caplog.text, *logs):
        assert CANARY not in text
        assert "Köln" not in text


def test_every_record_is_worked_on_once_although_a_worker_dies(
    engine: SparkEngine, cluster: Standalone, people: list[str], tmp_path: Path
) -> None:
    work = Waiting(tmp_path)
    victim = cluster.workers[1]
    died: set[int] = set()

    def kill_in_the_middle() -> None:
        # One fragment has begun on each worker, and none can end before the worker is gone.
        waited(lambda: len(work.started()) >= 2, victim.log)
        died.update(process.pid for process in victim.family())
        victim.kill()
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    results = list(engine.apply_by_fragment(people, by_number, work))
    killer.join()

    assert [result["fragment"] for result in results] == list(range(8))
    assert sorted(n for result in results for n in result["numbers"]) == list(range(300))
    assert all(result["numbers"] == sorted(result["numbers"]) for result in results)
    lost = [fragment for fragment, tried in work.started().items() if died & set(tried)]
    assert lost, "the worker must have died in the middle of a fragment"
    assert all(result["process"] not in died for result in results)
    waited(lambda: cluster.alive() == 1)


def test_a_client_without_the_secret_is_refused(cluster: Standalone, stranger: subprocess.Popen[str]) -> None:
    told, shown = stranger.communicate(timeout=PATIENCE)
    assert told.startswith(f"Spark must start with the master {cluster.master}, got ")
    assert told.endswith("context: None; left: []")
    assert "check the address, the secret" in told
    assert shown == ""
    served = cluster.state()
    assert len(served["activeapps"] + served["completedapps"]) == 1, "that of the other tests"
