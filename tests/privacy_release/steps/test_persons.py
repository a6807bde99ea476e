"""Releases of tables with many rows a person: from the source to the verified bytes, whole and in parts."""

import json
import tempfile
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
from privacy_engine.errors import IntegrityError, SchemaError, SpecError, VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.read import releases
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.steps.producers import fragment_join
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.file_sets import files_of
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.references import EngineRef, StagedRelease, Table
from tests.servers.pages import Page

CANARY = "canary-of-a-patient"
FIELDS: dict[str, Any] = {
    "patient": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "district": {"role": "quasi_identifier", "categories": ["a", "b", "c"]},
    "illness": {"role": "sensitive"},
}
SCHEMA = DataSchema.from_dict({**FIELDS, "person": "patient"})
POLICY = ReleasePolicy(require=(KAnonymity(k=10), DistinctLDiversity(l=3)))
ENGINES = {
    "local": None,
    "fragments": read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1}),
}


def visits(rows: int = 2_500, persons: int = 200) -> pd.DataFrame:
    """Age and district of a patient do not change from visit to visit."""
    rng = np.random.default_rng(5)
    patient = rng.integers(0, persons, rows)
    age, district = rng.integers(20, 90, persons), rng.choice(["a", "b", "c"], persons)
    return pd.DataFrame(
        {
            "patient": [f"{CANARY}-{i}" for i in patient],
            "age": age[patient],
            "district": district[patient],
            "illness": rng.choice(list("uvwxyz"), rows),
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> str:
    visits().to_parquet(tmp_path / "visits.parquet", index=False)
    return str(tmp_path / "visits.parquet")


def ingested(source: str, work: WorkArea, engine: EngineRef | None = None) -> Table:
    return privacy_release.ingest(source, SCHEMA, work, engine=engine)


def staged_by(table: Table, work: WorkArea) -> StagedRelease:
    return make_release(table, work, method="mondrian", parameters={"k": 10, "l": 3}, seed=7)


def test_the_work_area_knows_persons_by_numbers_alone(source: str, work: WorkArea) -> None:
    table = ingested(source, work)
    kept = pq.read_table(table.uri).to_pandas()
    reported = visits()["patient"]
    assert kept.groupby(reported)["patient"].nunique().eq(1).all()
    assert kept["patient"].nunique() == reported.nunique()
    assert not any(CANARY.encode() in path.read_bytes() for path in work.folder.rglob("*") if path.is_file())


def test_two_runs_know_the_same_person_by_other_numbers(source: str, work: WorkArea, tmp_path: Path) -> None:
    with WorkArea(tmp_path / "other", "run 2") as other:
        both = [pq.read_table(ingested(source, area).uri)["patient"] for area in (work, other)]
    assert not set(both[0].to_pylist()) & set(both[1].to_pylist())


@pytest.mark.quick("fragments")  # `contract/test_persons` has the other
@pytest.mark.parametrize("engine", ENGINES)
def test_every_published_class_has_k_persons_by_a_plain_query(
    source: str, work: WorkArea, engine: str
) -> None:
    table = ingested(source, work, ENGINES[engine])
    staged = staged_by(table, work)
    report = verify_staged(staged, POLICY)
    assert report.passed
    assert report.persons == 200
    released, people = staged.uri, staged.people.uri
    smallest, fewest = duckdb.sql(
        f"""
        WITH joined AS (
            SELECT age_from, age_to, district, illness, person
            FROM read_parquet('{released}', file_row_number = true)
            JOIN read_parquet('{people}', file_row_number = true) USING (file_row_number)
        )
        SELECT min(persons), min(illnesses) FROM (
            SELECT count(DISTINCT person) AS persons, count(DISTINCT illness) AS illnesses
            FROM joined GROUP BY age_from, age_to, district
        )
        """
    ).fetchall()[0]
    assert smallest >= 10
    assert fewest >= 3
    assert report.findings[0]["measured"] == smallest
    manifest = json.loads(Path(staged.manifest).read_bytes())
    assert manifest["person"] == {"column": "patient", "sha256": staged.people.sha256}
    assert "patient" not in pq.read_schema(released).names
    assert not list(work.folder.glob("*.by_person.parquet"))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_report_speaks_of_persons(source: str, work: WorkArea, engine: str) -> None:
    staged = staged_by(ingested(source, work, ENGINES[engine]), work)
    text = Page(Path(staged.report).read_text()).text
    for reported in (
        "with records of at least 10 persons, its own included",
        "persons with at least 3 distinct sets of them",
        "Several known rows of a person",
        "persons who look alike; ",
    ):
        assert reported in text
    assert "with at least 10 records" not in text


def test_both_ways_report_the_same_of_the_same_bytes(source: str, work: WorkArea) -> None:
    staged = staged_by(ingested(source, work), work)
    apart = replace(staged, engine=ENGINES["fragments"])
    assert verify_staged(apart, POLICY) == verify_staged(staged, POLICY)


def test_persons_of_a_set_of_files_are_those_of_its_records(
    source: str, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ingested(source, work, ENGINES["fragments"])
    one = staged_by(table, work)
    expected = verify_staged(one, POLICY)
    whole = (
        read_private(one.uri, one.sha256),
        read_private(one.people.uri, one.people.sha256),
    )
    monkeypatch.setattr(fragment_join, "ROWS_OF_A_FILE", 1_000)
    several = staged_by(table, work)
    people = several.people
    assert [len(files_of(ref.uri, ref.sha256)) for ref in (several, people)] == [3, 3]
    assert read_private(several.uri, several.sha256).equals(whole[0])
    assert "patient" not in whole[0]
    # equal records may have changed their places, each with its person
    pairs = [
        pd.concat([whole[0], found], axis=1) for found in (whole[1], read_private(people.uri, people.sha256))
    ]
    first, second = (sorted(map(str, found.itertuples(index=False))) for found in pairs)
    assert first == second
    assert verify_staged(several, POLICY) == replace(expected, sha256=several.sha256)
    part = list(files_of(people.uri, people.sha256))[2]
    part.unlink()
    with pytest.raises(IntegrityError):
        verify_staged(several, POLICY)


def test_a_release_by_rows_fails_by_persons(source: str, work: WorkArea) -> None:
    by_rows = DataSchema.from_dict({**FIELDS, "person": {"none": "for the test alone"}})
    table = privacy_release.ingest(source, by_rows, work, label="rows")
    staged = staged_by(table, work)
    assert verify_staged(staged, POLICY).passed
    manifest = json.loads(Path(staged.manifest).read_bytes())
    assert manifest["person"] == {"none": "for the test alone"}


def test_persons_of_other_records_are_refused(source: str, work: WorkArea) -> None:
    staged = staged_by(ingested(source, work), work)
    others = replace(staged, people=replace(staged.people, of="0" * 64))
    with pytest.raises(IntegrityError, match="persons of the staged records"):
        verify_staged(others, POLICY)


def test_persons_that_changed_or_are_too_few_are_refused(source: str, work: WorkArea) -> None:
    from privacy_release.workarea.people import write_people

    staged = staged_by(ingested(source, work), work)
    path = Path(staged.people.uri)
    few = write_people(np.arange(staged.rows - 1), path.with_name("few.parquet"), staged.sha256)
    with pytest.raises(IntegrityError, match="one person per"):
        verify_staged(replace(staged, people=few), POLICY)
    write_people(np.arange(staged.rows), path, staged.sha256)
    with pytest.raises(IntegrityError, match="sha256"):
        verify_staged(staged, POLICY)


def test_without_its_persons_a_release_is_not_verified(source: str, work: WorkArea) -> None:
    staged = replace(staged_by(ingested(source, work), work), people=None)
    with pytest.raises(VerificationError, match="rows are not people"):
        verify_staged(staged, POLICY)


def test_an_identifier_that_repeats_stops_ingest_with_both_remedies(source: str, work: WorkArea) -> None:
    silent = DataSchema.from_dict(FIELDS)
    with pytest.raises(SchemaError, match="2,300 records repeat") as error:
        privacy_release.ingest(source, silent, work)
    assert "`person: patient`" in str(error.value)
    assert "`person: {none: <reason>}`" in str(error.value)
    assert CANARY not in str(error.value)
    assert not list(work.folder.glob("ingest*"))


@pytest.mark.parametrize("first", [True, False])
def test_names_that_people_share_are_not_advised_as_the_person(
    work: WorkArea, tmp_path: Path, first: bool
) -> None:
    """Advice to count first names as people would weaken k."""
    number = {"number": [1, 2, 3, 4]}
    names = {"given": ["Ann", "Ann", "Ann", "Bo"], "surname": ["Fox", "Fox", "Elk", "Hen"]}
    table: dict[str, Any] = {**number, **names} if first else {**names, **number}
    pd.DataFrame({**table, "age": [30, 40, 50, 60]}).to_parquet(tmp_path / "people.parquet")
    identifier = {"role": "identifier", "kind": "categorical"}
    age = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
    schema = DataSchema.from_dict({**dict.fromkeys(table, identifier), "age": age})
    with pytest.raises(SchemaError, match="given: 2 records repeat") as error:
        privacy_release.ingest(str(tmp_path / "people.parquet"), schema, work)
    assert "no value of number repeats. If it names people and not events" in str(error.value)
    assert "`person: number`; if surname names them" in str(error.value)
    assert "person: given" not in str(error.value)
    named = DataSchema.from_dict({**schema.to_dict(), "person": "number"})
    assert privacy_release.ingest(str(tmp_path / "people.parquet"), named, work).rows == 4


def test_an_identifier_that_repeats_is_found_over_files_and_beyond_memory(
    work: WorkArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.sources.identifiers._HELD", 10)
    folder = tmp_path / "parts"
    folder.mkdir()
    table = visits(60, 60).drop_duplicates("patient")
    for i, part in enumerate(np.array_split(np.arange(len(table)), 4)):
        table.iloc[part].to_parquet(folder / f"{i}.parquet", index=False)
    privacy_release.ingest(str(folder), DataSchema.from_dict(FIELDS), work, label="once")
    table.iloc[:3].to_parquet(folder / "5.parquet", index=False)
    opened, make = list[Any](), tempfile.TemporaryFile

    def recorded(**given: Any) -> Any:
        opened.append(make(**given))
        return opened[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", recorded)
    with pytest.raises(SchemaError, match="3 records repeat") as caught:
        privacy_release.ingest(str(folder), DataSchema.from_dict(FIELDS), work, label="twice")
    assert caught.tb is not None  # holds whatever is not closed
    assert len(opened) > 5
    assert all(file.closed for file in opened)


def test_a_record_of_no_one_is_refused_or_dropped(work: WorkArea, tmp_path: Path) -> None:
    table = visits()
    table.loc[:4, "patient"] = None
    table.to_parquet(tmp_path / "visits.parquet", index=False)
    with pytest.raises(SchemaError, match="patient: 5 records are without a person"):
        ingested(str(tmp_path / "visits.parquet"), work)
    left = privacy_release.ingest(str(tmp_path / "visits.parquet"), SCHEMA, work, nulls="drop")
    assert left.rows == len(table) - 5


def specified(home: Path, **fields: Any) -> Path:
    path = home / "releases" / "people.yaml"
    reported = yaml.safe_load(path.read_text()) | fields
    path.write_text(yaml.safe_dump({name: value for name, value in reported.items() if value is not None}))
    return path


@pytest.fixture
def repeated(home: Path) -> Path:
    """The release of `home`, about people of whom each comes three times."""
    people = pd.read_parquet(home / "people.parquet")
    pd.concat([people] * 3).to_parquet(home / "people.parquet", index=False)
    return home


def test_a_release_with_a_person_runs_from_its_specification(
    repeated: Path, lake: Lake, work: WorkArea
) -> None:
    run_release(load_spec(specified(repeated, person="name")), lake, "1", work)
    (published,) = releases(lake.table("people"))
    assert published["state"] == "current"


def test_without_a_person_it_stops(repeated: Path, lake: Lake, work: WorkArea) -> None:
    with pytest.raises(SchemaError, match="Rows are then not people"):
        run_release(load_spec(specified(repeated)), lake, "1", work)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"person": "zip"}, "role identifier"),
        ({"person": "unknown"}, "role identifier"),
        ({"person": "none"}, "needs a reason"),
        ({"person": {"none": "households", "column": "name"}}, "one of"),
        ({"person": "name", "history": {"identifier": "name"}}, "must be another identifier than person"),
        (
            {
                "person": "name",
                "release": {"method": "latent_class", "epsilon": 1},
                "budget": {"dataset": "people"},
            },
            "person must be bounded if a budget pays.*max_rows.*weight: person",
        ),
        (
            {
                "person": "name",
                "release": {"method": "errph", "epsilon": 1},
            },
            "combined with random answers",
        ),
    ],
)
def test_a_person_that_does_not_fit_is_refused(home: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_spec(specified(home, **fields))
