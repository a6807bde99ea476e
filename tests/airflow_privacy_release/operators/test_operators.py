"""Each operator by itself: executed on a temporary folder with a small context, without a database."""

import dataclasses
import json
import traceback
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable

import airflow_privacy_release
from airflow_privacy_release import (
    BottomUpOperator,
    CleanupOperator,
    ClearSupersededOperator,
    CompareOperator,
    DPSMBayesOperator,
    DSAEDOperator,
    ERRPHOperator,
    GreedyHamdistOperator,
    ILPLDiversityOperator,
    IngestParquetOperator,
    KACLUKOperator,
    LatentClassOperator,
    LocalLaplaceOperator,
    MondrianOperator,
    OBPAOperator,
    PrivBayesOperator,
    PrivBayesROperator,
    PublishOperator,
    ReleaseOperator,
    RetractOperator,
    RFKAOperator,
    StructureOperator,
    TRROperator,
    ValidateOperator,
    VerifyOperator,
)
from airflow_privacy_release.operators.methods import (
    AnonymizerOperator,
    RandomizerOperator,
    SynthesizerOperator,
)
from airflow_privacy_release.task.errors import UnexpectedError, guarded
from privacy_engine.errors import PublishError
from privacy_engine.registry import method_class, method_names
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import WorkArea, sha256_file
from tests.operator_arguments import arguments

ALL = [
    getattr(airflow_privacy_release, name)
    for name in airflow_privacy_release.__all__
    if name.endswith("Operator")
]
NAMED = [
    BottomUpOperator,
    DPSMBayesOperator,
    DSAEDOperator,
    ERRPHOperator,
    GreedyHamdistOperator,
    ILPLDiversityOperator,
    KACLUKOperator,
    LatentClassOperator,
    LocalLaplaceOperator,
    MondrianOperator,
    OBPAOperator,
    PrivBayesOperator,
    PrivBayesROperator,
    RFKAOperator,
    StructureOperator,
    TRROperator,
]
# What is not the method's: the table, whose budget pays, and what a release is called.
NOT_PARAMETERS = (
    "requires",
    *("table", "budget", "policy", "ledger", "promise", "seed", "title"),
    *("secret", "replaces", "series", "lake", "history"),  # of memoised answers, and of earlier releases
)
SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "town": {"role": "quasi_identifier", "kind": "categorical"},
    "disease": {"role": "sensitive", "kind": "categorical"},
}
SUITE = {
    "name": "people",
    "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}}],
}
POLICY = {"require": [{"model": "k_anonymity", "k": 5}, {"model": "distinct_l_diversity", "l": 2}]}


def people(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(rows)],
            "age": rng.integers(20, 80, rows),
            "town": rng.choice(["north", "south"], rows),
            "disease": rng.choice(["cold", "flu", "gout"], rows),
        }
    )


@pytest.fixture
def lake(airflow_lake: Lake) -> Lake:
    """The lake that the operators find by its connection."""
    return airflow_lake


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    people().to_parquet(path, index=False)
    return path


def context(task_id: str = "task", map_index: int = -1, run_id: str = "run 1", **more: Any) -> Any:
    pushed: dict[str, Any] = {}
    task = SimpleNamespace(
        dag_id="people",
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        pushed=pushed,
        xcom_push=pushed.__setitem__,
    )
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace), **more}


def ingested(source: Path) -> Any:
    return IngestParquetOperator(task_id="ingest", uri=str(source), schema=SCHEMA).execute(context("ingest"))


def staged(source: Path, map_index: int = -1, **parameters: Any) -> Any:
    given = {"k": 5, "l": 2, **parameters}
    operator = ReleaseOperator(
        task_id="release", table=ingested(source), method="mondrian", parameters=given, seed=1
    )
    return operator.execute(context("release", map_index))


def verified(table: Any, **policy: Any) -> Any:
    return VerifyOperator(task_id="verify", table=table, policy={**POLICY, **policy}).execute(
        context("verify")
    )


