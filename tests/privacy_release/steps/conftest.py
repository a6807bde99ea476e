"""Releases of the same people, one after another, from a source to a lake."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from privacy_release.lake import publish
from privacy_release.lake.store import Lake
from privacy_release.running.run import Outcome, run_release
from privacy_release.spec.model import ReleaseSpec
from privacy_release.workarea.area import WorkArea

Run = Callable[[ReleaseSpec, pd.DataFrame, str], Outcome]


@pytest.fixture
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key of who is who, and the folder of what is kept about people."""
    monkeypatch.setenv("PRIVACY_MEMBERSHIP_KEY", "a secret of the tests alone, long enough")
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


@pytest.fixture
def without_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish as earlier versions did, without the hash of the membership file."""
    figures = tuple(name for name in publish._FIGURES if name != "membership")
    monkeypatch.setattr(publish, "_FIGURES", figures)


@pytest.fixture
def run(tmp_path: Path, lake: Lake, home: Path, curator: Path) -> Run:
    """Releases a table; the outcome."""

    def work(spec: ReleaseSpec, table: pd.DataFrame, name: str) -> Outcome:
        table.to_parquet(home / "people.parquet")
        with WorkArea(tmp_path / "work", name) as area:
            return run_release(spec, lake, name, area)

    return work
