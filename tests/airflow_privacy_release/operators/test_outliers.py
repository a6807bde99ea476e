"""Outliers in a release: the step, the operator, the specification, and what of them outlives the run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException

from airflow_privacy_release import CleanupOperator, DetectOutliersOperator
from privacy_engine.errors import InfeasibleError, IntegrityError, SchemaError, SpecError
from privacy_engine.measures import utility
from privacy_engine.measures.recoding import Recoding
from privacy_engine.registry import detector_names, load_detector
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.read import manifest_of
from privacy_release.lake.store import Lake
from privacy_release.reports.figures import counted_in
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.spec.outliers import Action
from privacy_release.steps.ingest import ingest
from privacy_release.steps.outliers import detect_outliers
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import Table

ODD = (70, 130)  # positions of the records that stand apart
SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "income": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 1000]},
    "town": {"role": "quasi_identifier", "kind": "categorical"},
    "disease": {"role": "sensitive", "kind": "categorical"},
}
POLICY = {"require": [{"model": "k_anonymity", "k": 5}], "max_suppressed": 0.02}


@pytest.fixture
def people() -> pd.DataFrame:
    """200 people of middling age and income, and two that are far from all of them."""
    rng = np.random.default_rng(4)
    n = 200
    table = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(n)],
            "age": rng.normal(45, 4, n).round(1),
            "income": rng.normal(300, 20, n).round(1),
            "town": rng.choice(["north", "south"], n),
            "disease": rng.choice(["cold", "flu", "gout"], n),
        }
    )
    table.loc[list(ODD), "age"] = [118.5, 2.5]
    table.loc[list(ODD), "income"] = [987.5, 11.5]
    return table


@pytest.fixture
def table(people: pd.DataFrame, work: WorkArea, tmp_path: Path) -> Table:
    path = tmp_path / "people.parquet"
    people.to_parquet(path, index=False)
    return ingest(str(path), DataSchema.from_dict(SCHEMA), work)


def top_two(table: Table, work: WorkArea, action: str, **more: Any) -> Table:
    return detect_outliers(table, work, method="lof", parameters={"top": 2}, action=action, **more)


@pytest.mark.parametrize("method", detector_names())
def test_every_detector_finds_the_records_that_stand_apart(method: str, table: Table, work: WorkArea) -> None:
    reported = detect_outliers(table, work, method=method, parameters={"top": 2}).outliers[0]
    scores = pd.read_parquet(reported.scores)
    assert tuple(np.flatnonzero(scores["flagged"])) == ODD
    assert (reported.flagged, reported.records, reported.share) == (2, 200, 0.01)
    assert reported.pruned == scores["pruned"].mean()


def test_a_reported_table_goes_on_unchanged(table: Table, work: WorkArea) -> None:
    passed = top_two(table, work, "report")
    assert replace(passed, outliers=[]) == table
    assert passed.outliers[0].removed == 0
    assert passed.outliers[0].aside is None


def test_the_threshold_that_was_used_is_reported(table: Table, work: WorkArea) -> None:
    def threshold(**parameters: Any) -> float | None:
        found = detect_outliers(table, work, method="lof", parameters=parameters)
        return found.outliers[0].threshold

    assert threshold() == 1.5
    assert threshold(threshold=3.0) == 3.0
    assert threshold(top=2) is None


@pytest.mark.parametrize("action", ["set_aside", "suppress"])
def test_removed_outliers_are_in_a_file_of_their_own_and_the_others_keep_their_order(
    action: str, table: Table, work: WorkArea
) -> None:
    passed = top_two(table, work, action)
    before, kept = pd.read_parquet(table.uri), pd.read_parquet(passed.uri)
    aside = pd.read_parquet(passed.outliers[0].aside)
    pd.testing.assert_frame_equal(kept, before.drop(index=list(ODD)).reset_index(drop=True))
    pd.testing.assert_frame_equal(aside, before.loc[list(ODD)].reset_index(drop=True))
    assert passed.rows == 198
    assert passed.outliers[0].removed == 2


def test_all_that_is_written_is_for_the_service_user_alone(table: Table, work: WorkArea) -> None:
    top_two(table, work, "set_aside")
    assert {path.stat().st_mode & 0o777 for path in work.folder.iterdir()} == {0o600}


def test_too_many_outliers_fail_and_a_share_that_is_just_met_does_not(table: Table, work: WorkArea) -> None:
    assert top_two(table, work, "fail", max_share=0.01).sha256 == table.sha256
    with pytest.raises(SchemaError, match=r"at most a share 0\.009 .* found 2 of 200"):
        top_two(table, work, "fail", max_share=0.009)
    with pytest.raises(SchemaError, match="at most a share 0 "):
        top_two(table, work, "suppress", max_share=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": "delete"}, r"action must be one of \['report', 'set_aside', 'suppress', 'fail'\]"),
        ({"action": "fail"}, "fail needs max_share"),
        ({"action": "report", "max_share": 0.1}, "report never fails"),
        ({"action": "fail", "max_share": 1.5}, "max_share must be a number from 0 to 1"),
        ({"action": "fail", "max_share": True}, "max_share must be a number from 0 to 1"),
        ({"method": "lot"}, r"outliers: method must be one of \['okplof', 'lof'\]"),
        ({"parameters": {"neighbors": 3}}, r"unknown parameters \['neighbors'\]"),
        ({"parameters": {"neighbours": 0}}, "neighbours must be a whole number >= 1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    change: dict[str, Any], message: str, table: Table, work: WorkArea
) -> None:
    with pytest.raises(SpecError, match=message):
        detect_outliers(table, work, **change)


def test_a_table_that_changed_is_refused(table: Table, work: WorkArea) -> None:
    Path(table.uri).write_bytes(b"PAR1 of something else")
    with pytest.raises(IntegrityError, match="sha256"):
        detect_outliers(table, work)


def test_an_empty_rest_is_infeasible(table: Table, work: WorkArea) -> None:
    with pytest.raises(InfeasibleError, match="all 200 records are outliers"):
        detect_outliers(table, work, method="lof", parameters={"top": 200}, action="set_aside")


def test_suppressed_outliers_count_against_the_policy_and_those_set_aside_do_not(
    table: Table, work: WorkArea
) -> None:
    policy = ReleasePolicy.from_dict(POLICY | {"max_suppressed": 0.009})

    def verdict(action: str) -> tuple[float, bool]:
        staged = make_release(top_two(table, work, action), work, method="mondrian", parameters={"k": 5})
        return staged.figures["suppressed"], verify_staged(staged, policy).passed

    assert verdict("set_aside") == (0.0, True)
    assert verdict("suppress") == (0.01, False)


def test_the_manifest_tells_counts_and_no_place(table: Table, work: WorkArea) -> None:
    staged = make_release(top_two(table, work, "suppress"), work, method="mondrian", parameters={"k": 5})
    manifest = json.loads(Path(staged.manifest).read_text())
    assert manifest["suppressed"] == 2
    (reported,) = manifest["outliers"]
    assert (reported["method"], reported["action"], reported["flagged"], reported["removed"]) == (
        "lof",
        "suppress",
        2,
        2,
    )
    assert not {"scores", "aside"} & set(reported)
    assert "outliers by lof" in Path(staged.report).read_text()


def test_two_searches_add_up(table: Table, work: WorkArea) -> None:
    once = top_two(table, work, "suppress", label="first")
    twice = top_two(once, work, "suppress", label="second")
    assert [o.records for o in twice.outliers] == [200, 198]
    staged = make_release(twice, work, method="mondrian", parameters={"k": 5})
    assert staged.figures["suppressed_records"] == 4


def test_figures_with_removed_records_are_those_of_one_suppression(people: pd.DataFrame) -> None:
    fields = SCHEMA | {"town": {"role": "insensitive", "kind": "categorical"}}
    schema = DataSchema.from_dict(fields).without_identifiers()
    people = people.drop(columns="name")
    labels = np.arange(len(people)) // 10
    labels[-7:] = -1
    encoded = EncodedTable.encode(people, schema)
    whole = utility.figures(Recoding.of_labels(encoded, labels))
    rest = EncodedTable.encode(encoded.table.iloc[:-4], schema)
    carried = counted_in(utility.figures(Recoding.of_labels(rest, labels[:-4])), 4, 196, 2)
    assert carried == pytest.approx({name: whole[name] for name in carried})
    assert set(whole) - set(carried) == {"non_uniform_entropy"}


def test_figures_stay_as_they_are_where_nothing_was_suppressed() -> None:
    figures = {"gcp": 0.1, "suppressed_records": 3.0, "non_uniform_entropy": 0.2}
    assert counted_in(figures, 0, 100, 4) == figures


def context(task_id: str = "detect_outliers", map_index: int = -1) -> Any:
    return {
        "ti": SimpleNamespace(dag_id="people", run_id="run 1", task_id=task_id, map_index=map_index),
    }


def test_the_operator_reads_rendered_text_and_gives_a_plain_reference(table: Table, work_root: Path) -> None:
    operator = DetectOutliersOperator(
        task_id="detect_outliers",
        table=table,
        method="lof",
        parameters={"neighbours": "15", "top": "None", "threshold": "2.5"},
        action="fail",
        max_share="0.5",
    )
    passed = operator.execute(context())
    assert passed["outliers"][0]["threshold"] == 2.5
    assert json.loads(json.dumps(passed)) == passed
    CleanupOperator(task_id="cleanup").execute(context())
    assert not Path(passed["outliers"][0]["scores"]).exists()


def test_the_operator_fails_without_a_retry_above_the_share(table: Table, work_root: Path) -> None:
    operator = DetectOutliersOperator(
        task_id="detect_outliers", table=table, parameters={"top": 3}, action="fail", max_share=0.01
    )
    with pytest.raises(AirflowFailException, match="found 3 of 200"):
        operator.execute(context())


def test_the_operator_names_a_share_that_is_no_number(table: Table, work_root: Path) -> None:
    operator = DetectOutliersOperator(task_id="detect_outliers", table=table, max_share="a lot")
    with pytest.raises(AirflowFailException, match="outliers: max_share: must be a number"):
        operator.execute(context())


def test_mapped_searches_do_not_overwrite_each_other(table: Table, work_root: Path) -> None:
    found = [
        DetectOutliersOperator(
            task_id="detect_outliers", table=table, parameters={"top": top}, action="set_aside"
        ).execute(context(map_index=top))
        for top in (1, 2)
    ]
    assert [len(pd.read_parquet(passed["uri"])) for passed in found] == [199, 198]


@pytest.fixture
def written(people: pd.DataFrame, tmp_path: Path) -> Callable[..., Path]:
    """Writes a release of the people with these `outliers`."""
    folder = tmp_path / "include"
    for name in ("releases", "policies"):
        (folder / name).mkdir(parents=True)
    people.to_parquet(folder / "people.parquet", index=False)
    (folder / "policies" / "people.yaml").write_text(yaml.safe_dump(POLICY))

    def write(**outliers: Any) -> Path:
        path = folder / "releases" / "people.yaml"
        spec = {
            "name": "people",
            "source": {"uri": "people.parquet"},
            "schema": SCHEMA,
            "outliers": outliers,
            "release": {"method": "mondrian", "k": 5, "seed": 1},
            "policy": "policies/people.yaml",
            "publish": {"table": "people"},
        }
        path.write_text(yaml.safe_dump(spec, sort_keys=False))
        return path

    return write


def test_a_release_without_airflow_sets_outliers_aside(
    written: Callable[..., Path], lake: Lake, work: WorkArea
) -> None:
    seen: list[str] = []
    spec = load_spec(written(method="lof", action="set_aside", top=2))
    outcome = run_release(spec, lake, "one", work, lambda stage, text: seen.append(f"{stage}: {text}"))
    assert outcome.published.rows == 198
    assert "detect_outliers: 2 outliers, 2 removed" in seen
    assert manifest_of(lake.table("people"), "one")["outliers"][0]["removed"] == 2


def test_the_specification_leaves_parameters_to_the_detector(written: Callable[..., Path]) -> None:
    outliers = load_spec(written(neighbours=10, threshold=2)).outliers
    assert outliers is not None
    assert (outliers.method, outliers.action) == ("okplof", Action.REPORT)
    assert load_detector(outliers.method, **outliers.parameters).neighbours == 10


@pytest.mark.parametrize(
    ("outliers", "message"),
    [
        ({"method": "lot"}, r"outliers\.method: must be one of \['okplof', 'lof'\]"),
        ({"action": "delete"}, r"outliers\.action: "),
        ({"action": "fail"}, "the action fail needs max_share"),
        ({"action": "fail", "max_share": 2}, r"outliers\.max_share: "),
    ],
)
def test_a_wrong_specification_names_field_and_remedy(
    outliers: dict[str, Any], message: str, written: Callable[..., Path]
) -> None:
    with pytest.raises(SpecError, match=message):
        load_spec(written(**outliers))
