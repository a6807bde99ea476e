"""A small table about people, and a folder with all that a release of it needs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sqlalchemy.engine import URL

from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.work.area import WorkArea
from tests.servers import postgres

REGIONS = {"north": ("N1", "N2"), "south": ("S1", "S2")}
ILLNESSES = ("cold", "cough", "flu", "measles")

SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "zip": {"role": "quasi_identifier", "kind": "categorical", "hierarchy": "hierarchies/zip.csv"},
    "illness": {"role": "sensitive", "kind": "categorical"},
    "visits": {"role": "insensitive", "kind": "numeric"},
}
SPEC = {
    "name": "people",
    "schedule": "@daily",
    "source": {"uri": "people.parquet", "columns": list(SCHEMA), "nulls": "fail"},
    "schema": SCHEMA,
    "expectations": "expectations/people.json",
    "release": {"method": "mondrian", "k": 5, "l": 2, "seed": 7},
    "policy": "policies/people.yaml",
    "publish": {"lake": "lake_default", "table": "people"},
}
POLICY = {
    "require": [
        {"model": "k_anonymity", "k": 5},
        {"model": "distinct_l_diversity", "l": 2, "attribute": "illness"},
    ],
    "max_suppressed": 0.1,
    "max_gcp": 0.9,
}
SUITE = (
    '{"name": "people", "expectations": ['
    '{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}, "severity": "critical"},'
    '{"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 10}, "severity": "critical"}]}'
)


@pytest.fixture
def people() -> pd.DataFrame:
    """200 records; every value of the identifier is unique and can be looked for."""
    rng = np.random.default_rng(3)
    n = 200
    return pd.DataFrame(
        {
            "name": [f"person-{i:03d}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "zip": rng.choice([code for codes in REGIONS.values() for code in codes], n),
            "illness": rng.choice(ILLNESSES, n),
            "visits": rng.integers(0, 9, n),
        }
    )


@pytest.fixture
def home(tmp_path: Path, people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The include folder of a release that runs green, with its source."""
    folder = tmp_path / "home" / "include"
    for name in ("releases", "hierarchies", "policies", "expectations"):
        (folder / name).mkdir(parents=True)
    rows = [f"{code};{region};*" for region, codes in REGIONS.items() for code in codes]
    (folder / "hierarchies" / "zip.csv").write_text("\n".join(rows) + "\n")
    (folder / "policies" / "people.yaml").write_text(yaml.safe_dump(POLICY))
    (folder / "expectations" / "people.json").write_text(SUITE)
    (folder / "releases" / "people.yaml").write_text(yaml.safe_dump(SPEC, sort_keys=False))
    people.to_parquet(folder / "people.parquet")
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(folder.parent))
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Iterator[WorkArea]:
    with WorkArea(tmp_path / "work", "test/run 1") as area:
        yield area


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(root=str(tmp_path / "lake"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[URL]:
    """A PostgreSQL server for the whole session, where Debian's binaries are installed."""
    binaries = postgres.binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    with postgres.server(binaries) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a ledger: a SQLite file, or PostgreSQL, which has other types and locks."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return postgres.new_schema(request.getfixturevalue("postgres_server"))


@pytest.fixture
def ledger(ledger_url: str) -> BudgetLedger:
    """A ledger with tables and without entries."""
    ledger = BudgetLedger(ledger_url)
    ledger.migrate()
    return ledger
