"""Which releases a table holds in each mode, and what becomes of those that it holds no more."""

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from privacy_engine.errors import IntegrityError, PublishError, SchemaError
from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.lake import publish as publishing
from privacy_release.lake import superseded
from privacy_release.lake.layout import TableRules, folder_name, set_mode
from privacy_release.lake.log import publications
from privacy_release.lake.publish import CommittedRelease, publish
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.store import Lake
from privacy_release.lake.superseded import Settled, settle
from privacy_release.proof import statement
from privacy_release.proof.check import check_table
from privacy_release.proof.faults import Fault
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.statement import StatementSigner
from privacy_release.workarea.area import sha256_file
from tests.children.fault_points import Crash, arm
from tests.children.processes import Child, kill_me

NAME = "people"
NOW = timedelta(0)
SNAPSHOT = TableRules(mode=PublishMode.SNAPSHOT, grace=NOW)
# What the check reads. Persons are not known to it, so it measures nothing again.
CHECKABLE: dict[str, Any] = {
    "policy": {"require": [{"model": "k_anonymity", "k": 3}]},
    "schema": {"age": {"role": "quasi_identifier", "kind": "categorical"}, "person": "patient"},
    "figures": {},
    "loss": None,
}
RUN = "manual__2026-01-0{}T00:00:00+00:00_abc"


@pytest.fixture
def history(tmp_path: Path) -> Lake:
    return Lake(root=str(tmp_path / "kept apart"))


@pytest.fixture
def kept(history: Lake) -> TableRules:
    return TableRules(mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=history, grace=NOW)


def staged(lake: Lake, value: str, rows: int = 3) -> tuple[Path, Path]:
    folder = Path(lake.root).parent
    data, report = folder / f"{value}.parquet", folder / f"{value}.html"
    pq.write_table(pa.table({"age": [value] * rows}), data)
    report.write_text(value)
    return data, report


def send(
    lake: Lake,
    release_id: str,
    value: str,
    rules: TableRules = SNAPSHOT,
    rows: int = 3,
    manifest: Mapping[str, Any] | None = None,
    **options: Any,
) -> CommittedRelease:
    data, report = staged(lake, value, rows)
    return publish(
        lake.table(NAME), release_id, data, manifest or {"of": value}, report,
        expected_sha256=sha256_file(data), rules=rules, **options,
    )  # fmt: skip


def seen(lake: Lake, name: str = NAME) -> list[str]:
    """What a consumer has who knows nothing of us."""
    return sorted(DeltaTable(lake.table(name).address).to_pandas()["age"])


def states(lake: Lake, name: str = NAME) -> list[tuple[str, str]]:
    return [(entry["release_id"], str(entry["state"])) for entry in releases(lake.table(name))]


def cells_on_disk(lake: Lake, value: str) -> list[Path]:
    return [
        path
        for path in Path(lake.root).rglob("*.parquet")
        if "_delta_log" not in path.parts and value in pq.read_table(path, columns=["age"])["age"].to_pylist()
    ]


def test_after_two_runs_a_consumer_has_the_newest_release_alone(lake: Lake) -> None:
    send(lake, RUN.format(1), "old", rows=30)
    send(lake, RUN.format(2), "new", rows=20)
    assert seen(lake) == ["new"] * 20
    found = (
        duckdb.sql(f"SELECT count(*), min(age) FROM delta_scan('{lake.root}/{NAME}')") if _delta() else None
    )
    assert found is None or found.fetchone() == (20, "new")
    assert states(lake) == [(RUN.format(1), "superseded"), (RUN.format(2), "current")]
    assert read_release(lake.table(NAME), RUN.format(2)).num_rows == 20
    with pytest.raises(PublishError, match="superseded in version 2"):
        read_release(lake.table(NAME), RUN.format(1))
    assert manifest_of(lake.table(NAME), RUN.format(1)) == {"of": "old"}  # what was proven stays


def _delta() -> bool:
    """Whether DuckDB has its extension for Delta tables here; it is loaded from the net at other times."""
    try:
        duckdb.sql("LOAD delta")
    except duckdb.Error:
        return False
    return True


