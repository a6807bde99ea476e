"""A real separate `airflow standalone`, with invented people to release, for tests in a browser."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from deploy.local.embedded import HOST, checkout, embedded_environment, free_port, inherited_environment
from deploy.local.samples.synthetic_adult import synthetic_adult
from deploy.local.ui import Components, wait_until_ready
from privacy_engine.dp.limits import Limit, Period
from tests.ledgers import new_ledger
from tests.servers.airflow_api import ask
from tests.waiting import AIRFLOW_DEADLINES, DEADLINE

PASSWORDS = {
    "officer": "of all the people",
    "visitor": "who only looks",
    "ann": "who may approve",
    "bob": "who may approve, too",
    "mallory": "who writes values",
}
ROLES = "officer:admin,visitor:viewer,ann:user,bob:user,mallory:user"
# One release by generalization, one with differential privacy, one that is attacked.
RELEASES = ("adult_occupation", "adult_synthetic_weekly", "adult_attacked")


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running Airflow; its state and the lake are below `root`."""

    address: str
    root: Path

    @property
    def log(self) -> Path:
        """What all its parts print."""
        return self.root / "standalone.log"

    def call(self, method: str, path: str, body: Any = None, user: str = "officer") -> Any:
        """Ask Airflow's REST API."""
        return json.loads(ask(self.address, method, f"/api/v2{path}", body, self.token(user)))

    def token(self, user: str) -> str:
        """The login of a user."""
        return _token(self.address, user)


@cache
def _token(address: str, user: str) -> str:
    login = {"username": user, "password": PASSWORDS[user]}
    return str(json.loads(ask(address, "POST", "/auth/token", login))["access_token"])


@contextmanager
def standalone(root: Path, **settings: str) -> Iterator[Server]:
    """Start it on free ports and wait until it can be used; end every process of it afterwards.

    Args:
        root: Folder for all that it keeps; releases that are there already are its releases.
        settings: Further environment variables.
    """
    port = free_port()
    environment = inherited_environment() | _environment(root, port) | settings
    components = Components(logs=root, environment=environment)
    try:
        components.start("standalone")
        server = Server(address=f"http://{HOST}:{port}", root=root)
        wait_until_ready(components, server.address, DEADLINE)
        yield server
    finally:
        components.stop()


def _environment(root: Path, port: int) -> dict[str, str]:
    """Make what the server needs below the root; the variables that point to it."""
    home, include, data = root / ".airflow", root / "include", root / "data"
    own = (include / "releases").is_dir()
    for folder in (home, include / "releases", data, root / "dags"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(checkout() / "dags" / "releases.py", root / "dags")
    for name in ("hierarchies", "policies", "expectations"):
        shutil.copytree(checkout() / "include" / name, include / name, dirs_exist_ok=True)
    for name in () if own else RELEASES:
        spec = yaml.safe_load((checkout() / "include" / "releases" / f"{name}.yaml").read_text())
        spec.pop("schedule", None)  # runs begin when a test says so
        spec["source"]["uri"] = str(data / "adult.parquet")
        (include / "releases" / f"{name}.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    synthetic_adult(6_000, rng=np.random.default_rng(1)).to_parquet(data / "adult.parquet", index=False)
    (home / "passwords.json").write_text(json.dumps(PASSWORDS))
    ledger = new_ledger(root / "ledger.db")
    year = Limit(epsilon=1.5, delta=2e-9, period=Period.parse("365d"))
    ledger.grant("adult", year, reason="for tests", by="officer")
    return (
        embedded_environment(root, port)
        | AIRFLOW_DEADLINES
        | {
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTOR": "tests.servers.preloading.PreloadingExecutor",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": str(DEADLINE),  # no file changes
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ROLES,
            "AIRFLOW__API_AUTH__JWT_SECRET": os.urandom(64).hex(),
            "AIRFLOW__API__SECRET_KEY": os.urandom(32).hex(),
            "PRIVACY_CURATOR": str(root / "curator"),
            "PRIVACY_LEDGER": str(root / "ledger.db"),
            # This checkout's code, whichever one is installed.
            "PYTHONPATH": os.pathsep.join([str(checkout()), str(checkout() / "operators")]),
            # `standalone` starts its parts by the name of the command.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
    )
