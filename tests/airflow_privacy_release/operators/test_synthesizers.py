"""The named operators of the synthesizers: typed arguments, rendered text, a budget, and the curator."""

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import write_deltalake

import airflow_privacy_release
from airflow_privacy_release import (
    CompareSynthesizersOperator,
    CuratorReportOperator,
    IngestParquetOperator,
    MondrianOperator,
    PrivBayesOperator,
    VerifyOperator,
)
from airflow_privacy_release.operators.methods import SynthesizerOperator
from privacy_engine.dp.limits import Limit
from privacy_engine.registry import method_class, method_names
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_release.lake.publish import publish
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.area import sha256_file
from tests.ledgers import new_ledger

NAMED = [
    operator
    for name in airflow_privacy_release.__all__
    if isinstance(operator := getattr(airflow_privacy_release, name), type)
    and issubclass(operator, SynthesizerOperator)
]
SCHEMA = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
    "disease": {"role": "sensitive", "categories": ["cold", "flu"]},
}
POLICY = {"max_epsilon": 10}
named = pytest.mark.parametrize("operator", NAMED, ids=lambda c: c.__name__)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=2.0), reason="a test", by="officer")
    return made


@pytest.fixture
def table(tmp_path: Path, work_root: Path, airflow_home: Path) -> Any:
    rng = np.random.default_rng(3)
    frame = {
        "name": [f"person {i}" for i in range(400)],
        "age": rng.integers(20, 80, 400),
        "town": rng.choice(["north", "south"], 400),
        "disease": rng.choice(["cold", "flu"], 400),
    }
    pd.DataFrame(frame).to_parquet(tmp_path / "people.parquet", index=False)
    operator = IngestParquetOperator(task_id="ingest", uri=str(tmp_path / "people.parquet"), schema=SCHEMA)
    return operator.execute(context("ingest"))


def context(task_id: str = "task", map_index: int = -1) -> Any:
    task = SimpleNamespace(dag_id="people", run_id="run 1", task_id=task_id, map_index=map_index)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace)}


def spent(ledger: BudgetLedger) -> float:
    (standing,) = ledger.standing("people")
    return float(standing.spent)


def test_every_synthesizer_has_a_named_operator() -> None:
    keys = {name for name in method_names() if issubclass(method_class(name), Synthesizer)}
    assert {operator.method for operator in NAMED} == keys


@named
def test_an_operator_makes_a_private_release_from_rendered_text(
    operator: type[SynthesizerOperator], table: Any, ledger: BudgetLedger
) -> None:
    made = operator(
        task_id="synthesize", table=table, budget="people", policy=POLICY, epsilon="0.5", rows="50", seed="7"
    )  # type: ignore[call-arg]
    staged = made.execute(context("synthesize"))
    manifest = json.loads(Path(staged["manifest"]).read_text())
    assert (manifest["parameters"]["epsilon"], manifest["parameters"]["rows"]) == (0.5, 50)
    assert manifest["seeded"] is True
    assert "seed" not in manifest["parameters"]
    assert staged["rows"] == 50
    assert staged["loss"]["epsilon"] == spent(ledger) == 0.5
    assert list(pd.read_parquet(staged["uri"]).columns) == ["age", "town", "disease"]


def test_other_types_than_in_the_release_table_are_refused_before_epsilon_is_spent(
    table: Any, ledger: BudgetLedger, airflow_lake: Lake
) -> None:
    write_deltalake(f"{airflow_lake.root}/people", pa.table({"age": [20.5]}))

    def release(series: str) -> Any:
        given = {"table": table, "budget": "people", "policy": POLICY, "epsilon": 0.5, "series": series}
        return PrivBayesOperator(task_id="synthesize", **given).execute(context("synthesize"))

    with pytest.raises(AirflowFailException, match=r"age \(double in the table, int64 here\)"):
        release("people")
    assert spent(ledger) == 0
    release("others")
    assert spent(ledger) == 0.5


def test_a_ledger_that_lacks_what_the_release_table_names_books_nothing(
    table: Any, ledger: BudgetLedger, airflow_lake: Lake, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"cost": [1, 2, 3]}), tmp_path / "staged.parquet")
    manifest = {"method": "privbayes", "booking": {"dataset": "people", "entry_hash": "0" * 64}}
    sha256 = sha256_file(tmp_path / "staged.parquet")
    publish(
        *(airflow_lake.table("people"), "w1", tmp_path / "staged.parquet", manifest, b"<p></p>"),
        expected_sha256=sha256,
    )
    given = {"table": table, "budget": "people", "policy": POLICY, "epsilon": 0.5, "series": "people"}
    with pytest.raises(AirflowFailException, match="lacks one: it was replaced by an old copy"):
        PrivBayesOperator(task_id="synthesize", **given).execute(context("synthesize"))
    assert spent(ledger) == 0


@pytest.mark.quick("LatentClassOperator", "PrivBayesOperator")  # one base class books for all
@named
def test_mapping_over_epsilon_books_each_and_over_rows_books_once(
    operator: type[SynthesizerOperator], table: Any, ledger: BudgetLedger
) -> None:
    def release(index: int, **given: Any) -> Any:
        made = operator(task_id="synthesize", table=table, budget="people", policy=POLICY, **given)
        return made.execute(context("synthesize", index))

    for index, rows in enumerate((10, 20)):
        release(index, epsilon=0.25, rows=rows)
    assert spent(ledger) == 0.25
    release(2, epsilon=0.5)
    assert spent(ledger) == 0.75