def test_a_column_that_a_snapshot_lacks_is_gone_and_one_that_changed_its_type_is_refused(lake: Lake) -> None:
    send(lake, "a", "old")
    data, report = staged(lake, "wide")
    pq.write_table(pa.table({"age": ["x"], "job": ["y"]}), data)
    publish(lake.table(NAME), "b", data, {}, report, expected_sha256=sha256_file(data), rules=SNAPSHOT)
    assert DeltaTable(lake.table(NAME).address).to_pandas().columns.tolist() == ["age", "job", "release"]
    send(lake, "c", "new")
    assert DeltaTable(lake.table(NAME).address).to_pandas().columns.tolist() == ["age", "release"]
    pq.write_table(pa.table({"age": [1]}), data)
    with pytest.raises(SchemaError, match="keep their type"):
        publish(lake.table(NAME), "d", data, {}, report, expected_sha256=sha256_file(data), rules=SNAPSHOT)
    assert seen(lake) == ["new"] * 3


def test_partitions_and_append_keep_one_release_an_id(lake: Lake, tmp_path: Path) -> None:
    for mode in (PublishMode.PARTITIONS, PublishMode.APPEND):
        place = Lake(root=str(tmp_path / mode / "lake"))
        Path(place.root).mkdir(parents=True)
        rules = TableRules(mode=mode, grace=NOW)
        send(place, RUN.format(1), "one", rules)
        send(place, RUN.format(2), "two", rules)
        send(place, RUN.format(1), "again", rules, run_key="another run")
        assert seen(place) == ["again"] * 3 + ["two"] * 3
        settle(place.table(NAME))
        assert not cells_on_disk(place, "one")
        assert len(cells_on_disk(place, "two")) == 1


# Folders


def test_folders_are_what_a_person_can_read(lake: Lake) -> None:
    done = send(lake, "scheduled__2026-01-01T00:00:00+00:00", "one")
    assert done.release_id == "scheduled__2026-01-01T00:00:00+00:00"
    (file,) = cells_on_disk(lake, "one")
    assert file.parent.name == "release=2026-01-01T000000Z"
    assert set(DeltaTable(lake.table(NAME).address).to_pandas()["release"]) == {"2026-01-01T000000Z"}


def test_no_two_ids_share_a_folder() -> None:
    ids = ["a", "A", "a b", "a/b", "a-b", "2026-01-01", "2026-01-01T000000Z", "%20", "é", "...", "-"]
    ids += ["scheduled__2026-01-01T00:00:00+00:00", "manual__2026-01-01T00:00:00+00:00", "x" * 200, "x" * 201]
    ids += [f"{folder_name(name)}" for name in ids] + [RUN.format(day) for day in range(1, 9)]
    distinct = set(ids)
    assert len({folder_name(name) for name in distinct}) == len(distinct)
    for name in distinct:
        assert set(folder_name(name)) <= set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
        )


# Dropping


def test_superseded_files_stay_for_readers_until_the_grace_is_over(lake: Lake) -> None:
    send(lake, "a", "old", TableRules(mode=PublishMode.SNAPSHOT, grace=timedelta(hours=1)))
    reader = DeltaTable(lake.table(NAME).address)
    send(lake, "b", "new", TableRules(mode=PublishMode.SNAPSHOT, grace=timedelta(hours=1)))
    assert settle(lake.table(NAME)) == Settled(waiting=1)
    assert sorted(reader.to_pandas()["age"]) == ["old"] * 3
    assert settle(lake.table(NAME), grace=NOW) == Settled(erased=1)
    assert settle(lake.table(NAME), grace=NOW) == Settled()
    assert not cells_on_disk(lake, "old")
    assert seen(lake) == ["new"] * 3
    with pytest.raises((FileNotFoundError, OSError)):
        DeltaTable(lake.table(NAME).address, version=1).to_pandas()
    assert clean_orphans(lake.table(NAME), older_than=NOW) == 0
    assert seen(lake) == ["new"] * 3


def test_what_a_running_publication_has_written_is_not_erased(lake: Lake) -> None:
    send(lake, "a", "old")
    half = Path(lake.table(NAME)) / "release=b" / "part-00000-half.parquet"
    half.parent.mkdir()
    half.write_bytes(b"half a file")
    send(lake, "c", "new")
    assert settle(lake.table(NAME)) == Settled(erased=1, waiting=1)
    assert half.exists()


