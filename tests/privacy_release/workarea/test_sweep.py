"""What a sweeper removes, and that nothing that someone uses or waits for ever goes."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from privacy_release.workarea import presence
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.presence import LOCK, Owner
from privacy_release.workarea.sweep import AreaState, SweepRules, idle_limit, sweep
from tests.waiting import wait_for

HOUR = timedelta(hours=1)
OTHER_HOST = "Linux another-kernel 1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "areas"


def area(root: Path, key: str, owner: Owner = Owner.PROCESS) -> WorkArea:
    """One with records in it, that no one uses."""
    with WorkArea(root, key, owner) as work:
        work.path("raw.parquet").write_bytes(b"canary")
        (work.folder / "engine-1").mkdir()
        (work.folder / "engine-1" / "spilled").write_bytes(b"canary")
    return work


def mark(work: WorkArea, **fields: object) -> None:
    lock = work.folder / LOCK
    lock.write_text(json.dumps(json.loads(lock.read_text()) | fields))


def rest(work: WorkArea, span: timedelta) -> None:
    """As if its last heartbeat were so long ago."""
    lock = work.folder / LOCK
    then = lock.stat().st_mtime - span.total_seconds()
    os.utime(lock, (then, then))


def states(root: Path, **rules: object) -> dict[str, str]:
    return {found.name: str(found.state) for found in sweep(root, SweepRules(**{"idle": HOUR} | rules))}


def killed(root: Path, key: str) -> None:
    """A process that makes an area with records, and is killed in it."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from privacy_release.workarea.area import WorkArea\n"
        "with WorkArea(Path(sys.argv[1]), sys.argv[2]) as work:\n"
        "    work.path('raw').write_bytes(b'canary')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(root), key], check=False).returncode == -9


