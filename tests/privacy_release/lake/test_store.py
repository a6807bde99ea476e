"""How the files of a lake are reached."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler

from privacy_engine.vocabulary import PARTITION
from privacy_release.lake.store import Lake, dataset_of


def test_a_local_table_is_read_without_a_file_system_written_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a thread of Arrow would call Python, and abort the process at its end")

    rows = pa.table({"sex": ["f", "m", "f"], PARTITION: ["1", "1", "2"]})
    write_deltalake(str(tmp_path / "people"), rows, partition_by=[PARTITION])
    monkeypatch.setattr(DeltaStorageHandler, "from_table", refuse)
    table = DeltaTable(str(tmp_path / "people"))

    wanted = dataset_of(Lake(root=str(tmp_path)), "people", table, (PARTITION, "=", "1"))

    assert wanted.to_table().column("sex").to_pylist() == ["f", "m"]
