"""A damaged log of a table is refused and never started again; a damaged note hides no other release."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from privacy_engine.errors import EngineError, IntegrityError
from privacy_release.lake.log import predicate
from privacy_release.lake.publish import CommittedRelease, publish
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.store import Lake
from privacy_release.query.rules import QueryError
from privacy_release.query.sources import take_snapshot
from privacy_release.workarea.area import sha256_file

NAME = "people"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(root=str(tmp_path / "lake"))


def send(lake: Lake, release_id: str, rows: int = 3) -> CommittedRelease:
    folder = Path(lake.root).parent
    staged, report = folder / "staged.parquet", folder / "report.html"
    pq.write_table(pa.table({"age": [release_id] * rows}), staged)
    report.write_text(release_id)
    manifest = {"method": "mondrian", "measured": [], "loss": None, "release": release_id}
    return publish(
        lake.table(NAME), release_id, staged, manifest, report, expected_sha256=sha256_file(staged)
    )


def log_of(lake: Lake) -> Path:
    return Path(lake.root) / NAME / "_delta_log"


def commit_of(lake: Lake, version: int) -> Path:
    return log_of(lake) / f"{version:020d}.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake with three releases, which tests copy."""
    folder = tmp_path_factory.mktemp("made")
    for release_id in ("a", "b", "c"):
        send(Lake(root=str(folder / "lake")), release_id)
    return folder


@pytest.fixture
def three(lake: Lake, made: Path) -> Lake:
    """Three releases, in versions 1 to 3."""
    shutil.copytree(made, Path(lake.root).parent, dirs_exist_ok=True)
    return lake


def checkpoint(lake: Lake) -> Path:
    """A checkpoint of the newest version."""
    DeltaTable(lake.table(NAME).address).create_checkpoint()
    return next(log_of(lake).glob("*.checkpoint.parquet"))


def vanish(lake: Lake) -> None:
    shutil.rmtree(log_of(lake))


def empty(lake: Lake) -> None:
    for file in log_of(lake).iterdir():
        file.unlink()


def lose_one(lake: Lake) -> None:
    commit_of(lake, 2).unlink()


def lose_one_before_a_checkpoint(lake: Lake) -> None:
    checkpoint(lake)
    lose_one(lake)


def lose_the_first(lake: Lake) -> None:
    commit_of(lake, 0).unlink()


def lose_a_checkpoint(lake: Lake) -> None:
    checkpoint(lake).unlink()


def lose_a_part_of_a_checkpoint(lake: Lake) -> None:
    whole = checkpoint(lake)
    whole.rename(whole.with_name(whole.name.replace(".parquet", ".0000000001.0000000002.parquet")))


def cut_a_checkpoint(lake: Lake) -> None:
    whole = checkpoint(lake)
    whole.write_bytes(whole.read_bytes()[:-50])


