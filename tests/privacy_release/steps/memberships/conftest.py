"""The first release of a test, which many begin with, is made once."""

from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from privacy_release.lake import publish
from privacy_release.lake.log import Publication, State
from privacy_release.lake.store import Lake
from privacy_release.running.run import Outcome
from privacy_release.spec.model import ReleaseSpec
from privacy_release.workarea.area import sha256_file
from tests.beginnings import Beginnings
from tests.privacy_release.steps.conftest import Run


@pytest.fixture(scope="session")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Beginnings:
    return Beginnings(tmp_path_factory.mktemp("beginnings"))


def hashed() -> bool:
    """Whether releases are published with the hash of their membership file, see `without_hashes`."""
    return "membership" in publish._FIGURES


@pytest.fixture
def run(run: Run, home: Path, lake: Lake, curator: Path, beginnings: Beginnings) -> Run:
    """Releases a table; the outcome. A first release of the same files and table is copied."""
    files = [home / "releases" / "people.yaml", home / "policies" / "people.yaml", home / "people.parquet"]

    def work(spec: ReleaseSpec, table: pd.DataFrame, name: str) -> Outcome:
        if curator.exists():
            return run(spec, table, name)
        table.to_parquet(home / "people.parquet")
        key = (name, hashed(), *map(sha256_file, files))
        outcome: Outcome = beginnings.after(key, [Path(lake.root), curator], partial(run, spec, table, name))
        return outcome

    return work


@pytest.fixture
def publication() -> Publication:
    """An earlier release of two persons."""
    return Publication(
        release_id="1",
        run_key="a run",
        version=1,
        committed="",
        commit_sha256="",
        state=State.SUPERSEDED,
        rows=2,
        columns=("age",),
        sha256="5" * 64,
        manifest_sha256="",
        report_sha256="",
        figures={},
        partition="1",
    )
