"""The index beside the log: what it spares, and that the log wins over whatever stands in it."""

import ctypes
import gzip
import json
import os
import shutil
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks.scale.lake_history import NAME, LongTable, build
from privacy_engine.errors import IntegrityError, PublishError
from privacy_release.lake import commits
from privacy_release.lake.commits import newest_first, newest_version, whole_log
from privacy_release.lake.read import manifest_of, newest_releases, read_release, releases
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.store import Lake, table_names
from tests.children.fault_points import POINTS, Act, Step, arm, crashed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts with what Linux's kernel tells")

FEW, MANY = 150, 450
BLOCK = 10  # commits in a block of the tables that tests copy; the tables of which the cost counts have 100
_OPENED, _OF_A_FOLDER = 0x20, 0x40000000


@dataclass(frozen=True)
class Cost:
    """Files opened, folders listed and bytes read by a call."""

    files: int
    folders: int
    read: int


def cost(made: LongTable, call: Callable[[], object]) -> Cost:
    """What a call costs, as the kernel counts it. The folders of releases are not watched: there are many."""
    assert made.lake.folder is not None
    folders = [made.lake.folder / part for part in ("_proof", f"_proof/{NAME}", NAME)]
    folders += [made.lake.folder / NAME / part for part in ("_delta_log", "_releases")]
    kernel = ctypes.CDLL(None, use_errno=True)
    watch = kernel.inotify_init1(os.O_NONBLOCK)
    try:
        for folder in folders:
            assert kernel.inotify_add_watch(watch, bytes(folder), _OPENED) > 0
        before = bytes_read()
        call()
        read = bytes_read() - before
        masks = opened(watch)
    finally:
        os.close(watch)
    listed = sum(bool(mask & _OF_A_FOLDER) for mask in masks)
    return Cost(files=len(masks) - listed, folders=listed, read=read)


