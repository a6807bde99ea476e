"""The journal of a run: only the value after a task's newest beginning counts, and nothing changes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from privacy_engine.errors import IntegrityError, WorkAreaError
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.journal import FOLDER, AreaFiles, EntryFiles, Journal, canonical
from privacy_release.workarea.remote.keys import Wrapping
from privacy_release.workarea.remote.store import Store

VALUE = {"uri": "table.parquet", "rows": 3}
Opened = Callable[[], Journal]


def files_in(root: Path, kind: str, key: str = "people/run 1") -> EntryFiles:
    if kind == "folder":
        area = WorkArea(root, key)
        return AreaFiles(area.folder, lambda: area)
    wrapping = Wrapping(b"a secret of thirty-two characters", "the test")
    return Store(root=f"file://{root}", wrapping=wrapping).of(key)


@pytest.fixture(params=["folder", "store"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """The journal of a run as the next task that begins finds it."""
    return lambda: Journal(files_in(tmp_path, request.param))


def entries(root: Path) -> list[Path]:
    return sorted(root.glob(f"*/{FOLDER}/*"))


def test_a_task_takes_what_another_one_handed_on(opened: Opened) -> None:
    assert opened().is_empty
    opened().record("ingest", -1, opened().begin("ingest", -1), VALUE)
    assert not opened().is_empty
    assert opened().value("ingest", -1) == VALUE


@pytest.mark.parametrize(("task", "index"), [("verify", -1), ("ingest", 0), ("ingest", 1)])
def test_another_task_or_map_index_has_handed_on_nothing(opened: Opened, task: str, index: int) -> None:
    opened().record("ingest", -1, opened().begin("ingest", -1), VALUE)
    with pytest.raises(IntegrityError, match=rf"task `{task}.*` has no value .*it has not run"):
        opened().value(task, index)


def test_another_run_has_its_own_journal(tmp_path: Path) -> None:
    for kind in ("folder", "store"):
        journal = Journal(files_in(tmp_path / kind, kind))
        journal.record("ingest", -1, journal.begin("ingest", -1), VALUE)
        assert Journal(files_in(tmp_path / kind, kind, "people/run 2")).is_empty


def test_an_attempt_that_begins_voids_what_an_earlier_one_handed_on(opened: Opened) -> None:
    opened().record("approve", -1, opened().begin("approve", -1), VALUE)
    opened().begin("approve", -1)
    assert not opened().has("approve", -1)
    with pytest.raises(
        IntegrityError, match=r"its newest attempt did not succeed.*by hand does not create a value"
    ):
        opened().value("approve", -1)


def test_the_value_of_an_earlier_attempt_in_the_place_of_a_later_one_is_refused(
    opened: Opened, tmp_path: Path
) -> None:
    opened().record("approve", -1, opened().begin("approve", -1), VALUE)
    later = opened().begin("approve", -1)
    (value,) = (path for path in entries(tmp_path) if path.name.endswith("-1.value"))
    shutil.copy(value, value.with_name(value.name.replace("-1.value", f"-{later}.value")))
    with pytest.raises(IntegrityError):
        opened().value("approve", -1)


def test_the_newest_attempt_is_that_of_the_largest_number_in_whatever_order_they_are_listed(
    tmp_path: Path,
) -> None:
    class Backwards(AreaFiles):
        def names(self, folder: str) -> list[str]:
            return sorted(super().names(folder), reverse=True)

    area = WorkArea(tmp_path, "people/run 1")
    files = Backwards(area.folder, lambda: area)
    first = Journal(files).begin("approve", -1)
    Journal(files).record("approve", -1, first, VALUE)
    Journal(files).begin("approve", -1)
    assert not Journal(files).has("approve", -1)


def test_a_task_and_a_map_index_are_never_read_as_another_two(opened: Opened) -> None:
    opened().record("part", 11, opened().begin("part", 11), VALUE)
    assert not opened().begun("part1", 1)


def test_an_attempt_that_was_given_up_and_ends_late_changes_nothing(opened: Opened) -> None:
    given_up = opened().begin("release", -1)
    newer = opened().begin("release", -1)
    opened().record("release", -1, newer, VALUE)
    opened().record("release", -1, given_up, VALUE | {"rows": 2})
    assert opened().value("release", -1) == VALUE


def test_two_attempts_that_begin_at_once_have_two_numbers(opened: Opened) -> None:
    first, second = opened(), opened()
    assert first.is_empty
    assert second.is_empty
    assert [first.begin("release", -1), second.begin("release", -1)] == [1, 2]


def test_a_value_is_recorded_once(opened: Opened) -> None:
    number = opened().begin("ingest", -1)
    opened().record("ingest", -1, number, VALUE)
    with pytest.raises(IntegrityError, match="already has an entry in the run's journal"):
        opened().record("ingest", -1, number, VALUE | {"rows": 2})
    assert opened().value("ingest", -1) == VALUE


def test_a_missing_entry_is_refused(opened: Opened, tmp_path: Path) -> None:
    opened().record("ingest", -1, opened().begin("ingest", -1), VALUE)
    journal = opened()
    assert journal.has("ingest", -1)
    next(path for path in entries(tmp_path) if path.suffix == ".value").unlink()
    with pytest.raises(IntegrityError):
        journal.value("ingest", -1)
    with pytest.raises(IntegrityError, match="task `ingest` has no value"):
        opened().value("ingest", -1)


@pytest.mark.parametrize("damage", ["cut short", "of another task", "no JSON", "a list"])
def test_a_damaged_entry_is_refused(tmp_path: Path, damage: str) -> None:
    def journal() -> Journal:
        return Journal(files_in(tmp_path, "folder"))

    journal().record("ingest", -1, journal().begin("ingest", -1), VALUE)
    journal().record("verify", -1, journal().begin("verify", -1), VALUE | {"passed": True})
    mine, other = (
        next(
            p
            for p in entries(tmp_path)
            if p.suffix == ".value" and json.loads(p.read_bytes())["task"] == task
        )
        for task in ("ingest", "verify")
    )
    data = mine.read_bytes()
    mine.write_bytes(
        {"cut short": data[:-4], "of another task": other.read_bytes(), "no JSON": b"\xff", "a list": b"[1]"}[
            damage
        ]
    )
    with pytest.raises(IntegrityError, match="the entry of task `ingest` in the run's journal is damaged"):
        journal().value("ingest", -1)


def test_an_entry_of_a_store_is_bound_to_its_name_and_run(tmp_path: Path) -> None:
    journal = Journal(files_in(tmp_path, "store"))
    journal.record("ingest", -1, journal.begin("ingest", -1), VALUE)
    journal.record("verify", -1, journal.begin("verify", -1), VALUE)
    one, two = (path for path in entries(tmp_path) if path.suffix == ".value")
    one.write_bytes(two.read_bytes())
    two.unlink()
    for task in ("ingest", "verify"):
        with pytest.raises(IntegrityError):
            Journal(files_in(tmp_path, "store")).value(task, -1)


def test_a_link_in_the_place_of_an_entry_is_not_followed(tmp_path: Path) -> None:
    journal = Journal(files_in(tmp_path, "folder"))
    journal.record("ingest", -1, journal.begin("ingest", -1), VALUE)
    entry = next(path for path in entries(tmp_path) if path.suffix == ".value")
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="cannot be read"):
        Journal(files_in(tmp_path, "folder")).value("ingest", -1)


def test_a_store_out_of_reach_is_no_missing_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_in(tmp_path, "store")

    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(files.store.files, "ls", refuse)  # type: ignore[attr-defined]
    with pytest.raises(WorkAreaError, match="could not be listed"):
        Journal(files).value("ingest", -1)


def test_entries_are_private_and_reading_makes_no_work_area(tmp_path: Path) -> None:
    journal = Journal(files_in(tmp_path, "folder"))
    assert journal.is_empty
    assert not list(tmp_path.iterdir())
    journal.record("ingest", -1, journal.begin("ingest", -1), VALUE)
    assert {path.stat().st_mode & 0o777 for path in entries(tmp_path)} == {0o600}
    assert {path.parent.stat().st_mode & 0o777 for path in entries(tmp_path)} == {0o700}


def test_equal_values_have_equal_bytes_and_others_have_others() -> None:
    assert canonical({"a": (1, 2), "b": None}) == canonical({"b": None, "a": [1, 2]})
    values = [1, "1", True, 1.5, None, [], {}, [1], {"a": 1}]
    assert len({canonical(value) for value in values}) == len(values)
