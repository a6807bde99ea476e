"""The operators of mapped fragments: cut, release each by itself, join."""

import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_privacy_release import (
    CutFragmentsOperator,
    IngestParquetOperator,
    JoinFragmentsOperator,
    PublishOperator,
    ReleaseFragmentOperator,
    ReleaseOperator,
    VerifyOperator,
)
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.metrics import PREFIX
from deploy.local.embedded import checkout
from privacy_engine.errors import CapacityError, EngineError, PrivacyEngineError
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from tests.airflow_privacy_release.task.test_metrics import Recorder
from tests.waiting import wait_for

ENGINE = {"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1}
SCHEMA = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "town": {"role": "quasi_identifier", "kind": "categorical", "categories": ["north", "south"]},
    "disease": {"role": "sensitive", "kind": "categorical", "categories": ["cold", "flu", "gout"]},
}
POLICY = {"require": [{"model": "k_anonymity", "k": 5}, {"model": "distinct_l_diversity", "l": 2}]}
ROWS = 2_400


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    path = tmp_path / "people.parquet"
    pd.DataFrame(
        {
            "age": rng.integers(20, 80, ROWS),
            "town": rng.choice(["north", "south"], ROWS),
            "disease": rng.choice(["cold", "flu", "gout"], ROWS),
        }
    ).to_parquet(path, index=False)
    return path


def context(task_id: str, map_index: int = -1) -> Any:
    task = SimpleNamespace(dag_id="people", run_id="run 1", task_id=task_id, map_index=map_index)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace)}


def ingested(source: Path, engine: Any = ENGINE) -> Any:
    operator = IngestParquetOperator(task_id="ingest", uri=str(source), schema=SCHEMA, engine=engine)
    return operator.execute(context("ingest"))


def cut(table: Any, **more: Any) -> Any:
    given = {"method": "mondrian", "parameters": {"k": "5", "l": "2"}, "seed": "7", **more}
    return CutFragmentsOperator(task_id="cut", table=table, **given).execute(context("cut"))


def release(ref: Any) -> Any:
    operator = ReleaseFragmentOperator(task_id="release_fragment", fragment=ref)
    return operator.execute(context("release_fragment", ref["fragment"]))


def join(parts: Any) -> Any:
    return JoinFragmentsOperator(task_id="release", fragments=parts, title="People").execute(
        context("release")
    )


def test_mapped_tasks_publish_what_was_verified(source: Path, airflow_lake: Lake, work_root: Path) -> None:
    refs = cut(ingested(source))
    assert len(refs) >= 2
    staged = join([release(ref) for ref in refs])
    report = VerifyOperator(task_id="verify", table=staged, policy=POLICY).execute(context("verify"))
    published = PublishOperator(task_id="publish", table=staged, report=report, name="people").execute(
        context("publish")
    )
    assert published["rows"] == read_release(airflow_lake.table("people"), "run 1").num_rows == ROWS
    assert manifest_of(airflow_lake.table("people"), "run 1")["fragments"]["count"] == len(refs)


def test_what_travels_is_plain_and_small(source: Path, work_root: Path) -> None:
    refs = cut(ingested(source))
    parts = [release(ref) for ref in refs]
    for ref in (*refs, *parts):
        assert len(json.dumps(ref)) < 1_500
    assert not any(word in json.dumps([refs, parts]) for word in ("north", "gout"))