def test_what_another_tool_compacted_goes_too(lake: Lake) -> None:
    send(lake, "a", "old")
    write_deltalake(
        lake.table(NAME).address, DeltaTable(lake.table(NAME).address).to_pyarrow_table(), mode="overwrite"
    )
    send(lake, "b", "new")
    settle(lake.table(NAME))
    assert not cells_on_disk(lake, "old")


def test_a_release_is_not_taken_for_the_one_whose_folder_has_its_name(lake: Lake) -> None:
    rules = TableRules(mode=PublishMode.PARTITIONS)
    scheduled = "scheduled__2026-01-01T00:00:00+00:00"
    send(lake, scheduled, "one", rules)
    send(lake, folder_name(scheduled), "two", rules)
    assert seen(lake) == ["one"] * 3 + ["two"] * 3
    assert [state for _, state in states(lake)] == ["current"] * 2
    retract(lake.table(NAME), folder_name(scheduled), "wrong")
    assert seen(lake) == ["one"] * 3
    assert [state for _, state in states(lake)] == ["current", "retracted"]


def test_what_a_snapshot_with_a_damaged_note_replaced_is_superseded(lake: Lake, history: Lake) -> None:
    rules = TableRules(mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=history, grace=NOW)
    send(lake, "a", "old", rules)
    done = send(lake, "b", "new", rules)
    log = Path(lake.root) / NAME / "_delta_log" / f"{done.version:020d}.json"
    log.write_text(log.read_text().replace('"columns"', '"colums"'))
    assert states(lake) == [("a", "superseded"), ("b", "damaged")]
    settle(lake.table(NAME))
    assert seen(history, "people_history") == ["old"] * 3


def test_rows_whose_note_is_damaged_wait_until_it_is_restored(lake: Lake, history: Lake) -> None:
    rules = TableRules(mode=PublishMode.PARTITIONS, superseded=Superseded.HISTORY, history=history, grace=NOW)
    done = send(lake, "a", "old", rules)
    send(lake, "a", "new", rules, run_key="another run")
    log = Path(lake.root) / NAME / "_delta_log" / f"{done.version:020d}.json"
    whole = log.read_text()
    log.write_text(whole.replace('"columns"', '"colums"'))
    assert settle(lake.table(NAME)) == Settled(waiting=1)
    assert cells_on_disk(lake, "old")
    log.write_text(whole)
    assert settle(lake.table(NAME)) == Settled(moved=1, erased=1)
    assert seen(history, "people_history") == ["old"] * 3


# Keeping a history


def test_history_has_what_was_superseded_and_its_proof(lake: Lake, history: Lake, kept: TableRules) -> None:
    for value in ("one", "two", "three"):
        send(lake, value, value, kept)
        settle(lake.table(NAME))
    assert seen(lake) == ["three"] * 3
    assert not cells_on_disk(lake, "one")
    assert states(history, "people_history") == [("one", "current"), ("two", "current")]
    assert read_release(history.table("people_history"), "one")["age"].to_pylist() == ["one"] * 3
    assert manifest_of(history.table("people_history"), "two") == {"of": "two"}
    assert [s for _, s in states(lake)] == ["superseded", "superseded", "current"]
    before = {entry.release_id: entry for entry in publications(lake.table(NAME))}
    for entry in publications(history.table("people_history")):
        mine = before[entry.release_id]
        assert (entry.sha256, entry.manifest_sha256, entry.figures) == (
            mine.sha256, mine.manifest_sha256, mine.figures,
        )  # fmt: skip
    assert settle(lake.table(NAME)) == Settled()


def test_a_partition_that_was_replaced_twice_is_in_the_history_twice(lake: Lake, history: Lake) -> None:
    rules = TableRules(mode=PublishMode.PARTITIONS, superseded=Superseded.HISTORY, history=history, grace=NOW)
    for value in ("one", "two", "three"):
        send(lake, "2026-01-01", value, rules, run_key=value)
        send(lake, "2026-01-02", f"other {value}", rules, run_key=f"other {value}")
    settle(lake.table(NAME))
    assert seen(lake) == ["other three"] * 3 + ["three"] * 3
    assert set(seen(history, "people_history")) == {"one", "two", "other one", "other two"}
    retract(lake.table(NAME), "2026-01-01", "wrong")
    assert set(seen(history, "people_history")) == {"other one", "other two"}


