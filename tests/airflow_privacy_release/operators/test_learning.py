"""Training on published releases: what is learned, stored and reported, and what stays with the curator."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_privacy_release import (
    CompareLearnersOperator,
    IngestParquetOperator,
    TrainNaiveBayesOperator,
)
from deploy.local.samples.customers import CLASS, bank_customers
from privacy_engine import DataSchema, load_method
from privacy_engine.errors import PublishError
from privacy_engine.learning.ppnb import PrivateNaiveBayes
from privacy_engine.learning.stored import model_from_dict
from privacy_release.lake.publish import publish
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.workarea.parquet import parquet_bytes

FIELDS: dict[str, dict[str, Any]] = {
    "deposit": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 200], "bins": 8},
    "income-level": {
        "role": "quasi_identifier",
        "categories": ["lowest", "low", "middle", "high", "highest"],
    },
    CLASS: {"role": "sensitive", "categories": ["high", "medium", "low"]},
}
SCHEMA = DataSchema.from_dict(FIELDS)
PUBLIC_CLASS = DataSchema.from_dict({**FIELDS, CLASS: {**FIELDS[CLASS], "role": "insensitive"}})
ROWS = 20_000


def context(run_id: str = "run 1", **more: Any) -> Any:
    task = SimpleNamespace(dag_id="learn", run_id=run_id, task_id="train", map_index=-1)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace), **more}


@cache
def customers(seed: int, rows: int = ROWS) -> pd.DataFrame:
    """Customers, for reading only."""
    return bank_customers(rows, np.random.default_rng(seed))[list(FIELDS)]


@cache
def randomized(seed: int, public: bool, p_0: float) -> tuple[bytes, Mapping[str, Any]]:
    """The file and the manifest of random answers, made once for all tests; public: whether the class is."""
    method = load_method("errph", p_0=p_0, randomness="seeded")
    schema = PUBLIC_CLASS if public else SCHEMA
    made = method.release(customers(seed), schema, np.random.default_rng(seed + 100))
    return parquet_bytes(made.table), {**made.manifest(), "sha256": "x"}


@pytest.fixture
def release(airflow_lake: Lake, airflow_home: Path, work_root: Path, tmp_path: Path) -> Any:
    """Publishes a randomized release, from a seed, so that what is asserted holds in every run or in none."""

    def published(name: str = "a", seed: int = 1, *, public: bool = False, p_0: float = 0.7) -> str:
        data, manifest = randomized(seed, public, p_0)
        staged, report = tmp_path / f"{name}.parquet", tmp_path / "report.html"
        staged.write_bytes(data)
        report.write_text("<html>")
        sha256 = hashlib.sha256(data).hexdigest()
        publish(airflow_lake.table("customers"), name, staged, manifest, report, expected_sha256=sha256)
        return name

    return published


@pytest.fixture
def test_table(tmp_path: Path, work_root: Path, airflow_home: Path) -> Any:
    """True records of other customers, ingested."""
    path = tmp_path / "test.parquet"
    customers(99, 2_000).to_parquet(path, index=False)
    operator = IngestParquetOperator(task_id="ingest", uri=str(path), schema=FIELDS)
    return operator.execute(context())


def train(run: Any = None, **given: Any) -> dict[str, Any]:
    operator = TrainNaiveBayesOperator(task_id="train", name="customers", **{"target": CLASS, **given})
    return operator.execute(run or context())


def stored(reported: dict[str, Any]) -> PrivateNaiveBayes:
    return model_from_dict(json.loads(Path(reported["model"]).read_text()))


@pytest.mark.parametrize("public", [False, True], ids=["randomized class", "public class"])
def test_the_stored_model_is_what_the_release_and_its_manifest_alone_give(
    public: bool, release: Any, airflow_lake: Lake
) -> None:
    name = release(public=public)
    trained = train()
    table = read_release(airflow_lake.table("customers"), name).to_pandas()
    ours = PrivateNaiveBayes(manifest_of(airflow_lake.table("customers"), name), label=CLASS)
    ours.fit(table[["deposit", "income-level"]], table[CLASS])
    requested = customers(99, 500)[["deposit", "income-level"]]
    assert np.array_equal(stored(trained).predict_proba(requested), ours.predict_proba(requested))
    assert (trained["rows"], trained["releases"]) == (ROWS, ["a"])


@pytest.mark.quick("True", "False1")  # each value, and a text that is true as such
@pytest.mark.parametrize("shrinkage", [True, False, "true", "False"])
def test_the_papers_plain_estimator_is_chosen_by_shrinkage(
    shrinkage: bool | str, release: Any, airflow_lake: Lake
) -> None:
    name = release()
    trained = stored(train(shrinkage=shrinkage))
    wanted = shrinkage in (True, "true")
    table = read_release(airflow_lake.table("customers"), name).to_pandas()
    manifest = manifest_of(airflow_lake.table("customers"), name)
    ours = PrivateNaiveBayes(manifest, label=CLASS, shrinkage=wanted)
    ours.fit(table[["deposit", "income-level"]], table[CLASS])
    assert trained.shrinkage is wanted
    requested = customers(99, 500)[["deposit", "income-level"]]
    assert np.array_equal(trained.predict_proba(requested), ours.predict_proba(requested))


def test_a_public_test_is_reported_with_epsilon_breach_coefficient_and_breach_width(
    release: Any, test_table: Any
) -> None:
    release()
    trained = train(test=test_table, public_test="True")
    assert trained["accuracy"] > trained["majority"] + 0.2
    assert trained["tested"] == 2_000
    assert 0 < trained["breach_coefficient"] < 1
    assert set(trained["breach_width"]) == {"deposit"}
    # 3.92 standard deviations of the source, within what 20,000 random answers tell of it
    assert trained["breach_width"]["deposit"] == pytest.approx(3.92 * customers(1)["deposit"].std(), rel=0.1)
    page = Path(trained["report"]).read_text()
    assert f"{100 * trained['accuracy']:.1f} %" in page
    assert "Reconstructed distributions" in page


def test_figures_of_a_test_on_people_go_to_the_curator_alone(
    release: Any, test_table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    release()
    trained = train(test=test_table)
    path = Path(trained["curator"])
    score = json.loads(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.is_relative_to(tmp_path / "curator")
    assert score["accuracy"] > score["majority"] + 0.2
    assert not {"accuracy", "majority", "tested"} & set(trained)
    assert f"{100 * score['accuracy']:.1f} %" not in Path(trained["report"]).read_text()


def test_releases_of_different_people_add_up(release: Any, airflow_lake: Lake) -> None:
    both = [release("a", 1), release("b", 2)]
    trained = train(releases=both)
    assert (trained["rows"], trained["releases"]) == (2 * ROWS, both)
    assert stored(trained).class_count_.sum() == 2 * ROWS


def test_releases_that_were_randomized_differently_do_not_add_up(release: Any) -> None:
    both = [release("a", 1), release("b", 2, p_0=0.8)]
    with pytest.raises(AirflowFailException, match="with the same probabilities"):
        train(releases=both)


def test_the_newest_release_that_stands_is_taken_and_the_triggering_one_before_it(
    release: Any, airflow_lake: Lake
) -> None:
    for number, name in enumerate(("a", "b", "c")):
        release(name, number)
    assert train()["releases"] == ["c"]
    retract(airflow_lake.table("customers"), "c", "a test")
    assert train(context("run 2"))["releases"] == ["b"]
    events = [
        SimpleNamespace(timestamp=number, extra={"table": table, "release": name})
        for number, (table, name) in enumerate([("customers", "b"), ("customers", "a"), ("other", "z")])
    ]
    triggered = context("run 3", triggering_asset_events={"asset": events})
    assert train(triggered)["releases"] == ["a"]


def test_a_table_without_a_release_is_retried_later(airflow_lake: Lake, airflow_home: Path) -> None:
    with pytest.raises(PublishError, match="must have a release in the lake"):
        train()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"target": "deposit"}, "the target must be a listed attribute"),
    ({"target": "nothing"}, r"columns \['nothing'\] must be in the table"),
    ({"features": ["deposit", CLASS]}, "features must be attributes other than the target"),
    ({"features": ["deposit", "shoe size"]}, r"columns \['shoe size'\] must be in the table"),
    ({"alpha": "-1"}, "alpha and var_smoothing must be >= 0"),
    ({"alpha": "much"}, "learning: alpha: must be a number"),
]


def test_wrong_arguments_are_refused_for_good(release: Any) -> None:
    release()
    for given, message in WRONG:
        with pytest.raises(AirflowFailException, match=message):
            train(**given)


def test_a_release_that_was_not_randomized_is_refused(
    airflow_lake: Lake, release: Any, tmp_path: Path
) -> None:
    staged, report = tmp_path / "plain.parquet", tmp_path / "plain.html"
    staged.write_bytes(parquet_bytes(customers(1, 50)))
    report.write_text("<html>")
    sha256 = hashlib.sha256(staged.read_bytes()).hexdigest()
    publish(airflow_lake.table("customers"), "plain", staged, {"method": "m"}, report, expected_sha256=sha256)
    with pytest.raises(AirflowFailException, match="must all be randomized"):
        train()


def test_a_test_value_outside_of_the_public_domain_is_named_by_its_column_alone(
    release: Any, tmp_path: Path, work_root: Path
) -> None:
    release()
    path = tmp_path / "odd.parquet"
    customers(99, 50).assign(**{"income-level": "unheard of"}).to_parquet(path, index=False)
    fields = {**FIELDS, "income-level": {"role": "quasi_identifier"}}
    odd = IngestParquetOperator(task_id="ingest", uri=str(path), schema=fields).execute(context())
    with pytest.raises(AirflowFailException, match="income-level: 50 values are not in the public") as caught:
        train(test=odd)
    assert "unheard" not in str(caught.value)


YES_NO = {
    "owner": {"role": "quasi_identifier", "kind": "categorical"},
    "married": {"role": "quasi_identifier", "kind": "categorical"},
    "pays": {"role": "sensitive", "kind": "categorical"},
}


@pytest.fixture
def answered(tmp_path: Path, work_root: Path, airflow_home: Path) -> Any:
    """True records of two-valued attributes, ingested."""
    rng = np.random.default_rng(1)
    truth = rng.random(2_000) < 0.4
    table = {name: np.where(rng.random(2_000) < 0.9, truth, ~truth) for name in ("owner", "married")}
    words = pd.DataFrame({**table, "pays": truth}).replace({True: "yes", False: "no"})
    words.to_parquet(path := tmp_path / "answered.parquet", index=False)
    return IngestParquetOperator(task_id="ingest", uri=str(path), schema=YES_NO).execute(context())


def compared(table: Any, **given: Any) -> dict[str, Any]:
    fields = {"target": "pays", "features": ["owner", "married"], **given}
    return CompareLearnersOperator(task_id="compare", table=table, **fields).execute(context())


def test_ppnb_and_dtpd_are_compared_on_a_public_table(answered: Any) -> None:
    result = compared(answered, public="True", p_0="0.9")
    assert (result["learned"], result["tested"]) == (1_500, 500)
    assert min(result["ppnb"], result["dtpd"]) > result["majority"] + 0.2


def test_the_comparison_of_people_goes_only_to_the_curator(
    answered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    result = compared(answered)
    assert set(result) == {"curator"}
    kept = json.loads(Path(result["curator"]).read_text())
    assert {"ppnb", "dtpd", "majority", "target"} <= set(kept)


WRONG_COMPARISONS: list[tuple[dict[str, Any], str]] = [
    ({"p_0": 0.5}, "theta must not be 0.5"),
    ({"p_0": "much"}, "learning: p_0: must be a number"),
    ({"test_share": 1.0}, "learning: test_share must be in"),
    ({"features": ["owner", "shoe size"]}, r"columns \['shoe size'\] must be in the table"),
    ({"features": ["owner", "pays"]}, "features must be attributes other than the target"),
]


def test_a_comparison_with_wrong_arguments_is_refused_for_good(answered: Any) -> None:
    for given, message in WRONG_COMPARISONS:
        with pytest.raises(AirflowFailException, match=message):
            compared(answered, **given)