def test_alerts_of_a_verified_release_are_about_its_budget_and_released_records(
    table: Any, ledger: BudgetLedger, airflow_lake: Lake
) -> None:
    given = {"budget": "people", "policy": POLICY, "epsilon": 1.75, "rows": 50}
    staged = PrivBayesOperator(task_id="synthesize", table=table, **given).execute(context("synthesize"))
    alerts = {"budget": {"left_below": 0.2}, "rows": {"above": 40}}
    verify = VerifyOperator(task_id="verify", table=staged, policy=POLICY, name="people", alerts=alerts)
    rows, left = verify.execute(context("verify"))["alerts"]
    assert (rows["figure"], rows["value"]) == ("rows", 50)
    assert left["text"].startswith("people: 0.25 of epsilon 2 is left (in total)")


@named
def test_an_operator_without_a_known_data_set_fails_for_good(
    operator: type[SynthesizerOperator], table: Any, ledger: BudgetLedger
) -> None:
    made = operator(task_id="synthesize", table=table, budget="others", policy=POLICY)
    with pytest.raises(AirflowFailException, match="must have a privacy budget"):
        made.execute(context("synthesize"))


def test_the_curator_s_report_is_private_and_its_task_tells_its_path_alone(
    table: Any, ledger: BudgetLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    made = NAMED[0](task_id="synthesize", table=table, budget="people", policy=POLICY)
    staged = made.execute(context("synthesize"))
    operator = CuratorReportOperator(task_id="curator", source=table, table=staged, name="people")
    reported = operator.execute(context("curator"))
    path = Path(reported.pop("report"))
    assert reported == {}
    assert path.is_relative_to(tmp_path / "curator")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "<html" in path.read_text()


def test_there_is_no_curator_s_report_on_an_anonymized_release(table: Any, ledger: BudgetLedger) -> None:
    staged = MondrianOperator(task_id="anonymize", table=table, k=5).execute(context("anonymize"))
    operator = CuratorReportOperator(task_id="curator", source=table, table=staged, name="people")
    with pytest.raises(AirflowFailException, match="mondrian makes none"):
        operator.execute(context("curator"))


def compared(table: Any, releases: list[tuple[type[SynthesizerOperator], float]], **more: Any) -> Any:
    """What the comparison of these synthesizers at these epsilons tells."""
    tables = [
        made(task_id="synthesize", table=table, budget="people", policy=POLICY, epsilon=epsilon).execute(  # type: ignore[call-arg]
            context("synthesize", index)
        )
        for index, (made, epsilon) in enumerate(releases)
    ]
    policy = {"max_epsilon": 1, "max_delta": 0}
    reports = [VerifyOperator(task_id="verify", table=t, policy=policy).execute(context("v")) for t in tables]
    given = {"source": table, "tables": tables, "reports": reports} | more
    operator = CompareSynthesizersOperator(task_id="compare", **given)
    return operator.execute(context("compare"))


def test_a_comparison_stays_with_the_curator_unless_the_source_is_public(
    table: Any, ledger: BudgetLedger, airflow_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    releases = [*zip(NAMED[:2], (0.25, 0.5), strict=True)]
    reported = compared(table, releases)
    assert set(reported) == {"releases", "curator"}  # no figure
    page = Path(reported["curator"])
    assert page.is_relative_to(tmp_path / "curator")
    assert page.stat().st_mode & 0o077 == 0
    assert not airflow_lake.folder.exists() or not list(airflow_lake.folder.iterdir())
    text = page.read_text()
    assert "Only for the curator" in text
    assert "booked for all of people</span> epsilon 0.75<" in text
    assert spent(ledger) == 0.75
    assert "person " not in text.replace("person in it", "").replace("one person", "")

    shown = compared(table, releases, public_source="true")  # rendered text
    assert spent(ledger) == 0.75  # the same bytes again
    assert shown["report"] == f"{airflow_lake.root}/_comparisons/people/run%201.html"
    assert "Only for the curator" not in Path(shown["report"]).read_text()
    assert text.count("<circle") == 2 * len(releases)


def test_only_synthesizers_of_this_very_table_are_compared(table: Any, ledger: BudgetLedger) -> None:
    other = {**table, "source": {**table["source"], "fingerprint": "another"}}
    with pytest.raises(AirflowFailException, match="the table that the releases were made from"):
        compared(table, [(NAMED[0], 0.5)], source=other)
    anonymized = MondrianOperator(task_id="anonymize", table=table, k=5, seed=1).execute(context("anonymize"))
    policy = {"require": [{"model": "k_anonymity", "k": 5}]}
    report = VerifyOperator(task_id="verify", table=anonymized, policy=policy).execute(context("verify"))
    operator = CompareSynthesizersOperator(
        task_id="compare", source=table, tables=[anonymized], reports=[report]
    )
    with pytest.raises(AirflowFailException, match="mondrian draws no records from a model"):
        operator.execute(context("compare"))
