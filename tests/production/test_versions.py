"""In another Airflow: the wheels under each older version that they support, run by its scheduler."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import pytest

from deploy.local.embedded import HOST, checkout, embedded_environment, free_port
from deploy.local.ui import Components, wait_until_ready
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from tests.production.conftest import NOISE, Installed, install, newest_python, visits
from tests.production.topology import QUICK
from tests.servers.airflow_api import ask
from tests.servers.scheduler import has_left_its_worker
from tests.waiting import AIRFLOW_DEADLINES, DEADLINE, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(1800)]

VERSIONS = ("3.1", "3.2")
HAS_PARTITIONS = {"3.1": False, "3.2": True}
PASSWORDS = {"officer": "of all the people", "stranger": "who may operate", "viewer": "who only looks"}
ROLES = "officer:op,stranger:op,viewer:viewer"

SCHEMA = """
source: {uri: SOURCE}
schema:
  age:       {role: quasi_identifier, kind: numeric, bounds: [0, 99], bins: 10}
  diagnosis: {role: sensitive, kind: categorical, categories: [cold, flu, gout]}
"""
# Methods with few compiled functions, or none: for another Python they are compiled once more.
RELEASES = {
    "visits": """
name: visits
release: {method: greedy_hamdist, k: 10}
policy: policies/linkage.yaml
approval: {required: true, assigned_to: [officer]}
publish: {lake: lake_default, table: visits}
""",
    "visits_private": """
name: visits_private
release: {method: errph, epsilon: 0.5}
budget: {dataset: visits, ledger: ledger_default}
policy: policies/differential.yaml
publish: {lake: lake_default, table: visits_private}
""",
    "visits_daily": """
