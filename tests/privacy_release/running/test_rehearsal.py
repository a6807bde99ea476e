"""A rehearsal reads the source and does nothing else outside of its work area."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from privacy_release.cli.main import DONE, main
from privacy_release.plan.plan import Plan, plan_of
from privacy_release.plan.step import Effect, Slot, Step
from privacy_release.running.context import Running
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.added_step import add_count_rows
from tests.private_run import PRIVATE, run_private

OTHER = {"method": "privbayes", "epsilon": 2}  # paid by no booking yet


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a private release, next to one of another epsilon that is paid and published."""
    places = {"PRIVACY_LAKE": "lake", "PRIVACY_LEDGER": "ledger.db", "PRIVACY_CURATOR": "curator"}
    for name, place in {**places, "PRIVACY_WORK_AREA": "areas"}.items():
        monkeypatch.setenv(name, str(tmp_path / place))
    run_private(tmp_path, tables.people())
    file = tmp_path / "releases" / "people.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"release": OTHER}))
    return file


def kept(folder: Path) -> dict[str, bytes]:
    """All files below a folder that a release leaves behind, the work areas left out."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if path.relative_to(folder).parts[0] != "areas"}


def fail_on_writes(ledger: Path) -> None:
    """Make a ledger raise an error for whatever changes it, also for what would be undone."""
    with closing(sqlite3.connect(ledger)) as database, database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            for verb in ("INSERT", "UPDATE", "DELETE"):
                database.execute(
                    f'CREATE TRIGGER "no_{verb}_{name}" BEFORE {verb} ON "{name}" '
                    "BEGIN SELECT RAISE(ABORT, 'a rehearsal wrote'); END"
                )


@pytest.mark.parametrize(
    "command",
    [
        ["check", "--source", "--cost"],
        ["explore", "--methods", "privbayes", "--sample", "200", "--jobs", "1"],
    ],
    ids=lambda command: command[0],
)
def test_a_rehearsal_writes_to_no_lake_or_ledger_and_only_its_own_page_for_the_curator(
    private: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fail_on_writes(tmp_path / "ledger.db")
    assert main(["run", str(private), "--release-id", "r2"]) != DONE
    assert "SQLITE_CONSTRAINT_TRIGGER" in capsys.readouterr().err
    before = kept(tmp_path)
    assert any("_proof" in name for name in before)
    assert main([command[0], str(private), *command[1:]]) == DONE, capsys.readouterr().err
    after = kept(tmp_path)
    assert {name: after.get(name) for name in before} == before
    new = [Path(name).name for name in after.keys() - before.keys()]
    assert [name.partition("-")[0] for name in new] == (["explore"] if command[0] == "explore" else [])


@pytest.mark.parametrize(
    "effect", [Effect.BOOKS, Effect.WAITS, Effect.COMMITS, Effect.WRITES_TO_CURATOR], ids=lambda e: e.name
)
def test_a_rehearsal_does_no_step_of_a_plan_with_another_effect(tmp_path: Path, effect: Effect) -> None:
    home = tables.write_home(tmp_path / "home", **PRIVATE)
    spec = load_spec(home / "releases" / "people.yaml")
    more = Step(name="more", work="builtins:print", takes=(Slot.TABLE,), effects=frozenset({effect}))
    plan = Plan((*plan_of(spec).rehearsal().steps, more))
    with WorkArea(tmp_path / "work", "run") as work:
        run = Running(spec=spec, schema=spec.data_schema(), release_id="r1", work=work)
        with pytest.raises(ValueError, match=f"step more {effect}, which a rehearsal must not do"):
            run.follow(plan)
        assert not run.handed


def test_a_check_does_a_step_that_was_added_to_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "areas"))
    home = tables.write_home(tmp_path / "home")
    add_count_rows(monkeypatch, folder := tmp_path / "counted")
    assert main(["check", "--source", str(home / "releases" / "people.yaml")]) == DONE, capsys.readouterr()
    assert {file.read_text() for file in folder.iterdir()} == {str(len(tables.people()))}
