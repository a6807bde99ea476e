"""The engine that reads the tables of these tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from privacy_engine.engines.engine import Engine
from privacy_engine.engines.local import LocalEngine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    spill: Path = tmp_path_factory.mktemp("spill")
    with LocalEngine(memory=500_000_000, spill=spill, processes=1) as opened:
        yield opened