def cut_a_commit(lake: Lake) -> None:
    text = commit_of(lake, 2).read_text()
    commit_of(lake, 2).write_text(text[: len(text) // 2])


def cut_a_commit_before_a_checkpoint(lake: Lake) -> None:
    checkpoint(lake)
    cut_a_commit(lake)


def blank_a_commit(lake: Lake) -> None:
    commit_of(lake, 2).write_text("")


DAMAGES: dict[Callable[[Lake], None], str] = {
    vanish: "has no commit, but the table has 3 data files",
    empty: "has no commit, but the table has 3 data files",
    lose_one: "misses 1 commits, the first of which is version 2",
    lose_one_before_a_checkpoint: "misses 1 commits, the first of which is version 2",
    lose_the_first: "begins at version 1, without a checkpoint",
    lose_a_checkpoint: "names a checkpoint in _last_checkpoint that does not exist",
    lose_a_part_of_a_checkpoint: "names a checkpoint in _last_checkpoint that does not exist",
    cut_a_checkpoint: "has a checkpoint that cannot be read, of version 3",
    cut_a_commit: "has a commit that cannot be read, version 2",
    cut_a_commit_before_a_checkpoint: "has a commit that cannot be read, version 2",
    blank_a_commit: "has a commit that cannot be read, version 2",
}


# What is reported of releases stands in the commits; a checkpoint says what a table holds.
LISTED = {lose_a_checkpoint, lose_a_part_of_a_checkpoint, cut_a_checkpoint}


@pytest.mark.parametrize(("damage", "expected"), DAMAGES.items(), ids=[damage.__name__ for damage in DAMAGES])
def test_a_damaged_log_is_refused_with_a_remedy_and_nothing_is_started_again(
    three: Lake, damage: Callable[[Lake], None], expected: str
) -> None:
    damage(three)
    before = sorted(Path(three.root).rglob("*"))
    requested: list[Callable[[], Any]] = [
        lambda: send(three, "d"),
        lambda: read_release(three.table(NAME), "a"),
    ]
    if damage in LISTED:
        assert [entry["release_id"] for entry in releases(three.table(NAME))] == ["a", "b", "c"]
    else:
        requested.append(lambda: releases(three.table(NAME)))
    for ask in requested:
        with pytest.raises(IntegrityError) as caught:
            ask()
        assert f"the log of table {NAME} in the lake at {three.root} must be whole, and {expected}" in str(
            caught.value
        )
        assert "from a backup" in str(caught.value)
    kept = {path for path in before if "_proof" not in path.parts}
    assert {path for path in Path(three.root).rglob("*") if "_proof" not in path.parts} == kept


def test_the_hint_may_be_removed_where_all_commits_are_there(three: Lake) -> None:
    lose_a_checkpoint(three)
    (log_of(three) / "_last_checkpoint").unlink()
    assert [entry["release_id"] for entry in releases(three.table(NAME))] == ["a", "b", "c"]


def test_a_first_publication_that_crashed_before_the_table_was_made_is_no_damage(lake: Lake) -> None:
    (Path(lake.root) / "_proof" / NAME).mkdir(parents=True)
    (Path(lake.root) / "_proof" / NAME / f"{'0' * 64}.json").write_text("{}")
    log_of(lake).mkdir(parents=True)
    assert releases(lake.table(NAME)) == []
    assert send(lake, "a").version == 1


def rewrite_note(lake: Lake, version: int, change: Callable[[Any], Any]) -> None:
    """Put another note into a commit."""
    actions = [json.loads(line) for line in commit_of(lake, version).read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["privacy_release"] = change(action["commitInfo"]["privacy_release"])
    commit_of(lake, version).write_text("\n".join(map(json.dumps, actions)))


NOTES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no mapping": (lambda note: "{not JSON", "the note must be a mapping"),
    "nothing": (lambda note: None, "the note must be a mapping"),
    "no action": (lambda note: {}, "the note must be with an action"),
    "a missing key": (lambda note: {k: v for k, v in note.items() if k != "rows"}, "rows is missing"),
    "a wrong type": (lambda note: note | {"columns": "canary"}, "columns must be a list"),
    "a wrong hash": (lambda note: note | {"manifest": "canary"}, "manifest must be a sha256"),
    "a wrong figure": (lambda note: note | {"figures": {"loss": {}}}, "figures.loss.epsilon is missing"),
}


@pytest.mark.parametrize(("change", "expected"), NOTES.values(), ids=NOTES)
def test_a_damaged_note_is_named_and_hides_no_other_release(
    three: Lake, change: Callable[[Any], Any], expected: str
) -> None:
    rewrite_note(three, 2, change)
    listed = releases(three.table(NAME))
    assert [(e["release_id"], e["version"], e["state"]) for e in listed] == [
        ("a", 1, "current"),
        ("b", 2, "damaged"),
        ("c", 3, "current"),
    ]
    assert expected in listed[1]["problem"]
    for ask in (read_release, manifest_of):
        with pytest.raises(IntegrityError) as caught:
            ask(three.table(NAME), "b")
        assert f"the note of release b in version 2 of table {NAME} must be as it was written" in str(
            caught.value
        )
        assert expected in str(caught.value)
        assert "canary" not in str(caught.value)
    assert read_release(three.table(NAME), "c").num_rows == 3
    assert manifest_of(three.table(NAME), "a")["release"] == "a"
    assert send(three, "d").version == 4


def test_a_release_that_a_damaged_publication_replaced_is_not_reported_as_current(lake: Lake) -> None:
    send(lake, "a")
    staged = Path(lake.root).parent / "staged.parquet"
    report = staged.with_name("report.html")
    publish(lake.table(NAME), "a", staged, {}, report, expected_sha256=sha256_file(staged), run_key="later")
    rewrite_note(lake, 2, lambda note: note | {"release": 7})
    assert [entry["state"] for entry in releases(lake.table(NAME))] == ["superseded", "damaged"]


def test_a_query_that_names_no_release_does_not_pass_over_a_damaged_one(three: Lake) -> None:
    rewrite_note(three, 3, lambda note: "text")
    with pytest.raises(QueryError, match="release c of table people, version 3, has a damaged note"):
        take_snapshot(three, NAME, None, every_release=False)
    seen = take_snapshot(three, NAME, "a", every_release=False)
    assert [source.release for source in seen.sources] == ["a"]


def test_a_release_with_a_damaged_note_can_be_retracted_and_its_proofs_stay(three: Lake) -> None:
    rewrite_note(three, 2, lambda note: "text")
    proofs = set((Path(three.root) / "_proof" / NAME).iterdir())
    clean_orphans(three.table(NAME), older_than=timedelta(0))
    assert set((Path(three.root) / "_proof" / NAME).iterdir()) == proofs
    retract(three.table(NAME), "b", "the note was damaged")
    assert [e["state"] for e in releases(three.table(NAME))] == ["current", "retracted", "current"]
    assert send(three, "b2").version == 5


def test_a_release_that_was_retracted_by_its_folder_stays_so_when_its_note_is_restored(lake: Lake) -> None:
    send(lake, "scheduled__2026-01-01T00:00:00+00:00")
    whole = commit_of(lake, 1).read_text()
    rewrite_note(lake, 1, lambda note: "text")
    retract(lake.table(NAME), "2026-01-01T000000Z", "the note was damaged")
    commit_of(lake, 1).write_text(whole)
    (entry,) = releases(lake.table(NAME))
    assert (entry["release_id"], entry["state"]) == ("scheduled__2026-01-01T00:00:00+00:00", "retracted")


def test_a_partition_with_a_quote_selects_no_other() -> None:
    assert predicate(["b", "a' OR 'x"]) == "release = 'a'' OR ''x' OR release = 'b'"


def test_a_breakdown_of_the_delta_library_is_an_error_of_ours(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake[1"))  # an address that it breaks down over when it writes
    with pytest.raises(EngineError, match=r"the attempt to commit the release .* breakdown \(panic\)"):
        send(lake, "a")
