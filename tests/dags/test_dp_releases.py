"""A weekly private release: it spends until the budget is gone, then stops green; clearing it is free."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import ParamValidationError

from deploy.local.embedded import checkout
from privacy_engine.dp.limits import Limit, Period
from privacy_release.budget.schedules import schedule_named
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.methods import build_method
from privacy_release.spec.model import load_spec
from tests.dags.weeks import Week, key_of
from tests.ledgers import new_ledger

SOURCE = {"uri": "deliveries/{release}.parquet"}
COLUMNS = {
    "town": {"categories": ["north", "south"]},
    "disease": {"categories": ["cold", "flu", "gout"]},
    "remark": {"categories": ["a", "b"]},
}
PRIVATE: dict[str, Any] = {
    "columns": COLUMNS,
    "release": {"method": "privbayes", "epsilon": 0.4},
    "policy": {"max_epsilon": 0.5, "max_delta": 0},
    "schedule": {"partitions": "0 0 * * 1"},
    "source": SOURCE,
}
SKIPPED = {"budget", "ingest", "validate", "release", "verify", "publish", "curator_report", "done"}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """The default ledger, with an epsilon of 1 for `people` in any 365 days: enough for two weeks of 0.4."""
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    made = new_ledger(tmp_path / "ledger.db")
    grant(made, "people", 1.0)
    return made


def grant(ledger: BudgetLedger, dataset: str, epsilon: float) -> None:
    limit = Limit(epsilon=epsilon, period=Period.parse("365d"))
    ledger.grant(dataset, limit, reason="a test", by="officer")


@pytest.fixture
def deliveries(home: Any, invented: pd.DataFrame) -> Path:
    """One delivery a week, of the same people with other ages, and the specification of their release."""
    folder = home.folder / "deliveries"
    folder.mkdir()
    for week in range(4):
        changed = invented.assign(age=(invented["age"] + week) % 100)
        changed.to_parquet(folder / f"{key_of(week)}.parquet", index=False)
    home.write(budget={"dataset": "people", "when_short": "skip"}, **PRIVATE)
    return Path(folder)


def events(ledger: BudgetLedger) -> list[str]:
    return [entry.event.value for entry in ledger.check("people")]


@pytest.mark.slow  # a run for each week
def test_weeks_are_published_until_the_budget_is_gone_and_the_next_is_green_and_skipped(
    deliveries: Path,
    ledger: BudgetLedger,
    run_week: Callable[..., Week],
    airflow_lake: Lake,
    work_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    for week in range(2):
        done = run_week(week)
        assert (done.state, set(done.tasks.values())) == ("success", {"success"}), done.tasks
    stopped = run_week(2)
    assert stopped.state == "success"
    assert {task for task, state in stopped.tasks.items() if state == "skipped"} == SKIPPED
    assert stopped.tasks["cleanup"] == "success"
    published = {entry["release_id"] for entry in releases(airflow_lake.table("people"))}
    assert published == {key_of(0), key_of(1)}
    assert events(ledger) == ["grant", "reserve", "commit", "reserve", "commit"]
    assert not list(work_root.iterdir())
    assert len(list((tmp_path / "curator").rglob("*.html"))) == 2


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` book without it
def test_a_cleared_week_publishes_identical_bytes_and_spends_nothing(
    deliveries: Path, ledger: BudgetLedger, run_week: Callable[..., Week], airflow_lake: Lake
) -> None:
    run_week(0)
    (before,) = releases(airflow_lake.table("people"))
    rows = read_release(airflow_lake.table("people"), key_of(0))
    run_week(1)  # the budget is gone now
    again = run_week(0)
    assert (again.state, set(again.tasks.values())) == ("success", {"success"}), again.tasks
    assert events(ledger) == ["grant", "reserve", "commit", "reserve", "commit"]
    (after,) = (e for e in releases(airflow_lake.table("people")) if e["release_id"] == key_of(0))
    assert after == before
    assert read_release(airflow_lake.table("people"), key_of(0)).equals(rows)


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` book without it
def test_a_skipped_week_is_published_after_more_was_granted(
    deliveries: Path, ledger: BudgetLedger, run_week: Callable[..., Week], airflow_lake: Lake
) -> None:
    for week in range(3):
        run_week(week)
    grant(ledger, "people", 1.2)
    assert set(run_week(2).tasks.values()) == {"success"}
    assert len(releases(airflow_lake.table("people"))) == 3


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` book without it
def test_an_unchanged_delivery_is_published_again_for_nothing(
    deliveries: Path, ledger: BudgetLedger, run_week: Callable[..., Week], airflow_lake: Lake
) -> None:
    same = (deliveries / f"{key_of(0)}.parquet").read_bytes()
    (deliveries / f"{key_of(1)}.parquet").write_bytes(same)
    for week in range(2):
        run_week(week)
    assert events(ledger) == ["grant", "reserve", "commit"]
    assert len({entry["sha256"] for entry in releases(airflow_lake.table("people"))}) == 1


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` book without it
def test_a_short_budget_fails_the_run_where_that_was_asked_for(
    deliveries: Path,
    home: Any,
    ledger: BudgetLedger,
    run_week: Callable[..., Week],
    airflow_lake: Lake,
    work_root: Path,
) -> None:
    home.write(budget={"dataset": "people", "when_short": "fail"}, **PRIVATE)
    grant(ledger, "people", 0.3)
    failed = run_week(0)
    assert failed.state == "failed"
    assert failed.tasks["budget"] == "failed"
    assert failed.tasks["ingest"] == "upstream_failed"
    assert failed.tasks["cleanup"] == "success"
    assert releases(airflow_lake.table("people")) == []
    assert not work_root.exists() or not list(work_root.iterdir())


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` book without it
def test_an_epsilon_chosen_for_one_run_is_what_the_guard_asks_for_and_the_policy_limits(
    deliveries: Path, ledger: BudgetLedger, run_week: Callable[..., Week], airflow_lake: Lake, home: Any
) -> None:
    with pytest.raises(ParamValidationError, match=r"0\.6 is greater than the maximum of 0\.5"):
        run_week(0, epsilon=0.6)
    assert run_week(0, epsilon=0.5).state == "success"
    assert run_week(1, epsilon=0.2).state == "success"
    assert manifest_of(airflow_lake.table("people"), key_of(1))["loss"]["epsilon"] == 0.2
    assert run_week(2, epsilon=0.5).tasks["budget"] == "skipped"
    more = PRIVATE | {"release": {"method": "privbayes", "epsilon": 0.05}, "policy": {"max_epsilon": 0.04}}
    home.write(budget={"dataset": "people", "when_short": "skip"}, **more)
    paid = ledger.standing("people")[0].spent
    assert run_week(3).tasks["budget"] == "failed"
    assert ledger.standing("people")[0].spent == paid


def test_tasks_that_ask_the_ledger_are_tried_again(
    deliveries: Path, ledger: BudgetLedger, load: Callable[..., Any]
) -> None:
    dag = load("people").dags["people"]
    retries = {name: dag.get_task(name).retries for name in ("budget", "release", "verify")}
    assert retries == {"budget": 3, "release": 3, "verify": 3}
    assert dag.get_task("ingest").upstream_task_ids == {"budget"}


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` book without it
def test_an_asset_event_tells_the_epsilon_and_nothing_of_the_source(
    deliveries: Path, ledger: BudgetLedger, run_week: Callable[..., Week]
) -> None:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    run_week(0)
    with create_session() as session:
        event = session.scalars(select(AssetEvent).order_by(AssetEvent.id.desc())).first()
        assert event.extra["epsilon"] == 0.4
        assert set(event.extra) == {
            *("release", "table", "version", "rows", "method", "sha256", "manifest", "report", "epsilon")
        }
        assert event.partition_key == key_of(0)


@pytest.mark.slow
def test_the_shipped_weekly_release_spends_per_partition_and_stops_cleanly(
    samples: None,
    ledger: BudgetLedger,
    run_week: Callable[..., Week],
    airflow_lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "adult_synthetic_weekly"
    spec = load_spec(checkout() / "include" / "releases" / f"{name}.yaml")
    assert spec.budget is not None
    dataset, said = spec.budget.dataset, spec.budget.schedule
    assert said is not None
    year = Limit(epsilon=1.5, delta=2e-9, period=Period.parse("365d"))  # as the file says
    ledger.grant(dataset, year, reason="a test", by="officer")
    assert [run_week(week, name).tasks["publish"] for week in range(2)] == ["success", "success"]
    (standing,) = ledger.standing(dataset)
    assert (float(standing.spent), float(standing.left)) == (1.5, 0)  # the opening, and all of the promise
    part = build_method(spec.release.method, spec.release.parameters).privacy_loss(spec.method_schema())
    assert part is not None
    promise = schedule_named(name, said).promise(part)
    for other in range(51):  # the second week was the first of 52 parts
        ledger.reserve(dataset, f"{other:064x}", part, promise=promise)
    assert run_week(2, name).tasks["publish"] == "skipped"
    weeks = releases(airflow_lake.table(spec.publish.table))
    assert {entry["rows"] for entry in weeks} == {3_000}
    assert len({entry["sha256"] for entry in weeks}) == 2
