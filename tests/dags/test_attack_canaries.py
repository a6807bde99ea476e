"""Invented values planted in the source of releases that are attacked are looked for in all that runs leave.

So are the key by which people are held out, their records, and shadow releases that are made of these: all of
them must go with the work area. A public
register has separate planted values, people who are in no release and a column that no one requested among
them. The evidence of what was published is searched, too, each file of it by itself.
"""

import io
import zipfile
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_release.evidence.archive import pack
from privacy_release.lake.read import manifest_of
from privacy_release.proof.keys import SigningKey
from tests.canaries import CANARIES, MARK, NUMBER, planted
from tests.dags.conftest import POLICY
from tests.dags.scanner import Left, left_by, new_root

pytestmark = pytest.mark.slow

GREEN, N = "people", 1000
# The disease is drawn at random, as in `test_attacks`: ten standard errors below the bound.
INFERENCE = {"model": "attack_risk", "attack": "inference", "excess": 0.5, "publish_figures": True}
MEMBERSHIP = {"model": "attack_risk", "attack": "membership", "excess": 0.5}
SHADOWS = MEMBERSHIP | {"holdout": 0.2, "shadows": 4}
# Of a class of 20 hardly anybody is named; a half of two attributes finds every second planted record.
LINKAGE = {"model": "attack_risk", "attack": "linkage", "excess": 0.3}
RELEASE = {"method": "mondrian", "k": 20, "l": 2, "seed": 7}
# What is wrong with each: the step that must fail, and the rule about attacks.
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "leaks": ("attack", MEMBERSHIP),
    "leaks_with_shadows": ("attack", SHADOWS),
    "too_few_for_shadows": ("hold_out", SHADOWS | {"holdout": 0.05}),
    "classes_too_large_for_shadows": ("attack", SHADOWS),
    "too_few_people": ("hold_out", INFERENCE | {"holdout": 0.001}),
    "unfit_register": ("register", LINKAGE),
    "register_that_tells_too_little": ("attack", LINKAGE),
}
# Of the faulty ones that have a register: what it tells.
TELLS = {"unfit_register": ["age", "town"], "register_that_tells_too_little": ["town"]}


def registered(table: pd.DataFrame) -> pd.DataFrame:
    """A register of the people of a table, and of one who is in no release, with a column of their names."""
    stranger = pd.DataFrame({"age": [NUMBER], "town": [f"{MARK}-street"]})
    listed = pd.concat([table[["age", "town"]], stranger], ignore_index=True)
    return listed.assign(voter=[f"{MARK}-voter-{i:04d}" for i in range(len(listed))])


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_home: Any) -> Left:
    root = new_root(tmp_path_factory.mktemp("attacked"))
    home, rng = make_home(root), np.random.default_rng(6)
    table = planted(
        pd.DataFrame(
            {
                "age": rng.random(N) * 100,
                "town": rng.choice(["north", "south"], N),
                "disease": rng.choice(["cold", "flu", "gout"], N),
                "remark": [f"{MARK}-remark-{i:04d}" for i in range(N)],
            }
        )
    )
    alike = table.assign(remark=f"{MARK}-remark")
    everybody = registered(table)
    everybody.to_parquet(home.folder / "voters.parquet")
    everybody.assign(age=200 + NUMBER).to_parquet(home.folder / "unfit_register_listed.parquet")
    everybody.to_parquet(home.folder / "register_that_tells_too_little_listed.parquet")
    home.write(
        alike,
        policy={"require": [*POLICY["require"], INFERENCE, LINKAGE]},
        release=RELEASE,
        public_register={"uri": "voters.parquet", "columns": ["age", "town"]},
    )
    for name, (_, rule) in FAULTS.items():
        register = (
            {"public_register": {"uri": f"{name}_listed.parquet", "columns": TELLS[name]}}
            if name in TELLS
            else {}
        )
        home.write(
            table if name.startswith("leaks") else alike,
            name=name,
            policy={"require": [*POLICY["require"], rule]},
            release=RELEASE | ({"k": 60} if name.startswith("classes") else {}),
            **register,
        )
    return left_by(root, [GREEN, *FAULTS], {"PRIVACY_CURATOR": str(root / "curator")})


def test_an_attacked_release_is_published_with_its_figures(left: Left) -> None:
    assert len(left.rows(GREEN)) == 900
    assert left.ended[GREEN]["tasks"]["register"] == "success"
    (manifest,) = manifest_of(*left.release(GREEN))["attacks"]
    assert [outcome["subject"] for outcome in manifest["outcomes"]] == ["disease"]
    (report,) = (
        data for name, data in left.files.items() if name.startswith(".lake/") and b">Linkage<" in data
    )
    assert b"Excess risk " in report  # of the inference


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_run_fails_where_it_should(name: str, left: Left) -> None:
    left.require_failed_at(name, FAULTS[name][0])


def test_no_planted_value_is_left_behind_also_not_for_the_curator(left: Left) -> None:
    pages = [name for name in left.files if name.startswith("curator")]
    assert (
        len(pages) == 5
    )  # of the green run with its figures, and of the three that fail as they are attacked
    assert left.leaks(*CANARIES) == []


def test_each_shadow_is_reported_as_it_is_made(left: Left) -> None:
    assert all(f"shadow {n} of 4, of 50 of 200 records held out" in left.output for n in (1, 2, 3, 4))


def test_nothing_of_the_people_who_were_held_out_is_left(left: Left) -> None:
    left.require_empty_work_area()
    kept = [str(p) for p in left.root.rglob("*") if p.name.startswith(("holdout.", "register.", "shadow-"))]
    assert kept == []


def test_no_planted_value_is_in_the_evidence(left: Left) -> None:
    data = pack(*left.release(GREEN), [SigningKey.new()], pdf=False)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name).lower() for name in archive.namelist()}
    assert "release/manifest.json" in files
    assert b"attacks that were tried" in files["evidence.html"]
    assert [name for name, content in files.items() if any(c in content for c in CANARIES)] == []


def test_the_search_saw_logs_database_manifest_report_and_commit_log(left: Left) -> None:
    left.require_whole_search(failures=len(FAULTS))
