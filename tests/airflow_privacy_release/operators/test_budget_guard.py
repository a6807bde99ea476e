"""The guard before a private release, and the operators that spend: what passes, skips, fails, is retried."""

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_privacy_release import (
    BudgetGuardOperator,
    IngestParquetOperator,
    PublishOperator,
    ReleaseOperator,
    VerifyOperator,
)
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import LedgerError
from privacy_release.budget.yearly import Yearly
from privacy_release.lake.read import manifest_of
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from tests.ledgers import new_ledger

SCHEMA = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
}
LOSS = PrivacyLoss(epsilon=0.4, neighbours=Neighbours.REPLACE_ONE)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """The default ledger, with an epsilon of 0.5 for `people`."""
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=0.5), reason="a test", by="officer")
    return made


def context(task_id: str = "task", run_id: str = "run 1") -> Any:
    task = SimpleNamespace(dag_id="people", run_id=run_id, task_id=task_id, map_index=-1)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace)}


def guard(run_id: str = "run 1", **given: Any) -> Any:
    arguments: dict[str, Any] = {"dataset": "people", "epsilon": 0.4, "policy": {"max_epsilon": 10}}
    arguments |= given
    return BudgetGuardOperator(task_id="budget", **arguments).execute(context("budget", run_id))


@pytest.mark.parametrize("epsilon", [0.4, "0.4", 0.5])
def test_a_budget_that_covers_the_release_passes_and_books_nothing(
    epsilon: float | str, ledger: BudgetLedger, airflow_home: Path
) -> None:
    assert guard(epsilon=epsilon)["booked_before"] is False
    assert len(ledger.history("people")) == 1


def test_a_short_budget_skips_what_follows_and_keeps_the_reason_for_the_page(
    ledger: BudgetLedger, airflow_home: Path
) -> None:
    ledger.reserve("people", "key", LOSS)
    pushed: dict[str, Any] = {}
    requested = context("budget")
    requested["ti"].xcom_push = pushed.__setitem__
    operator = BudgetGuardOperator(
        task_id="budget", dataset="people", epsilon=0.4, action="skip", policy={"max_epsilon": 10}
    )
    with pytest.raises(AirflowSkipException, match=r"epsilon 0\.1 is left") as skipped:
        operator.execute(requested)
    assert pushed == {"skipped": {"reason": str(skipped.value)}}


def test_a_short_budget_fails_for_good_where_it_should(ledger: BudgetLedger, airflow_home: Path) -> None:
    ledger.reserve("people", "key", LOSS)
    with pytest.raises(AirflowFailException, match=r"epsilon 0\.1 is left"):
        guard(action="fail")


def test_a_run_that_has_booked_passes_whatever_is_left(ledger: BudgetLedger, airflow_home: Path) -> None:
    ledger.reserve("people", "key", LOSS, detail={"run": "people/run 1"})
    assert guard("run 1", action="fail")["booked_before"] is True
    with pytest.raises(AirflowSkipException):
        guard("run 2", action="skip")


def test_a_promise_of_equal_parts_is_asked_for_its_next_one(ledger: BudgetLedger, airflow_home: Path) -> None:
    promise = {"regime": "yearly", "epsilon": 0.5, "releases": 2, "schedule": "people"}
    yearly = Yearly(name="people", epsilon=0.5, delta=0.0, releases=2, period="365d")
    part = PrivacyLoss(epsilon=0.25, neighbours=Neighbours.REPLACE_ONE)
    for run in ("1", "2"):
        guard(run, epsilon=0.25, promise=promise, action="skip")
        booking = ledger.reserve("people", run, part, promise=yearly.promise(part))
        ledger.commit("people", run, "a model", token=booking.token)
    with pytest.raises(AirflowSkipException, match="is for 2 releases, and all of them were made"):
        guard("3", epsilon=0.25, promise=promise, action="skip")
    with pytest.raises(AirflowFailException, match="must spend an equal part"):
        guard("3", epsilon=0.3, promise=promise)


def test_a_data_set_without_a_budget_fails_also_where_a_short_one_skips(
    ledger: BudgetLedger, airflow_home: Path
) -> None:
    with pytest.raises(AirflowFailException, match="privacy-release budget grant others"):
        guard(dataset="others", action="skip")


