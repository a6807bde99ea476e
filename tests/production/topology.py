"""The services of docker-compose.yaml without Docker: their commands and settings, on free ports.

PostgreSQL and Redis are Debian's; Airflow is the one that was installed from the wheel, or that of the image.
What Docker would provide is replaced: host names by addresses of this machine, volumes by folders.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

from deploy.local.embedded import HOST, checkout, free_port
from deploy.local.ui import Components, wait_until_ready
from tests.production.compose import environment, secrets_in, services
from tests.production.conftest import Installed
from tests.servers.airflow_api import ask
from tests.servers.postgres import binaries, server
from tests.waiting import AIRFLOW_DEADLINES, DEADLINE, wait_for

AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer", "worker")
FINISHED = {"success", "failed"}
# Waiting is most of the time of a run: look more often than one would in production.
QUICK = {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "2",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": str(DEADLINE),  # no file changes
}


@dataclass(kw_only=True)
class Topology:
    """The running services.

    Attributes:
        root: holds what Docker would keep in volumes.
        parts: what starts the services.
        values: the secrets, see `secrets_in`.
        replaced: texts of the compose file that name something of Docker, and what stands for it here.
        ports: settings that several Airflows on one machine need.
        changed: settings that are not those of the compose file.
        started: the services of Airflow.
    """

    root: Path
    parts: "Services"
    values: Mapping[str, str]
    replaced: Mapping[str, str]
    ports: Mapping[str, str]
    changed: Mapping[str, str] = field(default_factory=dict)
    started: tuple[str, ...] = AIRFLOW

    @property
    def address(self) -> str:
        """Of the API server."""
        return f"http://{self.replaced['api-server:8080']}"

    def environment(self, service: str) -> dict[str, str]:
        """What the compose file gives to a service, for this machine."""
        found = environment(service)
        for old, new in self.replaced.items():
            found = {name: text.replace(old, new) for name, text in found.items()}
        return found | self.ports | QUICK | AIRFLOW_DEADLINES | dict(self.changed)

    def command_line(self, *command: str) -> str:
        """Run `privacy-release` as its service would."""
        return self.run("privacy-release", "privacy-release", *command)

    def run(self, service: str, *command: str) -> str:
        """Run a command with the settings of a service; its output."""
        return self.parts.run(service, *command, environment=self.environment(service))

    def start(self) -> None:
        """Run the one-shot service, start all others, and wait until Airflow can be used."""
        self.run("initialize", "initialize")
        for service in self.started:
            _, *command = services()[service]["command"]
            self.parts.start(" ".join(command), self.environment(service))
        wait_until_ready(self.parts, self.address, DEADLINE)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask Airflow's REST API, as the administrator."""
        return json.loads(ask(self.address, method, f"/api/v2{path}", body, self.token))

    def page(self, path: str, token: str | None) -> str:
        """A page, for the user with this token, or for a user who has not logged in.

        Raises:
            HTTPError: if it is refused.
        """
        return ask(self.address, "GET", path, token=token).decode()

    @cached_property
    def token(self) -> str:
        """A login of the administrator that the one-shot service made."""
        login = {"username": "admin", "password": self.values["admin_password"]}
        return str(json.loads(ask(self.address, "POST", "/auth/token", login))["access_token"])

    def run_dag(self, dag_id: str) -> str:
        """Trigger a DAG once it is known, and wait for the end of its run; how it ended."""
        return self.end_of(dag_id, self.trigger(dag_id))

    def trigger(self, dag_id: str) -> str:
        """Trigger a DAG once it is known; the id of its run."""
        self.until(lambda: self._found(f"/dags/{dag_id}") is not None, f"the DAG {dag_id} to be known")
        self.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"])

    def end_of(self, dag_id: str, run: str) -> str:
        """Wait for the end of a run; how it ended."""
        path = f"/dags/{dag_id}/dagRuns/{run}"
        self.until(lambda: self.call("GET", path)["state"] in FINISHED, f"a run of {dag_id} to end")
        return str(self.call("GET", path)["state"])

    def _found(self, path: str) -> Any:
        try:
            return self.call("GET", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something, as long as all services run."""

        def looked() -> bool:
            self.parts.check()
            return holds()

        wait_for(looked, what, detail=lambda: f"see {self.root}", every=0.5)


class Services(Components):
    """Airflow's services, and what runs a command as one of them would."""

    def run(self, service: str, *command: str, environment: Mapping[str, str]) -> str:
        """Run a command with the settings of a service; its output."""
        raise NotImplementedError


@dataclass(kw_only=True)
class InEnvironment(Services):
    """Services of an environment of this machine."""

    installed: Installed

    def run(self, service: str, *command: str, environment: Mapping[str, str]) -> str:
        shutil.copy(checkout() / "deploy" / "initialize.sh", self.installed.bin / "initialize")
        given = dict(self.environment) | dict(environment) | {"AIRFLOW_HOME": str(self.logs)}
        return self.installed.run(*command, environment=given)


@contextmanager
def running(
    root: Path,
    installed: Installed,
    base: Mapping[str, str],
    *,
    changed: Mapping[str, str] | None = None,
    started: tuple[str, ...] = AIRFLOW,
) -> Iterator[Topology]:
    """Everything of the compose file, until the block is left; `root` has `dags` and `include`."""
    for folder in ("data/lake", "data/work", "data/curator", "logs"):
        (root / folder).mkdir(parents=True)
    # Without the last, `python -m` would import this checkout if that is the working directory.
    base = dict(base) | {"MPLCONFIGDIR": str(root / "matplotlib"), "PYTHONSAFEPATH": "1"}
    parts = InEnvironment(logs=root, environment=base, python=installed.python, installed=installed)
    folders = {
        "/opt/airflow": str(root),
        "/tmp/home": str(root),
        "/data/": f"{root}/data/",
        "/run/secrets": f"{root}/secrets",
    }
    with started_with(parts, folders, changed=changed or {}, started=started) as topology:
        yield topology


@contextmanager
def started_with(
    parts: Services,
    folders: Mapping[str, str],
    *,
    changed: Mapping[str, str],
    started: tuple[str, ...] = AIRFLOW,
) -> Iterator[Topology]:
    """The services with fresh secrets, PostgreSQL and Redis, until the block is left.

    Args:
        parts: their folder of logs holds all that they have.
        folders: texts of the compose file that name folders, and what stands for them here.
        changed: settings that are not those of the compose file.
        started: the services of Airflow.
    """
    root = parts.logs
    secrets = root / "secrets"
    make = [sys.executable, checkout() / "deploy" / "make_secrets.py", secrets, root / ".env"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    with postgres(secrets) as postgres_port, redis(secrets) as redis_port:
        api = free_port()
        topology = Topology(
            root=root,
            parts=parts,
            values=secrets_in(secrets),
            replaced={
                "postgres:5432": f"{HOST}:{postgres_port}",
                "redis:6379": f"{HOST}:{redis_port}",
                "api-server:8080": f"{HOST}:{api}",
                "http://localhost:8080": f"http://{HOST}:{api}",
                **folders,
            },
            ports={
                "AIRFLOW__API__HOST": HOST,
                "AIRFLOW__API__PORT": str(api),
                "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(free_port()),
                "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
                "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            },
            changed=changed,
            started=started,
        )
        try:
            topology.start()
            yield topology
        finally:
            parts.stop()


@contextmanager
def postgres(secrets: Path) -> Iterator[int]:
    """A server with the databases and users that the compose file's script makes; its port."""
    folder = binaries()
    assert folder is not None
    with server(folder) as url:
        subprocess.run(
            ["sh", checkout() / "deploy" / "databases.sh"],
            env={
                **{
                    name: text.replace("/run/secrets", str(secrets))
                    for name, text in environment("postgres").items()
                },
                "PATH": f"{folder}:{os.environ['PATH']}",
                "POSTGRES_USER": str(url.username),
                "PGPASSWORD": str(url.password),
                "PGHOST": str(url.host),
                "PGPORT": str(url.port),
            },
            check=True,
        )
        yield int(url.port or 0)


@contextmanager
def redis(secrets: Path) -> Iterator[int]:
    """A server that is started by the compose file's own command; its port."""
    port = free_port()
    shell, flag, script = services()["redis"]["command"]
    script = script.replace("$$", "$").replace("<<END", f"--port {port} --bind {HOST} <<END")
    script = script.replace("/run/secrets", str(secrets))
    with (secrets.parent / "redis.log").open("wb") as log:
        process = subprocess.Popen(
            [shell, flag, script],
            env={"PATH": os.environ["PATH"]},
            cwd=secrets.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def ledger_address(topology: Topology) -> str:
    """Of the ledger's database, with its password."""
    host, _, port = topology.replaced["postgres:5432"].partition(":")
    return URL.create(
        "postgresql+psycopg", "ledger", topology.values["ledger_db_password"], host, int(port), "privacy"
    ).render_as_string(hide_password=False)


def missing_programs() -> list[str]:
    """What has to be installed first."""
    found = {"PostgreSQL": binaries(), "redis-server": shutil.which("redis-server")}
    return [name for name, path in found.items() if path is None]
