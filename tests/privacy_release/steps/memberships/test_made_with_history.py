"""Releases of the same people by other methods, other seeds and other deliveries, made with the earlier ones.

What each pair of releases tells is counted again in plain Python, from what was released and the identifiers
that these tests know.
"""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException

import privacy_release
from airflow_privacy_release import (
    BottomUpOperator,
    IngestParquetOperator,
    MondrianOperator,
    PublishOperator,
    ReleaseOperator,
    VerifyOperator,
)
from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_engine.registry import is_anonymizer, method_names
from privacy_engine.tables.normal import normal
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.cli.main import DONE, REFUSED, main
from privacy_release.lake.log import ReleaseRun
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.statement import StatementSigner
from privacy_release.running.run import Outcome, run_release
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps import publish
from privacy_release.steps.memberships.earlier import EarlierReleases
from privacy_release.steps.memberships.past import Past
from privacy_release.steps.memberships.persons import read_persons, write_persons
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.release import make_release
from privacy_release.steps.retraction import retract_release
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.people import Identification
from privacy_release.workarea.references import plain
from tests import tables
from tests.beginnings import Beginnings
from tests.children.fault_points import Crash
from tests.privacy_release.proof.signed_tables import InterruptedSigner, Killed
from tests.privacy_release.steps.memberships.conftest import hashed

QUASI = ["age_from", "age_to", "zip"]  # as they are released
KEY = "a secret of the tests alone, long enough"
# The models that are about classes alone: those that subtract are in `test_incremental_releases.py`.
OF_CLASSES = [
    {"model": "cross_release_k_anonymity", "k": 5},
    {"model": "m_invariance", "m": 2, "attribute": "illness"},
]
HISTORY = {"repeated_people": "history", "require": [*tables.POLICY["require"], *OF_CLASSES]}
FIRST = {"method": "mondrian", "k": 8, "l": 2, "seed": 7}
ANONYMIZERS = [name for name in method_names() if is_anonymizer(name)]
# A command that is killed at a step of its publication.
KILLED = """
import os, signal, sys
from privacy_release.cli.main import main
from privacy_release.steps import publish
from privacy_release.workarea.references import plain
publish.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def crash(*_: object) -> None:
    raise Crash


Specified = Callable[..., ReleaseSpec]
Classes = dict[str, tuple[str, ...]]  # person -> the released cells
Values = dict[tuple[str, ...], set[str]]  # released cells -> the sensitive values beside


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key, and the folder of what is kept about people."""
    monkeypatch.setenv("PRIVACY_MEMBERSHIP_KEY", KEY)
    monkeypatch.setenv(
        "AIRFLOW_CONN_MEMBERSHIP_DEFAULT", json.dumps({"conn_type": "generic", "password": KEY})
    )
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


@pytest.fixture
def specified(home: Path) -> Specified:
    """Writes the release of `home` with other fields; None leaves one out."""

    def write(release: Mapping[str, Any], rules: Mapping[str, Any] = HISTORY, **fields: Any) -> ReleaseSpec:
        kept = {"schedule": None, "history": {"identifier": "name"}, "release": dict(release)}
        kept |= {"expectations": None} | fields
        return load_spec(tables.write_release(home, tables.POLICY | dict(rules), **kept))

    return write