@pytest.mark.parametrize(
    "limit",
    [
        Limit(epsilon=0.3, period=Period.parse("release")),
        Limit(epsilon=1.0, neighbours=Neighbours.ADD_REMOVE),
        Limit(epsilon=1.0),
    ],
    ids=["each release", "another relation", "no delta"],
)
def test_a_budget_that_could_never_pay_fails_also_where_a_short_one_skips(
    limit: Limit, ledger: BudgetLedger, airflow_home: Path
) -> None:
    ledger.grant("odd", limit, reason="a test", by="officer")
    with pytest.raises(AirflowFailException):
        guard(dataset="odd", delta=1e-9, action="skip")


def test_a_ledger_out_of_reach_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow_home: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "file" / "ledger.db"))
    with pytest.raises(LedgerError):
        guard(action="skip")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0}, "epsilon must be > 0"),
        ({"epsilon": -1}, "epsilon must be > 0"),
        ({"epsilon": "nan"}, "budget: epsilon"),
        ({"epsilon": None}, "budget: "),
        ({"delta": 2}, "delta must be in"),
        ({"action": "wait"}, "action must be one of"),
    ],
    ids=str,
)
def test_a_wrong_argument_fails_for_good(
    given: dict[str, Any], message: str, ledger: BudgetLedger, airflow_home: Path
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        guard(**given)


def test_an_unknown_connection_is_named(ledger: BudgetLedger, airflow_home: Path) -> None:
    with pytest.raises(AirflowFailException, match="elsewhere"):
        guard(ledger="elsewhere")


# The release operator


@pytest.fixture
def table(tmp_path: Path, work_root: Path) -> Any:
    rng = np.random.default_rng(3)
    frame = {"age": rng.integers(20, 80, 200), "town": rng.choice(["north", "south"], 200)}
    pd.DataFrame(frame).to_parquet(tmp_path / "people.parquet", index=False)
    operator = IngestParquetOperator(task_id="ingest", uri=str(tmp_path / "people.parquet"), schema=SCHEMA)
    return operator.execute(context("ingest"))


def release(table: Any, run_id: str = "run 1", **given: Any) -> Any:
    arguments: dict[str, Any] = {
        "method": "privbayes",
        "parameters": {"epsilon": "0.4"},
        "budget": "people",
        "policy": {"max_epsilon": 10},
    } | given
    return ReleaseOperator(task_id="release", table=table, **arguments).execute(context("release", run_id))


def test_a_private_release_is_verified_on_its_ledger_and_published(
    table: Any, ledger: BudgetLedger, airflow_lake: Lake
) -> None:
    staged = release(table)
    report = VerifyOperator(
        task_id="verify", table=staged, policy={"max_epsilon": 0.5, "max_delta": 0}
    ).execute(context("verify"))
    operator = PublishOperator(task_id="publish", table=staged, report=report, name="people")
    operator.execute(context("publish"))
    assert (
        manifest_of(airflow_lake.table("people"), "run 1")["booking"]["entry_hash"]
        == staged["booking"]["entry_hash"]
    )
    assert json.dumps(staged)
    assert guard("run 1", action="fail")["booked_before"] is True


def test_a_release_beyond_the_budget_fails_for_good(table: Any, ledger: BudgetLedger) -> None:
    ledger.reserve("people", "key", LOSS)
    with pytest.raises(AirflowFailException, match="cannot pay"):
        release(table)


def test_a_release_whose_ledger_is_out_of_reach_is_tried_again(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "file" / "ledger.db"))
    with pytest.raises(LedgerError):
        release(table)


@pytest.mark.parametrize("budget", [None, "None", ""])
def test_a_private_release_without_a_budget_fails_for_good(
    budget: str | None, table: Any, ledger: BudgetLedger
) -> None:
    with pytest.raises(AirflowFailException, match="must name the budget"):
        release(table, budget=budget)


@pytest.mark.parametrize("epsilon", [0, -0.1, "inf", "1e400"])
def test_an_epsilon_that_is_not_positive_and_finite_fails_for_good(
    epsilon: Any, table: Any, ledger: BudgetLedger
) -> None:
    with pytest.raises(AirflowFailException, match="epsilon"):
        release(table, parameters={"epsilon": epsilon})
    assert len(ledger.history("people")) == 1
