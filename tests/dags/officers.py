"""People who answer what a DAG run asks, through Airflow's REST API as a browser does, in this process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.servers.airflow_app import AirflowApp


@dataclass
class Officers:
    """Answers every open question with `option`, each of `users` in turn until one answer is taken.

    Attributes:
        seen: the questions, as the form gets them.
        statuses: HTTP status of each answer, by user.
    """

    web: AirflowApp
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
        return self.web.client.request(method, path, json=body, headers=self.web.logins[user])