def publish(table: Any, report: Any, **more: Any) -> Any:
    operator = PublishOperator(task_id="publish", table=table, report=report, name="people")
    return operator.execute(context("publish", **more))


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the work area of the release of this module is."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def made(shared_root: Path) -> tuple[Any, Any]:
    """A staged release and its report, made once; no test changes their files."""
    people().to_parquet(shared_root / "people.parquet", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVACY_WORK_AREA", str(shared_root / "work"))
        table = staged(shared_root / "people.parquet")
        return table, verified(table)


@pytest.fixture
def ready(made: tuple[Any, Any], shared_root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The same, in the work area of this test."""
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(shared_root / "work"))
    return made


@pytest.mark.parametrize("operator", ALL, ids=lambda c: c.__name__)
def test_every_argument_of_an_operator_is_a_template_field(operator: type[BaseOperator]) -> None:
    pasted = {"sql"}  # would be part of a query, where only bound parameters may be
    assert set(operator.template_fields) == set(arguments(operator)) - pasted


@pytest.mark.parametrize("operator", NAMED, ids=lambda c: c.__name__)
def test_a_named_operator_has_the_parameters_of_its_method(
    operator: type[AnonymizerOperator | SynthesizerOperator | RandomizerOperator],
) -> None:
    own = {name: p.default for name, p in arguments(operator).items() if name not in NOT_PARAMETERS}
    fields = {
        # A mapping is made again for each method; None is written for it in a signature.
        field.name: None if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(method_class(operator.method))
    }
    assert own == fields
    assert set(operator.parameters) == set(fields)


def test_every_method_has_a_named_operator() -> None:
    assert {operator.method for operator in NAMED} == set(method_names())


def test_a_run_publishes_what_was_verified(source: Path, lake: Lake, work_root: Path) -> None:
    table = ValidateOperator(task_id="validate", table=ingested(source), suite=SUITE).execute(
        context("validate")
    )
    operator = MondrianOperator(task_id="anonymize", table=table, k=5, l=2, seed=1)
    result = operator.execute(context("anonymize"))
    report = verified(result)
    asset = Asset(name="people", uri="lake://lake_default/people")
    run = context("publish", partition_key="2026-11-01")
    published = PublishOperator(
        task_id="publish", table=result, report=report, name="people", outlets=[asset]
    ).execute(run)

    rows = read_release(lake.table("people"), "2026-11-01").to_pandas()
    assert len(rows) == published["rows"] == 120
    assert list(rows.columns) == ["age_from", "age_to", "town", "disease"]
    event = run["outlet_events"][asset].extra
    assert event["release"] == "2026-11-01"
    assert (event["k"], event["l"]) == (5, 2)
    assert event["sha256"] == report["sha256"] == sha256_file(Path(result["uri"]))
    assert json.dumps(event)


def test_a_run_without_a_partition_is_published_under_its_run_id(ready: tuple[Any, Any], lake: Lake) -> None:
    assert publish(*ready)["release"] == "run 1"


def test_a_retry_publishes_nothing_twice(ready: tuple[Any, Any], lake: Lake) -> None:
    table, report = ready
    first, second = publish(table, report), publish(table, report)
    assert not first["already"]
    assert second["already"]
    assert first["version"] == second["version"]
    assert len(releases(lake.table("people"))) == 1


def test_mapped_tasks_do_not_overwrite_each_other(source: Path, work_root: Path) -> None:
    tables = [staged(source, index, k=k) for index, k in enumerate((5, 10))]
    assert len({table["uri"] for table in tables}) == 2
    for table in tables:
        assert sha256_file(Path(table["uri"])) == table["sha256"]


def test_rendered_text_is_read_as_the_type_of_the_parameter(source: Path, work_root: Path) -> None:
    table = ILPLDiversityOperator(
        task_id="anonymize",
        table=ingested(source),
        k="10",
        l="2",
        suppression_limit="0.5",
        refine="False",
        block_size="None",
        seed="3",
    ).execute(context("anonymize"))
    manifest = json.loads(Path(table["manifest"]).read_text())
    shown = manifest["parameters"]
    assert (shown["k"], shown["l"], shown["suppression_limit"]) == (10, 2, 0.5)
    assert (shown["refine"], shown["block_size"]) == (False, None)


@pytest.mark.parametrize("weights", [None, {"age": 1, "town": 3.5}, '{"age": 1, "town": 3.5}'], ids=str)
def test_weights_are_a_mapping_or_its_text_or_the_methods_default(
    weights: Any, source: Path, work_root: Path
) -> None:
    operator = OBPAOperator(task_id="anonymize", table=ingested(source), k=5, weights=weights, seed=1)
    table = operator.execute(context("anonymize"))
    shown = json.loads(Path(table["manifest"]).read_text())["parameters"]
    assert shown["weights"] == ({} if weights is None else {"age": 1.0, "town": 3.5})


def test_a_comparison_is_written_to_the_lake_and_a_retry_writes_it_again(
    source: Path, lake: Lake, work_root: Path
) -> None:
    tables = [staged(source, index, k=k) for index, k in enumerate((5, 10))]
    operator = CompareOperator(task_id="compare", tables=tables, reports=[verified(t) for t in tables])
    reported = operator.execute(context("compare", run_id="manual 1/2"))
    path = Path(reported["report"])
    assert reported == {"report": f"{lake.root}/_comparisons/people/manual%201%2F2.html", "releases": 2}
    page = path.read_text()
    assert all(f"mondrian k={k} l=2" in page for k in (5, 10))
    assert operator.execute(context("compare", run_id="manual 1/2")) == reported
    assert list(path.parent.iterdir()) == [path]


def test_a_comparison_of_reports_in_another_order_is_refused(
    source: Path, lake: Lake, work_root: Path
) -> None:
    tables = [staged(source, index, k=k) for index, k in enumerate((5, 10))]
    reports = [verified(table) for table in reversed(tables)]
    operator = CompareOperator(task_id="compare", tables=tables, reports=reports)
    with pytest.raises(AirflowFailException, match="2 of 2 are not"):
        operator.execute(context("compare"))


def test_a_parameter_that_is_no_value_fails_without_a_retry(source: Path, work_root: Path) -> None:
    with pytest.raises(AirflowFailException, match=r"mondrian\.k: must be a number"):
        staged(source, k="ten")


def test_an_unknown_method_fails_without_a_retry(source: Path, work_root: Path) -> None:
    operator = ReleaseOperator(task_id="release", table=ingested(source), method="mondrain")
    with pytest.raises(AirflowFailException, match="method must be one of"):
        operator.execute(context("release"))


def test_a_failed_expectation_stops_the_run(source: Path, work_root: Path) -> None:
    suite = {
        "name": "people",
        "expectations": [
            {
                "type": "expect_column_values_to_be_in_set",
                "kwargs": {"column": "disease", "value_set": ["cold"]},
            }
        ],
    }
    operator = ValidateOperator(task_id="validate", table=ingested(source), suite=suite)
    run = context("validate")
    with pytest.raises(AirflowFailException, match="1 of 1 expectations failed"):
        operator.execute(run)
    reported = run["ti"].pushed["expectations"]
    assert (reported["success"], reported["expected"], reported["passed"]) == (False, 1, 0)
    (one,) = reported["expectations"]
    assert one == {
        "type": "expect_column_values_to_be_in_set",
        "column": "disease",
        "severity": "critical",
        "broken": None,
        "held": False,
    }


def test_a_policy_stricter_than_the_method_stops_the_run(ready: tuple[Any, Any]) -> None:
    with pytest.raises(AirflowFailException, match="does not keep its policy"):
        verified(ready[0], require=[{"model": "k_anonymity", "k": 50}])


def test_the_floor_policy_holds_for_operators_composed_by_hand(
    source: Path, ready: tuple[Any, Any], lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, report = ready
    floor = tmp_path / "floor.yaml"
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(floor))
    floor.write_text("require: [{model: k_anonymity, k: 3}]")
    with pytest.raises(AirflowFailException, match="not verified under the floor policy"):
        publish(table, report)
    assert publish(table, verified(table))["rows"] == 120
    floor.write_text("require: [{model: k_anonymity, k: 100}]")
    with pytest.raises(AirflowFailException, match=r"k_anonymity\(k=100\) measured"):
        verified(table)
    floor.unlink()
    for step in (lambda: ingested(source), lambda: verified(table), lambda: publish(table, report)):
        with pytest.raises(AirflowFailException, match=r"the floor policy .* must be a readable UTF-8 file"):
            step()


def test_staged_bytes_that_changed_are_refused(source: Path, lake: Lake, work_root: Path) -> None:
    table = staged(source)
    report = verified(table)
    path = Path(table["uri"])
    pd.read_parquet(path).iloc[:-1].to_parquet(path, index=False)
    with pytest.raises(AirflowFailException, match="sha256"):
        verified(table)
    with pytest.raises(AirflowFailException, match="sha256"):
        publish(table, report)
    assert releases(lake.table("people")) == []


def test_a_report_that_did_not_pass_publishes_nothing(ready: tuple[Any, Any], lake: Lake) -> None:
    table, report = ready
    with pytest.raises(AirflowFailException, match="does not pass"):
        publish(table, report | {"passed": False})
    assert releases(lake.table("people")) == []


def test_a_lake_out_of_reach_is_tried_again(ready: tuple[Any, Any], lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where the lake should be")
    with pytest.raises(PublishError, match="lake"):
        publish(*ready)
    (tmp_path / "lake").unlink()
    assert publish(*ready)["rows"] == 120


def test_a_connection_that_is_missing_is_named(ready: tuple[Any, Any]) -> None:
    table, report = ready
    operator = PublishOperator(task_id="publish", table=table, report=report, name="people", lake="elsewhere")
    with pytest.raises(AirflowFailException, match="connection elsewhere does not exist"):
        operator.execute(context("publish"))


@pytest.mark.parametrize("extra", [{"storage_options": {"auto_mkdir": False}}, {}], ids=["fsspec", "airflow"])
def test_a_source_is_read_through_a_connection(
    extra: dict[str, Any], source: Path, work_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_RAW", json.dumps({"conn_type": "fs", "extra": extra}))
    operator = IngestParquetOperator(
        task_id="ingest", uri=f"file://{source}", schema=SCHEMA, connection="raw"
    )
    assert operator.execute(context("ingest"))["rows"] == 120


def test_a_source_whose_connection_is_missing_is_refused(source: Path, work_root: Path) -> None:
    operator = IngestParquetOperator(task_id="ingest", uri=str(source), schema=SCHEMA, connection="nowhere")
    with pytest.raises(AirflowFailException, match="connection nowhere of the source does not exist"):
        operator.execute(context("ingest"))


def test_a_retracted_release_is_gone_and_the_others_stay(ready: tuple[Any, Any], lake: Lake) -> None:
    table, report = ready
    publish(table, report, partition_key="a")
    publish(table, report, partition_key="b")
    done = RetractOperator(task_id="retract", name="people", release="a", reason="wrong month").execute(
        context()
    )
    assert not done["already"]
    assert manifest_of(lake.table("people"), "a")["retracted"]
    assert read_release(lake.table("people"), "b").num_rows == 120


def test_without_partitions_the_table_is_the_newest_release_and_the_others_are_cleared_away(
    ready: tuple[Any, Any], lake: Lake
) -> None:
    table, report = ready
    for number in (1, 2):
        publish(table, report, run_id=f"manual__2026-11-0{number}T00:00:00+00:00")
    assert len(DeltaTable(lake.table("people").address).to_pandas()) == 120
    with pytest.raises(PublishError, match="kept in the mode snapshot"):
        publish(table, report, partition_key="2026-11-03")
    clear = ClearSupersededOperator(task_id="clear").execute(context("clear"))
    assert clear == {"moved": 0, "erased": 0, "waiting": 1}  # an hour is not over
    refused = PublishOperator(task_id="publish", table=table, report=report, name="other", mode="append")
    with pytest.raises(AirflowFailException, match="must not be appended"):
        refused.execute(context("publish"))


def test_cleaning_up_removes_this_run_alone(source: Path, work_root: Path) -> None:
    ingested(source)
    other = WorkArea(work_root, "people/run 2").create()
    CleanupOperator(task_id="cleanup").execute(context())
    assert list(work_root.iterdir()) == [other.folder]
    CleanupOperator(task_id="cleanup").execute(context())


def test_staged_data_are_readable_by_the_service_user_alone(source: Path, work_root: Path) -> None:
    folder = Path(staged(source)["uri"]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    found = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.name != "journal"}
    assert (found, (folder / "journal").stat().st_mode & 0o777) == ({0o600}, 0o700)


class CarelessOperator(BaseOperator):
    """Lets a library quote a cell."""

    @guarded
    def execute(self, context: Any) -> None:
        try:
            pd.Series(["the secret cell"]).astype(float)
        except ValueError as error:
            raise KeyError("the secret cell") from error


def test_the_error_of_a_library_tells_its_type_and_place_alone() -> None:
    with pytest.raises(UnexpectedError) as caught:
        CarelessOperator(task_id="careless").execute(context())
    reported = "".join(traceback.format_exception(caught.value))
    assert "secret" not in reported
    assert "CarelessOperator failed with KeyError at " in reported
    assert Path(__file__).name in reported
    assert caught.value.__context__ is None
