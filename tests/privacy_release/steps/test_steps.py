"""The steps of a release, green and refused: nothing is published that was not verified on its very bytes."""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.errors import (
    InfeasibleError,
    IntegrityError,
    PublishError,
    SchemaError,
    SpecError,
    VerificationError,
)
from privacy_engine.progress import reporting_to
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.vocabulary import COUNTERFEITS
from privacy_release.lake.store import Lake
from privacy_release.reports.text import FIGURES
from privacy_release.spec.files import load_policy
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps import verify
from privacy_release.steps.approval import approval_of, public_approval
from privacy_release.steps.producers.staging import public_source
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import ReportRef, StagedRelease, Table
from tests.staged import Kept, ingested, people

QUASI = ["age_from", "age_to", "zip"]  # as they are released
KEPT = {"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": 9.0, "passed": True}
K, L = {"model": "k_anonymity", "k": 5}, {"model": "distinct_l_diversity", "l": 2, "attribute": "illness"}


@pytest.fixture
def spec(home: Path) -> ReleaseSpec:
    return load_spec(home / "releases" / "people.yaml")


@pytest.fixture
def table(home: Path, work: WorkArea) -> Table:
    return ingested(home, work)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return people(tmp_path_factory.mktemp("staged"))


@pytest.fixture
def staged(once: Kept, work: WorkArea) -> StagedRelease:
    return once.copy(work)


def policy(*require: dict[str, Any], **limits: Any) -> ReleasePolicy:
    return load_policy({"require": list(require) or [K, L], **limits})


def tampered(staged: StagedRelease, change: Callable[[pd.DataFrame], pd.DataFrame]) -> StagedRelease:
    """Other staged bytes, with their true hash: what a faulty method would have made."""
    path = Path(staged.uri)
    buffer = io.BytesIO()
    change(pd.read_parquet(path)).to_parquet(buffer, index=False)
    path.write_bytes(buffer.getvalue())
    return replace(staged, sha256=hashlib.sha256(buffer.getvalue()).hexdigest())


def one_class_smaller(released: pd.DataFrame) -> pd.DataFrame:
    """Without one record of a smallest class, which has k records then no more."""
    sizes = released.groupby(QUASI)["visits"].transform("size")
    return released.drop(index=sizes.idxmin())


def test_references_are_plain_and_hold_no_record(staged: StagedRelease, people: pd.DataFrame) -> None:
    text = json.dumps(staged.to_ref())
    assert not [name for name in people["name"] if name in text]


def test_only_the_reviewer_sees_the_bound_of_the_loss(staged: StagedRelease) -> None:
    bound = staged.figures["gcp_bound"]
    assert 0 < bound < staged.figures["gcp_lca"]
    assert bound == float(f"{bound:.2g}")
    manifest = json.loads(Path(staged.manifest).read_text())["figures"]
    assert manifest == {name: value for name, value in staged.figures.items() if name != "gcp_bound"}
    assert FIGURES["gcp_bound"][0] not in Path(staged.report).read_text()


def test_everything_in_the_work_area_is_for_the_service_user_alone(
    staged: StagedRelease, work: WorkArea
) -> None:
    files = list(work.folder.iterdir())
    assert {path.name for path in files} == {
        ".lock",
        "ingest.parquet",
        "ingest.schema.json",
        "staged.parquet",
        "staged.schema.json",
        "staged.manifest.json",
        "staged.report.html",
        "staged.columns.json",
    }
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_ingest_tells_the_source_and_leaves_identifiers_behind(table: Table, people: pd.DataFrame) -> None:
    assert (table.rows, table.source.rows, table.source.dropped) == (200, 200, 0)
    assert table.source.identifiers == ["name"]
    assert "name" not in pq.read_schema(table.uri).names
    assert not [name for name in people["name"] if name.encode() in Path(table.uri).read_bytes()]


def test_labels_keep_the_files_of_two_tasks_apart(spec: ReleaseSpec, work: WorkArea, table: Table) -> None:
    made = [
        privacy_release.make_release(
            table, work, method="mondrian", parameters={"k": k}, seed=1, label=f"mapped-{k}"
        )
        for k in (5, 20)
    ]
    assert privacy_release.verify_staged(made[0], policy(K)).passed
    assert made[0].uri != made[1].uri


def test_suite_that_holds_is_counted(table: Table, spec: ReleaseSpec) -> None:
    suite = spec.expectation_suite()
    assert suite is not None
    found = privacy_release.validate(table, suite)
    assert (found["expected"], found["evaluated"], found["passed"]) == (2, 2, 2)


