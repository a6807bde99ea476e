"""Publishing a release as a stream: the verified rows in one commit, or nothing."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from privacy_engine.errors import IntegrityError, PublishError, SchemaError
from privacy_release.lake import rows as lake_rows
from privacy_release.lake.publish import CommittedRelease, publish
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.retract import clean_orphans
from privacy_release.lake.rows import verified_rows
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.parquet import ROWS, unchanged_batches
from tests.children.fault_points import crashed
from tests.children.processes import KILL, Child
from tests.servers.memory import needs_proc, run_alone

NAME = "people"
MANIFEST = {"method": "mondrian", "guarantees": ["k=5"], "loss": None}
CANARY = "X9-canary"


def rows(size: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = pa.array([f"[{i}, {i + 9}]" for i in range(0, 100, 10)])
    return pa.table(
        {
            "age": ages.take(pa.array(rng.integers(0, 10, size))).dictionary_encode(),
            "number": pa.array(np.arange(size), mask=np.arange(size) % 7 == 0),
            "weight": pa.array(rng.random(size), pa.float32()),
            "seen": pa.array(rng.integers(0, 10**15, size), pa.timestamp("us")),
        }
    )


class Staged:
    """A staged release of a separate folder."""

    def __init__(self, folder: Path, table: pa.Table) -> None:
        folder.mkdir()
        self.table, self.file, self.report = table, folder / "staged.parquet", folder / "report.html"
        pq.write_table(table, self.file, row_group_size=100)
        self.report.write_text("<p>rows</p>")
        self.sha256 = sha256_file(self.file)

    def send(
        self, lake: Lake, release_id: str = "a", run_key: str = "run 1", **more: Any
    ) -> CommittedRelease:
        return publish(
            lake.table(NAME),
            release_id,
            self.file,
            MANIFEST,
            self.report,
            expected_sha256=self.sha256,
            run_key=run_key,
            **more,
        )


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return Staged(tmp_path / "staged", rows(300))


def content(table: pa.Table) -> list[Any]:
    """The rows, in an order that does not depend on the table's."""
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def version(lake: Lake) -> int:
    return int(DeltaTable(lake.table(NAME).address).version())


def test_the_published_rows_are_exactly_the_staged_ones(lake: Lake, staged: Staged) -> None:
    done = staged.send(lake)
    assert content(read_release(lake.table(NAME), "a")) == content(staged.table)
    assert (done.rows, done.sha256, done.already) == (300, staged.sha256, False)


def test_a_stream_replaces_its_release_in_one_commit_and_no_other(lake: Lake, staged: Staged) -> None:
    staged.send(lake, "a", "run 1")
    staged.send(lake, "b", "run 2")
    other = Staged(staged.file.parent.parent / "other", rows(150, seed=2))
    before = version(lake)
    other.send(lake, "a", "run 3")
    assert version(lake) == before + 1
    assert content(read_release(lake.table(NAME), "a")) == content(other.table)
    assert content(read_release(lake.table(NAME), "b")) == content(staged.table)
    assert other.send(lake, "a", "run 3").already


