"""Metrics of releases: what the operators send, that it holds no record, and that it harms no release."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_privacy_release import (
    DetectOutliersOperator,
    HoldOutOperator,
    IngestParquetOperator,
    LatentClassOperator,
    ReleaseOperator,
    TransformOperator,
    VerifyOperator,
)
from airflow_privacy_release.task.metrics import PREFIX, monitored, plain, send_budget
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_release.alerts.budgets import low_budgets
from privacy_release.budget.budget import Budget
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.references import FileRef, FragmentReleaseRef
from tests.airflow_privacy_release.operators.test_operators import (
    POLICY,
    SCHEMA,
    context,
    ingested,
    people,
    publish,
    staged,
    verified,
)
from tests.ledgers import new_ledger
from tests.waiting import DEADLINE

DOCUMENTED = Path(__file__).parents[3] / "docs" / "metrics.md"


class Recorder:
    """A backend of Airflow's statistics that keeps what it receives."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, float]] = []
        self.tags: list[dict[str, str]] = []

    def _keep(self, kind: str, stat: str, value: float, tags: dict[str, str] | None) -> None:
        self.sent.append((kind, stat, value))
        self.tags.append(tags or {})

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:
        self._keep("incr", stat, count, tags)

    def gauge(
        self, stat: str, value: float, rate: float = 1, delta: bool = False, *, tags: Any = None
    ) -> None:
        self._keep("gauge", stat, value, tags)

    def timing(self, stat: str, dt: float, *, tags: Any = None) -> None:
        self._keep("timing", stat, dt, tags)

    @property
    def last(self) -> dict[str, float]:
        """The last value of each metric, without the prefix."""
        return {stat.removeprefix(f"{PREFIX}."): value for _, stat, value in self.sent}


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    kept = Recorder()
    stats.initialize(factory=lambda: kept, export_legacy_names=False)
    yield kept
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    people().to_parquet(path, index=False)
    return path


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """The default ledger, with epsilon 1 in all for the data set `people.v1`."""
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people.v1", Limit(epsilon=1.0, period=Period.parse("total")), reason="test")
    ledger.grant("people.v1", Limit(epsilon=1.0, period=Period.parse("release")), reason="test")
    return ledger


def test_outliers_are_counted(source: Path, work_root: Path, recorder: Recorder) -> None:
    operator = DetectOutliersOperator(task_id="outliers", table=ingested(source), action="report")
    flagged = operator.execute(context("outliers"))["outliers"][-1]["flagged"]
    assert recorder.last["people.outliers.outliers"] == flagged


def test_a_budget_keeps_counts_of_the_source_out_of_metrics_and_logs(
    source: Path, work_root: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    attacked = {"max_epsilon": 1, "require": [{"model": "attack_risk", "attack": "linkage", "excess": 0.5}]}
    with DAG("people", schedule=None):
        raw = IngestParquetOperator(task_id="ingest", uri=str(source), schema=SCHEMA)
        derived = TransformOperator(task_id="transform", table=raw.output, sql="SELECT * FROM records")
        found = DetectOutliersOperator(task_id="outliers", table=derived.output, action="report")
        held = HoldOutOperator(task_id="hold_out", table=found.output, policy=attacked)
        ReleaseOperator(
            task_id="release", table=held.output, method="privbayes", budget="people", policy=attacked
        )
    derived.table = raw.execute(context("ingest"))
    found.table = derived.execute(context("transform"))
    held.table = found.execute(context("outliers"))
    assert held.execute(context("hold_out"))["rows"] == 108
    assert [name for _, name, _ in recorder.sent] == [
        f"{PREFIX}.people.{stage}.seconds" for stage in ("ingest", "transform", "outliers", "hold_out")
    ]
    logged = capsys.readouterr().out
    assert "ingested" in logged
    without_times_and_paths = re.sub(r"^\S+Z |\S*/\S*", "", logged, flags=re.MULTILINE)
    assert not {"120", "108"} & set(re.findall(r"\d+", without_times_and_paths))


def test_a_budget_keeps_counts_of_fragments_out_of_metrics(recorder: Recorder) -> None:
    with DAG("people", schedule=None):
        paid = ReleaseOperator(
            task_id="release", table={}, method="privbayes", budget="people", policy={"max_epsilon": 1}
        )
    file = FileRef(uri="file", sha256="0" * 64)
    one = FragmentReleaseRef(
        uri="file", rows=120, sha256="0" * 64, fragment=0, plan=file, account=file, seconds=1.0
    )

    @monitored("release")
    def step(operator: ReleaseOperator, context: Any, made: Any) -> Any:
        return made

    for made in (one, [one, [one]]):
        step(paid, context("release"), made)
    assert [kind for kind, _, _ in recorder.sent] == ["timing", "timing"]


def test_a_refused_release_is_counted_with_what_was_measured(
    source: Path, work_root: Path, recorder: Recorder
) -> None:
    table = staged(source)
    with pytest.raises(AirflowFailException):
        verified(table, require=[{"model": "k_anonymity", "k": 50}])
    last = recorder.last
    assert last["people.verify.refused"] == last["people.verify.failed"] == 1
    assert last["people.verify.rules_failed"] == 1
    assert 5 <= last["people.verify.k"] < 50
    assert "people.verify.seconds" not in last


def test_another_failure_is_no_refusal(source: Path, work_root: Path, recorder: Recorder) -> None:
    table = staged(source)
    Path(table["uri"]).write_bytes(b"changed")
    with pytest.raises(AirflowFailException):
        verified(table)
    assert recorder.last["people.verify.failed"] == 1
    assert "people.verify.refused" not in recorder.last


def private_release(source: Path, epsilon: float) -> Any:
    schema = {
        **SCHEMA,
        "town": {**SCHEMA["town"], "categories": ["north", "south"]},
        "disease": {**SCHEMA["disease"], "categories": ["cold", "flu", "gout"]},
    }
    table = IngestParquetOperator(task_id="ingest", uri=str(source), schema=schema).execute(context("ingest"))
    return LatentClassOperator(
        task_id="synthesize", table=table, budget="people.v1", policy={"max_epsilon": 10}, epsilon=epsilon
    ).execute(context("synthesize"))


def test_the_log_names_the_resource_of_a_budget_that_is_low(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0, delta=1e-9), reason="a test", by="officer")
    ledger.reserve("people", "key", PrivacyLoss(epsilon=0.1, delta=1e-9, neighbours=Neighbours.REPLACE_ONE))
    logged: list[dict[str, Any]] = []
    log = SimpleNamespace(warning=lambda event, **values: logged.append({"event": event, **values}))
    send_budget(SimpleNamespace(log=log), Budget(dataset="people", run="run 1", ledger=ledger))
    low = {"dataset": "people", "period": "total", "resource": "delta", "limit": 1e-9, "left": 0.0}
    assert logged == [{"event": "budget is low", **low}]
    (notice,) = low_budgets("people", ledger.standing("people"))
    assert "people: 0 of delta 1e-9 is left (in total)" in str(notice)


