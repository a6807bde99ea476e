"""Releases whose rows stay linked: from the source to the lake, and what must not pass on the way."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

import privacy_release
from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.cli.main import DONE, REFUSED, main
from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.people import write_people
from privacy_release.workarea.references import StagedRelease
from tests.privacy_release.steps.test_persons import CANARY, FIELDS, ingested, specified, visits
from tests.staged import Kept, kept

LINKED = {"column": "patient", "rows": "linked"}
SCHEMA = DataSchema.from_dict({**FIELDS, "person": LINKED})
POLICY = ReleasePolicy(require=(KAnonymity(k=10), DistinctLDiversity(l=3)))


@pytest.fixture
def source(tmp_path: Path) -> str:
    visits().to_parquet(tmp_path / "visits.parquet", index=False)
    return str(tmp_path / "visits.parquet")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("staged")
    visits().to_parquet(path := folder / "visits.parquet", index=False)

    def stage(work: WorkArea) -> StagedRelease:
        table = privacy_release.ingest(str(path), SCHEMA, work)
        return make_release(table, work, method="mondrian", parameters={"k": 10, "l": 3}, seed=7)

    return kept(folder, stage)


@pytest.fixture
def staged(once: Kept, work: WorkArea) -> StagedRelease:
    return once.copy(work)


def with_records(staged: StagedRelease, frame: pd.DataFrame) -> StagedRelease:
    """Other bytes in the place of the staged ones, with all hashes set right."""
    sha256 = write_private(Path(staged.uri), parquet_bytes(frame))
    people = replace(staged.people, of=sha256)
    return replace(staged, sha256=sha256, people=people)


def test_every_published_class_has_k_trajectories_by_a_plain_query(
    staged: StagedRelease, work: WorkArea
) -> None:
    report = verify_staged(staged, POLICY)
    assert report.passed
    smallest, classes, persons = duckdb.sql(
        f"""
        WITH ways AS (
            SELECT patient, list_sort(list((age_from, age_to, district))) AS way
            FROM read_parquet('{staged.uri}') GROUP BY patient
        ),
        classes AS (SELECT count(*) AS persons FROM ways GROUP BY way)
        SELECT min(persons), count(*), sum(persons)::INT FROM classes
        """
    ).fetchall()[0]
    assert smallest >= 10
    assert (report.findings[0]["measured"], report.classes) == (smallest, classes)
    assert report.persons == persons == 200
    manifest = json.loads(Path(staged.manifest).read_bytes())
    assert manifest["person"] == {**LINKED, "sha256": staged.people.sha256}
    assert manifest["classes"] == classes
    assert manifest["columns"]["patient"] == {"role": "insensitive", "kind": "categorical"}
    assert not list(work.folder.glob("*.by_person.parquet"))


def test_pseudonyms_are_neither_identifiers_nor_the_numbers_of_the_run(
    staged: StagedRelease, source: str, work: WorkArea
) -> None:
    names = set(pq.read_table(staged.uri)["patient"].to_pylist())
    numbers = pq.read_table(ingested(source, work).uri)["patient"].to_pylist()
    assert len(names) == 200
    assert not names & set(map(str, numbers))
    assert not any(CANARY.encode() in path.read_bytes() for path in work.folder.rglob("*") if path.is_file())


def test_the_report_tells_of_linked_rows(staged: StagedRelease) -> None:
    text = Path(staged.report).read_text()
    assert "The rows of a person are linked" in text
    assert "persons who look alike; " in text


def test_a_row_moved_to_another_pseudonym_fails(staged: StagedRelease) -> None:
    frame = pd.read_parquet(staged.uri)
    frame.loc[0, "patient"] = frame["patient"].iloc[-1]
    with pytest.raises(VerificationError, match="200 pseudonyms of 200 persons in 201 pairs"):
        verify_staged(with_records(staged, frame), POLICY)


def test_a_person_split_over_two_pseudonyms_fails(staged: StagedRelease) -> None:
    frame = pd.read_parquet(staged.uri)
    frame.loc[0, "patient"] = "aaaaaaaa"
    with pytest.raises(VerificationError, match="201 pseudonyms of 200 persons"):
        verify_staged(with_records(staged, frame), POLICY)


def test_two_persons_of_one_pseudonym_fail(staged: StagedRelease) -> None:
    frame = pd.read_parquet(staged.uri)
    first, last = frame["patient"].iloc[[0, -1]]
    with pytest.raises(VerificationError, match="199 pseudonyms of 200 persons"):
        verify_staged(with_records(staged, frame.replace({"patient": {last: first}})), POLICY)


def test_a_cell_of_one_trajectory_changed_fails(staged: StagedRelease) -> None:
    frame = pd.read_parquet(staged.uri)
    frame.loc[0, "district"] = "{a, b, c, d}"
    report = verify_staged(with_records(staged, frame), POLICY)
    assert not report.passed
    assert report.findings[0]["measured"] == 1


def test_without_its_persons_a_staged_release_is_not_verified(staged: StagedRelease) -> None:
    alone = replace(staged, people=None)
    with pytest.raises(IntegrityError, match="must be stored with the staged records"):
        verify_staged(alone, POLICY)


def test_persons_of_another_length_are_refused(staged: StagedRelease) -> None:
    path = Path(staged.people.uri)
    few = write_people(np.arange(staged.rows - 1), path.with_name("few.parquet"), staged.sha256)
    with pytest.raises(IntegrityError, match="one person per"):
        verify_staged(replace(staged, people=few), POLICY)


def test_a_pseudonym_planted_into_independent_rows_fails(source: str, work: WorkArea) -> None:
    independent = DataSchema.from_dict({**FIELDS, "person": "patient"})
    table = privacy_release.ingest(source, independent, work)
    made = make_release(table, work, method="mondrian", parameters={"k": 10, "l": 3}, seed=7)
    frame = pd.read_parquet(made.uri)
    planted = frame.assign(patient=pq.read_table(made.people.uri)["person"].to_numpy())
    with pytest.raises(VerificationError, match=r"identifiers|not in the schema"):
        verify_staged(with_records(made, planted), POLICY)


def test_fragments_are_refused(source: str, work: WorkArea) -> None:
    engine = read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1})
    table = privacy_release.ingest(source, SCHEMA, work, engine=engine)
    with pytest.raises(SpecError, match="cannot be linked with engine fragments"):
        make_release(table, work, method="mondrian", parameters={"k": 10})


@pytest.mark.parametrize("method", ["errph", "latent_class"])
def test_methods_without_classes_are_refused_before_a_budget_is_asked(
    source: str, work: WorkArea, method: str
) -> None:
    table = privacy_release.ingest(source, SCHEMA, work)
    with pytest.raises(
        SpecError, match="cannot be linked with a budget or random answers, which make no classes"
    ):
        make_release(table, work, method=method)


@pytest.fixture
def linked(home: Path) -> Path:
    """The specification of a release about people of whom each comes one to three times."""
    people = pd.read_parquet(home / "people.parquet")
    later = [people.sample(frac=share, random_state=i) for i, share in enumerate((0.6, 0.4))]
    pd.concat([people, *later]).to_parquet(home / "people.parquet", index=False)
    return specified(home, person={"column": "name", "rows": "linked"})


def recounted(table: pd.DataFrame) -> list[int]:
    ways: dict[str, Counter[Any]] = defaultdict(Counter)
    for name, *cells in table[["name", "age_from", "age_to", "zip"]].itertuples(index=False):
        ways[name][tuple(cells)] += 1
    return list(Counter(frozenset(way.items()) for way in ways.values()).values())


def test_a_release_of_linked_rows_reaches_the_lake_and_is_verified_there(
    linked: Path, home: Path, lake: Lake, work: WorkArea, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = yaml.safe_load((home / "policies" / "people.yaml").read_text()) | {"max_suppressed": 0.5}
    (home / "policies" / "people.yaml").write_text(yaml.safe_dump(policy))
    run_release(load_spec(linked), lake, "1", work)
    published = read_release(lake.table("people"), "1").to_pandas()
    assert min(recounted(published)) >= 5
    assert published["name"].nunique() == 200
    assert not published["name"].str.startswith("person").any()
    copy, requested = tmp_path / "copy.parquet", home / "asked.yaml"
    requested.write_text(yaml.safe_dump({"require": policy["require"]}))
    arguments = ["verify", str(copy), "--policy", str(requested), "--schema", str(linked)]
    published[["name", "age_from", "age_to", "zip", "illness", "visits"]].to_parquet(copy, index=False)
    assert main(arguments) == DONE
    moved = published[["name", "age_from", "age_to", "zip", "illness", "visits"]].iloc[1:]
    moved.to_parquet(copy, index=False)
    assert main(arguments) == REFUSED
    assert "FAILED    k_anonymity(k=5)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"history": {"identifier": "name"}}, "linked with history"),
        ({"engine": "fragments"}, "linked with engine fragments"),
        (
            {"release": {"method": "latent_class", "epsilon": 1}, "budget": {"dataset": "people"}},
            "linked with a budget",
        ),
        ({"person": {"none": "households", "rows": "linked"}}, "can only be linked if person.column"),
        ({"person": {"column": "name", "rows": "both"}}, "independent"),
        ({"person": {"column": "zip", "rows": "linked"}}, "role identifier"),
    ],
)
def test_linked_rows_that_do_not_fit_are_refused(home: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_spec(specified(home, **{"person": {"column": "name", "rows": "linked"}} | fields))
