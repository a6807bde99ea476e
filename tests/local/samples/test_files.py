"""The sample tables as files: written once, whole and private, and each says what it is."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deploy.local.samples import files
from deploy.local.samples.adult import half_of
from deploy.local.samples.customers import delivery
from deploy.local.samples.files import ADULT, WEEKS, origin_of, weeks_around, write_samples, write_table
from deploy.local.samples.synthetic_adult import synthetic_adult

WEEK = "2026-01-05T00:00:00"


CUSTOMERS = 500


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few customers, visitors and patients."""
    monkeypatch.setattr(files, "CUSTOMERS", CUSTOMERS)
    for name, number in (("TEST_CUSTOMERS", 50), ("VISITORS", 600), ("PERSONS", 30)):
        monkeypatch.setattr(files, name, number)


@pytest.fixture(autouse=True)
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """50 records as the public data, so that nothing is downloaded."""
    adult = synthetic_adult(50, rng=np.random.default_rng(5))
    (tmp_path / "public").mkdir()
    adult.to_parquet(tmp_path / "public" / "adult.parquet", index=False)
    monkeypatch.setenv("PRIVACY_DATA", str(tmp_path / "public"))
    return adult


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow  # writes all samples twice
def test_samples_are_the_same_bytes_in_every_folder_and_readable_by_the_user_alone(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_samples(tmp_path / name, [WEEK])
    written = contents(tmp_path / "one")
    assert written == contents(tmp_path / "other")
    tables = {name for name in written if name.endswith(".parquet")}
    assert tables > {
        ADULT,
        "encounters.parquet",
        f"adult_weeks/{WEEK}.parquet",
        f"bank_customers/{WEEK}.parquet",
    }
    assert written.keys() == tables | {name.replace(".parquet", ".txt") for name in tables}
    assert not [path for path in (tmp_path / "one").rglob("*.*") if path.stat().st_mode & 0o077]


@pytest.mark.slow  # writes all deliveries
def test_a_delivery_is_half_of_adult_or_all_customers(tmp_path: Path, public: pd.DataFrame) -> None:
    write_samples(tmp_path / "data", [WEEK])
    half = pd.read_parquet(tmp_path / "data" / "adult_weeks" / f"{WEEK}.parquet")
    pd.testing.assert_frame_equal(half, half_of(public, WEEK))
    customers = pd.read_parquet(tmp_path / "data" / "bank_customers" / f"{WEEK}.parquet")
    pd.testing.assert_frame_equal(customers, delivery(CUSTOMERS, WEEK))


def test_the_encounters_are_of_the_patients_beside_them(tmp_path: Path) -> None:
    write_samples(tmp_path, [])
    patients, encounters = (
        pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("patients", "encounters")
    )
    assert set(encounters["PATIENT"]) == set(patients["Id"])
    visits = pd.read_parquet(tmp_path / "visits.parquet")
    assert visits["Id"].tolist() == encounters["Id"].tolist()
    births = patients.set_index("Id")["BIRTHDATE"]
    assert visits["BIRTHDATE"].tolist() == births.loc[visits["PATIENT"]].tolist()


def test_syntheas_own_tables_are_taken_where_they_are_provided(tmp_path: Path, public: pd.DataFrame) -> None:
    write_samples(tmp_path / "made", [])
    for name in ("patients", "encounters"):
        some = pd.read_parquet(tmp_path / "made" / f"{name}.parquet")
        for column in {"Id", "PATIENT"} & set(some):
            some[column] = "x" + some[column]
        some.to_parquet(tmp_path / "public" / f"synthea_{name}.parquet", index=False)
    write_samples(tmp_path / "data", [])
    assert pd.read_parquet(tmp_path / "data" / "visits.parquet")["Id"].str.startswith("x").all()
    assert str(origin_of(tmp_path / "data" / "visits.parquet")).startswith("encounters.parquet with patients")


def test_each_table_says_where_its_records_come_from_and_no_other_file_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WEEKS", 2)
    data = tmp_path / "data"
    for file in write_samples(data, [WEEK]):
        assert origin_of(file)
    assert "50 records" in str(origin_of(data / ADULT))
    assert str(origin_of(data / "adult_weeks" / f"{WEEK}.parquet")).startswith("Half of adult.parquet")
    assert origin_of(tmp_path / "public" / "adult.parquet") is None


@pytest.mark.slow  # writes all samples
def test_a_table_that_is_there_is_kept_and_only_new_weeks_are_added(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_table(data / ADULT, synthetic_adult(10, rng=np.random.default_rng(1)), "my own")
    write_samples(data, [WEEK])
    before = contents(data)
    assert len(pd.read_parquet(data / ADULT)) == 10
    assert write_samples(data, [WEEK]) == []
    added = write_samples(data, [WEEK, "2026-01-12T00:00:00"])
    assert {file.name for file in added} == {"2026-01-12T00:00:00.parquet"}
    assert {name: contents(data)[name] for name in before} == before


def test_a_failed_write_leaves_the_old_sample_and_nothing_else(tmp_path: Path, public: pd.DataFrame) -> None:
    target = tmp_path / "out" / "sample.parquet"
    target.mkdir(parents=True)  # a folder cannot be replaced by a file
    with pytest.raises(OSError, match="directory"):
        write_table(target, public, "public")
    assert {path.name for path in target.parent.iterdir()} == {"sample.parquet", "sample.txt"}
    assert not list(target.iterdir())


@pytest.mark.parametrize("day", [5, 7, 11])
def test_weeks_begin_on_mondays_around_the_day(day: int) -> None:
    weeks = weeks_around(datetime(2026, 1, day, 23, 59, tzinfo=UTC))
    assert weeks[1] == WEEK
    assert weeks == sorted(weeks)
    assert all(datetime.fromisoformat(week).weekday() == 0 for week in weeks)


@pytest.mark.slow  # writes twelve weeks
def test_deliveries_of_the_clinic_are_of_twelve_weeks(tmp_path: Path) -> None:
    keys = weeks_around(datetime(2026, 1, 7, tzinfo=UTC))
    written = sorted(f.stem for f in write_samples(tmp_path / "samples", keys) if f.parent.name == "clinic")
    assert len(written) == WEEKS
    assert written[-len(keys) :] == keys