def test_retraction_removes_from_table_history_and_old_versions(
    lake: Lake, history: Lake, kept: TableRules
) -> None:
    for value in ("one", "two", "three"):
        send(lake, value, value, kept)
    settle(lake.table(NAME))
    done = retract(lake.table(NAME), "one", "wrong")
    assert not done.already
    assert retract(lake.table(NAME), "one", "wrong").already
    for value in ("one",):
        assert not cells_on_disk(lake, value)
        assert not cells_on_disk(history, value)
    assert seen(history, "people_history") == ["two"] * 3
    assert seen(lake) == ["three"] * 3
    retract(lake.table(NAME), "three", "wrong as well")
    assert seen(lake) == []
    assert not cells_on_disk(lake, "three")
    assert states(lake) == [("one", "retracted"), ("two", "superseded"), ("three", "retracted")]
    with pytest.raises(PublishError, match="retracted"):
        send(lake, "one", "one", kept)


def test_a_superseded_release_is_retracted_before_its_grace_is_over(lake: Lake) -> None:
    rules = TableRules(mode=PublishMode.SNAPSHOT, grace=timedelta(hours=1))
    send(lake, "a", "old", rules)
    send(lake, "b", "new", rules)
    retract(lake.table(NAME), "a", "wrong")
    assert not cells_on_disk(lake, "old")
    assert seen(lake) == ["new"] * 3
    assert states(lake) == [("a", "retracted"), ("b", "current")]