class Runs:
    """Runs of releases, whose people are known by name afterwards."""

    def __init__(self, folder: Path, lake: Lake, beginnings: Beginnings) -> None:
        self.folder, self.lake, self.beginnings = folder, lake, beginnings
        self.people: dict[str, Classes] = {}
        self.values: dict[str, Values] = {}

    def first(self, spec: ReleaseSpec) -> None:
        """Release the specification `FIRST` of a home as `1`, once for all tests."""

        self.begin("FIRST", lambda: self.run(spec, "1"))

    def begin(self, name: str, work: Callable[[], Outcome]) -> Outcome:
        """Make the first releases of a test, once for all tests; the outcome of the last."""
        source = self.folder / "home" / "include" / "people.parquet"

        def made() -> tuple[Outcome, bytes, dict[str, Classes], dict[str, Values]]:
            return work(), source.read_bytes(), self.people, self.values

        folders = [Path(self.lake.root), self.folder / "curator"]
        found = self.beginnings.after((name, hashed()), folders, made)
        outcome, table, people, values = found
        source.write_bytes(table)
        self.people, self.values = dict(people), dict(values)
        return outcome

    def run(self, spec: ReleaseSpec, release: str) -> Outcome:
        names = pd.read_parquet(self.folder / "home" / "include" / "people.parquet")["name"]
        known = {Identification(column="name", key=KEY).person(normal(name)): name for name in names}
        with WorkArea(self.folder / "work", release) as work:
            outcome = run_release(spec, self.lake, release, work)
            persons = read_persons(outcome.staged.persons)
        rows = read_release(self.lake.table("people"), release).to_pandas()
        cells = list(rows[QUASI].astype(str).itertuples(index=False, name=None))
        self.people[release] = {
            known[person]: cell for person, cell in zip(persons, cells, strict=True) if person in known
        }
        self.values[release] = {}
        for cell, illness in zip(cells, rows["illness"], strict=True):
            self.values[release].setdefault(cell, set()).add(illness)
        return outcome

    def left(self) -> int:
        """Of all pairs of releases and people in both, the fewest who share someone's class in both."""
        fewest = []
        for one, other in combinations(self.people.values(), 2):
            both = one.keys() & other.keys()
            fewest += Counter((one[name], other[name]) for name in both).values()
        return min(fewest)

    def kept_values(self) -> bool:
        """Whether everybody's class has the same illnesses in all releases."""
        return all(
            self.values[one][self.people[one][name]] == self.values[other][self.people[other][name]]
            for one, other in combinations(self.people, 2)
            for name in self.people[one].keys() & self.people[other].keys()
        )


@pytest.fixture
def runs(tmp_path: Path, lake: Lake, beginnings: Beginnings) -> Runs:
    return Runs(tmp_path, lake, beginnings)


def test_the_same_people_by_another_method_are_refused_or_made_with_the_history(
    specified: Specified, runs: Runs, lake: Lake
) -> None:
    runs.first(specified(FIRST))
    other = {"method": "bottom_up", "k": 5, "l": 2, "seed": 11}
    with pytest.raises(
        VerificationError,
        match=r"cross_release_k_anonymity\(k=5.*\) measured \d, missed by \d+ classes of together \d+ rows",
    ):
        runs.run(specified(other, history={"identifier": "name", "keep": False}), "2")
    runs.run(specified(other), "2")
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == ["1", "2"]
    assert runs.left() >= 5
    assert runs.kept_values()
    manifest = manifest_of(lake.table("people"), "2")
    assert manifest["method"] == "bottom_up"
    assert manifest["history"] == {
        "releases": 1,
        "k": 5,
        "m": {"illness": 2},
        "departures": "known",
        "reserve": 1.0,
        "withheld": len(runs.people["1"]) - len(runs.people["2"]),
    }


@pytest.mark.quick("obpa")  # the step does not know its method
@pytest.mark.parametrize("method", ANONYMIZERS)
def test_any_anonymizer_knows_what_it_released_before_by_another_seed(
    specified: Specified, runs: Runs, lake: Lake, home: Path, method: str
) -> None:
    for seed, table in enumerate(deliveries(2, 0.1)):
        table.to_parquet(home / "people.parquet")
        release = {"method": method, "k": 5, "l": 2, "seed": seed, "suppression_limit": 0.3}
        release |= {"trees": 20} if method == "rfka" else {}
        spec = specified(
            release, HISTORY | {"max_suppressed": 0.3}, history={"identifier": "name", "reserve": 2}
        )
        runs.run(spec, f"{seed}")
    assert len(releases(lake.table("people"))) == 2
    assert runs.left() >= 5
    assert runs.kept_values()


