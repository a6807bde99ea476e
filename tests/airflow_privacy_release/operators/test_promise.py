"""A schedule of private releases by operators: the key at the ingest, the promise at guard and release."""

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_privacy_release import (
    BudgetGuardOperator,
    DPSMBayesOperator,
    IngestParquetOperator,
    ReleaseOperator,
    VerifyOperator,
)
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours
from privacy_engine.errors import SpecError
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.steps.approval_question import question
from privacy_release.steps.approval_text import body
from privacy_release.workarea.references import ReportRef, StagedRelease
from tests.ledgers import new_ledger

SCHEMA = {
    "patient": {"role": "identifier"},
    "town": {"role": "insensitive", "categories": ["north", "south"]},
    "person": {"column": "patient"},
}
METHOD = {"method": "dpsm_bayes", "parameters": {"epsilon": 0.5, "max_rows": 1}}
PROMISE = {"regime": "participation", "releases": 1, "period": "365d", "schedule": "visits"}


@pytest.fixture
def ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work_root: Path, airflow_home: Path
) -> BudgetLedger:
    """The default ledger, with room for one promise of 1, and the key of persons' numbers."""
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    key = json.dumps({"conn_type": "generic", "password": "k" * 40})
    monkeypatch.setenv("AIRFLOW_CONN_MEMBERSHIP_DEFAULT", key)
    made = new_ledger(tmp_path / "ledger.db")
    limit = Limit(epsilon=1.0, neighbours=Neighbours.REPLACE_PERSON, period=Period.parse("365d"))
    made.grant("clinic", limit, reason="a test", by="officer")
    return made


def context(task_id: str, run_id: str) -> Any:
    task = SimpleNamespace(dag_id="visits", run_id=run_id, task_id=task_id, map_index=-1)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace)}


def ingested(tmp_path: Path, run_id: str, numbering: str | None = "membership_default") -> Any:
    """Another delivery of the same 50 persons in each run."""
    rng = np.random.default_rng(len(run_id) + ord(run_id[-1]))
    frame = {"patient": [f"p{i}" for i in range(50)], "town": rng.choice(["north", "south"], 50)}
    pd.DataFrame(frame).to_parquet(tmp_path / f"{run_id}.parquet", index=False)
    uri = str(tmp_path / f"{run_id}.parquet")
    operator = IngestParquetOperator(task_id="ingest", uri=uri, schema=SCHEMA, numbering=numbering)
    return operator.execute(context("ingest", run_id))


def guard(run_id: str, **given: Any) -> Any:
    arguments: dict[str, Any] = {
        "dataset": "clinic",
        "schema": SCHEMA,
        "policy": {"max_epsilon": 100, "max_delta": 0.5},
        "promise": PROMISE,
        **METHOD,
    }
    operator = BudgetGuardOperator(task_id="budget", action="skip", **(arguments | given))
    return operator.execute(context("budget", run_id))


def released(tmp_path: Path, run_id: str, **given: Any) -> Any:
    arguments: dict[str, Any] = {
        "budget": "clinic",
        "policy": {"max_epsilon": 100, "max_delta": 0.5},
        "promise": PROMISE,
        **METHOD,
    }
    table = ingested(tmp_path, run_id)
    return ReleaseOperator(task_id="release", table=table, **(arguments | given)).execute(
        context("release", run_id)
    )


def test_runs_after_the_first_pass_the_guard_and_are_released_under_the_same_promise(
    ledger: BudgetLedger, tmp_path: Path
) -> None:
    for run_id in ("run 1", "run 2"):
        assert guard(run_id)["booked_before"] is False
        released(tmp_path, run_id)
    table = ingested(tmp_path, "run 3")
    named = DPSMBayesOperator(
        task_id="named",
        table=table,
        epsilon=0.5,
        max_rows=1,
        budget="clinic",
        policy={"max_epsilon": 10},
        promise=PROMISE,
    )
    named.execute(context("named", "run 3"))
    assert float(ledger.standing("clinic")[0].spent) == 1.0
    with pytest.raises(AirflowSkipException, match=r"under the promise visits, 2 a person of epsilon 2"):
        guard("run 4", promise=PROMISE | {"releases": 2})


def test_the_approver_sees_the_promise(ledger: BudgetLedger, tmp_path: Path) -> None:
    staged = released(tmp_path, "run 1")
    verify = VerifyOperator(task_id="verify", table=staged, policy={"max_epsilon": 0.5})
    report = verify.execute(context("verify", "run 1"))
    requested = question(
        StagedRelease.from_ref(staged),
        ReportRef.from_ref(report),
        Lake(root=str(tmp_path / "lake")).table("visits"),
        "run 1",
    )
    message = "Each person's loss is at most epsilon 1 in any 365 days, however many releases"
    assert message in str(requested["promise"])
    assert message in body(requested, "visits", "run 1")


@pytest.mark.parametrize(
    ("promise", "expected"),
    [
        ({"regime": "participation", "releases": 1}, "promise has no `schedule`"),
        (PROMISE | {"releases": 0}, "releases"),
        (PROMISE | {"regime": "never"}, "promise"),
        ({"regime": "continual", "schedule": "visits"}, "was removed.*use `regime: yearly` with `opening`"),
        ({"regime": "on_change", "schedule": "visits"}, "was removed.*use `regime: yearly` with `opening`"),
    ],
)
def test_a_wrong_schedule_fails_for_good(
    ledger: BudgetLedger, tmp_path: Path, promise: Any, expected: str
) -> None:
    with pytest.raises(AirflowFailException, match=expected):
        guard("run 1", promise=promise)


def test_persons_with_numbers_of_one_run_fail_for_good(ledger: BudgetLedger, tmp_path: Path) -> None:
    table = ingested(tmp_path, "run 1", numbering=None)
    release = ReleaseOperator(
        task_id="release",
        table=table,
        budget="clinic",
        policy={"max_epsilon": 10},
        promise=PROMISE,
        **METHOD,
    )
    with pytest.raises(AirflowFailException, match="ingest the table with `numbering`"):
        release.execute(context("release", "run 1"))
    assert [e.event.value for e in ledger.history("clinic")] == ["grant"]


@pytest.mark.parametrize(
    ("operator", "given"),
    [
        (ReleaseOperator, {"table": None, **METHOD}),
        (DPSMBayesOperator, {"table": None, "budget": "clinic", "policy": {}}),
        (BudgetGuardOperator, {"dataset": "clinic", "policy": {}}),
    ],
)
def test_the_former_name_of_the_promise_works_and_warns(operator: Any, given: dict[str, Any]) -> None:
    former = {"over_time": PROMISE}
    with pytest.warns(DeprecationWarning, match=r"over_time is called promise; .* ends with 0\.3"):
        assert operator(task_id="one", **given, **former).promise == PROMISE
    with DAG("people", default_args=former), pytest.warns(DeprecationWarning, match="over_time is called"):
        assert operator(task_id="two", **given).promise == PROMISE
    with DAG("mapped"):
        operator.partial(task_id="three", **given, **former).expand(ledger=["first", "second"])
    with pytest.raises(SpecError, match="promise and over_time are the same argument; remove over_time"):
        operator(task_id="four", **given, **former, promise=PROMISE)
    assert "promise" in operator.template_fields
    assert "over_time" not in operator.template_fields
