"""The operators on a table that an engine works on: from ingest to publish, and what they refuse."""

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_privacy_release import (
    ApproveReleaseOperator,
    IngestParquetOperator,
    PublishOperator,
    ReleaseOperator,
    ValidateOperator,
    VerifyOperator,
)
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.store import Lake

CANARY = "X9-canary"
SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "town": {"role": "quasi_identifier", "kind": "categorical", "categories": ["north", "south"]},
    "disease": {"role": "sensitive", "kind": "categorical"},
}
SUITE = {
    "name": "people",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}},
        {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 3_000}},
    ],
}
POLICY = {"require": [{"model": "k_anonymity", "k": 5}, {"model": "distinct_l_diversity", "l": 2}]}
ENGINE = {"kind": "fragments", "rows": 1_000, "memory": "200MB", "processes": 1}


@pytest.fixture
def lake(airflow_lake: Lake) -> Lake:
    return airflow_lake


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    folder = tmp_path / "people"
    folder.mkdir()
    for number in range(3):
        pd.DataFrame(
            {
                "name": [f"{CANARY} {number} {i}" for i in range(1_000)],
                "age": rng.integers(20, 80, 1_000),
                "town": rng.choice(["north", "south"], 1_000),
                "disease": rng.choice(["cold", "flu", "gout"], 1_000),
            }
        ).to_parquet(folder / f"{number}.parquet", index=False)
    return folder


def run(operator: Any) -> Any:
    """Execute as a task of one run."""
    task = SimpleNamespace(
        dag_id="people",
        run_id="run 1",
        task_id=operator.task_id,
        map_index=-1,
        xcom_push=lambda key, value: json.dumps(value),
    )
    return operator.execute({"ti": task, "outlet_events": defaultdict(SimpleNamespace)})


def ingested(source: Path, engine: Any = ENGINE, **more: Any) -> Any:
    return run(IngestParquetOperator(task_id="ingest", uri=str(source), schema=SCHEMA, engine=engine, **more))


def test_a_large_table_goes_from_ingest_to_publish(source: Path, lake: Lake, work_root: Path) -> None:
    table = run(ValidateOperator(task_id="validate", table=ingested(source), suite=SUITE))
    staged = run(
        ReleaseOperator(
            task_id="release", table=table, method="mondrian", parameters={"k": 5, "l": 2}, seed=1
        )
    )
    report = run(VerifyOperator(task_id="verify", table=staged, policy=POLICY))
    approved = run(
        ApproveReleaseOperator(task_id="approve", table=staged, report=report, name="people", required=False)
    )
    done = run(
        PublishOperator(task_id="publish", table=staged, report=report, name="people", approved=approved)
    )
    assert staged["engine"] == table["engine"]
    assert (done["rows"], report["passed"]) == (3_000, True)
    published = read_release(lake.table("people"), "run 1").to_pandas()
    assert published.groupby(["age_from", "age_to", "town"]).size().min() >= 5
    assert CANARY not in published.to_csv()


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("dask", r"engine\.kind: must be 'local', 'fragments' or 'spark'"),
        ({"kind": "fragments", "rows": 10}, r"engine\.rows: must be greater than or equal to 1000"),
        ({"kind": "fragments", "memory": "much"}, r"engine\.memory: must be an amount"),
        ({"kind": "fragments", "workers": 2}, r"engine\.workers: is not a known field"),
    ],
)
def test_an_engine_that_is_wrong_fails_before_anything_is_read(
    source: Path, work_root: Path, engine: Any, message: str
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        ingested(source, engine)
    assert not work_root.exists() or not list(work_root.rglob("*.parquet"))


def test_an_engine_of_kind_local_is_none(source: Path, work_root: Path) -> None:
    assert "engine" not in ingested(source, "local")


def test_a_record_that_does_not_fit_fails_without_its_value(source: Path, work_root: Path) -> None:
    file = source / "2.parquet"
    frame = pd.read_parquet(file)
    frame.loc[999, "town"] = CANARY
    frame.to_parquet(file, index=False)
    with pytest.raises(AirflowFailException, match=r"2\.parquet, records 1 to 1,000: town: ") as caught:
        ingested(source)
    assert CANARY not in str(caught.value)
    assert not list(work_root.rglob("*.parquet*"))


def test_a_truncated_file_in_the_middle_of_the_folder_is_named(source: Path, work_root: Path) -> None:
    file = source / "1.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(AirflowFailException, match=r"1\.parquet must be a whole Parquet file"):
        ingested(source)
    assert not list(work_root.rglob("*.parquet*"))


def test_what_needs_the_whole_table_says_so(source: Path, work_root: Path) -> None:
    table = ingested(source)
    with pytest.raises(AirflowFailException, match="rfka must see the whole table"):
        run(ReleaseOperator(task_id="release", table=table, method="rfka", parameters={"k": 5}))
    unique = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "age"}}
    with pytest.raises(AirflowFailException, match="expect_column_values_to_be_unique"):
        run(ValidateOperator(task_id="validate", table=table, suite={"name": "s", "expectations": [unique]}))


def test_a_table_that_changed_between_two_steps_is_refused(source: Path, lake: Lake, work_root: Path) -> None:
    table = ingested(source)
    with Path(table["uri"]).open("ab") as stream:
        stream.write(b"?")
    with pytest.raises(AirflowFailException, match="changed between two steps"):
        run(ValidateOperator(task_id="validate", table=table, suite=SUITE))
    with pytest.raises(AirflowFailException, match="changed between two steps"):
        run(ReleaseOperator(task_id="release", table=table, method="mondrian", parameters={"k": 5}, seed=1))
    assert not releases(lake.table("people"))
