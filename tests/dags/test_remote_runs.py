"""Runs whose work area is an address: each task has a separate folder, and nothing outlives the run."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake
from privacy_release.workarea.presence import Mark, Owner
from privacy_release.workarea.remote.keys import KEY_VARIABLE, Wrapping
from privacy_release.workarea.remote.scratch import Scratch
from privacy_release.workarea.remote.store import Store
from tests.clock import make_older
from tests.dags.conftest import Run

SECRET = "a secret of thirty-two bytes, or more"
DAY = timedelta(days=1)


@pytest.fixture
def store(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Where the work areas of runs are from now on."""
    address = f"file://{tmp_path}/bucket"
    monkeypatch.setenv("PRIVACY_WORK_AREA", address)
    monkeypatch.setenv("PRIVACY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv(KEY_VARIABLE, SECRET)
    return Store(root=address, wrapping=Wrapping(SECRET.encode(), KEY_VARIABLE))


def assert_nothing_is_left(store: Store, folder: Path) -> None:
    assert store.all() == []
    assert list((folder / "scratch").iterdir()) == []


def test_a_release_runs_without_a_common_folder(
    home: Any, run: Any, store: Store, airflow_lake: Lake, tmp_path: Path
) -> None:
    done: Run = run("people")
    assert done.state == "success"
    assert read_release(airflow_lake.table("people"), done.run_id).num_rows == 120
    assert done.returned("release")["uri"].startswith(f"{store.root}/people_")
    assert_nothing_is_left(store, tmp_path)


@pytest.mark.slow  # a whole run
def test_a_step_of_ones_own_reads_and_stages_in_its_tasks_own_folder(
    home: Any, run: Any, store: Store, airflow_lake: Lake, tmp_path: Path
) -> None:
    home.write(transform={"sql": "SELECT * FROM records"})
    done: Run = run("people")
    assert done.state == "success", done.tasks
    assert done.returned("transform")["uri"].startswith(f"{store.root}/people_")
    assert read_release(airflow_lake.table("people"), done.run_id).num_rows == 120
    assert_nothing_is_left(store, tmp_path)


@pytest.mark.slow  # a whole run each; the same clean-up follows the quick run above, and failures of others
@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ("release", {"release": {"method": "mondrian", "k": 121}}),
        ("verify", {"policy": {"require": [{"model": "k_anonymity", "k": 50}]}}),
    ],
)
def test_a_failed_run_leaves_neither_files_nor_keys(
    step: str, fault: dict[str, Any], home: Any, run: Any, store: Store, tmp_path: Path
) -> None:
    home.write(**fault)
    done: Run = run("people")
    assert done.tasks[step] == "failed"
    assert done.tasks["cleanup"] == "success"
    assert_nothing_is_left(store, tmp_path)


def test_without_a_secret_nothing_is_read(
    home: Any, run: Any, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "short")
    assert run("people").tasks["ingest"] == "failed"
    assert not (tmp_path / "bucket").exists()
    assert not (tmp_path / "scratch").exists()


@pytest.mark.slow  # a whole run and its sweep
def test_the_sweeper_removes_files_and_keys_of_a_run_that_is_over(
    home: Any, run: Any, store: Store, tmp_path: Path
) -> None:
    over: Run = run("people")
    for run_id, rested in ((over.run_id, True), ("unknown", True), ("just now", False)):
        key = f"people/{run_id}"
        scratch = Scratch(tmp_path / "other", key, run=store.of(key), mark=Mark(key=key, owner=Owner.RUN))
        with scratch as work:
            work.path("raw.parquet").write_bytes(b"canary")
            work.send(str(work.path("raw.parquet")))
        if rested:
            make_older(Path(store.path(store.of(key).folder, ".mark")), DAY)
    done: Run = run("sweep_work_areas")
    assert done.returned("sweep") == {"removed": 1, "run unknown": 1, "in use": 1}
    assert {area.folder for area in store.all()} == {
        store.of(f"people/{name}").folder for name in ("unknown", "just now")
    }
