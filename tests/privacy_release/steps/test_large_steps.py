"""The steps on a table that an engine works on: as on any other, but nothing loads it, or they say so."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.dp.limits import Limit
from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget.budget import Budget
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.files import load_policy
from privacy_release.steps import verify as verify_step
from privacy_release.steps.approval_question import question
from privacy_release.steps.approval_text import body
from privacy_release.workarea import parquet as parquet_files
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import open_engine, read_engine
from privacy_release.workarea.references import StagedRelease, Table, plain
from tests.ledgers import new_ledger
from tests.staged import Kept, ingested, people
from tests.tables import SPENDING

K, L = {"model": "k_anonymity", "k": 5}, {"model": "distinct_l_diversity", "l": 2, "attribute": "illness"}
T = {"model": "t_closeness", "t": 0.9, "attribute": "illness"}
QUASI = ["age_from", "age_to", "zip"]  # as they are released
FRAGMENTS = read_engine("fragments")


@pytest.fixture
def table(home: Path, work: WorkArea) -> Table:
    return ingested(home, work, FRAGMENTS)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return people(tmp_path_factory.mktemp("staged"))


@pytest.fixture
def small(once: Kept, work: WorkArea) -> StagedRelease:
    """A release of the table that was made, and is worked on, in memory."""
    return once.copy(work)


@pytest.fixture
def staged(small: StagedRelease) -> StagedRelease:
    """The same release, as an engine works on it."""
    return replace(small, engine=FRAGMENTS)


@pytest.fixture
def unloaded(staged: StagedRelease, monkeypatch: pytest.MonkeyPatch) -> StagedRelease:
    """The same release, where no step may read a whole Parquet file."""

    def load(path: Path) -> bytes:
        if path.suffix == ".parquet":
            raise AssertionError(f"{path.name} was loaded")
        return read(path)

    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", load)
    return staged


def policy(*require: dict[str, Any], **limits: float) -> ReleasePolicy:
    return load_policy({"require": list(require), **limits})


def rewritten(staged: StagedRelease, change: Callable[[pd.DataFrame], pd.DataFrame]) -> StagedRelease:
    """Other staged bytes, with their true hash: what a faulty method would have made."""
    path = Path(staged.uri)
    data = parquet_files.parquet_bytes(change(pq.read_table(path).to_pandas()))
    return replace(staged, sha256=parquet_files.write_private(path, data))


def test_an_engine_finds_what_verification_in_memory_finds(
    unloaded: StagedRelease, small: StagedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = policy(K, L, T, max_gcp=0.9, max_suppressed=0.1)
    found = privacy_release.verify_staged(unloaded, requested)
    monkeypatch.undo()
    assert found == privacy_release.verify_staged(small, requested)
    assert found.passed


def test_a_class_that_is_too_small_is_found_and_not_published(staged: StagedRelease, lake: Lake) -> None:
    def without_most_of_a_class(released: pd.DataFrame) -> pd.DataFrame:
        first = released[QUASI].eq(released[QUASI].iloc[0]).all(axis="columns")
        return released.drop(index=released.index[first][:-1])

    staged = rewritten(staged, without_most_of_a_class)
    report = privacy_release.verify_staged(staged, policy(K, L))
    assert [finding["passed"] for finding in report.findings] == [False, False]
    with pytest.raises(VerificationError, match="k_anonymity"):
        privacy_release.publish_staged(staged, report, lake.table("people"), "a")
    assert not releases(lake.table("people"))


def test_a_staged_file_that_changed_is_not_verified(staged: StagedRelease) -> None:
    path = Path(staged.uri)
    path.write_bytes(path.read_bytes() + b"?")
    with pytest.raises(IntegrityError, match=r"staged\.parquet must have the recorded sha256"):
        privacy_release.verify_staged(staged, policy(K))


def test_a_staged_file_that_changes_while_the_engine_reads_it_is_not_verified(
    staged: StagedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def meddled(*given: Any) -> Iterator[Any]:
        with open_engine(*given) as engine:
            yield engine
        with Path(staged.uri).open("r+b") as stream:
            stream.seek(-1, os.SEEK_END)
            stream.write(b"?")

    monkeypatch.setattr(verify_step, "open_engine", meddled)
    with pytest.raises(IntegrityError, match="changed between two steps"):
        privacy_release.verify_staged(staged, policy(K))


def test_an_engine_leaves_nothing_in_the_work_area(staged: StagedRelease, work: WorkArea) -> None:
    before = set(work.folder.iterdir())
    privacy_release.verify_staged(staged, policy(K))
    assert set(work.folder.iterdir()) == before


def test_policies_across_releases_are_refused_where_no_one_knows_the_persons(
    staged: StagedRelease, lake: Lake
) -> None:
    across = policy(K, {"model": "m_invariance", "m": 2, "attribute": "illness"})
    with pytest.raises(VerificationError, match="records are not known"):
        privacy_release.verify_staged(staged, across, table=lake.table("people"))


def test_columns_that_are_not_in_the_schema_are_refused(staged: StagedRelease) -> None:
    staged = rewritten(staged, lambda released: released.assign(name="canary"))
    with pytest.raises(VerificationError, match="name") as caught:
        privacy_release.verify_staged(staged, policy(K))
    assert "canary" not in str(caught.value)


def test_verified_rows_are_published_without_loading_them(
    unloaded: StagedRelease, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = unloaded
    report = privacy_release.verify_staged(staged, policy(K, L))
    assert "first release" in body(question(staged, report, lake.table("people"), "a"), "dag", "run")
    done = privacy_release.publish_staged(staged, report, lake.table("people"), "a", run_key="run 1")
    again = privacy_release.publish_staged(staged, report, lake.table("people"), "a", run_key="run 1")
    monkeypatch.undo()
    assert (done.rows, done.already, again.already) == (staged.rows, False, True)
    assert again.version == done.version
    names = list(pq.read_schema(staged.uri).names)
    published = read_release(lake.table("people"), "a").to_pandas().sort_values(names, ignore_index=True)
    expected = pq.read_table(staged.uri).to_pandas().sort_values(names, ignore_index=True)
    pd.testing.assert_frame_equal(published, expected)


def test_a_file_that_changed_after_verification_is_not_published(staged: StagedRelease, lake: Lake) -> None:
    report = privacy_release.verify_staged(staged, policy(K, L))
    rewritten(staged, lambda released: released.assign(visits=0))
    with pytest.raises(IntegrityError, match="recorded sha256"):
        privacy_release.publish_staged(staged, report, lake.table("people"), "a")
    assert not releases(lake.table("people"))


def test_a_report_about_other_bytes_is_refused(staged: StagedRelease, lake: Lake) -> None:
    report = privacy_release.verify_staged(staged, policy(K, L))
    report = replace(report, sha256="0" * 64)
    with pytest.raises(IntegrityError, match="verified bytes"):
        privacy_release.publish_staged(staged, report, lake.table("people"), "a")


@pytest.mark.parametrize("action", ["set_aside", "suppress"])
def test_outliers_go_before_a_release_in_fragments(table: Table, work: WorkArea, action: str) -> None:
    left = privacy_release.detect_outliers(
        table, work, method="lof", parameters={"top": 7}, action=action, max_share=0.5
    )
    assert (left.engine, left.rows) == (FRAGMENTS, table.rows - 7)
    staged = privacy_release.make_release(
        left, work, method="mondrian", parameters={"k": 5, "l": 2}, seed=7, label="without"
    )
    manifest = staged.read_manifest()
    assert (staged.rows, manifest.outliers[0].removed) == (table.rows - 7, 7)
    assert manifest.suppressed == (7 if action == "suppress" else 0)
    assert privacy_release.verify_staged(staged, policy(K, L)).passed


def test_random_answers_with_an_engine_are_those_without(
    people: pd.DataFrame, work: WorkArea, tmp_path: Path
) -> None:
    people[list(PRIVATE)].to_parquet(tmp_path / "private.parquet")
    table = privacy_release.ingest(
        str(tmp_path / "private.parquet"), DataSchema.from_dict(PRIVATE), work, engine=FRAGMENTS
    )
    without = replace(table, engine=None)
    parameters = {"p_0": 0.7, "randomness": "seeded"}
    found = [
        privacy_release.make_release(given, work, method="errph", parameters=parameters, seed=3, label=label)
        for given, label in ((table, "with"), (without, "without"))
    ]
    assert found[0].sha256 == found[1].sha256
    assert found[0].engine == FRAGMENTS


def test_references_of_large_tables_are_plain_and_hold_no_record(
    table: Table, staged: StagedRelease, people: pd.DataFrame
) -> None:
    text = json.dumps(plain([table, staged]))
    assert not [name for name in people["name"] if name in text]


PRIVATE = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "illness": {"role": "sensitive", "categories": ["cold", "cough", "flu", "measles"]},
}


@pytest.fixture
def paid(tmp_path: Path, people: pd.DataFrame, work: WorkArea) -> tuple[StagedRelease, BudgetLedger]:
    """A differentially private release of a table that an engine works on, and the ledger that paid."""
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    people[list(PRIVATE)].to_parquet(tmp_path / "private.parquet")
    table = privacy_release.ingest(
        str(tmp_path / "private.parquet"),
        DataSchema.from_dict(PRIVATE),
        work,
        label="private",
        engine=FRAGMENTS,
    )
    staged = privacy_release.make_release(
        table,
        work,
        method="privbayes",
        parameters={"epsilon": 0.5},
        policy=SPENDING,
        budget=Budget(dataset="people", run="people/run 1", ledger=ledger),
    )
    return staged, ledger


def test_a_private_release_with_an_engine_is_compared_with_its_ledger_and_published(
    paid: tuple[StagedRelease, BudgetLedger], lake: Lake
) -> None:
    staged, ledger = paid
    requested = policy(max_epsilon=0.5)
    report = privacy_release.verify_staged(staged, requested, ledger)
    in_memory = replace(staged, engine=None)
    assert staged.engine is not None
    assert report == privacy_release.verify_staged(in_memory, requested, ledger)
    assert report.passed
    done = privacy_release.publish_staged(staged, report, lake.table("people"), "a")
    assert read_release(lake.table("people"), "a").num_rows == done.rows == staged.rows
    with pytest.raises(SpecError, match="ledger"):
        privacy_release.verify_staged(staged, requested)


def test_a_value_outside_of_its_public_domain_is_found_in_the_last_part(
    paid: tuple[StagedRelease, BudgetLedger],
) -> None:
    staged, ledger = paid

    def with_canary(released: pd.DataFrame) -> pd.DataFrame:
        released.loc[len(released) - 1, "illness"] = "X9-canary"
        return released

    report = privacy_release.verify_staged(rewritten(staged, with_canary), policy(max_epsilon=0.5), ledger)
    failed = [finding for finding in report.findings if not finding["passed"]]
    assert [(f["rule"], f["measured"]) for f in failed] == [
        ("values of illness outside of its public domain", 1)
    ]
    assert "X9-canary" not in json.dumps(report.to_ref())