name: visits_daily
schedule: {partitions: "0 0 * * *"}
release: {method: greedy_hamdist, k: 10}
policy: policies/linkage.yaml
publish: {lake: lake_default, table: visits_daily}
""",
}


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A running Airflow of another version, with the wheels installed in it."""

    version: str
    installed: Installed
    root: Path
    address: str
    environment: dict[str, str]
    tokens: dict[str, str] = field(default_factory=dict)  # by user; they outlive the tests

    def token(self, user: str) -> str:
        """Of a user who has logged in, once."""
        if user not in self.tokens:
            login = {"username": user, "password": PASSWORDS[user]}
            answer = self.ask("POST", "/auth/token", user=None, body=login)
            self.tokens[user] = json.loads(answer)["access_token"]
        return self.tokens[user]

    def command(self, *command: str) -> str:
        """What a command of the environment writes."""
        return self.installed.run(*command, environment=self.environment)

    def ask(self, method: str, path: str, user: str | None = "officer", body: Any = None) -> bytes:
        """An answer of the server, to a user who has logged in, or to no user."""
        return ask(self.address, method, path, body, None if user is None else self.token(user))

    def api(self, method: str, path: str, user: str = "officer", body: Any = None) -> Any:
        """The same of Airflow's REST API."""
        return json.loads(self.ask(method, f"/api/v2{path}", user, body))

    def start(self, dag_id: str) -> str:
        """Begin a run; its id."""
        made = self.api("POST", f"/dags/{dag_id}/dagRuns", body={"logical_date": None})
        return str(made["dag_run_id"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, str]:
        """The state of each task, by its name within the release."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances"
        found = self.api("GET", path)["task_instances"]
        return {task["task_id"].rpartition(".")[2]: str(task["state"]) for task in found}

    def ended(self, dag_id: str, run_id: str) -> str:
        """The state that a run ends in."""

        def look() -> str:
            state = str(self.api("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}")["state"])
            return state if state in ("success", "failed") else ""

        return wait_for(look, f"the end of {dag_id}", every=0.5)

    @property
    def lake(self) -> Lake:
        """Where it publishes."""
        return Lake(root=str(self.root / ".lake"))


@pytest.fixture(scope="module", params=VERSIONS)
def elsewhere(
    request: pytest.FixtureRequest, clean: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Elsewhere]:
    """A server of each version; the newer one also has the newest Python that this machine has."""
    root = tmp_path_factory.mktemp("elsewhere")
    python = newest_python() if request.param == VERSIONS[-1] else sys.executable
    installed = install(root, f"airflow-{request.param}.lock", python)
    with serving(request.param, root, installed, clean) as found:
        yield found


@contextmanager
def serving(version: str, root: Path, installed: Installed, clean: dict[str, str]) -> Iterator[Elsewhere]:
    """Start scheduler, DAG processor, triggerer and API server; end every process of them afterwards."""
    home, include = root / ".airflow", root / "include"
    for folder in (home, include / "releases", root / "dags"):
        folder.mkdir(parents=True)
    for name in ("releases.py", "release_errors.py"):
        shutil.copy(checkout() / "dags" / name, root / "dags")
    shutil.copytree(checkout() / "include" / "policies", include / "policies")
    visits(600).to_parquet(root / "visits.parquet", index=False)
    for name, text in RELEASES.items():
        spec = text + SCHEMA.replace("SOURCE", str(root / "visits.parquet"))
        (include / "releases" / f"{name}.yaml").write_text(spec)
    (home / "passwords.json").write_text(json.dumps(PASSWORDS))
    port = free_port()
    environment = (
        clean
        | embedded_environment(root, port)
        | QUICK
        | AIRFLOW_DEADLINES
        | {
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ROLES,
            "AIRFLOW__API_AUTH__JWT_SECRET": os.urandom(64).hex(),
            "AIRFLOW__API__SECRET_KEY": os.urandom(32).hex(),
            "PRIVACY_CURATOR": str(root / "curator"),
            "PRIVACY_LEDGER": str(root / "ledger.db"),
            "NUMBA_OPT": "1",  # on 600 records, code that is compiled for speed costs more than it saves
            "PATH": f"{installed.bin}:{os.environ['PATH']}",
        }
    )
    components = Components(logs=root, environment=environment, python=installed.python)
    found = Elsewhere(
        version=version,
        installed=installed,
        root=root,
        address=f"http://{HOST}:{port}",
        environment=environment,
    )
    try:
        found.command("airflow", "db", "migrate")
        for part in ("api-server", "scheduler", "dag-processor", "triggerer"):
            components.start(part)
        wait_until_ready(components, found.address, DEADLINE)
        wait_for(lambda: found.api("GET", "/dags")["total_entries"] >= 2, "the DAGs", every=0.5)
        yield found
    finally:
        components.stop()


def test_what_a_version_has_is_parsed_and_what_it_lacks_is_an_import_error(elsewhere: Elsewhere) -> None:
    assert elsewhere.command("airflow", "version").startswith(elsewhere.version)
    by_partition = HAS_PARTITIONS[elsewhere.version]
    if not by_partition:
        wait_for(
            lambda: elsewhere.api("GET", "/importErrors")["total_entries"], "the import error", every=0.5
        )
    dags = {dag["dag_id"] for dag in elsewhere.api("GET", "/dags")["dags"]}
    assert {"visits", "visits_private"} <= dags
    assert ("visits_daily" in dags) == by_partition
    reported = [error["stack_trace"] for error in elsewhere.api("GET", "/importErrors")["import_errors"]]
    assert len(reported) == (not by_partition)
    if not by_partition:
        assert re.search(
            r"visits_daily\.yaml: line \d+: schedule\.partitions needs Airflow 3\.2 or newer", reported[0]
        )


def test_a_release_waits_for_its_officer_and_for_no_one_else(elsewhere: Elsewhere) -> None:
    run_id = elsewhere.start("visits")

    def requested() -> bool:
        states = elsewhere.tasks("visits", run_id)
        assert not {"failed", "upstream_failed"} & set(states.values()), states
        waits = states.get("approve") == "deferred"
        return waits and has_left_its_worker(elsewhere.root / "scheduler.log", "approve", run_id)

    wait_for(requested, "the question for approval", every=0.5)
    assert releases(elsewhere.lake.table("visits")) == []
    place = f"/dags/visits/dagRuns/{quote(run_id, safe='')}/taskInstances/approve/-1/hitlDetails"
    body = {"chosen_options": ["Approve"], "params_input": {"comment": "looks fine"}}
    for user in ("viewer", "stranger"):
        with pytest.raises(HTTPError, match="403"):
            elsewhere.api("PATCH", place, user, body)
    elsewhere.api("PATCH", place, "officer", body)
    assert elsewhere.ended("visits", run_id) == "success"
    approval = manifest_of(elsewhere.lake.table("visits"), run_id)["approval"]
    assert approval["by"] == {"id": "officer", "name": "officer"}
    assert (approval["comment"], approval["automatic"]) == ("looks fine", False)
    assert [release["rows"] for release in releases(elsewhere.lake.table("visits"))] == [600]
    assert not list((elsewhere.root / ".airflow" / "work_area").iterdir())


def test_a_private_release_is_booked_once(elsewhere: Elsewhere) -> None:
    budget = ("privacy-release", "budget")
    elsewhere.command(*budget, "migrate")
    elsewhere.command(*budget, "grant", "visits", "--epsilon", "0.5", "--reason", "a test")
    run_id = elsewhere.start("visits_private")
    assert elsewhere.ended("visits_private", run_id) == "success", elsewhere.tasks("visits_private", run_id)
    loss = manifest_of(elsewhere.lake.table("visits_private"), run_id)["loss"]
    assert loss["epsilon"] == pytest.approx(0.5, rel=1e-9)  # of the probabilities that were drawn from
    elsewhere.command(*budget, "check")
    assert "0.5" in elsewhere.command(*budget, "show")


def test_opendp_draws_noise_under_this_python(elsewhere: Elsewhere) -> None:
    assert elsewhere.command("python", "-c", NOISE) == "noise on 10 counts\n"


def test_the_pages_are_for_who_has_logged_in(elsewhere: Elsewhere) -> None:
    for page, shown in {"/privacy/releases": b"visits_private", "/privacy/budget": b"visits"}.items():
        assert shown in elsewhere.ask("GET", page)
        with pytest.raises(HTTPError, match="401"):
            elsewhere.ask("GET", page, user=None)
