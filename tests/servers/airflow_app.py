"""Airflow's web application in this process, once for all tests, with users who differ in rights by DAG."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

PASSWORDS = {
    "officer": "of all the people",
    "stranger": "who may operate",
    "steward": "who runs them",
    "visitor": "who only looks",
}
ROLES = "officer:admin,stranger:op,steward:user,visitor:viewer"
OWN_DAG = "people"  # the only one that others than the officer have rights on


class AuthByDag(SimpleAuthManager):
    """Airflow's simple auth manager gives a role the same rights on all DAGs; here they differ by DAG.

    The officer may do everything; the stranger and the steward edit one DAG, the visitor reads it.
    """

    def is_authorized_dag(self, *, user: Any, details: Any = None, **question: Any) -> bool:
        """Whether the user may do that to the DAG."""
        own = user.username == "officer" or (details is not None and details.id == OWN_DAG)
        return own and super().is_authorized_dag(user=user, details=details, **question)


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
        "AIRFLOW__CORE__AUTH_MANAGER": f"{__name__}.{AuthByDag.__name__}",
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
