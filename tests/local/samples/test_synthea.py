"""Generated patients and encounters have the form of Synthea's, and the shape of real care."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.local.samples.synthea import TODAY, encounters, patients

NEEDS_DATA = pytest.mark.skipif(
    "PRIVACY_DATA" not in os.environ, reason="needs Synthea's tables in PRIVACY_DATA"
)
NAMES = ("patients", "encounters")
Tables = dict[str, pd.DataFrame]


def drawn(persons: int, seed: int = 1) -> Tables:
    people = patients(persons, np.random.default_rng(seed))
    return {"patients": people, "encounters": encounters(people, np.random.default_rng(seed + 1))}


@pytest.fixture(scope="module")
def made() -> Tables:
    return drawn(1_500)


def real(name: str) -> Path:
    return Path(os.environ["PRIVACY_DATA"]) / f"synthea_{name}.parquet"


@pytest.mark.slow  # draws whole tables
@NEEDS_DATA
@pytest.mark.needs_data
@pytest.mark.parametrize("name", NAMES)
def test_columns_and_arrow_types_are_those_of_the_real_file(name: str, made: Tables, tmp_path: Path) -> None:
    theirs = pq.read_schema(real(name)).remove_metadata()
    for tables in (drawn(0), drawn(1), made):
        tables[name].to_parquet(tmp_path / "made.parquet", index=False)
        assert pq.read_schema(tmp_path / "made.parquet").remove_metadata().equals(theirs)


@NEEDS_DATA
@pytest.mark.needs_data
@pytest.mark.parametrize("name", NAMES)
def test_nulls_stand_where_the_real_file_has_them_and_about_as_often(name: str, made: Tables) -> None:
    # The real share of 129 people has a standard error of at most 0.045: three of them.
    ours, theirs = made[name].isna().mean(), pd.read_parquet(real(name)).isna().mean()
    assert (ours - theirs).abs().max() < 0.135
    assert ((ours > 0) == (theirs > 0)).all()


@NEEDS_DATA
@pytest.mark.needs_data
def test_encounters_a_person_have_the_heavy_tail_of_the_real_file(made: Tables) -> None:
    visits = pd.read_parquet(real("encounters"))
    counts, theirs = (table.groupby("PATIENT").size() for table in (made["encounters"], visits))
    for share in (0.25, 0.5, 0.75, 0.9):
        assert 0.5 < counts.quantile(share) / theirs.quantile(share) < 2
    assert counts.max() > 10 * counts.median()
    assert set(made["encounters"]["ENCOUNTERCLASS"]) == set(visits["ENCOUNTERCLASS"])


def test_equal_seeds_give_equal_tables_and_others_other_people() -> None:
    first, again, other = drawn(30), drawn(30), drawn(30, seed=9)
    for name in NAMES:
        pd.testing.assert_frame_equal(first[name], again[name])
    assert set(first["patients"]["Id"]).isdisjoint(other["patients"]["Id"])


def test_every_encounter_is_of_a_patient_and_within_that_life(made: Tables) -> None:
    visits, people = made["encounters"], made["patients"]
    assert set(visits["PATIENT"]) == set(people["Id"])
    assert visits["Id"].is_unique
    joined = visits.merge(people[["Id", "BIRTHDATE", "DEATHDATE"]], left_on="PATIENT", right_on="Id")
    born, died = (pd.to_datetime(joined[name]).dt.tz_localize("UTC") for name in ("BIRTHDATE", "DEATHDATE"))
    end = died.fillna(pd.Timestamp(TODAY, tz="UTC"))
    assert (joined["START"] >= born).all()
    assert (joined["START"] <= end).all()
    assert (joined["STOP"] > joined["START"]).all()
    assert (visits["DESCRIPTION"] == "Death Certification").sum() == people["DEATHDATE"].notna().sum()


def test_codes_costs_and_reasons_go_with_each_other(made: Tables) -> None:
    visits = made["encounters"]
    assert visits.groupby("REASONCODE")["REASONDESCRIPTION"].nunique().max() == 1
    assert visits["REASONCODE"].isna().equals(visits["REASONDESCRIPTION"].isna())
    assert (visits["TOTAL_CLAIM_COST"] >= visits["BASE_ENCOUNTER_COST"]).all()
    assert visits["PAYER_COVERAGE"].between(0, visits["TOTAL_CLAIM_COST"]).all()
    assert visits.groupby("PROVIDER")["ORGANIZATION"].nunique().max() == 1


def test_patients_are_people_with_papers_of_their_age(made: Tables) -> None:
    people = made["patients"]
    assert people["SSN"].str.fullmatch(r"999-\d{2}-\d{4}").all()
    assert people["SSN"].is_unique
    young = pd.to_datetime(people["BIRTHDATE"]) > pd.Timestamp(TODAY) - pd.DateOffset(years=16)
    assert people.loc[young, ["DRIVERS", "PASSPORT", "PREFIX", "MARITAL"]].isna().all(axis=None)
    assert (people.loc[people["MAIDEN"].notna(), "GENDER"] == "F").all()
    assert (people["FIPS"].isna() == (people["ZIP"] == "00000")).all()
    assert pa.Table.from_pandas(people).schema.field("DEATHDATE").type == pa.date32()
