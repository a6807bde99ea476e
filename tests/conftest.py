"""What tests of many packages use: a table and its release, a work area, a lake and a ledger."""

import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy.engine import URL

from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.clock import Clock
from tests.ledgers import new_ledger
from tests.made import Made, made_release
from tests.servers import postgres

# How long an example takes depends on the machine, so that no profile has a limit on it.
_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _UNHURRIED, max_examples=15)
settings.register_profile("full", _UNHURRIED, max_examples=50)
settings.load_profile("quick")  # `make test-all` chooses the other by --hypothesis-profile


@pytest.fixture
def people() -> pd.DataFrame:
    """200 records; every value of the identifier is unique and can be looked for."""
    return tables.people()


@pytest.fixture
def home(tmp_path: Path, people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The include folder of a release that runs green, with its source."""
    folder = tables.write_home(tmp_path / "home" / "include", people)
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(folder.parent))
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Iterator[WorkArea]:
    with WorkArea(tmp_path / "work", "test/run 1") as area:
        yield area


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For thousands of small tables: threads wait for busy cores much longer than they work."""
    import numba
    from threadpoolctl import threadpool_limits

    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    with threadpool_limits(1):
        yield
    numba.set_num_threads(threads)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of this process, which the test sets."""
    return Clock(monkeypatch)


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
    return new_ledger(ledger_url)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests, which all of its processes have."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def made(shared: Path) -> Callable[..., Made]:
    """The release of an example, made once for all processes, for reading only: see `tests.made`."""
    return cache(partial(made_release, shared))
