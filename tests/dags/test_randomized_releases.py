"""A weekly release of random answers: it repeats them, and a classifier learns from what was published."""

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deploy.local.embedded import checkout
from deploy.local.samples.customers import SEED, delivery
from deploy.local.samples.files import CUSTOMERS, SAMPLES, write_table
from privacy_engine.dp.limits import Limit
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.model import load_spec
from tests.dags.weeks import Week, key_of
from tests.ledgers import new_ledger

COLUMNS = {
    "age": {"bins": 6},
    "town": {"categories": ["north", "south"]},
    "disease": {"categories": ["cold", "flu", "gout"]},
    "remark": {"role": "quasi_identifier", "categories": ["a", "b"], "unique": None},
}
RANDOMIZED: dict[str, Any] = {
    "columns": COLUMNS,
    "release": {"method": "errph", "p_0": 0.5, "randomness": "memoised", "secret": "people_secret"},
    "policy": {"max_epsilon": 10, "max_delta": 0, "max_breach": 0.6},
    "schedule": {"partitions": "0 0 * * 1"},
    "source": {"uri": "deliveries/{release}.parquet"},
    "budget": {"dataset": "people", "when_short": "skip"},
}
WEEKS = 4


def set_secret(monkeypatch: pytest.MonkeyPatch, name: str = "PEOPLE_SECRET") -> None:
    value = json.dumps({"conn_type": "generic", "password": secrets.token_hex(32)})
    monkeypatch.setenv(f"AIRFLOW_CONN_{name}", value)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    made = new_ledger(tmp_path / "ledger.db")
    for dataset, epsilon in (("people", 50.0), ("bank_customers", 60.0)):
        made.grant(dataset, Limit(epsilon=epsilon), reason="a test", by="officer")
    return made