def test_suite_that_fails_stops_the_release_without_a_value(table: Table) -> None:
    kwargs = {"column": "illness", "value_set": ["cold"]}
    suite = {"name": "s", "expectations": [{"type": "expect_column_values_to_be_in_set", "kwargs": kwargs}]}
    with pytest.raises(SchemaError, match="expect_column_values_to_be_in_set") as caught:
        privacy_release.validate(table, suite)
    assert "cold" not in str(caught.value)


def test_misspelt_expectation_is_an_error_and_not_a_pass(table: Table) -> None:
    kinds = ("expect_column_values_to_not_be_null", "expect_column_values_to_not_be_nul")
    suite = {"name": "s", "expectations": [{"type": kind, "kwargs": {"column": "age"}} for kind in kinds]}
    with pytest.raises(SpecError):
        privacy_release.validate(table, suite)


def test_release_that_keeps_its_policy_is_published_with_its_proof(
    staged: StagedRelease, table: Table, lake: Lake, people: pd.DataFrame
) -> None:
    report = privacy_release.verify_staged(staged, policy(K, L, max_gcp=0.9))
    approved = approval_of(report, "officer", "2026-11-20T12:30:00+00:00")
    done = privacy_release.publish_staged(
        staged, report, lake.table("people"), "r1", run_key="dag/1", approved=approved
    )
    assert (done.release, done.table, done.rows, done.already) == ("r1", "people", 200, False)
    manifest = privacy_release.manifest_of(lake.table("people"), "r1")
    assert manifest["sha256"] == report.sha256 == staged.sha256
    assert manifest["source"]["fingerprint"] == table.source.fingerprint
    assert "uri" not in manifest["source"]
    assert manifest["policy"]["require"] == [K, L]
    assert [finding["passed"] for finding in manifest["measured"]] == [True, True, True]
    assert manifest["approval"] == public_approval(approved, report)
    assert manifest["seeded"] is True
    assert "seed" not in manifest["parameters"]
    assert manifest["software"]["version"]
    assert manifest["figures"].items() < staged.figures.items()
    text = json.dumps(manifest)
    assert not [
        value for value in {*people["name"], *people["illness"], *people["zip"]} if f'"{value}"' in text
    ]


def test_manifest_of_a_private_release_tells_no_exact_count_of_the_source(table: Table) -> None:
    assert set(public_source(table.source, private=True)) == {"files", "identifiers"}
    assert set(public_source(table.source, private=False)) == set(table.source.to_ref()) - {"uri"}


def test_retry_publishes_nothing_twice(staged: StagedRelease, lake: Lake) -> None:
    report = privacy_release.verify_staged(staged, policy())
    first, second = (
        privacy_release.publish_staged(staged, report, lake.table("people"), "r1", run_key="dag/1")
        for _ in range(2)
    )
    assert (first.already, second.already, second.version) == (False, True, first.version)


def test_equal_seeds_stage_equal_bytes(table: Table, work: WorkArea) -> None:
    hashes = {
        privacy_release.make_release(
            table, work, method="mondrian", parameters={"k": 5}, seed=3, label=f"run{i}"
        ).sha256
        for i in range(2)
    }
    assert len(hashes) == 1


def test_progress_names_each_part_of_the_work(table: Table, work: WorkArea) -> None:
    messages: list[str] = []
    privacy_release.make_release(
        table, work, method="mondrian", parameters={"k": 5}, on_progress=messages.append
    )
    assert messages == ["reading", "running mondrian", "measuring", "staging"]


