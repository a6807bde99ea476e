"""Alerts of real runs: logged, reported, shown to the officer; and the release is published all the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from airflow_privacy_release.task.notifications import notify_alerts
from privacy_engine.dp.limits import Limit
from privacy_engine.errors import SpecError
from privacy_release.lake.log import publications
from privacy_release.lake.store import Lake
from privacy_release.spec.model import load_spec
from tests.dags.officers import Officers
from tests.dags.test_notices import PRIVATE, Letters
from tests.ledgers import new_ledger

ASKED = {"rows": {"falls_by": 0.2}, "gcp_lca": {"above": 0.0}, "k": {"below": 5}}


@pytest.fixture
def letters() -> Letters:
    return Letters(subject="{{ notice.subject }}", text="{{ notice.text }} see {{ notice.link }}")


@pytest.fixture
def alerting(
    load: Callable[..., Any], letters: Letters, work_root: Path, airflow_lake: Lake
) -> Callable[[], Any]:
    """Run the DAG `people`; a notifier is called once it is published."""

    def test() -> Any:
        dag = load("people").dags["people"]
        dag.get_task("publish").on_success_callback = [notify_alerts(letters)]
        return dag.test()

    return test


def returned(done: Any, task_id: str) -> Any:
    (task,) = (ti for ti in done.get_task_instances() if ti.task_id == task_id)
    return task.xcom_pull(task_ids=task_id)


@pytest.mark.slow  # a whole run; each alert is tested by itself
def test_a_release_that_loses_records_and_detail_warns_and_is_published(
    home: Any,
    invented: pd.DataFrame,
    alerting: Callable[[], Any],
    letters: Letters,
    airflow_lake: Lake,
    capfd: pytest.CaptureFixture[str],
) -> None:
    home.write(invented, alerts=ASKED)
    first = alerting()
    home.write(invented.head(60), alerts=ASKED)
    second = alerting()
    assert [str(done.state) for done in (first, second)] == ["success", "success"]
    assert [entry.rows for entry in publications(airflow_lake.table("people"))] == [120, 60]
    report = returned(second, "verify")["alerts"]
    assert [alert["figure"] for alert in report] == ["rows", "gcp_lca"]
    assert (report[0]["value"], report[0]["limit"], report[0]["median"], report[0]["releases"]) == (
        60,
        96,
        120,
        1,
    )
    assert returned(second, "publish")["alerts"] == report
    assert [alert["figure"] for alert in returned(first, "verify")["alerts"]] == ["gcp_lca"]
    (_, one), (subject, two) = letters.sent
    assert subject == "people: 2 alerts about a release"
    assert "Records released: 60, more than 20 % below 120, the last release" in two
    assert "Records released" not in one
    assert f"see /privacy/report?dag_id=people&run_id={second.run_id[:8]}" in two
    logged = "".join(capfd.readouterr())
    assert "Records released: 60, more than 20 % below 120" in logged
    values = {str(value) for column in ("name", "town", "disease") for value in invented[column]}
    assert not [value for value in values if value in json.dumps(report) + two]


@pytest.mark.slow  # a whole run that waits
def test_the_officer_reads_the_alerts_before_the_decision(
    home: Any, invented: pd.DataFrame, run: Callable[[str], Any], officers: Officers
) -> None:
    home.write(invented, alerts=ASKED, approval={"required": True})
    done = run("people")
    assert done.state == "success", done.tasks
    (requested,) = officers.seen
    _, _, alerts = requested["body"].partition("#### Alerts")
    assert alerts.lstrip().startswith("- Detail lost")


@pytest.mark.slow  # a whole run with a broken store
def test_alerts_that_cannot_be_made_stop_nothing_and_are_logged(
    home: Any,
    invented: pd.DataFrame,
    alerting: Callable[[], Any],
    letters: Letters,
    airflow_lake: Lake,
    capfd: pytest.CaptureFixture[str],
) -> None:
    home.write(invented, alerts={"prosecutor_max": {"rises_by": 0.1}, "l": {"below": 2}})
    first = alerting()
    (entry,) = publications(airflow_lake.table("people"))
    for file in Path(airflow_lake.root).rglob(f"{entry.manifest_sha256}.json"):
        file.write_text("{}")
    second = alerting()
    assert [str(done.state) for done in (first, second)] == ["success", "success"]
    assert "alerts" not in returned(second, "verify")
    assert letters.sent == []
    logged = "".join(capfd.readouterr())
    assert logged.count("an earlier release is left out: the stored manifest of table people must have") == 1


@pytest.mark.slow  # a whole run; `operators/test_synthesizers` verifies with both alerts
def test_of_a_private_release_only_the_budget_and_released_records_are_reported(
    home: Any,
    invented: pd.DataFrame,
    tmp_path: Path,
    run: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    home.write(invented, alerts={"budget": {"left_below": 0.2}, "rows": {"above": 100}}, **PRIVATE)
    done = run("people")
    assert done.state == "success", done.tasks
    rows, left = done.returned("verify")["alerts"]
    assert (rows["figure"], rows["value"]) == ("rows", done.returned("publish")["rows"])
    assert left["text"].startswith("people: 0.125 of epsilon 1 is left (in total)")


@pytest.mark.parametrize("figure", ["gcp_lca", "suppressed_records", "prosecutor_max"])
def test_alerts_of_the_source_are_refused_beside_a_private_method(home: Any, figure: str) -> None:
    home.write(alerts={figure: {"above": 0.1}}, **PRIVATE)
    with pytest.raises(SpecError, match=f"alerts.{figure} cannot be combined with latent_class"):
        load_spec(home.spec("people"))