def test_a_release_that_is_retracted_while_it_moves_is_taken_back(
    lake: Lake, history: Lake, kept: TableRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(lake, "a", "old", kept)
    send(lake, "b", "new", kept)
    move = superseded._move

    def retracted_meanwhile(*given: Any) -> bool:
        retract(lake.table(NAME), "a", "wrong") if not states(history, "people_history") else None
        return move(*given)

    rows = superseded._rows  # they are open by the time of the retraction
    opened = [rows(lake.table(NAME), publications(lake.table(NAME))[0], "a-v1").read_all()]
    monkeypatch.setattr(superseded, "_rows", lambda *given: opened[0].to_reader())
    monkeypatch.setattr(superseded, "_move", retracted_meanwhile)
    monkeypatch.setattr(superseded, "get", lambda *given: b"{}")
    settle(lake.table(NAME))
    assert not cells_on_disk(history, "old")
    assert states(history, "people_history") == [("a", "retracted")]


def test_of_two_that_move_a_release_at_once_one_moves_it(
    lake: Lake, history: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = TableRules(mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=history)
    send(lake, "a", "old", rules)
    send(lake, "b", "new", rules)
    move = superseded._move

    def after_another(*given: Any) -> bool:
        monkeypatch.setattr(superseded, "_move", move)
        assert settle(lake.table(NAME)).moved == 1
        return move(*given)

    monkeypatch.setattr(superseded, "_move", after_another)
    assert settle(lake.table(NAME)).moved == 0
    assert seen(history, "people_history") == ["old"] * 3


@pytest.mark.parametrize("rows", [1, 4], ids=["fewer", "more"])
def test_rows_that_another_tool_changed_are_not_moved_nor_erased(
    lake: Lake, kept: TableRules, rows: int
) -> None:
    send(lake, "a", "old", kept)
    DeltaTable(lake.table(NAME).address).delete("release = 'a'")
    other = pa.table({"age": ["old"] * rows, "release": ["a"] * rows})
    write_deltalake(lake.table(NAME).address, other, mode="append")
    send(lake, "b", "new", kept)
    with pytest.raises(IntegrityError, match="must hold 3 rows"):
        settle(lake.table(NAME))
    assert cells_on_disk(lake, "old")


def test_a_history_has_its_own_lake_and_table(lake: Lake, history: Lake, kept: TableRules) -> None:
    shared = TableRules(mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=lake)
    with pytest.raises(ValueError, match="must have another address"):
        send(lake, "a", "one", shared)
    send(lake, "a", "one", kept)
    other = TableRules(
        mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=Lake(root=history.root + "2")
    )
    with pytest.raises(PublishError, match="name the same lake"):
        send(lake, "b", "two", other)
    with pytest.raises(PublishError, match="kept in"):
        settle(lake.table(NAME), history=Lake(root=history.root + "2"))
    send(lake, "b", "two", kept)
    settle(lake.table(NAME))
    data, report = staged(lake, "own")
    with pytest.raises(PublishError, match="is the history of table people"):
        publish(history.table("people_history"), "c", data, {}, report, expected_sha256=sha256_file(data))


# Modes


@pytest.mark.parametrize("mode", list(PublishMode))
@pytest.mark.parametrize("other", list(PublishMode))
def test_a_table_of_one_mode_refuses_another(lake: Lake, mode: PublishMode, other: PublishMode) -> None:
    send(lake, "a", "old", TableRules(mode=mode))
    if mode is other:
        send(lake, "b", "new", TableRules(mode=other))
        return
    with pytest.raises(PublishError, match=f"mode {mode}, but this release requires {other}"):
        send(lake, "b", "new", TableRules(mode=other))
    assert seen(lake) == ["old"] * 3
    assert set_mode(lake.table(NAME), other) is mode
    send(lake, "b", "new", TableRules(mode=other))
    assert set(seen(lake)) == {"new"} | ({"old"} if other is not PublishMode.SNAPSHOT else set())


def earlier_version(lake: Lake, values: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A table as the version before this one wrote it: raw folders, notes without mode, no rules."""
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "folder_name", lambda release_id: release_id)
        patch.setattr(TableRules, "properties", lambda self: {})
        for day, value in enumerate(values, start=1):
            send(lake, RUN.format(day), value, TableRules())


def test_a_table_of_an_earlier_version_is_read_and_goes_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier_version(lake, ["one", "two", "three"], monkeypatch)
    assert [s for _, s in states(lake)] == ["current"] * 3
    assert read_release(lake.table(NAME), RUN.format(1))["age"].to_pylist() == ["one"] * 3
    assert settle(lake.table(NAME), grace=NOW) == Settled()
    with pytest.raises(PublishError, match="written by an earlier version"):
        send(lake, RUN.format(4), "four")
    assert len(seen(lake)) == 9
    partitions = TableRules(grace=NOW)
    send(lake, RUN.format(1), "again", partitions, run_key="later")
    assert set(seen(lake)) == {"again", "two", "three"}
    retract(lake.table(NAME), RUN.format(2), "wrong")
    assert set(seen(lake)) == {"again", "three"}
    assert not cells_on_disk(lake, "two")
    set_mode(lake.table(NAME), PublishMode.SNAPSHOT)
    send(lake, RUN.format(4), "four")
    settle(lake.table(NAME))
    assert seen(lake) == ["four"] * 3
    assert not cells_on_disk(lake, "three")


def test_a_retry_finds_its_commit_though_it_was_superseded_since(lake: Lake) -> None:
    first = send(lake, "a", "old", run_key="run")
    send(lake, "b", "new")
    again = send(lake, "a", "old", run_key="run")
    assert again.already
    assert again.version == first.version
    assert seen(lake) == ["new"] * 3


# Races and crashes


def test_of_snapshots_at_once_one_is_current_and_none_is_lost(lake: Lake) -> None:
    for value in "abcd":
        staged(lake, value)
    threads = [threading.Thread(target=send, args=(lake, value, value)) for value in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = seen(lake)
    assert len(found) == 3
    assert len(set(found)) == 1
    assert sorted(state for _, state in states(lake)) == ["current"] + ["superseded"] * 3
    (current,) = [release for release, state in states(lake) if state == "current"]
    assert found[0] == current


def test_a_snapshot_that_another_overtakes_replaces_that(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    arm("before_commit", lambda: send(lake, "a", "one"), monkeypatch.setattr)
    send(lake, "b", "two")
    assert seen(lake) == ["two"] * 3
    assert states(lake) == [("a", "superseded"), ("b", "current")]


def test_a_reader_sees_the_old_release_or_the_new_one(lake: Lake) -> None:
    send(lake, "0", "0")
    over = threading.Event()
    found: list[list[str]] = []

    def read() -> None:
        while not over.is_set():
            found.append(seen(lake))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 8):
        send(lake, str(number), str(number), TableRules(mode=PublishMode.SNAPSHOT))
    over.set()
    reader.join()
    assert found
    assert all(len(rows) == 3 and len(set(rows)) == 1 for rows in found)
    assert [rows[0] for rows in found] == sorted(rows[0] for rows in found)


def crash() -> None:
    raise Crash


def publish_and_settle(
    place: Lake,
    apart: Lake,
    key: SigningKey,
    end_before: int,
    end: Callable[[], None],
    patch: pytest.MonkeyPatch,
) -> int:
    """Publish a signed snapshot and move what it replaced, but end before the n-th write; their count."""
    writes = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any, **options: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == end_before:
                end()
            return function(*given, **options)

        return write

    data, report = staged(place, "new")
    put = counted(publishing.put)
    for module in (publishing, superseded, statement):
        patch.setattr(module, "put", put)
    patch.setattr(superseded, "remove", counted(superseded.remove))
    write = counted(deltalake.write_deltalake)
    for module in (publishing, superseded):
        patch.setattr(module, "write_deltalake", write)
    patch.setattr(DeltaTable, "create", counted(DeltaTable.create))
    rules = TableRules(mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=apart, grace=NOW)
    publish(
        place.table(NAME), "b", data, CHECKABLE, report,
        expected_sha256=sha256_file(data), rules=rules, signer=StatementSigner(key=key),
    )  # fmt: skip
    settle(place.table(NAME), history=apart)
    return writes


def publish_and_settle_alone(place: Lake, apart: Lake, pem: bytes, end_before: int) -> int:
    """The same in a process that is killed."""
    key = SigningKey.from_pem(pem, "the test")
    return publish_and_settle(place, apart, key, end_before, kill_me, pytest.MonkeyPatch())


@pytest.mark.parametrize("end", ["crash", pytest.param("kill", marks=pytest.mark.slow)])
def test_ended_before_any_write_a_retry_ends_as_if_nothing_had_happened(tmp_path: Path, end: str) -> None:
    """Only a kill shows what stays where no clean-up runs."""
    key = SigningKey.new()
    signer = StatementSigner(key=key)

    def attempt(place: Lake, apart: Lake, end_before: int) -> int | None:
        if end == "kill":
            child = Child(publish_and_settle_alone, place, apart, key.pem(), end_before)
            return child.ended()
        with pytest.MonkeyPatch.context() as patch, suppress(Crash):
            return publish_and_settle(place, apart, key, end_before, crash, patch)
        return None

    home, published = tmp_path / "home", tmp_path / "published"
    place, apart = Lake(root=str(home / "lake")), Lake(root=str(home / "apart"))
    home.mkdir()
    rules = TableRules(mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=apart, grace=NOW)
    send(place, "a", "old", rules, manifest=CHECKABLE, signer=signer)
    home.rename(published)
    writes, unproven = 0, 0
    for end_before in range(1, 100):
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(published, home)
        done = attempt(place, apart, end_before)
        if done is not None:
            writes = done
            break
        assert seen(place) in (["old"] * 3, ["new"] * 3)
        before = check_table(place.table(NAME), [key.public])
        if not before.right:  # it ended between its commit and the statement about its files
            assert seen(place) == ["new"] * 3
            (reason,) = before.reasons
            assert (reason.fault, reason.release) == (Fault.STATEMENT_MISSING, "b")
            assert "about the data files, is not there: if its publication was interrupted" in reason.text
            unproven += 1
        send(place, "b", "new", rules, manifest=CHECKABLE, signer=signer)
        settle(place.table(NAME))
        assert seen(place) == ["new"] * 3
        assert seen(apart, "people_history") == ["old"] * 3
        assert states(place) == [("a", "superseded"), ("b", "current")]
        assert states(apart, "people_history") == [("a", "current")]
        assert read_release(apart.table("people_history"), "a").num_rows == 3
        assert manifest_of(apart.table("people_history"), "a") == CHECKABLE
        assert not cells_on_disk(place, "old")
        clean_orphans(place.table(NAME), older_than=NOW)
        clean_orphans(apart.table("people_history"), older_than=NOW)
        assert [len(cells_on_disk(place, "new")), len(cells_on_disk(apart, "old"))] == [1, 1]
        after = check_table(place.table(NAME), [key.public])
        assert (after.right, after.sequence) == (True, 2), after.reasons
    assert unproven == 1
    # Two proofs, two statements and the commit; two proofs, the history twice, the erasure.
    assert writes == end_before - 1 >= 10
