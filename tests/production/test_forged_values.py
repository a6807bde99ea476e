"""What users of Airflow's REST API can write, against what may be published: XComs, states and answers.

Slow: a real Airflow, because only its own API, scheduler and answers show what a user can change between
two tasks. All attackers have the role `user`, who may write XComs, set states and clear tasks.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
import yaml

from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from tests.ui.server import Server, standalone
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(1800)]

SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "town": {"role": "quasi_identifier", "kind": "categorical"},
    "disease": {"role": "sensitive", "kind": "categorical"},
}
ANN = {"assigned_to": ["ann"]}
# Two tables of the same people, of which the suite of one fails.
SEVERAL = {
    "source": None,
    "schema": None,
    "person": "name",
    "tables": {
        "patients": {
            "source": {"uri": "../people.parquet", "columns": ["name", "age"]},
            "schema": {name: SCHEMA[name] for name in ("name", "age")},
            "expectations": "expectations/never.json",
        },
        "visits": {
            "source": {"uri": "../people.parquet", "columns": ["name", "town", "disease"]},
            "schema": {name: SCHEMA[name] for name in ("name", "town", "disease")},
        },
    },
    "release": {"method": "bottom_up", "k": 2, "seed": 7},
}
NEVER = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "age", "max_value": 1}}
# One release for each attack, so that all runs go on side by side.
RELEASES: dict[str, dict[str, Any]] = {
    "answered": {"approval": ANN},
    "weak": {"policy": "policies/k50.yaml", "approval": ANN},
    "report": {"approval": ANN},
    "other_run": {"approval": ANN},
    "raw": {"approval": ANN},
    "rejected": {"approval": ANN},
    "two": {"approval": {"approvers": 2}},
    "floor": {"policy": "policies/k50.yaml", "approval": ANN},
    "transformed": {"approval": ANN, "transform": {"sql": "SELECT * FROM records WHERE age < 60"}},
    "marked": {"policy": "policies/k50.yaml", "approval": ANN},
    "several": SEVERAL,
    "skipped": {"approval": ANN},
    "honest": {"approval": ANN},
}
ASKING = ("awaiting_input", "deferred")
ENDED = ("success", "failed", "upstream_failed", "skipped")


@dataclass(frozen=True)
class Run:
    """A run of a release, and what a user of the API can do to it."""

    server: Server
    dag: str
    id: str

    @property
    def path(self) -> str:
        return f"/dags/{self.dag}/dagRuns/{quote(self.id, safe='')}"

    def state(self, task: str) -> str:
        return str(self.server.call("GET", f"{self.path}/taskInstances/{task}")["state"])

    def wait(self, task: str, *states: str) -> str:
        """Wait until a task has one of these states."""
        return wait_for(
            lambda: state if (state := self.state(task)) in states else "",
            f"task {task} of {self.dag} to be {states}, it is {self.state(task)}",
            every=0.5,
        )

    def wait_until_ended(self) -> None:
        """Wait until the scheduler has ended the run: it would overwrite what is marked or cleared before."""
        wait_for(
            lambda: self.server.call("GET", self.path)["state"] in ("success", "failed"),
            f"the end of the run of {self.dag}",
            every=0.5,
        )

    def wait_until_given_up(self, task: str) -> None:
        """Wait until a task has failed and the scheduler has given up all that follow it."""
        self.wait(task, "failed")
        self.wait("publish", "upstream_failed")
        self.wait_until_ended()

    def value(self, task: str) -> Any:
        """What Airflow has of a task's value."""
        found = self.server.call(
            "GET",
            f"{self.path}/taskInstances/{task}/xcomEntries/return_value?deserialize=true",
            user="mallory",
        )["value"]
        return json.loads(found) if isinstance(found, str) else found

    def write(self, task: str, value: Any) -> None:
        """Write a task's value, whether it has one or not."""
        place = f"{self.path}/taskInstances/{task}/xcomEntries"
        try:
            self.server.call("PATCH", f"{place}/return_value", {"value": value, "map_index": -1}, "mallory")
        except HTTPError as error:
            if error.code != 404:
                raise
            entry = {"key": "return_value", "value": value, "map_index": -1}
            self.server.call("POST", place, entry, "mallory")
        assert self.value(task) == value

    def mark(self, task: str, state: str = "success") -> None:
        self.server.call("PATCH", f"{self.path}/taskInstances/{task}", {"new_state": state}, "mallory")

    def clear(self, *tasks: str, downstream: bool = False, user: str = "mallory") -> None:
        wanted = {
            "dry_run": False,
            "dag_run_id": self.id,
            "task_ids": list(tasks),
            "include_downstream": downstream,
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self.server.call("POST", f"/dags/{self.dag}/clearTaskInstances", wanted, user)

    def answer(self, user: str, option: str = "Approve") -> str:
        """Answer as a user, once Airflow's scheduler knows that `approve` asks; until it ends.

        An answer that comes before makes Airflow start the task again while its executor still knows it as
        running. Then it takes the end of one for the end of the other, and asks again minutes later.
        """
        place = f"{self.path}/taskInstances/approve/-1/hitlDetails"
        said = {"chosen_options": [option], "params_input": {"comment": "looked at"}}

        def ended() -> str:
            if (state := self.state("approve")) in ENDED:
                return state
            answered = state in ASKING and self.server.call("GET", place)["response_received"]
            if state in ASKING and not answered and self._is_known_to_ask():
                self.server.call("PATCH", place, said, user)
            return ""

        return wait_for(ended, f"approve of {self.dag} to end", every=0.5)

    def _is_known_to_ask(self) -> bool:
        """Whether the scheduler took note that the process of `approve` has ended since it asked last."""
        requested = reported = -1
        for line, text in enumerate(self.server.log.read_text(errors="replace").splitlines()):
            if "Pausing task as AWAITING_INPUT" in text and f"dag_id={self.dag} " in text:
                requested = line
            event = "Received executor event with state success" in text
            if event and f"dag_id='{self.dag}', task_id='approve'" in text:
                reported = line
        return 0 <= requested < reported

    def refused(self, task: str, why: str) -> None:
        """Assert that a task fails in its first attempt with this reason, and nothing is published."""
        assert self.wait(task, *ENDED) == "failed"
        assert why in self.log(task)
        assert self.server.call("GET", f"{self.path}/taskInstances/{task}")["state"] == "failed"
        assert not self.published()

    def log(self, task: str) -> str:
        files = sorted(self.server.root.rglob(f"dag_id={self.dag}/*/task_id={task}/*.log"))
        return "".join(file.read_text() for file in files)

    def published(self) -> bool:
        return bool(releases(Lake(root=str(self.server.root / ".lake")).table(self.dag)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("standalone")
    include = root / "include"
    for name in ("releases", "policies"):
        (include / name).mkdir(parents=True)
    rng = np.random.default_rng(5)
    people = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(60)],
            "age": rng.integers(20, 80, 60).astype(float),
            "town": rng.choice(["north", "south"], 60),
            "disease": rng.choice(["cold", "flu", "gout"], 60),
        }
    )
    people.to_parquet(root / "people.parquet", index=False)
    for k in (2, 50):
        policy = {"require": [{"model": "k_anonymity", "k": k}]}
        (include / "policies" / f"k{k}.yaml").write_text(yaml.safe_dump(policy))
    (include / "expectations").mkdir()
    (include / "expectations" / "never.json").write_text(
        json.dumps({"name": "never", "expectations": [NEVER]})
    )
    for name, own in RELEASES.items():
        spec = {
            "name": name,
            "source": {"uri": str(root / "people.parquet")},
            "schema": SCHEMA,
            "release": {"method": "mondrian", "k": 2, "seed": 7},
            "policy": "policies/k2.yaml",
            "publish": {"table": name},
            **own,
        }
        given = {field: value for field, value in spec.items() if value is not None}
        (include / "releases" / f"{name}.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
    (root / "floor.yaml").write_text(yaml.safe_dump({"require": [{"model": "k_anonymity", "k": 2}]}))
    with standalone(root, PRIVACY_FLOOR_POLICY=str(root / "floor.yaml")) as running:
        yield running


@pytest.fixture(scope="module")
def runs(server: Server) -> dict[str, Run]:
    """A run of each release, all started at once."""

    def started(dag: str) -> Any:
        try:
            return server.call("POST", f"/dags/{dag}/dagRuns", {"logical_date": None})
        except HTTPError as error:
            if error.code != 404:  # not parsed yet
                raise
            return None

    found = {}
    for dag in RELEASES:
        run = wait_for(lambda dag=dag: started(dag), f"the DAG {dag}", every=1)  # type: ignore[misc]
        found[dag] = Run(server, dag, run["dag_run_id"])
    return found


def asking(run: Run) -> Run:
    """The run once it waits for an answer."""
    run.wait("approve", *ASKING)
    return run


def forged(run: Run, **more: Any) -> dict[str, Any]:
    """An approval by Ann of what `verify` found, as far as a user can know it."""
    report = run.value("verify")
    approval = {
        "by": {"id": "ann", "name": "ann"},
        "at": "2026-11-26T12:00:00+00:00",
        "comment": "",
        "automatic": False,
        "sha256": report["sha256"],
        "report_sha256": "0" * 64,
        "question_sha256": "0" * 64,
    }
    return approval | more


CHANGED = "was changed outside of the run. Clear the run and start again"
NO_VALUE = "has no value in the run's journal"


def test_an_honest_run_is_published_and_clearing_its_last_task_says_already(runs: dict[str, Run]) -> None:
    run = asking(runs["honest"])
    with pytest.raises(HTTPError, match="403"):
        run.answer("mallory")
    run.answer("ann")
    assert run.wait("publish", *ENDED) == "success"
    manifest = manifest_of(Lake(root=str(run.server.root / ".lake")).table("honest"), run.id)
    assert manifest["approval"]["by"]["id"] == "ann"
    assert manifest["approval"]["report_sha256"] == manifest["verification"]["report_sha256"]
    run.wait("cleanup", "success")
    run.wait_until_ended()
    run.clear("publish")
    run.wait("publish", "success")
    assert run.value("publish")["already"]


def test_1_an_answer_that_no_one_gave(runs: dict[str, Run]) -> None:
    run = asking(runs["answered"])
    run.write("approve", forged(run))
    run.mark("approve")
    run.refused("publish", f"task `approve` {NO_VALUE}")


def test_2_figures_of_a_verification_that_failed(runs: dict[str, Run]) -> None:
    run = runs["weak"]
    run.wait_until_given_up("verify")
    sha256 = run.value("release")["sha256"]
    finding = {"rule": "k_anonymity(k=50)", "threshold": 50, "measured": 50, "passed": True, "remedy": ""}
    report = {"passed": True, "sha256": sha256, "rows": 60, "classes": 1, "findings": [finding], "policy": {}}
    run.write("verify", report)
    run.mark("verify")
    run.clear("approve", "publish")
    run.refused("approve", NO_VALUE)


@contextmanager
def lake_refuses(run: Run) -> Iterator[None]:
    """Publishing fails and is tried again, so that there is time between an approval and the publication."""
    blocked = run.server.root / ".lake" / run.dag
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("no table")
    try:
        yield
    finally:
        blocked.unlink()


def test_3_a_file_of_the_workers_as_the_report(runs: dict[str, Run]) -> None:
    run = asking(runs["report"])
    with lake_refuses(run):
        assert run.answer("ann") == "success"
        run.wait("publish", "up_for_retry")
        run.write("release", run.value("release") | {"report": "/etc/passwd"})
    run.clear("publish")  # Airflow would try again by itself, half a minute later
    run.refused("publish", f"the value of task `release` {CHANGED}")


def test_4_the_raw_table_of_another_run(runs: dict[str, Run]) -> None:
    run = asking(runs["other_run"])
    run.write("ingest", asking(runs["two"]).value("ingest"))
    run.clear("release", downstream=True)
    run.refused("release", f"the value of task `ingest` {CHANGED}")


def test_5_a_path_outside_of_the_work_area(runs: dict[str, Run]) -> None:
    run = asking(runs["raw"])
    table = run.value("ingest")
    run.write("ingest", table | {"uri": str(run.server.root / "people.parquet")})
    run.clear("release", downstream=True)
    run.refused("release", f"the value of task `ingest` {CHANGED}")


def test_6_an_answer_that_was_taken_back(runs: dict[str, Run]) -> None:
    run = asking(runs["rejected"])
    with lake_refuses(run):
        assert run.answer("ann") == "success"
        run.wait("publish", "up_for_retry")
        was = run.value("approve")
        run.clear("approve", downstream=True, user="ann")
    run.wait("approve", *ASKING)
    assert run.answer("ann", "Reject") == "failed"
    run.wait_until_given_up("approve")  # or the scheduler gives up `publish` after it was cleared
    run.write("approve", was)
    run.mark("approve")
    run.clear("publish")
    run.refused("publish", NO_VALUE)


def test_7_two_answers_that_no_one_gave(runs: dict[str, Run]) -> None:
    run = asking(runs["two"])
    first = {"by": {"id": "bob", "name": "bob"}, "at": "2026-11-26T11:00:00+00:00", "comment": ""}
    run.write("approve", forged(run, first=first))
    run.mark("approve")
    run.refused("publish", f"task `approve` {NO_VALUE}")


def test_8_values_of_two_tasks_under_a_floor_policy(runs: dict[str, Run]) -> None:
    run = runs["floor"]
    run.wait_until_given_up("verify")
    floor = run.server.root / "floor.yaml"
    before = floor.read_text()
    hard = {"require": [{"model": "k_anonymity", "k": 50}], "approval": True, "signed": "required"}
    floor.write_text(yaml.safe_dump(hard))
    try:
        staged = run.value("release")
        finding = {"rule": "k_anonymity(k=50)", "threshold": 50, "measured": 50, "passed": True, "remedy": ""}
        report = {
            **{"passed": True, "sha256": staged["sha256"], "rows": 60, "classes": 1},
            **{"findings": [finding], "policy": {}, "floor_policy": {"sha256": "0" * 64}},
        }
        run.write("verify", report)
        run.write("approve", forged(run))
        run.mark("approve")  # first, or Airflow would run it once `verify` is marked
        run.mark("verify")
        run.wait_until_ended()  # `publish` was given up between the two marks, or tried after them
        run.clear("publish")
        run.refused("publish", NO_VALUE)
    finally:
        floor.write_text(before)


def test_9_a_transform_that_is_skipped(runs: dict[str, Run]) -> None:
    run = asking(runs["transformed"])
    run.write("transform", run.value("ingest"))
    run.clear("release", downstream=True)
    run.refused("release", f"the value of task `transform` {CHANGED}")


def test_10_a_failed_gate_that_was_marked_as_successful(runs: dict[str, Run]) -> None:
    run = runs["several"]
    run.wait_until_given_up("validate_patients")
    run.mark("validate_patients")
    run.clear("ingest")  # once a run has ended its tables are gone
    run.clear("release", downstream=True)
    run.refused("release", f"task `validate_patients` {NO_VALUE}")


def test_11_a_question_that_was_skipped(runs: dict[str, Run]) -> None:
    run = asking(runs["skipped"])
    run.mark("approve", "skipped")
    assert run.wait("publish", *ENDED) != "success"
    run.clear("publish")
    assert run.wait("publish", *ENDED) != "success"
    assert not run.published()


def test_12_a_verification_that_was_marked_as_successful(runs: dict[str, Run]) -> None:
    run = runs["marked"]
    run.wait_until_given_up("verify")
    run.mark("verify")
    run.clear("approve")
    run.refused("approve", NO_VALUE)


@pytest.mark.parametrize("event", ["create_xcom_entry", "update_xcom_entry", "patch_task_instance"])
def test_the_event_log_shows_who_changed_what(server: Server, runs: dict[str, Run], event: str) -> None:
    del runs
    found = server.call("GET", f"/eventLogs?event={event}")["event_logs"]
    assert "mallory" in {entry["owner"] for entry in found}


def test_no_attack_left_a_record_in_the_lake(runs: dict[str, Run]) -> None:
    assert {name for name, run in runs.items() if run.published()} <= {"honest"}
