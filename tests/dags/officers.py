"""People who answer what a DAG run asks, through Airflow's REST API as a browser does, in this process."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PASSWORDS = {"officer": "of all the people", "stranger": "who may operate", "viewer": "who only looks"}
ROLES = "officer:op,stranger:op,viewer:viewer"


@dataclass
class Officers:
    """Answers every open question with `option`, each of `users` in turn until one answer is taken.

    Attributes:
        seen: the questions, as the form gets them.
        statuses: HTTP status of each answer, by user.
    """

    client: Any
    tokens: dict[str, str]
    option: str = "Approve"
    comment: str | None = None
    users: tuple[str, ...] = ("officer",)
    before: Callable[[], None] = lambda: None
    seen: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[tuple[str, int]] = field(default_factory=list)
    _busy: bool = False

    def __call__(self, seconds: float) -> None:
        """In place of `time.sleep`, in which `dag.test()` waits for an answer."""
        if self._busy:
            return
        self._busy = True
        try:
            self._answer()
        finally:
            self._busy = False

    def _answer(self) -> None:
        path = "/api/v2/dags/~/dagRuns/~/hitlDetails?response_received=false"
        for question in self._ask("GET", path, "officer").json()["hitl_details"]:
            task = question["task_instance"]
            if task["state"] != "awaiting_input":
                continue
            self.seen.append(question)
            self.before()
            place = (
                f"/api/v2/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}"
                f"/taskInstances/{task['task_id']}/-1/hitlDetails"
            )
            said = {"chosen_options": [self.option], "params_input": {"comment": self.comment}}
            for user in self.users:
                self.statuses.append((user, self._ask("PATCH", place, user, said).status_code))

    def _ask(self, method: str, path: str, user: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[user]}"}
        return self.client.request(method, path, json=body, headers=headers)


@contextmanager
def offices(folder: Path, setenv: Callable[[str, str], None]) -> Iterator[Officers]:
    """Airflow's web application on the session's metadata database, and logins for three users."""
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from fastapi.testclient import TestClient

    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps(PASSWORDS))
    setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ROLES)
    setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
    setenv(
        "AIRFLOW__API_AUTH__JWT_SECRET",
        "a key for the tests alone, as long as keys should be, 64 bytes or more",
    )
    purge_cached_app()
    try:
        with TestClient(create_app(apps="core")) as client:
            tokens = {}
            for user, password in PASSWORDS.items():
                login = client.post("/auth/token", json={"username": user, "password": password})
                tokens[user] = login.json()["access_token"]
            yield Officers(client=client, tokens=tokens)
    finally:
        purge_cached_app()
