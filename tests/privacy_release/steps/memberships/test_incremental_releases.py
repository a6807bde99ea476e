"""Weekly releases that cannot be subtracted, through ingest, release, verification and publication."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import InfeasibleError, IntegrityError, SpecError
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.manifest.manifest import Manifest
from privacy_release.running.run import run_release
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps.retraction import retract_release
from privacy_release.workarea.area import WorkArea, sha256_file
from tests import tables
from tests.privacy_release.steps.conftest import Run

MODEL = {"model": "republication", "k": 3, "m": 2}
METHODS = ("bottom_up", "mondrian", "obpa", "ilp_l_diversity")
Specified = Callable[..., ReleaseSpec]


def memberships(curator: Path) -> set[Path]:
    """The membership files, without those that are kept with them."""
    return {path for path in curator.rglob("*.parquet") if path.suffixes == [".parquet"]}


@pytest.fixture
def specified(home: Path, curator: Path) -> Specified:
    """Writes the release of `home` with a policy that names attackers who subtract."""

    def write(
        method: str = "bottom_up", *, model: Mapping[str, Any] = MODEL, rules: Any = None, **history: Any
    ) -> ReleaseSpec:
        rules = rules or {"require": [{"model": "k_anonymity", "k": 3}, dict(model)], "max_suppressed": 0.9}
        own = {"identifier": "name", "hold_back": 3} | history
        release = {"method": method, "k": 3, "l": 2, "suppression_limit": 0.5}
        fields = {"schedule": None, "expectations": None, "history": own, "release": release}
        return load_spec(tables.write_release(home, rules, **fields))

    return write


def people(rows: int, first: int = 0) -> pd.DataFrame:
    """Persons by number; each has the same values in every table."""
    each = [np.random.default_rng(i) for i in range(first, first + rows)]
    return pd.DataFrame(
        {
            "name": [f"person-{first + i:03d}" for i in range(rows)],
            "age": [int(r.integers(18, 90)) for r in each],
            "zip": [str(r.choice([row[0] for row in tables.ZIPS])) for r in each],
            "illness": [str(r.choice(tables.ILLNESSES)) for r in each],
            "visits": [int(r.integers(0, 9)) for r in each],
        }
    )


def weeks(number: int) -> list[pd.DataFrame]:
    """Weekly tables of 60 people, of whom some leave, come, move, return and are corrected."""
    rng, everybody = np.random.default_rng(3), people(60 + 6 * number)
    present, found = np.arange(60), []
    for week in range(number):
        table = everybody.iloc[rng.permutation(present)].reset_index(drop=True)
        if week:
            table.loc[3, "age"] = min(int(table.loc[3, "age"]) + 20, 89)
            table.loc[7, "illness"] = tables.ILLNESSES[0]
        found.append(table)
        gone = rng.choice(present, 6, replace=False)
        back = np.setdiff1d(np.arange(present.max()), present)[:1]
        came = present.max() + 1 + np.arange(5)
        present = np.concatenate([np.setdiff1d(present, gone), back, came])
    return found


@pytest.mark.slow  # a release for each week; the engine's test of ten weeks is quick
def test_weekly_releases_by_methods_in_turn_keep_what_the_policy_asks_of_every_attacker(
    specified: Specified, run: Run, lake: Lake
) -> None:
    for week, table in enumerate(weeks(6)):
        outcome = run(specified(METHODS[week % 4]), table, f"week {week}")
        (found,) = [f for f in outcome.report.findings if f["rule"].startswith("republication")]
        assert found["passed"]
        assert found["measured"] >= 3
        manifest = manifest_of(lake.table("people"), f"week {week}")["history"]
        assert (manifest["releases"], manifest["hold_back"]) == (week, 3)
        current = len(read_release(lake.table("people"), f"week {week}")) - manifest["outdated"]
        assert manifest["withheld"] + manifest["held_back"] >= len(table) - current - manifest["outdated"]
        assert manifest["withheld"] + manifest["held_back"] <= len(table) - current


def test_one_newcomer_waits_and_the_release_is_published_again_as_it_was(
    specified: Specified, run: Run, lake: Lake, curator: Path
) -> None:
    spec = specified()
    run(spec, people(30), "1")
    first = read_release(lake.table("people"), "1").to_pylist()
    outcome = run(spec, people(31).iloc[1:], "2")
    (found,) = [f for f in outcome.report.findings if f["rule"].startswith("republication")]
    assert found["note"].endswith("correction 3; not judged: population (not named by the policy)")
    manifest = manifest_of(lake.table("people"), "2")["history"]
    assert (manifest["held_back"], manifest["outdated"], manifest["withheld"]) == (1, 1, 0)
    assert sorted(map(str, first)) == sorted(map(str, read_release(lake.table("people"), "2").to_pylist()))


def test_a_policy_on_repeated_people_demands_it_where_it_names_no_model_across_releases(
    specified: Specified, run: Run, lake: Lake
) -> None:
    of_each = [{"model": "k_anonymity", "k": 3}, {"model": "distinct_l_diversity", "l": 2}]
    rules = {"require": of_each, "repeated_people": "history", "max_suppressed": 0.9}
    run(specified(rules=rules), people(30), "1")
    outcome = run(specified(rules=rules), people(31), "2")
    (found,) = [f for f in outcome.report.findings if f["rule"].startswith("republication")]
    assert found["rule"].startswith("republication(k=3, m=2, attackers=['identity', 'membership'")
    assert manifest_of(lake.table("people"), "2")["history"]["held_back"] == 1
    with pytest.raises(SpecError, match=r"release.method must be one of .* got rfka"):
        run(specified("rfka", rules=rules), people(31), "3")


def test_followed_people_are_compared_also_where_the_policy_asks_for_no_model(
    specified: Specified, run: Run
) -> None:
    """A release that is published meanwhile must be one that the publication has not seen."""
    of_each = [{"model": "k_anonymity", "k": 3}, {"model": "distinct_l_diversity", "l": 2}]
    spec = specified(rules={"require": of_each, "max_suppressed": 0.9}, hold_back=None)
    report = run(spec, people(30), "1").report
    assert report.was_compared
    assert report.unseen([1]) == {1}


def test_waiting_ends_after_the_releases_that_were_named(specified: Specified, run: Run, lake: Lake) -> None:
    spec = specified(hold_back=1)
    run(spec, people(30), "1")
    run(spec, people(31), "2")
    run(spec, people(31), "3")
    manifest = [manifest_of(lake.table("people"), name)["history"] for name in "23"]
    assert [(t["held_back"], t["withheld"]) for t in manifest] == [(1, 0), (0, 1)]


def test_the_private_files_tell_neither_by_order_nor_by_a_value_whose_a_record_is(
    specified: Specified, run: Run, curator: Path
) -> None:
    run(specified(), people(30), "1")
    (kept,) = [p for p in curator.rglob("*.parquet") if p.suffixes == [".parquet"]]
    persons = pd.read_parquet(kept)["person"].tolist()
    assert persons == sorted(persons)
    values = {str(v) for name in ("illness", "name") for v in people(30)[name]}
    assert not values & {str(v) for column in pd.read_parquet(kept).items() for v in column[1]}


def test_retraction_removes_all_that_is_kept_of_a_release(
    specified: Specified, run: Run, lake: Lake, curator: Path
) -> None:
    spec = specified()
    run(spec, people(30), "1")
    kept = {p.suffixes[0] for p in curator.rglob("*.parquet")}
    assert {".records", ".waiting"} < kept
    retract_release(lake.table("people"), "1", reason="a test")
    assert not list(curator.rglob("*.parquet"))


@pytest.mark.quick("1")  # another release
@pytest.mark.parametrize("retracted", ["1", "2"])
def test_after_a_retraction_the_classes_of_the_newest_other_release_are_kept(
    specified: Specified, run: Run, lake: Lake, retracted: str
) -> None:
    spec = specified()
    run(spec, people(30), "1")
    run(spec, people(36), "2")
    retract_release(lake.table("people"), retracted, reason="a test")
    outcome = run(spec, people(37), "3")
    (found,) = [f for f in outcome.report.findings if f["rule"].startswith("republication")]
    assert found["passed"]
    manifest = manifest_of(lake.table("people"), "3")
    assert (manifest["history"]["releases"], manifest["history"]["withheld"], manifest["rows"]) == (1, 0, 30)


@pytest.mark.parametrize("kind", ["records", "waiting"])
@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: people(3).to_parquet(path)])
def test_what_is_kept_of_the_last_release_must_be_as_it_was(
    specified: Specified, run: Run, curator: Path, kind: str, spoil: Any
) -> None:
    spec = specified()
    run(spec, people(30), "1")
    (path,) = curator.rglob(f"*.{kind}.parquet")
    spoil(path)
    with pytest.raises(IntegrityError):
        run(spec, people(31), "2")


def removed(path: Path, older: Path) -> None:
    path.unlink()


def replaced_by_that_of_an_older_release(path: Path, older: Path) -> None:
    path.write_bytes(older.read_bytes())


def replaced_by_that_of_an_earlier_version(path: Path, older: Path) -> None:
    frame = pd.read_parquet(path)
    kinds = ("value mark of ", "values of ")
    frame[[name for name in frame if not name.startswith(kinds)]].to_parquet(path)


def replaced_by_one_with_fewer_persons(path: Path, older: Path) -> None:
    pd.read_parquet(path).iloc[4:].to_parquet(path)


def truncated(path: Path, older: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def test_the_membership_file_of_each_earlier_release_must_be_the_published_one(
    specified: Specified, run: Run, lake: Lake, curator: Path, tmp_path: Path
) -> None:
    spec = specified(accept_unjudged="a pilot")  # the files of earlier versions are allowed
    run(spec, people(30), "1")
    (first,) = memberships(curator)
    run(spec, people(36), "2")
    (second,) = memberships(curator) - {first}
    spoils = (
        removed,
        replaced_by_that_of_an_older_release,
        replaced_by_that_of_an_earlier_version,
        replaced_by_one_with_fewer_persons,
        truncated,
    )
    for path, older, release, each in ((second, first, 2, spoils), (first, second, 1, spoils[:2])):
        published = path.read_bytes()
        for spoil in each:
            spoil(path, older)
            problem = "is missing" if spoil is removed else "is not the file that was published"
            with pytest.raises(IntegrityError) as caught:
                run(spec, people(37), "3")
            text = str(caught.value)
            assert f"release {release}, version {release} of table people, {problem}" in text
            assert f"Restore {path.name} from a backup of the curator's folder, or retract" in text
            path.write_bytes(published)
    assert not list((tmp_path / "work").glob("3-*/staged.parquet"))
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == ["1", "2"]
    run(spec, people(37), "3")


def test_a_missing_membership_file_counts_no_more_once_its_release_is_retracted(
    specified: Specified, run: Run, lake: Lake, curator: Path
) -> None:
    spec = specified()
    run(spec, people(30), "1")
    memberships(curator).pop().unlink()
    retract_release(lake.table("people"), "1", reason="its membership file was lost")
    run(spec, people(31), "2")


def test_the_published_hash_is_that_of_the_membership_file(
    specified: Specified, run: Run, lake: Lake, curator: Path
) -> None:
    run(specified(), people(30), "1")
    (path,) = memberships(curator)
    manifest = manifest_of(lake.table("people"), "1")
    (entry,) = releases(lake.table("people"))
    assert manifest["membership"] == entry["figures"]["membership"] == {"sha256": sha256_file(path)}
    assert Manifest.from_dict(manifest).to_dict() == manifest


@pytest.mark.usefixtures("without_hashes")
def test_persons_and_records_that_were_exchanged_are_refused(
    specified: Specified, run: Run, curator: Path
) -> None:
    spec = specified()
    run(spec, people(30), "1")
    (kept,) = [p for p in curator.rglob("*.parquet") if p.suffixes == [".parquet"]]
    frame = pd.read_parquet(kept)
    cells = [name for name in frame if name.startswith("cell of ")]
    frame[cells] = frame[cells].iloc[::-1].to_numpy()
    frame.to_parquet(kept)
    with pytest.raises(IntegrityError):
        run(spec, people(31), "2")


def test_after_a_release_that_was_made_before_the_next_is_made_as_before_and_the_one_after_it_keeps_classes(
    specified: Specified, run: Run, lake: Lake
) -> None:
    before = {"model": "cross_release_k_anonymity", "k": 3}
    run(specified(model=before, hold_back=None), people(30), "1")
    run(specified(), people(30), "2")
    assert "held_back" not in manifest_of(lake.table("people"), "2")["history"]
    run(specified(), people(31), "3")
    assert manifest_of(lake.table("people"), "3")["history"]["held_back"] == 1


def test_more_withheld_than_allowed_publishes_nothing(specified: Specified, run: Run) -> None:
    spec = specified(hold_back=0)
    run(spec, people(30), "1")
    with pytest.raises(InfeasibleError, match="cannot be kept safe together"):
        run(spec, pd.concat([people(30), people(40, 200).assign(illness="flu")]), "2")


@pytest.mark.parametrize(
    ("method", "history", "message"),
    [
        ("rfka", {}, "release.method must be one of bottom_up, ilp_l_diversity, mondrian, obpa, got rfka"),
        ("bottom_up", {"departures": "unknown"}, "history.departures cannot be combined with a policy"),
        ("bottom_up", {"m": {"illness": 2}, "counterfeits": 0.1}, "history.counterfeits cannot be combined"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_read(
    specified: Specified,
    lake: Lake,
    tmp_path: Path,
    home: Path,
    method: str,
    history: dict[str, Any],
    message: str,
) -> None:
    spec = specified(method, **history)
    (home / "people.parquet").unlink(missing_ok=True)
    with WorkArea(tmp_path / "work", "1") as work, pytest.raises(SpecError, match=message):
        run_release(spec, lake, "1", work)


def test_holding_back_needs_an_attacker_who_subtracts(specified: Specified, run: Run) -> None:
    spec = specified(model={"model": "cross_release_k_anonymity", "k": 3})
    with pytest.raises(SpecError, match=r"history.hold_back requires a policy"):
        run(spec, people(30), "1")


def test_releases_to_wait_are_a_whole_number_from_0(specified: Specified) -> None:
    with pytest.raises(SpecError, match=r"history.hold_back"):
        specified(hold_back=-1)