@pytest.mark.slow  # three runs by the command line; the steps above refuse and publish
def test_without_history_the_second_is_refused_by_the_command_and_with_it_published(
    specified: Specified, lake: Lake, work_root: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", str(home / "releases" / "people.yaml"), "--lake", lake.root]
    specified(FIRST)
    assert main(command) == DONE
    specified({"method": "bottom_up", "k": 5, "l": 2, "seed": 11}, history=None)
    assert main(command) == REFUSED
    output = capsys.readouterr().err
    assert "repeated_people: history is not kept: table people has 1 earlier releases" in output
    assert "declare `history`" in output
    specified({"method": "bottom_up", "k": 5, "l": 2, "seed": 11})
    assert main(command) == DONE
    assert len(releases(lake.table("people"))) == 2


def deliveries(weeks: int, churn: float) -> list[pd.DataFrame]:
    """Weekly tables of 200 people, of whom a share leaves and others come."""
    rng = np.random.default_rng(5)
    n = 200 + int(weeks * 200 * churn)
    everybody = pd.DataFrame(
        {
            "name": [f"person-{i:03d}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "zip": rng.choice([row[0] for row in tables.ZIPS], n),
            "illness": rng.choice(tables.ILLNESSES, n),
            "visits": rng.integers(0, 9, n),
        }
    )
    present, found = np.arange(200), []
    for week in range(weeks):
        found.append(everybody.iloc[rng.permutation(present)].reset_index(drop=True))
        leave = rng.choice(present, int(200 * churn), replace=False)
        new = 200 + week * len(leave) + np.arange(len(leave))
        present = np.concatenate([np.setdiff1d(present, leave), new])
    return found


def test_people_who_come_and_leave_stay_safe_in_every_pair_of_weeks(
    specified: Specified, runs: Runs, home: Path, lake: Lake
) -> None:
    rules = HISTORY | {"max_suppressed": 0.3}
    spec = specified(
        {"method": "bottom_up", "k": 5, "l": 2, "seed": 3, "suppression_limit": 0.3},
        rules,
        history={"identifier": "name", "reserve": 2},
    )
    for week, table in enumerate(deliveries(3, 0.02)):
        table.to_parquet(home / "people.parquet")
        runs.run(spec, f"week {week}")
        manifest = manifest_of(lake.table("people"), f"week {week}")
        assert manifest["history"]["releases"] == week
        assert manifest["history"]["withheld"] == len(table) - len(runs.people[f"week {week}"])
    assert runs.left() >= 5
    assert runs.kept_values()


def test_someone_who_does_not_know_who_left_has_its_own_reading(
    specified: Specified, runs: Runs, home: Path
) -> None:
    across = {"model": "cross_release_k_anonymity", "k": 5, "departures": "unknown"}
    rules = {"require": [*tables.POLICY["require"], across], "max_suppressed": 0.3}
    release = {"method": "bottom_up", "k": 5, "l": 2, "seed": 3, "suppression_limit": 0.3}
    spec = specified(release, rules)
    for week, table in enumerate(deliveries(2, 0.2)):
        table.to_parquet(home / "people.parquet")
        outcome = runs.run(spec, f"week {week}")
    (found,) = [f for f in outcome.report.findings if f["rule"].startswith("cross_release")]
    assert found["measured"] >= 5
    assert runs.left() < 5  # for someone who does


def first_of(spec: ReleaseSpec, runs: Runs, private: Path) -> Path:
    """What is kept of the people of a first release."""
    runs.first(spec)
    (path,) = private.rglob("*.parquet")
    return path


@pytest.mark.usefixtures("without_hashes")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (Path.unlink, r"version \d+ of table people was published without recording who is in it"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "must be a whole Parquet file"),
        (
            lambda path: pd.read_parquet(path).drop(columns="class").to_parquet(path),
            "the record of the people of table people is damaged",
        ),
        (
            lambda path: pd.read_parquet(path).assign(key="0" * 16).to_parquet(path),
            "was recorded with another key",
        ),
    ],
    ids=["missing", "cut", "without-classes", "another-key"],
)
def test_what_is_not_known_of_a_release_of_an_earlier_version_stops_the_next_before_it_is_made(
    specified: Specified, runs: Runs, private: Path, spoil: Any, message: str
) -> None:
    spec = specified(FIRST)
    spoil(first_of(spec, runs, private))
    with pytest.raises((VerificationError, IntegrityError), match=message):
        runs.run(spec, "2")
    assert not list((runs.folder / "work").glob("2-*/staged.parquet"))


@pytest.mark.usefixtures("without_hashes")
def test_what_is_kept_of_another_release_does_not_stand_for_this_one(
    specified: Specified, runs: Runs, private: Path, home: Path
) -> None:
    old = first_of(specified(FIRST), runs, private)
    people = pd.read_parquet(home / "people.parquet")
    people.assign(name="new " + people["name"], age=people["age"] + 1).to_parquet(home / "people.parquet")
    runs.run(specified(FIRST), "2")
    (new,) = set(private.rglob("*.parquet")) - {old}
    new.write_bytes(old.read_bytes())
    with pytest.raises(IntegrityError, match=r"version \d+ of table people, is of another release"):
        runs.run(specified(FIRST), "3")


