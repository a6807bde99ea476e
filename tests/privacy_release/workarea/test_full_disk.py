"""A disk that is full while a table is copied or staged: an error says so, and nothing is left behind."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import CapacityError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import copy_source
from privacy_release.workarea.parquet import private_parquet, write_private
from tests.servers.disk import files_of_at_most

SCHEMA = DataSchema.from_dict({"weight": {"role": "insensitive", "kind": "numeric"}})
WEIGHTS = pa.table({"weight": np.random.default_rng(1).random(100_000)})  # 800 kB that do not compress


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("room", [100_000, 700_000])
def test_a_full_disk_while_copying_is_said_and_leaves_nothing(work: Path, room: int) -> None:
    raw = work.parent / "people.parquet"
    pq.write_table(WEIGHTS, raw, compression="none", use_dictionary=False)
    source = find_source(str(raw))
    with files_of_at_most(room), pytest.raises(CapacityError) as caught:
        copy_source(source, SCHEMA, work / "copy.parquet")
    assert "writing copy.parquet must fit on the disk, got: File too large; make space there" in str(
        caught.value
    )
    assert not list(work.iterdir())


def test_a_full_disk_while_staging_is_said_and_leaves_nothing(work: Path) -> None:
    with (
        files_of_at_most(100_000),
        pytest.raises(CapacityError, match=r"writing staged\.parquet must fit on the disk"),
        private_parquet(work / "staged.parquet") as file,
    ):
        file.write(WEIGHTS)
    assert not list(work.iterdir())


def test_what_stood_there_before_stays(work: Path) -> None:
    write_private(work / "manifest.json", b"before")
    with files_of_at_most(10), pytest.raises(CapacityError, match=r"writing manifest\.json"):
        write_private(work / "manifest.json", b"x" * 100)
    assert [(path.name, path.read_bytes()) for path in work.iterdir()] == [("manifest.json", b"before")]
