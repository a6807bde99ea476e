"""Releases of the same people over time, through the operators: who is in them is private, and looked at."""

import json
import stat
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException

from airflow_privacy_release import (
    DetectOutliersOperator,
    IngestParquetOperator,
    PublishOperator,
    ReleaseOperator,
    RetractOperator,
    VerifyOperator,
)
from airflow_privacy_release.pipeline import release_dag
from privacy_engine.attacks.difference import Difference
from privacy_engine.attacks.trial import Evidence, case_of, try_attack
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.normal import normal
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.republication.notes import NOT_JUDGED
from privacy_release.cli.main import main
from privacy_release.cli.text import manifest_lines
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.check import check_files
from privacy_release.spec.model import load_spec
from privacy_release.spec.reading import read_mapping
from privacy_release.steps.approval_question import question
from privacy_release.steps.approval_text import body, escaped
from privacy_release.steps.memberships.earlier import EarlierReleases
from privacy_release.steps.memberships.marks import marks_of
from privacy_release.steps.memberships.persons import PERSON, KnownPersons, Persons, write_persons
from privacy_release.steps.memberships.recording import staged_membership
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.people import Identification
from privacy_release.workarea.references import ReportRef, StagedRelease
from tests import tables
from tests.beginnings import Beginnings
from tests.privacy_release.steps.memberships.conftest import hashed

