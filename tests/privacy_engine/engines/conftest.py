"""An engine with a separate spill folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from privacy_engine.engines.local import LocalEngine


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(memory=500_000_000, spill=tmp_path_factory.mktemp("spill"), processes=2) as engine:
        yield engine


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    folder = tmp_path / "spill"
    folder.mkdir()
    return folder