def test_ingest_tells_how_many_of_the_records_are_read(
    spec: ReleaseSpec, people: pd.DataFrame, work: WorkArea, tmp_path: Path
) -> None:
    (tmp_path / "parts").mkdir()
    for number in range(4):
        part = people.iloc[50 * number : 50 * (number + 1)]
        part.to_parquet(tmp_path / "parts" / f"{number}.parquet", index=False)
    shares: list[float] = []
    with reporting_to(shares.append):
        privacy_release.ingest(str(tmp_path / "parts"), spec.data_schema(), work, columns=spec.source.columns)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_publishing_tells_how_many_of_the_records_are_written(
    staged: StagedRelease, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.lake.rows._AT_ONCE", 0)  # in batches, as a large release
    monkeypatch.setattr("privacy_release.lake.rows._BATCH", 50)
    shares: list[float] = []
    report = privacy_release.verify_staged(staged, policy())
    with reporting_to(shares.append):
        privacy_release.publish_staged(staged, report, lake.table("people"), "r1")
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_a_release_is_the_same_bytes_whether_anybody_listens_or_not(table: Table, work: WorkArea) -> None:
    shares: list[float] = []
    with reporting_to(shares.append):
        heard = privacy_release.make_release(
            table, work, method="bottom_up", parameters={"k": 5}, seed=3, label="heard"
        )
    unheard = privacy_release.make_release(table, work, method="bottom_up", parameters={"k": 5}, seed=3)
    assert heard.sha256 == unheard.sha256
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 5


def test_policy_stricter_than_the_method_is_reported_and_refused(staged: StagedRelease, lake: Lake) -> None:
    report = privacy_release.verify_staged(staged, policy({"model": "k_anonymity", "k": 50}))
    assert not report.passed
    with pytest.raises(VerificationError, match=r"k_anonymity\(k=50\) measured .*missed by"):
        privacy_release.raise_if_failed(report)
    with pytest.raises(VerificationError):
        privacy_release.publish_staged(staged, report, lake.table("people"), "r1")
    assert privacy_release.releases(lake.table("people")) == []


def test_class_of_k_minus_one_in_the_staged_file_is_found(staged: StagedRelease) -> None:
    report = privacy_release.verify_staged(tampered(staged, one_class_smaller), policy())
    (finding,) = [f for f in report.findings if not f["passed"]]
    assert (finding["measured"], finding["failing_classes"], finding["failing_rows"]) == (4, 1, 4)


def test_class_without_l_values_in_the_staged_file_is_found(staged: StagedRelease) -> None:
    def same_illness(released: pd.DataFrame) -> pd.DataFrame:
        first = (released[QUASI] == released.loc[0, QUASI]).all(axis=1)
        return released.assign(illness=released["illness"].mask(first, "flu"))

    report = privacy_release.verify_staged(tampered(staged, same_illness), policy())
    assert [f["rule"].partition("(")[0] for f in report.findings if not f["passed"]] == [
        "distinct_l_diversity"
    ]


def test_limit_on_loss_is_compared_with_the_figures(staged: StagedRelease) -> None:
    report = privacy_release.verify_staged(staged, policy(K, max_gcp=1e-6))
    assert [f["rule"] for f in report.findings if not f["passed"]] == ["max_gcp"]


def test_identifier_in_the_staged_file_is_refused(staged: StagedRelease) -> None:
    leaked = tampered(staged, lambda released: released.assign(name="x"))
    with pytest.raises(VerificationError, match=r"\['name'\] are not in the schema"):
        privacy_release.verify_staged(leaked, policy())


def test_staged_file_that_changed_before_verification_is_refused(staged: StagedRelease) -> None:
    tampered(staged, one_class_smaller)
    with pytest.raises(IntegrityError, match="changed between two steps"):
        privacy_release.verify_staged(staged, policy())


def test_staged_file_that_changes_while_it_is_counted_is_refused(
    staged: StagedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = verify.verify_files

    def counted_meanwhile(*given: Any, **more: Any) -> Any:
        found = count(*given, **more)
        tampered(staged, one_class_smaller)
        return found

    monkeypatch.setattr(verify, "verify_files", counted_meanwhile)
    with pytest.raises(IntegrityError, match="changed between two steps"):
        privacy_release.verify_staged(staged, policy())


def test_a_report_that_fails_without_a_reason_fails() -> None:
    report = ReportRef(passed=False, sha256="0" * 64, rows=9, classes=1, findings=[KEPT], policy={})
    verify.raise_if_failed(replace(report, passed=True))
    with pytest.raises(VerificationError, match="does not pass, but it has no failed finding"):
        verify.raise_if_failed(report)


@pytest.mark.parametrize("number", [1, 2])
def test_no_people_are_counted_where_a_class_tells_a_counterfeit(number: int, tmp_path: Path) -> None:
    for name, numbers in {"with": [0, number], "without": [0, 0]}.items():
        pd.DataFrame({COUNTERFEITS: numbers}).to_parquet(tmp_path / name)
    verify.require_no_counterfeits([str(tmp_path / "without")])
    with pytest.raises(VerificationError, match=r"1 record is in classes with counterfeits"):
        verify.require_no_counterfeits([str(tmp_path / "without"), str(tmp_path / "with")])


def test_released_text_is_searched_in_every_file(tmp_path: Path) -> None:
    notes = {"first": "better", "second": "see www.example.org/p/7", "third": "worse"}
    for name, note in notes.items():
        pd.DataFrame({"note": [note]}).to_parquet(tmp_path / name)
    schema = DataSchema.from_dict({"note": {"role": "insensitive", "kind": "categorical"}})
    files, rules = [str(tmp_path / name) for name in notes], policy(K, columns={"clean_text": True})
    (found,) = verify.text_findings(files, schema, rules)
    assert (found.rule, found.failing_rows) == ("columns: clean_text as released in note, url", 1)
    (clean,) = verify.text_findings(files[::2], schema, rules)
    assert clean.passed


def test_staged_file_that_changed_after_verification_is_refused(staged: StagedRelease, lake: Lake) -> None:
    report = privacy_release.verify_staged(staged, policy())
    tampered(staged, one_class_smaller)
    with pytest.raises(IntegrityError, match="must have the recorded sha256"):
        privacy_release.publish_staged(staged, report, lake.table("people"), "r1")
    assert privacy_release.releases(lake.table("people")) == []


def test_report_on_other_bytes_is_refused(staged: StagedRelease, lake: Lake) -> None:
    stale = privacy_release.verify_staged(staged, policy())
    changed = tampered(staged, lambda released: released.iloc[::-1])
    with pytest.raises(IntegrityError, match="verified bytes"):
        privacy_release.publish_staged(changed, stale, lake.table("people"), "r1")


def test_report_that_was_edited_to_pass_is_refused(staged: StagedRelease, lake: Lake) -> None:
    report = privacy_release.verify_staged(staged, policy({"model": "k_anonymity", "k": 50}))
    report = replace(report, passed=True)
    with pytest.raises(VerificationError):
        privacy_release.publish_staged(staged, report, lake.table("people"), "r1")


def test_ingested_file_that_changed_is_refused(table: Table, work: WorkArea) -> None:
    Path(table.uri).write_bytes(b"PAR1")
    with pytest.raises(IntegrityError, match="recorded sha256"):
        privacy_release.make_release(table, work, method="mondrian")


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("mondrian", {"k": 1}, "k must be >= 2, got 1"),
        ("mondrian", {"kk": 5}, "unknown parameters"),
        ("none", {}, "method must be one of"),
        ("mondrian", {"require": [{"model": "none"}]}, "release: "),
    ],
)
def test_wrong_method_or_parameter_is_named(
    table: Table, work: WorkArea, method: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        privacy_release.make_release(table, work, method=method, parameters=parameters)


def test_fewer_records_than_k_is_infeasible_and_stages_nothing(table: Table, work: WorkArea) -> None:
    with pytest.raises(InfeasibleError, match="200"):
        privacy_release.make_release(table, work, method="mondrian", parameters={"k": 201})
    assert not work.path("staged.parquet").exists()


def test_fewer_sensitive_values_than_l_is_infeasible(table: Table, work: WorkArea) -> None:
    with pytest.raises(InfeasibleError):
        privacy_release.make_release(table, work, method="mondrian", parameters={"k": 5, "l": 5})


def test_hierarchy_that_misses_a_value_is_named_by_column_and_count(home: Path, work: WorkArea) -> None:
    (home / "hierarchies" / "zip.csv").write_text("N1;north;*\nN2;north;*\nS1;south;*\n")
    spec = load_spec(home / "releases" / "people.yaml")
    with pytest.raises(SchemaError, match="zip: the hierarchy misses 1 distinct value in") as caught:
        privacy_release.ingest(spec.source.uri, spec.data_schema(), work, columns=spec.source.columns)
    assert "S2" not in str(caught.value)


def test_unreachable_lake_keeps_everything_for_a_retry(
    staged: StagedRelease, tmp_path: Path, lake: Lake
) -> None:
    report = privacy_release.verify_staged(staged, policy())
    Path(lake.root).write_text("a file stands where the lake should be")
    with pytest.raises(PublishError, match="check the lake"):
        privacy_release.publish_staged(staged, report, lake.table("people"), "r1")
    Path(lake.root).unlink()
    assert privacy_release.publish_staged(staged, report, lake.table("people"), "r1").already is False


def test_failed_run_leaves_the_previous_release_readable(staged: StagedRelease, lake: Lake) -> None:
    report = privacy_release.verify_staged(staged, policy())
    privacy_release.publish_staged(staged, report, lake.table("people"), "r1")
    worse = tampered(staged, one_class_smaller)
    with pytest.raises(VerificationError):
        privacy_release.publish_staged(
            worse, privacy_release.verify_staged(worse, policy()), lake.table("people"), "r2"
        )
    assert privacy_release.read_release(lake.table("people"), "r1").num_rows == 200
    assert [entry["release_id"] for entry in privacy_release.releases(lake.table("people"))] == ["r1"]
