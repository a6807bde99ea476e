"""People who are followed over the releases of a table that is made in fragments."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import IntegrityError, VerificationError
from privacy_engine.fragments.plan import StandingCut
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from privacy_release.running.run import Outcome
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps.producers.followed import too_large
from privacy_release.steps.retraction import retract_release
from tests import tables
from tests.privacy_release.steps.conftest import Run

MODEL = {"model": "republication", "k": 3, "m": 2}
ENGINE = {"kind": "fragments", "rows": 1_000, "processes": 1}  # the least that a fragment may have
PERSONS = 1_050
Specified = Callable[..., ReleaseSpec]


@pytest.fixture
def specified(home: Path, curator: Path) -> Specified:
    """Writes the release of `home`, in fragments."""

    def write(*, engine: Any = ENGINE, **history: Any) -> ReleaseSpec:
        rules = {"require": [{"model": "k_anonymity", "k": 3}, MODEL], "max_suppressed": 0.9}
        release = {"method": "mondrian", "k": 3, "l": 2, "suppression_limit": 0.5, "seed": 4}
        own = {"identifier": "name", "hold_back": 3} | history
        fields = {"schedule": None, "expectations": None, "history": own, "release": release}
        return load_spec(tables.write_release(home, rules, engine=engine, **fields))

    return write


def people(first: int = 0, last: int = PERSONS) -> pd.DataFrame:
    """Persons by number; each has the same values in every table."""
    rng, most = np.random.default_rng(5), 4_000
    every = pd.DataFrame(
        {
            "name": [f"person-{i:04d}" for i in range(most)],
            "age": rng.integers(18, 90, most),
            "zip": rng.choice([row[0] for row in tables.ZIPS], most),
            "illness": rng.choice(tables.ILLNESSES, most),
            "visits": rng.integers(0, 9, most),
        }
    )
    return every.iloc[first:last].reset_index(drop=True)


def changed() -> pd.DataFrame:
    """A table in which 20 persons arrived, 30 left, some moved far away, and some were corrected."""
    table = people(30, PERSONS + 20)
    codes = [row[0] for row in tables.ZIPS]
    table.loc[100:300, "age"] = 107 - table.loc[100:300, "age"]
    table.loc[100:300, "zip"] = table.loc[100:300, "zip"].map(dict(zip(codes, reversed(codes), strict=True)))
    table.loc[400:403, "illness"] = tables.ILLNESSES[0]
    return table


def regions(curator: Path) -> list[dict[str, int]]:
    """The region of each person of each release that is kept, the newest last."""
    paths = [path for path in curator.rglob("*.parquet") if path.suffixes == [".parquet"]]
    frames = [pd.read_parquet(path) for path in sorted(paths, key=lambda path: path.name)]
    return [dict(zip(frame["person"], frame["region"], strict=True)) for frame in frames]


def cut_of(curator: Path, release: str) -> StandingCut:
    """The cut that is kept with a release."""
    (path,) = [p for p in curator.rglob(f"{release}-*.parquet") if p.suffixes == [".parquet"]]
    return StandingCut.from_json(pd.read_parquet(path)["cuts of the fragments"].dropna().iloc[0])


def require_judged(outcome: Outcome) -> None:
    """The model over all releases was measured on the joined release, and holds."""
    (found,) = [f for f in outcome.report.findings if f["rule"].startswith("republication")]
    assert found["passed"]
    assert found["measured"] >= 3


def test_releases_in_fragments_keep_every_person_in_one_fragment(
    specified: Specified, run: Run, lake: Lake, curator: Path
) -> None:
    spec = specified()
    run(spec, people(), "1")
    require_judged(run(spec, changed(), "2"))
    require_judged(run(spec, people(0, PERSONS + 40), "3"))  # some return, and move back
    kept, cuts = regions(curator), [cut_of(curator, release).tree for release in "123"]
    assert cuts[0].fragments >= 2
    assert (cuts[0].assign(people(130, 331)) != cuts[0].assign(changed()[100:301])).any()
    assert cuts[0] == cuts[1] == cuts[2]
    for one in kept:
        for other in kept:
            assert all(other.get(person, region) == region for person, region in one.items())
    stated = [manifest_of(lake.table("people"), release) for release in "123"]
    assert [own["history"]["releases"] for own in stated] == [0, 1, 2]
    assert [own["fragments"]["count"] for own in stated] == [cuts[0].fragments] * 3
    second = stated[1]["history"]
    assert second["outdated"] > 0
    assert stated[1]["rows"] - second["outdated"] + second["held_back"] + second["withheld"] <= PERSONS - 10


@pytest.mark.slow  # three releases; `test_regions` joins fragments
def test_a_fragment_with_too_few_persons_joins_another_and_stays_there(
    specified: Specified, run: Run, lake: Lake, curator: Path
) -> None:
    spec, table = specified(), people()
    run(spec, table, "1")
    tree = cut_of(curator, "1").tree
    few = tree.assign(table) != 0
    few[np.flatnonzero(~few)[:4]] = True
    require_judged(run(spec, table[few], "2"))
    require_judged(run(spec, people(0, PERSONS + 30), "3"))
    later = [cut_of(curator, release).tree for release in "23"]
    assert [own.fragments for own in later] == [tree.fragments - 1] * 2
    assert {own.cuts for own in later} == {tree.cuts}
    assert later[0].fragment_of == later[1].fragment_of


def test_the_fragments_of_the_last_release_must_be_as_they_were(
    specified: Specified, run: Run, curator: Path, lake: Lake
) -> None:
    spec = specified()
    run(spec, people(), "1")
    (path,) = curator.rglob("*.fragments.parquet")
    for spoil in (lambda path: people(0, 3).to_parquet(path), Path.unlink):
        spoil(path)
        with pytest.raises(
            IntegrityError, match="the fragments that were kept with a release, is missing or was"
        ):
            run(spec, people(), "2")
    retract_release(lake.table("people"), "1", reason="its fragments were lost")
    assert not list(curator.rglob("*.parquet"))
    run(spec, people(), "2")


def test_other_regions_than_those_that_were_published_are_refused(
    specified: Specified, run: Run, curator: Path
) -> None:
    spec = specified()
    run(spec, people(), "1")
    (path,) = [p for p in curator.rglob("*.parquet") if p.suffixes == [".parquet"]]
    frame = pd.read_parquet(path)
    frame.assign(region=frame["region"].iloc[::-1].to_numpy()).to_parquet(path)
    with pytest.raises(IntegrityError, match="is not the file that was published: its SHA-256 differs"):
        run(spec, people(), "2")


def test_a_release_in_one_piece_is_not_continued_in_fragments(
    specified: Specified, run: Run, lake: Lake
) -> None:
    run(specified(), people(), "1")
    require_judged(run(specified(engine="local"), changed(), "2"))
    with pytest.raises(VerificationError, match="version 2 of table people was made in one piece"):
        run(specified(), changed(), "3")
    retract_release(lake.table("people"), "2", reason="a test")
    run(specified(), changed(), "3")
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == ["1", "2", "3"]


@pytest.mark.slow  # three releases; `test_fragments` compares bytes of one
def test_a_retry_gives_the_same_bytes(specified: Specified, run: Run, lake: Lake) -> None:
    spec = specified()
    run(spec, people(), "1")
    first, again = (run(spec, changed(), "2") for _ in range(2))
    assert again.report.sha256 == first.report.sha256
    assert again.published is not None
    assert again.published.already
    assert len(releases(lake.table("people"))) == 2


def test_a_fragment_that_grew_far_beyond_its_size_is_reported() -> None:
    cut: Any = SimpleNamespace(
        table=SimpleNamespace(working_engine=SimpleNamespace(rows=1_000)),
        plan=SimpleNamespace(sizes=(900, 2_000)),
        followed=object(),
    )
    assert too_large(cut) is None
    cut.plan.sizes = (900, 2_001)
    assert "a fragment has 2,001 records, more than twice engine.rows (1,000)" in str(too_large(cut))
