"""Airflow's web application in this process, once for all tests, with users who differ in rights by DAG."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORDS = {
    "officer": "of all the people",
    "stranger": "who may operate",
    "steward": "who runs them",
    "visitor": "who only looks",
}
ROLES = "officer:admin,stranger:op,steward:user,visitor:viewer"
OWN_DAG = "people"  # the only one that others than the officer have rights on


@dataclass(frozen=True, kw_only=True)
class AirflowApp:
    """The application, the settings it runs with, and the headers of each user who has logged in."""

    client: Any
    settings: Mapping[str, str]
    logins: Mapping[str, Mapping[str, str]]


@contextmanager
def airflow_app(folder: Path) -> Iterator[AirflowApp]:
    """Start the application on the session's metadata database.

    Args:
        folder: Empty folder for the file of passwords.
    """
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps(PASSWORDS))
    settings = {
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.servers.auth_by_dag.AuthByDag",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ROLES,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API_AUTH__JWT_SECRET": "a key for the tests alone" * 3,
        "AIRFLOW__API__SECRET_KEY": "another key for the tests alone",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        client = TestClient(create_app(apps="core"))
        client.__enter__()
        logins = {}
        for user, password in PASSWORDS.items():
            answer = client.post("/auth/token", json={"username": user, "password": password})
            logins[user] = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    try:
        yield AirflowApp(client=client, settings=settings, logins=logins)
    finally:
        client.__exit__(None, None, None)
