"""Publishing a set of files: each as it was verified, and all in one commit, or nothing."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deltalake import DeltaTable

from privacy_engine.errors import IntegrityError, PublishError
from privacy_engine.vocabulary import PublishMode
from privacy_release.lake import rows as lake_rows
from privacy_release.lake.layout import TableRules
from privacy_release.lake.log import data_files
from privacy_release.lake.publish import CommittedRelease, publish
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.file_sets import files_of, folder_of_list, list_of, part_name
from tests.children.fault_points import arm, crashed
from tests.children.processes import KILL, Child
from tests.privacy_release.proof.signed_tables import write_set

NAME = "people"
FILES = 3


def rows(size: int = 90, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.choice(["[20, 29]", "[30, 39]"], size), "number": np.arange(size)})


class Staged:
    """A release that is staged as a set of files, in a separate folder."""

    def __init__(self, folder: Path, frame: pd.DataFrame, files: int = FILES) -> None:
        folder.mkdir()
        self.frame, self.list, self.report = frame, list_of(folder / "staged.parquet"), folder / "report.html"
        self.sha256 = write_set(self.list, frame, files)
        self.report.write_text("<p>rows</p>")

    @property
    def files(self) -> list[Path]:
        return sorted(folder_of_list(self.list).iterdir())

    def send(
        self, lake: Lake, release_id: str = "a", run_key: str = "run 1", **more: Any
    ) -> CommittedRelease:
        return publish(
            lake.table(NAME),
            release_id,
            self.list,
            {"method": "mondrian"},
            self.report,
            expected_sha256=self.sha256,
            run_key=run_key,
            **more,
        )


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return Staged(tmp_path / "staged", rows())


def content(lake: Lake, release_id: str = "a") -> list[tuple[Any, ...]]:
    table = read_release(lake.table(NAME), release_id)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def reported(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(frame.itertuples(index=False, name=None))


def version(lake: Lake) -> int:
    return int(DeltaTable(lake.table(NAME).address).version())


def stored(lake: Lake) -> list[Path]:
    return sorted(Path(lake.table(NAME)).rglob("*.parquet"))


def note(lake: Lake, of: int) -> dict[str, Any]:
    log = (Path(lake.table(NAME)) / f"_delta_log/{of:020d}.json").read_text().splitlines()
    commit = next(line["commitInfo"] for line in map(json.loads, log) if "commitInfo" in line)
    return dict(commit["privacy_release"])


def test_the_files_in_the_lake_are_the_verified_ones_and_one_commit_names_them(
    lake: Lake, staged: Staged
) -> None:
    done = staged.send(lake)
    assert content(lake) == reported(staged.frame)
    assert (done.rows, done.sha256, done.already) == (len(staged.frame), staged.sha256, False)
    assert sorted(map(sha256_file, stored(lake))) == sorted(files_of(staged.list, staged.sha256).values())
    files = note(lake, done.version)["files"]
    assert {f"{NAME}/{file['path']}": file["sha256"] for file in files} == {
        f"{NAME}/{path.relative_to(lake.table(NAME))}": sha256_file(path) for path in stored(lake)
    }
    assert version(lake) == done.version
    assert {f"{NAME}/{file['path']}" for file in files} == data_files(lake.table(NAME), ["a"])


def test_nothing_of_any_cell_stands_in_the_log(lake: Lake, staged: Staged) -> None:
    staged.send(lake)
    log = "".join(path.read_text() for path in (Path(lake.table(NAME)) / "_delta_log").glob("*.json"))
    assert "[20, 29]" not in log
    assert "numRecords" in log
    assert "minValues" not in log


def test_a_set_replaces_its_release_and_no_other(lake: Lake, staged: Staged, tmp_path: Path) -> None:
    staged.send(lake, "a", "run 1")
    staged.send(lake, "b", "run 2")
    other = Staged(tmp_path / "other", rows(40, seed=2))
    before = version(lake)
    other.send(lake, "a", "run 3")
    assert version(lake) == before + 1
    assert content(lake, "a") == reported(other.frame)
    assert content(lake, "b") == reported(staged.frame)
    assert other.send(lake, "a", "run 3").already
    assert version(lake) == before + 1


def test_a_snapshot_of_a_set_replaces_all_releases(lake: Lake, staged: Staged, tmp_path: Path) -> None:
    rules = TableRules(mode=PublishMode.SNAPSHOT)
    staged.send(lake, "a", "run 1", rules=rules)
    other = Staged(tmp_path / "other", rows(40, seed=2))
    done = other.send(lake, "b", "run 2", rules=rules)
    assert "files" in note(lake, done.version)
    assert content(lake, "b") == reported(other.frame)
    assert len(data_files(lake.table(NAME), None)) == FILES


@pytest.mark.parametrize("mode", [PublishMode.PARTITIONS, PublishMode.SNAPSHOT])
def test_columns_that_the_table_has_not_yet_are_added_with_the_rows(
    lake: Lake, staged: Staged, tmp_path: Path, mode: PublishMode
) -> None:
    rules = TableRules(mode=mode)
    staged.send(lake, "a", "run 1", rules=rules)
    wider = Staged(tmp_path / "wider", rows(40).assign(weight=1.5))
    done = wider.send(lake, "b", "run 2", rules=rules)
    assert content(lake, "b") == reported(wider.frame)
    assert "files" not in note(lake, done.version)  # its rows were written again


def test_a_set_may_lack_a_column_that_other_releases_have(lake: Lake, staged: Staged, tmp_path: Path) -> None:
    Staged(tmp_path / "wider", rows(40).assign(weight=1.5)).send(lake, "b", "run 2")
    done = staged.send(lake)
    assert "files" in note(lake, done.version)
    assert content(lake) == reported(staged.frame)


@pytest.mark.parametrize("what", ["changed", "missing", "added", "list"])
def test_a_set_that_is_not_the_verified_one_is_refused(lake: Lake, staged: Staged, what: str) -> None:
    second = staged.files[1]
    match what:
        case "changed":
            second.write_bytes(second.read_bytes()[:-1] + b"?")
        case "missing":
            second.unlink()
        case "added":
            second.with_name(part_name(7)).write_bytes(second.read_bytes())
        case "list":
            staged.list.write_bytes(staged.list.read_bytes() + b" ")
    with pytest.raises(IntegrityError, match="run from ingest again"):
        staged.send(lake)
    assert not Path(lake.table(NAME)).exists()


def test_a_file_that_changes_while_the_set_is_copied_is_refused_and_no_copy_stays(
    lake: Lake, staged: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Staged(tmp_path / "first", rows(10), files=2)
    before = first.send(lake, "a", "run 0").version
    there = stored(lake)
    put_new: Callable[..., None] = lake_rows.put_new

    def meddled(where: Lake, path: str, parts: Any) -> None:
        if part_name(1).removesuffix(".parquet") in path:
            data = bytearray(staged.files[1].read_bytes())
            data[len(data) // 2] ^= 1
            staged.files[1].write_bytes(data)
        put_new(where, path, parts)

    monkeypatch.setattr(lake_rows, "put_new", meddled)
    with pytest.raises(IntegrityError, match=r"part-00001\.parquet must have the verified sha256"):
        staged.send(lake)
    assert (version(lake), content(lake), stored(lake)) == (before, reported(first.frame), there)


def test_a_lake_that_takes_no_more_keeps_what_it_had(
    lake: Lake, staged: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Staged(tmp_path / "first", rows(10), files=2)
    before = first.send(lake, "a", "run 0").version
    there = stored(lake)
    put_new: Callable[..., None] = lake_rows.put_new

    def full(where: Lake, path: str, parts: Any) -> None:
        if part_name(2).removesuffix(".parquet") in path:
            raise PublishError("the disk is full")
        put_new(where, path, parts)

    monkeypatch.setattr(lake_rows, "put_new", full)
    with pytest.raises(PublishError, match="the disk is full"):
        staged.send(lake)
    assert (version(lake), content(lake), stored(lake)) == (before, reported(first.frame), there)


@pytest.mark.parametrize("end", ["crash", pytest.param("kill", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("point", "there"),
    [
        ("in_file", 0),
        ("between_files", 1),
        ("after_files", FILES),
        ("before_commit", FILES),
        ("after_commit", FILES),
    ],
)
def test_a_crash_leaves_the_previous_release_and_a_retry_publishes_once(
    lake: Lake,
    staged: Staged,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    there: int,
    end: str,
) -> None:
    """Only a kill shows what stays of files where no clean-up runs."""
    first = Staged(tmp_path / "first", rows(10), files=2)
    before = first.send(lake, "a", "run 1").version
    if end == "crash":
        crashed(monkeypatch, point, staged.send, lake, "a", "run 2")
    else:
        Child(Staged.send, staged, lake, "a", "run 2", at={point: KILL}).killed()
    committed = point == "after_commit"
    assert len(stored(lake)) >= 2 + there
    assert version(lake) == before + committed
    assert content(lake) == reported((staged if committed else first).frame)

    done = staged.send(lake, "a", "run 2")
    assert (done.already, done.version, version(lake)) == (committed, before + 1, before + 1)
    assert content(lake) == reported(staged.frame)
    clean_orphans(lake.table(NAME), older_than=timedelta(0))
    assert len(stored(lake)) == 2 + FILES  # those of the first are for readers of its version
    assert not list(Path(lake.table(NAME)).rglob("*.tmp"))


@pytest.mark.parametrize("same_run", [True, False])
def test_of_two_that_publish_one_release_at_once_one_is_left_whole(
    lake: Lake, staged: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_run: bool
) -> None:
    staged.send(lake, "earlier", "run 0")
    other = staged if same_run else Staged(tmp_path / "other", rows(60, seed=3))
    first: list[CommittedRelease] = []
    arm("before_commit", lambda: first.append(other.send(lake, "a", "run 1")), monkeypatch.setattr)
    done = staged.send(lake, "a", "run 1" if same_run else "run 2")
    assert (first[0].already, done.already) == (False, same_run)
    assert releases(lake.table(NAME))[-1]["sha256"] == staged.sha256
    assert content(lake) == reported(staged.frame)
    assert len(data_files(lake.table(NAME), ["a"])) == FILES


def test_what_a_retraction_that_gets_ahead_erases_is_not_what_is_committed(
    lake: Lake, staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged.send(lake, "a", "run 1")
    copied = lake_rows.VerifiedRows.copied
    attempts: list[str] = []

    def overtaken(*given: Any) -> Any:
        found = copied(*given)
        if not attempts:
            retract(lake.table(NAME), "a", "withdrawn")
        attempts.append(found[0].path)
        return found

    monkeypatch.setattr(lake_rows.VerifiedRows, "copied", overtaken)
    staged.send(lake, "a", "run 2")
    assert len(set(attempts)) == 2
    assert content(lake) == reported(staged.frame)


def test_a_retraction_erases_every_file_of_a_set(lake: Lake, staged: Staged) -> None:
    staged.send(lake)
    assert retract(lake.table(NAME), "a", "withdrawn").files_removed >= FILES
    assert not stored(lake)