def test_a_release_that_others_got_ahead_of_is_refused_at_verification_and_at_publishing(
    specified: Specified, runs: Runs, lake: Lake, tmp_path: Path
) -> None:
    spec = specified(FIRST)
    policy = spec.release_policy()
    with WorkArea(tmp_path / "work", "waiting") as work:
        past = Past(releases=without(lake, "w"), policy=policy)
        waiting = staged_by(spec, work, past, method="bottom_up", k=5, l=2)
        report = privacy_release.verify_staged(waiting, policy, table=lake.table("people"))
        assert report.passed
        runs.run(spec, "quick")
        with pytest.raises(VerificationError, match=r"1 releases of table people were published after"):
            publish_staged(waiting, report, lake.table("people"), "w")
        again = privacy_release.verify_staged(waiting, policy, table=lake.table("people"))
        with pytest.raises(
            VerificationError,
            match=r"cross_release_k.*1 releases were published after this one was made",
        ):
            privacy_release.raise_if_failed(again)


def without(lake: Lake, run: str) -> EarlierReleases:
    """The releases of the table, without those of a run."""
    return EarlierReleases(named=lake.table("people"), run=ReleaseRun(run, run))


def staged_by(spec: ReleaseSpec, work: WorkArea, past: Past | None, **release: Any) -> Any:
    people = Identification(column="name", key=KEY)
    source = spec.only_source
    table = privacy_release.ingest(
        source.uri, spec.data_schema(), work, columns=source.columns, people=people
    )
    method = release.pop("method")
    return make_release(table, work, method=method, parameters=release, seed=1, past=past)


def test_a_policy_that_asks_nothing_across_releases_still_stops_who_was_overtaken(
    specified: Specified, runs: Runs, lake: Lake, tmp_path: Path
) -> None:
    spec = specified(FIRST, {})
    policy = spec.release_policy()
    with WorkArea(tmp_path / "work", "waiting") as work:
        past = Past(releases=without(lake, "w"), policy=policy, k=5)
        waiting = staged_by(spec, work, past, method="bottom_up", k=5)
        report = privacy_release.verify_staged(waiting, policy, table=lake.table("people"))
        runs.run(spec, "quick")
        with pytest.raises(VerificationError, match="1 releases of table people were published after"):
            publish_staged(waiting, report, lake.table("people"), "w")


def test_a_run_that_is_repeated_publishes_nothing_twice(specified: Specified, runs: Runs, lake: Lake) -> None:
    runs.first(specified(FIRST))
    spec = specified({"method": "bottom_up", "k": 5, "l": 2, "seed": 11})
    assert not runs.run(spec, "2").published.already
    assert runs.run(spec, "2").published.already
    assert len(releases(lake.table("people"))) == 2