def test_a_budget_that_is_spent_is_reported_and_a_low_one_is_counted(
    source: Path, work_root: Path, ledger: BudgetLedger, recorder: Recorder
) -> None:
    private_release(source, 0.5)
    last = recorder.last
    assert last["people.release.epsilon"] == 0.5
    assert last["budget.people_v1.total.epsilon_spent"] == 0.5
    assert last["budget.people_v1.total.epsilon_left"] == 0.5
    assert not [name for name in last if name.endswith(".low")]
    private_release(source, 0.375)
    assert recorder.last["budget.people_v1.total.epsilon_left"] == 0.125
    assert recorder.last["budget.people_v1.total.low"] == 1
    assert not [name for name in recorder.last if ".release.epsilon_left" in name]


def test_runs_send_rows_seconds_and_what_was_measured_and_no_value_as_documented(
    source: Path, airflow_lake: Lake, work_root: Path, ledger: BudgetLedger, recorder: Recorder
) -> None:
    table = staged(source)
    publish(table, verified(table))
    last = recorder.last
    assert last["people.ingest.rows_in"] == last["people.ingest.rows"] == last["people.publish.rows"] == 120
    assert last["people.ingest.rows_dropped"] == 0
    assert last["people.release.rows"] == 120
    assert last["people.verify.k"] >= 5
    assert last["people.verify.l"] >= 2
    assert last["people.verify.rules_failed"] == 0
    timed = {stat for kind, stat, value in recorder.sent if kind == "timing" and value > 0}
    assert {
        f"{PREFIX}.people.{stage}.seconds" for stage in ("ingest", "release", "verify", "publish")
    } == timed
    assert {"dag_id": "people", "task_id": "verify"} in recorder.tags
    private = private_release(source, 0.875)
    assert recorder.last["people.release.seconds"] == pytest.approx(1000 * private["seconds"])  # of sampling
    values = {str(value) for column in ("name", "town", "disease") for value in people()[column]}
    reported = [stat for _, stat, _ in recorder.sent] + [str(tags) for tags in recorder.tags]
    assert not [text for text in reported for value in values if value in text]
    listed = set(re.findall(r"`([a-z_.<>]+)`", DOCUMENTED.read_text()))
    for _, stat, _ in recorder.sent:
        name = stat.removeprefix(f"{PREFIX}.")
        parts = name.split(".")
        place = "budget.<dataset>.<period>." if parts[0] == "budget" else "<dag_id>."
        assert place + ".".join(parts[3 if parts[0] == "budget" else 1 :]) in listed, name


@pytest.mark.parametrize("name", ["a.b", "a/b c", "ä:1|c", "x" * 300, ""])
def test_a_name_is_one_part_of_a_metric(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,80}", plain(name))


def test_a_backend_that_fails_harms_no_release(
    source: Path, airflow_lake: Lake, work_root: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **more: Any) -> None:
        raise OSError("no route")

    for kind in ("incr", "gauge", "timing"):
        monkeypatch.setattr(recorder, kind, refuse)
    table = staged(source)
    assert publish(table, verified(table))["rows"] == 120


def test_metrics_that_are_off_say_nothing(
    source: Path, work_root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    ingested(source)
    assert not [record for record in caplog.records if "stats" in record.name.casefold()]


def test_metrics_arrive_at_a_statsd_server(
    source: Path, airflow_lake: Lake, work_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("statsd", reason="the extra statsd of this package is not installed")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(DEADLINE)
        for name, value in (("ON", "True"), ("HOST", "127.0.0.1"), ("PORT", str(server.getsockname()[1]))):
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        try:
            table = staged(source)
            publish(table, verified(table))
        finally:
            monkeypatch.undo()
            stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        got = []
        while not got or not got[-1].startswith(f"airflow.{PREFIX}.people.publish.rows:"):
            got.append(server.recv(4096).decode())
    assert got[-1] == f"airflow.{PREFIX}.people.publish.rows:120|g"
    assert f"airflow.{PREFIX}.people.verify.k:{verified_k(table)}|g" in got
    assert any(re.fullmatch(rf"airflow\.{PREFIX}\.people\.verify\.seconds:[0-9.]+\|ms", text) for text in got)


def verified_k(table: Any) -> int:
    report = VerifyOperator(task_id="verify", table=table, policy=POLICY).execute(context("verify"))
    return int(report["findings"][0]["measured"])
