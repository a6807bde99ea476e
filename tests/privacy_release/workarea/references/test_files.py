"""The files that a reference names are read only if their bytes are the recorded ones."""

from pathlib import Path

import pandas as pd
import pytest

from privacy_engine.errors import IntegrityError
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import FileRef

FRAME = pd.DataFrame({"age": [7, 8, 9], "zip": ["a", "b", "a"]})


def test_stored_records_are_read_whole_or_in_batches_or_by_an_engine(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    stored = FileRef(uri=str(path), sha256=write_private(path, parquet_bytes(FRAME)))
    assert stored.frame().to_dict("list") == FRAME.to_dict("list")
    assert [batch.to_pydict() for batch in stored.batches(["zip"])] == [{"zip": ["a", "b", "a"]}]
    assert (stored.paths(), stored.first_path()) == ([str(path)], path)
    assert set(stored.to_ref()) == {"uri", "sha256"}


def test_other_bytes_than_the_recorded_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    write_private(path, parquet_bytes(FRAME))
    stored = FileRef(uri=str(path), sha256="0" * 64)
    for read in (stored.frame, lambda: list(stored.batches()), stored.require_unchanged):
        with pytest.raises(IntegrityError, match="must have the recorded sha256"):
            read()