KEY = "a secret of the tests alone, long enough"
SCHEMA = {
    "patient": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 400]},
    "disease": {"role": "sensitive", "kind": "categorical"},
}
K10 = {"model": "k_anonymity", "k": 10}
ACROSS = {"model": "cross_release_k_anonymity", "k": 10}
SUBTRACTED = {"model": "republication", "k": 10, "m": 2}
INVARIANT = {"model": "m_invariance", "m": 2}


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key, and the folder of what is kept about people."""
    set_key(monkeypatch, KEY)
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


def set_key(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_MEMBERSHIP_DEFAULT", json.dumps({"conn_type": "generic", "password": key})
    )
    monkeypatch.setenv("PRIVACY_MEMBERSHIP_KEY", key)


def patients(ages: Any, first: int = 0) -> pd.DataFrame:
    """One patient an age; the disease follows the number of the patient, and both are in each class."""
    numbers = np.arange(first, first + len(ages))
    return pd.DataFrame(
        {
            "patient": [f"patient-{i:03d}" for i in numbers],
            "age": np.asarray(ages),
            "disease": np.array(["cold", "flu"])[(numbers + numbers // 16) % 2],
        }
    )


SORTED = np.arange(160)  # 16 classes of 10 neighbours
# The same people with other ages: two who shared a class share none now.
SHUFFLED = SORTED.reshape(16, 10).T.reshape(-1)


def context(task_id: str, run_id: str, partition: str | None = None) -> Any:
    task = SimpleNamespace(dag_id="people", run_id=run_id, task_id=task_id, map_index=-1)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace), "partition_key": partition}


class Runs:
    """Runs of one release through its operators."""

    def __init__(self, folder: Path, lake: Lake, beginnings: Beginnings) -> None:
        self.folder, self.lake, self.beginnings = folder, lake, beginnings

    def first(self, *rules: Any) -> None:
        """Release `patients(SORTED)` as `first`, once for all tests."""
        self.beginnings.after(
            ("operators", json.dumps(rules), hashed()),
            [Path(self.lake.root), self.folder / "curator"],
            lambda: self.release(patients(SORTED), "first", *rules),
        )

    def stage(self, table: pd.DataFrame, run_id: str, outliers: bool = False, **ingest: Any) -> Any:
        source = self.folder / f"{run_id}.parquet"
        table.to_parquet(source, index=False)
        given = {"person": "patient", "schema": SCHEMA, **ingest}
        read = IngestParquetOperator(task_id="ingest", uri=str(source), **given)
        at_hand = read.execute(context("ingest", run_id))
        if outliers:
            seek = DetectOutliersOperator(
                task_id="outliers",
                table=at_hand,
                method="okplof",
                parameters={"neighbours": 3, "top": 2},
                action="set_aside",
            )
            at_hand = seek.execute(context("outliers", run_id))
        make = ReleaseOperator(
            task_id="release", table=at_hand, method="mondrian", parameters={"k": 10, "l": 2}, seed=1
        )
        return make.execute(context("release", run_id))

    def register(self, ages: pd.DataFrame, run_id: str) -> Any:
        source = self.folder / f"register_{run_id}.parquet"
        ages.to_parquet(source, index=False)
        schema = {name: SCHEMA[name] for name in ("patient", "age")}
        read = IngestParquetOperator(task_id="register", uri=str(source), schema=schema, person="patient")
        return read.execute(context("register", run_id))

    def verify(
        self, staged: Any, run_id: str, *rules: Any, register: Any = None, accept: str | None = None
    ) -> Any:
        policy = {"require": [K10, *(rules or (ACROSS,))]}
        check = VerifyOperator(
            task_id="verify",
            table=staged,
            policy=policy,
            name="people",
            register=register,
            accept_unjudged=accept,
        )
        return check.execute(context("verify", run_id))

    def publish(self, staged: Any, report: Any, run_id: str, partition: str | None = None) -> Any:
        made = PublishOperator(task_id="publish", table=staged, report=report, name="people")
        return made.execute(context("publish", run_id, partition))

    def release(
        self, table: pd.DataFrame, run_id: str, *rules: Any, partition: str | None = None, **ingest: Any
    ) -> Any:
        staged = self.stage(table, run_id, **ingest)
        return self.publish(staged, self.verify(staged, run_id, *rules), run_id, partition)


@pytest.fixture
def runs(tmp_path: Path, airflow_lake: Lake, work_root: Path, beginnings: Beginnings) -> Runs:
    return Runs(tmp_path, airflow_lake, beginnings)


def kept(private: Path) -> list[Path]:
    return sorted(private.rglob("*.parquet"))


def test_releases_that_single_people_out_together_are_caught_before_the_second_is_published(
    runs: Runs, airflow_lake: Lake
) -> None:
    runs.first()
    assert runs.verify(runs.stage(patients(SHUFFLED), "alone"), "alone", K10)[
        "passed"
    ]  # by itself it is 10-anonymous
    with pytest.raises(
        AirflowFailException,
        match=r"cross_release_k_anonymity\(k=10.*\) measured 1, missed by 16 classes of together 160 rows",
    ):
        runs.release(patients(SHUFFLED), "second")
    assert [entry["release_id"] for entry in releases(airflow_lake.table("people"))] == ["first"]


def test_the_same_classes_may_be_published_again(runs: Runs, airflow_lake: Lake) -> None:
    runs.first(ACROSS, INVARIANT)
    runs.release(patients(SORTED), "second", ACROSS, INVARIANT)
    assert len(releases(airflow_lake.table("people"))) == 2


def test_other_people_may_be_published_beside_the_first(runs: Runs, airflow_lake: Lake) -> None:
    runs.first()
    runs.release(patients(SHUFFLED, first=500), "second")
    assert len(releases(airflow_lake.table("people"))) == 2


def test_sensitive_values_that_change_in_a_class_are_caught(runs: Runs, airflow_lake: Lake) -> None:
    table = patients(SORTED)
    runs.first(INVARIANT)
    changed = table.assign(disease=table["disease"].where(table["age"] != 5, "gout"))
    with pytest.raises(AirflowFailException, match=r"m_invariance\(m=2\) measured 0,"):
        runs.release(changed, "second", INVARIANT)


def test_late_data_are_a_new_version_of_their_partition_compared_with_the_one_it_replaces(
    runs: Runs, airflow_lake: Lake
) -> None:
    late = pd.concat([patients(SORTED), patients(SORTED + 160, first=160)], ignore_index=True)
    runs.release(patients(SORTED), "scheduled", partition="2026-11-01")
    runs.release(late, "backfill", partition="2026-11-01")
    states = [(entry["release_id"], entry["state"]) for entry in releases(airflow_lake.table("people"))]
    assert states == [("2026-11-01", "superseded"), ("2026-11-01", "current")]
    assert read_release(airflow_lake.table("people"), "2026-11-01").num_rows == 320
    # What was replaced was read by someone, so it still counts.
    with pytest.raises(AirflowFailException, match="cross_release_k_anonymity"):
        runs.release(patients(SHUFFLED), "again", partition="2026-11-01")


def test_a_retry_of_a_run_does_not_stand_in_its_own_way(
    runs: Runs, airflow_lake: Lake, private: Path
) -> None:
    staged = runs.stage(patients(SORTED), "first")
    report = runs.verify(staged, "first")
    runs.publish(staged, report, "first")
    for path in kept(private):
        path.unlink()  # a crash before it was written
    assert runs.publish(staged, report, "first")["already"]
    assert len(kept(private)) == 1
    assert runs.verify(staged, "first")["passed"]


def test_a_release_that_was_verified_before_another_was_published_is_refused(
    runs: Runs, airflow_lake: Lake
) -> None:
    waiting = runs.stage(patients(SHUFFLED), "waiting")
    report = runs.verify(waiting, "waiting")
    runs.release(patients(SORTED), "quick")
    with pytest.raises(AirflowFailException, match="1 releases of table people were published after"):
        runs.publish(waiting, report, "waiting")
    assert [entry["release_id"] for entry in releases(airflow_lake.table("people"))] == ["quick"]


def test_what_is_kept_is_for_the_service_user_alone_and_names_no_one(runs: Runs, private: Path) -> None:
    runs.release(patients(SORTED), "first")
    (path,) = kept(private)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [
        0o700
    ] * 2
    content = path.read_bytes()
    table = pd.read_parquet(path)
    assert not [name for name in (*patients(SORTED)["patient"], "cold", "flu") if name.encode() in content]
    assert table["class"].value_counts().tolist() == [10] * 16
    # The order of the hashes, and not that of the records, which would show whose each is.
    assert table["person"].is_monotonic_increasing


def test_no_person_leaves_the_private_files(runs: Runs, airflow_lake: Lake, private: Path) -> None:
    runs.first()
    table = pd.read_parquet(kept(private)[0])
    private_texts = [*table["person"], *table["value mark of disease"]]
    for file in (path for path in airflow_lake.folder.rglob("*") if path.is_file()):
        data = file.read_bytes()
        assert not [
            text for text in (*private_texts, *patients(SORTED)["patient"]) if text.encode() in data
        ], file
    assert read_release(airflow_lake.table("people"), "first").column_names == [
        "age_from",
        "age_to",
        "disease",
    ]


def test_nothing_is_kept_of_a_release_that_was_not_published(runs: Runs, private: Path) -> None:
    runs.verify(runs.stage(patients(SORTED), "first"), "first")
    assert kept(private) == []


@pytest.mark.quick("operator")  # the command calls the same step
@pytest.mark.parametrize("way", ["operator", "command"])
def test_what_is_kept_goes_with_a_retraction_and_counts_no_more(
    runs: Runs, airflow_lake: Lake, private: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.first()
    if way == "operator":
        RetractOperator(task_id="retract", name="people", release="first", reason="a mistake").execute(
            context("retract", "later")
        )
    else:
        assert main(["retract", f"{airflow_lake.root}/people", "first", "--reason", "a mistake"]) == 0
    assert kept(private) == []
    runs.release(patients(SHUFFLED), "second")


def test_the_values_of_classes_are_kept_and_a_newcomer_is_found_by_subtracting(
    runs: Runs, airflow_lake: Lake
) -> None:
    first = patients(SORTED)
    runs.first(SUBTRACTED)
    newcomer = pd.DataFrame({"patient": ["patient-999"], "age": [5], "disease": ["flu"]})
    staged = runs.stage(pd.concat([first, newcomer], ignore_index=True), "second")
    said = r"difference 0, correction 0; not judged: population \(not named by the policy\)\)"
    with pytest.raises(AirflowFailException, match=said):
        runs.verify(staged, "second", SUBTRACTED)
    persons = KnownPersons.of(StagedRelease.from_ref(staged).persons)
    (earlier,) = EarlierReleases(named=airflow_lake.table("people")).memberships(persons).values()
    counts = earlier.counts["disease"]
    assert counts.persons.sum() == 160
    assert (counts.records == counts.persons).all()


def corrected(table: pd.DataFrame, *rows: int) -> pd.DataFrame:
    other = {"cold": "flu", "flu": "cold"}
    at = table.index.isin(rows)
    return table.assign(disease=table["disease"].where(~at, table["disease"].map(other)))


def over_time(report: Any) -> Any:
    (found,) = [f for f in report["findings"] if f["rule"].startswith("republication")]
    return found


BY_CORRECTION = {"model": "republication", "k": 2, "m": 2, "attackers": ["difference", "correction"]}


def test_a_corrected_record_is_found_among_releases(runs: Runs) -> None:
    runs.first(BY_CORRECTION)
    staged = runs.stage(corrected(patients(SORTED), 5), "second")
    with pytest.raises(AirflowFailException, match="difference 10, correction 0; not judged"):
        runs.verify(staged, "second", BY_CORRECTION)
    same = over_time(runs.verify(runs.stage(patients(SORTED), "third"), "third", BY_CORRECTION))
    assert "difference 10, correction 10; not judged: identity" in same["note"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [(SUBTRACTED, "persons left to each attacker: identity 10"), (ACROSS, NOT_JUDGED)],
    ids=["named", "not named"],
)
def test_what_was_judged_over_time_stands_in_report_question_and_manifest(
    runs: Runs, airflow_lake: Lake, rule: Any, said: str
) -> None:
    staged = runs.stage(patients(SORTED), "first")
    report = runs.verify(staged, "first", rule)
    made, found = StagedRelease.from_ref(staged), ReportRef.from_ref(report)
    requested = question(made, found, airflow_lake.table("people"), "first")
    assert said in " ".join(requested["over_time"])
    assert escaped(said) in body(requested, dag_id="people", run_id="first")
    published = runs.publish(staged, report, "first")
    manifest = read_mapping(Path(published["manifest"].removeprefix("file://")), 1 << 20)
    assert said in "\n".join(manifest_lines(manifest))
    page = Path(published["report"].removeprefix("file://")).read_text()
    assert "Together with the earlier releases" in page
    assert said in page


def test_corrections_of_several_people_of_a_class_hide_each_other(runs: Runs) -> None:
    runs.first(BY_CORRECTION)
    two = over_time(runs.verify(runs.stage(corrected(patients(SORTED), 5, 6), "two"), "two", BY_CORRECTION))
    assert two["passed"]
    assert "difference 10, correction 2; not judged" in two["note"]


BY_REGISTER = {"model": "republication", "k": 5, "attackers": ["population"]}
# Eight of a class leave the table, and eight newcomers take their places.
NEWCOMERS = patients(SORTED[:8], first=200)
LATER = pd.concat([NEWCOMERS, patients(SORTED)[8:]], ignore_index=True)
EVERYBODY = pd.concat([patients(SORTED), NEWCOMERS.assign(age=150)], ignore_index=True)[["patient", "age"]]
MOVED = EVERYBODY.assign(age=EVERYBODY["age"].mask(EVERYBODY.index < 8, 120))


def with_register(runs: Runs, first: pd.DataFrame | None, second: pd.DataFrame | None) -> Any:
    staged = runs.stage(patients(SORTED), "first")
    known = None if first is None else runs.register(first, "first")
    runs.publish(staged, runs.verify(staged, "first", BY_REGISTER, register=known), "first")
    later = None if second is None else runs.register(second, "second")
    return over_time(runs.verify(runs.stage(LATER, "second"), "second", BY_REGISTER, register=later))


def test_a_register_of_each_release_tells_who_moved_away(runs: Runs) -> None:
    with pytest.raises(AirflowFailException, match="population 2; the population is the register of each"):
        with_register(runs, EVERYBODY, MOVED)


@pytest.mark.quick("the new one only")  # with and without a register
@pytest.mark.parametrize(
    ("first", "second", "population"),
    [
        (EVERYBODY, EVERYBODY, "the register of each release"),
        (None, None, "all persons of all releases"),
        (None, MOVED, "all persons of all releases, for 1 earlier releases have no register"),
    ],
    ids=["who stayed", "none", "the new one only"],
)
def test_the_finding_says_which_population_was_taken(
    runs: Runs, first: Any, second: Any, population: str
) -> None:
    found = with_register(runs, first, second)
    assert f"population 10; the population is {population}; not judged" in found["note"]


def test_of_the_same_bytes_published_again_the_newest_membership_file_counts(runs: Runs) -> None:
    for run_id, register in (("first", None), ("again", runs.register(EVERYBODY, "again"))):
        staged = runs.stage(patients(SORTED), run_id)
        report = runs.verify(staged, run_id, BY_REGISTER, register=register)
        runs.publish(staged, report, run_id, partition="2026-11-01")
    runs.verify(runs.stage(patients(SORTED), "later"), "later", BY_REGISTER)


def test_a_retry_leaves_the_membership_file_of_a_published_release_as_it_is(
    runs: Runs, private: Path
) -> None:
    staged = runs.stage(patients(SORTED), "first")
    report = runs.verify(staged, "first")
    runs.publish(staged, report, "first")
    (path,) = kept(private)
    path.write_bytes(b"what an earlier version of a library wrote")
    assert runs.publish(staged, report, "first")["already"]
    assert path.read_bytes() == b"what an earlier version of a library wrote"


def test_a_register_that_was_changed_since_stops_the_next_release(
    runs: Runs, airflow_lake: Lake, private: Path
) -> None:
    with_register(runs, EVERYBODY, EVERYBODY)
    (path,) = private.rglob("*.register.parquet")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    pd.read_parquet(path).assign(**{"value of age": "5"}).to_parquet(path, index=False)
    staged, later = runs.stage(LATER, "third"), runs.register(MOVED, "third")
    with pytest.raises(AirflowFailException, match=r"register\.parquet"):
        runs.verify(staged, "third", BY_REGISTER, register=later)
    assert main(["retract", f"{airflow_lake.root}/people", "first", "--reason", "a mistake"]) == 0
    assert kept(private) == []


@pytest.mark.usefixtures("without_hashes")
def test_of_a_file_without_marks_corrections_are_not_judged(runs: Runs, private: Path) -> None:
    runs.first()
    (path,) = kept(private)
    pd.read_parquet(path).drop(columns="value mark of disease").to_parquet(path, index=False)
    staged = runs.stage(corrected(patients(SORTED), 5), "second")
    with pytest.raises(AirflowFailException, match=r"accept_unjudged measured 1: 1 earlier .*Retract what"):
        runs.verify(staged, "second", BY_CORRECTION)
    report = runs.verify(staged, "second", BY_CORRECTION, accept="a pilot")
    assert "correction (no earlier release keeps the values of persons)" in over_time(report)["note"]
    assert "are not judged, accepted because: a pilot" in report["findings"][-1]["note"]


@pytest.mark.usefixtures("without_hashes")
def test_marks_of_an_earlier_version_are_read_for_persons_in_the_source(runs: Runs, private: Path) -> None:
    staged = runs.stage(patients(SORTED), "first")
    runs.publish(staged, runs.verify(staged, "first"), "first")
    (path,) = kept(private)
    known = Identification(column="patient", key=KEY)
    salt = {known.person(name): known.salt(name) for name in patients(SORTED)["patient"]}
    found = staged_membership(StagedRelease.from_ref(staged))
    marks = marks_of(found, [salt[person] for person in found.persons], staged["sha256"])["disease"]
    by_person = dict(zip(found.persons, marks, strict=True))
    table = pd.read_parquet(path).drop(columns="value mark of disease")
    table.assign(**{"mark of disease": table["person"].map(by_person)}).to_parquet(path, index=False)
    staged = runs.stage(corrected(patients(SORTED), 5), "second")
    with pytest.raises(AirflowFailException, match="difference 10, correction 0"):
        runs.verify(staged, "second", BY_CORRECTION)


@pytest.mark.usefixtures("without_hashes")
def test_marks_that_were_exchanged_stop_the_next_release(runs: Runs, private: Path) -> None:
    runs.first()
    (path,) = kept(private)
    table = pd.read_parquet(path)
    table["value mark of disease"] = np.roll(table["value mark of disease"], 1)
    table.to_parquet(path, index=False)
    staged = runs.stage(patients(SORTED), "second")
    with pytest.raises(AirflowFailException, match="the record of the people of table people is damaged"):
        runs.verify(staged, "second", BY_CORRECTION)


@pytest.mark.quick("a newcomer")  # the attack by itself is quick in the engine
@pytest.mark.parametrize(
    ("came", "certain"),
    [(pd.DataFrame({"patient": ["patient-999"], "age": [5], "disease": ["flu"]}), 1), (patients([]), 0)],
    ids=["a newcomer", "no one"],
)
def test_the_attack_subtracts_what_is_kept_of_earlier_releases(
    runs: Runs, airflow_lake: Lake, came: pd.DataFrame, certain: int
) -> None:
    first = patients(SORTED)
    runs.first()
    people = pd.concat([first, came], ignore_index=True) if certain else first
    staged = StagedRelease.from_ref(runs.stage(people, "second"))
    before = EarlierReleases(named=airflow_lake.table("people"))
    earlier = before.memberships(KnownPersons.of(staged.persons)).values()
    evidence = Evidence(
        release=read_private(staged.uri, staged.sha256),
        source=DataSchema.from_dict(SCHEMA),
        people=people,
        outsiders=first,
        memberships=(staged_membership(staged), *earlier),
    )
    rng = np.random.default_rng(3)
    outcomes = try_attack(Difference(), case_of(evidence, rng), rng).outcomes
    assert [o.found.main.right for o in outcomes] == [certain, 0]
    assert [o.subject for o in outcomes] == ["disease of people who came", "disease of people who left"]
    assert outcomes[1].sees


@pytest.mark.usefixtures("without_hashes")
def test_of_a_file_without_the_values_of_classes_departures_are_counted_only(
    runs: Runs, private: Path
) -> None:
    runs.first()
    (path,) = kept(private)
    table = pd.read_parquet(path).drop(columns="values of disease")
    table.to_parquet(path, index=False)
    left = patients(SORTED)[80:]  # the same classes
    report = runs.verify(runs.stage(left, "second"), "second", SUBTRACTED, accept="a pilot")
    (found,) = [f for f in report["findings"] if f["rule"].startswith("republication")]
    assert found["passed"]
    assert "differences: values of departures (not kept by 1 earlier releases)" in found["note"]


def test_an_earlier_release_that_nothing_is_kept_of_stops_the_next_one(runs: Runs, private: Path) -> None:
    staged = runs.stage(patients(SORTED), "first", person=None)
    runs.publish(staged, runs.verify(staged, "first", K10), "first")
    with pytest.raises(
        AirflowFailException, match=r"version \d+ of table people was published without recording"
    ):
        runs.release(patients(SORTED), "second")


def test_another_key_stops_the_next_release(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.first()
    set_key(monkeypatch, KEY.upper())
    with pytest.raises(AirflowFailException, match="recorded with another key"):
        runs.release(patients(SORTED), "second")


@pytest.mark.usefixtures("without_hashes")
def test_a_file_that_was_damaged_stops_the_next_release(runs: Runs, private: Path) -> None:
    runs.first()
    (path,) = kept(private)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(AirflowFailException, match="must be a whole Parquet file"):
        runs.release(patients(SORTED), "second")


def test_a_demand_without_an_identifier_is_refused_with_the_remedy(runs: Runs) -> None:
    staged = runs.stage(patients(SORTED), "first", person=None)
    with pytest.raises(AirflowFailException, match=r"records are not known.*history\.identifier"):
        runs.verify(staged, "first")


def test_a_demand_without_the_tables_name_is_refused(runs: Runs) -> None:
    check = VerifyOperator(
        task_id="verify", table=runs.stage(patients(SORTED), "first"), policy={"require": [ACROSS]}
    )
    with pytest.raises(AirflowFailException, match="needs the name of the table"):
        check.execute(context("verify", "first"))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "membership_default does not exist. Add it, with the membership key"),
        ("short", "at least 32 characters, got 5"),
    ],
    ids=["missing", "short"],
)
def test_a_key_that_is_missing_or_short_stops_at_ingest(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, key: str | None, message: str
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MEMBERSHIP_DEFAULT")
    if key is not None:
        set_key(monkeypatch, key)
    with pytest.raises(AirflowFailException, match=message):
        runs.stage(patients(SORTED), "first")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.assign(patient=t["patient"].where(t.index > 0)), "1 records have no value, 0 repeat"),
        (
            lambda t: t.assign(patient=t["patient"].where(t.index > 1, "x")),
            "0 records have no value, 1 repeat",
        ),
    ],
    ids=["null", "repeated"],
)
def test_a_column_that_does_not_identify_one_person_a_record_is_refused(
    runs: Runs, spoil: Any, message: str
) -> None:
    with pytest.raises(AirflowFailException, match=f"patient must identify one person per record: {message}"):
        runs.stage(spoil(patients(SORTED)), "first")


def test_a_column_that_is_no_identifier_is_refused(runs: Runs) -> None:
    with pytest.raises(AirflowFailException, match="must be named by an identifier of the schema"):
        runs.stage(patients(SORTED), "first", person="age")


def persons_of(people: Identification, column: pd.Series) -> Any:
    taken = Persons(people)
    taken.add(column)
    return taken.hashes()


def test_records_that_are_set_aside_or_dropped_take_their_persons_along(runs: Runs) -> None:
    table = patients(SORTED)
    table["disease"] = table["disease"].where(table.index != 7)
    staged = runs.stage(table, "first", outliers=True, nulls="drop")
    persons = read_private(staged["persons"]["uri"], staged["persons"]["sha256"])["person"]
    known = persons_of(Identification(column="patient", key=KEY), table["patient"])
    disease = dict(zip(known, table["disease"], strict=True))
    released = read_private(staged["uri"], staged["sha256"])
    assert len(persons) == staged["rows"] == 157
    assert [disease[person] for person in persons] == released["disease"].tolist()


def test_a_person_is_the_same_in_either_number_type_and_as_text() -> None:
    people = Identification(column="id", key=KEY)
    as_numbers, as_floats, as_text = (
        persons_of(people, pd.Series([7, 12], dtype=kind)) for kind in ("int64", "float64", "str")
    )
    assert as_numbers.tolist() == as_floats.tolist()
    assert as_numbers.tolist() == persons_of(people, pd.Series(["7", "12"])).tolist()
    assert len(as_text) == 2
    assert (
        as_numbers.tolist()
        != persons_of(Identification(column="id", key=KEY[::-1]), pd.Series([7, 12])).tolist()
    )


def test_a_person_in_two_spellings_has_two_records_unless_the_schema_says_exact() -> None:
    people, column = Identification(column="id", key=KEY), pd.Series(["P1", "p2"])
    exact, read = Persons(people, exact=True), Persons(people)
    for taken in (exact, read):
        taken.add(column)
        taken.add(pd.Series(["P\u200b1 "]))
    assert len(set(exact.hashes())) == 3
    with pytest.raises(SchemaError, match="0 records have no value, 1 repeat"):
        read.hashes()
    assert persons_of(people, column).tolist() == [people.person("p1"), people.person("p2")]


def as_written(path: Path, identifiers: pd.Series) -> None:
    """Make of a file what was kept before there was a normal form."""
    people = Identification(column="patient", key=KEY)
    known = {people.person(normal(text)): people.person(text) for text in identifiers}
    frame = pd.read_parquet(path).drop(columns="form of the identifiers")
    write_private(path, parquet_bytes(frame.assign(person=frame["person"].map(known))))


@pytest.mark.usefixtures("without_hashes")
def test_people_who_were_kept_as_written_are_recognised(runs: Runs, private: Path) -> None:
    table = patients(SORTED).assign(patient=lambda t: t["patient"].str.upper())
    runs.release(table, "first")
    as_written(kept(private)[0], table["patient"])
    other = patients(SHUFFLED).assign(patient=table["patient"])
    with pytest.raises(AirflowFailException, match="cross_release_k_anonymity"):
        runs.release(other, "second")
    runs.release(table, "third")


@pytest.mark.usefixtures("without_hashes")
def test_a_person_in_two_records_of_what_was_kept_as_written_is_refused(runs: Runs, private: Path) -> None:
    table = patients(SORTED)
    runs.first()
    people = Identification(column="patient", key=KEY)
    path = kept(private)[0]
    frame = pd.read_parquet(path).drop(columns="form of the identifiers")
    frame.loc[0, "person"] = people.person("Patient-001")
    write_private(path, parquet_bytes(frame))
    later = table.assign(patient=table["patient"].replace("patient-001", "Patient-001"))
    with pytest.raises(AirflowFailException, match="has 1 persons in two records, whose identifiers were"):
        runs.release(later, "second")


def test_people_of_normal_forms_are_not_looked_for_among_exact_ones(runs: Runs) -> None:
    runs.first()
    exact = SCHEMA | {"patient": {"role": "identifier", "exact": {"allow": "case is part of the number"}}}
    with pytest.raises(AirflowFailException, match="restore `exact` as the schema had it"):
        runs.release(patients(SORTED), "second", schema=exact)


def test_what_is_not_known_of_a_record_is_none_as_it_was_written(tmp_path: Path) -> None:
    """Counterfeits are of no person, and files of earlier versions had neither salts nor other columns."""
    hashes = np.array([["a", None, "b"], ["c", None, "d"], [None, None, None]], dtype=object)
    kept = write_persons(hashes, tmp_path / "persons.parquet", "key", "form", None)
    known = KnownPersons.of(kept)
    assert known.hashes.tolist() == hashes.tolist()
    assert known.secret is None
    sha256 = write_private(Path(kept.uri), parquet_bytes(pd.DataFrame({PERSON: hashes[0]})))
    earlier = KnownPersons.of(replace(kept, sha256=sha256))
    assert earlier.hashes.tolist() == [hashes[0].tolist(), [None] * 3, [None] * 3]


def test_the_key_is_not_shown() -> None:
    people = Identification(column="id", key=KEY)
    assert KEY not in repr(people)
    assert KEY not in people.key_id


def test_a_run_without_airflow_looks_at_the_earlier_releases(
    home: Path, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, policy = home / "releases" / "people.yaml", home / "policies" / "people.yaml"
    tables.rewrite(file, history={"identifier": "name"}, expectations=None)
    rules = yaml.safe_load(policy.read_text())
    rules["require"].append({"model": "cross_release_k_anonymity", "k": 5})
    policy.write_text(yaml.safe_dump(rules))
    spec = load_spec(file)
    for number in (1, 2):
        with WorkArea(tmp_path / "work", f"run {number}") as work:
            outcome = run_release(spec, lake, f"r{number}", work)
            staged, report = outcome.staged, outcome.report
    assert [f["measured"] >= 5 for f in report.findings if f["rule"].startswith("cross")] == [True]
    published = EarlierReleases(named=lake.table("people"))
    assert set(published.memberships(KnownPersons.of(staged.persons))) == {1, 2}
    monkeypatch.delenv("PRIVACY_MEMBERSHIP_KEY")
    with (
        WorkArea(tmp_path / "work", "run 3") as work,
        pytest.raises(SpecError, match="at least 32 characters"),
    ):
        run_release(spec, lake, "r3", work)


def test_a_specification_names_a_register_of_each_release(
    home: Path, lake: Lake, tmp_path: Path, private: Path
) -> None:
    rules = tables.policy(max_suppressed=0.1)
    rules["require"].append({"model": "republication", "k": 2, "attackers": ["population"]})
    register = {"uri": "registers/{release}.parquet", "columns": ["age"], "identifier": "name"}
    fields = {"history": {"identifier": "name"}, "expectations": None}
    file = tables.write_release(home, rules, **fields, public_register=register)
    (home / "registers").mkdir()
    for number in (1, 2):
        people = pd.read_parquet(home / "people.parquet")[["name", "age"]]
        people.to_parquet(home / "registers" / f"r{number}.parquet")
        with WorkArea(tmp_path / "work", f"run {number}") as work:
            report = run_release(load_spec(file), lake, f"r{number}", work).report
    assert "the population is the register of each release" in over_time(report.to_ref())["note"]
    assert len([*private.rglob("*.register.parquet")]) == 2
    task = release_dag(load_spec(file)).get_task("verify")
    assert task.register.operator.task_id == "register"
    assert (task.register.operator.person, task.register.operator.columns) == ("name", ("age", "name"))
    for change in ({"identifier": "age"}, {"identifier": None}):
        wrong = tables.write_release(home, rules, **fields, public_register=register | change)
        with pytest.raises(SpecError, match=r"public_register(\.identifier)? must be"):
            check_files(load_spec(wrong, judge=False), None)


@pytest.mark.usefixtures("without_hashes")
def test_a_table_with_releases_of_before_is_refused_before_anything_is_read_unless_it_is_accepted(
    home: Path, lake: Lake, tmp_path: Path, private: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tables.policy(max_suppressed=0.1)
    fields = {"history": {"identifier": "name"}, "schedule": None, "expectations": None}
    file = tables.write_release(home, rules, **fields)
    with WorkArea(tmp_path / "work", "run 1") as work:
        run_release(load_spec(file), lake, "r1", work)
    (path,) = kept(private)
    pd.read_parquet(path).drop(columns="value mark of illness").to_parquet(path, index=False)
    with WorkArea(tmp_path / "work", "run 2") as work:
        run_release(load_spec(file), lake, "r2", work)  # the policy does not ask
    rules["require"].append({"model": "republication", "k": 2})
    refused = tables.write_release(home, rules, **fields)
    with (
        WorkArea(tmp_path / "work", "run 3") as work,
        pytest.raises(SpecError, match="1 earlier release of the table was made before differences"),
    ):
        run_release(load_spec(refused), lake, "r3", work)
    assert not [*(tmp_path / "work").glob("run_3*/*.parquet")]
    reason = {"history": {"identifier": "name", "accept_unjudged": "20 people of a pilot"}}
    accepted = load_spec(tables.write_release(home, rules, **fields | reason))
    with WorkArea(tmp_path / "work", "run 4") as work:
        done = run_release(accepted, lake, "r4", work)
    for uri in (done.published.manifest, done.published.report):
        assert "accepted because: 20 people of a pilot" in Path(uri.removeprefix("file://")).read_text()
    verify = release_dag(accepted).get_task("verify")
    assert verify.accept_unjudged == "20 people of a pilot"


def test_the_error_of_an_identifier_shows_no_value() -> None:
    with pytest.raises(SchemaError) as caught:
        persons_of(Identification(column="id", key=KEY), pd.Series(["secret", "secret", None]))
    assert "secret" not in str(caught.value)
