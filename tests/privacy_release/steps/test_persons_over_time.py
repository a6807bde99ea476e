"""Weekly releases of visits, of which a patient has several, from the source to the lake."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import InfeasibleError, SpecError, VerificationError
from privacy_engine.republication import incremental
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.privacy_release.steps.conftest import Run

MODEL = {"model": "republication", "k": 3, "m": 2}
SCHEMA = {"visit": {"role": "identifier", "kind": "categorical"}, **tables.fields()}
PLAIN = {"require": [{"model": "k_anonymity", "k": 3}]}


@pytest.fixture
def specified(home: Path, curator: Path) -> Callable[..., ReleaseSpec]:
    """Writes a release of visits, each of a patient."""

    def write(rules: Any = None, **changes: Any) -> ReleaseSpec:
        rules = rules or {"require": [{"model": "k_anonymity", "k": 3}, MODEL], "max_suppressed": 0.9}
        fields = {
            "schedule": None,
            "expectations": None,
            "source": {"uri": "people.parquet", "columns": list(SCHEMA), "nulls": "fail"},
            "schema": SCHEMA,
            "person": "name",
            "history": {"identifier": "visit", "hold_back": 3},
            "release": {"method": "bottom_up", "k": 3, "l": 2, "suppression_limit": 0.5},
        }
        return load_spec(tables.write_release(home, rules, **(fields | changes)))

    return write


def visits(patients: range, number: int = 0) -> pd.DataFrame:
    """A visit of each patient, or of each second one a further one, by their numbers."""
    each = [np.random.default_rng(patient) for patient in patients]
    return pd.DataFrame(
        {
            "visit": [f"{patient}/{number}" for patient in patients],
            "name": [f"person-{patient:03d}" for patient in patients],
            "age": [int(r.integers(18, 90)) for r in each],
            "zip": [str(r.choice([row[0] for row in tables.ZIPS])) for r in each],
            "illness": [
                str(np.random.default_rng(p * 100 + number).choice(tables.ILLNESSES)) for p in patients
            ],
            "visits": [int(r.integers(0, 9)) for r in each],
        }
    )


def table_of(*parts: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True)


@pytest.mark.slow  # a release for each week; the engine's test of persons is quick
def test_weekly_releases_of_visits_keep_k_patients_against_every_attacker(
    specified: Callable[..., ReleaseSpec], run: Run, lake: Lake
) -> None:
    table = table_of(visits(range(40)), visits(range(0, 40, 2), 1))
    for week in range(4):
        outcome = run(specified(), table, f"week {week}")
        found = {f["rule"].partition("(")[0]: f for f in outcome.report.findings}
        assert found["republication"]["passed"]
        assert found["republication"]["measured"] >= 3
        assert found["k_anonymity"]["measured"] >= 3
        manifest = manifest_of(lake.table("people"), f"week {week}")
        assert manifest["history"]["releases"] == week
        assert manifest["person"]["column"] == "name"
        gone = set(table["name"].iloc[::13])
        table = table[~table["visit"].isin(table["visit"].iloc[::9]) & ~table["name"].isin(gone)]
        more = visits(range(100 * (week + 1), 100 * (week + 1) + 4))
        table = table_of(table, more, visits(range(1, 12, 3), 10 + week))


def test_visits_of_one_new_patient_wait_however_many_they_are(
    specified: Callable[..., ReleaseSpec], run: Run, lake: Lake
) -> None:
    run(specified(), visits(range(30)), "1")
    before = len(read_release(lake.table("people"), "1"))
    new = table_of(*(visits(range(50, 51), number) for number in range(4)))
    run(specified(), table_of(visits(range(30)), new), "2")
    assert manifest_of(lake.table("people"), "2")["history"]["held_back"] == 4
    assert len(read_release(lake.table("people"), "2")) == before


def test_a_release_that_counts_visits_as_patients_is_not_published(
    specified: Callable[..., ReleaseSpec], run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(specified(), visits(range(30)), "1")
    new = table_of(*(visits(range(50, 52), number) for number in range(4)))
    monkeypatch.setattr(  # the slip, in a maker that does not judge
        Anonymizer, "recoded", lambda own, table, rng: own.anonymize(replace(table, persons=None), rng)
    )
    monkeypatch.setattr(incremental._Made, "failing", lambda made, *_: np.zeros(len(made.table), np.bool_))
    with pytest.raises((VerificationError, InfeasibleError)):
        run(specified(), table_of(visits(range(30)), new), "2")
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == ["1"]


def test_what_is_kept_names_no_one_and_tells_whose_records_are_one_persons(
    specified: Callable[..., ReleaseSpec], run: Run, curator: Path
) -> None:
    run(specified(), table_of(visits(range(30)), visits(range(0, 30, 2), 1)), "1")
    (kept,) = [p for p in curator.rglob("*.parquet") if p.suffixes == [".parquet"]]
    frame = pd.read_parquet(kept)
    assert frame["number of the person"].nunique() < len(frame)
    shown = {str(value) for _, column in frame.items() for value in column}
    assert not shown & {str(v) for name in ("visit", "name") for v in visits(range(30))[name]}


def test_releases_with_and_without_a_person_cannot_be_compared(
    specified: Callable[..., ReleaseSpec], run: Run
) -> None:
    run(specified(), visits(range(30)), "1")
    with pytest.raises(VerificationError, match=r"another `person`.*publish under a new table name"):
        run(specified(person={"none": "each visit is of another person"}), visits(range(30)), "2")


def test_persons_who_are_distinguished_by_another_form_are_refused(
    specified: Callable[..., ReleaseSpec], run: Run
) -> None:
    run(specified(), visits(range(30)), "1")
    exact = SCHEMA | {
        "name": {"role": "identifier", "kind": "categorical", "exact": {"allow": "case matters"}}
    }
    with pytest.raises(VerificationError, match="another `exact`"):
        run(specified(schema=exact), visits(range(30)), "2")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"history": {"identifier": "name"}}, "must be another identifier than person, got name for both"),
        ({"rules": PLAIN, "history": {"identifier": "visit"}}, "names an attacker who subtracts"),
        ({"transform": {"sql": "SELECT * FROM input"}}, "after which persons have other numbers"),
        ({"person": {"column": "name", "rows": "linked"}}, "cannot be linked with history"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_anything_is_read(
    specified: Callable[..., ReleaseSpec], lake: Lake, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with WorkArea(tmp_path / "work", "1") as work, pytest.raises(SpecError, match=message):
        run_release(specified(**changes), lake, "1", work)
