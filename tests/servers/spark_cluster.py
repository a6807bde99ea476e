"""Spark of the tests' own: a standalone cluster, or a Spark Connect server, on ports of their own.

pyspark brings the classes of master and worker, but not the scripts that start them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from deploy.local.embedded import HOST
from tests.waiting import DEADLINE, wait_for

ROOT = Path(__file__).parents[2]
# What sessions of tests have in common: executors find the functions of the tests, and need little.
CONF = {"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.sql.shuffle.partitions": "4"}


@dataclass(frozen=True)
class Server:
    """A process of Spark's, and the file that it writes its log to."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> str:
        """The first group of a pattern in the log, once it is there."""
        found = wait_for(
            lambda: self._search(pattern), f"Spark to log {pattern}", detail=lambda: end_of(self.log)
        )
        return found[1]

    def family(self) -> list[psutil.Process]:
        """The process and all below it: of a worker, its executors and their Pythons."""
        try:
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """End all of them at once, without a chance to say goodbye."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

    def _search(self, pattern: str) -> re.Match[str] | None:
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.log.name} ended:\n{self.log.read_text()[-4000:]}")
        return re.search(pattern, self.log.read_text())


@dataclass(frozen=True)
class Standalone:
    """A cluster of a master and some workers on this machine.

    Attributes:
        master: its address, `spark://...`.
        page: address of the master's web page.
        secret: Secret without which no one gets in.
        workers: each of one core and with one executor an application.
    """

    master: str
    page: str
    secret: str
    workers: Sequence[Server]

    def state(self) -> dict[str, Any]:
        """What the master knows."""
        with urlopen(f"{self.page}/json/", timeout=DEADLINE) as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    def alive(self) -> int:
        """How many workers the master counts on."""
        return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])


def require_spark() -> None:
    """Skip the test where Spark cannot run; in continuous integration, which installs Java, fail."""
    missing = "Java" if shutil.which("java") is None else None
    try:
        import pyspark  # noqa: F401
    except ImportError:
        missing = "pyspark"
    if missing and "CI" in os.environ:
        pytest.fail(f"{missing} must be installed where CI is set")
    if missing:
        pytest.skip(f"{missing} is not installed (Debian: apt-get install default-jre-headless)")


@contextmanager
def standalone_cluster(
    folder: Path, workers: int = 2, *, secret: str, memory: str = "1g"
) -> Iterator[Standalone]:
    """A running cluster, gone at the end with all that it started.

    Args:
        folder: private; for logs, and what executors write.
        workers: how many.
        secret: of `spark.authenticate`.
        memory: of each worker.
    """
    settings = folder / "cluster.conf"  # a file, because every user of a machine can read command lines
    settings.touch(mode=0o600)
    settings.write_text(f"spark.authenticate true\nspark.authenticate.secret {secret}\n")
    master_class = "org.apache.spark.deploy.master.Master"
    worker_class = "org.apache.spark.deploy.worker.Worker"
    common = ["--host", HOST, "--port", "0", "--webui-port", "0", "--properties-file", str(settings)]
    with ExitStack() as stack:

        def start(name: str, *command: str) -> Server:
            return stack.enter_context(_running(["spark-class", *command], folder / f"{name}.log", folder))

        master = start("master", master_class, *common)
        address = master.said(r"Starting Spark master at (spark://\S+)")
        page = master.said(r"Bound MasterWebUI to \S+ and started at (http://\S+)")
        started = []
        for i in range(workers):
            work = folder / f"worker-{i}"
            size = ["--cores", "1", "--memory", memory, "--work-dir", str(work)]
            started.append(start(f"worker-{i}", worker_class, *common, *size, address))
        cluster = Standalone(address, page, secret, started)
        wait_for(
            lambda: cluster.alive() == workers,
            f"{workers} workers to register",
            detail=lambda: end_of(*(worker.log for worker in started)),
        )
        yield cluster


@contextmanager
def connect_server(folder: Path, conf: Mapping[str, str] | None = None) -> Iterator[str]:
    """A Spark Connect server that works on this machine; its address, `sc://...`."""
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        **CONF,
        **(conf or {}),
    }
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--class", server, "--master", "local[2]", *options, "spark-internal"]
    with _running(command, folder / "connect.log", folder, "1g") as running:
        port = running.said(r"Spark Connect server started at: \S+?:(\d+)")
        yield f"sc://{HOST}:{port}"


def end_of(*logs: Path) -> str:
    """The last lines of each log."""
    return "\n".join(log.read_text()[-2000:] for log in logs)


@contextmanager
def _running(command: list[str], log: Path, folder: Path, heap: str = "256m") -> Iterator[Server]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": heap,
    }
    program = str(home / "bin" / command[0])
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *command[1:]],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(process, log)
    try:
        yield server
    finally:
        server.kill()