@pytest.mark.parametrize("change", ["flipped", "longer", "gone"])
def test_a_file_that_changed_before_the_stream_is_refused(lake: Lake, staged: Staged, change: str) -> None:
    data = bytearray(staged.file.read_bytes())
    data[len(data) // 2] ^= 1
    if change == "gone":
        staged.file.unlink()
    else:
        staged.file.write_bytes(bytes(data) if change == "flipped" else staged.file.read_bytes() + b"?")
    with pytest.raises(IntegrityError, match=r"staged\.parquet must"):
        staged.send(lake)
    assert not lake.folder or not lake.folder.exists()


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_truncated_file_is_refused_even_if_its_hash_was_recorded(
    lake: Lake, staged: Staged, kept: float
) -> None:
    data = staged.file.read_bytes()
    staged.file.write_bytes(data[: int(len(data) * kept)])
    staged.sha256 = sha256_file(staged.file)
    with pytest.raises(IntegrityError, match="not a whole Parquet file"):
        staged.send(lake)


def test_a_file_that_is_written_to_while_it_is_streamed_is_not_published(
    lake: Lake, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Staged(staged.file.parent.parent / "first", rows(10))
    first.send(lake, "a", "run 0")
    before = version(lake)

    def meddled(*given: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        batches = unchanged_batches(*given, **options)
        yield next(batches)
        with staged.file.open("r+b") as stream:  # the footer's end, which has been read by now
            stream.seek(-1, os.SEEK_END)
            stream.write(b"?")
        yield from batches

    monkeypatch.setattr(lake_rows, "unchanged_batches", meddled)
    with pytest.raises(IntegrityError, match="changed between two steps"):
        staged.send(lake, "a", "run 1")
    assert version(lake) == before
    assert content(read_release(lake.table(NAME), "a")) == content(first.table)
    assert len(releases(lake.table(NAME))) == 1


def test_a_file_that_is_replaced_while_it_is_streamed_does_not_get_into_the_lake(
    lake: Lake, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapped(*given: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        batches = unchanged_batches(*given, **options)
        yield next(batches)
        other = staged.file.with_name("other.parquet")
        pq.write_table(pa.table({"age": [CANARY] * 300}), other)
        other.replace(staged.file)
        yield from batches

    monkeypatch.setattr(lake_rows, "unchanged_batches", swapped)
    staged.send(lake)
    assert content(read_release(lake.table(NAME), "a")) == content(staged.table)


def test_a_stream_that_breaks_off_for_another_reason_is_a_publish_error_without_values(
    lake: Lake, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        yield next(unchanged_batches(*given, **options))
        raise ValueError(CANARY)

    monkeypatch.setattr(lake_rows, "unchanged_batches", broken)
    with pytest.raises(PublishError) as caught:
        staged.send(lake)
    assert CANARY not in str(caught.value)
    assert not releases(lake.table(NAME))


def test_a_value_that_would_lose_digits_in_the_last_batch_is_refused_without_showing_it(
    lake: Lake, tmp_path: Path
) -> None:
    numbers = pa.array([1] * 140 + [2**63 + 77], pa.uint64())
    staged = Staged(tmp_path / "staged", pa.table({"n": numbers}))
    with pytest.raises(SchemaError, match="column n must fit int64 without loss") as caught:
        staged.send(lake)
    assert str(2**63 + 77) not in str(caught.value)
    assert not releases(lake.table(NAME))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"release": [1]}),
        pa.table({"a": [1], "A": [2]}),
        pa.table({"a": pa.array([], pa.int64())}),
        pa.table({"a": [[1]]}),
    ],
    ids=["reserved", "case", "empty", "list"],
)
def test_what_a_release_table_cannot_hold_is_refused(lake: Lake, tmp_path: Path, table: pa.Table) -> None:
    with pytest.raises(SchemaError):
        Staged(tmp_path / "staged", table).send(lake)


def test_a_column_must_keep_its_type(lake: Lake, staged: Staged, tmp_path: Path) -> None:
    staged.send(lake)
    other = staged.table.set_column(2, "weight", pa.array([1.5] * 300, pa.float64()))
    with pytest.raises(SchemaError, match=r"weight \(float in the table, double here\)"):
        Staged(tmp_path / "other", other).send(lake, "b", "run 2")


def test_rows_can_be_streamed_again_after_a_lost_attempt(staged: Staged) -> None:
    found = verified_rows(staged.file, staged.sha256)
    tables = [found.stream("a").read_all() for _ in range(2)]
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows == found.num_rows
    with pytest.raises(IntegrityError):
        replace(found, sha256="0" * 64).stream("a").read_all()


@pytest.mark.parametrize("end", ["crash", pytest.param("kill", marks=pytest.mark.slow)])
@pytest.mark.parametrize("point", ["in_stream", "data_on_disk"])
def test_a_crash_leaves_the_previous_release_and_a_retry_publishes_once(
    lake: Lake, staged: Staged, monkeypatch: pytest.MonkeyPatch, point: str, end: str
) -> None:
    """Only a kill shows what the writer's own threads leave behind."""
    first = Staged(staged.file.parent.parent / "first", rows(10))
    before = first.send(lake, "a", "run 1").version
    if end == "crash":
        crashed(monkeypatch, point, staged.send, lake, "a", "run 2")
    else:
        Child(Staged.send, staged, lake, "a", "run 2", at={point: KILL}).killed()
    assert version(lake) == before
    assert content(read_release(lake.table(NAME), "a")) == content(first.table)

    done = staged.send(lake, "a", "run 2")
    assert (done.already, done.version, version(lake)) == (False, before + 1, before + 1)
    assert content(read_release(lake.table(NAME), "a")) == content(staged.table)
    clean_orphans(lake.table(NAME), older_than=timedelta(0))
    assert len(list(Path(lake.table(NAME)).rglob("*.parquet"))) == 2


def test_no_minima_and_maxima_of_cells_stand_in_the_log(lake: Lake, tmp_path: Path) -> None:
    Staged(tmp_path / "staged", pa.table({"age": [CANARY] * 5})).send(lake)
    log = "".join(path.read_text() for path in (Path(lake.table(NAME)) / "_delta_log").glob("*.json"))
    assert CANARY not in log
    assert hashlib.sha256((tmp_path / "staged" / "staged.parquet").read_bytes()).hexdigest() in log


MEMORY = """
import sys
from pathlib import Path
from privacy_release.lake.publish import publish
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file
from tests.children.fault_points import crashed
from tests.children.processes import KILL, Child
from tests.servers.memory import peak
def send(name, file, release):
    publish(Lake(root=sys.argv[1]), name, release, Path(file), {}, Path(sys.argv[4]),
            expected_sha256=sha256_file(Path(file)))
send("people", sys.argv[3], "a")
before = peak()
send("people", sys.argv[2], "b")
print(peak() - before)
"""


@pytest.mark.slow  # only a release of hundreds of megabytes shows what is held of it
@needs_proc
def test_memory_does_not_grow_with_the_release(lake: Lake, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    part = pa.table({f"c{i}": rng.integers(0, 50, ROWS) for i in range(20)})  # 20 MiB, but 2 on the disk
    files = {parts: tmp_path / f"{parts}.parquet" for parts in (4, 44)}  # 5,800,000 records are the larger
    for parts, file in files.items():
        with pq.ParquetWriter(file, part.schema) as writer:
            for _ in range(parts):
                writer.write_table(part)
    (tmp_path / "report.html").write_text("<p>rows</p>")
    more = run_alone(MEMORY, lake.root, files[44], files[4], tmp_path / "report.html")
    # Some 300 MiB are the writer's, however large the release is; the whole release would take 800 more.
    assert more < 500, f"{more} MiB more than an eleventh of the release takes"