@contextmanager
def living(root: Path, key: str) -> Iterator[None]:
    """Another process that uses an area."""
    code = (
        "import sys; from pathlib import Path; from privacy_release.workarea.area import WorkArea\n"
        "with WorkArea(Path(sys.argv[1]), sys.argv[2]):\n"
        "    print('in', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(root), key]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"in\n"
            yield
        finally:
            child.kill()


def test_the_area_of_a_killed_process_goes_at_once_and_that_of_a_living_one_stays(root: Path) -> None:
    killed(root, "dead")
    with living(root, "alive"):
        assert states(root, dry=True) == {"dead": "abandoned", "alive": "in use"}
        assert states(root) == {"dead": "removed", "alive": "in use"}
        rest(WorkArea(root, "alive"), 100 * HOUR)
        assert states(root) == {"alive": "in use"}
    assert states(root) == {"alive": "removed"}
    assert list(root.iterdir()) == []


def test_the_area_of_another_host_goes_when_its_heart_has_not_beaten_for_long(root: Path) -> None:
    work = area(root, "elsewhere")
    mark(work, reach=OTHER_HOST)
    assert states(root) == {"elsewhere": "in use"}
    rest(work, HOUR)
    assert states(root) == {"elsewhere": "removed"}


def test_where_the_file_system_has_no_locks_the_heartbeat_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(handle: int, operation: int) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    work = area(root, "on a plain share")
    assert states(root) == {"on a plain share": "in use"}
    rest(work, HOUR)
    assert states(root) == {"on a plain share": "removed"}


def test_the_heart_beats_while_the_area_is_in_use(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beaten = threading.Event()
    touch = presence.touch

    def touched(handle: int) -> None:
        touch(handle)
        if threading.current_thread() is not threading.main_thread():
            beaten.set()

    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.001)
    monkeypatch.setattr(presence, "touch", touched)
    with WorkArea(root, "busy") as work:
        rest(work, 100 * HOUR)
        beaten.clear()
        wait_for(beaten.is_set, "a beat of the heart")
        assert states(root, dry=True) == {"busy": "in use"}
        mark(work, reach=OTHER_HOST)
        (found,) = sweep(root, SweepRules(idle=HOUR))
        assert found.idle < HOUR


@pytest.mark.parametrize(
    ("over", "expected"), [(True, "removed"), (False, "run not over"), (None, "run unknown")]
)
def test_the_area_of_a_run_lives_as_long_as_airflow_says(
    root: Path, over: bool | None, expected: str
) -> None:
    work = area(root, "dag/run 1", Owner.RUN)
    requests: list[str] = []

    def is_over(key: str) -> bool | None:
        requests.append(key)
        return over

    assert states(root, is_over=is_over) == {"dag/run 1": "in use"}  # a heartbeat: a task may be at work
    rest(work, 24 * HOUR)
    assert states(root) == {"dag/run 1": "of an Airflow run"}
    assert requests == []
    assert states(root, is_over=is_over) == {"dag/run 1": expected}
    assert requests == ["dag/run 1"]
    assert work.folder.exists() == (expected != "removed")


def test_the_area_of_an_unknown_run_goes_only_where_that_is_wanted(root: Path) -> None:
    rest(area(root, "dag/run 1", Owner.RUN), HOUR)
    assert states(root, is_over=lambda key: None, unknown_runs=True) == {"dag/run 1": "removed"}


def test_an_area_that_someone_wants_to_keep_stays_until_they_say_so(root: Path) -> None:
    with WorkArea(root, "looked into") as work:
        work.keep()
    assert states(root) == {"looked into": "kept"}
    assert states(root, kept=True) == {"looked into": "removed"}


def test_a_folder_without_a_mark_stays_unless_nothing_is_in_it(root: Path) -> None:
    WorkArea(root, "of an earlier version").path("raw.parquet").write_bytes(b"canary")
    WorkArea(root, "never begun").create()
    (WorkArea(root, "just begun").create().folder / LOCK).touch()
    begun = WorkArea(root, "begun long ago").create()
    (begun.folder / LOCK).touch()
    rest(begun, HOUR)
    (root / "a file").touch()
    (root / "link").symlink_to(root.parent)
    found = {folder.rpartition("-")[0]: state for folder, state in states(root).items()}
    assert found == {
        "of_an_earlier_version": "no mark",
        "just_begun": "in use",
        "begun_long_ago": "removed",
    }
    assert not WorkArea(root, "never begun").folder.exists()


def test_a_sweep_that_is_killed_leaves_what_the_next_one_removes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area(root, "dead")

    def stop(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stop)
        with pytest.raises(KeyboardInterrupt):
            sweep(root, SweepRules(idle=HOUR))
    assert states(root) == {"dead": "removed"}
    assert list(root.iterdir()) == []


def test_many_sweepers_at_once_remove_each_dead_area_once_and_no_living_one(root: Path) -> None:
    for i in range(40):
        area(root, f"dead {i}")
    with WorkArea(root, "alive") as work, ThreadPoolExecutor(8) as pool:
        work.path("raw").write_bytes(b"x")
        reported = list(pool.map(lambda _: sweep(root, SweepRules(idle=HOUR)), range(8)))
    removed = [found.name for each in reported for found in each if found.state is AreaState.REMOVED]
    assert sorted(removed) == sorted(f"dead {i}" for i in range(40))
    assert not [found for each in reported for found in each if found.state is AreaState.STUCK]
    assert list(root.iterdir()) == [work.folder]
    assert work.path("raw").read_bytes() == b"x"


def test_an_area_that_is_entered_while_sweepers_look_keeps_its_files(root: Path) -> None:
    """The tasks of a run come and go, and the sweepers believe that it is over: the worst case."""
    over, removed, entered = threading.Event(), threading.Event(), count()
    rules = SweepRules(idle=timedelta(0), is_over=lambda key: True)

    def keep_sweeping() -> None:
        while not over.is_set():
            if any(found.state is AreaState.REMOVED for found in sweep(root, rules)):
                removed.set()

    def enter() -> bool:
        number = next(entered)
        with WorkArea(root, "dag/run 1", Owner.RUN) as work:
            path = work.path(f"{number}.parquet")
            path.write_bytes(b"x")
            assert (work.folder / LOCK).exists()
            assert path.read_bytes() == b"x"
        return number >= 80 and removed.is_set()

    with ThreadPoolExecutor(2) as pool:
        sweepers = [pool.submit(keep_sweeping) for _ in range(2)]
        try:
            wait_for(enter, "a sweeper that removes the area between two tasks", every=0)
        finally:
            over.set()
        for sweeper in sweepers:
            sweeper.result()


def test_what_cannot_be_removed_is_reported_and_the_others_go(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn, other = area(root, "stubborn"), area(root, "other")
    rmtree = shutil.rmtree

    def refuse(path: Path) -> None:
        if path.parent == stubborn.folder:
            raise PermissionError(13, "Permission denied", str(path))
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    found = {looked.name: (looked.state, looked.problem) for looked in sweep(root, SweepRules(idle=HOUR))}
    assert found == {"stubborn": (AreaState.STUCK, "Permission denied"), "other": (AreaState.REMOVED, "")}
    assert not other.folder.exists()


def test_nothing_is_swept_below_a_folder_that_does_not_exist(root: Path) -> None:
    assert sweep(root, SweepRules(idle=HOUR)) == []


def test_the_limit_is_six_hours_unless_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert idle_limit() == 6 * HOUR
    monkeypatch.setenv("PRIVACY_WORK_AREA_IDLE", "2 days")
    assert idle_limit() == 48 * HOUR
    monkeypatch.setenv("PRIVACY_WORK_AREA_IDLE", "soon")
    with pytest.raises(ValueError, match=r"PRIVACY_WORK_AREA_IDLE .* must be a whole number of minutes"):
        idle_limit()