def opened(watch: int) -> list[int]:
    masks, head = [], struct.Struct("iIII")
    while True:
        try:
            data = os.read(watch, 1 << 20)
        except BlockingIOError:
            return masks
        at = 0
        while at < len(data):
            _, mask, _, length = head.unpack_from(data, at)
            masks.append(mask)
            at += head.size + length


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[LongTable]:
    """Tables with few and many releases; both are as many commits past their last checkpoint and block."""
    return [build(tmp_path_factory.mktemp("lake") / "history", count) for count in (FEW, MANY)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_in_small_blocks(tmp_path_factory.mktemp("lake") / "history", 2 * BLOCK + BLOCK // 2)


@pytest.fixture(scope="module")
def built_to_the_edge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_in_small_blocks(tmp_path_factory.mktemp("lake") / "edge", 2 * BLOCK - 1)


def built_in_small_blocks(folder: Path, count: int) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch)
        build(folder, count)
    return folder


def small_blocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "BLOCK", BLOCK)
    patch.setattr(commits, "_AT_ONCE", BLOCK // 5)


@pytest.fixture
def table(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LongTable:
    """A table with two blocks and a tail, of the test's own."""
    small_blocks(monkeypatch)
    return copied(built, tmp_path / "history")


def copied(built: Path, folder: Path) -> LongTable:
    shutil.copytree(built, folder)
    return LongTable(
        lake=Lake(root=f"{folder}/lake"), staged=folder / "staged.parquet", report=folder / "report.html"
    )


def block(made: LongTable, number: int) -> Path:
    assert made.lake.folder is not None
    return made.lake.folder / NAME / "_releases" / f"{number:020d}.jsonl.gz"


def log_file(made: LongTable, version: int) -> Path:
    assert made.lake.folder is not None
    return made.lake.folder / NAME / "_delta_log" / f"{version:020d}.json"


def rewritten(lines: list[dict]) -> bytes:
    return gzip.compress("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode())


def as_the_log_tells(made: LongTable) -> bool:
    version = newest_version(made.lake.table(NAME))
    return list(newest_first(made.lake.table(NAME), version)) == list(
        whole_log(made.lake.table(NAME), version)
    )


# What it costs

CALLS = {
    "publish": lambda made: made.publish(os.urandom(8).hex()),
    "list all": lambda made: releases(made.lake.table(NAME)),
    "list newest": lambda made: list(islice(newest_releases(made.lake.table(NAME)), 20)),
    "read newest": lambda made: read_release(made.lake.table(NAME), "release-last"),
    "manifest": lambda made: manifest_of(made.lake.table(NAME), "release-last"),
    "table names": lambda made: table_names(made.lake),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_long_history_opens_at_most_twice_the_files_of_a_short_one(histories, name):
    few, many = (cost(made, lambda made=made: CALLS[name](made)) for made in histories)
    assert few.files + few.folders > 0
    assert many.files <= 2 * few.files
    assert many.folders <= 2 * few.folders


@pytest.mark.parametrize("name", [name for name in CALLS if name != "list all"])
def test_a_long_history_reads_at_most_twice_the_bytes_of_a_short_one(histories, name):
    few, many = (cost(made, lambda made=made: CALLS[name](made)) for made in histories)
    assert many.read <= 2 * few.read


def test_a_list_of_all_releases_reads_no_more_than_the_packed_index_and_the_newest_commits(histories):
    few, many = (cost(made, lambda made=made: releases(made.lake.table(NAME))) for made in histories)
    packed = sum(file.stat().st_size for file in block(histories[-1], 0).parent.iterdir())
    assert many.read - few.read <= packed


def test_only_the_newest_commits_are_read_for_the_newest_releases(table):
    for number in (0, 1):
        block(table, number).unlink()
    DeltaTable(table.lake.table(NAME).address, version=BLOCK).create_checkpoint()  # as each 100th commit has
    for version in range(BLOCK):
        log_file(table, version).unlink()
    newest = [entry["version"] for entry in islice(newest_releases(table.lake.table(NAME)), 4)]
    assert newest == list(range(25, 21, -1))


# The log wins


def test_blocks_tell_what_the_log_tells(table):
    assert block(table, 1).exists()
    assert as_the_log_tells(table)
    assert len(releases(table.lake.table(NAME))) == 25


@pytest.mark.parametrize(
    ("number", "damage"),
    [(0, "deleted"), (1, "deleted"), (1, "emptied"), (0, "cut off"), (0, "no gzip"), (0, "other"),
     (0, "lying"), (1, "lying"), (1, "stale")],
)  # fmt: skip
def test_a_block_that_is_not_the_logs_is_made_again(table, number, damage):
    file = block(table, number)
    whole = file.read_bytes()
    lines = [json.loads(line) for line in gzip.decompress(whole).splitlines()]
    lines[BLOCK // 2]["note"]["figures"]["guarantees"] = []
    spoilt = {
        "emptied": b"",
        "cut off": whole[: len(whole) // 2],
        "no gzip": b"not packed",
        "other": block(table, 1 - number).read_bytes(),
        "lying": rewritten(lines),
        "stale": rewritten(lines[:-2]),
    }
    if damage == "deleted":
        file.unlink()
    else:
        file.write_bytes(spoilt[damage])
    assert as_the_log_tells(table)
    assert file.read_bytes() == whole


def test_an_index_that_is_gone_is_made_again(table):
    folder = block(table, 0).parent
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    shutil.rmtree(folder)
    assert as_the_log_tells(table)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole


def test_a_retraction_cannot_be_hidden_by_an_index_from_before_it(table):
    before = block(table, 0).read_bytes()
    retract(table.lake.table(NAME), "release-000007", "wrong source")
    block(table, 0).write_bytes(before)
    state = {entry["release_id"]: entry["state"] for entry in releases(table.lake.table(NAME))}
    assert [release for release in state if state[release] == "retracted"] == ["release-000007"]
    with pytest.raises(PublishError, match="retracted from table people: wrong source"):
        read_release(table.lake.table(NAME), "release-000007")


def test_a_proof_is_the_logs_own_where_a_commit_was_changed_after_it_was_indexed(table):
    commit = log_file(table, 5)
    commit.write_text(commit.read_text().replace('"rows":2', '"rows":3'))
    with pytest.raises(IntegrityError, match="must hold 3 rows of this release, got 2"):
        read_release(table.lake.table(NAME), "release-000004")


def test_a_changed_log_counts_where_a_block_of_it_is_lost(table):
    commit = log_file(table, 5)
    commit.write_text(commit.read_text().replace('"rows":2', '"rows":3'))
    block(table, 0).unlink()
    assert as_the_log_tells(table)
    assert [entry["rows"] for entry in releases(table.lake.table(NAME))].count(3) == 1


def test_the_index_of_another_table_of_that_name_is_passed_over(table, histories):
    foreign = block(table, 0).parent
    shutil.rmtree(foreign)
    shutil.copytree(block(histories[-1], 0).parent, foreign)
    assert as_the_log_tells(table)


def test_a_table_from_before_there_was_an_index_is_read_whole_and_indexed_by_its_next_release(table):
    shutil.rmtree(block(table, 0).parent)
    for version in range(26):
        log_file(table, version).write_text(without_mark(log_file(table, version)))
    assert len(releases(table.lake.table(NAME))) == 25
    assert not block(table, 0).exists()
    table.publish("next")
    assert block(table, 1).exists()
    assert as_the_log_tells(table)


def test_a_commit_of_another_tool_hides_no_block(table):
    folder = log_file(table, 0).parent.parent
    DeltaTable(folder).optimize.compact()
    write_deltalake(folder, pa.table({"age": ["x"], "pay": [1], "release": ["foreign"]}), mode="append")
    assert as_the_log_tells(table)
    table.publish("next")
    assert [entry["release_id"] for entry in releases(table.lake.table(NAME))][-2:] == [
        "release-last",
        "next",
    ]


def test_cleaning_orphans_leaves_the_index_alone(table, tmp_path):
    made = build(tmp_path / "short", 2)  # each version of a table is opened to see its files
    block(made, 0).parent.mkdir(exist_ok=True)
    shutil.copy(block(table, 0), block(made, 0))
    assert clean_orphans(made.lake.table(NAME), older_than=timedelta(0)) == 0
    assert block(made, 0).read_bytes() == block(table, 0).read_bytes()


# Crashes and races on the edge of a block


@pytest.fixture
def on_the_edge(built_to_the_edge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LongTable:
    """A table whose next publication makes the second block."""
    small_blocks(monkeypatch)
    made = copied(built_to_the_edge, tmp_path / "edge")
    assert block(made, 0).exists()
    assert not block(made, 1).exists()
    return made


@pytest.mark.parametrize("point", ["before_index", "before_block", "after_index", "after_commit"])
def test_a_crash_around_the_index_spoils_nothing_and_a_retry_publishes_once(on_the_edge, monkeypatch, point):
    crashed(monkeypatch, point, on_the_edge.publish, "next")
    assert as_the_log_tells(on_the_edge)
    done = on_the_edge.publish("next")
    assert (done.version, done.already) == (2 * BLOCK, point == "after_commit")
    on_the_edge.publish("one more")
    assert block(on_the_edge, 1).exists()
    assert as_the_log_tells(on_the_edge)
    assert [entry["release_id"] for entry in releases(on_the_edge.lake.table(NAME))].count("next") == 1


def test_a_block_that_is_half_written_is_not_taken_for_one(on_the_edge, monkeypatch):
    monkeypatch.setitem(POINTS, "in_block", (commits, "put", in_its_file))
    crashed(monkeypatch, "in_block", on_the_edge.publish, "next")
    assert not block(on_the_edge, 1).exists()
    on_the_edge.publish("next")
    assert as_the_log_tells(on_the_edge)


def in_its_file(put: Step, act: Act) -> Step:
    """Its file, up to the moment at which it gets its name."""

    def watched(*given: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            arm("in_manifest", act, patch.setattr)
            put(*given)

    return watched


def test_publishers_that_make_one_block_at_once_make_the_same(on_the_edge, monkeypatch):
    arm("before_commit", lambda: on_the_edge.publish("one"), monkeypatch.setattr)
    on_the_edge.publish("other")
    marks = [
        commit.note["index"]
        for commit in islice(newest_first(on_the_edge.lake.table(NAME), 2 * BLOCK + 1), 2)
    ]
    assert marks[0] == marks[1]
    assert marks[0]["blocks"] == 2
    assert as_the_log_tells(on_the_edge)


def without_mark(file: Path) -> str:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line.get("commitInfo", {}).get("privacy_release", {}).pop("index", None)
    return "".join(json.dumps(line) + "\n" for line in lines)