@pytest.mark.slow  # kills a process
def test_a_worker_that_is_killed_and_its_fragment_alone_done_again_give_the_same_bytes(
    source: Path, work_root: Path
) -> None:
    refs = cut(ingested(source))
    parts = [release(ref) for ref in refs]
    released = Path(parts[0]["uri"])
    released.unlink()
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.privacy_release.steps.fragment_child", json.dumps(refs[0])],
        cwd=checkout(),
    )
    try:

        def there() -> bool:
            assert child.poll() is None
            return released.exists()

        wait_for(there, "the part of the fragment", every=0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    again = release(refs[0])
    assert {**again, "seconds": 0} == {**parts[0], "seconds": 0}
    staged = join([again, *parts[1:]])
    assert staged["rows"] == ROWS
    assert [path.name for path in released.parent.parent.iterdir() if path.name.endswith(".tmp")] == []


def test_cutting_again_leaves_nothing_of_the_first_attempt(source: Path, work_root: Path) -> None:
    table = ingested(source)
    old = release(cut(table, seed=None)[0])
    refs = cut(table, seed=None)
    assert not Path(old["uri"]).exists()
    with pytest.raises(AirflowFailException, match="of 2 plans"):
        join([old, *(release(ref) for ref in refs[1:])])


def test_parameters_that_are_no_values_fail_without_a_retry(source: Path, work_root: Path) -> None:
    with pytest.raises(AirflowFailException, match=r"mondrian\.k: must be a number"):
        cut(ingested(source), parameters={"k": "five"})


@pytest.mark.parametrize("engine", ["local", {"kind": "spark", "rows": 1_000}], ids=["local", "spark"])
def test_only_fragments_of_this_machine_are_mapped(engine: Any, source: Path, work_root: Path) -> None:
    with pytest.raises(AirflowFailException, match=r"require the engine `fragments`.*use ReleaseOperator"):
        cut(ingested(source, engine))


@pytest.mark.parametrize("method", ["rfka", "errph", "privbayes"])
def test_a_method_that_cannot_work_in_fragments_is_refused(
    method: str, source: Path, work_root: Path
) -> None:
    with pytest.raises(AirflowFailException, match="engine"):
        cut(ingested(source), method=method, parameters={})


def test_more_fragments_than_airflow_maps_over_are_released_in_batches(
    source: Path, work_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ingested(source)
    count = len(cut(table))
    one_by_one = JoinFragmentsOperator(task_id="alone", fragments=[release(ref) for ref in cut(table)])
    alone = one_by_one.execute(context("alone"))
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    batches = cut(table)
    assert len(batches) == 2
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    assert sorted(ref["fragment"] for batch in batches for ref in batch) == list(range(count))
    parts = [
        ReleaseFragmentOperator(task_id="release_fragment", fragment=batch).execute(
            context("release_fragment", number)
        )
        for number, batch in enumerate(batches)
    ]
    with pytest.raises(AirflowFailException, match=f"{len(batches[1])} missing"):
        join(parts[:1])
    assert join(parts)["sha256"] == alone["sha256"]


def test_one_task_may_choose_another_engine_than_the_table_was_ingested_with(
    source: Path, work_root: Path
) -> None:
    arguments: dict[str, Any] = {"method": "mondrian", "parameters": {"k": 5, "l": 2}, "seed": 7}
    staged = ReleaseOperator(
        task_id="release", table=ingested(source, "local"), engine=ENGINE, **arguments
    ).execute(context("release"))
    assert staged["engine"]["kind"] == "fragments"
    assert "fragments" in json.loads(Path(staged["manifest"]).read_text())
    whole = ReleaseOperator(task_id="whole", table=ingested(source), engine="local", **arguments).execute(
        context("whole")
    )
    assert "engine" not in whole
    assert "fragments" not in json.loads(Path(whole["manifest"]).read_text())
    assert pq.read_metadata(whole["uri"]).num_rows == pq.read_metadata(staged["uri"]).num_rows == ROWS


def test_an_engine_that_is_none_is_named(source: Path, work_root: Path) -> None:
    operator = ReleaseOperator(task_id="release", table=ingested(source), method="mondrian", engine="dask")
    with pytest.raises(AirflowFailException, match=r"engine\.kind: must be 'local', 'fragments' or 'spark'"):
        operator.execute(context("release"))


def test_a_join_of_too_few_fails_without_a_retry(source: Path, work_root: Path) -> None:
    refs = cut(ingested(source))
    with pytest.raises(AirflowFailException, match="1 missing"):
        join([release(ref) for ref in refs[1:]])


@pytest.mark.parametrize("paid", [False, True])
def test_each_step_sends_and_logs_its_counts_unless_a_budget_pays(
    source: Path, work_root: Path, capsys: pytest.CaptureFixture[str], paid: bool
) -> None:
    with DAG("people", schedule=None):
        cutting = CutFragmentsOperator(
            task_id="cut", table={}, method="mondrian", parameters={"k": 5, "l": 2}
        )
        releasing = ReleaseFragmentOperator(task_id="fragment", fragment={})
        if paid:
            ReleaseOperator(task_id="paid", table={}, method="privbayes", budget="people", policy=POLICY)
    cutting.table = ingested(source)
    capsys.readouterr()
    kept = Recorder()
    stats.initialize(factory=lambda: kept, export_legacy_names=False)
    try:
        refs = cutting.execute(context("cut"))
        for releasing.fragment in refs:
            releasing.execute(context("fragment"))
        releasing.fragment = [*refs]
        join(releasing.execute(context("fragment")))
    finally:
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    counts = [
        *[("cut.rows", ROWS), ("cut.fragments", len(refs))],
        *[("fragment.rows", ref["rows"]) for ref in refs],
        *[("fragment.rows", ROWS), ("fragment.fragments", len(refs))],
    ]
    gauges = [
        (name.removeprefix(f"{PREFIX}.people."), value) for kind, name, value in kept.sent if kind == "gauge"
    ]
    before = [gauge for gauge in gauges if not gauge[0].startswith("release.")]
    assert before == ([] if paid else counts)
    assert ("release.rows", ROWS) in gauges
    logged = capsys.readouterr().out.partition("staged")[0]
    assert ("rows" in logged) == (not paid)


@pytest.mark.parametrize("error", [CapacityError("more memory is needed"), EngineError("the session died")])
def test_want_of_memory_and_a_dead_session_are_tried_again(error: PrivacyEngineError) -> None:
    class Unlucky(BaseOperator):
        @guarded
        def execute(self, context: Any) -> None:
            raise error

    with pytest.raises(type(error), match=str(error)):
        Unlucky(task_id="unlucky").execute(context("unlucky"))


def test_mapped_tasks_follow_people_as_one_task_does(
    tmp_path: Path, airflow_lake: Lake, work_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    login = {"conn_type": "generic", "password": "a secret of the tests alone, long enough"}
    monkeypatch.setenv("AIRFLOW_CONN_MEMBERSHIP_DEFAULT", json.dumps(login))
    rng, number = np.random.default_rng(3), 1_100
    everybody = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(number)],
            "age": rng.integers(20, 80, number),
            "town": rng.choice(["north", "south"], number),
            "disease": rng.choice(["cold", "flu", "gout"], number),
        }
    )
    everybody.loc[40:52, ["age", "town"]] = (95, "east")  # left or moved later: no one is like them then
    later = everybody.drop([40, 41]).iloc[:-30]
    later.loc[42:52, ["age", "town"]] = (30, "north")
    roles = {
        "name": "identifier",
        "age": "quasi_identifier",
        "town": "quasi_identifier",
        "disease": "sensitive",
    }
    schema: Any = {name: {"role": role, "kind": "categorical"} for name, role in roles.items()}
    schema["age"]["kind"], path = "numeric", tmp_path / "people.parquet"
    policy = {**POLICY, "repeated_people": "history"}
    given = {"method": "mondrian", "parameters": {"k": 5, "l": 2, "suppression_limit": 0.1}, "seed": 7}
    followed = {"series": "people", "history": {"policy": policy, "hold_back": 2}}
    for release_number, rows in enumerate((everybody.iloc[20:], later)):
        rows.to_parquet(path, index=False)
        ingest = IngestParquetOperator(
            task_id="ingest", uri=str(path), schema=schema, engine=ENGINE, person="name"
        )
        run = {"run_id": f"run {release_number}", "dag_id": "people", "map_index": -1}

        def task(name: str, run: Any = run) -> Any:
            return {"ti": SimpleNamespace(task_id=name, **run), "outlet_events": defaultdict(SimpleNamespace)}

        table = ingest.execute(task("ingest"))
        whole = ReleaseOperator(task_id="whole", table=table, **given, **followed).execute(task("whole"))
        refs = CutFragmentsOperator(task_id="cut", table=table, **given, **followed).execute(task("cut"))
        assert ["past" in ref for ref in refs] == [bool(release_number)] * len(refs)
        parts = [
            ReleaseFragmentOperator(task_id="release_fragment", fragment=ref).execute(
                task("release_fragment")
            )
            for ref in refs
        ]
        staged = JoinFragmentsOperator(task_id="release", fragments=parts).execute(task("release"))
        assert (staged["sha256"], staged["earlier"]) == (whole["sha256"], whole["earlier"])
        for name in ("persons", "waiting", "regions"):
            assert staged[name]["sha256"] == whole[name]["sha256"]
        verify = VerifyOperator(task_id="verify", table=staged, policy=policy, name="people")
        report = verify.execute(task("verify"))
        publish = PublishOperator(task_id="publish", table=staged, report=report, name="people")
        publish.execute(task("publish"))
    stated = manifest_of(airflow_lake.table("people"), "run 1")
    assert (stated["history"]["releases"], stated["fragments"]["count"]) == (1, len(refs))
    assert stated["history"]["outdated"] + stated["history"]["held_back"] > 0