@pytest.mark.quick(
    "crash-before-the-record-of-its-people"
)  # a process each; a retry of a whole release is below
@pytest.mark.parametrize(
    ("step", "published"),
    [
        pytest.param("record", 1, id="before-the-record-of-its-people"),
        pytest.param("_settle", 2, id="after-the-commit"),
    ],
)
@pytest.mark.parametrize("end", ["crash", "kill"])
def test_a_retry_of_a_run_that_ended_publishes_its_release_once_with_the_record_of_its_people(
    specified: Specified,
    runs: Runs,
    lake: Lake,
    private: Path,
    home: Path,
    end: str,
    step: str,
    published: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No release is ever in the lake without the record of its people, whenever its run ends."""
    runs.first(specified(FIRST))
    spec = specified({"method": "bottom_up", "k": 5, "l": 2, "seed": 11})
    if end == "crash":
        with monkeypatch.context() as patch:
            patch.setattr(publish, step, crash)
            with pytest.raises(Crash):
                runs.run(spec, "2")
    else:
        command = ["run", str(home / "releases" / "people.yaml"), "--lake", lake.root, "--release-id", "2"]
        code = KILLED.format(step=step)
        killed = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(releases(lake.table("people"))) == published
    assert len(list(private.rglob("*.parquet"))) == published
    assert runs.run(spec, "2").published.already == (published == 2)
    runs.run(spec, "3")
    assert len(releases(lake.table("people"))) == 3
    assert runs.left() >= 5


def test_a_retry_that_completes_a_release_keeps_the_record_of_the_published_rows_only(
    specified: Specified, runs: Runs, lake: Lake, private: Path, tmp_path: Path
) -> None:
    key, spec = SigningKey.new(), specified(FIRST)
    run = ReleaseRun("1", "1")

    def attempt(k: int, signer: StatementSigner) -> Any:
        policy = spec.release_policy()
        with WorkArea(tmp_path / "work", f"k is {k}") as work:
            past = Past(releases=without(lake, "1"), policy=policy, k=k)
            staged = staged_by(spec, work, past, method="mondrian", k=k)
            report = privacy_release.verify_staged(staged, policy, table=lake.table("people"), run=run)
            return publish_staged(staged, report, lake.table("people"), "1", signer=signer)

    with pytest.raises(Killed):
        attempt(8, InterruptedSigner(key=key))
    recorded = list(private.rglob("*.parquet"))
    assert len(recorded) == 1
    done = attempt(9, StatementSigner(key=key))
    assert (done.already, done.completed) == (True, True)
    assert list(private.rglob("*.parquet")) == recorded


def test_without_the_identifier_of_its_people_a_release_cannot_be_made_with_the_history(
    specified: Specified, lake: Lake, work: WorkArea
) -> None:
    spec = specified(FIRST)
    past = Past(releases=without(lake, "1"), policy=spec.release_policy())
    source = spec.only_source
    table = privacy_release.ingest(source.uri, spec.data_schema(), work, columns=source.columns)
    with pytest.raises(SpecError, match="history needs to know whose records they are"):
        make_release(table, work, method="mondrian", past=past)


def test_a_policy_without_k_and_l_must_name_what_to_keep(
    specified: Specified, lake: Lake, work: WorkArea
) -> None:
    spec = specified(FIRST)
    policy = ReleasePolicy.from_dict({"require": [{"model": "t_closeness", "t": 0.9}]})
    past = Past(releases=without(lake, "1"), policy=policy)
    with pytest.raises(SpecError, match="history must state what is guaranteed over all releases"):
        past.guarantee(spec.data_schema())
    assert replace(past, m={"illness": 3}).guarantee(spec.data_schema()).m == {"illness": 3}


def test_no_person_leaves_the_private_files(
    specified: Specified, runs: Runs, lake: Lake, private: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    travels = ""
    for number, release in enumerate((FIRST, FIRST | {"method": "bottom_up"})):
        outcome = runs.run(specified(release), f"{number}")
        travels += json.dumps(plain([outcome.staged, outcome.report, outcome.published]))
    output = capfd.readouterr()
    planted = {person for path in private.rglob("*.parquet") for person in pd.read_parquet(path)["person"]}
    planted |= set(runs.people["1"]) | {KEY}
    assert len(planted) == 401
    assert lake.folder is not None
    left = [path.read_bytes() for path in lake.folder.rglob("*") if path.is_file()]
    left += [text.encode() for text in (travels, output.out, output.err)]
    assert not [text for text in planted for data in left if text.encode() in data]
    reports = [path.read_text() for path in lake.folder.rglob("*.html")]
    assert (
        sum(
            "1; every person is one of at least 5 in all releases together, departures known; 0 records"
            in text
            for text in reports
        )
        == 1
    )


COUNTED = {"identifier": "name", "m": {"illness": 2}, "counterfeits": 0.5, "reserve": 2}


def with_counterfeits(specified: Specified, **release: Any) -> ReleaseSpec:
    """A release whose records have nothing beside quasi-identifiers and the illness."""
    schema = {name: reported for name, reported in tables.FIELDS.items() if name != "visits"}
    source = {"uri": "people.parquet", "columns": list(schema), "nulls": "fail"}
    reported = {"method": "bottom_up", "k": 5, "l": 2, "seed": 3} | release
    return specified(reported, history=COUNTED, schema=schema, source=source)


def filled(specified: Specified, runs: Runs, home: Path) -> Outcome:
    """The second of two releases, after no one with the last illness is left."""
    people = pd.read_parquet(home / "people.parquet")
    spec = with_counterfeits(specified)

    def work() -> Outcome:
        runs.run(spec, "1")
        people[people["illness"] != tables.ILLNESSES[-1]].to_parquet(home / "people.parquet")
        return runs.run(spec, "2")

    return runs.begin("COUNTED", work)


def test_counterfeits_are_published_counted_and_followed_as_no_one(
    specified: Specified, runs: Runs, lake: Lake, home: Path, private: Path
) -> None:
    outcome = filled(specified, runs, home)
    count = len(runs.people["2"])
    manifest = manifest_of(lake.table("people"), "2")
    added = manifest["history"]["counterfeits"]["added"]
    assert added > 0
    assert manifest["history"]["counterfeits"] == {"allowed": 0.5, "added": added, "column": "counterfeits"}
    assert manifest["history"]["withheld"] == 0
    assert manifest["rows"] == outcome.published.rows == count + added
    for number in ("1", "2"):
        table = read_release(lake.table("people"), number, version=int(number)).to_pandas()
        classes = table.groupby(QUASI)
        persons = Counter(runs.people[number].values())
        for cell, mates in classes:
            assert len(set(mates["counterfeits"])) == 1
            known = persons[tuple(map(str, cell))]
            assert len(mates) - int(mates["counterfeits"].iloc[0]) == known >= 5
    assert runs.left() >= 5
    assert runs.kept_values()
    kept = [pd.read_parquet(path) for path in private.rglob("*.parquet")]
    assert sorted(map(len, kept)) == sorted([count, len(runs.people["1"])])
    assert not any(frame["person"].isna().any() for frame in kept)
    assert f"{added} counterfeit records added" in lake_report(lake)
    runs.run(with_counterfeits(specified, seed=9), "3")
    assert runs.left() >= 5
    assert runs.kept_values()
    retract_release(lake.table("people"), "2", "a test")
    assert len(list(private.rglob("*.parquet"))) == 2


def test_a_policy_of_unique_classes_makes_them_and_any_number_of_counterfeits(
    specified: Specified, runs: Runs, lake: Lake, home: Path
) -> None:
    unique = {"model": "m_invariance", "m": 3, "unique": True}
    rules = {"require": [{"model": "k_anonymity", "k": 2}, unique], "max_suppressed": 0.3}
    schema = {name: reported for name, reported in tables.FIELDS.items() if name != "visits"}
    source = {"uri": "people.parquet", "columns": list(schema), "nulls": "fail"}
    release = {"method": "mondrian", "k": 2, "seed": 3, "suppression_limit": 0.3}
    kept = {"identifier": "name", "departures": "unknown", "counterfeits": 0.001}
    spec = specified(release, rules, history=kept, schema=schema, source=source)
    for week, table in enumerate(deliveries(2, 0.2)):
        table.to_parquet(home / "people.parquet")
        outcome = runs.run(spec, f"{week}")
        rows = read_release(lake.table("people"), f"{week}").to_pandas()
        assert not rows.duplicated([*QUASI, "illness"]).any()
    (found,) = [f for f in outcome.report.findings if f["rule"] == "m_invariance(m=3, unique=True)"]
    assert found["measured"] >= 3
    assert runs.kept_values()
    reported = manifest_of(lake.table("people"), "1")["history"]
    assert reported["unique"] is True
    added = reported["counterfeits"]["added"]
    assert reported["counterfeits"] == {"allowed": None, "added": added, "column": "counterfeits"}
    assert added > 0.001 * len(rows)


def lake_report(lake: Lake) -> str:
    assert lake.folder is not None
    return "".join(path.read_text() for path in lake.folder.rglob("*.html")).replace(",", "")


@pytest.mark.quick("number", "exchanged")  # an exchange claims one record and disowns another
@pytest.mark.parametrize("spoil", ["number", "claimed", "disowned", "exchanged"])
def test_a_release_that_hides_which_records_are_of_no_one_is_refused(
    specified: Specified, runs: Runs, lake: Lake, home: Path, tmp_path: Path, spoil: str
) -> None:
    filled(specified, runs, home)
    spec = with_counterfeits(specified, seed=9)
    policy = spec.release_policy()
    with WorkArea(tmp_path / "work", "spoilt") as work:
        past = Past(
            releases=without(lake, "w"),
            policy=policy,
            **spec.history.kept,
        )
        staged = staged_by(spec, work, past, method="bottom_up", k=5, l=2)
        assert privacy_release.verify_staged(staged, policy, table=lake.table("people")).passed
        persons, table = read_persons(staged.persons).copy(), pd.read_parquet(staged.uri)
        fake = int(np.flatnonzero(pd.isna(persons))[0])
        mates = (table[QUASI] == table.loc[fake, QUASI]).all(axis=1).to_numpy()
        real = int(np.flatnonzero(mates & pd.notna(persons))[0])
        if spoil == "number":
            table.loc[mates, "counterfeits"] -= 1
            staged = replace(staged, sha256=write_private(Path(staged.uri), parquet_bytes(table)))
        if spoil in ("claimed", "exchanged"):
            persons[fake] = persons[real] if spoil == "exchanged" else "0" * 32
        if spoil in ("disowned", "exchanged"):
            persons[real] = None
        reported = staged.persons
        hashes = np.stack([persons, persons, np.full(len(persons), None)])
        staged = replace(
            staged, persons=write_persons(hashes, Path(reported.uri), reported.key, reported.form, None)
        )
        report = privacy_release.verify_staged(staged, policy, table=lake.table("people"))
        failed = {
            finding["rule"].split(":")[0].split("(")[0]
            for finding in report.findings
            if not finding["passed"]
        }
        assert failed == {"m_invariance"} if spoil == "exchanged" else "counterfeits" in failed
        with pytest.raises(VerificationError):
            privacy_release.raise_if_failed(report)


def test_counterfeits_without_a_set_to_keep_are_refused(specified: Specified, lake: Lake) -> None:
    policy = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}]})
    past = Past(releases=without(lake, "1"), policy=policy, counterfeits=0.1)
    with pytest.raises(SpecError, match=r"history\.counterfeits complete sets"):
        past.guarantee(specified(FIRST).data_schema())


class ByHand:
    """Runs of operators that a user connected."""

    POLICY = tables.POLICY | HISTORY

    def __init__(self, source: Path) -> None:
        self.source = source

    def run(self, run_id: str, operator: Any, **settings: Any) -> Any:
        def context(task_id: str) -> Any:
            task = SimpleNamespace(dag_id="people", run_id=run_id, task_id=task_id, map_index=-1)
            return {"ti": task, "outlet_events": {}, "partition_key": None}

        read = IngestParquetOperator(
            task_id="ingest",
            uri=str(self.source),
            schema=tables.FIELDS,
            columns=list(tables.FIELDS),
            person="name",
        )
        table = read.execute(context("ingest"))
        staged = operator(task_id="release", table=table, **settings).execute(context("release"))
        check = VerifyOperator(task_id="verify", table=staged, policy=self.POLICY, name="people")
        report = check.execute(context("verify"))
        done = PublishOperator(task_id="publish", table=staged, report=report, name="people")
        return done.execute(context("publish"))


def test_operators_by_hand_make_a_release_with_the_earlier_ones(
    home: Path, airflow_lake: Lake, work_root: Path
) -> None:
    (home / "include").symlink_to(home)  # hierarchies of a schema are named from there
    hand = ByHand(home / "people.parquet")
    hand.run("1", MondrianOperator, k=8, l=2, seed=7)
    other = {"method": "bottom_up", "parameters": {"k": 5, "l": 2}, "seed": 11}
    with pytest.raises(AirflowFailException, match=r"cross_release_k_anonymity\(k=5"):
        hand.run("2", ReleaseOperator, **other)
    with pytest.raises(AirflowFailException, match="history requires a policy, and series the table"):
        hand.run("3", ReleaseOperator, **other, history={"policy": hand.POLICY})
    with pytest.raises(
        AirflowFailException, match=r"history.*must have only policy, k, m, .* reserve, counterfeits"
    ):
        hand.run("4", ReleaseOperator, **other, history={"policy": hand.POLICY, "l": 2}, series="people")
    kept = {"history": {"policy": hand.POLICY}, "series": "people"}
    hand.run("5", ReleaseOperator, **other, **kept)
    hand.run("6", BottomUpOperator, k=5, l=2, seed=3, **kept)
    assert [entry["release_id"] for entry in releases(airflow_lake.table("people"))] == ["1", "5", "6"]
    assert manifest_of(airflow_lake.table("people"), "6")["history"]["releases"] == 2