@pytest.fixture
def deliveries(home: Any, invented: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Deliveries of the same people, in another order each week; from the second on ten have another age."""
    folder = home.folder / "deliveries"
    folder.mkdir()
    for week in range(WEEKS):
        table = invented.copy()
        table.loc[: (9 if week else -1), "age"] = (table["age"] + 37) % 80
        table.sample(frac=1, random_state=week).to_parquet(folder / f"{key_of(week)}.parquet", index=False)
    home.write(**RANDOMIZED)
    set_secret(monkeypatch)
    return Path(folder)


def rows(lake: Lake, week: int, table: str = "people") -> pd.DataFrame:
    return read_release(lake.table(table), key_of(week)).to_pandas()


def spent(ledger: BudgetLedger, dataset: str = "people") -> float:
    (standing,) = ledger.standing(dataset)
    return float(standing.spent)


def changed(one: pd.DataFrame, other: pd.DataFrame) -> int:
    """How many records of the one are not in the other, as often as they are."""
    counts = one.value_counts().sub(other.value_counts(), fill_value=0)
    return int(counts.clip(lower=0).sum())


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` repeat answers without it
def test_weeks_repeat_the_answers_of_unchanged_values_so_that_nothing_is_averaged_away(
    deliveries: Path,
    ledger: BudgetLedger,
    run_week: Callable[..., Week],
    airflow_lake: Lake,
    work_root: Path,
) -> None:
    for week in range(WEEKS):
        done = run_week(week)
        assert (done.state, set(done.tasks.values())) == ("success", {"success"}), done.tasks
    first, *others = [rows(airflow_lake, week) for week in range(WEEKS)]
    assert 0 < changed(first, others[0]) <= 10  # only who changed may be answered otherwise
    for other in others[1:]:
        pd.testing.assert_frame_equal(others[0], other)
    manifest = [manifest_of(airflow_lake.table("people"), key_of(week)) for week in range(WEEKS)]
    assert len({t["randomization"]["secret"] for t in manifest}) == 1
    assert not list(work_root.iterdir())


def test_fresh_answers_would_be_averaged_away(invented: pd.DataFrame) -> None:
    """The attack that the weeks above withstand: 50 fresh releases, the commonest answer of each person."""
    from privacy_engine.randomizers.channel import Channel
    from privacy_engine.randomizers.randomness import Question, SystemSource

    channel = Channel.partial_hiding(("cold", "flu", "gout"), keep=0.5)
    codes = invented["disease"].map({"cold": 0, "flu": 1, "gout": 2}).to_numpy()
    question = Question(attribute="disease", mechanism=b"", codes=codes, texts=channel.labels)
    answers = [channel.perturb(codes, SystemSource().words(question)[:, 0]) for _ in range(50)]
    counts = np.stack([np.bincount(person, minlength=3) for person in np.transpose(answers)])
    # The true answer has a share of 2/3, each other one 1/6: a wrong majority of 50 has a chance below 1e-7.
    assert (counts.argmax(axis=1) == codes).mean() > 0.95


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` repeat answers without it
def test_each_changed_delivery_is_booked_whole_and_an_unchanged_one_not_at_all(
    deliveries: Path, ledger: BudgetLedger, run_week: Callable[..., Week]
) -> None:
    epsilon = np.log(7) + np.log(3) + np.log(4) + np.log(3)  # ln(1 + k p_0 / (1 - p_0)) of each attribute
    run_week(0)
    assert spent(ledger) == pytest.approx(epsilon)
    run_week(1)
    assert spent(ledger) == pytest.approx(2 * epsilon)
    (deliveries / f"{key_of(2)}.parquet").write_bytes((deliveries / f"{key_of(1)}.parquet").read_bytes())
    run_week(2)
    run_week(0)  # cleared
    assert spent(ledger) == pytest.approx(2 * epsilon)


def test_a_week_without_its_secret_fails_closed(
    deliveries: Path,
    ledger: BudgetLedger,
    run_week: Callable[..., Week],
    airflow_lake: Lake,
    work_root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_PEOPLE_SECRET")
    failed = run_week(0)
    assert failed.state == "failed"
    assert failed.tasks["release"] == "failed"
    assert failed.tasks["cleanup"] == "success"
    assert releases(airflow_lake.table("people")) == []
    assert spent(ledger) == 0
    assert not list(work_root.iterdir())


@pytest.mark.slow  # several weeks under Airflow; `steps` and `operators` repeat answers without it
def test_a_week_with_another_secret_is_refused_unless_it_is_asked_for(
    deliveries: Path,
    home: Any,
    ledger: BudgetLedger,
    run_week: Callable[..., Week],
    airflow_lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_week(0)
    old = manifest_of(airflow_lake.table("people"), key_of(0))["randomization"]["secret"]
    set_secret(monkeypatch)
    before = spent(ledger)
    assert run_week(1).tasks["release"] == "failed"
    assert spent(ledger) == before
    assert [entry["release_id"] for entry in releases(airflow_lake.table("people"))] == [key_of(0)]
    home.write(**{**RANDOMIZED, "release": {**RANDOMIZED["release"], "replaces": old}})
    assert run_week(2).state == "success"
    assert manifest_of(airflow_lake.table("people"), key_of(2))["replaces"] == old


def test_a_run_by_hand_cannot_choose_answers_that_do_not_repeat(
    deliveries: Path, ledger: BudgetLedger, load: Callable[..., Any]
) -> None:
    dag = load("people").dags["people"]
    assert "p_0" in dag.params
    assert not {"randomness", "individual", "secret"} & set(dag.params)


@pytest.mark.slow  # what a classifier learns from answers at random takes tens of thousands of them
def test_the_shipped_release_feeds_the_shipped_classifier(
    samples: None,
    airflow_home: Path,
    ledger: BudgetLedger,
    run_week: Callable[..., Week],
    airflow_lake: Lake,
    work_root: Path,
    load: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = load_spec(checkout() / "include" / "releases" / "bank_customers_randomized.yaml")
    week = airflow_home.parent / SAMPLES / "bank_customers" / f"{key_of(0)}.parquet"
    write_table(week, delivery(CUSTOMERS, key_of(0), seed=SEED), "simulated")
    set_secret(
        monkeypatch, str(spec.release.secret).upper()
    )  # any: the accuracy was at least .80 in 40 draws
    assert run_week(0, spec.name).state == "success"
    assert spent(ledger, "bank_customers") == pytest.approx(spec.release.parameters["epsilon"])
    dag = load("train_on_randomized").dags["train_on_randomized"]
    assert type(dag.timetable).__name__ == "PartitionedAssetTimetable"
    done = dag.test()
    assert str(done.state) == "success"
    returned = done.get_task_instance("train").xcom_pull(task_ids="train")
    assert returned["releases"] == [key_of(0)]
    assert returned["accuracy"] > returned["majority"] + 0.2
    assert returned["epsilon"] == pytest.approx(spec.release.parameters["epsilon"])
    assert 0.5 < returned["breach_coefficient"] < 0.6
    assert Path(returned["model"]).is_file()
    assert not list(work_root.iterdir())
