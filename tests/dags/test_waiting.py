"""Folders named by date, with a late and a missing day, under a scheduler and a triggerer of their own."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from deploy.local.embedded import checkout, free_port
from deploy.local.samples.files import ADULT, SAMPLES, write_table
from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_release.lake.read import releases
from privacy_release.lake.store import Lake
from tests.servers import postgres
from tests.servers.airflow_api import ask
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SQL = "SELECT name, age, town, disease, remark FROM people WHERE day = {release:%Y-%m-%d}"


class Service:
    """A running Airflow, asked by its REST API."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        facts = {}
        for line in process.stdout:
            key, _, value = line.partition(" ")
            facts[key] = value.strip()
            if key == "ready":
                break
        self.address = facts["address"]
        user, password = facts["login"].split(" / ")
        login = ask(self.address, "POST", "/auth/token", {"username": user, "password": password})
        self.token = json.loads(login)["access_token"]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(ask(self.address, method, f"/api/v2{path}", body, self.token))

    def until(self, holds: Any, what: str) -> Any:
        return wait_for(lambda: self._tried(holds), what, every=0.5)

    @staticmethod
    def _tried(holds: Any) -> Any:
        try:
            return holds()
        except urllib.error.HTTPError:
            return None

    def start(self, dag: str, day: str) -> str:
        """Run a DAG for a day; the run's path."""
        self.until(lambda: self.call("PATCH", f"/dags/{dag}", {"is_paused": False}), f"{dag} to be known")
        made = self.call("POST", f"/dags/{dag}/dagRuns", {"logical_date": f"{day}T00:00:00Z"})
        return f"/dags/{dag}/dagRuns/{made['dag_run_id']}"

    def task(self, run: str, name: str) -> str | None:
        tasks = self.call("GET", f"{run}/taskInstances")["task_instances"]
        return next((t["state"] for t in tasks if t["task_id"] == name), None)

    def ended(self, run: str) -> str:
        states = {"success", "failed"}
        return str(
            self.until(lambda: (s := self.call("GET", run)["state"]) in states and s, f"the end of {run}")
        )


@pytest.fixture
def root(tmp_path: Path, make_home: Any, invented: pd.DataFrame) -> Path:
    write_table(tmp_path / SAMPLES / ADULT, synthetic_adult(100, rng=np.random.default_rng(1)), "generated")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "releases.py").write_text((checkout() / "dags" / "releases.py").read_text())
    home = make_home(tmp_path)
    uri = f"{tmp_path}/days/{{release:%Y-%m-%d}}"
    waiting = {"uri": uri, "when_missing": "wait", "wait": {"timeout": "5 minutes", "every": "1 minute"}}
    home.write(name="awaited", source=waiting)
    home.write(name="skipped", source={"uri": uri, "when_missing": "skip"})
    fields = {"connection": "hospital", "sql": SQL}
    home.write(name="asked", source=fields | {key: waiting[key] for key in ("when_missing", "wait")})
    return tmp_path


@pytest.fixture
def database(postgres_server: URL, invented: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A table that has rows of the day before alone."""
    url = postgres.new_schema(postgres_server)
    monkeypatch.setenv("AIRFLOW_CONN_HOSPITAL", url.replace("postgresql+psycopg", "postgres"))
    engine = create_engine(url, poolclass=NullPool)
    invented.assign(day=pd.Timestamp("2026-11-01").date()).to_sql("people", engine, index=False)
    return engine


@pytest.fixture
def service(root: Path, database: Engine) -> Iterator[Service]:
    command = [sys.executable, "-m", "deploy.local.ui", "--port", str(free_port()), "--root", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield Service(process)
        finally:
            process.terminate()
            assert process.stdout is not None
            process.stdout.close()  # a reader that is gone must not keep anything from being stopped
            process.wait()
    assert not [p.pid for p in psutil.process_iter(["environ"]) if str(root) in str(p.info["environ"])]


def deliver(root: Path, day: str, people: pd.DataFrame) -> None:
    """Under another name first, as deliveries should be: what is half written is not looked at."""
    folder = root / "days" / day
    folder.mkdir(parents=True)
    people.to_parquet(folder / "_part.tmp", index=False)
    (folder / "_part.tmp").rename(folder / "part.parquet")


def test_a_late_day_is_awaited_by_the_triggerer_and_a_missing_one_is_left_out(
    service: Service, root: Path, database: Engine, invented: pd.DataFrame
) -> None:
    deliver(root, "2026-11-01", invented)
    there = service.start("skipped", "2026-11-01")
    late = service.start("awaited", "2026-11-02")
    requested = service.start("asked", "2026-11-02")
    for run in (late, requested):
        service.until(
            lambda run=run: service.task(run, "ingest") == "deferred", "the task to leave its worker"
        )
    assert service.ended(there) == "success"
    missing = service.start("skipped", "2026-11-03")
    assert service.ended(missing) == "success"
    assert service.call("GET", missing)["note"].startswith("ingest: ")
    assert {service.task(missing, name) for name in ("ingest", "release", "verify", "publish")} == {"skipped"}
    assert service.task(late, "ingest") == "deferred"
    deliver(root, "2026-11-02", invented)
    invented.assign(day=pd.Timestamp("2026-11-02").date()).to_sql(
        "people", database, index=False, if_exists="append"
    )
    assert service.ended(late) == "success"
    assert service.ended(requested) == "success"
    assert service.task(late, "publish") == "success"
    lake = Lake(root=str(root / ".lake"))
    assert len(releases(lake.table("awaited"))) == len(releases(lake.table("asked"))) == 1
    assert len(releases(lake.table("skipped"))) == 1
